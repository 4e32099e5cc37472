package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// memoryOfNames is a journal that remembers what a test writes to it.
type memoryOfNames struct {
	rig.KeptJournal
	known []message.Info // the latest first
	err   error
	mu    sync.Mutex // of asked: look-ups run side by side
	asked int
	took  time.Duration

	restored func(message.UID) error // nil if nothing is
}

func (j *memoryOfNames) Restore(ctx context.Context, uid message.UID) error {
	if j.restored == nil {
		return j.KeptJournal.Restore(ctx, uid)
	}
	return j.restored(uid)
}

func (j *memoryOfNames) Remembered(ctx context.Context, pushes []*message.Message) ([][]message.Info, error) {
	j.mu.Lock()
	j.asked += len(pushes)
	j.mu.Unlock()
	select {
	case <-time.After(j.took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found := make([][]message.Info, len(pushes))
	for i, m := range pushes {
		for _, k := range j.known {
			if k.UID == m.UID || m.ID != "" && k.ID == m.ID && k.Topic == m.Topic && k.Key == m.Key {
				found[i] = append(found[i], k)
			}
		}
	}
	return found, j.err
}

// remembering is a rig whose scheduler asks a journal about names for a week.
func remembering(t *testing.T, sure bool) (*rig.Rig, *memoryOfNames) {
	r, j := rig.New(t, 2, nil), &memoryOfNames{}
	r.Journal, r.Names, r.Sure = j, 7*24*time.Hour, sure
	r.S = r.Scheduler()
	r.Serve(r.S)
	return r, j
}

// try is push where a refusal is an answer too.
func try(r *rig.Rig, p scheduler.Push) scheduler.Accepted {
	if p.Topic == "" {
		p.Topic = "orders"
	}
	return r.S.AcceptAll(context.Background(), []*scheduler.Push{&p})[0]
}

// forgotten pushes a message, and returns it as the journal remembers it after it ended an hour ago, when the timeline
// has forgotten it.
func forgotten(r *rig.Rig, j *memoryOfNames, state message.State, p scheduler.Push) message.Info {
	r.T.Helper()
	other := p
	other.ID = p.ID + " of another name" // the timeline never has the name itself
	a := r.Push(other)
	digest := digest(r, p)
	i := message.Info{State: state, Version: 2, EndedAt: r.Clock.Milli().Add(-time.Hour),
		Message: message.Message{UID: a.UID[:len(a.UID)-1] + "z", ID: p.ID, Topic: "orders", Key: p.Key,
			Attempt: max(p.Attempt, 1), Digest: digest}}
	j.known = append([]message.Info{i}, j.known...)
	return i
}

// digest is that of a push, as a scheduler of another store would keep it.
func digest(r *rig.Rig, p scheduler.Push) message.Digest {
	r.T.Helper()
	twin := rig.New(r.T, 1, nil)
	a := twin.Push(p)
	found, err := twin.Store.Find(r.T.Context(), scheduler.Ref{UID: a.UID})
	if err != nil || len(found) != 1 {
		r.T.Fatalf("the twin has %v, %v", found, err)
	}
	return found[0].Digest
}

func TestAccept_JudgesForgottenNamesByTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, true)
		push := func(id, body string, attempt uint32) scheduler.Accepted {
			return try(r, scheduler.Push{ID: id, Body: []byte(body), Attempt: attempt, Delay: time.Hour})
		}
		first := forgotten(r, j, message.StateDelivered,
			scheduler.Push{ID: "charge-17", Body: []byte("x"), Delay: time.Hour})
		if a := push("charge-17", "x", 0); a.Err != nil || !a.Duplicate || a.UID != first.UID ||
			a.State != message.StateDelivered {
			t.Errorf("the same again: %+v", a)
		}
		if a := push("charge-17", "y", 0); !errors.Is(a.Err, scheduler.ErrDuplicateID) {
			t.Errorf("other content: %+v", a)
		}
		if a := push("charge-17", "y", 2); a.Err != nil || a.Duplicate {
			t.Errorf("a consumer's retry: %+v", a)
		}
		if a := push("charge-17", "z", 2); !errors.Is(a.Err, scheduler.ErrDuplicateID) { // the timeline knows that one
			t.Errorf("other content of the retry: %+v", a)
		}
		forgotten(r, j, message.StateCanceled, scheduler.Push{ID: "canceled", Body: []byte("x"), Delay: time.Hour})
		if a := push("canceled", "x", 0); !errors.Is(a.Err, scheduler.ErrDuplicateID) ||
			a.State != message.StateCanceled {
			t.Errorf("after another end: %+v", a)
		}
		second := forgotten(r, j, message.StateDelivered,
			scheduler.Push{ID: "retried", Body: []byte("x"), Attempt: 2, Delay: time.Hour})
		if a := push("retried", "x", 2); !a.Duplicate || a.UID != second.UID {
			t.Errorf("a retry that was stored: %+v", a)
		}
		if a := push("retried", "x", 1); !errors.Is(a.Err, scheduler.ErrDuplicateID) {
			t.Errorf("a lower attempt that nobody knows: %+v", a)
		}
		// What the journal has of another topic or key, and what merges, is new.
		asked := j.asked
		for _, p := range []scheduler.Push{{ID: "charge-17", Topic: "mail"}, {ID: "charge-17", Key: "k"},
			{ID: "charge-17", Merge: message.MergeReplace}, {Topic: "plain"}} {
			p.Delay = time.Hour
			if a := try(r, p); a.Err != nil || a.Duplicate || a.Unjudged {
				t.Errorf("%+v: %+v", p, a)
			}
		}
		if n := j.asked - asked; n != 2 {
			t.Errorf("the journal was asked about %d of these, want those two that reject", n)
		}
	})
}

func TestAccept_ForgetsANameWithTheMemoryOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		for _, state := range []message.State{message.StateDelivered, message.StateDead} {
			j.known = nil
			i := forgotten(r, j, state, scheduler.Push{ID: state.String(), Body: []byte("x"), Delay: time.Hour})
			j.known[0].EndedAt = i.EndedAt.Add(-r.Names)
			a := try(r, scheduler.Push{ID: state.String(), Body: []byte("x"), Delay: time.Hour})
			if state == message.StateDead { // it waits for somebody to deal with it
				if !errors.Is(a.Err, scheduler.ErrDuplicateID) {
					t.Errorf("dead: %+v", a)
				}
			} else if a.Err != nil || a.Duplicate {
				t.Errorf("%+v", a)
			}
		}
	})
}

func TestAccept_TheJournalCountsOnlyWhereTheTimelineKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, true)
		waits := try(r, scheduler.Push{ID: "a", Body: []byte("new"), Delay: time.Hour})
		forgotten(r, j, message.StateDelivered, scheduler.Push{ID: "a", Body: []byte("old"), Delay: time.Hour})
		if a := try(r, scheduler.Push{ID: "a", Body: []byte("new"), Delay: time.Hour}); !a.Duplicate ||
			a.UID != waits.UID {
			t.Errorf("got %+v", a)
		}
		if a := try(r, scheduler.Push{ID: "a", Body: []byte("old"), Delay: time.Hour}); !errors.Is(
			a.Err, scheduler.ErrDuplicateID) || a.UID != waits.UID {
			t.Errorf("got %+v", a)
		}
	})
}

func TestAccept_WithoutTheJournalNamesAreJudgedByTheTimelineOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		j.err = errors.New("away")
		if a := try(r, scheduler.Push{ID: "a", Delay: time.Hour}); a.Err != nil || !a.Unjudged {
			t.Errorf("async: %+v", a)
		}
		if a := try(r, scheduler.Push{ID: "a", Delay: time.Hour}); !a.Duplicate || a.Unjudged {
			t.Errorf("what the timeline knows is judged: %+v", a)
		}
		if j.asked != 1 {
			t.Errorf("it was asked %d times within the moment after it did not answer", j.asked)
		}
		if a := try(r, scheduler.Push{Delay: time.Hour}); a.Err != nil || a.Unjudged {
			t.Errorf("without a name: %+v", a)
		}
		r, j = remembering(t, true)
		j.err = errors.New("away")
		if a := try(r, scheduler.Push{ID: "a", Delay: time.Hour}); !errors.Is(a.Err, scheduler.ErrUnavailable) {
			t.Errorf("sync: %+v", a)
		}
		if a := try(r, scheduler.Push{Delay: time.Hour}); a.Err != nil {
			t.Errorf("without a name: %+v", a)
		}
	})
}

func TestAccept_WaitsForTheJournalBesideOtherPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		j.took = 300 * time.Millisecond
		named := make(chan scheduler.Accepted, 1)
		begun := time.Now()
		r.S.Accept(&scheduler.Push{ID: "a", Topic: "orders", Delay: time.Hour}, func(a scheduler.Accepted) {
			named <- a
		})
		if a := try(r, scheduler.Push{Delay: time.Hour}); a.Err != nil || time.Since(begun) >= j.took {
			t.Errorf("%+v after %s", a, time.Since(begun))
		}
		if a := <-named; a.Err != nil || time.Since(begun) < j.took {
			t.Errorf("%+v after %s", a, time.Since(begun))
		}
	})
}

