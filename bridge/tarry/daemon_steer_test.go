package tarry

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// lookUp reads whole messages, of each state there is without a consumer that fails.
func lookUp(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	m := Tag(message("seen.waiting", "body \x00\xff", "X", "1", "X", "2"), At(due), As("seen"), Key("k"), Priority(7),
		TTL(time.Minute), Retries(Schedule("1m,2m").Jitter(10)))
	r := pushed(t, c, m)
	want := Message{ID: "seen", UID: r.UID, Key: "k", Topic: "seen.waiting", State: "waiting", Version: 1, Due: due,
		Priority: 7, TTL: time.Minute, Attempt: 1,
		Retries: "1m,2m~10%", Header: nats.Header{"X": {"1", "2"}}, Data: []byte("body \x00\xff"),
		Why: Why{Word: "not_due", Detail: "it is not due yet", Next: due}}
	for _, ref := range []Ref{{ID: "seen"}, {ID: "seen", Key: "k"}, {ID: r.UID}} {
		if got, err := c.Tarry().Get(t.Context(), ref); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %+v, %v\nwant %+v", ref, got, err, want)
		}
	}
	_, err := c.Tarry().Get(t.Context(), Ref{ID: "seen", Key: "other"})
	wantIs(t, err, ErrUnknownID)

	large := bytes.Repeat([]byte{0xff}, 900<<10) // in base64 beyond what NATS carries in one answer
	pushed(t, d.client(t, WithRoute(ByStream)),
		Tag(message("seen.large", string(large)), In(time.Hour), As("seen-large")))
	if got := becomes(t, c, Ref{ID: "seen-large"}, "waiting"); !got.DataOmitted || got.Data != nil {
		t.Errorf("got %d bytes, omitted: %t", len(got.Data), got.DataOmitted)
	}

	if err := d.call(t.Context(), http.MethodPost, "/v1/topics/seen.paused/pause", ""); err != nil {
		t.Fatal(err)
	}
	pushed(t, c, Tag(message("seen.paused", "x"), In(time.Hour), As("paused")))
	if got, err := c.Tarry().Get(t.Context(), Ref{ID: "paused"}); err != nil || got.State != "waiting" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Tarry().Run(t.Context(), Ref{ID: "paused"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		got, err := c.Tarry().Get(t.Context(), Ref{ID: "paused"})
		if err == nil && (got.Parked == "" || got.Why.Word != "paused") {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	sub := listen(t, c, "seen.paused")
	if err := d.call(t.Context(), http.MethodPost, "/v1/topics/seen.paused/resume", ""); err != nil {
		t.Fatal(err)
	}
	if got := next(t, sub); string(got.Data) != "x" {
		t.Errorf("got %s", got.Data)
	}
	if got := becomes(t, c, Ref{ID: "paused"}, "delivered"); got.EndedAt.IsZero() || got.Parked != "" {
		t.Errorf("got %+v", got)
	}
}

// changeWaiting changes a message in every way, the last of which is to run it.
func changeWaiting(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	sub := listen(t, c, "changed")
	r := pushed(t, c, Tag(message("changed", "old", "X", "1"), In(time.Hour), As("changed")))
	ref := Ref{ID: "changed"}
	change := func(what Change) Rescheduled {
		t.Helper()
		got, err := c.Tarry().Reschedule(t.Context(), ref, what)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != "changed" || got.UID != r.UID || got.Topic != "changed" || got.State != "waiting" {
			t.Errorf("got %+v", got)
		}
		return got
	}
	at := time.Now().Add(3 * time.Hour).Truncate(time.Millisecond).UTC()
	if got := change(Change{At: &at, Priority: new(uint8(7)), Version: new(uint64(1))}); !got.Due.Equal(at) ||
		got.Priority != 7 || got.Version != 2 {
		t.Errorf("got %+v", got)
	}
	_, err := c.Tarry().Reschedule(t.Context(), ref, Change{At: &at, Version: new(uint64(7))})
	if e := wantIs(t, err, ErrVersionMismatch); e.Version != 2 {
		t.Errorf("got %#v", e)
	}
	if got := change(Change{Shift: new(-time.Hour)}); !got.Due.Equal(at.Add(-time.Hour)) || got.Version != 3 {
		t.Errorf("got %+v", got)
	}
	start := time.Now()
	if got := change(Change{Delay: new(20 * time.Minute), Data: []byte("new"),
		Header: nats.Header{"Y": {"2"}}}); got.Due.Before(start.Add(20*time.Minute)) ||
		got.Due.After(time.Now().Add(20*time.Minute+time.Second)) || got.Version != 4 {
		t.Errorf("got %+v", got)
	}
	if got := change(Change{Header: nats.Header{}}); got.Version != 5 {
		t.Errorf("got %+v", got)
	}
	if got, err := c.Tarry().Get(t.Context(), ref); err != nil || string(got.Data) != "new" || len(got.Header) != 0 ||
		got.Priority != 7 || got.Version != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.Tarry().Run(t.Context(), ref); err != nil || got.Due.After(time.Now().Add(time.Second)) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got := next(t, sub); string(got.Data) != "new" || has(got.Header, "X") || got.Header.Get(HeaderID) != "changed" {
		t.Errorf("got %s with %v", got.Data, got.Header)
	}
	becomes(t, c, ref, "delivered")
	_, err = c.Tarry().Reschedule(t.Context(), ref, Change{At: &at})
	wantIs(t, err, ErrAlreadyDelivered)
	_, err = c.Tarry().Run(t.Context(), ref)
	wantIs(t, err, ErrAlreadyDelivered)
	_, err = c.Tarry().Run(t.Context(), Ref{ID: "nobody"})
	wantIs(t, err, ErrUnknownID)
}

// cancelAndTell cancels what waits, and what cannot be canceled any more.
func cancelAndTell(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	r := pushed(t, c, Tag(message("canceled", "x"), In(time.Hour), As("canceled")))
	for range 2 { // repeating it is safe
		got, err := c.Tarry().Cancel(t.Context(), Ref{ID: "canceled"})
		if err != nil || got.ID != "canceled" || got.UID != r.UID || got.Topic != "canceled" || !got.Due.Equal(r.Due) ||
			time.Since(got.At).Abs() > time.Minute || got.Version != 2 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	_, err := c.Tarry().Run(t.Context(), Ref{ID: "canceled"})
	if e := wantIs(t, err, ErrAlreadyCanceled); e.State != "canceled" || e.At.IsZero() {
		t.Errorf("got %#v", e)
	}
	_, err = c.Tarry().Cancel(t.Context(), Ref{ID: "nobody at all"})
	wantIs(t, err, ErrUnknownID)

	sub := listen(t, c, "canceled.late")
	start := time.Now()
	pushed(t, c, Tag(message("canceled.late", "x"), In(time.Millisecond), As("late")))
	next(t, sub)
	becomes(t, c, Ref{ID: "late"}, "delivered")
	_, err = c.Tarry().Cancel(t.Context(), Ref{ID: "late"})
	if e := wantIs(t, err, ErrAlreadyDelivered); e.At.Before(start.Add(-time.Second)) ||
		e.At.After(time.Now().Add(time.Second)) || e.State != "delivered" {
		t.Errorf("got %#v", e)
	}
	pushed(t, c, Tag(message("canceled.expired", "x"), At(time.Now().Add(-time.Hour)), As("expired"), TTL(time.Second)))
	becomes(t, c, Ref{ID: "expired"}, "expired")
	_, err = c.Tarry().Cancel(t.Context(), Ref{ID: "expired"})
	wantIs(t, err, ErrAlreadyExpired)

	for _, key := range []string{"one", "two"} {
		pushed(t, c, Tag(message("canceled", "x"), In(time.Hour), As("both"), Key(key)))
	}
	_, err = c.Tarry().Cancel(t.Context(), Ref{ID: "both"})
	wantIs(t, err, ErrAmbiguousID)
	var ambiguous *Error
	if !errors.As(err, &ambiguous) || len(ambiguous.Candidates) != 2 || ambiguous.Candidates[0].Topic != "canceled" ||
		ambiguous.Candidates[0].State != "waiting" {
		t.Errorf("got %+v", ambiguous)
	}
	if _, err := c.Tarry().Cancel(t.Context(), Ref{ID: "both", Key: "one"}); err != nil {
		t.Error(err)
	}
	if got, err := c.Tarry().Get(t.Context(), Ref{ID: "both"}); err != nil || got.Key != "two" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// cancelInFlight cancels a message that a consumer has got while tarry has not yet written down that it left. That
// takes some milliseconds, so one of a few is met there.
func cancelInFlight(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	sub := listen(t, c, "flying")
	tries := 0
	eventually(t, func() error {
		tries++
		ref := Ref{ID: fmt.Sprint("flying-", tries)}
		pushed(t, c, Tag(message("flying", "x"), In(20*time.Millisecond), As(ref.ID)))
		next(t, sub)
		_, err := c.Tarry().Cancel(t.Context(), ref)
		if e := new(Error); errors.Is(err, ErrInFlight) {
			if errors.As(err, &e); e.State != "in_flight" {
				t.Errorf("got %#v", e)
			}
			becomes(t, c, ref, "delivered") // asked again, it returns how that ended
			return nil
		}
		wantIs(t, err, ErrAlreadyDelivered)
		return fmt.Errorf("%d were not met in flight", tries)
	})
}

// refuseBadInput asks for what is refused, here or over there.
func refuseBadInput(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	pushed(t, c, Tag(message("bad", "x"), In(time.Hour), As("good")))
	good := Ref{ID: "good"}
	for word, err := range map[string]error{
		"too_far":        errOf(c.Tarry().Reschedule(t.Context(), good, Change{At: new(time.Now().AddDate(20, 0, 0))})),
		"invalid_at":     c.PublishMsg(Tag(message("bad", "x"), At(time.Now().AddDate(20, 0, 0)))),
		"invalid_topic":  c.PublishMsg(Tag(message("tarry.bad", "x"), In(time.Second))),
		"invalid_delay":  c.PublishMsg(message("bad", "x", HeaderDelay, "soon")),
		"unknown_header": c.PublishMsg(message("bad", "x", HeaderDelay, "1s", "Tarry-Dely", "1s")),
		"invalid_id":     errOf(c.Tarry().Cancel(t.Context(), Ref{})),
		"missing_change": errOf(c.Tarry().Reschedule(t.Context(), good, Change{})),
		"delay_and_at": errOf(
			c.Tarry().Reschedule(t.Context(), good, Change{Delay: new(time.Second), Shift: new(time.Second)})),
		"invalid_header": errOf(
			c.Tarry().Reschedule(t.Context(), good, Change{Header: nats.Header{"Nats-TTL": {"1s"}}})),
		"empty_selection": errOf(c.Tarry().CancelMany(t.Context(), Selection{})),
		"unsupported_yet": errOf(
			c.Tarry().RescheduleMany(t.Context(), Selection{All: true}, Change{Priority: new(uint8(1))})),
		"not_dead": errOf(c.Tarry().Requeue(t.Context(), good, Change{})),
	} {
		wantWord(t, err, word)
	}
	// A uid that no push was answered with, as an id.
	wantWord(t, c.PublishMsg(Tag(message("bad", "x"), In(time.Second), As("t-zzzzzzzzzzzzzzzz"))), "invalid_id")
	if m, err := c.Tarry().Get(t.Context(), good); err != nil || m.Version != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// changeMany counts, moves and cancels what is selected.
func changeMany(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for n := range 20 {
		pushed(t, c, Tag(message(fmt.Sprintf("many.%d", n%2), "x"), At(due.Add(time.Duration(n)*time.Minute)),
			Key(fmt.Sprint("many-", n%4))))
	}
	report := func(want Report, got Report, err error) {
		t.Helper()
		got.Looked = 0 // what others pushed counts too
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	all := Selection{Topic: "many.*"}
	dry := all
	dry.DryRun = true
	got, err := c.Tarry().CancelMany(t.Context(), dry)
	report(Report{Matched: 20}, got, err)
	got, err = c.Tarry().RescheduleMany(t.Context(),
		Selection{Topic: "many.>", DueFrom: due, DueTo: due.Add(4 * time.Minute)},
		Change{Shift: new(24 * time.Hour)})
	report(Report{Matched: 5, Done: 5}, got, err)
	got, err = c.Tarry().CancelMany(t.Context(), Selection{DueFrom: due.Add(24 * time.Hour), Topic: "many.1"})
	report(Report{Matched: 2, Done: 2}, got, err)
	got, err = c.Tarry().CancelMany(t.Context(), Selection{Key: "many-0"})
	report(Report{Matched: 5, Done: 5}, got, err)
	got, err = c.Tarry().RescheduleMany(t.Context(), all, Change{At: new(due.Add(48 * time.Hour))})
	report(Report{Matched: 13, Done: 13}, got, err)
	got, err = c.Tarry().CancelMany(t.Context(),
		Selection{DueFrom: due.Add(48 * time.Hour), DueTo: due.Add(48 * time.Hour), Topic: "many.>"})
	report(Report{Matched: 13, Done: 13}, got, err)
	got, err = c.Tarry().CancelMany(t.Context(), dry)
	report(Report{}, got, err)
}
