package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// sides are a timeline and a journal that may differ.
type sides struct {
	*testing.T
	tl     *memory.Timeline
	store  *memory.Journal
	clock  *scheduler.Clock
	outbox []record.Entry
}

func newSides(t *testing.T) *sides {
	t.Helper()
	s := &sides{T: t, clock: scheduler.NewClock(scheduler.System())}
	r := &record.Recording{Instance: "a", Address: "a:1", Limit: 1 << 30,
		Wrote: func(e record.Entry) {
			s.outbox = append(s.outbox, e)
		}}
	var err1, err2 error
	s.tl, err1 = memory.New(memory.Config{Buckets: 1, Record: r})
	s.store, err2 = memory.NewJournal(memory.JournalConfig{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, s.tl)
	return s
}

// add pushes messages due in an hour and writes them down, or not.
func (s *sides) add(written bool, numbers ...int) {
	s.Helper()
	for _, n := range numbers {
		m := schedulertest.Message(n)
		m.Due = s.clock.Milli().Add(time.Hour)
		if _, _, err := s.tl.Add(s.Context(), 0, []*message.Message{m}, s.clock.Milli()); err != nil {
			s.Fatal(err)
		}
	}
	s.settle(written)
}

// settle takes what stands in the outbox away, with or without writing it down.
func (s *sides) settle(written bool) {
	s.Helper()
	for _, e := range s.outbox {
		if written {
			if err := s.store.Write(s.Context(), nil, e.Changes); err != nil {
				s.Fatal(err)
			}
		}
		if err := s.tl.Written(s.Context(), e.Bucket, []record.Entry{e}); err != nil {
			s.Fatal(err)
		}
	}
	s.outbox = nil
}

func (s *sides) cancel(n int, written bool) {
	s.Helper()
	if r, err := s.tl.Cancel(s.Context(), scheduler.Ref{UID: schedulertest.Message(n).UID}, s.clock.Milli()); err != nil ||
		r.Code != scheduler.CancelDone {
		s.Fatalf("cancel: %+v, %v", r, err)
	}
	s.settle(written)
}

func (s *sides) verify(repair bool) record.VerifyReport {
	s.Helper()
	v := &journal.Reconciler{Store: s.store, Timeline: s.tl, Buckets: 1, Clock: s.clock, Instance: "a",
		Address: "a:1", Timeout: time.Minute, Log: zerolog.Nop()}
	report, err := v.Verify(s.Context(), record.VerifyRequest{Repair: repair}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return report
}

// revive brings back what has ended in the timeline alone.
func (s *sides) revive() record.VerifyReport {
	s.Helper()
	v := &journal.Reconciler{Store: s.store, Timeline: s.tl, Buckets: 1, Clock: s.clock, Timeout: time.Minute}
	report, err := v.Verify(s.Context(), record.VerifyRequest{Revive: true}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return report
}

// recovered certifies the timeline as of now.
func (s *sides) recovered() {
	s.Helper()
	s.certify(false)
}

func (s *sides) certify(filling bool) {
	s.Helper()
	s.certifyBy(0, filling)
}

func (s *sides) certifyBy(term uint64, filling bool) {
	s.Helper()
	standings, err := s.tl.Standings(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	r := s.tl.Recovering(standings, term, 0)
	if err := r.Certify(s.Context(), 0, term, record.Certification{Number: standings[0].Number + 1,
		Run: standings[0].Now, DoubtUntil: s.clock.Milli(), Filling: filling}); err != nil {
		s.Fatal(err)
	}
}

// lose puts a message into the journal that the timeline lacks.
func (s *sides) lose(n int) message.UID {
	s.Helper()
	m := schedulertest.Message(n)
	m.Due = s.clock.Milli().Add(time.Hour)
	s.write(record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, Due: m.Due, Message: m})
	return m.UID
}

// write puts a change into the journal that the timeline never made.
func (s *sides) write(c record.Change) {
	s.Helper()
	c.At, c.Instance = s.clock.Milli(), "another"
	if err := s.store.Write(s.Context(), nil, []record.Change{c}); err != nil {
		s.Fatal(err)
	}
}

func TestVerify_FindsAndMendsEveryKindOfDifference(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.lose(6) // missing in the store, which may have lost it
		s.certify(true)
		if r := s.verify(true); len(r.Found) != 0 {
			t.Fatalf("what a recovery brings is taken for lost: %+v", r)
		}
		s.recovered()
		time.Sleep(time.Second)
		s.add(true, 1, 2, 3, 4)
		s.add(false, 5)    // missing in the journal
		s.cancel(2, false) // newer in the store
		uid := func(n int) message.UID { return schedulertest.Message(n).UID }
		s.write(record.Change{UID: uid(3), Version: 2, State: message.StateCanceled}) // older in the store

		want := map[string]int{record.MissingInJournal: 1, record.StoreNewer: 1, record.StoreOlder: 1,
			record.MissingInStore: 1}
		report := s.verify(false)
		if fmt.Sprint(report.Found) != fmt.Sprint(want) || len(report.Differences) != 4 || report.Repaired != 0 {
			t.Fatalf("found %v: %+v; want %v", report.Found, report.Differences, want)
		}
		if again := s.verify(false); fmt.Sprint(again.Found) != fmt.Sprint(want) {
			t.Fatalf("a look changed something: %v", again.Found)
		}
		if report = s.verify(true); report.Repaired != 4 {
			t.Fatalf("repaired %+v", report)
		}
		s.settle(true)
		if report = s.verify(false); len(report.Found) != 0 {
			t.Fatalf("after the repair: %+v", report)
		}
		for n, state := range map[int]message.State{1: message.StateWaiting, 2: message.StateCanceled,
			3: message.StateCanceled, 5: message.StateWaiting, 6: message.StateWaiting} {
			found, err := s.tl.Find(t.Context(), scheduler.Ref{UID: uid(n)})
			records, err2 := s.store.Records(t.Context(), []message.UID{uid(n)})
			if err := errors.Join(err, err2); err != nil || len(found) != 1 || len(records) != 1 ||
				found[0].State != state || records[0].State != state {
				t.Errorf("message %d: %+v, %+v, %v; want it %s on both sides", n, found, records, err, state)
			} else if found[0].Mark.Uncertain != (n == 6) || records[0].Mark.Uncertain != (n == 6) ||
				found[0].Version != records[0].Version {
				t.Errorf("message %d: %+v, %+v", n, found[0].Mark, records[0].Mark)
			}
		}
	})
}

// A replica of the database without the last commits takes over; the timeline has forgotten what ended meanwhile.
func TestVerify_BringsNothingBackThatOnlyTheJournalThinksWaits(t *testing.T) {
	t.Parallel()
	for _, audited := range []bool{false, true} {
		for _, noted := range []bool{false, true} {
			t.Run(fmt.Sprint("audited ", audited, " noted ", noted), func(t *testing.T) { bringsNothingBack(t, audited, noted) })
		}
	}
}

func bringsNothingBack(t *testing.T, audited, noted bool) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.recovered()
		time.Sleep(time.Second)
		s.add(true, 1)
		if audited { // then it makes no difference when the message was accepted
			s.recovered()
			if r := s.verify(true); len(r.Found) != 0 {
				t.Fatalf("the first audit: %+v", r)
			}
		}
		uid := schedulertest.Message(1).UID
		s.cancel(1, false) // the replica has not heard of it
		time.Sleep(20 * time.Minute)
		if n, err := s.tl.Trim(t.Context(), 0, 1, s.clock.Milli(), 1000); err != nil || n != 1 {
			t.Fatalf("forgotten: %d, %v", n, err)
		}
		audit := func(repair bool, repaired int, want map[string]int) {
			t.Helper()
			if r := s.verify(repair); fmt.Sprint(r.Found) != fmt.Sprint(want) || r.Repaired != repaired ||
				len(r.Differences) != len(want) || len(want) > 0 && r.Differences[0].UID != uid {
				t.Fatalf("the audit: %+v", r)
			}
			if found, err := s.tl.Find(t.Context(), scheduler.Ref{UID: uid}); err != nil || len(found) != 0 {
				t.Fatalf("a canceled message waits again: %+v, %v", found, err)
			}
		}
		audit(false, 0, map[string]int{record.EndedInStore: 1})
		unsure := &journal.Reconciler{Store: s.store, Timeline: unreadable{s.tl}, Buckets: 1, Clock: s.clock,
			Timeout: time.Minute}
		if r, err := unsure.Verify(t.Context(), record.VerifyRequest{}, nil); err != nil ||
			r.Found[record.MissingInStore] != 1 {
			t.Errorf("a record that is there but damaged has not ended: %+v, %v", r, err)
		}
		if noted {
			audit(true, 1, map[string]int{record.EndedInStore: 1})
			records, err := s.store.Records(t.Context(), []message.UID{uid})
			if err != nil || len(records) != 1 || records[0].State != message.StateCanceled ||
				records[0].Kind != message.KindEndLost || !records[0].Mark.Uncertain || records[0].Version != 2 {
				t.Fatalf("noted: %+v, %v", records, err)
			}
			// Redis is restarted, and has all that it had: whatever waits in the journal alone comes back.
			time.Sleep(time.Second)
			s.certifyBy(1, false)
			audit(true, 0, nil)
		}
		if r := s.revive(); r.Repaired != 1 {
			t.Fatalf("revive: %+v", r)
		}
		found, err := s.tl.Find(t.Context(), scheduler.Ref{UID: uid})
		if err != nil || len(found) != 1 || found[0].State != message.StateWaiting || !found[0].Mark.Uncertain {
			t.Fatalf("revived: %+v, %v", found, err)
		}
		s.settle(true)
		if r := s.verify(false); len(r.Found) != 0 {
			t.Errorf("afterwards: %+v", r)
		}
	})
}

func TestVerify_NotesAndRevivesAMessageAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.recovered()
		time.Sleep(time.Second)
		uids := []message.UID{s.lose(1), s.lose(2), s.lose(3)}
		s.write(record.Change{UID: uids[0], Version: 2, State: message.StateDead, Uncertain: true})
		s.write(record.Change{UID: uids[1], Version: 2, State: message.StateDead})
		s.write(record.Change{UID: uids[2], Version: 2, State: message.StateWaiting, Refusals: 3})
		if r := s.verify(true); r.Repaired != 3 {
			t.Fatalf("the audit: %+v", r)
		}
		for i, uid := range uids {
			records, err := s.store.Records(t.Context(), []message.UID{uid})
			if err != nil || len(records) != 1 || records[0].State != message.StateCanceled ||
				records[0].Kind != message.KindEndLost || records[0].Mark.Uncertain != (i != 1) {
				t.Fatalf("noted: %+v, %v", records, err)
			}
		}
		for range 2 { // the second finds nothing to do
			s.revive()
			for i, uid := range uids {
				found, err := s.tl.Find(t.Context(), scheduler.Ref{UID: uid})
				if err != nil || len(found) != 1 || (found[0].State == message.StateDead) != (i < 2) ||
					!found[0].Mark.Uncertain || (found[0].Mark.Refusals == 3) != (i == 2) {
					t.Fatalf("revived: %+v, %v", found, err)
				}
			}
		}
	})
}

