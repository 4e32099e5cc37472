package lead_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// weighed is a timeline whose largest answer to Lease is known. The answer of call number lost never comes.
type weighed struct {
	scheduler.Timeline
	largest, calls, lost int
}

func (w *weighed) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	all := w.Timeline.Lease(ctx, requests)
	for i := range all {
		bytes := 0
		for _, m := range all[i].Messages {
			bytes += m.Size()
		}
		w.largest = max(w.largest, bytes)
		if w.calls++; w.lost > 0 && (w.calls == w.lost || w.calls == w.lost+1) { // the first, and its repeat
			all[i] = scheduler.Leased{Err: scheduler.ErrOutcomeUnknown}
		}
	}
	return all
}

// big has 20 messages of 512 KiB ready, in one bucket.
func big(t *testing.T, lost int) (*rig.Rig, *weighed) {
	t.Helper()
	store := &weighed{lost: lost}
	r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
	r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
	for range 20 {
		r.Push(scheduler.Push{Topic: "work", Body: make([]byte, 512<<10)})
	}
	return r, store
}

// Redis does nothing else while it answers, so a poll gets in several answers what is more than 4 MiB.
func TestPull_OfMuchAsksInPages(t *testing.T) {
	for name, attempt := range map[string]scheduler.Nonce{"a poll": 0, "an attempt": 77} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, store := big(t, 0)
				p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 64 << 20, Attempt: attempt}
				for p.Sending = 1; p.Sending <= 3; p.Sending++ { // an attempt brings the same again
					found, err := r.S.Pull(t.Context(), p)
					if want := 20; err != nil || len(found) != want {
						t.Fatalf("%d of %d, %v", len(found), want, err)
					}
					if store.largest > 4<<20 || store.largest < 3<<20 {
						t.Fatalf("one answer has %d bytes", store.largest)
					}
					if attempt == 0 {
						break
					}
				}
				p.Attempt, p.Bytes = 0, 6<<20
				r.Push(scheduler.Push{Topic: "work", Body: make([]byte, 5<<20)})
				r.Push(scheduler.Push{Topic: "work", Body: make([]byte, 2<<20)})
				if found, err := r.S.Pull(t.Context(), p); err != nil || len(found) != 1 {
					t.Fatalf("beyond what was asked for: %d, %v", len(found), err)
				}
			})
		})
	}
}

// What is lost of a poll is one page: it is undone, and what came before is the consumer's.
func TestPull_UndoesThePageThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := big(t, 2)
		p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 64 << 20, Lease: time.Hour}
		found, err := r.S.Pull(t.Context(), p)
		if err != nil || len(found) != 8 {
			t.Fatalf("first %d, %v", len(found), err)
		}
		time.Sleep(5 * time.Second)
		for _, m := range found {
			settle(t, r, m, scheduler.Settlement{Verb: scheduler.Ack})
		}
		if rest, err := r.S.Pull(t.Context(), p); err != nil || len(rest) != 12 {
			t.Fatalf("then %d, %v", len(rest), err)
		}
	})
}

// What is lost of an attempt is not known to be all that is: its repeat brings it with the rest.
func TestPull_AnswersAnAttemptWholeOrNot(t *testing.T) {
	for lost := range 4 {
		t.Run(fmt.Sprint("answer ", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, store := big(t, lost)
				p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 64 << 20, Lease: time.Hour, Attempt: 77}
				found, err := r.S.Pull(t.Context(), p)
				if lost == 0 && (err != nil || len(found) != 20) || lost > 0 && (err == nil || len(found) > 0) {
					t.Fatalf("first %d, %v", len(found), err)
				}
				took := []int{20, 8, 16, 20}[lost] // by then
				store.lost = store.calls + (took-1)/8 + 1
				p.Sending = 2
				if found, err = r.S.Pull(t.Context(), p); err == nil || len(found) > 0 {
					t.Fatalf("a repeat whose last answer is lost: %d, %v", len(found), err)
				}
				store.lost = 0
				p.Sending = 3
				if found, err = r.S.Pull(t.Context(), p); err != nil || len(found) != took {
					t.Fatalf("then %d of %d, %v", len(found), took, err)
				}
				p.Attempt, p.Sending = 78, 1
				if rest, err := r.S.Pull(t.Context(), p); err != nil || len(rest) != 20-took {
					t.Fatalf("the next %d, %v", len(rest), err)
				}
			})
		})
	}
}

// room is what polls may hold.
type room struct{ left, least atomic.Int64 }

func (r *room) take(bytes int) int {
	left := r.left.Add(int64(-bytes))
	r.least.Store(min(r.least.Load(), left))
	return int(left)
}

