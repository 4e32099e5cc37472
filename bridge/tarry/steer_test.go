package tarry

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestReschedule_AsksForWhatIsGiven(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, always(`{"id":"a","uid":"0uid","state":"waiting","due":"2030-01-31T08:00:00.000Z",`+
		`"version":3,"priority":7,"topic":"orders"}`))
	conn := wrap(t, nc)
	at := time.Date(2030, 1, 31, 8, 0, 0, 1000, time.UTC)
	asked := 0
	for want, c := range map[string]Change{
		`"at":"2030-01-31T08:00:00.000001Z"}`:         {At: &at},
		`"delay":"0s"}`:                               {Delay: new(time.Duration(0))},
		`"shift":"0s"}`:                               {Shift: new(time.Duration(0))},
		`"shift":"-10m0s","version":2}`:               {Shift: new(-10 * time.Minute), Version: new(uint64(2))},
		`"priority":0,"headers":{},"body_base64":""}`: {Priority: new(uint8(0)), Header: nats.Header{}, Data: []byte{}},
		`"delay":"20m0s","priority":7,"headers":{"X":["1","2"]},"body_base64":"eA==","version":9}`: {
			Delay: new(20 * time.Minute), Priority: new(uint8(7)), Header: nats.Header{"X": {"1", "2"}},
			Data: []byte("x"), Version: new(uint64(9))},
	} {
		want = `{"id":"a","key":"k",` + want
		got, err := conn.Tarry().Reschedule(t.Context(), Ref{ID: "a", Key: "k"}, c)
		wanted := (Rescheduled{ID: "a", UID: "0uid", Topic: "orders", State: "waiting",
			Due: at.Truncate(time.Millisecond), Priority: 7, Version: 3})
		if err != nil || got != wanted {
			t.Errorf("got %+v, %v", got, err)
		}
		if got := in.all()[asked]; got != want {
			t.Errorf("asked %s\nwant %s", got, want)
		}
		asked++
	}
	if got, err := conn.Tarry().Run(t.Context(), Ref{ID: "a"}); err != nil || got.Version != 3 ||
		in.all()[asked] != `{"id":"a"}` {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := conn.Tarry().Reschedule(t.Context(), Ref{}, Change{})
	wantRefused(t, err, "invalid_id", "id")
}

func TestReschedule_ReturnsWhatReallyHappened(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	newInstance(t, nc, func(_ int, data string) string {
		word := strings.Split(data, `"`)[3]
		return `{"error":"` + word + `","detail":"d","version":5,"at":"2029-01-31T08:00:00.000Z"}`
	})
	conn := wrap(t, nc)
	for word, target := range map[string]error{"version_mismatch": ErrVersionMismatch, "in_flight": ErrInFlight,
		"maybe_delivered": ErrMaybeDelivered, "unknown_id": ErrUnknownID,
		"already_delivered": ErrAlreadyDelivered, "already_canceled": ErrAlreadyCanceled,
		"outcome_unknown": ErrOutcomeUnknown} {
		_, err := conn.Tarry().Reschedule(t.Context(), Ref{ID: word}, Change{Delay: new(time.Minute)})
		var e *Error
		if !errors.Is(err, target) || !errors.As(err, &e) || e.Version != 5 || e.At.IsZero() {
			t.Errorf("%s: got %#v", word, err)
		}
	}
	if _, err := conn.Tarry().Requeue(t.Context(), Ref{ID: "not_dead"}, Change{}); !errors.Is(err, ErrNotDead) {
		t.Errorf("got %v", err)
	}
}

