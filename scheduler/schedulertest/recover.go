package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// mending returns the timeline as a restore uses it.
func (t *trial) mending() record.Mending { return t.tl.(record.Mending) }

// record returns a message as the journal records it.
func recordOf(m *message.Message, state message.State, version uint64) record.Record {
	r := record.Record{Info: message.Info{Message: *m, State: state, Version: version}, Content: 1}
	r.Mark = message.Mark{Uncertain: m.Mark.Uncertain, Refusals: m.Mark.Refusals, Changes: uint32(version - 1)}
	if state.Ended() {
		r.EndedAt = Start
	}
	return r
}

// restored restores records to their bucket twice. The second time nothing may change.
func (t *trial) restored(want []record.RestoreCode, records ...record.Record) {
	t.Helper()
	for i, expect := range [][]record.RestoreCode{want, nil} {
		got, err := t.mending().Restore(t.Context(), records[0].UID.Bucket(t.o.Buckets), records, t.now, t.now)
		t.must("restore", err)
		if i == 0 && !slices.Equal(got, expect) {
			t.Fatalf("restore: got %v, want %v", got, expect)
		}
		if i == 1 && (slices.Contains(got, record.RestoreAdded) || slices.Contains(got, record.RestoreRaised)) {
			t.Fatalf("restore again: got %v, want nothing to happen", got)
		}
	}
}

func (t *trial) stands(uids ...message.UID) map[message.UID]record.Stand {
	t.Helper()
	stands, err := t.mending().Versions(t.Context(), uids[0].Bucket(t.o.Buckets), uids)
	t.must("versions", err)
	return stands
}

const (
	added  = record.RestoreAdded
	raised = record.RestoreRaised
	same   = record.RestoreSame
	busy   = record.RestoreBusy
	newer  = record.RestoreNewer
)

