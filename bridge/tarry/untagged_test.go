package tarry

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestUntagged_BehavesAsBareNats sends the same message through a bare connection and a wrapped one.
func TestUntagged_BehavesAsBareNats(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	intake(t, nc)
	closed := more()
	closed.Close()
	for name, conn := range map[string]*nats.Conn{"open": nc, "closed": closed} {
		wrapped := wrap(t, conn)
		for what, m := range map[string]*nats.Msg{
			"plain":              message("plain.x", "body", "X", "1"),
			"no header":          {Subject: "plain.x", Data: []byte("body")},
			"other tags":         message("plain.x", "body", "Tarry-Id", "a", "Tarry-Due", "1", "Tarry-Delays", "x"),
			"empty tag list":     {Subject: "plain.x", Header: nats.Header{"Tarry-Delay": nil}},
			"nil":                nil,
			"empty subject":      {},
			"blank in subject":   {Subject: "a b"},
			"reply":              {Subject: "plain.x", Reply: "answers"},
			"too large":          {Subject: "plain.x", Data: make([]byte, nc.MaxPayload()+1)},
			"header too large":   message("plain.x", string(make([]byte, nc.MaxPayload()-10)), "X", "1"),
			"bad header":         message("plain.x", "", "X\r\nY", "1"),
			"wildcard":           {Subject: "plain.*"},
			"nobody there":       {Subject: "nobody.there"},
			"header, nobody":     message("nobody.there", "", "X", "1"),
			"ask the intake":     message("delayed.x", "", "X", "1"),
			"ask with a timeout": {Subject: "silent"},
		} {
			compare(t, name+", "+what+": PublishMsg", conn.PublishMsg(m), wrapped.PublishMsg(m))
			within := 20 * time.Second // on a busy machine the server says late that nobody is there
			if what == "ask with a timeout" {
				within = 50 * time.Millisecond
			}
			_, bare := conn.RequestMsg(m, within)
			_, ours := wrapped.RequestMsg(m, within)
			compare(t, name+", "+what+": RequestMsg", bare, ours)
			ctx, cancel := context.WithTimeout(t.Context(), within)
			_, bare = conn.RequestMsgWithContext(ctx, m)
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), within)
			_, ours = wrapped.RequestMsgWithContext(ctx, m)
			cancel()
			compare(t, name+", "+what+": RequestMsgWithContext", bare, ours)
		}
	}
}

// compare wants the same error, or one of the same kind and text where nats.go makes a new one each time.
func compare(t *testing.T, what string, bare, ours error) {
	t.Helper()
	if fmt.Sprintf("%T %v", bare, bare) != fmt.Sprintf("%T %v", ours, ours) {
		t.Errorf("%s: nats.go says %v, the wrapper %v", what, bare, ours)
	}
}

// everyPublish returns what publishes a message in every way that a plain user of nats.go knows.
func everyPublish(t *testing.T, conn *Conn) func(*nats.Msg) []error {
	t.Helper()
	js, err := WrapJetStream(conn.client.js)
	if err != nil {
		t.Fatal(err)
	}
	old, err := conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	return func(m *nats.Msg) []error {
		return []error{conn.PublishMsg(m), errOf(js.PublishMsg(t.Context(), m)), errOf(js.PublishMsgAsync(m)),
			errOf(old.PublishMsg(m)), errOf(old.PublishMsgAsync(m))}
	}
}

// A misspelt tag must not let a message leave at once, as if it had none.
func TestUntagged_RefusesAMisspeltTag(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	intake(t, nc)
	sub := listen(t, nc, "plain.>")
	conn := wrap(t, more())
	publish := everyPublish(t, conn)
	for _, name := range []string{"Tarry-Dealy", "tarry-delays", "TARRY-"} {
		m := message("plain.x", "body", "X", "1", name, "20m")
		for _, err := range publish(m) {
			wantRefused(t, err, "unknown_header", name)
		}
		wantRefused(t, errOf(conn.RequestMsg(m, time.Second)), WordRequest, "request")
	}
	for _, headers := range [][]string{
		{"Tarry-Id", "a", "Tarry-Due", "1"}, {"Tarry-Key", "k", "Tarry-Retry", "1m"},
		{"Tarry-Dealy", "x", "tarry-due", "1"}, {"Tarry-Reason", "r", "Tarry-Incomplete", "true"}, {"Tarryed", "1"},
	} {
		if err := conn.PublishMsg(message("plain.x", headers[0], headers...)); err != nil {
			t.Fatal(err)
		}
		if got := next(t, sub); string(got.Data) != headers[0] {
			t.Fatalf("%v: got %+v", headers, got)
		}
	}
}

