package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// journalCalls are good requests of every route that only the journal answers.
var journalCalls = []struct{ method, target, body string }{
	{"GET", "/v1/messages", ""},
	{"GET",
		"/v1/messages?topic=a.b&key=k&state=waiting,dead&due_from=2030-01-31T08:00:00Z&due_to=1896076800000&limit=1000",
		""},
	{"GET", "/v1/messages/a/history", ""},
	{"GET", "/v1/messages/a/history?key=k", ""},
	{"POST", "/v1/messages/a/restore", ""},
	{"POST", "/v1/messages/a/restore?key=k", `{"dry_run":true}`},
	{"POST", "/v1/restore", ""},
	{"POST", "/v1/restore", `{"overdue":false,"topic":"a.b","dry_run":true,"rate":10}`},
	{"POST", "/v1/verify", ""},
	{"POST", "/v1/verify", `{"repair":true}`},
	{"POST", "/v1/redeliver", `{"since":"2h"}`},
	{"POST", "/v1/redeliver", `{"since":1896076800000,"topic":"a.b","dry_run":true}`},
}

func TestJournal_ThatIsOffIsNeeded(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.JournalMode = "off" })
	for _, c := range append(journalCalls[2:], journalCalls[0]) {
		if c.target == "/v1/messages" {
			c.target += "?state=waiting,canceled"
		}
		a := call(t, d, c.method, c.target, c.body).want(t, 501, "needs_journal")
		if !strings.Contains(a.detail(), "journal.mode") {
			t.Errorf("%s: it does not say what to set: %s", c.target, a.raw)
		}
	}
	a := call(t, d, "GET", "/v1/cluster", "").want(t, 200, "")
	if !strings.Contains(a.raw, `"instances":[],"journal":{"mode":"off"}}`) {
		t.Errorf("got %s", a.raw)
	}
}

func TestJournal_AnswersEveryGoodRequest(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(&journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting)}}))
	for _, c := range journalCalls {
		call(t, d, c.method, c.target, c.body).want(t, 200, "")
	}
}

func TestJournal_ThatFailsIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		word   string
	}{
		{scheduler.ErrUnavailable, 503, "unavailable"}, {scheduler.ErrBehind, 503, "journal_behind"},
		{scheduler.ErrUncertified, 503, "unavailable"},
		{errors.New("secret inside"), 500, "internal"},
	} {
		d := open(t, keeping(&journal{err: fmt.Errorf("ask the database: %w", c.err)}))
		for _, r := range journalCalls {
			call(t, d, r.method, r.target, r.body).want(t, c.status, c.word)
			// nothing was sent yet, so the status can show it
			if r.method == "POST" && !strings.Contains(r.target, "messages") {
				call(t, d, r.method, r.target, r.body, "Accept", "application/x-ndjson").want(t, c.status, c.word)
			}
		}
	}
}

