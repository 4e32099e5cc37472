package journal_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// heldOrNot is for a call of Await whose error says all.
func heldOrNot(int, bool) {}

// moody is a store that answers as a test sets it.
type moody struct {
	journal.Store
	mu    sync.Mutex
	write func(ctx context.Context, changes []record.Change) error // before the store's own; nil is none
	ping  error
	bare  error // of the next Bare
	calls int
}

func (m *moody) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	m.mu.Lock()
	write := m.write
	m.calls++
	m.mu.Unlock()
	if write != nil {
		if err := write(ctx, changes); err != nil {
			return err
		}
	}
	return m.Store.Write(ctx, fences, changes)
}

func (m *moody) Bare(ctx context.Context, uids []message.UID) (map[message.UID][]uint64, error) {
	m.mu.Lock()
	err := m.bare
	m.bare = nil
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m.Store.Bare(ctx, uids)
}

func (m *moody) Ping(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ping
}

func (m *moody) be(write func(ctx context.Context, changes []record.Change) error, ping error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write, m.ping = write, ping
}

// writerWorld is a writer with a timeline in memory, in a bubble of time.
type writerWorld struct {
	*testing.T
	store  *moody
	tl     *memory.Timeline
	writer *journal.Writer
	n      int
	stop   context.CancelFunc
}

func newWriterWorld(t *testing.T, mode journal.Mode) *writerWorld {
	t.Helper()
	w := &writerWorld{T: t, store: &moody{Store: memoryStore(t)}}
	r := &record.Recording{Instance: "a", Address: "a:1", Limit: 1 << 20,
		Wrote: func(e record.Entry) {
			w.writer.Wrote(e)
		}}
	var err error
	if w.tl, err = memory.New(memory.Config{Buckets: 1, Record: r}); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, w.tl)
	w.writer = journal.NewWriter(
		journal.WriterConfig{Store: w.store, Mode: mode, Timeout: 5 * time.Second, Log: zerolog.Nop()})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.writer.Run(ctx, w.tl, nil) }()
	w.stop = sync.OnceFunc(func() { stop(); <-done })
	return w
}

// push adds a message and waits for the journal for at most so long.
func (w *writerWorld) push(wait time.Duration) (message.UID, error) {
	w.Helper()
	w.n++
	m := schedulertest.Message(w.n)
	if _, _, err := w.tl.Add(w.Context(), 0, []*message.Message{m}, schedulertest.Start); err != nil {
		w.Fatal(err)
	}
	return m.UID, w.await(m.UID, 1, wait)
}

func (w *writerWorld) await(uid message.UID, version uint64, wait time.Duration) error {
	ctx, stop := context.WithTimeout(w.Context(), wait)
	defer stop()
	return w.writer.Await(ctx, []scheduler.Recorded{{UID: uid, Version: version}}, heldOrNot)
}

func (w *writerWorld) lag() record.Lag {
	w.Helper()
	lags, err := w.tl.Lags(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return journal.TotalLag(lags)
}

func inBubble(t *testing.T, mode journal.Mode, do func(w *writerWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriterWorld(t, mode)
		do(w)
		w.stop()
	})
}

func away(context.Context, []record.Change) error { return errors.New("the database is away") }

func frozen(ctx context.Context, _ []record.Change) error { <-ctx.Done(); return ctx.Err() }

func TestWriter_SyncAnswersAfterTheCommitAndEmptiesTheOutbox(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		uid, err := w.push(time.Second)
		if err != nil {
			w.Fatal(err)
		}
		if have, err := w.store.Versions(w.Context(), []message.UID{uid}); err != nil || have[uid].Version != 1 {
			w.Fatalf("answered before the commit: %v, %v", have, err)
		}
		synctest.Wait()
		if lag := w.lag(); lag.Entries != 0 {
			w.Fatalf("lag %+v", lag)
		}
	})
}

func TestWriter_AsyncWaitsForNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Async, func(w *writerWorld) {
		w.store.be(frozen, nil)
		for range 3 {
			if _, err := w.push(time.Millisecond); err != nil {
				w.Fatal(err)
			}
		}
		if err := w.writer.Ready(); err != nil {
			w.Fatal(err)
		}
		if lag := w.lag(); lag.Changes != 3 {
			w.Fatalf("lag %+v, want 3 changes", lag)
		}
	})
}