func TestReschedule_AsksAgainOnlyWhereTwiceIsOnce(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, always(""))
	conn := wrap(t, nc, WithAckWait(100*time.Millisecond), WithTimeout(600*time.Millisecond))
	_, err := conn.Tarry().Reschedule(t.Context(), Ref{ID: "shift"}, Change{Shift: new(time.Hour)})
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if n := len(in.all()); n != 1 {
		t.Errorf("a shift was asked for %d times", n)
	}
	_, err = conn.Tarry().Reschedule(t.Context(), Ref{ID: "shift"},
		Change{Shift: new(time.Hour), Version: new(uint64(1))})
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if n := len(in.all()); n < 3 {
		t.Errorf("with its version it was asked for %d times", n-1)
	}

	nc2, _ := account(t)
	var changes, runs atomic.Int64
	newInstance(t, nc2, func(_ int, data string) string { // it loses the first answer of each kind
		switch change := strings.Contains(data, `"version"`); {
		case change && changes.Add(1) > 1:
			return `{"error":"version_mismatch","detail":"d","version":2}`
		case !change && runs.Add(1) > 1:
			return `{"id":"a","uid":"0uid","state":"waiting","due":"2030-01-31T08:00:00.000Z","version":2}`
		}
		return ""
	})
	conn = wrap(t, nc2, WithAckWait(100*time.Millisecond))
	// The first, whose answer was lost, may have made the very change that the second stumbles over.
	_, err = conn.Tarry().Reschedule(t.Context(), Ref{ID: "a"},
		Change{Delay: new(time.Hour), Version: new(uint64(1))})
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, ErrVersionMismatch) {
		t.Errorf("got %v", err)
	}
	if got, err := conn.Tarry().Run(t.Context(), Ref{ID: "a"}); err != nil || got.Version != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMany_ReturnsTheReport(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, func(n int, data string) string {
		if strings.Contains(data, "away") {
			return `{"error":"unavailable","detail":"d","report":{"looked":9,"matched":5,"done":4,"failed":1}}`
		}
		return `{"looked":9,"matched":8,"done":4,"in_flight":1,"maybe_delivered":1,"ended":1,"failed":1}`
	})
	conn := wrap(t, nc)
	from := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	want := Report{Looked: 9, Matched: 8, Done: 4, InFlight: 1, MaybeDelivered: 1, Ended: 1, Failed: 1}
	got, err := conn.Tarry().CancelMany(t.Context(),
		Selection{Topic: "orders.>", Key: "k", DueFrom: from, DueTo: from.Add(1999 * time.Microsecond), DryRun: true})
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = conn.Tarry().RescheduleMany(
		t.Context(), Selection{All: true, AcceptedTo: from}, Change{Shift: new(-time.Hour)}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = conn.Tarry().CancelMany(t.Context(), Selection{Topic: "away"})
	var e *Error
	if !errors.As(err, &e) || e.Word != "unavailable" || e.Report == nil ||
		*e.Report != (Report{Looked: 9, Matched: 5, Done: 4, Failed: 1}) {
		t.Errorf("got %#v", err)
	}
	asked := in.all()
	if asked[0] != `{"topic":"orders.\u003e","key":"k","due_from":"2030-01-31T08:00:00Z",`+
		`"due_to":"2030-01-31T08:00:00.001Z","dry_run":true}` ||
		asked[1] != `{"accepted_to":"2030-01-31T08:00:00Z","all":true,"shift":"-1h0m0s"}` {
		t.Errorf("asked %s", asked)
	}
	_, err = conn.Tarry().RescheduleMany(t.Context(), Selection{All: true}, Change{Priority: new(uint8(1))})
	wantRefused(t, err, "unsupported_yet", "change")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.Tarry().CancelMany(ctx, Selection{All: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMany_WaitsLongerThanOtherRequestsAndIsNotRepeated(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	another := make(chan *Conn, 1)
	in := newInstance(t, nc, func(n int, _ string) string {
		if n > 0 {
			return ""
		}
		// Before it answers, another request has been repeated and given up.
		if _, err := (<-another).Tarry().Get(context.Background(), Ref{ID: "a"}); !errors.Is(err, ErrOutcomeUnknown) &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the other request: %v", err)
		}
		return `{"looked":1}`
	})
	conn := wrap(t, nc, WithAckWait(50*time.Millisecond), WithTimeout(200*time.Millisecond))
	another <- conn
	if got, err := conn.Tarry().CancelMany(t.Context(), Selection{All: true}); err != nil || got.Looked != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := conn.Tarry().RescheduleMany(ctx, Selection{All: true}, Change{Shift: new(time.Hour)}); !errors.Is(err,
		ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	for what, n := range map[string]int{`"shift"`: 1, `{"all":true}`: 1} {
		if got := strings.Count(strings.Join(in.all(), "\n"), what); got != n {
			t.Errorf("%s was asked for %d times", what, got)
		}
	}
}

func TestRequeue_GivesADeadMessageAnotherLife(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := newInstance(t, nc, always(
		`{"id":"a","uid":"1uid","state":"waiting","due":"2030-01-31T08:00:00.000Z","version":1,"durable":"redis"}`))
	got, err := wrap(t, nc).Tarry().Requeue(t.Context(), Ref{ID: "a", Key: "k"},
		Change{Delay: new(time.Minute), Data: []byte("x")})
	if err != nil || got.ID != "a" || got.UID != "1uid" || got.Due.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	if asked := in.all()[0]; asked != `{"id":"a","key":"k","delay":"1m0s","body_base64":"eA=="}` {
		t.Errorf("asked %s", asked)
	}
	nc2, _ := account(t)
	newInstance(t, nc2, always(`{"error":"outcome_unknown","detail":"d","id":"a","uid":"0uid"}`))
	var e *Error
	_, err = wrap(t, nc2).Tarry().Requeue(t.Context(), Ref{ID: "a"}, Change{})
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &e) || e.UID != "0uid" {
		t.Errorf("an unknown outcome: %v", err)
	}
	for _, change := range []Change{{At: new(time.Now())}, {Shift: new(time.Hour)}, {Priority: new(uint8(1))},
		{Version: new(uint64(1))}} {
		_, err := wrap(t, nc).Tarry().Requeue(t.Context(), Ref{ID: "a"}, change)
		wantRefused(t, err, "unsupported_yet", "change")
	}
	nobody := wrap(t, more(), WithNamespace("nobody")).Tarry()
	if _, err := nobody.Requeue(t.Context(), Ref{ID: "a"}, Change{}); !errors.Is(err, ErrNoInstance) {
		t.Errorf("got %v", err)
	}
}

func TestCancel_ReturnsWhatReallyHappened(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, func(_ int, data string) string {
		switch {
		case strings.Contains(data, `"good"`):
			return `{"id":"good","uid":"0uid","state":"canceled","topic":"orders","due":"2030-01-31T08:00:00.000Z",` +
				`"at":"2029-01-31T08:00:00.000Z","version":2,"attempt":3}`
		case strings.Contains(data, `"late"`):
			return `{"error":"already_delivered","detail":"late was delivered","id":"late","uid":"0u",` +
				`"state":"delivered","at":"2029-01-31T08:00:00.000Z"}`
		}
		for _, word := range []string{"in_flight", "maybe_delivered", "ambiguous_id", "already_expired",
			"already_dead"} {
			if strings.Contains(data, `"`+word+`"`) {
				return `{"error":"` + word + `","detail":"d"}`
			}
		}
		return `{"error":"unknown_id","detail":"d"}`
	})
	conn := wrap(t, nc)
	got, err := conn.Tarry().Cancel(t.Context(), Ref{ID: "good", Key: "k"})
	want := Canceled{ID: "good", UID: "0uid", Topic: "orders", Due: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC),
		At: time.Date(2029, 1, 31, 8, 0, 0, 0, time.UTC), Version: 2, Attempt: 3}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	if asked := in.all()[0]; asked != `{"id":"good","key":"k"}` {
		t.Errorf("asked %s", asked)
	}
	_, err = conn.Tarry().Cancel(t.Context(), Ref{ID: "late"})
	var e *Error
	if !errors.Is(err, ErrAlreadyDelivered) || !errors.As(err, &e) || !e.At.Equal(want.At) || e.State != "delivered" {
		t.Errorf("got %#v", err)
	}
	if asked := in.all()[1]; asked != `{"id":"late"}` {
		t.Errorf("asked %s", asked)
	}
	for id, target := range map[string]error{"in_flight": ErrInFlight, "maybe_delivered": ErrMaybeDelivered,
		"ambiguous_id":    ErrAmbiguousID,
		"already_expired": ErrAlreadyExpired, "already_dead": ErrAlreadyDead, "other": ErrUnknownID} {
		if _, err := conn.Tarry().Cancel(t.Context(), Ref{ID: id}); !errors.Is(err, target) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	_, err = conn.Tarry().Cancel(t.Context(), Ref{})
	wantRefused(t, err, "invalid_id", "id")
	_, err = conn.Tarry().Cancel(t.Context(), Ref{ID: "a", Key: "\n"})
	wantRefused(t, err, "invalid_key", "key")
}

func TestCancel_AsksAgainAfterALostAnswer(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	newInstance(t, nc, func(n int, _ string) string {
		if n == 0 {
			return ""
		}
		return `{"id":"a","uid":"0uid","state":"canceled"}`
	})
	if c, err := wrap(t, nc, WithAckWait(100*time.Millisecond)).Tarry().Cancel(t.Context(), Ref{ID: "a"}); err != nil ||
		c.UID != "0uid" {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func TestCancel_WithoutAnInstanceSaysSo(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	conn := wrap(t, nc)
	if _, err := conn.Tarry().Cancel(t.Context(), Ref{ID: "a"}); !errors.Is(err, ErrNoInstance) ||
		errors.Is(err, ErrNoIntake) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.Tarry().Get(ctx, Ref{ID: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGet_ReadsAWholeMessage(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	newInstance(t, nc, func(n int, _ string) string {
		if n == 1 {
			return `{"id":"0uid","uid":"0uid","topic":"orders","state":"delivered","version":3,` +
				`"due":"2030-01-31T08:00:00.000Z","ended_at":"2030-01-31T08:00:00.002Z","body_base64":"AP8="}`
		}
		if n == 2 {
			return `{"id":"large","uid":"0uid","topic":"orders","state":"waiting","version":1,` +
				`"due":"2030-01-31T08:00:00.000Z","refusals":2,"body_omitted":true}`
		}
		return `{"id":"order-1","uid":"0uid","key":"k","topic":"orders","state":"waiting","version":1,` +
			`"due":"2030-01-31T08:00:00.000Z","priority":7,"ttl":"1h0m0s",` +
			`"attempt":2,"uncertain":true,"parked":"paused","why":{"word":"paused","by":"ann"},` +
			`"reason":"r","headers":{"X":["1","2"]},"body":"text"}`
	})
	conn := wrap(t, nc)
	due := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	got, err := conn.Tarry().Get(t.Context(), Ref{ID: "order-1"})
	want := Message{ID: "order-1", UID: "0uid", Key: "k", Topic: "orders", State: "waiting", Version: 1, Due: due,
		Priority: 7, TTL: time.Hour, Attempt: 2,
		Uncertain: true, Parked: "paused", Why: Why{Word: "paused", By: "ann"},
		Reason: "r", Header: nats.Header{"X": {"1", "2"}}, Data: []byte("text")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	got, err = conn.Tarry().Get(t.Context(), Ref{ID: "0uid"})
	want = Message{ID: "0uid", UID: "0uid", Topic: "orders", State: "delivered", Version: 3, Due: due,
		EndedAt: due.Add(2 * time.Millisecond), Data: []byte{0, 255}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	got, err = conn.Tarry().Get(t.Context(), Ref{ID: "large"})
	want = Message{ID: "large", UID: "0uid", Topic: "orders", State: "waiting", Version: 1, Due: due, Refusals: 2,
		DataOmitted: true}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}
