package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// pickyStore refuses every change of some messages.
type pickyStore struct {
	journal.Store
	mu   sync.Mutex
	uids map[message.UID]error
}

func (s *pickyStore) refuse(m *message.Message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids[m.UID] = err
}

func (s *pickyStore) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		if err := s.uids[changes[i].UID]; err != nil {
			return err
		}
	}
	return s.Store.Write(ctx, fences, changes)
}

// errValue is how MariaDB refuses a value; its words may be a body's.
var errValue = &mysql.MySQLError{Number: 1366, SQLState: [5]byte([]byte("22007")), Message: "incorrect value: secret"}

// apart is a timeline whose outbox nobody drains but the test, and a journal that may refuse.
type apart struct {
	*testing.T
	line
	store *pickyStore
	log   bytes.Buffer
	now   message.Milli
	clock *scheduler.Clock
}

// onBoth runs a test in memory and on Redis with SQLite.
func onBoth(t *testing.T, check func(a *apart)) {
	t.Parallel()
	for name, open := range map[string]struct {
		line  func(*testing.T, *record.Recording) server
		store func(*testing.T) journal.Store
	}{"memory": {memoryLine, memoryStore}, "redis": {redisLine, sqliteStore}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(newApart(t, open.line(t, unheard()).line, open.store(t)))
		})
	}
}

// unheard is a recording that nobody listens to.
func unheard() *record.Recording {
	return &record.Recording{Instance: "a", Address: "a:1", Limit: 1 << 30,
		Wrote: func(record.Entry) {}}
}

func newApart(t *testing.T, tl line, store journal.Store) *apart {
	a := &apart{T: t, line: tl, now: schedulertest.Start}
	a.store = &pickyStore{Store: store, uids: map[message.UID]error{}}
	a.clock = scheduler.NewClock(scheduler.Local{Wall: func() time.Time { return a.now.Time() },
		Mono: func() time.Duration { return time.Duration(a.now) * time.Millisecond }})
	schedulertest.Certify(t, tl)
	return a
}

func (a *apart) must(step string, err error) {
	a.Helper()
	if err != nil {
		a.Fatalf("%s: %v", step, err)
	}
}

func (a *apart) push(batch ...*message.Message) {
	a.Helper()
	_, _, err := a.Add(a.Context(), 0, batch, a.now)
	a.must("push", err)
}

func (a *apart) cancel(m *message.Message) {
	a.Helper()
	r, err := a.Cancel(a.Context(), scheduler.Ref{UID: m.UID}, a.now)
	a.must("cancel", err)
	if r.Code != scheduler.CancelDone {
		a.Fatalf("cancel: %+v", r)
	}
}

func (a *apart) drain() (refused int, err error) {
	_, refused, err = drain(a.Context(), a.store, a.line, 0, 0, time.Minute, zerolog.New(&a.log))
	return refused, err
}

// recover makes the timeline whole as if its server had changed.
func (a *apart) recover() {
	a.Helper()
	r := journal.NewRecovery(journal.RecoveryConfig{Store: a.store, Timeline: moved{a.line}, Mode: journal.Sync,
		Window: time.Hour, EndedKeep: time.Hour, Clock: a.clock, Timeout: time.Minute, Log: zerolog.New(&a.log)})
	if result, err := r.Run(a.Context(), 2); err != nil || result.Buckets != int(crashBuckets) {
		a.Fatalf("recovery: %+v, %v", result, err)
	}
}

func (a *apart) wantLag(want record.Lag) {
	a.Helper()
	lags, err := a.Lags(a.Context())
	a.must("lags", err)
	if l := lags[0]; l.Entries != want.Entries || l.Quarantined != want.Quarantined {
		a.Fatalf("lag %+v, want %+v", l, want)
	}
}

func (a *apart) quarantined() (list []record.Quarantined) {
	a.Helper()
	for after := ""; ; {
		page, next, err := a.Quarantined(a.Context(), 0, after)
		a.must("list what is quarantined", err)
		if len(page) == 0 {
			return list
		}
		list, after = append(list, page...), next
	}
}