func TestWriter_SyncRefusesWhileTheJournalIsAwayAndGoesOnAfterwards(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		w.store.be(away, errors.New("away"))
		lost, err := w.push(300 * time.Millisecond)
		if err == nil {
			w.Fatal("a push was answered without a commit")
		}
		if err := w.writer.Ready(); !errors.Is(err, scheduler.ErrUnavailable) {
			w.Fatalf("ready: %v", err)
		}
		w.store.be(nil, nil)
		time.Sleep(time.Second)
		if err := w.writer.Ready(); err != nil {
			w.Fatalf("not ready again: %v", err)
		}
		if _, err := w.push(time.Second); err != nil {
			w.Fatal(err)
		}
		// What was not answered was the probe; it stands in the outbox too, and may be drained once more.
		if err := w.await(lost, 1, 100*time.Millisecond); err != nil {
			w.Fatalf("the retry: %v", err)
		}
		if _, _, err := drain(w.Context(), w.store, w.tl, 0, 0, time.Second, zerolog.Nop()); err != nil {
			w.Fatal(err)
		}
		if err := w.await(lost, 1, time.Second); err != nil {
			w.Fatalf("the retry: %v", err)
		}
	})
}

// One entry that the journal never takes, though it takes all others, does not keep pushes away for ever.
func TestWriter_SyncGoesOnBesideAnEntryThatIsNeverTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		var never message.UID
		w.store.be(func(_ context.Context, changes []record.Change) error {
			if never == "" {
				never = changes[0].UID
			}
			if changes[0].UID == never {
				return errors.New("not this one")
			}
			return nil
		}, nil)
		if _, err := w.push(300 * time.Millisecond); err == nil {
			w.Fatal("a push was answered without a commit")
		}
		time.Sleep(time.Minute) // of the bubble, as all here: the writer tries it for half of that
		if err := w.writer.Ready(); err != nil {
			w.Fatalf("not ready again: %v", err)
		}
		if _, err := w.push(time.Second); err != nil {
			w.Fatal(err)
		}
	})
}

// A database without room answers, and takes changes that need none: pushes are refused until it takes one.
func TestWriter_SyncRefusesWhileTheJournalAnswersAndTakesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		w.store.be(away, nil)
		if _, err := w.push(300 * time.Millisecond); err == nil {
			w.Fatal("a push was answered without a commit")
		}
		time.Sleep(time.Second) // of the bubble: several probes fail
		if err := w.writer.Ready(); !errors.Is(err, scheduler.ErrUnavailable) {
			w.Fatalf("ready: %v", err)
		}
		w.store.be(nil, nil)
		time.Sleep(time.Second) // of the bubble: the next probe passes
		if err := w.writer.Ready(); err != nil {
			w.Fatalf("not ready again: %v", err)
		}
	})
}

func TestWriter_SyncRefusesSoonWhenTheJournalFallsSilent(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		w.store.be(frozen, nil)
		if _, err := w.push(100 * time.Millisecond); err == nil {
			w.Fatal("a push was answered without a commit")
		}
		time.Sleep(1200 * time.Millisecond)
		if err := w.writer.Ready(); !errors.Is(err, scheduler.ErrUnavailable) {
			w.Fatalf("ready: %v", err)
		}
	})
}

// A stop lets the commit under way come to its end, and what is queued behind it. One commit hangs while another
// worker's go through: the oldest under way decides.
func TestWriter_SyncRefusesWhileTheOldestCommitHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWriterWorld(t, journal.Sync)
		defer w.stop()
		var begun atomic.Bool
		w.store.be(func(ctx context.Context, changes []record.Change) error {
			if begun.Swap(true) {
				return nil
			}
			return frozen(ctx, changes)
		}, nil)
		if _, err := w.push(100 * time.Millisecond); err == nil {
			t.Fatal("the first push was answered")
		}
		for range 15 {
			if _, err := w.push(100 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err := w.writer.Ready(); err == nil {
			t.Error("ready, though a commit has been under way for more than a second")
		}
	})
}

