package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// reallyKept is a journal as the app wires it: Remembered is Store.Names.
type reallyKept struct {
	rig.KeptJournal
	store journal.Store
	took  time.Duration
}

func (j *reallyKept) Remembered(ctx context.Context, pushes []*message.Message) ([][]message.Info, error) {
	time.Sleep(j.took)
	records, err := j.store.Names(ctx, pushes)
	if err != nil {
		return nil, err
	}
	infos := make([][]message.Info, len(records))
	for i := range records {
		for k := range records[i] {
			infos[i] = append(infos[i], records[i][k].Info)
		}
	}
	return infos, nil
}

// Find answers as the app's journal does.
func (j *reallyKept) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	records, err := j.store.Find(ctx, ref, 10)
	infos := make([]message.Info, len(records))
	for i := range records {
		infos[i] = records[i].Info
	}
	return infos, err
}

type recordedRig struct {
	*rig.Rig
	tl *memory.Timeline
	j  *reallyKept
}

func newRecorded(t *testing.T, wrap func(scheduler.Timeline) scheduler.Timeline) *recordedRig {
	if time.Now().Before(message.Epoch) {
		time.Sleep(time.Until(message.Epoch.AddDate(1, 10, 20)))
	}
	tl, err := memory.New(memory.Config{Buckets: 1, EndedKeep: 10 * time.Minute,
		Record: &record.Recording{Instance: "a", Address: "", Limit: 1 << 20,
			Wrote: func(record.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	store, err := memory.NewJournal(memory.JournalConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r := rig.New(t, 1, func(scheduler.Timeline) scheduler.Timeline { return tl })
	if wrap != nil {
		r.Store = wrap(tl)
	}
	j := &reallyKept{store: store}
	r.Journal, r.Names, r.Sure = j, 7*24*time.Hour, true
	r.S = r.Scheduler()
	r.Serve(r.S)
	return &recordedRig{r, tl, j}
}

func (r *recordedRig) drain() {
	r.T.Helper()
	outbox := &journal.Reconciler{Store: r.j.store, Timeline: r.tl, Timeout: time.Minute, Log: zerolog.Nop()}
	if _, _, err := outbox.Drain(r.T.Context(), 0, 0); err != nil {
		r.T.Fatal(err)
	}
}

// forget passes the memory of ends.
func (r *recordedRig) forget(d time.Duration) {
	r.T.Helper()
	r.drain()
	time.Sleep(d)
	if n, err := r.tl.Trim(r.T.Context(), 0, 1, r.Clock.Milli(), 1000); err != nil || n == 0 {
		r.T.Fatalf("trim: %d, %v", n, err)
	}
}

// A push that was merged into another, and whose answer was lost, is repeated by the uid that its 504 named: after
// ended.keep, and before names.keep. The journal never heard of that uid.
func TestAccept_TakesNoMergedPushAnewWhenItIsRepeatedByItsUID(t *testing.T) {
	for _, end := range []string{"delivered", "canceled"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorded(t, nil)
				// What the doors make of a push without an id, and of its repeat by uid.
				name := message.ContentName("orders", []byte("cart 1"))
				cart := scheduler.Push{ID: name, Merge: message.MergeReplace, Body: []byte("cart 1"),
					Delay: time.Minute}
				first := r.Push(cart)
				time.Sleep(time.Second)
				// The uid that a 504 would name.
				ids := scheduler.NewIDs(rig.Slot{}, time.Now)
				uid, err := ids.Next(first.UID.Hash())
				if err != nil {
					t.Fatal(err)
				}
				second := cart
				second.UID = uid
				if a := r.Push(second); !a.Merged || a.UID != first.UID {
					t.Fatalf("merge: %+v", a)
				}
				if a := r.Push(second); !a.Merged || a.UID != first.UID {
					t.Fatalf("again: %+v", a)
				}
				if end == "canceled" {
					if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: uid}); err != nil ||
						c.Code != scheduler.CancelDone {
						t.Fatalf("cancel: %+v, %v", c, err)
					}
				} else {
					stop := r.Lead(r.S, 1)
					time.Sleep(2 * time.Minute)
					_ = stop(rig.ErrStop)
					if n := len(r.Nats.Arrived()); n != 1 {
						t.Fatalf("%d delivered", n)
					}
				}
				r.forget(11 * time.Minute)
				before := len(r.Nats.Arrived())
				a := try(r.Rig, second)
				if a.Err == nil && !a.Duplicate && !a.Merged {
					t.Errorf("the push that went into %s, which is %s, is accepted anew as %s (%s)", first.UID, end,
						a.UID, a.State)
				}
				stop := r.Lead(r.S, 2)
				time.Sleep(2 * time.Minute)
				_ = stop(rig.ErrStop)
				if n := len(r.Nats.Arrived()) - before; n != 0 {
					t.Errorf("and delivered %d more times: %q", n, r.Nats.Arrived()[before].M.Body)
				}
			})
		})
	}
}