func (a *apart) verify() record.VerifyReport {
	a.Helper()
	v := &journal.Reconciler{Store: a.store, Timeline: a.line, Buckets: crashBuckets, Clock: a.clock,
		Timeout: time.Minute,
		Address: ""}
	report, err := v.Verify(a.Context(), record.VerifyRequest{Repair: true, Revive: true}, nil)
	a.must("verify", err)
	return report
}

func (a *apart) restore(dry bool) record.RestoreReport {
	a.Helper()
	r := &journal.Reconciler{Store: a.store, Timeline: a.line, Buckets: crashBuckets, Clock: a.clock,
		Timeout: time.Minute,
		Log:     zerolog.Nop()}
	report, err := r.Restore(a.Context(), record.RestoreRequest{Overdue: true, DryRun: dry}, nil)
	a.must("restore", err)
	return report
}

// lines is how many lines of the log name a message.
func (a *apart) lines(m *message.Message) (n int) {
	for line := range strings.Lines(a.log.String()) {
		if strings.Contains(line, string(m.UID)) {
			n++
		}
	}
	return n
}

// state is how the journal has a message, none where it does not know its content.
func (a *apart) state(m *message.Message) message.State {
	a.Helper()
	have, err := a.store.Versions(a.Context(), []message.UID{m.UID})
	a.must("versions", err)
	return have[m.UID].State
}

// What the journal refuses of one message, also bare, costs the others of its entry nothing, and holds nothing back:
// not the entries behind it, and not the memory of ends.
func TestDrain_QuarantinesWhatTheJournalRefusesAlsoBare(t *testing.T) {
	onBoth(t, func(a *apart) {
		later := schedulertest.DueIn(time.Hour)
		bad, good, behind := schedulertest.Message(1, later), schedulertest.Message(2, later),
			schedulertest.Message(3, later)
		a.store.refuse(bad, errValue)
		a.push(good, bad, schedulertest.Message(4, later))
		a.push(behind)
		a.wantLag(record.Lag{Entries: 2})
		if refused, err := a.drain(); err != nil || refused != 1 {
			a.Fatalf("%d entries were refused, %v", refused, err)
		}
		a.wantLag(record.Lag{Quarantined: 1})
		for _, m := range []*message.Message{good, behind} {
			if s := a.state(m); s != message.StateWaiting {
				a.Errorf("%s is %s in the journal", m.UID, s)
			}
		}
		list := a.quarantined()
		if len(list) != 1 || list[0].Known || fmt.Sprint(list[0].UIDs) != fmt.Sprint([]message.UID{bad.UID}) ||
			strings.Contains(list[0].Reason, "secret") {
			a.Fatalf("quarantined are %+v", list)
		}
		if a.lines(bad) != 1 || a.lines(good) != 0 || strings.Contains(a.log.String(), "secret") {
			a.Errorf("%d lines of the log name it: %s", a.lines(bad), &a.log)
		}
		if refused, err := a.drain(); err != nil || refused != 0 {
			a.Errorf("once more: %d refused, %v", refused, err)
		}
		report := a.verify()
		if len(report.Quarantined) != 1 || report.Quarantined[0].ID != list[0].ID ||
			report.Found[record.MissingInJournal] != 1 || len(report.Found) != 1 {
			a.Errorf("verify: %+v", report)
		}
	})
}