var recoverPromises = []promise{
	{name: "what is missing is restored whole, waits, and is claimed in its order", check: func(t *trial) {
		first := Message(1, DueIn(time.Minute), Headers("A", "b", "A", "c"), TTL(time.Hour), Priority(7))
		second := Message(2, DueIn(2*time.Minute))
		t.restored([]record.RestoreCode{added, added}, recordOf(second, message.StateWaiting, 1),
			recordOf(first, message.StateWaiting, 1))
		t.wantInfo(live(first, message.StateWaiting, message.Mark{}))
		t.pass(time.Hour)
		t.wantUIDs(t.claim(), []*message.Message{first, second})
	}},
	{name: "an end whose content was lost is restored, and a repeat of its push meets it", check: func(t *trial) {
		m := Message(1)
		r := recordOf(&message.Message{UID: m.UID}, message.StateDelivered, 2)
		r.Content = 0
		t.restored([]record.RestoreCode{added}, r)
		t.wantState(m.UID, message.StateDelivered)
		if got := t.add(m)[0]; got.Code != scheduler.AddDuplicate || got.First.State != message.StateDelivered {
			t.Fatalf("a repeat is answered %+v", got)
		}
	}},
	{name: "what was due already is restored as uncertain, and that is a change", check: func(t *trial) {
		m := Message(1)
		t.pass(time.Second)
		t.restored([]record.RestoreCode{added}, recordOf(m, message.StateWaiting, 3))
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true, Changes: 3}))
		t.canceled(m.UID, scheduler.CancelMaybe)
	}},
	{name: "a restored message for pull keeps the content of its uid: a lost lease may have handed it out",
		check: func(t *trial) {
			moved, fresh := Message(1, DueIn(time.Hour), ForPull()), Message(2, DueIn(time.Hour), ForPull())
			t.restored([]record.RestoreCode{added, added}, recordOf(moved, message.StateWaiting, 2),
				recordOf(fresh, message.StateWaiting, 1))
			t.amend(edited(moved, 2, "other"), scheduler.AmendTried)
			t.amend(edited(fresh, 1, "other"), scheduler.AmendDone)
		}},
	{name: "what for pull was due before the store lost something keeps the content of its uid", check: func(t *trial) {
		m, later := Message(1, ForPull()), Message(2, ForPull(), DueIn(time.Hour))
		t.add(m, later)
		t.pass(time.Second)
		t.certify(record.Certification{DoubtUntil: t.now})
		t.refusesEdit(edited(m, 1, "other"))
		t.amend(edited(later, 1, "other"), scheduler.AmendDone)
	}},
	{name: "what may have been delivered is restored as uncertain, and that is a change", check: func(t *trial) {
		m := Message(1, DueIn(time.Hour))
		r := recordOf(m, message.StateWaiting, 3)
		r.Doubt = true
		t.restored([]record.RestoreCode{added}, r)
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true, Changes: 3}))
	}},
	{name: "a certification says that its first audit is over, and the next one does not", tune: oneBucket,
		check: func(t *trial) {
			audited := func(want bool) record.Standing {
				t.Helper()
				standings, err := t.mending().Standings(t.Context())
				if t.must("standings", err); standings[0].Audited != want || !standings[0].Whole() {
					t.Fatalf("got %+v", standings[0])
				}
				return standings[0]
			}
			number := audited(false).Number
			for range 2 {
				t.must("audited", t.mending().Audited(t.Context(), 0, number))
				audited(true)
			}
			Certify(t, t.tl.(record.Recoverable))
			_ = t.mending().Audited(t.Context(), 0, number) // of an audit that began before
			audited(false)
			CertifyAs(t, t.tl.(record.Recoverable), true)
			t.must("audited", t.mending().Audited(t.Context(), 0, number+2))
			if standings, err := t.mending().Standings(t.Context()); err != nil || standings[0].Audited ||
				!standings[0].Filling {
				t.Fatalf("while it is filled: %+v, %v", standings, err)
			}
		}},
	{name: "a lower version is raised, also to an end, and an equal or higher one stays", check: func(t *trial) {
		low, even, high, end := Message(1, DueIn(time.Hour)), Message(2, DueIn(time.Hour)),
			Message(3, DueIn(time.Hour)), Message(4, DueIn(time.Hour))
		t.added(low, even, high, end)
		t.canceled(high.UID, scheduler.CancelDone)
		uncertain := *low
		uncertain.Mark = message.Mark{Uncertain: true, Refusals: 2}
		t.restored([]record.RestoreCode{raised, same, newer, raised}, recordOf(&uncertain, message.StateWaiting, 2),
			recordOf(even, message.StateWaiting, 1), recordOf(high, message.StateWaiting, 1),
			recordOf(end, message.StateCanceled, 2))
		t.wantInfo(live(low, message.StateWaiting, message.Mark{Uncertain: true, Refusals: 2, Changes: 1}))
		t.wantInfo(remains(end, message.StateCanceled, Start, false, ""))
		t.canceled(end.UID, scheduler.CancelDone)
		t.wantHead(0, scheduler.Head{Due: low.Due, Waiting: 2})
		t.pass(2 * time.Hour)
		t.wantUIDs(t.claim(), []*message.Message{low, even})
	}},
	{name: "of one version an end wins over what was made when the end was lost", check: func(t *trial) {
		m := t.take(Message(1))
		t.term++
		t.sweep(0, 10) // version 2: but the journal knows of another, which this store has lost
		t.restored([]record.RestoreCode{raised}, recordOf(m, message.StateCanceled, 2))
		t.wantState(m.UID, message.StateCanceled)
		if got := t.claim(); len(got) > 0 {
			t.Fatalf("%d were claimed", len(got))
		}
	}},
	{name: "an end is not forgotten while the journal does not know it", tune: func(o *Options) {
		o.Record = &record.Recording{Instance: "a", Address: "a:1", Limit: 1 << 30,
			Wrote: func(record.Entry) {}}
	}, check: func(t *trial) {
		outbox := t.tl.(record.Outbox)
		m := t.ended(Message(1, DueIn(-24*time.Hour)), message.StateDelivered) // in the store's own past
		t.pass(2 * t.o.EndedKeep)
		t.wantTrimmed(0, 10, 0)
		t.get(m.UID)
		entries, err := outbox.Unwritten(t.Context(), 0, "", 0, 100, wide)
		t.must("read the outbox", err)
		t.must("written", outbox.Written(t.Context(), 0, entries))
		t.wantTrimmed(0, 10, 1)
	}},
	{name: "nothing that ended comes back", check: func(t *trial) {
		m := t.ended(Message(1), message.StateDelivered)
		// Restored overdue, it would get version 2.
		t.restored([]record.RestoreCode{same}, recordOf(m, message.StateWaiting, 1))
		t.restored([]record.RestoreCode{newer}, recordOf(m, message.StateWaiting, 5))
		t.wantState(m.UID, message.StateDelivered)
	}},
	{name: "what is in flight is left alone", check: func(t *trial) {
		m := t.take(Message(1))
		t.restored([]record.RestoreCode{busy}, recordOf(m, message.StateWaiting, 2))
		t.restored([]record.RestoreCode{same}, recordOf(m, message.StateWaiting, 1))
		t.finish(message.StateDelivered, m)
	}},
	{name: "what is parked is raised out of its lane", check: func(t *trial) {
		m := t.take(Message(1))
		t.giveBack(m, m.Score(), message.Mark{Lane: "stream"})
		m.Mark.Uncertain = true
		t.restored([]record.RestoreCode{raised}, recordOf(m, message.StateWaiting, 2))
		t.wantLanes(0)
		t.wantUIDs(t.claim(), []*message.Message{m})
	}},
	{name: "a restored end is remembered under its name", check: func(t *trial) {
		m := Message(1, Named("order-1"), Keyed("customer-1"), Content("x"))
		t.restored([]record.RestoreCode{added}, recordOf(m, message.StateDelivered, 2))
		t.refused(Message(2, Named("order-1"), Keyed("customer-1"), Content("x")), scheduler.AddDuplicate, m,
			message.StateDelivered)
		t.pass(t.o.EndedKeep + time.Second)
		t.trim(t.bucketOf(m), 10)
		t.gone(m.UID)
	}},
	{name: "restored names answer look-ups, and attempts keep their order", check: func(t *trial) {
		one, two := Message(1, Named("order-1"), DueIn(time.Hour)),
			Message(2, Named("order-1"), DueIn(time.Hour), Attempt(2), Content("x"))
		one.Mark.Uncertain = true // a consumer had it and sent it back
		t.restored([]record.RestoreCode{added, added}, recordOf(two, message.StateWaiting, 1),
			recordOf(one, message.StateWaiting, 2))
		t.wantFound(scheduler.Ref{ID: "order-1"}, one.UID, two.UID)
		t.refused(Message(3, Named("order-1"), Attempt(2), Content("x")), scheduler.AddDuplicate, two,
			message.StateWaiting)
	}},
	{name: "a later life of a restored name stands last, whatever its attempts are called", check: func(t *trial) {
		first, retry := Message(1, Named("order-1"), Content("x")),
			Message(2, Named("order-1"), Attempt(2), Content("x"))
		next := Message(3, Named("order-1"), DueIn(time.Hour), Content("y"))
		for _, r := range []record.Record{recordOf(first, message.StateDelivered, 2),
			recordOf(next, message.StateWaiting, 1), recordOf(retry, message.StateDelivered, 2)} {
			t.restored([]record.RestoreCode{added}, r)
		}
		t.refused(Message(4, Named("order-1"), DueIn(time.Hour), Content("y")), scheduler.AddDuplicate, next,
			message.StateWaiting)
		t.wantFound(scheduler.Ref{ID: "order-1", Topic: next.Topic, Key: next.Key, Keyed: true}, next.UID)
	}},
	{name: "restored names stand in the order of the stream, where its stamps step back too", check: func(t *trial) {
		first := push(1, message.MergeReplace, Stored(10), Stamped(t.now.Add(2*time.Second)), DueIn(time.Hour))
		next := push(2, message.MergeReplace, Stored(11), Stamped(t.now), DueIn(time.Hour), Content("b"))
		first.Mark.Uncertain = true // and so the second did not merge into it
		for _, r := range []record.Record{recordOf(next, message.StateWaiting, 1),
			recordOf(first, message.StateWaiting, 2)} {
			r.Message.Merge, r.Message.Stored = message.MergeReject, 0
			t.restored([]record.RestoreCode{added}, r)
		}
		t.wantFound(scheduler.Ref{ID: first.ID}, first.UID, next.UID)
		by := push(3, message.MergeReplace, Stored(12), Stamped(t.now), Content("c"))
		t.merged(by, live(taken(next, by), message.StateWaiting, changed(1)))
	}},
	{name: "of a restored name a bounded number of ends is remembered", check: func(t *trial) {
		for i := range 100 {
			m := Message(100-i, Named("order-1"), Attempt(uint32(100-i)), Content(fmt.Sprint(100-i)))
			t.restored([]record.RestoreCode{added}, recordOf(m, message.StateDelivered, 2))
		}
		last := Message(100, Named("order-1"), Attempt(100), Content("100"))
		t.refused(Message(200, Named("order-1"), Attempt(100), Content("100")), scheduler.AddDuplicate, last,
			message.StateDelivered)
		t.refused(Message(201, Named("order-1"), Attempt(70), Content("70")), scheduler.AddDuplicate, last,
			message.StateDelivered)
		t.refused(Message(202, Named("order-1"), Attempt(60), Content("60")), scheduler.AddConflict, last,
			message.StateDelivered)
	}},
	{name: "a restored dead message stays dead and whole", check: func(t *trial) {
		m := Message(1, Headers("A", "b"))
		r := recordOf(m, message.StateDead, 2)
		r.Reason = "refused"
		t.restored([]record.RestoreCode{added}, r)
		t.pass(1000 * t.o.EndedKeep)
		t.trim(0, 10)
		if got := t.get(m.UID); got.State != message.StateDead || got.Reason != "refused" ||
			string(got.Body) != string(m.Body) || len(got.Headers) != 1 {
			t.Fatalf("got %s", describe(got))
		}
	}},
	{name: "versions return states and versions, and nothing of what is not known", check: func(t *trial) {
		waiting, flying, ended, unknown := Message(1, DueIn(time.Hour)), t.take(Message(2)),
			t.ended(Message(3), message.StateDelivered), Message(4)
		t.one(waiting)
		got := t.stands(waiting.UID, flying.UID, ended.UID, unknown.UID)
		want := map[message.UID]record.Stand{waiting.UID: {State: message.StateWaiting, Version: 1},
			flying.UID: {State: message.StateInFlight, Version: 1},
			ended.UID:  {State: message.StateDelivered, Version: 2}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}},
	{name: "a walk meets everything that has not ended, and the dead, in steps", check: func(t *trial) {
		want := map[message.UID]bool{}
		for i := range 30 {
			want[t.one(Message(i, DueIn(time.Hour))).UID] = true
		}
		parked := t.take(Message(100))
		t.giveBack(parked, parked.Score(), message.Mark{Lane: "core:a/b"})
		want[parked.UID], want[t.take(Message(101)).UID], want[t.ended(Message(102), message.StateDead).UID] = true,
			true, true
		t.ended(Message(103), message.StateDelivered)
		seen := map[message.UID]bool{}
		cursor := ""
		for range 100 {
			uids, next, err := t.mending().Walk(t.Context(), 0, cursor, 7)
			t.must("walk", err)
			for _, uid := range uids {
				seen[uid] = true
			}
			if cursor = next; next == "" {
				break
			}
		}
		if cursor != "" || fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Fatalf("cursor %q, met %d of %d", cursor, len(seen), len(want))
		}
	}},
	{name: "a recovery takes back all claims, those of its own term too", check: func(t *trial) {
		m := t.take(Message(1))
		t.wantReclaimed(t.recovering(), 0, 1)
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true, Changes: 1}))
	}},
	{name: "a recovery restores over claims, and begins with the term", check: func(t *trial) {
		later, ended, mine := t.take(Message(1)), t.take(Message(2)), t.take(Message(3))
		t.term++
		rec := t.recovering()
		t.must("begin", rec.Begin(t.Context(), 0, t.term))
		t.stale("begin", rec.Begin(t.Context(), 0, t.term-1))
		for _, after := range []message.UID{"", later.UID} {
			want := slices.DeleteFunc([]message.UID{later.UID, ended.UID, mine.UID}, func(uid message.UID) bool {
				return uid <= after
			})
			got, err := rec.Claims(t.Context(), 0, after, 10)
			t.must("claims", err)
			if !slices.Equal(got, want) {
				t.Fatalf("claims after %q: %v, want %v", after, got, want)
			}
		}
		if got, err := rec.Claims(t.Context(), 0, "", 1); err != nil || len(got) != 1 {
			t.Fatalf("one claim: %v, %v", got, err)
		}
		edited := *later
		edited.Due, edited.Body = t.now.Add(time.Hour), []byte("edited")
		records := []record.Record{recordOf(&edited, message.StateWaiting, 2),
			recordOf(ended, message.StateDelivered, 2), recordOf(mine, message.StateWaiting, 1)}
		for i, want := range [][]record.RestoreCode{{raised, raised, same}, {same, same, same}} {
			got, err := rec.Restore(t.Context(), 0, records, t.now, t.now)
			t.must("restore", err)
			if !slices.Equal(got, want) {
				t.Fatalf("restore for the %d. time: %v, want %v", i+1, got, want)
			}
		}
		t.wantInfo(live(&edited, message.StateWaiting, message.Mark{Changes: 1}))
		t.wantState(ended.UID, message.StateDelivered)
		t.wantInfo(live(mine, message.StateInFlight, mine.Mark))
		t.wantReclaimed(rec, 0, 1)
		t.wantReclaimed(rec, 0, 0)
	}},
	{name: "what was read before ends that are forgotten is not restored", check: func(t *trial) {
		gone := Message(1)
		read := t.now
		t.one(gone)
		t.canceled(gone.UID, scheduler.CancelDone)
		t.pass(t.o.EndedKeep + time.Second)
		t.trim(0, 10)
		t.gone(gone.UID)
		for range 2 {
			for _, by := range []record.Mending{t.mending(), t.recovering()} {
				_, err := by.Restore(t.Context(), 0,
					[]record.Record{recordOf(gone, message.StateWaiting, 1)}, read, t.now)
				if !errors.Is(err, scheduler.ErrOutdated) {
					t.Fatalf("restore of a page read before: %v", err)
				}
			}
		}
		t.gone(gone.UID)
		t.restored([]record.RestoreCode{added}, recordOf(Message(2), message.StateWaiting, 1)) // read now
	}},
	{name: "a bucket that was filled knows no ends of before its memory began", check: func(t *trial) {
		read := t.now
		t.pass(t.o.EndedKeep)
		t.certify(record.Certification{Forgotten: read + 1})
		_, err := t.mending().Restore(t.Context(), 0,
			[]record.Record{recordOf(Message(1), message.StateWaiting, 1)}, read, t.now)
		if !errors.Is(err, scheduler.ErrOutdated) {
			t.Fatalf("restore of a page read before: %v", err)
		}
		t.restored([]record.RestoreCode{added}, recordOf(Message(1), message.StateWaiting, 1))
	}},
	{name: "what was due when the store was certified is in doubt", tune: oneBucket, check: func(t *trial) {
		overdue, named := t.one(Message(1)), t.one(push(2, message.MergeReject))
		later := t.one(Message(3, DueIn(time.Hour)))
		t.pass(time.Minute)
		t.certify(record.Certification{DoubtUntil: t.now})
		t.amend(moved(overdue, 1, t.now), scheduler.AmendMaybe)
		t.amend(moved(later, 1, later.Due+1), scheduler.AmendDone)
		t.canceled(later.UID, scheduler.CancelDone)
		t.refused(push(4, message.MergeReplace), scheduler.AddUncertain, named, message.StateWaiting)
		next := t.one(push(5, message.MergeKeep, DueIn(time.Hour)))
		points(t, named, next)
		if got := t.get(overdue.UID); !got.Mark.Uncertain {
			t.Fatal("a look-up does not return it")
		}
		got := t.claim()
		t.wantUIDs(got, []*message.Message{overdue, named})
		for _, m := range got {
			if !m.Mark.Uncertain {
				t.Fatalf("%s was claimed for certain", m.UID)
			}
		}
		t.unsent(got[0])
		t.canceled(overdue.UID, scheduler.CancelMaybe)
	}},
	{name: "while the store is filled it accepts and nothing is claimed", check: func(t *trial) {
		t.certify(record.Certification{Filling: true})
		m := t.one(Message(1))
		t.n++
		_, err := t.tl.Claim(t.Context(), 0,
			scheduler.Claim{Term: t.term, Number: t.n, Now: t.now, Limit: 1, Bytes: wide})
		if !errors.Is(err, scheduler.ErrUncertified) {
			t.Fatalf("claim: %v, want ErrUncertified", err)
		}
		t.certify(record.Certification{})
		t.wantUIDs(t.claim(), []*message.Message{m})
	}},
	{name: "what may repeat another while the store is filled waits for the journal", tune: oneBucket,
		check: func(t *trial) {
			number := t.certify(record.Certification{Filling: true})
			waits := func(m *message.Message) {
				t.Helper()
				for range 2 {
					if r := t.add(m)[0]; r.Code != scheduler.AddFilling || r.Number != number {
						t.Fatalf("add: %s of %s under %d", addWord(r.Code), describe(r.First), r.Number)
					}
					t.gone(m.UID)
				}
			}
			for n, how := range mergeModes {
				m := push(n, how, Keyed(fmt.Sprint(n)), Stored(uint64(n+1)))
				waits(m)
				m.Judged = number
				first := t.one(m)
				t.merged(push(10+n, message.MergeKeep, Keyed(fmt.Sprint(n)), Stored(20)),
					live(first, message.StateWaiting, changed(1)))
			}
			for n, with := range [][]With{nil, {Named("order-3")}} {
				m := Message(30+n, with...)
				m.Judge = true
				waits(m)
				m.Judged = number - 1 // before the store was lost once more
				waits(m)
				m.Judged = number
				first := t.one(m)
				m.Judged = 0
				t.refused(m, scheduler.AddDuplicate, first, message.StateWaiting)
			}
			reject := t.one(Message(20, Named("order-2")))
			t.merged(Message(21, Named("order-2"), Merging(message.MergeKeep)), live(reject, message.StateWaiting, changed(1)))
		}},
	{name: "a certification under a lower term or number is refused", check: func(t *trial) {
		t.term = 5
		t.certify(record.Certification{})
		r := t.tl.(record.Recoverable)
		standings, err := r.Standings(t.Context())
		t.must("standings", err)
		rec := r.Recovering(standings, t.term, 0)
		c := standings[0].Certification
		t.stale("certify", rec.Certify(t.Context(), 0, 4, c))
		c.Number--
		if err := rec.Certify(t.Context(), 0, 5, c); !errors.Is(err, scheduler.ErrUncertified) {
			t.Fatalf("a lower number: %v", err)
		}
		c.Number, c.Run = c.Number+9, "0123456789abcdef"
		if err := rec.Certify(t.Context(), 0, 5, c); !errors.Is(err, scheduler.ErrUncertified) {
			t.Fatalf("another run: %v", err)
		}
	}},
}

