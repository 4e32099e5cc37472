package schedulertest

import (
	"errors"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

var amendWords = [...]string{"unknown", "done", "in flight", "maybe", "ended", "version", "tried"}

func amendWord(c scheduler.AmendCode) string {
	if int(c) < len(amendWords) {
		return amendWords[c]
	}
	return "invalid"
}

// amend sends an amend twice. The second answer must equal the first, and change nothing.
func (t *trial) amend(a scheduler.Amend, want scheduler.AmendCode) scheduler.AmendResult {
	t.Helper()
	ask := func() scheduler.AmendResult {
		r, err := t.tl.Amend(t.Context(), a, t.now)
		t.must("amend", err)
		if r.Code != want {
			t.Fatalf("amend of %s: got %s, want %s", a.UID, amendWord(r.Code), amendWord(want))
		}
		if want != scheduler.AmendUnknown && r.Info.UID != a.UID {
			t.Fatalf("amend of %s answers with %s", a.UID, r.Info.UID)
		}
		if len(r.Info.Headers)+len(r.Info.Body) > 0 {
			t.Fatalf("amend of %s answers with headers or body: %s", a.UID, describe(r.Info))
		}
		return r
	}
	first := ask()
	before := t.find(scheduler.Ref{UID: a.UID})
	changes := len(t.log.all)
	t.now++
	second := ask()
	t.now--
	if headOf(second.Earlier) != 0 || describe(second.Info) != describe(first.Info) {
		t.Fatalf("amend of %s, sent twice:\n first %s\nsecond %s, head %d", a.UID, describe(first.Info),
			describe(second.Info), headOf(second.Earlier))
	}
	after := t.find(scheduler.Ref{UID: a.UID})
	if describeAll(after) != describeAll(before) || len(t.log.all) != changes {
		t.Fatalf("amend of %s, sent again, changed something:\n was%s\n is%s", a.UID, describeAll(before),
			describeAll(after))
	}
	return first
}

// moved returns an amend that changes only due time and priority.
func moved(m *message.Message, version uint64, due message.Milli) scheduler.Amend {
	return scheduler.Amend{UID: m.UID, Version: version, Due: due, Priority: m.Priority, Reason: "rescheduled"}
}

// edited returns an amend that replaces headers and body.
func edited(m *message.Message, version uint64, body string, headers ...message.Header) scheduler.Amend {
	content := *m
	content.Body, content.Headers, content.Mark = []byte(body), headers, message.Mark{}
	return scheduler.Amend{UID: m.UID, Version: version, Due: m.Due, Priority: m.Priority, Message: &content,
		Reason: "edited"}
}

var amendPromises = []promise{
	{name: "an outbox at its limit refuses pushes, edits and requeues alone", tune: func(o *Options) {
		o.Buckets = 1
		o.Record = &record.Recording{Instance: "a", Limit: 20_000, Wrote: func(record.Entry) {}}
	}, check: func(t *trial) {
		dead := t.dead(Message(3, Named("order-3")))
		waits, due := t.one(Message(1, DueIn(time.Hour))), t.one(Message(2, DueIn(time.Minute)))
		n := 4
		var err error
		for ; err == nil && n < 100; n++ {
			_, _, err = t.tl.Add(t.Context(), 0, []*message.Message{Message(n, Body(make([]byte, 2000)), DueIn(time.Hour))},
				t.now)
		}
		if !errors.Is(err, scheduler.ErrBehind) {
			t.Fatalf("a push beyond the limit: %v", err)
		}
		if _, err := t.tl.Amend(t.Context(), moved(waits, 1, t.now.Add(time.Minute)), t.now); !errors.Is(err,
			scheduler.ErrBehind) {
			t.Errorf("an edit beyond the limit: %v", err)
		}
		if _, err := t.tl.Requeue(t.Context(), dead.UID, 0, Message(200, Named("order-3")), t.now); !errors.Is(err,
			scheduler.ErrBehind) {
			t.Errorf("a requeue beyond the limit: %v", err)
		}
		t.wantInfo(live(waits, message.StateWaiting, message.Mark{}))
		// What ends a message is bounded by what lives.
		t.canceled(waits.UID, scheduler.CancelDone)
		t.pass(time.Minute)
		t.wantUIDs(t.claim(), []*message.Message{due})
		t.finish(message.StateDelivered, due)
		// An edit that is not one, and what needs no entry, are answered as ever.
		t.amend(moved(waits, 1, t.now.Add(time.Minute)), scheduler.AmendEnded)
	}},
	{name: "an amend moves a waiting message, and leaves its content", check: func(t *trial) {
		m := t.one(Message(1, Named("order-1"), Keyed("customer-1"), Headers("A", "b"), TTL(time.Minute),
			Retrying(10, time.Second)))
		a := moved(m, 1, Start.Add(time.Hour))
		a.Priority = 9
		r := t.amend(a, scheduler.AmendDone)
		m.Due, m.Priority = a.Due, 9
		want := live(m, message.StateWaiting, message.Mark{Changes: 1})
		t.wantInfo(want)
		if want.Headers, want.Body = nil, nil; describe(r.Info) != describe(want) {
			t.Fatalf("the answer is\n     %s\nwant %s", describe(r.Info), describe(want))
		}
		if got := t.claimFrom(t.bucketOf(m), "", wide, wide); len(got.Messages) != 0 || got.Head != m.Due {
			t.Fatalf("%d came before their time, head %d", len(got.Messages), got.Head)
		}
		t.pass(time.Hour)
		t.wantUIDs(t.claimFrom(t.bucketOf(m), "", wide, wide).Messages, []*message.Message{m})
	}},
	{name: "an amend brings a message forward", check: func(t *trial) {
		all := t.added(Message(1), Message(2, DueIn(time.Hour)), Message(3, DueIn(time.Minute)))
		if r := t.amend(moved(all[1], 1, Start-5), scheduler.AmendDone); headOf(r.Earlier) != Start-5 {
			t.Fatalf("the head is returned as %d", headOf(r.Earlier))
		}
		t.wantUIDs(t.claim(), []*message.Message{all[1], all[0]})
	}},
	{name: "a new priority moves a message among those of its time", check: func(t *trial) {
		all := t.added(Message(1, Priority(5)), Message(2, Priority(5)), Message(3, Priority(5)))
		for i, p := range []uint8{0, 5, 255} {
			a := moved(all[i], 1, Start)
			a.Priority = p
			t.amend(a, scheduler.AmendDone)
		}
		t.wantUIDs(t.claim(), []*message.Message{all[2], all[1], all[0]})
	}},
	{name: "an amend replaces headers and body", check: func(t *trial) {
		m := t.one(Message(1, Named("order-1"), Headers("A", "b")))
		t.amend(edited(m, 1, "other", message.Header{Name: "C", Value: "d"}, message.Header{Name: "C", Value: ""}),
			scheduler.AmendDone)
		push := *m
		m.Body, m.Headers = []byte("other"), []message.Header{{Name: "C", Value: "d"}, {Name: "C"}}
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Changes: 1}))
		t.refused(&push, scheduler.AddDuplicate, m, message.StateWaiting) // the producer knows nothing of it
		again := Message(2, Named("order-1"))
		again.Digest = push.Digest
		t.refused(again, scheduler.AddDuplicate, m, message.StateWaiting)
		t.amend(edited(m, 2, ""), scheduler.AmendDone)
		m.Body, m.Headers = nil, nil
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Changes: 2}))
		if got := t.claimFrom(t.bucketOf(m), "", wide, wide).Messages; len(got) != 1 ||
			len(got[0].Body)+len(got[0].Headers) > 0 || got[0].Attempt != 1 {
			t.Fatalf("claimed %d with another content", len(got))
		}
	}},
	{name: "refusals count on through a new time and begin anew with new content", check: func(t *trial) {
		m := t.take(Message(1))
		t.giveBack(m, m.Score(), message.Mark{Refusals: 3})
		t.amend(moved(m, 1, m.Due+1), scheduler.AmendDone)
		m.Due++
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Refusals: 3, Changes: 1}))
		t.amend(edited(m, 2, "smaller"), scheduler.AmendDone)
		m.Body = []byte("smaller")
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Changes: 2}))
	}},
	{name: "an amend takes a message out of its lane, and ends its wait after a refusal", check: func(t *trial) {
		m := t.one(Message(1))
		for i, lane := range []message.Lane{"stream", ""} {
			m = t.claim()[0]
			t.giveBack(m, int64(m.Due.Add(time.Hour))<<8, message.Mark{Lane: lane, Refusals: 1, Changes: uint32(i)})
			t.wantUIDs(t.claimFrom(0, lane, wide, wide).Messages, nil)
			if r := t.amend(moved(m, uint64(i+1), m.Due), scheduler.AmendDone); headOf(r.Earlier) != m.Due ||
				r.Info.Mark.Lane != "" {
				t.Fatalf("head %d, lane %q", headOf(r.Earlier), r.Info.Mark.Lane)
			}
			t.wantLanes(0)
			t.wantInfo(live(m, message.StateWaiting, message.Mark{Refusals: 1, Changes: uint32(i + 1)}))
		}
		t.wantUIDs(t.claim(), []*message.Message{m})
	}},
	{name: "the head is returned when an amend makes it earlier, and only then", check: func(t *trial) {
		head, other := t.one(Message(1, DueIn(time.Minute))), t.one(Message(2, DueIn(time.Hour)))
		if r := t.amend(moved(other, 1, Start.Add(2*time.Minute)), scheduler.AmendDone); headOf(r.Earlier) != 0 {
			t.Fatalf("behind the head: %d", headOf(r.Earlier))
		}
		if r := t.amend(moved(head, 1, Start.Add(3*time.Minute)), scheduler.AmendDone); headOf(r.Earlier) != 0 {
			t.Fatalf("the head moved back: %d", headOf(r.Earlier))
		}
		if r := t.amend(moved(head, 2, Start.Add(time.Second)),
			scheduler.AmendDone); headOf(r.Earlier) != Start.Add(time.Second) {
			t.Fatalf("before the head: %d", headOf(r.Earlier))
		}
		t.wantHead(0, scheduler.Head{Due: Start.Add(time.Second), Waiting: 2})
	}},
	{name: "an amend of another version changes nothing, and returns which stands", check: func(t *trial) {
		m := t.one(Message(1, Headers("A", "b")))
		t.amend(moved(m, 1, Start.Add(time.Minute)), scheduler.AmendDone) // version 2
		m.Due = Start.Add(time.Minute)
		stands := live(m, message.StateWaiting, message.Mark{Changes: 1})
		asks := map[string]scheduler.Amend{
			"no version":         moved(m, 0, m.Due),
			"a later version":    moved(m, 3, m.Due),
			"another due time":   moved(m, 1, m.Due+1),
			"another content":    edited(m, 1, "other", m.Headers...),
			"other headers":      edited(m, 1, string(m.Body), message.Header{Name: "A", Value: "c"}),
			"without the header": edited(m, 1, string(m.Body)),
		}
		priority := moved(m, 1, m.Due)
		priority.Priority = 1
		asks["another priority"] = priority
		for name, a := range asks {
			if r := t.amend(a, scheduler.AmendVersion); r.Info.Version != 2 || headOf(r.Earlier) != 0 {
				t.Errorf("%s: version %d, head %d", name, r.Info.Version, headOf(r.Earlier))
			}
			t.wantInfo(stands)
		}
		t.amend(edited(m, 1, string(m.Body), m.Headers...), scheduler.AmendDone) // what it asks for is so already
		t.wantInfo(stands)
	}},
	{name: "a message in flight, maybe delivered, ended or unknown is not amended", check: func(t *trial) {
		flying := t.take(Message(1))
		t.amend(moved(flying, 1, Start.Add(time.Hour)), scheduler.AmendInFlight)
		t.wantInfo(live(flying, message.StateInFlight, message.Mark{}))
		maybe := t.take(Message(2))
		t.giveBack(maybe, maybe.Score(), message.Mark{Uncertain: true, Lane: "stream"})
		for version := range uint64(3) { // whatever version is asked for
			t.amend(moved(maybe, version, Start.Add(time.Hour)), scheduler.AmendMaybe)
		}
		t.wantInfo(live(maybe, message.StateWaiting, message.Mark{Uncertain: true, Lane: "stream"}))
		for i, s := range []message.State{message.StateDelivered, message.StateCanceled, message.StateExpired,
			message.StateDead} {
			m := t.ended(Message(10+i, Named("order-1"), Keyed(s.String()), Headers("A", "b")), s)
			at := t.now
			t.pass(time.Second)
			if r := t.amend(edited(m, 2, "other"), scheduler.AmendEnded); r.Info.State != s || r.Info.EndedAt != at ||
				r.Info.Version != 2 {
				t.Errorf("%s: the answer is %s", s, describe(r.Info))
			}
		}
		unknown := Message(20)
		if r := t.amend(moved(unknown, 1, Start), scheduler.AmendUnknown); r.Info.UID != "" {
			t.Fatalf("the unknown is %s", describe(r.Info))
		}
		t.one(unknown) // it leaves nothing behind
	}},
	{name: "the journal records an amend, with the content where that changed", recorded: true,
		check: func(t *trial) {
			m := t.one(Message(1, Named("order-1"), Headers("A", "b"), TTL(time.Minute), Retrying(0, time.Second)))
			bucket := t.bucketOf(m)
			t.forgetRecorded()
			t.amend(moved(m, 1, Start.Add(time.Hour)), scheduler.AmendDone)
			t.amend(moved(m, 1, Start.Add(2*time.Hour)), scheduler.AmendVersion)
			m.Due = Start.Add(time.Hour)
			t.wantRecorded(
				record.Change{UID: m.UID, Version: 2, State: message.StateWaiting, At: t.now, Bucket: bucket,
					Due: m.Due, Reason: "rescheduled"})
			a := edited(m, 2, "other")
			a.Due++
			t.amend(a, scheduler.AmendDone)
			m.Due, m.Body, m.Headers = a.Due, []byte("other"), nil
			t.wantRecorded(
				record.Change{UID: m.UID, Version: 3, State: message.StateWaiting, At: t.now, Bucket: bucket,
					Due: m.Due, Reason: "edited", Message: m})
		}},
	{name: "an amended message is restored as it was amended", check: func(t *trial) {
		m := t.one(Message(1, DueIn(time.Hour)))
		newer := *m
		newer.Due, newer.Body = Start.Add(2*time.Hour), []byte("other")
		t.restored([]record.RestoreCode{raised}, recordOf(&newer, message.StateWaiting, 2))
		t.wantInfo(live(&newer, message.StateWaiting, message.Mark{Changes: 1}))
		t.amend(moved(&newer, 2, Start), scheduler.AmendDone)
		newer.Due = Start
		t.wantUIDs(t.claim(), []*message.Message{&newer})
	}},
}

// forgetRecorded drops the recorded journal changes.
func (t *trial) forgetRecorded() { t.log.new = nil }

// wantRecorded checks that exactly these changes were reported to the journal since the last look.
func (t *trial) wantRecorded(want ...record.Change) {
	t.Helper()
	got := t.log.new
	t.forgetRecorded()
	for i := range want {
		want[i].Instance, want[i].Address = "model", "nowhere:1"
		want[i].Kind, want[i].Other = kindOf(want[i].Reason)
	}
	sortChanges(got)
	sortChanges(want)
	if wrong := differentChanges(got, want); wrong != "" {
		t.Fatalf("the journal records something else: %s", wrong)
	}
}