// The journal shows a message as waiting whose end it refused, and the store has forgotten that: nothing brings it
// back.
func TestQuarantine_AnEndThatTheJournalRefusedIsNotUndone(t *testing.T) {
	onBoth(t, func(a *apart) {
		later := schedulertest.DueIn(3 * time.Hour)
		bad, lost := schedulertest.Message(1, later), schedulertest.Message(2, later)
		a.push(bad)
		if refused, err := a.drain(); err != nil || refused != 0 {
			a.Fatalf("drain: %d, %v", refused, err)
		}
		a.store.refuse(bad, errValue)
		a.cancel(bad)
		if refused, err := a.drain(); err != nil || refused != 1 {
			a.Fatalf("drain: %d, %v", refused, err)
		}
		a.now = a.now.Add(2 * time.Hour)
		if n, err := a.Trim(a.Context(), 0, 1, a.now, 10); err != nil || n != 1 {
			a.Fatalf("forgotten: %d, %v", n, err)
		}
		// what the store has lost comes back all the same
		a.must("write", a.store.Write(a.Context(), nil, []record.Change{
			{UID: lost.UID, Version: 1, State: message.StateWaiting, Due: lost.Due, At: a.now, Message: lost}}))
		if report := a.restore(true); report != (record.RestoreReport{Read: 2, Added: 1, Newer: 1}) {
			a.Errorf("a dry run: %+v", report)
		}
		if report := a.verify(); report.Found[record.EndedInStore] != 2 || report.Repaired != 1 {
			a.Errorf("verify: %+v", report)
		}
		if report := a.restore(false); report != (record.RestoreReport{Read: 2, Newer: 2}) {
			a.Errorf("restore: %+v", report)
		}
		if found, err := a.Find(a.Context(), scheduler.Ref{UID: bad.UID}); err != nil || len(found) > 0 {
			a.Fatalf("it is back: %+v, %v", found, err)
		}
	})
}

// Only what the rows themselves are refused for goes into quarantine.
func TestDrain_QuarantinesNothingWhereTheDatabaseIsAtFault(t *testing.T) {
	onBoth(t, func(a *apart) {
		m := schedulertest.Message(1)
		a.push(m)
		for _, fault := range []error{
			journal.ErrUnfit, fmt.Errorf("write: %w", journal.ErrUnfit), scheduler.ErrFenced, context.DeadlineExceeded,
			scheduler.ErrUnavailable, errors.New("nobody knows"), mysql.ErrInvalidConn,
			&mysql.MySQLError{Number: 1205, SQLState: [5]byte([]byte("HY000"))},
			&mysql.MySQLError{Number: 1146, SQLState: [5]byte([]byte("42S02"))},
		} {
			a.store.refuse(m, fault)
			if refused, err := a.drain(); !errors.Is(err, fault) || refused != 0 {
				a.Errorf("%v: %d refused, %v", fault, refused, err)
			}
			a.wantLag(record.Lag{Entries: 1})
		}
		a.store.refuse(m, nil)
		if refused, err := a.drain(); err != nil || refused != 0 || a.state(m) != message.StateWaiting {
			a.Errorf("%d refused, %v", refused, err)
		}
	})
}

// Where more is refused than the quarantine holds the rest waits in the outbox, and what can be written is.
func TestDrain_KeepsInTheOutboxWhatTheQuarantineHasNoRoomFor(t *testing.T) {
	onBoth(t, func(a *apart) {
		for n := range record.MaxQuarantined + 2 {
			m := schedulertest.Message(n, schedulertest.DueIn(time.Hour))
			a.store.refuse(m, errValue)
			a.push(m)
		}
		good := schedulertest.Message(1000, schedulertest.DueIn(time.Hour))
		a.push(good)
		for range 2 {
			if _, err := a.drain(); !errors.Is(err, record.ErrQuarantineFull) {
				a.Fatalf("drain: %v", err)
			}
			a.wantLag(record.Lag{Entries: 2, Quarantined: record.MaxQuarantined})
		}
		if s := a.state(good); s != message.StateWaiting {
			a.Errorf("what stood behind is %s", s)
		}
		a.recover()
		if n := strings.Count(a.log.String(), "certified although the journal lacks"); n != record.MaxQuarantined {
			a.Errorf("the log names %d entries", n)
		}
	})
}

// moved is a line whose certification is of another server.
type moved struct{ line }

func (m moved) Standings(ctx context.Context) ([]record.Standing, error) {
	standings, err := m.line.Standings(ctx)
	for i := range standings {
		standings[i].Run = "another"
	}
	return standings, err
}

