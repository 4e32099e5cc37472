package rejects_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/rejects"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func readingRejects(t testing.TB, nc *nats.Conn, ns string) *rejects.Rejects {
	t.Helper()
	r := rejects.New(rejects.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns})
	return r
}

func sequences(page []ops.Rejected) (all []uint64) {
	for i := range page {
		all = append(all, page[i].Sequence)
	}
	return all
}

func TestRejects_ListsByTopicAndID(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns,
			Accept: bridgetest.Scheduling(t, nc, bridgetest.NewTimeline(t))})
		for _, push := range [][]string{
			{"mail.welcome", "Tarry-Delay", "tomorrow", "Tarry-Id", "m-1", "Tarry-Key", "k"},
			{"orders.created", "Tarry-Delay", "1s", "Tarry-Priority", "high"},
			{"mail.bill", "tarry-id", "m-2"},
			{"mail", "Tarry-Dealy", "1s", "Tarry-Delay", "1s"},
		} {
			bridgetest.Publish(t, nc, "later."+ns+"."+push[0], "body of "+push[0], push[1:]...)
			bridgetest.Emptied(t, nc, ns)
		}
		r := readingRejects(t, nc, ns)
		for what, c := range map[string]struct {
			q    ops.RejectQuery
			want string
		}{
			"all":            {ops.RejectQuery{Limit: 10}, "[1 2 3 4]"},
			"a page":         {ops.RejectQuery{From: 2, Limit: 2}, "[2 3]"},
			"a topic":        {ops.RejectQuery{Topic: "mail.bill", Limit: 10}, "[3]"},
			"a pattern":      {ops.RejectQuery{Topic: "mail.>", Limit: 10}, "[1 3]"},
			"a wild pattern": {ops.RejectQuery{Topic: "*.created", Limit: 10}, "[2]"},
			"an id":          {ops.RejectQuery{ID: "m-2", Limit: 10}, "[3]"},
			"a word":         {ops.RejectQuery{Word: "unknown_header", Limit: 10}, "[4]"},
			"what may be seen": {ops.RejectQuery{Limit: 10,
				See: func(topic string) bool { return topic == "orders.created" }}, "[2]"},
			"nothing": {ops.RejectQuery{Topic: "bills", Limit: 10}, "[]"},
		} {
			page, _, err := r.List(t.Context(), c.q)
			if err != nil || fmt.Sprint(sequences(page)) != c.want {
				t.Errorf("%s: got %v, %v, want %s", what, sequences(page), err, c.want)
			}
		}
		page, next, err := r.List(t.Context(), ops.RejectQuery{Limit: 1})
		if err != nil || next != 2 || len(page) != 1 {
			t.Fatalf("got %+v, %d, %v", page, next, err)
		}
		first := page[0]
		if time.Since(first.At.Time()).Abs() > time.Hour {
			t.Errorf("got at %d", first.At)
		}
		if first.At = 0; first.Topic != "mail.welcome" || first.ID != "m-1" || first.Key != "k" ||
			first.Word != "invalid_delay" || first.Detail == "" || first.Size != 20 ||
			first.Headers != nil || first.Body != nil || first.Incomplete {
			t.Errorf("got %+v", first)
		}
		one, err := r.Get(t.Context(), 1)
		if err != nil || one.Body == nil || *one.Body != "body of mail.welcome" ||
			fmt.Sprint(one.Headers) != "map[Tarry-Delay:[tomorrow] Tarry-Id:[m-1] Tarry-Key:[k]]" {
			t.Errorf("got %+v, %v", one, err)
		}
		if _, err = r.Get(t.Context(), 99); !errors.Is(err, ops.ErrUnknownReject) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRejects_PushAgainIsOneMessageHoweverOften(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	s := bridgetest.Scheduling(t, nc, timeline)
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: s})
	bridgetest.Publish(t, nc, "later."+ns+".mail.welcome", "hello", "Tarry-Delay", "tomorrow", "Tarry-Dealy", "x", "X",
		"1")
	bridgetest.Emptied(t, nc, ns)
	r := readingRejects(t, nc, ns)
	if _, err := r.Push(t.Context(), 1, &ops.RejectOrder{}); err == nil ||
		!strings.HasPrefix(ops.ProblemOf(err).Word, "unknown_header") {
		t.Errorf("as it was: %v", err)
	}
	order := &ops.RejectOrder{Topic: "mail.later", Set: []wire.Header{{Name: "Tarry-Delay", Value: "1h"}},
		Drop: []string{"Tarry-Dealy"}}
	var uid message.UID
	for i := range 2 {
		p, err := r.Push(t.Context(), 1, order)
		if err != nil {
			t.Fatal(err)
		}
		a := s.AcceptAll(t.Context(), []*scheduler.Push{p})[0]
		if a.Err != nil || a.Duplicate != (i == 1) || i == 1 && a.UID != uid || !a.UID.Intake() {
			t.Fatalf("%d: got %+v", i, a)
		}
		uid = a.UID
	}
	m := bridgetest.MustFind(t, timeline, scheduler.Ref{UID: uid})
	if m.Topic != "mail.later" || string(m.Body) != "hello" || len(m.Headers) != 1 || m.Headers[0].Name != "X" {
		t.Errorf("got %+v", m)
	}
	for range 2 {
		if err := r.Drop(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Push(t.Context(), 1, order); !errors.Is(err, ops.ErrUnknownReject) {
		t.Errorf("got %v", err)
	}
}

func TestRejects_OfOneSubjectDoNotPushOutTheOthers(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
		const bytes = 8 << 20
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns,
			Accept: bridgetest.Scheduling(t, nc, bridgetest.NewTimeline(t)), RejectBytes: bytes, RejectsPerSubject: 10})
		bridgetest.Publish(t, nc, "later."+ns+".mail.welcome", "hello", "Tarry-Delay", "tomorrow")
		bridgetest.Emptied(t, nc, ns)
		for i := range 30 { // more than the stream holds, and its topics differ
			bridgetest.Publish(t, nc, fmt.Sprintf("later.%s.orders.%d", ns, i), strings.Repeat("x", 400<<10),
				"Tarry-Delay", "tomorrow")
		}
		bridgetest.Emptied(t, nc, ns)
		if state := bridgetest.StreamState(t, nc, link.RejectsName(ns)); state.Bytes > bytes/2 {
			t.Errorf("%d rejects take %d of %d bytes", state.Msgs, state.Bytes, bytes)
		}
		for i := range 30 {
			bridgetest.Publish(t, nc, fmt.Sprintf("later.%s.orders.small.%d", ns, i), "x", "Tarry-Delay", "tomorrow")
		}
		bridgetest.Emptied(t, nc, ns)
		r := readingRejects(t, nc, ns)
		page, _, err := r.List(t.Context(), ops.RejectQuery{Limit: 1000})
		if err != nil || len(page) != 11 || page[0].Topic != "mail.welcome" ||
			!strings.HasPrefix(page[10].Topic, "orders.small.") {
			t.Errorf("got %+v, %v", page, err)
		}
		// What takes more than a subject may is kept without its body, and says so.
		bridgetest.Publish(t, nc, "later."+ns+".bills", strings.Repeat("x", int(nc.MaxPayload())-200), "Tarry-Delay",
			"tomorrow")
		bridgetest.Emptied(t, nc, ns)
		page, _, err = r.List(t.Context(), ops.RejectQuery{Topic: "bills", Limit: 1})
		if err != nil || len(page) != 1 || !page[0].Incomplete || page[0].Size != 0 {
			t.Fatalf("got %+v, %v", page, err)
		}
		if _, err := r.Push(t.Context(), page[0].Sequence, &ops.RejectOrder{}); !errors.Is(err,
			ops.ErrIncompleteReject) {
			t.Errorf("got %v", err)
		}
		if one, err := r.Get(t.Context(), page[0].Sequence); err != nil || one.Body != nil {
			t.Errorf("got %+v, %v", one, err)
		}
	})
}

