package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// "pay 50" replaces "pay 100", which the journal has and the store, after it was lost, does not have yet.
func TestAccept_LetsNoPushReplaceWhatIsRestoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		schedulertest.CertifyAs(t, r.Store.(record.Recoverable), true)
		uid, err := message.IntakeUID(1, r.Clock.Now(), "waits", "")
		if err != nil {
			t.Fatal(err)
		}
		first := message.Info{State: message.StateWaiting, Version: 1, Message: message.Message{UID: uid, ID: "waits",
			Topic: "orders", Due: r.Clock.Milli().Add(time.Hour), Attempt: 1}}
		ended := message.Info{State: message.StateDelivered, EndedAt: r.Clock.Milli(), Version: 2,
			Message: message.Message{UID: "t-000000000000000b", ID: "ended", Topic: "orders"}}
		j.known = []message.Info{first, ended}
		push := func(id string) scheduler.Accepted {
			return try(r, scheduler.Push{ID: id, Delay: time.Hour, Merge: message.MergeReplace, Body: []byte("pay 50")})
		}
		if a := push("waits"); !errors.Is(a.Err, scheduler.ErrUnavailable) {
			t.Errorf("what the store may lack yet was replaced: %+v", a)
		}
		j.restored = func(uid message.UID) error {
			_, err := r.Store.(record.Mending).Restore(t.Context(), uid.Bucket(2), []record.Record{{Info: first, Content: 1}},
				r.Clock.Milli(), r.Clock.Milli())
			return err
		}
		if a := push("waits"); a.Err != nil || !a.Merged || a.UID != first.UID {
			t.Errorf("what the journal has was not replaced: %+v", a)
		}
		for _, id := range []string{"ended", "new"} {
			if a := push(id); a.Err != nil || a.Duplicate || a.Merged {
				t.Errorf("%s: %+v", id, a)
			}
			if a := push(id); a.Err != nil || !a.Merged {
				t.Errorf("%s, repeated: %+v", id, a)
			}
		}
		j.err = errors.New("no answer")
		if a := push("other"); !errors.Is(a.Err, scheduler.ErrUnavailable) {
			t.Errorf("without the journal: %+v", a)
		}
		schedulertest.Certify(t, r.Store.(record.Recoverable))
		if a := push("other"); a.Err != nil {
			t.Errorf("once the store is whole: %+v", a)
		}
	})
}

// lossy is a store that is lost, and filled again, when the first pushes are sent to it.
type lossy struct {
	scheduler.Timeline
	lost func()
}

func (s *lossy) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	if lost := s.lost; lost != nil {
		s.lost = nil
		lost()
		return nil, nil, scheduler.ErrUnavailable
	}
	return s.Timeline.Add(ctx, bucket, batch, now)
}

// The journal learned of the message after it was asked about this push, and the store has lost it since.
func TestAccept_AsksTheJournalAgainOnceTheStoreWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lossy{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		j := &memoryOfNames{}
		r.Journal, r.Names, r.Sure = j, 7*24*time.Hour, true
		r.S = r.Scheduler()
		r.Serve(r.S)
		push := scheduler.Push{ID: "pay-1", Delay: time.Hour, Body: []byte("x")}
		first := message.Info{State: message.StateWaiting, Version: 1, Message: message.Message{UID: "t-000000000000000b",
			ID: "pay-1", Topic: "orders", Due: r.Clock.Milli().Add(time.Hour), Attempt: 1, Digest: digest(r, push)}}
		store.lost = func() {
			schedulertest.CertifyAs(t, store.Timeline.(record.Recoverable), true)
			j.known = []message.Info{first}
		}
		if a := try(r, push); a.Err != nil || !a.Duplicate || a.UID != first.UID {
			t.Errorf("under its name: %+v", a)
		}
		// Its user rescheduled it: it must not come when its push had said.
		uid, err := message.IntakeUID(9, r.Clock.Now(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		later := message.Info{State: message.StateWaiting, Version: 2, Message: message.Message{UID: uid, Topic: "orders",
			Due: r.Clock.Milli().Add(time.Hour), Attempt: 1}}
		j.known = []message.Info{later}
		again := scheduler.Push{UID: uid, Stored: 9, Delay: time.Second, Body: []byte("x")}
		if a := try(r, again); a.Err != nil || !a.Duplicate || a.UID != uid {
			t.Errorf("by its uid: %+v", a)
		}
		if found, err := r.Store.Find(t.Context(), scheduler.Ref{UID: uid}); err != nil || len(found) > 0 {
			t.Errorf("the store has %v, %v", found, err)
		}
		j.known = nil
		if a := try(r, again); a.Err != nil || a.Duplicate || a.UID != uid {
			t.Errorf("what the journal does not know: %+v", a)
		}
	})
}

// In sync mode a store accepts while it is filled: what the journal has of a name that the store lacks yet is the
// answer to a push under it, and without the journal's word there is none.
func TestAccept_UsesNoNameTwiceWhileTheStoreIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, true)
		schedulertest.CertifyAs(t, r.Store.(record.Recoverable), true)
		push := scheduler.Push{ID: "waits", Delay: time.Hour, Body: []byte("x")}
		first := try(r, push)
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		known := r.Info(first.UID)
		if result, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil {
			t.Fatal(result, err)
		}
		time.Sleep(15 * time.Minute) // of the bubble
		if _, err := r.Store.Trim(t.Context(), first.UID.Bucket(2), 0, r.Clock.Milli(), 10); err != nil {
			t.Fatal(err)
		}
		j.known = []message.Info{known} // the store lacks it, as if it were lost
		if a := try(r, push); a.Err != nil || !a.Duplicate || a.UID != first.UID || a.State != message.StateWaiting {
			t.Errorf("repeated: %+v", a)
		}
		other := push
		other.Body = []byte("y")
		if a := try(r, other); !errors.Is(a.Err, scheduler.ErrDuplicateID) || a.UID != first.UID {
			t.Errorf("other content: %+v", a)
		}
		retry := push
		retry.Attempt = 2 // a consumer has had it: its delivery is not in the journal yet
		if a := try(r, retry); !errors.Is(a.Err, scheduler.ErrUnavailable) {
			t.Errorf("a consumer's retry: %+v", a)
		}
		j.err = errors.New("no answer")
		if a := try(r, push); !errors.Is(a.Err, scheduler.ErrUnavailable) {
			t.Errorf("without the journal: %+v", a)
		}
	})
}