func TestAccept_JudgesOldUIDsAndIntakeMessagesByTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		old := func(age time.Duration, sequence uint64) message.UID {
			uid, err := message.IntakeUID(sequence, time.Now().Add(-age), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return uid
		}
		delivered := func(uid message.UID) {
			j.known = append(j.known, message.Info{Message: message.Message{UID: uid, Topic: "orders"},
				State: message.StateDelivered, Version: 2})
		}
		known, unknown := old(time.Hour, 1), old(time.Hour, 2)
		delivered(known)
		if a := try(r, scheduler.Push{UID: known, Stored: 1}); a.Err != nil || !a.Duplicate {
			t.Errorf("an intake message whose acknowledgement was lost: %+v", a)
		}
		if a := try(r, scheduler.Push{UID: unknown, Stored: 2, Delay: time.Hour}); a.Err != nil || a.Duplicate {
			t.Errorf("one that nobody took: %+v", a)
		}
		asked := j.asked
		if a := try(r, scheduler.Push{UID: old(time.Minute, 3), Stored: 3, Delay: time.Hour}); a.Err != nil ||
			j.asked != asked {
			t.Errorf("the timeline knows what is young: %+v, asked %d", a, j.asked-asked)
		}

		given := try(r, scheduler.Push{Delay: time.Hour}).UID
		r.S = r.Scheduler() // of another instance, whose timeline has forgotten
		twin := rig.New(t, 2, nil)
		twin.Journal, twin.Names, twin.Sure = j, r.Names, false
		twin.S = twin.Scheduler()
		twin.Serve(twin.S)
		time.Sleep(time.Hour) // the bubble's
		if a := try(twin, scheduler.Push{UID: given, Delay: time.Hour}); a.Err != nil || a.Duplicate {
			t.Errorf("a repeat of what was never kept: %+v", a)
		}
		delivered(given)
		third := rig.New(t, 2, nil)
		third.Journal, third.Names = j, r.Names
		third.S = third.Scheduler()
		third.Serve(third.S)
		if a := try(third, scheduler.Push{UID: given, Delay: time.Hour}); !a.Duplicate ||
			a.State != message.StateDelivered {
			t.Errorf("a repeat: %+v", a)
		}
		j.err = errors.New("away")
		if a := try(third, scheduler.Push{UID: given, Delay: time.Hour}); !errors.Is(a.Err, scheduler.ErrUnavailable) {
			t.Errorf("without the journal: %+v", a)
		}
		r.Halt()
		twin.Halt()
		third.Halt()
		time.Sleep(8 * 24 * time.Hour) // the bubble's
		third.S = third.Scheduler()
		third.Serve(third.S)
		if a := try(third, scheduler.Push{UID: given, Delay: time.Hour}); !errors.Is(a.Err, scheduler.ErrStaleUID) {
			t.Errorf("past the memory of names: %+v", a)
		}
	})
}

// spoiled is a store that holds a damaged record under one name.
type spoiled struct {
	scheduler.Timeline
	id  string
	uid message.UID
}

func (s *spoiled) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	if ref.ID == s.id {
		return nil, fmt.Errorf("find: %w: message %s", scheduler.ErrUnreadable, s.uid)
	}
	return s.Timeline.Find(ctx, ref)
}

func (s *spoiled) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message, now message.Milli) (
	[]scheduler.AddResult, []scheduler.Earlier, error) {
	results := make([]scheduler.AddResult, len(batch))
	var rest []*message.Message
	var places []int
	for i, m := range batch {
		if m.ID == s.id {
			results[i].Code, results[i].First.UID = scheduler.AddUnreadable, s.uid
			continue
		}
		rest, places = append(rest, m), append(places, i)
	}
	added, earlier, err := s.Timeline.Add(ctx, bucket, rest, now)
	for i, r := range added {
		results[places[i]] = r
	}
	return results, earlier, err
}

// A push that meets a damaged record is refused for good, whether or not the journal remembers its name; others are
// accepted.
func TestAccept_RefusesAloneWhatMeetsADamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uid = message.UID("t-0123456789abcdef")
		for _, remembered := range []bool{false, true} {
			store, j := &spoiled{id: "order-1", uid: uid}, &memoryOfNames{}
			r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
			r.Journal, r.Names = j, 7*24*time.Hour
			r.S = r.Scheduler()
			r.Serve(r.S)
			p := scheduler.Push{Topic: "orders", ID: "order-1", Delay: time.Hour}
			if remembered {
				j.known = []message.Info{{State: message.StateWaiting, Version: 1,
					Message: message.Message{UID: uid, ID: "order-1", Topic: "orders", Attempt: 1}}}
			}
			good := scheduler.Push{Topic: "orders", ID: "order-2", Delay: time.Hour}
			got := r.S.AcceptAll(t.Context(), []*scheduler.Push{&p, &good, {Topic: "orders", Delay: time.Hour}})
			err := got[0].Err
			if !errors.Is(err, scheduler.ErrUnreadable) || errors.Is(err, scheduler.ErrUnavailable) ||
				!strings.Contains(err.Error(), string(uid)) {
				t.Errorf("remembered %t: got %v", remembered, err)
			}
			if got[1].Err != nil || got[2].Err != nil {
				t.Errorf("remembered %t: others: %v, %v", remembered, got[1].Err, got[2].Err)
			}
		}
	})
}

// NATS stamps by a clock that is an hour ahead: a push that comes again after its end was forgotten seems young.
func TestAccept_AsksTheJournalWhatNATSsOwnClockSaysIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		uid, err := message.IntakeUID(1, r.Clock.Now().Add(time.Hour), "", "")
		if err != nil {
			t.Fatal(err)
		}
		j.known = []message.Info{{State: message.StateDelivered, Version: 2, EndedAt: r.Clock.Milli().Add(-15 * time.Minute),
			Message: message.Message{UID: uid, Topic: "orders"}}}
		if a := try(r, scheduler.Push{UID: uid, Stored: 1, Age: 20 * time.Minute}); a.Err != nil || !a.Duplicate {
			t.Errorf("it was accepted anew: %+v", a)
		}
	})
}