// What says how a message waits, without saying for how long, must not let it leave at once.
func TestUntagged_RefusesTagsWithoutADueTime(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	sub := listen(t, nc, "plain.>")
	conn := wrap(t, more())
	publish := everyPublish(t, conn)
	plain := func() *nats.Msg { return message("plain.x", "body", "X", "1") }
	for what, m := range map[string]*nats.Msg{
		"id":           Tag(plain(), As("x")),
		"id, retries":  Tag(plain(), Retries("1m"), As("x")),
		"priority":     Tag(plain(), Priority(9)),
		"ttl":          Tag(plain(), TTL(time.Minute)),
		"on duplicate": Tag(plain(), OnDuplicate(Keep)),
		"max wait":     Tag(plain(), MaxWait(time.Minute)),
		"deliver":      message("plain.x", "body", "tarry-deliver", "mq"),
	} {
		t.Run(what, func(t *testing.T) {
			for _, err := range append(publish(m), errOf(conn.Tarry().Push(t.Context(), m))) {
				wantRefused(t, err, "missing_delay", "Tarry-Delay")
			}
			wantRefused(t, errOf(conn.RequestMsg(m, time.Second)), WordRequest, "request")
		})
	}
	if err := conn.PublishMsg(message("plain.x", "last", "Tarry-Key", "k")); err != nil {
		t.Fatal(err)
	}
	if got := next(t, sub); string(got.Data) != "last" {
		t.Errorf("a refused message was sent: %+v", got)
	}
	if list := stored(t, in); len(list) != 0 {
		t.Errorf("%d refused messages were stored", len(list))
	}
	// A consumer's retry waits by its schedule.
	if err := conn.PublishMsg(message("delayed.plain.x", "", "Tarry-Id", "a", "Tarry-Attempt", "2")); err != nil {
		t.Error(err)
	}
}

func TestUntagged_ReachesSubscribersAndAnswers(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	conn := wrap(t, more())
	sub := listen(t, nc, "plain.>")
	if _, err := nc.Subscribe(
		"ask", func(m *nats.Msg) { _ = m.Respond(append([]byte("re: "), m.Data...)) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	want := message("plain.x", "body", "X", "1", "Tarry-Key", "a")
	if err := conn.PublishMsg(want); err != nil {
		t.Fatal(err)
	}
	if got := next(t, sub); string(got.Data) != "body" || !reflect.DeepEqual(got.Header, want.Header) ||
		got.Subject != "plain.x" {
		t.Fatalf("got %+v", got)
	}
	answer, err := conn.RequestMsg(message("ask", "1"), 5*time.Second)
	if err != nil || string(answer.Data) != "re: 1" {
		t.Fatalf("got %v, %v", answer, err)
	}
}

func TestUntagged_CostsNoAllocation(t *testing.T) {
	nc, _ := account(t)
	conn := wrap(t, nc)
	m := message("plain.x", "body", "X", "1", "traceparent", "00",
		"Tarry-Zzzzz", "1", "Tarry-Due", "1", "Some-Header", "1")
	for range 100 {
		if n := testing.AllocsPerRun(100, func() { tagged(m.Header) }); n != 0 {
			t.Fatalf("looking for a tag allocates %v times", n)
		}
	}
	bare := testing.AllocsPerRun(1000, func() { _ = nc.PublishMsg(m) })
	ours := testing.AllocsPerRun(1000, func() { _ = conn.PublishMsg(m) })
	if ours > bare+0.5 {
		t.Fatalf("a publish allocates %v times, bare %v", ours, bare)
	}
}
