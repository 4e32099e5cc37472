package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func TestDead_ShowsAPageWithoutContent(t *testing.T) {
	t.Parallel()
	i := message.Info{
		Message: message.Message{UID: uidA, ID: "a", Topic: "orders.remind", Due: later, Attempt: 3,
			Body: []byte("hidden"), Headers: []message.Header{{Name: "X", Value: "hidden"}}},
		State: message.StateDead, Version: 5, EndedAt: later + 1000, Reason: "no permission",
	}
	d := open(t, steered(&steering{dead: []message.Info{i}}))
	want := `{"messages":[{"id":"a","uid":"t-000000000000000a","topic":"orders.remind","state":"dead","version":5,` +
		`"due":"2030-01-31T08:00:00.000Z",` +
		`"attempt":2,"ended_at":"2030-01-31T08:00:01.000Z","reason":"no permission"}]}` + "\n"
	if a := call(t, d, "GET", "/v1/dead", "").want(t, 200, ""); a.raw != want {
		t.Errorf("got %s\nwant %s", a.raw, want)
	}
	if a := call(t, open(t, steered(&steering{})), "GET", "/v1/dead", "").want(
		t, 200, ""); a.raw != `{"messages":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
}

func TestDead_GoesOnWhereItsCursorSays(t *testing.T) {
	t.Parallel()
	s := &steering{next: "7:" + string(uidA)}
	d := open(t, steered(s))
	cursor := func(target string) string {
		text, _ := call(t, d, "GET", target, "").want(t, 200, "").json["cursor"].(string)
		s.take()
		return text
	}
	all, some := cursor("/v1/dead?limit=3"), cursor("/v1/dead?topic=orders.%3E")
	if all == some || all == "" || strings.ContainsAny(all+some, "+/=:") {
		t.Fatalf("cursors %q and %q", all, some)
	}
	for target, want := range map[string]deadAsked{
		"/v1/dead?cursor=" + all:                        {cursor: s.next, limit: 100},
		"/v1/dead?limit=5&cursor=" + all:                {cursor: s.next, limit: 5},
		"/v1/dead?cursor=" + some + "&topic=orders.%3E": {topic: "orders.>", cursor: s.next, limit: 100},
	} {
		call(t, d, "GET", target, "").want(t, 200, "")
		if asked := s.take(); len(asked) != 1 || asked[0] != want {
			t.Errorf("%s asked for %+v, want %+v", target, asked, want)
		}
	}
	j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting),
		recordOf(uidB, "b", 2, message.StateWaiting)}}
	other, _ := call(t, open(t, keeping(j)), "GET", "/v1/messages?limit=1", "").json["cursor"].(string)
	broken := []byte(all)
	broken[len(broken)-3] ^= 1
	for _, target := range []string{
		"/v1/dead?topic=orders.%3E&cursor=" + all, "/v1/dead?topic=orders.*&cursor=" + some, "/v1/dead?cursor=" + some,
		"/v1/dead?cursor=" + other, "/v1/dead?cursor=" + string(broken), "/v1/dead?cursor=" + all[:len(all)-4],
		"/v1/dead?cursor=" + all + "AAAA",
		"/v1/dead?cursor=" + strings.Repeat("A", 10_000),
	} {
		call(t, d, "GET", target, "").want(t, 400, "invalid_cursor")
	}
	if asked := s.take(); len(asked) > 0 {
		t.Errorf("it asked for %+v", asked)
	}
	s.err = fmt.Errorf("dead: %w", scheduler.ErrBadCursor) // of a store with more buckets
	call(t, d, "GET", "/v1/dead?cursor="+all, "").want(t, 400, "invalid_cursor")
	call(t, open(t, keeping(j)), "GET", "/v1/messages?cursor="+all, "").want(t, 400, "invalid_cursor")
}

func TestDead_OneIsAnsweredByTheStatus(t *testing.T) {
	t.Parallel()
	s := &steering{}
	d := open(t, steered(s))
	if a := call(t, d, "POST", "/v1/dead/requeue", `{"id":"a"}`).want(t, 200, ""); a.raw !=
		`{"id":"a","uid":"t-000000000000000c","due":"2030-01-31T08:00:00.000Z","state":"waiting","durable":"redis"}`+
			"\n" {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "POST", "/v1/dead/purge", `{"id":"a"}`).want(
		t, 200, ""); a.raw != `{"id":"a","purged":true}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	for word, c := range map[string]struct {
		err    error
		status int
	}{
		"unknown_id":      {scheduler.ErrUnknownID, 404},
		"not_dead":        {fmt.Errorf("%w: it is waiting", scheduler.ErrNotDead), 409},
		"ambiguous_id":    {scheduler.ErrAmbiguousID, 409},
		"duplicate_id":    {scheduler.ErrDuplicateID, 409},
		"too_far":         {scheduler.ErrTooFar, 400},
		"outcome_unknown": {scheduler.ErrOutcomeUnknown, 504},
	} {
		s.one = func(scheduler.Ref) error { return fmt.Errorf("as told: %w", c.err) }
		for _, target := range []string{"/v1/dead/requeue", "/v1/dead/purge"} {
			call(t, d, "POST", target, `{"id":"a"}`).want(t, c.status, word)
		}
	}
}