// A poll without room gets nothing until others have let go of what they hold, and is told.
func TestPull_WaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := big(t, 0)
		var room room
		room.left.Store(5 << 20)
		p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 8 << 20, Room: room.take}
		found, err := r.S.Pull(t.Context(), p)
		if err != nil || len(found) != 16 || room.left.Load() != -3<<20 {
			t.Fatalf("with room for a part: %d, %v; %d are left", len(found), err, room.left.Load())
		}
		for _, attempt := range []scheduler.Nonce{0, 78} {
			p.Attempt = attempt
			if found, err := r.S.Pull(t.Context(), p); !errors.Is(err, scheduler.ErrNoRoom) || len(found) > 0 {
				t.Fatalf("without room: %d, %v", len(found), err)
			}
		}
		p.Attempt, p.Wait = 0, time.Minute
		waited := make(chan int)
		go func() {
			found, _ := r.S.Pull(t.Context(), p)
			waited <- len(found)
		}()
		time.Sleep(10 * time.Second)
		began := time.Now()
		for range 3 { // others stand behind it
			found, err := r.S.Pull(t.Context(), scheduler.Poll{Topic: "work", Max: 1, Bytes: 1 << 20})
			if err != nil || len(found) != 1 || time.Since(began) > 0 {
				t.Fatalf("another behind it: %d, %v after %s", len(found), err, time.Since(began))
			}
		}
		room.left.Store(5 << 20)
		if n := <-waited; n != 1 || time.Since(began) > time.Second {
			t.Fatalf("once there was room: %d after %s", n, time.Since(began))
		}

		// One that had no room for a while, and then finds nothing, is not told of room.
		room.left.Store(0)
		began = time.Now()
		go func() {
			_, err := r.S.Pull(t.Context(), p)
			if err != nil {
				t.Errorf("nothing was ready: %v", err)
			}
			waited <- 0
		}()
		time.Sleep(10 * time.Second)
		room.left.Store(5 << 20)
		if <-waited; time.Since(began) != time.Minute {
			t.Errorf("it waited for %s", time.Since(began))
		}
	})
}

// What is leased already comes whole, and a sending that was refused does not count.
func TestPull_RepeatsAnAttemptDespiteLittleRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := big(t, 0)
		var room room
		room.left.Store(1 << 30)
		p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 64 << 20, Attempt: 77, Lease: time.Hour, Room: room.take}
		if found, err := r.S.Pull(t.Context(), p); err != nil || len(found) != 20 {
			t.Fatalf("first %d, %v", len(found), err)
		}
		for p.Sending = 2; p.Sending < 10; p.Sending++ {
			room.left.Store(0)
			if _, err := r.S.Pull(t.Context(), p); !errors.Is(err, scheduler.ErrNoRoom) || room.left.Load() != 0 {
				t.Fatalf("without room: %v, %d are left", err, room.left.Load())
			}
		}
		room.left.Store(1)
		if found, err := r.S.Pull(t.Context(), p); err != nil || len(found) != 20 || room.left.Load() != 1-10<<20 {
			t.Fatalf("with a little: %d, %v; %d are left", len(found), err, room.left.Load())
		}
	})
}

// Polls that look together have room for all that they bring; those that have none, which one finds by asking for a
// moment, look next.
func TestPull_ReservesRoomBeforeItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &weighed{}
		r := rig.New(t, 4, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
		var room room
		room.left.Store(8 << 20)
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				p := scheduler.Poll{Topic: "work", Max: 1, Bytes: 4 << 20, Wait: time.Minute, Room: room.take}
				found, err := r.S.Pull(t.Context(), p)
				if err != nil || len(found) != 1 {
					t.Errorf("%d, %v", len(found), err)
				}
				for _, m := range found { // it is written
					room.take(-m.Size())
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		for range 40 {
			r.Push(scheduler.Push{Topic: "work", Body: make([]byte, 1<<19), Delay: time.Second})
		}
		all.Wait()
		if took := time.Since(began); room.least.Load() < -1<<20 || room.left.Load() != 8<<20 || took > 2*time.Second {
			t.Errorf("%d beyond the room, %d are left, after %s", -room.least.Load(), room.left.Load(), took)
		}
	})
}

// slowed is a timeline each of whose answers takes most of a call's time.
type slowed struct{ scheduler.Timeline }

func (s slowed) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	time.Sleep(600 * time.Millisecond)
	if ctx.Err() != nil {
		all := make([]scheduler.Leased, len(requests))
		for i := range all {
			all[i].Err = scheduler.ErrOutcomeUnknown
		}
		return all
	}
	return s.Timeline.Lease(ctx, requests)
}

// A page has the time of a call: over a slow link all of them take longer.
func TestPull_GivesEachPageTheTimeOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { return slowed{tl} })
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
		for range 20 {
			r.Push(scheduler.Push{Topic: "work", Body: make([]byte, 512<<10)})
		}
		p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 64 << 20, Attempt: 77}
		for _, p.Sending = range []int{1, 2} {
			if found, err := r.S.Pull(t.Context(), p); err != nil || len(found) != 20 {
				t.Fatalf("%d, %v", len(found), err)
			}
		}
	})
}