// damaged puts a damaged entry in the place of the oldest one of bucket 0.
func (s *redisServer) damaged(t *testing.T, change func(fields []string) []string) {
	t.Helper()
	key := fmt.Sprintf("{%s:0}:outbox", s.ns)
	all, err := s.rdb.Do(t.Context(), "XRANGE", key, "-", "+").Slice()
	if err == nil {
		err = s.rdb.XTrimMaxLen(t.Context(), key, 0).Err()
	}
	for i := 0; err == nil && i < len(all); i++ {
		var fields []string
		for _, f := range all[i].([]any)[1].([]any) {
			fields = append(fields, f.(string))
		}
		if i == 0 {
			fields = change(fields)
		}
		args := []any{"XADD", key, "*"}
		for _, f := range fields {
			args = append(args, f)
		}
		err = s.rdb.Do(t.Context(), args...).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// From a damaged entry the journal learns only which messages it concerns. It reads their states from the store.
func TestDrain_LearnsFromTheStoreWhatADamagedEntryDoesNotTell(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f []string) []string{
		"context": func(f []string) []string { f[1] = ""; return f },
		"size":    func(f []string) []string { f[3] = "?"; return f },
		"change":  func(f []string) []string { f[5] = f[5][:4]; return f },
		"version": func(f []string) []string { f[5] = "\x63" + f[5][1:]; return f },
	} {
		for _, by := range []string{"a drain", "a recovery"} {
			t.Run(name+" found by "+by, func(t *testing.T) {
				t.Parallel()
				s := newRedisServer(t, unheard())
				a := newApart(t, s.tl, sqliteStore(t))
				later := schedulertest.DueIn(3 * time.Hour)
				m, behind := schedulertest.Message(1, later), schedulertest.Message(2, later)
				a.push(m)
				if refused, err := a.drain(); err != nil || refused > 0 {
					t.Fatalf("drain: %d, %v", refused, err)
				}
				a.cancel(m)
				a.push(behind)
				s.damaged(t, change)
				if by == "a drain" {
					if refused, err := a.drain(); err != nil || refused != 1 {
						t.Fatalf("drain: %d, %v", refused, err)
					}
				} else {
					a.recover()
				}
				a.wantLag(record.Lag{Quarantined: 1})
				list := a.quarantined()
				if len(list) != 1 || !list[0].Known || !slices.Equal(list[0].UIDs, []message.UID{m.UID}) {
					t.Fatalf("quarantined are %+v", list)
				}
				if s := a.state(m); s != message.StateCanceled {
					t.Errorf("in the journal it is %s", s)
				}
				if s := a.state(behind); s != message.StateWaiting {
					t.Errorf("what stood behind is %s in the journal", s)
				}
				if n := a.lines(m); n != 1 {
					t.Errorf("%d lines of the log name it: %s", n, &a.log)
				}
				a.now = a.now.Add(2 * time.Hour)
				if n, err := a.Trim(t.Context(), 0, 2, a.now, 10); err != nil || n != 1 {
					t.Fatalf("forgotten: %d, %v", n, err)
				}
				if report := a.verify(); len(report.Found) > 0 || len(report.Quarantined) != 1 {
					t.Errorf("verify: %+v", report)
				}
				if report := a.restore(false); report.Added > 0 {
					t.Errorf("restore: %+v", report)
				}
			})
		}
	}
}

// An entry that a newer tarry wrote waits for one that can read it, and its messages are not repaired with what is
// older.
func TestDrain_LeavesWhatANewerTarryWrote(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f []string) []string{
		"context": func(f []string) []string { f[1] = "\x02" + f[1][1:]; return f },
		"change":  func(f []string) []string { f[5] = "\x06" + f[5][1:]; return f },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisServer(t, unheard())
			a := newApart(t, s.tl, sqliteStore(t))
			later := schedulertest.DueIn(3 * time.Hour)
			m, behind := schedulertest.Message(1, later), schedulertest.Message(2, later)
			a.push(m)
			if refused, err := a.drain(); err != nil || refused > 0 {
				t.Fatalf("drain: %d, %v", refused, err)
			}
			key := fmt.Sprintf("{%s:0}:msg", s.ns)
			packed := "\x04" + s.rdb.HGet(t.Context(), key, string(m.UID)).Val()[1:]
			a.amend(m, 1, "another body")
			a.push(behind)
			s.damaged(t, change)
			a.must("rewrite", s.rdb.HSet(t.Context(), key, string(m.UID), packed).Err())
			for range 2 {
				if refused, err := a.drain(); !errors.Is(err, scheduler.ErrNewer) || refused != 0 {
					t.Fatalf("drain: %d, %v", refused, err)
				}
				a.wantLag(record.Lag{Entries: 1})
			}
			if s := a.state(behind); s != message.StateWaiting {
				t.Errorf("what stood behind is %s in the journal", s)
			}
			if report := a.verify(); report.Repaired != 0 {
				t.Errorf("verify: %+v", report)
			}
			a.recover()
			a.wantLag(record.Lag{Entries: 1})
			a.wantHistory(m, wasAccepted)
			if got := s.rdb.HGet(t.Context(), key, string(m.UID)).Val(); got != packed {
				t.Errorf("its record became %q", got)
			}
		})
	}
}