func TestWriter_LeavesNothingBehindWhenItStops(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Async, func(w *writerWorld) {
		w.store.be(func(ctx context.Context, _ []record.Change) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil)
		for range 3 {
			if _, err := w.push(time.Second); err != nil {
				w.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond) // of the bubble: each is taken by itself
		}
		w.stop()
		if lag := w.lag(); lag.Changes != 0 {
			w.Fatalf("lag %+v after the stop", lag)
		}
	})
}

// The retry of a change that was made on a server that has been replaced must not take another change of the same
// version for its own.
func TestWriter_ARetryUnderAnOldCertificationIsNotAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		uid, err := w.push(time.Second)
		if err != nil {
			w.Fatal(err)
		}
		retry := func(number uint64) error {
			ctx, stop := context.WithTimeout(w.Context(), 100*time.Millisecond)
			defer stop()
			return w.writer.Await(ctx, []scheduler.Recorded{{UID: uid, Version: 1, Number: number}}, heldOrNot)
		}
		if err := w.store.Fence(w.Context(), 0, 7); err != nil {
			w.Fatal(err)
		}
		if err := retry(7); err != nil {
			w.Fatalf("under the certification that stands: %v", err)
		}
		if err := retry(6); !errors.Is(err, scheduler.ErrFenced) {
			w.Fatalf("under an old one: %v, want ErrFenced", err)
		}
	})
}

// A look that broke off halfway must not say that the journal has all of a message whose content it refused.
func TestWriter_SaysThatContentWasRefusedThoughALookBrokeOff(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		m := schedulertest.Message(1)
		err := w.store.Store.Write(w.Context(), nil, []record.Change{
			{UID: m.UID, Version: 1, State: message.StateWaiting, At: schedulertest.Start, Message: m},
			{UID: m.UID, Version: 2, State: message.StateWaiting, At: schedulertest.Start, Reason: record.RefusedReason}})
		if err != nil {
			w.Fatal(err)
		}
		w.store.bare = errors.New("the connection broke")
		ctx, stop := context.WithTimeout(w.Context(), time.Second)
		defer stop()
		err = w.writer.Await(ctx, []scheduler.Recorded{{UID: m.UID, Version: 2}}, func(_ int, bare bool) {
			if !bare {
				w.Error("the content counts as journaled")
			}
		})
		if err != nil {
			w.Fatal(err)
		}
	})
}

// A later version does not tell that an edit is there: it may have been written before, without the content.
func TestWriter_AnswersNoEditForALaterVersion(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{"before", "after"} { // the commit failed
		inBubble(t, journal.Sync, func(w *writerWorld) {
			uid, err := w.push(time.Second)
			if err != nil {
				w.Fatal(err)
			}
			w.store.be(away, nil)
			other := *schedulertest.Message(w.n)
			other.Body = []byte("other")
			r, err := w.tl.Amend(w.Context(), scheduler.Amend{UID: uid, Version: 1, Due: other.Due, Message: &other},
				schedulertest.Start)
			if err != nil || r.Code != scheduler.AmendDone {
				w.Fatalf("%+v, %v", r, err)
			}
			if asked == "after" {
				time.Sleep(100 * time.Millisecond)
			}
			answered := make(chan error, 1)
			go func() { answered <- w.await(uid, 2, 5*time.Second) }()
			time.Sleep(100 * time.Millisecond)
			edit := record.Change{UID: uid, Version: 2, State: message.StateWaiting, At: schedulertest.Start, Message: &other}
			later := record.Change{UID: uid, Version: 3, State: message.StateWaiting, At: schedulertest.Start,
				Kind: message.KindSwept}
			if err := w.store.Store.Write(w.Context(), nil, []record.Change{later}); err != nil {
				w.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			select {
			case err := <-answered:
				w.Fatalf("asked %s: the edit is answered, and the journal does not have it: %v", asked, err)
			default:
			}
			if err := w.store.Store.Write(w.Context(), nil, []record.Change{edit}); err != nil {
				w.Fatal(err)
			}
			if err := <-answered; err != nil {
				w.Errorf("asked %s: %v", asked, err)
			}
		})
	}
}

// One bad row must not hold the others back.
func TestWriter_ARowThatIsRefusedForGoodStandsAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Async, func(w *writerWorld) {
		var bad message.UID
		w.store.be(func(_ context.Context, changes []record.Change) error {
			for _, c := range changes {
				if c.UID == bad {
					return &mysql.MySQLError{Number: 1406, SQLState: [5]byte{'2', '2', '0', '0', '1'},
						Message: "data too long"}
				}
			}
			return nil
		}, nil)
		bad = schedulertest.Message(2).UID
		var uids []message.UID
		for range 3 {
			uid, err := w.push(time.Second)
			if err != nil {
				w.Fatal(err)
			}
			uids = append(uids, uid)
		}
		time.Sleep(time.Second)
		have, err := w.store.Versions(w.Context(), uids)
		if err != nil || len(have) != 2 || have[bad].Version != 0 {
			w.Fatalf("the journal has %v, %v", have, err)
		}
		if lag := w.lag(); lag.Changes != 1 {
			w.Fatalf("lag %+v: the refused row must stay in the outbox", lag)
		}
		drained, refused, err := drain(w.Context(), w.store, w.tl, 0, 0, time.Second, zerolog.Nop())
		if err != nil || refused != 1 {
			w.Fatalf("drain: %d, %d refused, %v", drained, refused, err)
		}
	})
}