// TestDead_AnUnknownOutcomeTellsWhichMessageToLookFor: and which one to requeue again.
func TestDead_AnUnknownOutcomeTellsWhichMessageToLookFor(t *testing.T) {
	t.Parallel()
	d := open(t, steered(&steering{one: func(scheduler.Ref) error {
		return fmt.Errorf("requeue: %w", scheduler.ErrOutcomeUnknown)
	}}))
	const uid = `,"uid":"t-000000000000000c"}`
	for _, id := range []string{"a", "t-000000000000000b"} {
		want := `"id":"` + id + `"` + uid
		if a := call(t, d, "POST", "/v1/dead/requeue", `{"id":"`+id+`"}`).want(
			t, 504, "outcome_unknown"); !strings.HasSuffix(a.raw, want+"\n") {
			t.Errorf("%s: got %s", id, a.raw)
		}
		if a := call(t, d, "POST", "/v1/dead/requeue", `{"ids":["`+id+`"]}`).want(t, 200, ""); !strings.HasSuffix(a.raw,
			want+"]}\n") {
			t.Errorf("%s of several: got %s", id, a.raw)
		}
	}
}

func TestDead_OfSeveralEachHasItsResult(t *testing.T) {
	t.Parallel()
	s := &steering{one: func(ref scheduler.Ref) error {
		switch ref.ID {
		case "nobody":
			return scheduler.ErrUnknownID
		case "waits":
			return scheduler.ErrNotDead
		case "broken":
			return errors.New("secret inside")
		}
		return nil
	}}
	d := open(t, steered(s))
	const body = `{"ids":["nobody","a","waits"," ","broken","t-000000000000000b","a"]}`
	const internal = `{"error":"internal","detail":"internal error; the log has the details","id":"broken"}`
	for target, want := range map[string][]string{
		"/v1/dead/requeue": {`"error":"unknown_id"`, `{"id":"a","uid":"t-000000000000000c",`, `"error":"not_dead"`,
			`"error":"invalid_id"`, internal, `{"id":"t-000000000000000b","uid":"t-000000000000000c",`, `{"id":"a",`},
		"/v1/dead/purge": {`"error":"unknown_id"`, `{"id":"a","purged":true}`, `"error":"not_dead"`,
			`"error":"invalid_id"`, internal, `{"id":"t-000000000000000b","purged":true}`, `{"id":"a",`},
	} {
		a := call(t, d, "POST", target, body).want(t, 200, "")
		at := 0
		for _, one := range want {
			next := strings.Index(a.raw[at:], one)
			if next < 0 {
				t.Errorf("%s: %s is not in its place: %s", target, one, a.raw)
				break
			}
			at += next + len(one)
		}
		if results, _ := a.json["results"].([]any); len(results) != len(want) || strings.Contains(a.raw, "secret") {
			t.Errorf("%s: got %s", target, a.raw)
		}
		if asked := s.take(); len(asked) != len(want)-1 { // the one that is no id was not asked for
			t.Errorf("%s asked for %+v", target, asked)
		}
	}
	if !strings.Contains(d.log.String(), "secret inside") {
		t.Errorf("the log does not say what: %s", d.log)
	}
	many := `{"ids":["0"`
	for i := 1; i < 1000; i++ {
		many += fmt.Sprintf(`,"%d"`, i)
	}
	results, _ := call(t, d, "POST", "/v1/dead/purge", many+`]}`).want(t, 200, "").json["results"].([]any)
	for i, r := range results {
		if r, _ := r.(map[string]any); r["id"] != fmt.Sprint(i) {
			t.Fatalf("result %d is %v", i, r)
		}
	}
}