// refusing is a timeline that takes nothing back.
type refusing struct{ record.Mending }

func (refusing) Restore(context.Context, message.Bucket, []record.Record, message.Milli,
	message.Milli) ([]record.RestoreCode, error) {
	return nil, scheduler.ErrUnreadable
}

// What an audit could not bring back has not ended for the next one.
func TestVerify_TakesNothingForEndedThatItCouldNotRepair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		uid := s.lose(1)
		time.Sleep(time.Second)
		s.recovered()
		v := &journal.Reconciler{Store: s.store, Timeline: refusing{s.tl}, Buckets: 1, Clock: s.clock, Instance: "a",
			Address: "a:1", Timeout: time.Minute, Log: zerolog.Nop()}
		r, err := v.Verify(t.Context(), record.VerifyRequest{Repair: true}, nil)
		if err != nil || r.Found[record.MissingInStore] != 1 || r.Repaired != 0 {
			t.Fatalf("one that cannot repair: %+v, %v", r, err)
		}
		if r := s.verify(true); r.Found[record.MissingInStore] != 1 || r.Repaired != 1 {
			t.Fatalf("the next: %+v", r)
		}
		if found, err := s.tl.Find(t.Context(), scheduler.Ref{UID: uid}); err != nil || len(found) != 1 ||
			found[0].State != message.StateWaiting {
			t.Fatalf("it is %+v, %v", found, err)
		}
	})
}

// unreadable is a timeline that cannot read what it holds.
type unreadable struct{ record.Mending }

func (unreadable) Find(context.Context, scheduler.Ref) ([]message.Info, error) {
	return nil, scheduler.ErrUnreadable
}

