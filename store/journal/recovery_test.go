package journal_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// rolledBack is a store on Redis with its journal; every change is committed at once.
type rolledBack struct {
	*testing.T
	*redisServer
	store journal.Store
	term  uint64
	now   message.Milli
	clock *scheduler.Clock
}

func newRolledBack(t *testing.T) *rolledBack {
	t.Helper()
	w := &rolledBack{T: t, store: sqliteStore(t), now: schedulertest.Start}
	w.clock = scheduler.NewClock(
		scheduler.Local{Wall: func() time.Time { return w.now.Time() }, Mono: func() time.Duration {
			return time.Duration(w.now) * time.Millisecond
		}})
	w.redisServer = newRedisServer(t, &record.Recording{Instance: "a", Address: "a:1",
		Limit: 1 << 20, Wrote: func(e record.Entry) {
			fences := map[message.Bucket]uint64{}
			if e.Number > 0 {
				fences[e.Bucket] = e.Number
			}
			w.must("write", w.store.Write(context.WithoutCancel(t.Context()), fences, e.Changes))
		}})
	w.recover(1)
	return w
}

func (w *rolledBack) must(step string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", step, err)
	}
}

func (w *rolledBack) recover(term uint64) journal.Result {
	w.Helper()
	w.term = term
	result, err := w.recovery(nil).Run(w.Context(), term)
	w.must("recover", err)
	return result
}

func (w *rolledBack) recovery(at func(point string)) *journal.Recovery {
	return journal.NewRecovery(journal.RecoveryConfig{Store: w.store, Timeline: w.tl, Mode: journal.Sync,
		Window: time.Hour, EndedKeep: time.Hour, Clock: w.clock, Timeout: time.Minute, Log: zerolog.Nop(), At: at})
}

func (w *rolledBack) push(m *message.Message) {
	w.Helper()
	_, _, err := w.tl.Add(w.Context(), m.UID.Bucket(crashBuckets), []*message.Message{m}, w.now)
	w.must("push", err)
}

func (w *rolledBack) claim(bucket message.Bucket, number uint64) []*message.Message {
	w.Helper()
	got, err := w.tl.Claim(w.Context(), bucket,
		scheduler.Claim{Term: w.term, Number: number, Now: w.now, Limit: 10, Bytes: 1 << 20})
	w.must("claim", err)
	return got.Messages
}

func (w *rolledBack) find(uid message.UID) message.Info {
	w.Helper()
	found, err := w.tl.Find(w.Context(), scheduler.Ref{UID: uid})
	w.must("find", err)
	if len(found) != 1 {
		w.Fatalf("%s: found %d", uid, len(found))
	}
	return found[0]
}

// The store comes back as it was while a message was claimed. What was answered since stands: the message was given
// back without a trace and changed.
func TestRecovery_MakesNoChangeOfItsOwnBeforeThoseThatWereLost(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		do   func(w *rolledBack, m *message.Message)
		want func(i message.Info, due message.Milli) bool
	}{
		"rescheduled": {func(w *rolledBack, m *message.Message) {
			edited := *m
			edited.Body = []byte("edited")
			got, err := w.tl.Amend(w.Context(), scheduler.Amend{UID: m.UID, Version: 1, Due: w.now.Add(time.Hour),
				Message: &edited, Reason: "rescheduled"}, w.now)
			w.must("amend", err)
			if got.Code != scheduler.AmendDone {
				w.Fatalf("amend: code %d", got.Code)
			}
		}, func(i message.Info, due message.Milli) bool {
			return i.State == message.StateWaiting && i.Version == 2 && i.Due == due && string(i.Body) == "edited" &&
				!i.Mark.Uncertain
		}},
		"canceled": {func(w *rolledBack, m *message.Message) {
			got, err := w.tl.Cancel(w.Context(), scheduler.Ref{UID: m.UID}, w.now)
			w.must("cancel", err)
			if got.Code != scheduler.CancelDone {
				w.Fatalf("cancel: code %d", got.Code)
			}
		}, func(i message.Info, _ message.Milli) bool {
			return i.State == message.StateCanceled && i.Version == 2 && !i.Mark.Uncertain
		}},
		"left as it was": {func(*rolledBack, *message.Message) {}, func(i message.Info, _ message.Milli) bool {
			return i.State == message.StateWaiting && i.Version == 2 && i.Mark.Uncertain
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRolledBack(t)
			m := schedulertest.Message(1)
			w.push(m)
			w.now += 10
			if got := w.claim(0, 1); len(got) != 1 {
				t.Fatalf("claimed %d", len(got))
			}
			rollBack := w.snapshot(t)
			w.now += 10
			err := w.tl.Return(t.Context(), 0, 1,
				[]scheduler.Back{{UID: m.UID, Claim: 1, Keep: true}}, w.now)
			w.must("return", err)
			change.do(w, m)
			due := w.now.Add(time.Hour)
			w.now += 10
			rollBack()
			if result := w.recover(2); result.Buckets != int(crashBuckets) {
				t.Fatalf("recovery: %+v", result)
			}
			got := w.find(m.UID)
			if !change.want(got, due) {
				t.Errorf("it is %s at version %d, due %d, uncertain %t, with body %q", got.State, got.Version, got.Due,
					got.Mark.Uncertain, got.Body)
			}
			if records, err := w.store.Records(t.Context(), []message.UID{m.UID}); err != nil || len(records) != 1 ||
				!change.want(records[0].Info, due) {
				t.Errorf("the journal has %+v, %v", records, err)
			}
		})
	}
}

