package schedulertest

import (
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// InLine makes the message one of those of a key that are leased one after the other. The key begins with name, and its
// bucket is the first of four.
func InLine(name string) With {
	for NameBucket("", name, 4) != 0 {
		name += "'"
	}
	return func(d *draft) { d.message.Pull, d.message.Serial, d.message.Key = true, true, name }
}

// inLine makes a message that has a key serial.
func inLine(d *draft) { d.message.Serial = d.message.Key != "" }

// wantHeld compares how many messages of the topic work stand behind another one of their key, and how many are ready.
func (t *trial) wantHeld(behind, ready int) {
	t.Helper()
	got, err := t.tl.Pulled(t.Context(), []string{work}, []message.Milli{t.now})
	t.must("pulled", err)
	if got[0].Held != behind || got[0].Due[0] != ready {
		t.Fatalf("pulled: %+v, want %d behind and %d ready", got[0], behind, ready)
	}
}

// wantPull leases all that is ready on the topic work.
func (t *trial) wantPull(nonce scheduler.Nonce, want ...*message.Message) {
	t.Helper()
	var got []*message.Message
	for _, m := range t.lease(t.poll(work, 10, nonce)).Messages {
		got = append(got, m.Message)
	}
	t.wantUIDs(got, want)
}

// line are n messages of the key a that are due one after the other, and have been.
func (t *trial) line(n int) []*message.Message {
	t.Helper()
	all := make([]*message.Message, n)
	for i := range all {
		all[i] = Message(i+1, InLine("a"), On(work), DueIn(time.Duration(i-n)*time.Second))
	}
	mixed := slices.Clone(all)
	slices.Reverse(mixed)
	t.added(mixed...)
	return all
}

var serialPromises = []promise{
	{name: "of a key one message is leased at a time, in the order of due", check: func(t *trial) {
		m := t.line(3)
		b := t.one(Message(9, InLine("b"), On(work)))
		free := t.one(Message(8, ForPull(), On(work)))
		t.wantHeld(2, 3)
		t.wantPull(1, m[0], free, b)
		t.wantHeld(2, 0)
		t.wantPull(2)
		t.settle(of(m[0], scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
		t.wantHeld(1, 1)
		t.wantPull(3, m[1])
		t.settle(of(m[1], scheduler.Bury, 3), scheduler.SettleDone, message.StateDead)
		t.wantPull(4, m[2])
		t.settle(of(m[2], scheduler.Ack, 4), scheduler.SettleDone, message.StateDelivered)
		t.wantHeld(0, 0)
	}},
	{name: "what is sent back keeps its key until it ends, and what is released does not", check: func(t *trial) {
		m := t.line(2)
		t.wantPull(1, m[0])
		t.settle(of(m[0], scheduler.Release, 1), scheduler.SettleDone, message.StateWaiting)
		t.wantHeld(1, 1)
		early := t.one(Message(7, InLine("a"), On(work), DueIn(-time.Hour)))
		t.wantHeld(2, 1)
		t.wantPull(2, early)
		back := of(early, scheduler.Nack, 2)
		back.Number = t.now.Add(15 * time.Hour)
		t.settle(back, scheduler.SettleDone, message.StateWaiting)
		t.wantHeld(2, 0)
		t.wantPull(3)
		t.pass(15 * time.Hour)
		t.wantHeld(2, 1)
		t.wantPull(4, early)
		back.Nonce, back.Number = 4, t.now
		t.settle(back, scheduler.SettleDone, message.StateWaiting)
		t.canceled(early.UID, scheduler.CancelDone)
		t.wantPull(5, m[0])
	}},
	{name: "a lease that lapses keeps the key", check: func(t *trial) {
		m := t.line(2)
		t.wantPull(1, m[0])
		t.pass(2 * time.Minute)
		over := of(m[0], scheduler.Nack, 1)
		over.Over, over.Number = true, t.now.Add(time.Second)
		t.settle(over, scheduler.SettleDone, message.StateWaiting)
		t.wantPull(2)
		t.pass(time.Second)
		t.wantPull(3, m[0])
	}},
	{name: "a key goes on when its first is canceled, edited, expired or leaves by its record", check: func(t *trial) {
		m := t.line(4)
		t.canceled(m[0].UID, scheduler.CancelDone)
		t.wantHeld(2, 1)
		t.canceled(m[2].UID, scheduler.CancelDone) // from the middle
		t.wantHeld(1, 1)
		t.amend(scheduler.Amend{UID: m[1].UID, Version: 1, Due: t.now.Add(time.Hour)}, scheduler.AmendDone)
		t.wantHeld(1, 1)
		t.wantPull(1, m[3])
		t.settle(of(m[3], scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
		t.wantPull(2)
		t.pass(time.Hour)
		t.wantPull(3, m[1])
		t.settle(of(m[1], scheduler.Ack, 3), scheduler.SettleDone, message.StateDelivered)

		short := t.one(Message(11, InLine("c"), On(work), DueIn(-time.Minute), TTL(time.Second)))
		next := t.one(Message(12, InLine("c"), On(work)))
		t.wantPull(4, next) // which sets the first aside
		t.settle(of(short, scheduler.Expire, 0), scheduler.SettleDone, message.StateExpired)
		t.settle(of(next, scheduler.Ack, 4), scheduler.SettleDone, message.StateDelivered)
		// So it is with any priority, and whatever else is handed out before.
		short = t.one(Message(13, InLine("c"), On(work), DueIn(-time.Minute), TTL(time.Second), Priority(5)))
		next = t.one(Message(14, InLine("c"), On(work), Priority(9)))
		others := t.added(Message(15, InLine("d"), On(work)), Message(16, InLine("e"), On(work), Priority(5)))
		t.wantPull(5, others[1], others[0], next)
		t.settle(of(short, scheduler.Expire, 0), scheduler.SettleDone, message.StateExpired)
		for _, m := range append(others, next) {
			t.settle(of(m, scheduler.Ack, 5), scheduler.SettleDone, message.StateDelivered)
		}
		t.wantHeld(0, 0)
	}},
	{name: "a message due tomorrow holds up none that is due today, whatever its priority", check: func(t *trial) {
		late := t.one(Message(1, InLine("a"), On(work), DueIn(24*time.Hour), Priority(255)))
		now := t.one(Message(2, InLine("a"), On(work)))
		t.wantHeld(1, 1)
		t.wantPull(1, now)
		t.settle(of(now, scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
		if next := t.wantNothing(2).Next; next == 0 || next > late.Due {
			t.Fatalf("the next is due at %d, want %d", next, late.Due)
		}
	}},
	{name: "an end tells that the next of its key is due", check: func(t *trial) {
		m := t.line(2)
		t.wantPull(1, m[0])
		_, made, err := t.tl.Settle(t.Context(), 0, 0, []scheduler.Settle{of(m[0], scheduler.Ack, 1)}, t.now)
		t.must("settle", err)
		if !slices.ContainsFunc(made.Earlier, func(e scheduler.Earlier) bool { return e.Topic == work }) {
			t.Fatalf("nobody is told: %+v", made)
		}
	}},
}
