package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// operator pauses and resumes as the scheduler does: first the timeline, then, where he is heard there, the journal.
type operator struct {
	t     *testing.T
	tl    scheduler.Timeline
	store journal.Store
}

// onRedis is an operator of a Redis that is certified, beside a journal.
func onRedis(t *testing.T, store journal.Store) (*instance, *operator) {
	t.Helper()
	i := newInstance(t, "one", lab.NewRedis(t).Addr, store, journal.Async)
	if _, err := i.tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	recoverBy(t, i.tl, store, 1)
	return i, &operator{t: t, tl: i.tl, store: store}
}

func (o *operator) pause(pattern string, at message.Milli, heard bool) scheduler.Pause {
	o.t.Helper()
	c, err := o.tl.Pause(o.t.Context(), scheduler.Pause{Pattern: pattern, By: "ann", At: at})
	if err == nil && heard {
		err = o.store.WritePause(o.t.Context(), c)
	}
	if err != nil {
		o.t.Fatalf("pause %s: %v", pattern, err)
	}
	return c.Pause
}

func (o *operator) resume(pattern string, now message.Milli, heard bool) {
	o.t.Helper()
	_, c, err := o.tl.Resume(o.t.Context(), pattern, now)
	if err == nil && heard {
		err = o.store.WritePause(o.t.Context(), c)
	}
	if err != nil {
		o.t.Fatalf("resume %s: %v", pattern, err)
	}
}

func (o *operator) wantPauses(want ...scheduler.Pause) {
	o.t.Helper()
	if got, _, err := o.tl.Pauses(o.t.Context()); err != nil || !slices.Equal(got, want) {
		o.t.Fatalf("paused are %+v, %v\nwant %+v", got, err, want)
	}
}

// wantJournaled wants the journal to have the patterns paused, and nothing else.
func (o *operator) wantJournaled(want ...scheduler.Pause) {
	o.t.Helper()
	known, err := o.store.Pauses(o.t.Context())
	var got []scheduler.Pause
	for _, c := range known {
		if !c.Resumed {
			got = append(got, c.Pause)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		o.t.Fatalf("the journal has %+v, %v\nwant %+v", got, err, want)
	}
}

const start = schedulertest.Start

func TestRecovery_PausesOutliveAStoreThatComesBackEmpty(t *testing.T) {
	t.Parallel()
	rdb := lab.NewRedis(t)
	for name, open := range map[string]func(t *testing.T) line{
		"memory": func(t *testing.T) line {
			tl, err := memory.New(memory.Config{Buckets: 2, Record: &record.Recording{
				Address: "here:1", Limit: 1 << 30, Wrote: func(record.Entry) {}}})
			if err != nil {
				t.Fatal(err)
			}
			return tl
		},
		"redis": func(t *testing.T) line {
			i := instanceOf(t, 2, "one", rdb.Addr, sqliteStore(t), journal.Async)
			if err := i.client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := i.tl.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			return i.tl
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &operator{t: t, tl: open(t), store: sqliteStore(t)}
			recoverBy(t, o.tl.(line), o.store, 1)
			a := o.pause("a.>", start, true)
			b := o.pause("b", start+5, true)
			o.resume("b", start+6, true)
			c := o.pause("c", start+7, true)
			o.wantPauses(a, c)

			o.tl = open(t)
			if _, _, err := o.tl.Pauses(t.Context()); !errors.Is(err, scheduler.ErrUncertified) {
				t.Fatalf("before the recovery: %v", err)
			}
			recoverBy(t, o.tl.(line), o.store, 2)
			o.wantPauses(a, c)
			o.wantJournaled(a, c)

			// A bucket that is made whole before the one which keeps the pauses has them too.
			o.tl = open(t)
			seen := 0
			whole := func(bucket message.Bucket) {
				if bucket == 1 {
					seen++
					o.wantPauses(a, c)
				}
			}
			_, err := newRecovery(t, o.tl.(line), o.store).Mend(t.Context(), 2, []message.Bucket{1}, whole)
			if err != nil || seen != 1 {
				t.Fatalf("bucket 1 was made whole %d times, %v", seen, err)
			}

			// What comes now comes later, by whatever clock.
			if b = o.pause("b", start+1, true); b.At <= c.At {
				t.Fatalf("paused at %d, after what was paused at %d", b.At, c.At)
			}
			o.resume("a.>", start+1, true)
			o.tl = open(t)
			recoverBy(t, o.tl.(line), o.store, 3)
			o.wantPauses(b, c)
		})
	}
}

// A replica is promoted that lacks the last pauses and resumes.
func TestRecovery_OfTwoChangesOfAPauseTheLaterStands(t *testing.T) {
	t.Parallel()
	i, o := onRedis(t, sqliteStore(t))
	o.pause("resumed", start, true)
	both := o.pause("both", start+1, true)
	const paused = "{promote:0}:paused"
	before, err := i.client.HGetAll(t.Context(), paused).Result()
	if err != nil {
		t.Fatal(err)
	}
	o.resume("resumed", start+2, true)
	lost := o.pause("lost", start+3, true)

	if err := i.client.Del(t.Context(), paused, "{promote:0}:gen").Err(); err != nil {
		t.Fatal(err)
	}
	if err := i.client.HSet(t.Context(), paused, before).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := i.tl.Pause(t.Context(), both); !errors.Is(err, scheduler.ErrUncertified) {
		t.Fatalf("before the recovery: %v", err)
	}
	recoverBy(t, i.tl, o.store, 2)
	list, _, err := i.tl.Pauses(t.Context())
	if err != nil || len(list) != 2 || list[0] != both || list[1].Pattern != lost.Pattern || list[1].At < lost.At {
		t.Fatalf("paused are %+v, %v", list, err)
	}
	o.wantJournaled(both, list[1])
	if later := o.pause("later", start, true); later.At <= lost.At { // by a clock that is behind
		t.Fatalf("paused at %d, after %d", later.At, lost.At)
	}
}

// A store that is lost with thousands of resumes on record is certified without anything being done for each of them.
func TestRecovery_ResumesOnRecordCostNothing(t *testing.T) {
	t.Parallel()
	store, err := memory.NewJournal(memory.JournalConfig{})
	if err != nil {
		t.Fatal(err)
	}
	counting := &countingStore{Store: store}
	i, o := onRedis(t, counting)
	kept := o.pause("kept", start, true)
	for n := range 3000 {
		o.resume(fmt.Sprint("tenant.", n), start+1, true)
	}
	if err := i.client.Del(t.Context(), "{promote:0}:gen").Err(); err != nil {
		t.Fatal(err)
	}
	counting.written = 0
	recoverBy(t, i.tl, counting, 2)
	o.wantPauses(kept)
	if counting.written > 0 {
		t.Fatalf("the journal was written to %d times", counting.written)
	}
}

// countingStore counts the pauses that are written.
type countingStore struct {
	journal.Store
	written int
}

func (s *countingStore) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	s.written++
	return s.Store.WritePause(ctx, c)
}

// While a store is whole it lacks no pause: what the journal has beyond that was resumed, and the journal did not hear
// of it.
func TestRecovery_TellsTheJournalOfPausesItDidNotHearOf(t *testing.T) {
	t.Parallel()
	i, o := onRedis(t, sqliteStore(t))
	gone := o.pause("gone", start, true)
	o.resume("gone", start+1, false)
	unwritten := o.pause("unwritten", start+2, false)
	recoverBy(t, i.tl, o.store, 2)
	o.wantPauses(unwritten)
	o.wantJournaled(gone, unwritten)
}