// The store is lost with the acceptance of a message, which no journal had yet, but its delivery is journaled. A repeat
// of its push does not deliver it once more.
func TestRecovery_RestoresAnEndWhoseContentWasLost(t *testing.T) {
	t.Parallel()
	w := newRolledBack(t)
	m, rollBack := schedulertest.Message(1), w.snapshot(t)
	w.must("write", w.store.Write(t.Context(), nil, []record.Change{{UID: m.UID, Version: 2, State: message.StateDelivered,
		Due: m.Due, At: w.now, Attempt: 1, Term: 1}}))
	rollBack()
	w.recover(2)
	if got := w.find(m.UID); got.State != message.StateDelivered {
		t.Errorf("it is %s", got.State)
	}
	results, _, err := w.tl.Add(t.Context(), m.UID.Bucket(crashBuckets), []*message.Message{m}, w.now)
	if w.must("push", err); results[0].Code != scheduler.AddDuplicate {
		t.Errorf("a repeat of its push is answered with code %d", results[0].Code)
	}
}

// fencing is a journal whose fences can be seen, and do not get there while it fails.
type fencing struct {
	journal.Store
	numbers []uint64
	fails   bool
}

func (f *fencing) Fence(ctx context.Context, bucket message.Bucket, number uint64) error {
	f.numbers = append(f.numbers, number)
	if f.fails {
		return errors.New("no reply")
	}
	return f.Store.Fence(ctx, bucket, number)
}

// A number that may have reached the journal is never given again: what was written under it belongs to another
// certification.
func TestRecovery_GivesNoNumberAgainThatItHasFencedWith(t *testing.T) {
	t.Parallel()
	tl, err := memory.New(memory.Config{Buckets: 1, Record: &record.Recording{
		Address: "here:1", Limit: 1 << 30, Wrote: func(record.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	store := &fencing{Store: sqliteStore(t), fails: true}
	r := newRecovery(t, tl, store)
	if _, err := r.Run(t.Context(), 1); err == nil {
		t.Fatal("it went on without its fence")
	}
	store.fails = false
	if _, err := r.Run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if n := store.numbers; len(n) != 2 || n[1] <= n[0] {
		t.Errorf("it fenced with %v", n)
	}
}

// A Redis comes back without the certifications that the journal knows. The scanner of one bucket notices first: the
// bucket is certified alone, and delivers while the others are certified. The journal must hold the delivery, so no
// bucket that is at work is certified again.
func TestRecovery_CertifiesNoBucketAgainThatIsAtWork(t *testing.T) {
	t.Parallel()
	w := newRolledBack(t)
	m := schedulertest.Message(1)
	w.push(m)
	rollBack := w.snapshot(t)
	rollBack()
	w.recover(2) // the journal's fences are higher from here on
	rollBack()

	w.term = 3
	delivered := 0
	var working message.UID
	r := w.recovery(func(point string) {
		if point != journal.BeforeCertify || working == "" {
			return
		}
		w.now += 10
		// The change is written under the certification of the first mend.
		err := w.tl.Finish(t.Context(), 0, 3,
			[]scheduler.End{{Message: m, State: message.StateDelivered}}, w.now)
		w.must("finish", err)
		working, delivered = "", delivered+1
	})
	for bucket := range crashBuckets {
		var whole []message.Bucket
		result, err := r.Mend(t.Context(), 3, []message.Bucket{bucket},
			func(bucket message.Bucket) { whole = append(whole, bucket) })
		w.must("mend", err)
		if result.Buckets != 1 || !slices.Contains(whole, bucket) {
			t.Fatalf("the mend of bucket %d certified %d buckets, whole are %v", bucket, result.Buckets, whole)
		}
		if bucket == 0 {
			w.now += 10
			got := w.claim(0, 1)
			if len(got) != 1 {
				t.Fatalf("claimed %d", len(got))
			}
			m, working = got[0], m.UID
		}
	}
	if delivered != 1 {
		t.Fatalf("delivered %d while the other bucket was certified", delivered)
	}
	if got := w.find(m.UID); got.State != message.StateDelivered {
		t.Errorf("the timeline has it %s", got.State)
	}
	records, err := w.store.Records(t.Context(), []message.UID{m.UID})
	if err != nil || len(records) != 1 || records[0].State != message.StateDelivered {
		t.Errorf("the journal has %+v, %v", records, err)
	}
}

// cutOff loses the answer to every other certification. Where a bucket is certified, whoever learns it renews the
// connections, and so may cut off the certification of the next.
type cutOff struct {
	record.Recoverable
	calls int
}

type cutOffCalls struct {
	record.Recovering
	of *cutOff
}

func (c *cutOff) Recovering(standings []record.Standing, term, number uint64) record.Recovering {
	return cutOffCalls{c.Recoverable.Recovering(standings, term, number), c}
}

func (c cutOffCalls) Certify(ctx context.Context, bucket message.Bucket, term uint64, as record.Certification) error {
	err := c.Recovering.Certify(ctx, bucket, term, as)
	if c.of.calls++; err == nil && c.of.calls%2 == 1 {
		err = scheduler.ErrOutcomeUnknown
	}
	return err
}

// A certification whose answer was lost stands. If that ended the recovery, the next would find nothing to do, nobody
// would hear that the store is certified, and no audit would follow.
func TestRecovery_RepeatsACertificationWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	w := newRolledBack(t)
	w.wipe(t)
	lossy := &cutOff{Recoverable: w.tl}
	result := recoverBy(t, lossy, w.store, 2)
	if result.Buckets != int(crashBuckets) || lossy.calls < 2*result.Buckets {
		t.Errorf("%d buckets were made whole with %d certifications, want %d with one more each", result.Buckets,
			lossy.calls, crashBuckets)
	}
}