// recovering returns the timeline as a recovering leader sees it.
func (t *trial) recovering() record.Recovering {
	t.Helper()
	r := t.tl.(record.Recoverable)
	standings, err := r.Standings(t.Context())
	t.must("standings", err)
	for i := range standings {
		standings[i].Run = "" // as if another run had been certified
	}
	return r.Recovering(standings, t.term, 0)
}

// refusesEdit: the message was tried, or may have been where the journal is not in sync.
func (t *trial) refusesEdit(a scheduler.Amend) {
	t.Helper()
	r, err := t.tl.Amend(t.Context(), a, t.now)
	if err != nil || r.Code != scheduler.AmendTried && r.Code != scheduler.AmendMaybe {
		t.Fatalf("an edit: %+v, %v", r, err)
	}
}

// wantReclaimed returns claims to waiting and checks how many they were.
func (t *trial) wantReclaimed(r record.Recovering, bucket message.Bucket, want int) {
	t.Helper()
	n, err := r.Reclaim(t.Context(), bucket, t.term, 10, t.now)
	t.must("reclaim", err)
	if n != want {
		t.Fatalf("%d claims were reclaimed, want %d", n, want)
	}
}

// certify certifies bucket 0 anew.
func (t *trial) certify(c record.Certification) (number uint64) {
	t.Helper()
	r := t.tl.(record.Recoverable)
	standings, err := r.Standings(t.Context())
	t.must("standings", err)
	c.Number, c.Run = standings[0].Number+1, standings[0].Now
	t.must("begin", t.tl.Begin(t.Context(), 0, t.term))
	t.must("certify", r.Recovering(standings, t.term, 0).Certify(t.Context(), 0, t.term, c))
	return c.Number
}