// frozenBucket is a timeline of which one bucket does not answer look-ups or adds, as when a node of a Redis Cluster is
// away.
type frozenBucket struct {
	scheduler.Timeline
	bucket  message.Bucket
	buckets message.Bucket
	on      atomic.Bool
}

func (s *frozenBucket) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	at := message.Bucket(-1)
	switch {
	case ref.UID != "":
		at = ref.UID.Bucket(s.buckets)
	case ref.Keyed && ref.Key == "":
		at = message.BucketOf(ref.ID, s.buckets)
	}
	if s.on.Load() && at == s.bucket {
		<-ctx.Done()
		return nil, scheduler.ErrUnavailable
	}
	return s.Timeline.Find(ctx, ref)
}

func (s *frozenBucket) Heads(ctx context.Context) ([]scheduler.Head, error) {
	heads, err := s.Timeline.Heads(ctx)
	if s.on.Load() && err == nil {
		<-ctx.Done()
		heads[s.bucket].Err = scheduler.ErrUnavailable
	}
	return heads, err
}

func (s *frozenBucket) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	if s.on.Load() && bucket == s.bucket {
		<-ctx.Done()
		return nil, nil, scheduler.ErrUnavailable
	}
	return s.Timeline.Add(ctx, bucket, batch, now)
}

// Producers repeat what the journal remembers to a bucket that is away, and one pushes under a new name to another.
func TestAccept_ABucketThatIsAwayHoldsUpNoNamesOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *frozenBucket
		r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline {
			f = &frozenBucket{Timeline: tl, bucket: 0, buckets: 2}
			return f
		})
		j := &memoryOfNames{}
		r.Journal, r.Names, r.Sure = j, 7*24*time.Hour, true
		r.S = r.Scheduler()
		r.Serve(r.S)
		var here []string // ids in the bucket that goes away
		other := ""
		for i := 0; len(here) < 40 || other == ""; i++ {
			id := "order-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26))
			if int(message.Hash(id))%2 == 0 {
				here = append(here, id)
			} else {
				other = id
			}
		}
		here = here[:40]
		for _, id := range here { // accepted, in the journal, waiting
			a := r.Push(scheduler.Push{ID: id, Body: []byte("x"), Delay: time.Hour})
			found, err := r.Store.Find(t.Context(), scheduler.Ref{UID: a.UID})
			if err != nil {
				t.Fatal(err)
			}
			j.known = append(j.known, found[0])
		}
		f.on.Store(true) // now the node is away, and its producers repeat what they pushed
		for _, id := range here {
			r.S.Accept(&scheduler.Push{Topic: "orders", ID: id, Body: []byte("x"), Delay: time.Hour},
				func(scheduler.Accepted) {})
		}
		begun := time.Now()
		a := try(r, scheduler.Push{ID: other, Body: []byte("new"), Delay: time.Hour})
		if took := time.Since(begun); took > 3*time.Second || a.Err != nil { // a call that finds out, and a look at all
			t.Errorf("a push to the other bucket took %s, %v", took, a.Err)
		}
		f.on.Store(false)
	})
}

// Ends of a name that a recovery brings back are not its attempts: a later life of it stands last.
func TestCancel_ByNameMeansTheSameAfterARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, nil)
		first := r.Push(scheduler.Push{ID: "a", Body: []byte("x")})
		stop := r.Lead(r.S, 1)
		time.Sleep(time.Second)
		retry := r.Push(scheduler.Push{ID: "a", Body: []byte("x"), Attempt: 2})
		time.Sleep(time.Second)
		_ = stop(rig.ErrStop)
		next := r.Push(scheduler.Push{ID: "a", Body: []byte("y"), Merge: message.MergeKeep, Delay: time.Hour})
		if n := len(r.Nats.Arrived()); n != 2 {
			t.Fatalf("%d delivered", n)
		}
		r.drain()
		records, err := r.j.store.Records(t.Context(), []message.UID{first.UID, retry.UID, next.UID})
		if err != nil || len(records) != 3 {
			t.Fatal(records, err)
		}
		again := newRecorded(t, nil) // the store is empty, and filled from the journal
		if _, err := again.tl.Restore(t.Context(), 0, records, r.Clock.Milli(), r.Clock.Milli()); err != nil {
			t.Fatal(err)
		}
		if a := try(again.Rig, scheduler.Push{ID: "a", Body: []byte("y"), Delay: time.Hour}); a.Err == nil &&
			a.UID != next.UID {
			t.Errorf("the answer to a repeat names %s, which is %s; want %s", a.UID, a.State, next.UID)
		}
		c, err := again.S.Cancel(t.Context(), scheduler.Ref{ID: "a", Topic: "orders"})
		stands := again.Info(next.UID)
		if err != nil || c.Code != scheduler.CancelDone {
			t.Errorf("cancel: %s of %s, %v, while %s is %s", c.Code, c.Info.UID, err, next.UID, stands.State)
		}
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "a", Topic: "orders"}); err != nil ||
			c.Code != scheduler.CancelDone {
			t.Errorf("cancel before the loss: %s, %v", c.Code, err)
		}
	})
}