func TestHistory_TellsEveryChangeAndLeavesOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	j := &journal{
		records: []record.Record{recordOf(uidA, "order-7131", 1, message.StateDelivered)},
		changes: []record.Change{
			{UID: uidA, Version: 1, State: message.StateWaiting, At: 1896076800000, Due: 1896080400000,
				Instance: "t1", Address: "10.0.0.1:7070"},
			{UID: uidA, Version: 2, State: message.StateDelivered, At: 1896076800002, Bucket: 3, Instance: "t2",
				Address: "10.0.0.2:7070",
				Term:    42, Attempt: 1, Claimed: 1896076800001, Reason: "as told", Stream: "ORDERS", Sequence: 4711},
		},
	}
	d := open(t, keeping(j))
	want := `{"id":"order-7131","uid":"t-000000000000000a","history":[` +
		`{"version":1,"state":"waiting","at":"2030-01-31T08:00:00.000Z","due":"2030-01-31T09:00:00.000Z","bucket":0,` +
		`"instance":"t1","address":"10.0.0.1:7070"},` +
		`{"version":2,"state":"delivered","at":"2030-01-31T08:00:00.002Z","bucket":3,"instance":"t2",` +
		`"address":"10.0.0.2:7070","term":42,"attempt":1,` +
		`"claimed":"2030-01-31T08:00:00.001Z","reason":"as told","stream":"ORDERS","sequence":4711}]}` + "\n"
	for target, ref := range map[string]scheduler.Ref{
		"/v1/messages/order-7131/history":              {ID: "order-7131"},
		"/v1/messages/order-7131/history?topic=mail.x": {ID: "order-7131", Topic: "mail.x"},
		"/v1/messages/order-7131/history?key=":         {ID: "order-7131", Keyed: true},
		"/v1/messages/order-7131/history?key=k":        {ID: "order-7131", Key: "k", Keyed: true},
		"/v1/messages/" + string(uidA) + "/history":    {UID: uidA},
	} {
		if a := call(t, d, "GET", target, "").want(t, 200, ""); a.raw != want {
			t.Errorf("got %s\nwant %s", a.raw, want)
		}
		if j.last() != ref {
			t.Errorf("%s asked for %+v", target, j.last())
		}
	}
	j.records[0].ID, j.changes = "", nil
	a := call(t, d, "GET", "/v1/messages/x/history", "")
	if a.raw != `{"id":"t-000000000000000a","uid":"t-000000000000000a","history":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	j.err = fmt.Errorf("find: %w", scheduler.ErrUnknownID)
	call(t, d, "GET", "/v1/messages/x/history", "").want(t, 404, "unknown_id")
	j.err = scheduler.ErrAmbiguousID
	call(t, d, "GET", "/v1/messages/x/history", "").want(t, 409, "ambiguous_id")
}

func TestList_TakesPatternsIDsAndSpans(t *testing.T) {
	t.Parallel()
	j := &journal{}
	for i := range 2500 {
		r := recordOf(message.UID(fmt.Sprintf("t-%016d", i)), "", message.Milli(i), message.StateWaiting)
		if r.Topic = "odd.x"; i%2 == 0 {
			r.Topic = "even.x"
		}
		j.records = append(j.records, r)
	}
	now := time.UnixMilli(1896076800000)
	d := open(t, keeping(j), func(c *api.Config) { c.Now = func() time.Time { return now } })
	var got []string
	for cursor, pages := "", 0; ; pages++ {
		var page struct {
			Messages []struct{ Topic, UID string }
			Cursor   string
		}
		a := call(t, d, "GET", "/v1/messages?topic=odd.%3E&due_to=1h&limit=400"+cursor, "").want(t, 200, "")
		if err := json.Unmarshal([]byte(a.raw), &page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			if m.Topic != "odd.x" {
				t.Fatalf("got %+v", m)
			}
			got = append(got, m.UID)
		}
		if page.Cursor == "" {
			if pages != 3 {
				t.Errorf("%d pages, want 4 of 400", pages+1)
			}
			break
		}
		cursor = "&cursor=" + page.Cursor
		now = now.Add(time.Second) // "1h" is another moment by now
	}
	if !slices.IsSorted(got) || len(got) != 1250 || len(slices.Compact(got)) != 1250 {
		t.Errorf("%d in order %v", len(got), slices.IsSorted(got))
	}
	now = time.UnixMilli(1896076800000)
	call(t, d, "GET", "/v1/messages?id=order-7131&topic=odd.x&due_from=1m&due_to=1h", "").want(t, 200, "")
	want := record.RecordQuery{ID: "order-7131", Topic: "odd.x", DueFrom: 1896076800000 + 60000,
		DueTo: 1896076800000 + 3600000, Limit: 101}
	if q := j.last(); fmt.Sprint(q) != fmt.Sprint(want) {
		t.Errorf("asked %+v, want %+v", q, want)
	}

	// A pattern that matches little is looked for in bounded steps.
	j.asked = nil
	for range 10 {
		j.records = append(j.records, j.records[:2500]...)
	}
	for i := range j.records {
		j.records[i].Due, j.records[i].UID = message.Milli(i), message.UID(fmt.Sprintf("t-%016d", i))
	}
	a := call(t, d, "GET", "/v1/messages?topic=none.*", "").want(t, 200, "")
	if len(j.asked) != 20 || !strings.Contains(a.raw, `"messages":[],"cursor":"`) {
		t.Errorf("%d reads, got %.200s", len(j.asked), a.raw)
	}
}