// young hides from a drain what is said to be younger than the age that it asks for.
type young struct {
	line
	ids map[string]bool
}

func (y young) Unwritten(ctx context.Context, bucket message.Bucket, after string, age message.Milli,
	limit, bytes int) ([]record.Entry, error) {
	entries, err := y.line.Unwritten(ctx, bucket, after, 0, limit, bytes)
	return slices.DeleteFunc(entries, func(e record.Entry) bool { return age > 0 && y.ids[e.ID] }), err
}

// drainOld drains but for the entries from the given place on.
func (a *apart) drainOld(from int) {
	a.Helper()
	entries, err := a.Unwritten(a.Context(), 0, "", 0, 100, 1<<20)
	a.must("read the outbox", err)
	y := young{a.line, map[string]bool{}}
	for _, e := range entries[from:] {
		y.ids[e.ID] = true
	}
	_, _, err = drain(a.Context(), a.store, y, 0, 1, time.Minute, zerolog.New(&a.log))
	a.must("drain what is old", err)
}

// history is what the journal has of a message: of each change the version, the state, when, who and where to.
func (a *apart) history(m *message.Message) (lines []string) {
	a.Helper()
	changes, err := a.store.History(a.Context(), m.UID, record.MaxChanges)
	a.must("history", err)
	for _, c := range changes {
		lines = append(lines,
			fmt.Sprintf("%d %s at %d by %q for %q to %q %d", c.Version, c.State, c.At-a.now, c.Instance,
				c.Reason, c.Stream, c.Sequence))
	}
	return lines
}

func (a *apart) wantHistory(m *message.Message, want ...string) {
	a.Helper()
	if got := a.history(m); !slices.Equal(got, want) {
		a.Errorf("its history is %q, want %q", got, want)
	}
}

func (a *apart) amend(m *message.Message, version uint64, body string) {
	a.Helper()
	am := scheduler.Amend{UID: m.UID, Version: version, Due: m.Due + 1000*message.Milli(version), Reason: "so it is"}
	if body != "" {
		own := *m
		own.Body, am.Message = []byte(body), &own
	}
	r, err := a.Amend(a.Context(), am, a.now)
	a.must("amend", err)
	if r.Code != scheduler.AmendDone {
		a.Fatalf("amend: %+v", r)
	}
}

func (a *apart) deliver(m *message.Message) {
	a.Helper()
	got, err := a.Claim(a.Context(), 0,
		scheduler.Claim{Term: 1, Now: m.Due.Add(time.Hour), Limit: 10, Bytes: 1 << 20, Number: 1})
	a.must("claim", err)
	if len(got.Messages) != 1 {
		a.Fatalf("claimed %+v", got)
	}
	end := scheduler.End{Message: got.Messages[0], State: message.StateDelivered, Stream: "ORDERS", Sequence: 42}
	err = a.Finish(a.Context(), 0, 1, []scheduler.End{end}, a.now.Add(5*time.Second))
	a.must("finish", err)
}

const (
	wasAccepted  = `1 waiting at 0 by "a" for "" to "" 0`
	wasDelivered = `3 delivered at 5000 by "a" for "" to "ORDERS" 42`
	lostHere     = `2 waiting at 0 by "" for "what led here is lost" to "" 0`
)