// A commit whose answer is lost is made, and repeated by the drainer.
func TestWriter_AnUnknownCommitIsRepeatedWithoutHarm(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Sync, func(w *writerWorld) {
		w.store.be(func(ctx context.Context, changes []record.Change) error {
			if err := w.store.Store.Write(ctx, nil, changes); err != nil {
				return err
			}
			return errors.New("the connection broke after the commit")
		}, nil)
		uid, err := w.push(time.Second)
		if err != nil {
			w.Fatalf("the journal has it, and the push is not answered: %v", err)
		}
		w.store.be(nil, nil)
		if _, _, err := drain(w.Context(), w.store, w.tl, 0, 0, time.Second, zerolog.Nop()); err != nil {
			w.Fatal(err)
		}
		history, err := w.store.History(w.Context(), uid, record.MaxChanges)
		if err != nil || len(history) != 1 || w.lag().Entries != 0 {
			w.Fatalf("history %+v, lag %+v, %v", history, w.lag(), err)
		}
	})
}

func TestOutbox_AtItsLimitRefusesPushesAndNothingElse(t *testing.T) {
	t.Parallel()
	inBubble(t, journal.Async, func(w *writerWorld) {
		w.store.be(frozen, nil)
		var last error
		for i := range 100 {
			m := schedulertest.Message(1000+i, schedulertest.Body(make([]byte, 64<<10)))
			if _, _, last = w.tl.Add(w.Context(), 0, []*message.Message{m}, schedulertest.Start); last != nil {
				break
			}
		}
		if !errors.Is(last, scheduler.ErrBehind) {
			w.Fatalf("at the limit: %v", last)
		}
		c, err := w.tl.Claim(
			w.Context(),
			0,
			scheduler.Claim{
				Term:   1,
				Number: 1,
				Now:    schedulertest.Start.Add(time.Hour),
				Limit:  1,
				Bytes:  1 << 20,
			},
		)
		if err != nil || len(c.Messages) != 1 {
			w.Fatalf("claim at the limit: %+v, %v", c, err)
		}
		if err := w.tl.Finish(w.Context(), 0, 1, []scheduler.End{
			{Message: c.Messages[0], State: message.StateDelivered}}, schedulertest.Start); err != nil {
			w.Fatalf("finish at the limit: %v", err)
		}
		ref := scheduler.Ref{UID: schedulertest.Message(1001).UID}
		if _, err := w.tl.Cancel(w.Context(), ref, schedulertest.Start); err != nil {
			w.Fatalf("cancel at the limit: %v", err)
		}
	})
}