// silentRestore is a timeline that never says whether it has restored a message.
type silentRestore struct{ record.Mending }

func (silentRestore) Restore(context.Context, message.Bucket, []record.Record, message.Milli,
	message.Milli) ([]record.RestoreCode, error) {
	time.Sleep(time.Second)
	return nil, scheduler.ErrOutcomeUnknown
}

func TestVerify_DoesNotWaitForeverForARepair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.lose(1)
		v := &journal.Reconciler{Store: s.store, Timeline: silentRestore{s.tl}, Buckets: 1, Clock: s.clock,
			Address: "a:1", Timeout: time.Minute, Log: zerolog.Nop()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := v.Verify(ctx, record.VerifyRequest{Revive: true}, nil)
		if took := time.Since(began); !errors.Is(err, scheduler.ErrOutcomeUnknown) || took > 2*time.Minute {
			t.Fatalf("%v after %s, want an unknown outcome after the time-out of %s", err, took, v.Timeout)
		}
	})
}

// What is on its way between the two is no difference.
func TestVerify_WaitsForTheOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.add(true, 1)
		m := schedulertest.Message(2)
		m.Due = s.clock.Milli().Add(time.Hour)
		if _, _, err := s.tl.Add(t.Context(), 0, []*message.Message{m}, s.clock.Milli()); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			s.settle(true)
		}()
		if report := s.verify(true); len(report.Found) != 0 {
			t.Fatalf("found %+v", report)
		}
	})
}

// fakeBroker has streams as maps.
type fakeBroker struct {
	stored    map[string]message.UID // stream/sequence
	unjudged  map[message.UID]bool
	published []message.UID
	away      error
}

func (b *fakeBroker) Stored(_ context.Context, stream string, sequence uint64, uid message.UID) (bool, error) {
	if b.away != nil {
		return false, b.away
	}
	if b.unjudged[uid] {
		return false, scheduler.ErrUnjudged
	}
	return b.stored[fmt.Sprint(stream, "/", sequence)] == uid, nil
}

func (b *fakeBroker) Publish(_ context.Context, m *message.Message) (string, uint64, error) {
	b.published = append(b.published, m.UID)
	n := uint64(100 + len(b.published))
	b.stored[fmt.Sprint("S/", n)] = m.UID
	return "S", n, nil
}

func TestRedeliver_PublishesWhatIsGoneAndOnlyThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.add(true, 1, 2, 3, 4, 5)
		uid := func(n int) message.UID { return schedulertest.Message(n).UID }
		broker := &fakeBroker{stored: map[string]message.UID{"S/1": uid(1)},
			unjudged: map[message.UID]bool{uid(4): true}}
		for n := 1; n <= 4; n++ {
			s.write(record.Change{UID: uid(n), Version: 2, State: message.StateDelivered, Stream: "S",
				Sequence: uint64(n)})
		}
		time.Sleep(time.Second)
		run := func(req record.RedeliverRequest) record.RedeliverReport {
			r := &journal.Reconciler{Store: s.store, Buckets: 1, Clock: s.clock, Instance: "a",
				Address: "a:1", Timeout: time.Minute, Log: zerolog.Nop()}
			report, err := r.Redeliver(t.Context(), broker, req, nil)
			if err != nil {
				t.Fatal(err)
			}
			return report
		}
		if got, want := run(record.RedeliverRequest{DryRun: true}),
			(record.RedeliverReport{Checked: 4, Present: 1, Gone: 2, Unknown: 1}); got != want ||
			len(broker.published) > 0 {
			t.Fatalf("dry run: %+v, want %+v; published %v", got, want, broker.published)
		}
		for _, topic := range []string{"other", "other.>", "*.no.such"} {
			if got := run(record.RedeliverRequest{Topic: topic}); got != (record.RedeliverReport{}) {
				t.Fatalf("of %s: %+v", topic, got)
			}
		}
		for topic, want := range map[string]record.RedeliverReport{
			"orders.*": {Checked: 4, Present: 1, Gone: 2, Unknown: 1},
			"orders.1": {Checked: 1, Present: 1},
			"*.2":      {Checked: 1, Gone: 1},
		} {
			if got := run(record.RedeliverRequest{Topic: topic, DryRun: true}); got != want {
				t.Fatalf("of %s: %+v, want %+v", topic, got, want)
			}
		}
		if got, want := run(record.RedeliverRequest{}),
			(record.RedeliverReport{Checked: 4, Present: 1, Gone: 2, Redelivered: 2, Unknown: 1}); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		time.Sleep(time.Second)
		if got, want := run(record.RedeliverRequest{}),
			(record.RedeliverReport{Checked: 4, Present: 3, Unknown: 1}); got != want {
			t.Fatalf("again: %+v, want %+v", got, want)
		}
		history, err := s.store.History(t.Context(), uid(2), record.MaxChanges)
		if err != nil || len(history) != 3 || history[2].Version != 3 || history[2].Sequence == 2 {
			t.Fatalf("history %+v, %v", history, err)
		}
		broker.away = context.DeadlineExceeded
		r := &journal.Reconciler{Store: s.store, Buckets: 1, Clock: s.clock, Timeout: time.Minute,
			Log: zerolog.Nop()}
		_, err = r.Redeliver(t.Context(), broker, record.RedeliverRequest{}, nil)
		if !errors.Is(err, journal.ErrNoBroker) || errors.Is(err, journal.ErrNoDatabase) ||
			!errors.Is(err, scheduler.ErrUnavailable) {
			t.Fatalf("without a broker: %v", err)
		}
	})
}