// What is known of a message whose earlier change is lost stands in the entries behind: nothing takes their place.
func TestDrain_KeepsTheHistoryThatStandsBehindADamagedEntry(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]func(a *apart){
		"drained at once": func(a *apart) {
			if refused, err := a.drain(); err != nil || refused != 1 {
				a.Fatalf("drain: %d, %v", refused, err)
			}
		},
		"drained later": func(a *apart) { // the entry behind is young, and its writer still has it
			a.drainOld(1)
			a.wantLag(record.Lag{Entries: 1, Quarantined: 1})
			a.wantHistory(schedulertest.Message(1), wasAccepted)
			if refused, err := a.drain(); err != nil || refused != 0 {
				a.Fatalf("drain: %d, %v", refused, err)
			}
		},
		"drained by two": func(a *apart) { a.drainOld(1); a.drainOld(0); a.recover() },
		"recovered":      func(a *apart) { a.recover() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisServer(t, unheard())
			a := newApart(t, s.tl, sqliteStore(t))
			m := schedulertest.Message(1)
			a.push(m)
			if refused, err := a.drain(); err != nil || refused > 0 {
				t.Fatalf("drain: %d, %v", refused, err)
			}
			a.amend(m, 1, "")
			a.deliver(m)
			s.damaged(t, func(f []string) []string { f[1] = ""; return f })
			drain(a)
			a.wantLag(record.Lag{Quarantined: 1})
			a.wantHistory(m, wasAccepted, wasDelivered)
			if list := a.quarantined(); !list[0].Known {
				t.Errorf("quarantined are %+v", list)
			}
			records, err := a.store.Records(t.Context(), []message.UID{m.UID})
			if err != nil || len(records) != 1 || records[0].EndedAt != a.now.Add(5*time.Second) ||
				records[0].Reason != "" {
				t.Errorf("its record is %+v, %v", records, err)
			}
			if n := a.lines(m); n != 1 {
				t.Errorf("%d lines of the log name it: %s", n, &a.log)
			}
		})
	}
}

// The content that a damaged entry held is still in the store: the journal gets it, whatever came to it since or is on
// its way.
func TestDrain_BringsTheContentThatADamagedEntryHeld(t *testing.T) {
	t.Parallel()
	for _, old := range []int{1, 2, 3} { // as many entries are drained first
		t.Run(fmt.Sprint(old), func(t *testing.T) {
			t.Parallel()
			s := newRedisServer(t, unheard())
			a := newApart(t, s.tl, sqliteStore(t))
			later := schedulertest.DueIn(time.Hour)
			m, fresh := schedulertest.Message(1, later), schedulertest.Message(2, later)
			a.push(m)
			if refused, err := a.drain(); err != nil || refused > 0 {
				t.Fatalf("drain: %d, %v", refused, err)
			}
			a.amend(m, 1, "another body")
			a.amend(m, 2, "")
			a.amend(m, 3, "")
			s.damaged(t, func(f []string) []string { f[5] = f[5][:4]; return f })
			a.drainOld(old)
			records, err := a.store.Records(t.Context(), []message.UID{m.UID})
			if err != nil || len(records) != 1 || string(records[0].Body) != "another body" {
				t.Errorf("its record is %+v, %v", records, err)
			}
			if _, err := a.drain(); err != nil {
				t.Fatal(err)
			}
			want := []string{wasAccepted, lostHere,
				`3 waiting at 0 by "a" for "so it is" to "" 0`, `4 waiting at 0 by "a" for "so it is" to "" 0`}
			if old > 1 { // that version need not stand for the content
				want = slices.Delete(want, 1, 2)
			}
			a.wantHistory(m, want...)

			a.push(fresh)
			a.amend(fresh, 1, "")
			s.damaged(t, func(f []string) []string { f[5] = f[5][:4]; return f })
			a.drainOld(min(old, 2))
			if s := a.state(fresh); s != message.StateWaiting {
				t.Errorf("in the journal it is %s", s)
			}
			records, err = a.store.Records(t.Context(), []message.UID{fresh.UID})
			if err != nil || len(records) != 1 || !bytes.Equal(records[0].Body, fresh.Body) {
				t.Errorf("its record is %+v, %v", records, err)
			}
		})
	}
}

