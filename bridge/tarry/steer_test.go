package tarry

import (
	"context"
	"errors"
	"strings"
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
		`{"id":"a","key":"k",` +
			`"at":"2030-01-31T08:00:00.000001Z"}`: {At: at},
		`{"id":"a","key":"k",` +
			`"delay":"0s"}`: {
			Delay: new(time.Duration(0))},
		`{"id":"a","key":"k","shift":"-10m0s",` +
			`"version":2}`: {
			Shift: -10 * time.Minute, Version: 2},
		`{"id":"a","key":"k","priority":0,"headers":{},` +
			`"body_base64":""}`: {Priority: new(uint8(0)),
			Header: nats.Header{}, Data: []byte{}},
		`{"id":"a","key":"k","delay":"20m0s","priority":7,"headers":{"X":["1","2"]},"body_base64":"eA==",` +
			`"version":9}`: {Delay: new(20 * time.Minute), Priority: new(uint8(7)),
			Header: nats.Header{"X": {"1", "2"}}, Data: []byte("x"), Version: 9},
	} {
		got, err := conn.Reschedule(t.Context(), Ref{ID: "a", Key: "k"}, c)
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
	if got, err := conn.Run(t.Context(), Ref{ID: "a"}); err != nil || got.Version != 3 ||
		in.all()[asked] != `{"id":"a"}` {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := conn.Reschedule(t.Context(), Ref{}, Change{})
	wantRefused(t, err, "invalid_id", "id")
}

func TestReschedule_TellsWhatReallyHappened(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	newInstance(t, nc, func(_ int, data string) string {
		word := strings.Split(data, `"`)[3]
		return `{"error":"` + word + `","detail":"d","version":5,"at":"2029-01-31T08:00:00.000Z"}`
	})
	conn := wrap(t, nc)
	for word, target := range map[string]error{"version_mismatch": ErrVersion, "in_flight": ErrInFlight,
		"maybe_delivered": ErrMaybeDelivered, "unknown_id": ErrUnknownID,
		"already_delivered": ErrAlreadyDelivered, "already_canceled": ErrAlreadyCanceled,
		"outcome_unknown": ErrOutcomeUnknown} {
		_, err := conn.Reschedule(t.Context(), Ref{ID: word}, Change{Delay: new(time.Minute)})
		var e *Error
		if !errors.Is(err, target) || !errors.As(err, &e) || e.Version != 5 || e.At.IsZero() {
			t.Errorf("%s: got %#v", word, err)
		}
	}
	if _, err := conn.Requeue(t.Context(), Ref{ID: "not_dead"}, Requeue{}); !errors.Is(err, ErrNotDead) {
		t.Errorf("got %v", err)
	}
}

func TestReschedule_AsksAgainOnlyWhereTwiceIsOnce(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, always(""))
	conn := wrap(t, nc, AckWait(100*time.Millisecond), Timeout(600*time.Millisecond))
	_, err := conn.Reschedule(t.Context(), Ref{ID: "shift"}, Change{Shift: time.Hour})
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if n := len(in.all()); n != 1 {
		t.Errorf("a shift was asked for %d times", n)
	}
	if _, err := conn.Reschedule(t.Context(), Ref{ID: "shift"}, Change{Shift: time.Hour, Version: 1}); !errors.Is(err,
		ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if n := len(in.all()); n < 3 {
		t.Errorf("with its version it was asked for %d times", n-1)
	}

	nc2, _ := account(t)
	newInstance(t, nc2, func(n int, _ string) string {
		return map[int]string{1: `{"error":"version_mismatch","detail":"d","version":2}`,
			3: `{"id":"a","uid":"0uid","state":"waiting","due":"2030-01-31T08:00:00.000Z","version":2}`}[n]
	})
	conn = wrap(t, nc2, AckWait(100*time.Millisecond))
	// The first, whose answer was lost, may have made the very change that the second stumbles over.
	if _, err := conn.Reschedule(t.Context(), Ref{ID: "a"}, Change{Delay: new(time.Hour), Version: 1}); !errors.Is(
		err, ErrOutcomeUnknown) || !errors.Is(err, ErrVersion) {
		t.Errorf("got %v", err)
	}
	if got, err := conn.Run(t.Context(), Ref{ID: "a"}); err != nil || got.Version != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMany_TellsTheReport(t *testing.T) {
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
	got, err := conn.CancelMany(t.Context(),
		Selection{Topic: "orders.>", Key: "k", DueFrom: from, DueTo: from.Add(1999 * time.Microsecond), DryRun: true})
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = conn.RescheduleMany(
		t.Context(), Selection{All: true}, Change{Shift: -time.Hour}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = conn.CancelMany(t.Context(), Selection{Topic: "away"})
	var e *Error
	if !errors.As(err, &e) || e.Word != "unavailable" || e.Report == nil ||
		*e.Report != (Report{Looked: 9, Matched: 5, Done: 4, Failed: 1}) {
		t.Errorf("got %#v", err)
	}
	asked := in.all()
	if asked[0] != `{"topic":"orders.\u003e","key":"k","due_from":"2030-01-31T08:00:00Z",`+
		`"due_to":"2030-01-31T08:00:00.001Z","dry_run":true}` ||
		asked[1] != `{"all":true,"shift":"-1h0m0s"}` {
		t.Errorf("asked %s", asked)
	}
	_, err = conn.RescheduleMany(t.Context(), Selection{All: true}, Change{Priority: new(uint8(1))})
	wantRefused(t, err, "unsupported_yet", "change")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.CancelMany(ctx, Selection{All: true}); !errors.Is(err, context.Canceled) {
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
		if _, err := (<-another).Get(context.Background(), Ref{ID: "a"}); !errors.Is(err, ErrOutcomeUnknown) &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the other request: %v", err)
		}
		return `{"looked":1}`
	})
	conn := wrap(t, nc, AckWait(50*time.Millisecond), Timeout(200*time.Millisecond))
	another <- conn
	if got, err := conn.CancelMany(t.Context(), Selection{All: true}); err != nil || got.Looked != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := conn.RescheduleMany(ctx, Selection{All: true}, Change{Shift: time.Hour}); !errors.Is(err,
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
	got, err := wrap(t, nc).Requeue(t.Context(), Ref{ID: "a", Key: "k"}, Requeue{Delay: time.Minute, Data: []byte("x")})
	if err != nil || got.ID != "a" || got.UID != "1uid" || got.Due.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	if asked := in.all()[0]; asked != `{"id":"a","key":"k","delay":"1m0s","body_base64":"eA=="}` {
		t.Errorf("asked %s", asked)
	}
	nc2, _ := account(t)
	newInstance(t, nc2, always(`{"error":"outcome_unknown","detail":"d","id":"a","uid":"0uid"}`))
	var e *Error
	if _, err := wrap(t, nc2).Requeue(t.Context(), Ref{ID: "a"}, Requeue{}); !errors.Is(err, ErrOutcomeUnknown) ||
		!errors.As(err, &e) || e.UID != "0uid" {
		t.Errorf("an unknown outcome: %v", err)
	}
	if _, err := wrap(t, more(), Namespace("nobody")).Requeue(t.Context(), Ref{ID: "a"}, Requeue{}); !errors.Is(err,
		ErrNoIntake) {
		t.Errorf("got %v", err)
	}
}