// punctual writes nothing for a caller whose time is over.
type punctual struct{ journal.Store }

func (p punctual) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Store.Write(ctx, fences, changes)
}

// slowBroker takes nearly all the time it has to publish, or longer than its caller waits.
type slowBroker struct {
	fakeBroker
	after func()
}

func (b *slowBroker) Publish(ctx context.Context, m *message.Message) (string, uint64, error) {
	<-ctx.Done()
	b.after()
	return b.fakeBroker.Publish(ctx, m)
}

func TestRedeliver_WritesDownWhatItPublishedHoweverLongThatTook(t *testing.T) {
	for name, leave := range map[string]bool{"in the last moment": false, "for a caller that has gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSides(t)
				s.add(true, 1)
				uid := schedulertest.Message(1).UID
				s.write(
					record.Change{UID: uid, Version: 2, State: message.StateDelivered, Stream: "S", Sequence: 1})
				time.Sleep(time.Second)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				broker := &slowBroker{fakeBroker: fakeBroker{stored: map[string]message.UID{}}, after: func() {
					if leave {
						cancel()
					}
				}}
				r := &journal.Reconciler{Store: punctual{s.store}, Buckets: 1, Clock: s.clock,
					Instance: "a", Address: "a:1", Timeout: time.Minute, Log: zerolog.Nop()}
				report, err := r.Redeliver(ctx, broker, record.RedeliverRequest{}, nil)
				if report.Redelivered != 1 || (err != nil) != leave {
					t.Errorf("report %+v, %v", report, err)
				}
				history, err := s.store.History(t.Context(), uid, record.MaxChanges)
				if err != nil || len(history) != 3 || history[2].State != message.StateDelivered {
					t.Errorf("history %+v, %v", history, err)
				}
			})
		})
	}
}

// A message whose headers are cut is read by scripts, and by nobody else. A repair goes on past it where the journal
// does not know it.
func TestVerify_GoesOnPastWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newRedisServer(t, unheard())
	a := newApart(t, s.tl, sqliteStore(t))
	batch := make([]*message.Message, 6)
	for i := range batch {
		batch[i] = schedulertest.Message(1+i, schedulertest.DueIn(time.Hour))
		batch[i].Headers = []message.Header{{Name: "Traceparent", Value: "aaaaaaaaaaaaaaaa"}}
		a.push(batch[i])
	}
	ctx := t.Context()
	for bucket := range crashBuckets {
		key := fmt.Sprintf("{%s:%d}:", s.ns, bucket)
		a.must("lose the outbox", s.rdb.Del(ctx, key+"outbox", key+"outboxed").Err())
	}
	for _, m := range batch[1:3] {
		key := fmt.Sprintf("{%s:%d}:msg", s.ns, m.UID.Bucket(crashBuckets))
		record := s.rdb.HGet(ctx, key, string(m.UID)).Val()
		a.must("spoil", s.rdb.HSet(ctx, key, string(m.UID), record[:len(record)-len(m.Body)-6]).Err())
	}
	if report := a.verify(); report.Repaired != 4 || report.Found[record.MissingInJournal] != 6 {
		t.Fatalf("repaired are %d of 6: %+v", report.Repaired, report)
	}
}

