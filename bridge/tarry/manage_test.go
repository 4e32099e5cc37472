package tarry

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestCancel_TellsWhatReallyHappened(t *testing.T) {
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
	got, err := conn.Cancel(t.Context(), Ref{ID: "good", Key: "k"})
	want := Canceled{ID: "good", UID: "0uid", Topic: "orders", Due: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC),
		At: time.Date(2029, 1, 31, 8, 0, 0, 0, time.UTC), Version: 2, Attempt: 3}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	if asked := in.all()[0]; asked != `{"id":"good","key":"k"}` {
		t.Errorf("asked %s", asked)
	}
	_, err = conn.Cancel(t.Context(), Ref{ID: "late"})
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
		if _, err := conn.Cancel(t.Context(), Ref{ID: id}); !errors.Is(err, target) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	_, err = conn.Cancel(t.Context(), Ref{})
	wantRefused(t, err, "invalid_id", "id")
	_, err = conn.Cancel(t.Context(), Ref{ID: "a", Key: "\n"})
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
	if c, err := wrap(t, nc, AckWait(100*time.Millisecond)).Cancel(t.Context(), Ref{ID: "a"}); err != nil ||
		c.UID != "0uid" {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func TestCancel_WithoutAnInstanceSaysSo(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	conn := wrap(t, nc)
	if _, err := conn.Cancel(t.Context(), Ref{ID: "a"}); !errors.Is(err, ErrNoIntake) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.Get(ctx, Ref{ID: "a"}); !errors.Is(err, context.Canceled) {
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
			`"attempt":2,"uncertain":true,"parked":"paused","reason":"r","headers":{"X":["1","2"]},"body":"text"}`
	})
	conn := wrap(t, nc)
	due := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	got, err := conn.Get(t.Context(), Ref{ID: "order-1"})
	want := Message{ID: "order-1", UID: "0uid", Key: "k", Topic: "orders", State: "waiting", Version: 1, Due: due,
		Priority: 7, TTL: time.Hour, Attempt: 2,
		Uncertain: true, Parked: "paused", Reason: "r", Header: nats.Header{"X": {"1", "2"}}, Data: []byte("text")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	got, err = conn.Get(t.Context(), Ref{ID: "0uid"})
	want = Message{ID: "0uid", UID: "0uid", Topic: "orders", State: "delivered", Version: 3, Due: due,
		EndedAt: due.Add(2 * time.Millisecond), Data: []byte{0, 255}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	got, err = conn.Get(t.Context(), Ref{ID: "large"})
	want = Message{ID: "large", UID: "0uid", Topic: "orders", State: "waiting", Version: 1, Due: due, Refusals: 2,
		DataOmitted: true}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}