// Where the rejects of many subjects do not fit together, the fullest subject gives way, and not the oldest reject.
func TestRejects_OfTheFullestSubjectGoFirst(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns,
		Accept: bridgetest.Scheduling(t, nc, bridgetest.NewTimeline(t)), RejectBytes: 2 << 20})
	bridgetest.Publish(t, nc, "later."+ns+".mail.welcome", "hello", "Tarry-Delay", "tomorrow")
	for i := range 400 { // 20 subjects, each below its share; all together take twice the room
		bridgetest.Publish(t, nc, fmt.Sprintf("later.%s.orders%d.a", ns, i%20), strings.Repeat("x", 10<<10),
			"Tarry-Delay", "tomorrow")
	}
	bridgetest.Emptied(t, nc, ns)
	r := readingRejects(t, nc, ns)
	page, _, err := r.List(t.Context(), ops.RejectQuery{Limit: 1000})
	if err != nil || len(page) < 100 ||
		!slices.ContainsFunc(page, func(r ops.Rejected) bool { return r.Topic == "mail.welcome" }) {
		t.Fatalf("%d are left, %v; want that of mail among them, the first is %+v", len(page), err, page[0])
	}
}

func TestRejects_LargerThanASubjectsShareKeepTheReasonAlone(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns,
		Accept: bridgetest.Scheduling(t, nc, bridgetest.NewTimeline(t)), RejectBytes: 1 << 20})
	bridgetest.Publish(t, nc, "later."+ns+".bills", strings.Repeat("x", 200<<10), "Tarry-Delay", "tomorrow", "X", "1")
	bridgetest.Emptied(t, nc, ns)
	one, err := readingRejects(t, nc, ns).Get(t.Context(), 1)
	if err != nil || !one.Incomplete || one.Size != 0 || len(one.Headers) != 0 || one.Word != "invalid_delay" ||
		!strings.Contains(one.Detail, "not all of it fits") {
		t.Errorf("got %+v, %v", one, err)
	}
}