// Once a claim has found it, the journal's takes its place.
func TestVerify_MendsWhatAClaimCouldNotRead(t *testing.T) {
	t.Parallel()
	s := newRedisServer(t, unheard())
	a := newApart(t, s.tl, sqliteStore(t))
	m := schedulertest.Message(1, schedulertest.DueIn(time.Hour))
	m.Headers = []message.Header{{Name: "Traceparent", Value: "aaaaaaaaaaaaaaaa"}}
	a.push(m)
	if _, err := a.drain(); err != nil {
		t.Fatal(err)
	}
	bucket := m.UID.Bucket(crashBuckets)
	key := fmt.Sprintf("{%s:%d}:msg", s.ns, bucket)
	record := s.rdb.HGet(t.Context(), key, string(m.UID)).Val()
	a.must("spoil", s.rdb.HSet(t.Context(), key, string(m.UID), record[:len(record)-len(m.Body)-6]).Err())
	claim := scheduler.Claim{Term: 1, Now: m.Due + 1000, Limit: 10, Bytes: 1 << 20, Number: 1}
	got, err := a.Claim(t.Context(), bucket, claim)
	a.must("claim", err)
	if len(got.Messages) != 0 || len(got.Missing) != 1 {
		t.Fatalf("claimed %+v", got)
	}
	if report := a.verify(); report.Repaired != 1 || len(report.Refused) != 0 {
		t.Fatalf("%+v", report)
	}
	claim.Number++
	got, err = a.Claim(t.Context(), bucket, claim)
	a.must("claim again", err)
	if len(got.Messages) != 1 || len(got.Messages[0].Headers) != 1 {
		t.Fatalf("claimed %+v", got)
	}
}

// failing is a store of which one question fails in a way that nobody knows.
type failing struct {
	record.Mending
	question string
}

var errAnswer = errors.New("redis: ERR a script raised")

func (f failing) ask(question string) error {
	if question == f.question {
		return errAnswer
	}
	return nil
}

func (f failing) Standings(ctx context.Context) ([]record.Standing, error) {
	standings, err := f.Mending.Standings(ctx)
	return standings, errors.Join(err, f.ask("standings"))
}

func (f failing) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	found, err := f.Mending.Find(ctx, ref)
	return found, errors.Join(err, f.ask("find"))
}

func (f failing) Versions(ctx context.Context, b message.Bucket, uids []message.UID) (map[message.UID]record.Stand,
	error) {
	stands, err := f.Mending.Versions(ctx, b, uids)
	return stands, errors.Join(err, f.ask("versions"))
}

func (f failing) Walk(ctx context.Context, b message.Bucket, cursor string, limit int) ([]message.UID, string, error) {
	uids, next, err := f.Mending.Walk(ctx, b, cursor, limit)
	return uids, next, errors.Join(err, f.ask("walk"))
}

func (f failing) Restore(ctx context.Context, b message.Bucket, records []record.Record, read, now message.Milli) (
	[]record.RestoreCode, error) {
	codes, err := f.Mending.Restore(ctx, b, records, read, now)
	return codes, errors.Join(err, f.ask("restore"))
}

func (f failing) Refused(ctx context.Context, b message.Bucket) ([]scheduler.Refusal, error) {
	refused, err := f.Mending.Refused(ctx, b)
	return refused, errors.Join(err, f.ask("refused"))
}

// Whatever the store answers, the journal is not to blame for it.
func TestVerify_BlamesTheStoreForWhatItAnswers(t *testing.T) {
	for _, question := range []string{"standings", "find", "versions", "walk", "restore", "refused"} {
		t.Run(question, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSides(t)
				s.add(false, 1) // missing in the journal
				s.lose(2)
				v := &journal.Reconciler{Store: s.store, Timeline: failing{s.tl, question}, Buckets: 1, Clock: s.clock,
					Address: "a:1", Timeout: time.Minute}
				_, err := v.Verify(t.Context(), record.VerifyRequest{Repair: true, Revive: true}, nil)
				if !errors.Is(err, errAnswer) || !errors.Is(err, scheduler.ErrUnavailable) ||
					errors.Is(err, journal.ErrNoDatabase) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