// Two pushes under one name come together, in one batch or one pull of the intake. The journal is asked about the first
// alone.
func TestAccept_OfTwoPushesUnderANameTheFirstIsStoredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, nil)
		r.j.took = 5 * time.Millisecond
		got := r.S.AcceptAll(t.Context(), []*scheduler.Push{
			{Topic: "orders", ID: "a", Body: []byte("first"), Delay: time.Minute},
			{Topic: "orders", ID: "a", Body: []byte("second"), Delay: time.Minute, Merge: message.MergeKeep},
		})
		if got[0].Err != nil || !got[1].Merged {
			t.Errorf("first: %v; second: merged %t, err %v", got[0].Err, got[1].Merged, got[1].Err)
		}
	})
}

// slowKept is a journal whose commits take long, and come in time.
type slowKept struct {
	*reallyKept
	slow atomic.Bool
}

func (j *slowKept) Await(ctx context.Context, changes []scheduler.Recorded, held func(int, bool)) error {
	if j.slow.Load() {
		time.Sleep(900 * time.Millisecond)
	}
	return j.reallyKept.Await(ctx, changes, held)
}

// A push is repeated about when the timeline forgets its end, while the flusher of its bucket is busy: it is found
// there and would be stored a moment later.
func TestAccept_TakesNoPushAnewThatIsForgottenWhileItWaits(t *testing.T) {
	for before, others := range map[time.Duration]int{-time.Second: 1, 0: 1, 90 * time.Millisecond: 1,
		800 * time.Millisecond: 1, 2 * time.Second: 1, 6 * time.Second: 1, 7 * time.Second: 1,
		6500 * time.Millisecond: 3000, // six flushes before its own: it is looked for again
	} {
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, p, first, stop := repeated(t, before, others)
				if a := try(r.Rig, p); a.Err != nil || !a.Duplicate || a.UID != first.UID {
					t.Errorf("the repeat: %+v, want a duplicate of %s", a, first.UID)
				}
				time.Sleep(5 * time.Second)
				_ = stop(rig.ErrStop)
				if n := len(r.Nats.Arrived()); n != 1 {
					t.Errorf("delivered %d times", n)
				}
			})
		})
	}
}

// repeated returns a push whose end is forgotten in the given time, and whose flusher is busy.
func repeated(t *testing.T, before time.Duration, others int) (*recordedRig, scheduler.Push, scheduler.Accepted,
	func(error) error) {
	t.Helper()
	r := newRecorded(t, nil)
	j := &slowKept{reallyKept: r.j}
	r.Journal = j
	s := r.Scheduler()
	r.S = s
	r.Serve(s)
	stop := r.Lead(s, 1)
	p := scheduler.Push{ID: "charge-17", Topic: "orders", Body: []byte("pay 100")}
	first := r.Push(p)
	time.Sleep(time.Second)
	r.drain()
	end := r.Info(first.UID).EndedAt.Time()
	time.Sleep(time.Until(end.Add(10*time.Minute - before - 10*time.Millisecond)))
	j.slow.Store(true)
	for range others {
		s.Accept(&scheduler.Push{Topic: "orders", Delay: time.Hour}, func(scheduler.Accepted) {})
	}
	time.Sleep(10 * time.Millisecond)
	return r, p, first, stop
}

// The second look finds what the first one did not: another message lives under the name.
func TestAccept_LooksASecondTimeAndNotWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p, _, stop := repeated(t, 6500*time.Millisecond, 3000)
		defer func() { _ = stop(rig.ErrStop) }()
		m := schedulertest.Message(9)
		m.ID, m.Topic, m.Due = p.ID, p.Topic, r.Clock.Milli().Add(time.Hour)
		done := make(chan scheduler.Accepted, 1)
		r.S.Accept(&p, func(a scheduler.Accepted) { done <- a })
		time.Sleep(10 * time.Millisecond)
		if n, err := r.tl.Trim(t.Context(), 0, 1, r.Clock.Milli().Add(time.Minute), 1000); err != nil || n == 0 {
			t.Fatalf("trim: %d, %v", n, err)
		}
		if _, _, err := r.tl.Add(t.Context(), 0, []*message.Message{m}, r.Clock.Milli()); err != nil {
			t.Fatal(err)
		}
		if a := <-done; a.Err == nil && a.UID != m.UID {
			t.Errorf("the repeat: %+v, want what lives, %s", a, m.UID)
		}
	})
}
