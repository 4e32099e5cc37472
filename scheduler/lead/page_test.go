package lead_test

import (
	"context"
	"errors"
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
				for range 3 { // an attempt brings the same again
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

// A poll without room gets nothing until others have let go of what they hold, and is told.
func TestPull_WaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := big(t, 0)
		var left atomic.Int64
		left.Store(5 << 20)
		room := func(bytes int) int { return int(left.Add(int64(-bytes))) }
		p := scheduler.Poll{Topic: "work", Max: 64, Bytes: 64 << 20, Room: room}
		found, err := r.S.Pull(t.Context(), p)
		if err != nil || len(found) != 16 {
			t.Fatalf("with room for one page and the next: %d, %v", len(found), err)
		}
		for _, attempt := range []scheduler.Nonce{0, 78} {
			p.Attempt = attempt
			if found, err := r.S.Pull(t.Context(), p); !errors.Is(err, scheduler.ErrNoRoom) || len(found) > 0 {
				t.Fatalf("without room: %d, %v", len(found), err)
			}
		}
		if found, err := r.S.Pull(t.Context(), p); !errors.Is(err, scheduler.ErrNoRoom) || len(found) > 0 {
			t.Fatalf("a repeat without room: %d, %v", len(found), err)
		}
		other := scheduler.Poll{Topic: "work", Max: 1, Bytes: 1 << 20}
		p.Attempt, p.Wait = 0, time.Minute
		waited := make(chan int)
		go func() {
			found, _ := r.S.Pull(t.Context(), p)
			waited <- len(found)
		}()
		time.Sleep(10 * time.Second)
		if found, err := r.S.Pull(t.Context(), other); err != nil || len(found) != 1 {
			t.Fatalf("another behind it: %d, %v", len(found), err)
		}
		left.Store(5 << 20)
		began := time.Now()
		if n := <-waited; n != 3 || time.Since(began) > time.Second {
			t.Fatalf("once there was room: %d after %s", n, time.Since(began))
		}
	})
}
