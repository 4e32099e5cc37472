package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// listed reads a list to its end, and returns the ids in it.
func listed(t *testing.T, d *door, target string) (ids []string, last ops.MessageList) {
	t.Helper()
	for cursor := ""; ; {
		page := target
		if cursor != "" {
			page += "&cursor=" + url.QueryEscape(cursor)
		}
		last = ops.MessageList{}
		if err := json.Unmarshal([]byte(call(t, d, "GET", page, "").want(t, 200, "").raw), &last); err != nil {
			t.Fatal(err)
		}
		for i := range last.Messages {
			ids = append(ids, last.Messages[i].ID)
		}
		if cursor = last.Cursor; cursor == "" {
			slices.Sort(ids)
			return ids, last
		}
	}
}

// stocked is a store without a journal that has a message in each state.
func stocked(t *testing.T) *door {
	t.Helper()
	d := open(t)
	push := func(id, topic, rest string) {
		t.Helper()
		call(t, d, "POST", "/v1/messages", fmt.Sprintf(`{"id":%q,"topic":%q,%s}`, id, topic, rest)).want(t, 201, "")
	}
	leased := func(topic string) string {
		t.Helper()
		a := call(t, d, "POST", "/v1/topics/"+topic+"/pull", `{"max":1,"wait":"5s"}`).want(t, 200, "")
		list, _ := a.json["messages"].([]any)
		one, _ := list[0].(map[string]any)
		receipt, _ := one["receipt"].(string)
		return receipt
	}
	for i := range 7 {
		push(fmt.Sprintf("waits-%d", i), "orders.remind", fmt.Sprintf(`"delay":"%dm"`, 10+i))
	}
	push("keyed", "orders.paid", `"delay":"1h","key":"k"`)
	push("again", "orders.remind", `"delay":"1h"`)
	push("again", "orders.paid", `"delay":"2h"`)
	push("dead", "jobs.dead", `"delay":"0s","deliver":"pull"`)
	call(t, d, "POST", "/v1/leases/"+leased("jobs.dead")+"/dead", "").want(t, 200, "")
	push("leased", "jobs.leased", `"delay":"0s","deliver":"pull"`)
	leased("jobs.leased")
	push("ready", "jobs.ready", `"delay":"0s","deliver":"pull"`)
	push("later", "jobs.ready", `"delay":"1h","deliver":"pull"`)
	push("canceled", "orders.remind", `"delay":"1h"`)
	call(t, d, "DELETE", "/v1/messages/canceled", "").want(t, 200, "")
	push("flies", "mail.out", `"delay":"0s"`)
	push("held-2", "mail.out", `"delay":"0s"`)
	push("held-1", "mail.out", `"delay":"0s"`)
	for bucket := range d.timeline.Buckets() {
		got, err := d.timeline.Claim(t.Context(), bucket, scheduler.Claim{Term: 1, Number: 1,
			Now: message.CeilMilli(time.Now().Add(time.Second)), Limit: 10, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			if m.ID == "flies" {
				continue
			}
			err := d.timeline.Return(t.Context(), bucket, 1, []scheduler.Back{{UID: m.UID, Claim: m.Claim, Score: m.Score(),
				Mark: message.Mark{Lane: message.LanePaused.Lane("mail.>")}}}, message.CeilMilli(time.Now()))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	lab.Eventually(t, 10*time.Second, func() error { // it is due within a millisecond
		if got, _ := listed(t, d, "/v1/messages?state=ready"); len(got) != 1 {
			return fmt.Errorf("%v are ready", got)
		}
		return nil
	})
	return d
}

func TestList_WithoutAJournalIsWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	d := stocked(t)
	waits := []string{"waits-0", "waits-1", "waits-2", "waits-3", "waits-4", "waits-5", "waits-6"}
	with := func(more ...string) []string {
		return slices.Sorted(slices.Values(append(slices.Clone(waits), more...)))
	}
	for query, want := range map[string][]string{
		"": with("again", "again", "dead", "flies", "held-1", "held-2", "keyed", "later", "leased",
			"ready"),
		"state=waiting":               with("again", "again", "held-1", "held-2", "keyed", "later"),
		"state=ready":                 {"ready"},
		"state=in_flight":             {"flies", "leased"},
		"state=dead":                  {"dead"},
		"state=dead,ready":            {"dead", "ready"},
		"topic=orders.remind":         with("again"),
		"topic=orders.*":              with("again", "again", "keyed"),
		"topic=jobs.>&state=dead":     {"dead"},
		"key=k":                       {"keyed"},
		"due_from=14m&due_to=61m":     {"again", "keyed", "later", "waits-5", "waits-6"},
		"due_to=0s":                   {"dead", "flies", "held-1", "held-2", "leased", "ready"},
		"id=again":                    {"again", "again"},
		"id=again&topic=orders.*":     {"again", "again"},
		"id=again&topic=orders.paid":  {"again"},
		"id=again&due_to=90m":         {"again"},
		"id=canceled":                 {"canceled"},
		"id=canceled&state=canceled":  {"canceled"},
		"id=canceled&state=delivered": nil,
		"id=keyed&key=other":          nil,
		"id=nobody":                   nil,
		"topic=nobody":                nil,
	} {
		for _, limit := range []int{1, 2, 3, 1000} {
			got, last := listed(t, d, fmt.Sprintf("/v1/messages?limit=%d&%s", limit, query))
			if !slices.Equal(got, want) || last.Order != "bucket" || last.Looked == nil {
				t.Errorf("%q, %d a page: %v\nwant %v", query, limit, got, want)
			}
			if limit == 1000 && (!last.Looked.Whole || last.Looked.Read < len(want)) {
				t.Errorf("%q: looked %+v", query, last.Looked)
			}
		}
	}
	for query, word := range map[string]string{
		"state=canceled": "needs_journal", "state=dead,expired&topic=orders.>": "needs_journal",
		"cursor=x": "invalid_cursor", "held=paused": "invalid_held", "name=x": "invalid_held",
		"held=late&name=x": "invalid_held", "held=paused&name=mail.>&topic=a": "invalid_held",
		"held=paused&name=mail.>&cursor=x": "invalid_held",
	} {
		a := call(t, d, "GET", "/v1/messages?"+query, "")
		if word == "needs_journal" {
			a.want(t, 501, word)
		} else {
			a.want(t, 400, word)
		}
	}
	var first ops.MessageList
	if err := json.Unmarshal([]byte(call(t, d, "GET", "/v1/messages?limit=1", "").raw), &first); err != nil {
		t.Fatal(err)
	}
	call(t, d, "GET", "/v1/messages?topic=a&cursor="+first.Cursor, "").want(t, 400, "invalid_cursor")
}

func TestList_OfAGroupIsWhatItHoldsBack(t *testing.T) {
	t.Parallel()
	d := stocked(t)
	for query, want := range map[string][]string{
		"held=paused&name=mail.>":        {"held-1", "held-2"},
		"held=paused&name=nothing":       nil,
		"held=rate&name=mail.>":          nil,
		"held=unpulled&name=jobs.ready":  {"ready"},
		"held=unpulled&name=jobs.leased": nil,
	} {
		got, last := listed(t, d, "/v1/messages?"+query)
		if !slices.Equal(got, want) || last.Looked == nil || !last.Looked.Whole {
			t.Errorf("%q: %v, looked %+v\nwant %v", query, got, last.Looked, want)
		}
		for _, m := range last.Messages {
			if m.Why.Word == "" || m.Why.Detail == "" {
				t.Errorf("%q: %s says not why: %+v", query, m.ID, m.Why)
			}
		}
	}
	got, last := listed(t, d, "/v1/messages?held=paused&name=mail.>&limit=1")
	if len(got) != 1 || got[0] != "held-2" || last.Looked.Whole { // it fell due first
		t.Errorf("the first: %v, looked %+v", got, last.Looked)
	}
}