func TestList_ShowsAPageWithoutContentAndWhatItMayMiss(t *testing.T) {
	t.Parallel()
	j := &journal{
		records: []record.Record{recordOf(uidA, "order-7131", 1896076800000, message.StateWaiting),
			recordOf(uidB, "", 1896076800001, message.StateDead)},
		lag: record.Lag{Entries: 2, Changes: 12, Bytes: 3456, Oldest: 1896076800000},
	}
	d := open(t, keeping(j))
	want := `{"messages":[` +
		`{"id":"order-7131","uid":"t-000000000000000a","topic":"orders.remind","state":"waiting","version":2,` +
		`"due":"2030-01-31T08:00:00.000Z","attempt":1},` +
		`{"id":"t-000000000000000b","uid":"t-000000000000000b","topic":"orders.remind","state":"dead","version":2,` +
		`"due":"2030-01-31T08:00:00.001Z"}],` +
		`"lag":{"changes":12,"bytes":3456,"oldest":"2030-01-31T08:00:00.000Z"}}` + "\n"
	if a := call(t, d, "GET", "/v1/messages", "").want(t, 200, ""); a.raw != want {
		t.Errorf("got %s\nwant %s", a.raw, want)
	}
	if j.lagErr = scheduler.ErrUnavailable; strings.Contains(
		call(t, d, "GET", "/v1/messages", "").want(t, 200, "").raw, "lag") {
		t.Error("the answer has a lag that nobody knows")
	}
	j.lagErr, j.lag, j.records = nil, record.Lag{}, nil
	if a := call(t, d, "GET", "/v1/messages", "").want(
		t, 200, ""); a.raw != `{"messages":[],"lag":{"changes":0,"bytes":0}}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
}

func TestList_AsksForWhatTheQuerySays(t *testing.T) {
	t.Parallel()
	j := &journal{}
	d := open(t, keeping(j))
	for query, want := range map[string]record.RecordQuery{
		"":                     {Limit: 101},
		"?limit=1":             {Limit: 2},
		"?topic=a.b&key=k%20x": {Topic: "a.b", Key: "k x", Limit: 101},
		"?state=dead":          {States: []message.State{message.StateDead}, Limit: 101},
		"?state=dead,waiting,dead": {
			States: []message.State{message.StateWaiting, message.StateDead}, Limit: 101},
		"?state=ready,in_flight": {States: []message.State{message.StateWaiting}, DueTo: message.CeilMilli(noon),
			Limit: 101},
		"?state=ready&due_to=1970-01-01T00:00:00Z": {States: []message.State{message.StateWaiting}, DueTo: -1, Limit: 101},
		"?state=ready,waiting":                     {States: []message.State{message.StateWaiting}, Limit: 101},
		"?due_from=1896076800000":                  {DueFrom: 1896076800000, Limit: 101},
		"?due_to=1970-01-01T00:00:00Z":             {DueTo: -1, Limit: 101},
		"?due_from=2030-01-31T08:00:00.0001Z&due_to=2030-01-31T09:00:00.001%2b01:00": {DueFrom: 1896076800001,
			DueTo: 1896076800001, Limit: 101},
	} {
		call(t, d, "GET", "/v1/messages"+query, "").want(t, 200, "")
		if got := fmt.Sprintf("%+v", j.last()); got != fmt.Sprintf("%+v", want) {
			t.Errorf("%s asked for %s", query, got)
		}
	}
}

func TestList_GoesOnByCursorToTheEnd(t *testing.T) {
	t.Parallel()
	j := &journal{}
	for i := range 25 { // several are due at one moment
		j.records = append(j.records, recordOf(message.UID(fmt.Sprintf("t-00000000000000%02d", i)), "",
			message.Milli(1896076800000+i/4), message.StateWaiting))
	}
	d := open(t, keeping(j))
	for _, limit := range []int{1, 4, 5, 24, 25, 26} {
		var seen []string
		cursor, pages := "", 0
		for pages == 0 || cursor != "" {
			target := fmt.Sprintf("/v1/messages?topic=orders.remind&state=waiting&limit=%d", limit)
			if cursor != "" {
				target += "&cursor=" + url.QueryEscape(cursor)
			}
			a := call(t, d, "GET", target, "").want(t, 200, "")
			messages, _ := a.json["messages"].([]any)
			for _, m := range messages {
				m, _ := m.(map[string]any)
				seen = append(seen, fmt.Sprint(m["uid"]))
			}
			cursor, _ = a.json["cursor"].(string)
			if pages++; len(messages) == 0 || len(messages) > limit || pages > 25 {
				t.Fatalf("limit %d, page %d: %d messages", limit, pages, len(messages))
			}
		}
		if len(seen) != 25 || seen[0] != "t-0000000000000000" || seen[24] != "t-0000000000000024" ||
			pages != (24+limit)/limit {
			t.Errorf("limit %d: %d pages, got %q", limit, pages, seen)
		}
	}
}

func TestCursor_OfAnotherQueryIsRefused(t *testing.T) {
	t.Parallel()
	j := &journal{records: []record.Record{recordOf(uidA, "", 1, message.StateWaiting),
		recordOf(uidB, "", 2, message.StateWaiting)}}
	d := open(t, keeping(j))
	cursor := fmt.Sprint(
		call(t, d, "GET", "/v1/messages?topic=a&state=waiting,dead&limit=1", "").want(t, 200, "").json["cursor"])
	asked := len(j.asked)
	for _, query := range []string{"", "topic=b&state=waiting,dead", "topic=a&state=waiting", "topic=a",
		"topic=a&state=waiting,dead&key=k",
		"topic=a&state=waiting,dead&due_from=1896076800000", "topic=a&state=waiting,dead&due_to=1896076800000"} {
		a := call(t, d, "GET", "/v1/messages?"+query+"&cursor="+cursor, "").want(t, 400, "invalid_cursor")
		if !strings.Contains(a.detail(), "another query") {
			t.Errorf("got %s", a.raw)
		}
	}
	for _, bad := range []string{"", "x", "!", cursor[1:], cursor + "AA", strings.Repeat("A", 47),
		strings.Repeat("A", 48), strings.Repeat("A", 5000)} {
		a := call(t, d, "GET", "/v1/messages?topic=a&state=waiting,dead&cursor="+bad, "").want(t, 400, "invalid_cursor")
		if len(a.detail()) > 200 {
			t.Errorf("it repeats all of the cursor: %d bytes", len(a.detail()))
		}
	}
	if len(j.asked) != asked {
		t.Error("the journal was asked all the same")
	}
	// the same query, written differently
	call(t, d, "GET", "/v1/messages?state=dead,waiting&topic=a&limit=7&cursor="+cursor, "").want(t, 200, "")
	if q, _ := j.last().(record.RecordQuery); q.AfterUID != uidA || q.AfterDue != 1 {
		t.Errorf("asked for %+v", q)
	}
}

func TestForecast_CountsByStepsAndTheOverdueApart(t *testing.T) {
	t.Parallel()
	from := message.CeilMilli(noon)
	j := &journal{forecasts: []record.Forecast{{From: from - 5_000, Count: 3}, {From: from - 1, Count: 4},
		{From: from, Count: 5}, {From: from + 120_000, Count: 6}}}
	d := open(t, keeping(j))
	a := call(t, d, "GET", "/v1/forecast?topic=a.b&until=150s", "").want(t, 200, "")
	want := `{"source":"journal","overdue":7,"steps":[{"from":"2030-01-31T12:00:00.001Z","count":5},` +
		`{"from":"2030-01-31T12:01:00.001Z","count":0},{"from":"2030-01-31T12:02:00.001Z","count":6}]}` + "\n"
	if a.raw != want {
		t.Errorf("got %s", a.raw)
	}
	for query, want := range map[string]record.ForecastQuery{
		"?step=1s&until=10000s":               {From: from, Until: from + 10_000_000, Step: 1000},
		"?topic=x&step=90s":                   {Topic: "x", From: from, Until: from + 3_600_000, Step: 90_000},
		"?topic=x&until=2030-01-31T13:00:00Z": {Topic: "x", From: from, Until: from + 3_600_000 - 1, Step: 60_000},
		"?topic=a.*.%3E":                      {Pattern: "a.*.>", From: from, Until: from + 3_600_000, Step: 60_000},
		"?topic=x&until=1896094800000":        {Topic: "x", From: from, Until: from + 3_600_000 - 1, Step: 60_000},
		"?topic=x&step=3653d&until=3653d": {Topic: "x", From: from, Until: from + 3653*86_400_000,
			Step: 3653 * 86_400_000},
	} {
		call(t, d, "GET", "/v1/forecast"+query, "").want(t, 200, "")
		if j.last() != want {
			t.Errorf("%s asked for %+v, want %+v", query, j.last(), want)
		}
	}
	overdue, _ := j.asked[0].(record.ForecastQuery)
	if overdue.Topic != "a.b" || overdue.Until != from || overdue.From > -62_000_000_000_000 ||
		overdue.Step != overdue.Until-overdue.From {
		t.Errorf("the overdue were asked for as %+v", overdue)
	}
}

// The store counts the messages of all topics, with a journal and without.
func TestForecast_OfAllTopicsIsTheStores(t *testing.T) {
	t.Parallel()
	from := message.CeilMilli(noon)
	off := func(c *api.Config) { c.Now = func() time.Time { return noon } }
	for name, change := range map[string]func(*api.Config){"off": off, "on": keeping(&journal{})} {
		s := &steering{}
		d := open(t, with(service{steering: s}), change)
		a := call(t, d, "GET", "/v1/forecast?until=150s", "").want(t, 200, "")
		want := `{"source":"store","overdue":7,"held":{"paused":7},"steps":[{"from":"2030-01-31T12:00:00.001Z","count":0},` +
			`{"from":"2030-01-31T12:01:00.001Z","count":1},{"from":"2030-01-31T12:02:00.001Z","count":2}]}` + "\n"
		if a.raw != want {
			t.Errorf("%s: %s", name, a.raw)
		}
		// The last step ends with the forecast.
		if asked := fmt.Sprintf("%+v", s.take()); asked != fmt.Sprintf("%+v", []any{scheduler.OutlookQuery{Top: 6,
			Times: []message.Milli{from, from + 60_000, from + 120_000, from + 150_000}}}) {
			t.Errorf("%s: asked for %s", name, asked)
		}
		call(t, d, "GET", "/v1/forecast?topic=a.*&by=pattern&top=20&until=1m", "").want(t, 200, "")
		if asked := fmt.Sprintf("%+v", s.take()); asked != fmt.Sprintf("%+v", []any{scheduler.OutlookQuery{Topic: "a.*",
			By: "pattern", Top: 20, Times: []message.Milli{from, from + 60_000}}}) {
			t.Errorf("%s: asked for %s", name, asked)
		}
		if a := call(t, d, "GET", "/v1/forecast?by=topic&step=1s", "").want(t, 400, "invalid_step"); !strings.Contains(
			a.detail(), "the limit with by is 720") {
			t.Errorf("%s: %s", name, a.detail())
		}
		call(t, d, "GET", "/v1/forecast?step=5s", "").want(t, 200, "")
		s.err = scheduler.ErrUnavailable
		call(t, d, "GET", "/v1/forecast", "").want(t, 503, "unavailable")
	}
	without := open(t, with(service{steering: &steering{}}), off)
	if a := call(t, without, "GET", "/v1/forecast?topic=a&until=1m", "").want(t, 200, ""); a.raw != `{"source":"store",`+
		`"steps":[{"from":"2030-01-31T12:00:00.001Z","count":0}],"sample":{"read":4,"of":5,"exact":false}}`+"\n" {
		t.Errorf("a topic without a journal: %s", a.raw)
	}
	a := call(t, without, "GET", "/v1/forecast?step=4s", "").want(t, 400, "invalid_step")
	if !strings.Contains(a.detail(), "720") {
		t.Error(a.raw)
	}
}

func TestRestoreOne_IsForOneMessageDueOrNot(t *testing.T) {
	t.Parallel()
	j := &journal{records: []record.Record{recordOf(uidB, "b", 1, message.StateWaiting)}}
	d := open(t, keeping(j))
	for target, want := range map[string]record.RestoreRequest{
		"/v1/messages/b/restore":                    {UID: uidB, Overdue: true},
		"/v1/messages/" + string(uidC) + "/restore": {UID: uidC, Overdue: true},
	} {
		for body, dry := range map[string]bool{"": false, "{}": false, `{"dry_run":null}`: false,
			`{"dry_run":true}`: true} {
			a := call(t, d, "POST", target, body).want(t, 200, "")
			if want.DryRun = dry; j.last() != want {
				t.Errorf("%s %s asked for %+v", target, body, j.last())
			}
			if counts := `"read":21,"added":6,"raised":5,"same":4,"in_flight":3,"newer":2}`; !strings.HasSuffix(
				a.raw, counts+"\n") || strings.Contains(a.raw, `"dry_run":true`) != dry {
				t.Errorf("got %s", a.raw)
			}
		}
	}
	j.err = scheduler.ErrUnknownID
	call(t, d, "POST", "/v1/messages/b/restore", "").want(t, 404, "unknown_id")
	call(t, open(t, keeping(&journal{restore: restoredNothing})), "POST", "/v1/messages/"+string(uidC)+"/restore",
		"").want(t, 404, "unknown_id")
	call(t, d, "POST", "/v1/messages/b/restore", `{"overdue":true}`).want(t, 400, "unknown_field")
	call(t, d, "POST", "/v1/messages/b/restore?topics=x", "").want(t, 400, "unknown_parameter")
}

func TestCluster_TellsHowFarTheJournalIsBehind(t *testing.T) {
	t.Parallel()
	j := &journal{lag: record.Lag{Changes: 12, Bytes: 3456, Oldest: 1896076800000}}
	d := open(t, keeping(j), func(c *api.Config) { c.JournalMode = "sync" })
	want := `"journal":{"mode":"sync","lag":{"changes":12,"bytes":3456,"oldest":"2030-01-31T08:00:00.000Z"}}}` + "\n"
	if a := call(t, d, "GET", "/v1/cluster", "").want(t, 200, ""); !strings.HasSuffix(a.raw, want) {
		t.Errorf("got %s", a.raw)
	}
	j.lagErr = scheduler.ErrUnavailable
	if a := call(t, d, "GET", "/v1/cluster", "").want(t, 200, ""); !strings.HasSuffix(a.raw,
		`"journal":{"mode":"sync"}}`+"\n") {
		t.Errorf("got %s", a.raw)
	}
}

func TestPush_SaysThatTheJournalHasIt(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"async": "redis", "sync": "journal"} {
		d := open(t, keeping(&journal{}), func(c *api.Config) { c.JournalMode, c.Durable = mode, "redis" })
		if a := call(t, d, "POST", "/v1/messages", hourly("")).want(t, 201, ""); a.json["durable"] != want {
			t.Errorf("%s: got %s", mode, a.raw)
		}
		if a := call(t, d, "POST", "/v1/messages/batch", `{"messages":[`+hourly("")+`]}`).want(
			t, 200, ""); !strings.Contains(a.raw, `"durable":"`+want+`"`) {
			t.Errorf("%s: got %s", mode, a.raw)
		}
	}
}

func TestJournal_RefusesWhatItCannotMeanAndAsksNothing(t *testing.T) {
	t.Parallel()
	j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting)}}
	d := open(t, keeping(j))
	for _, c := range []struct{ method, target, body, word, detail string }{
		{"GET", "/v1/messages?topic=", "", "invalid_topic", "topic is empty"},
		{"GET", "/v1/messages?topic=a.%3E.b", "", "invalid_topic", "before its end"},
		{"GET", "/v1/messages?id=", "", "invalid_id", "empty"},
		{"GET", "/v1/messages?id=t-000000000000000a", "", "invalid_id", "is a uid"},
		{"GET", "/v1/messages?topic=" + strings.Repeat("a", 256), "", "invalid_topic", "limit is 255"},
		{"GET", "/v1/messages?key=", "", "invalid_key", "1 to 128"},
		{"GET", "/v1/messages?key=" + strings.Repeat("a", 129), "", "invalid_key", "limit is 128"},
		{"GET", "/v1/messages?state=", "", "invalid_state", "waiting, in_flight, delivered, canceled, expired, dead"},
		{"GET", "/v1/messages?state=none", "", "invalid_state", `"none"`},
		{"GET", "/v1/messages?state=waiting,", "", "invalid_state", `""`},
		{"GET", "/v1/messages?state=Waiting", "", "invalid_state", `"Waiting"`},
		{"GET", "/v1/messages?state=waiting,%20dead", "", "invalid_state", `" dead"`},
		{"GET", "/v1/messages?due_from=soon", "", "invalid_due_from",
			"due_from \"soon\" is neither a time nor a duration"},
		{"GET", "/v1/messages?due_from=1500000000", "", "invalid_due_from", "looks like seconds"},
		{"GET", "/v1/messages?due_to=1896076800", "", "invalid_due_to", "looks like seconds"},
		{"GET", "/v1/messages?due_to=", "", "invalid_due_to", "due_to is empty"},
		{"GET", "/v1/messages?due_from=1896076800001&due_to=1896076800000", "", "invalid_due_from", "after due_to"},
		{"GET", "/v1/messages?limit=0", "", "invalid_limit", "1 to 1000"},
		{"GET", "/v1/messages?limit=1001", "", "invalid_limit", "1 to 1000"},
		{"GET", "/v1/messages?limit=", "", "invalid_limit", "1 to 1000"},
		{"GET", "/v1/messages?limit=1e2", "", "invalid_limit", "1 to 1000"},
		{"GET", "/v1/messages?sort=due", "", "unknown_parameter", "topic, id, key, state"},
		{"GET", "/v1/messages?limit=1&limit=2", "", "invalid_query", "limit"},
		{"GET", "/v1/messages/%20/history", "", "invalid_id", "id"},
		{"GET", "/v1/messages/a/history?key=%0a", "", "invalid_key", "key"},
		{"GET", "/v1/messages/a/history?limit=1", "", "unknown_parameter", "key"},
		{"POST", "/v1/messages/%20/restore", "", "invalid_id", "id"},
		{"POST", "/v1/messages/a/restore", `{"dry_run":"yes"}`, "invalid_dry_run", "neither true nor false"},
		{"GET", "/v1/forecast?topic=a.>.b", "", "invalid_topic", `has ">" before its end`},
		{"GET", "/v1/forecast?step=soon", "", "invalid_step", "step \"soon\" is not a duration"},
		{"GET", "/v1/forecast?step=999ms", "", "invalid_step", "the least is 1s"},
		{"GET", "/v1/forecast?step=-1m", "", "invalid_step", "negative"},
		{"GET", "/v1/forecast?step=1s&until=10001s", "", "invalid_step",
			"makes 10001 steps until 2030-01-31T14:46:41.001Z, the limit is 10000"},
		{"GET", "/v1/forecast?until=3653d", "", "invalid_step", "the limit is 10000"},
		{"GET", "/v1/forecast?until=9998-01-01T00:00:00Z", "", "invalid_step", "the limit is 10000"},
		{"GET", "/v1/forecast?until=0s", "", "invalid_until", "not after now"},
		{"GET", "/v1/forecast?until=2030-01-31T12:00:00Z", "", "invalid_until", "not after now"},
		{"GET", "/v1/forecast?until=tomorrow", "", "invalid_until", "neither a time nor a duration"},
		{"GET", "/v1/forecast?until=3600", "", "invalid_until", "looks like seconds"},
		{"GET", "/v1/forecast?by=key", "", "invalid_by", "neither topic nor pattern"},
		{"GET", "/v1/forecast?by=topic&top=21", "", "invalid_top", "\"21\" is not a whole number from 1 to 20"},
		{"GET", "/v1/forecast?top=0", "", "invalid_top", "\"0\" is not a whole number from 1 to 20"},
		{"GET", "/v1/forecast?from=1h", "", "unknown_parameter", "topic, step, until, by, top"},
		{"POST", "/v1/restore", `[]`, "invalid_json", "byte"},
		{"POST", "/v1/restore", `{"overdue":false`, "invalid_json", "byte"},
		{"POST", "/v1/restore", `{}{}`, "invalid_json", "byte"},
		{"POST", "/v1/restore", `{"overdeu":false}`, "unknown_field", `"overdeu"`},
		{"POST", "/v1/restore", `{"overdue":false,"overdue":true}`, "repeated_field", "overdue"},
		{"POST", "/v1/restore", `{"overdue":0}`, "invalid_overdue", "neither true nor false"},
		{"POST", "/v1/restore", `{"dry_run":"true"}`, "invalid_dry_run", "neither true nor false"},
		{"POST", "/v1/restore", `{"topic":""}`, "invalid_topic", "topic is empty"},
		{"POST", "/v1/restore", `{"topic":"a.>.b"}`, "invalid_topic", `has ">" before its end`},
		{"POST", "/v1/restore", `{"topic":7}`, "invalid_topic", "not a string"},
		{"POST", "/v1/restore", `{"rate":-1}`, "invalid_rate", "0 to 1000000"},
		{"POST", "/v1/restore", `{"rate":1000001}`, "invalid_rate", "0 to 1000000"},
		{"POST", "/v1/restore", `{"rate":1.5}`, "invalid_rate", "0 to 1000000"},
		{"POST", "/v1/restore", `{"rate":"10"}`, "invalid_rate", "0 to 1000000"},
		{"POST", "/v1/restore?dry_run=true", ``, "unknown_parameter", "dry_run"},
		{"POST", "/v1/verify", `{"repair":1}`, "invalid_repair", "neither true nor false"},
		{"POST", "/v1/verify", `{"revive":"no"}`, "invalid_revive", "neither true nor false"},
		{"POST", "/v1/verify", `{"dry_run":true}`, "unknown_field", "dry_run"},
		{"POST", "/v1/verify?repair=true", ``, "unknown_parameter", "repair"},
		{"POST", "/v1/redeliver", ``, "invalid_since", "since is missing"},
		{"POST", "/v1/redeliver", `{}`, "invalid_since", "since is missing"},
		{"POST", "/v1/redeliver", `{"since":null}`, "invalid_since", "since is missing"},
		{"POST", "/v1/redeliver", `{"since":""}`, "invalid_since", "since is empty"},
		{"POST", "/v1/redeliver", `{"since":"yesterday"}`, "invalid_since", "neither a time nor a duration"},
		{"POST", "/v1/redeliver", `{"since":"-1h"}`, "invalid_since", "negative"},
		{"POST", "/v1/redeliver", `{"since":3600000}`, "invalid_since", "looks like seconds"},
		{"POST", "/v1/redeliver", `{"since":1.5}`, "invalid_since", "whole number"},
		{"POST", "/v1/redeliver", `{"since":true}`, "invalid_since", "neither text nor"},
		{"POST", "/v1/redeliver", `{"since":"2030-01-31"}`, "invalid_since", "is not a time"},
		{"POST", "/v1/redeliver", `{"since":"2031-01-31T08:00:00Z"}`, "invalid_since", "in the future"},
		{"POST", "/v1/redeliver", `{"since":"1h","topic":"$SYS.a"}`, "invalid_topic", "$"},
	} {
		if a := call(t, d, c.method, c.target, c.body).want(t, 400, c.word); !strings.Contains(a.detail(), c.detail) {
			t.Errorf("%s %s: got %q, want %q", c.target, c.body, a.detail(), c.detail)
		}
	}
	call(t, d, "POST", "/v1/restore", `{}`, "Content-Type", "text/plain").want(t, 415, "unsupported_media_type")
	if j.last() != nil || strings.Contains(d.log.String(), "operation") {
		t.Errorf("a refused request asked the journal for %+v; log: %s", j.last(), d.log)
	}
}
