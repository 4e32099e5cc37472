package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// kill makes a message for each reason that dies of it, in a topic of consumers that pull.
func kill(t *testing.T, d *door, topic string, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		call(t, d, "POST", "/v1/messages", fmt.Sprintf(`{"topic":%q,"delay":"0s","deliver":"pull"}`, topic)).want(t, 201, "")
		a := call(t, d, "POST", "/v1/topics/"+topic+"/pull", `{"max":1,"wait":"5s"}`).want(t, 200, "")
		var got struct{ Messages []struct{ Receipt string } }
		if err := json.Unmarshal([]byte(a.raw), &got); err != nil || len(got.Messages) != 1 {
			t.Fatalf("%s, %v", a.raw, err)
		}
		body, err := json.Marshal(map[string]string{"reason": reason})
		if err != nil {
			t.Fatal(err)
		}
		call(t, d, "POST", "/v1/leases/"+got.Messages[0].Receipt+"/dead", string(body)).want(t, 200, "")
	}
}

func grouped(t *testing.T, d *door, query string) (a ops.DeadGroups) {
	t.Helper()
	raw := call(t, d, "GET", "/v1/dead/groups"+query, "").want(t, 200, "").raw
	if err := json.Unmarshal([]byte(raw), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDeadGroups_AreRequeuedByCause(t *testing.T) {
	t.Parallel()
	d := open(t)
	kill(t, d, "crm.sync", "HTTP 502 from crm", "HTTP 503 from crm", `no customer "ann"`, "HTTP 500 from crm",
		`no customer "bob"`, "HTTP 502 from crm")
	kill(t, d, "mail.out", "HTTP 502 from crm")
	a := grouped(t, d, "")
	var got []string
	for _, g := range a.Groups {
		got = append(got, fmt.Sprint(g.Topic, " ", g.Count, " ", g.Text, " ", g.Word))
		if g.ByHour[23] != g.Count || g.First > g.Last || g.Last > a.To || len(g.Latest) != min(g.Count, 4) ||
			g.Latest[0].At != g.Last || g.Latest[0].Reason == "" || !message.IsUID(string(g.Latest[0].UID)) {
			t.Errorf("%+v", g)
		}
	}
	want := []string{"crm.sync 4 HTTP # from crm dead", "crm.sync 2 no customer # dead", "mail.out 1 HTTP # from crm dead"}
	if !slices.Equal(got, want) || !a.Looked.Whole || a.Looked.Read != 7 {
		t.Fatalf("%q, looked %+v\nwant %q", got, a.Looked, want)
	}
	cause := a.Groups[0].Cause
	if some := grouped(t, d, "?topic=mail.*&to=0s"); len(some.Groups) != 1 || some.Groups[0].Cause == cause {
		t.Errorf("of a topic: %+v", some)
	}
	if none := grouped(t, d, "?from=10m&to=5m"); len(none.Groups) != 0 {
		t.Errorf("of another time: %+v", none)
	}
	list := func(target string) []ops.Info {
		t.Helper()
		var l ops.MessageList
		if err := json.Unmarshal([]byte(call(t, d, "GET", target, "").want(t, 200, "").raw), &l); err != nil {
			t.Fatal(err)
		}
		return l.Messages
	}
	if l := list("/v1/dead?cause=" + cause); len(l) != 4 {
		t.Errorf("the cause has %d messages", len(l))
	}
	if l := list("/v1/dead?topic=crm.*&from=1h&to=30m"); len(l) != 0 {
		t.Errorf("%d died half an hour ago", len(l))
	}
	kill(t, d, "crm.sync", "HTTP 504 from crm") // meanwhile
	order := fmt.Sprintf(`{"cause":%q,"to":%q,"spread":"40m","dry_run":`, cause, ops.FormatTime(int64(a.To)))
	if r := call(t, d, "POST", "/v1/dead/requeue", order+"true}").want(t, 200, ""); r.json["matched"] != 4.0 {
		t.Errorf("a dry run: %s", r.raw)
	}
	began := time.Now()
	r := call(t, d, "POST", "/v1/dead/requeue", order+"false}").want(t, 200, "")
	if r.json["matched"] != 4.0 || r.json["done"] != 4.0 {
		t.Fatalf("a requeue: %s", r.raw)
	}
	var dues []time.Duration
	for _, m := range list("/v1/messages?topic=crm.sync&state=waiting,ready") {
		due, err := time.Parse(time.RFC3339, m.Due)
		if err != nil {
			t.Fatal(err)
		}
		dues = append(dues, due.Sub(began).Round(time.Minute))
	}
	slices.Sort(dues)
	if !slices.Equal(dues, []time.Duration{0, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}) {
		t.Errorf("due after %v", dues)
	}
	if r := call(t, d, "POST", "/v1/dead/purge", fmt.Sprintf(`{"cause":%q,"topic":"other"}`, cause)).want(t, 200,
		""); r.json["matched"] != 0.0 {
		t.Errorf("a purge on another topic: %s", r.raw)
	}
	r = call(t, d, "POST", "/v1/dead/purge", fmt.Sprintf(`{"cause":%q}`, cause)).want(t, 200, "")
	if r.json["done"] != 1.0 {
		t.Errorf("a purge of what died meanwhile: %s", r.raw)
	}
	for _, bad := range []struct{ method, target, body, word string }{
		{"GET", "/v1/dead?cause=7C1D09AB", "", "invalid_cause"}, {"GET", "/v1/dead?cause=7c1d", "", "invalid_cause"},
		{"GET", "/v1/dead/groups?from=1h&to=2h", "", "invalid_from"},
		{"GET", "/v1/dead?from=1h&to=2h", "", "invalid_from"},
		{"POST", "/v1/dead/requeue", `{"cause":"x"}`, "invalid_cause"},
		{"POST", "/v1/dead/requeue", `{"cause":"7c1d09ab","spread":"25h"}`, "invalid_spread"},
		{"POST", "/v1/dead/requeue", `{"id":"a","spread":"1h"}`, "invalid_spread"},
		{"POST", "/v1/dead/requeue", `{"id":"a","cause":"7c1d09ab"}`, "invalid_id"},
		{"POST", "/v1/dead/purge", `{"ids":["a"],"cause":"7c1d09ab"}`, "invalid_ids"},
	} {
		call(t, d, bad.method, bad.target, bad.body).want(t, 400, bad.word)
	}
}