// A verify leaves to the outbox what that holds, however long it waits there: each change is journaled once, by its own
// entry.
func TestVerify_LeavesToTheOutboxWhatItHolds(t *testing.T) {
	onBoth(t, func(a *apart) {
		m, late, lost := schedulertest.Message(1), schedulertest.Message(2), schedulertest.Message(3)
		a.push(m)
		if _, err := a.drain(); err != nil {
			a.Fatal(err)
		}
		a.deliver(m) // a whole life that the journal does not know yet
		a.push(late)
		a.push(lost)
		entries, err := a.Unwritten(a.Context(), 0, "", 0, 100, 1<<20)
		a.must("read the outbox", err)
		a.must("lose the last entry", a.Written(a.Context(), 0, entries[len(entries)-1:]))
		report := a.verify()
		if want := map[string]int{record.MissingInJournal: 1}; !maps.Equal(report.Found, want) ||
			report.Repaired != 1 ||
			report.Differences[0].UID != lost.UID {
			a.Errorf("verify: %+v", report)
		}
		if _, err := a.drain(); err != nil {
			a.Fatal(err)
		}
		a.wantHistory(m, wasAccepted, `2 delivered at 5000 by "a" for "" to "ORDERS" 42`)
		a.wantHistory(late, wasAccepted)
		a.wantHistory(lost, `1 waiting at 0 by "" for "repaired from the store" to "" 0`)
	})
}

// moving is a line on which a message moves just before it is looked up.
type moving struct {
	line
	move func()
}

func (m moving) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	m.move()
	return m.line.Find(ctx, ref)
}

// What moves while a verify repairs it is left to the entry of that.
func TestVerify_LeavesToTheOutboxWhatMovesUnderIt(t *testing.T) {
	onBoth(t, func(a *apart) {
		m := schedulertest.Message(1, schedulertest.DueIn(time.Hour))
		a.push(m)
		entries, err := a.Unwritten(a.Context(), 0, "", 0, 100, 1<<20)
		a.must("read the outbox", err)
		a.must("lose it", a.Written(a.Context(), 0, entries))
		own := a.line
		a.line = moving{own, sync.OnceFunc(func() { a.line = own; a.amend(m, 1, "") })}
		if report := a.verify(); report.Found[record.MissingInJournal] != 1 || report.Repaired != 0 {
			a.Errorf("verify: %+v", report)
		}
		if _, err := a.drain(); err != nil {
			a.Fatal(err)
		}
		a.wantHistory(m, `2 waiting at 0 by "a" for "so it is" to "" 0`)
	})
}

// An end whose own entry is damaged is written down as the store has it.
func TestDrain_TakesFromTheStoreAnEndThatNoEntryHolds(t *testing.T) {
	t.Parallel()
	s := newRedisServer(t, unheard())
	a := newApart(t, s.tl, sqliteStore(t))
	m := schedulertest.Message(1)
	a.push(m)
	if _, err := a.drain(); err != nil {
		t.Fatal(err)
	}
	a.deliver(m)
	s.damaged(t, func(f []string) []string { f[1] = ""; return f })
	a.drainOld(1)
	a.wantHistory(m, wasAccepted, `2 delivered at 5000 by "" for "what led here is lost" to "" 0`)
}

func TestDrainer_CountsWhatIsRefusedAndQuarantined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t, memoryLine(t, unheard()).line, memoryStore(t))
		bad := schedulertest.Message(1)
		a.store.refuse(bad, errValue)
		a.push(bad)
		registry := prometheus.NewRegistry()
		d := journal.NewDrainer(journal.DrainerConfig{
			Reconciler: &journal.Reconciler{Store: a.store, Timeline: a.line, Buckets: crashBuckets, Clock: a.clock,
				Timeout: time.Minute, Log: zerolog.Nop()},
			Duty: func(context.Context) bool { return true }, Registerer: registry})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		time.Sleep(5 * time.Second)
		stop()
		running.Wait()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
		if got["tarry_journal_refused_total"] != 1 || got["tarry_journal_quarantined"] != 1 ||
			got["tarry_journal_lag_changes"] != 0 {
			t.Errorf("metrics are %v", got)
		}
	})
}