// That a part is missing is said by a header: the reason keeps its own words, whatever they are.
func TestRejects_ThatLackAPartKeepTheWordsOfTheirReason(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	const why = "the words; not all of it fits here"
	to := &bridgetest.Taken{Pushes: make(chan *scheduler.Push, 2), Err: fmt.Errorf("%w: %s", scheduler.ErrTooFar, why)}
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to, RejectBytes: 1 << 20})
	for i, body := range []string{"small", strings.Repeat("x", 200<<10)} {
		bridgetest.Publish(t, nc, "later."+ns+".bills", body, "Tarry-Delay", "1s")
		bridgetest.Emptied(t, nc, ns)
		one, err := readingRejects(t, nc, ns).Get(t.Context(), uint64(i+1))
		want := why
		if i == 1 {
			want += "; not all of it fits here"
		}
		if err != nil || one.Incomplete != (i == 1) || !strings.HasSuffix(one.Detail, ": "+want) {
			t.Errorf("got %+v, %v", one, err)
		}
	}
}

func TestRejects_NeedJetStream(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.NewNATS(t, lab.NoJetStream()).URL())
	r := readingRejects(t, nc, "ns")
	if _, _, err := r.List(t.Context(), ops.RejectQuery{Limit: 1}); !errors.Is(err, ops.ErrNoRejects) {
		t.Errorf("got %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := r.List(ctx, ops.RejectQuery{Limit: 1}); !errors.Is(err, scheduler.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestRejects_NATSThatDoesNotAnswerIsNamed: one call of the JetStream API is waited for, and what failed is neither the
// store nor the time that the caller has.
func TestRejects_NATSThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
	r := readingRejects(t, nc, ns)
	calls := map[string]func(ctx context.Context) error{
		"list": func(ctx context.Context) error { _, _, err := r.List(ctx, ops.RejectQuery{Limit: 1}); return err },
		"get":  func(ctx context.Context) error { _, err := r.Get(ctx, 1); return err },
		"push": func(ctx context.Context) error { _, err := r.Push(ctx, 1, &ops.RejectOrder{}); return err },
		"drop": func(ctx context.Context) error { return r.Drop(ctx, 1) },
	}
	server.Pause()
	for what, call := range calls {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		err := call(ctx)
		if ctx.Err() != nil || !errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "nats does not answer") {
			t.Errorf("%s: got %v", what, err)
		}
		stop()
	}
	server.Resume()
}

// A producer may publish to a literal wildcard. Its rejects make room for each other and for nobody else's.
func TestRejects_OfAWildcardPushOutNobodyElses(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns,
			Accept:      bridgetest.Scheduling(t, nc, bridgetest.NewTimeline(t)),
			RejectBytes: 8 << 20, RejectsPerSubject: 10})
		for i := range 20 {
			bridgetest.Publish(t, nc, fmt.Sprintf("later.%s.topic%d.x", ns, i), "x", "Tarry-Delay", "tomorrow")
		}
		bridgetest.Emptied(t, nc, ns)
		for _, wild := range []string{"*", ">", "*.>"} {
			bridgetest.Publish(t, nc, "later."+ns+"."+wild, strings.Repeat("x", 900<<10), "Tarry-Delay", "20m")
			bridgetest.Emptied(t, nc, ns)
		}
		page, _, err := readingRejects(t, nc, ns).List(t.Context(), ops.RejectQuery{Limit: 1000})
		others := slices.DeleteFunc(slices.Clone(page), func(r ops.Rejected) bool { return r.Topic[0] != 't' })
		if err != nil || len(page) < 21 || len(others) != 20 { // several workers store them, in any order
			t.Errorf("%d rejects are left, %d of 20 that are not of wildcards, %v", len(page), len(others), err)
		}
	})
}
