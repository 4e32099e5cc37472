package schedulertest

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var orderPromises = []promise{
	{name: "messages leave by due, then priority, then acceptance", check: func(t *trial) {
		late := t.one(Message(1, DueIn(2*time.Millisecond), Priority(255)))
		third := t.one(Message(3, DueIn(time.Millisecond), Priority(7)))
		second := t.one(Message(2, DueIn(time.Millisecond), Priority(7)))
		first := t.one(Message(9, DueIn(time.Millisecond), Priority(255)))
		before := t.one(Message(10))
		t.pass(time.Second)
		t.wantUIDs(t.claim(), []*message.Message{before, first, second, third, late})
	}},
	{name: "the order holds within a batch and across batches", check: func(t *trial) {
		var want, batch []*message.Message
		for i := range 300 {
			want = append(want, Message(i, DueIn(time.Duration(i/3)*time.Millisecond), Priority(uint8(2-i%3))))
		}
		for i := range want {
			batch = append(batch, want[i*7%len(want)])
			if len(batch) == 43 || i == len(want)-1 {
				t.added(batch...)
				batch = nil
			}
		}
		t.pass(time.Second)
		var got []*message.Message
		for len(got) < len(want) {
			c := t.claimFrom(0, "", 17, wide)
			if len(c.Messages) == 0 {
				t.Fatalf("only %d of %d came", len(got), len(want))
			}
			got = append(got, c.Messages...)
		}
		t.wantUIDs(got, want)
	}},
	{name: "a message is due at its millisecond and not before, in ten years too", check: func(t *trial) {
		for i, after := range []time.Duration{0, 10 * 365 * 24 * time.Hour} {
			m := t.one(Message(i, DueIn(after+time.Millisecond)))
			t.now = Start.Add(after)
			if h := t.heads()[0]; h.Due != m.Due {
				t.Fatalf("head is %d, want %d", h.Due, m.Due)
			}
			if c := t.claimFrom(0, "", wide, wide); len(c.Messages) != 0 || c.Head != m.Due {
				t.Fatalf("a millisecond early: got %d, head %d; want none and %d", len(c.Messages), c.Head, m.Due)
			}
			t.now = m.Due
			t.wantUIDs(t.claim(), []*message.Message{m})
		}
	}},
	{name: "a message comes out as it went in", check: func(t *trial) {
		in := []*message.Message{
			Message(1, Named("order 1\x01ü"), Keyed("customer:{1}\n"), Content("\x00\xff{\"a\":1}"), Priority(9),
				TTL(90*time.Second), Attempt(3), Stored(12),
				Headers("Trace", "1", "trace", "2", "Trace", "", "X-Long", string(make([]byte, 4000)))),
		}
		for i, m := range []*message.Message{Message(2, Body(nil)), Message(3, Headers("A", "b")),
			Message(4, Body([]byte{0}))} {
			m.UID = Message(i+2, In(t.bucketOf(in[0]))).UID
			in = append(in, m)
		}
		t.added(in...)
		for _, m := range in {
			t.wantInfo(live(m, message.StateWaiting, message.Mark{}))
		}
		for i, got := range t.claimFrom(t.bucketOf(in[0]), "", wide, wide).Messages {
			want := live(in[i], message.StateInFlight, message.Mark{})
			if g, w := describe(live(got, message.StateInFlight, got.Mark)), describe(want); g != w {
				t.Fatalf("claimed\n got %s\nwant %s", g, w)
			}
			t.wantInfo(want)
		}
	}},
	{name: "what callers do to their copies changes nothing", check: func(t *trial) {
		m := Message(1)
		kept := *m
		t.one(m)
		m.Topic, m.Priority, m.Mark.Uncertain = "changed", 9, true
		claimed := t.claim()[0]
		claimed.Topic, claimed.Mark.Lane = "changed", "changed"
		t.wantInfo(live(&kept, message.StateInFlight, message.Mark{}))
	}},
	{name: "an add returns the head when it came earlier", check: func(t *trial) {
		for i, step := range []struct {
			m    *message.Message
			want message.Milli
		}{
			{Message(1, DueIn(9*time.Second)), Start.Add(9 * time.Second)}, // it was empty
			{Message(2, DueIn(10*time.Second)), 0},
			{Message(3, DueIn(9*time.Second)), 0},
			{Message(4, DueIn(8*time.Second)), Start.Add(8 * time.Second)},
			{Message(4, DueIn(8*time.Second)), 0}, // a repeat
			{Message(5, In(1), DueIn(20*time.Second)), Start.Add(20 * time.Second)},
			{Message(6, DueIn(-time.Hour)), Start.Add(-time.Hour)}, // past is kept as it was
		} {
			if _, head := t.addHead(step.m); head != step.want {
				t.Fatalf("step %d: head %d, want %d", i, head, step.want)
			}
		}
		_, head := t.addHead(Message(11, In(2), DueIn(3*time.Second)), Message(12, In(2), DueIn(time.Second)),
			Message(13, In(2), DueIn(2*time.Second)))
		if head != Start.Add(time.Second) {
			t.Fatalf("of a batch: head %d, want the earliest", head)
		}
	}},
	{name: "heads return due, waiting, claimed and term of every bucket", check: func(t *trial) {
		t.must("begin", t.tl.Begin(t.Context(), 1, 7))
		t.added(Message(1, DueIn(time.Second)), Message(2, DueIn(2*time.Second)), Message(3, DueIn(3*time.Second)))
		t.one(Message(4, In(3), DueIn(time.Minute)))
		t.pass(time.Second)
		parked := t.claim()[0]
		t.giveBack(parked, parked.Score(), message.Mark{Lane: "stream"})
		t.pass(time.Second)
		t.claim()
		want := []scheduler.Head{{Due: Start.Add(3 * time.Second), Waiting: 1, Claimed: 1, Term: 1}, {Term: 7}, {},
			{Due: Start.Add(time.Minute), Waiting: 1}}
		for i, got := range t.heads() {
			if got != want[i] {
				t.Errorf("bucket %d: got %+v, want %+v", i, got, want[i])
			}
		}
	}},
	{name: "a bucket that does not exist is refused", check: func(t *trial) {
		if n := t.tl.Buckets(); n != t.o.Buckets {
			t.Fatalf("got %d buckets, want %d", n, t.o.Buckets)
		}
		for _, b := range []message.Bucket{-1, t.o.Buckets} {
			_, _, err := t.tl.Add(t.Context(), b, []*message.Message{Message(1)}, t.now)
			if err == nil || t.tl.Begin(t.Context(), b, 1) == nil {
				t.Errorf("bucket %d of %d was accepted", b, t.o.Buckets)
			}
		}
	}},
	{name: "a call whose context has ended writes nothing", check: func(t *trial) {
		m := Message(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := t.tl.Add(ctx, 0, []*message.Message{m}, t.now); err == nil {
			t.Error("add succeeded")
		}
		if err := t.tl.Begin(ctx, 0, 9); err == nil {
			t.Error("begin succeeded")
		}
		t.gone(m.UID)
		if h := t.heads()[0]; h != (scheduler.Head{}) { // the term too
			t.Errorf("head is %+v", h)
		}
	}},
}

var claimPromises = []promise{
	{name: "a claim is bounded by count", check: func(t *trial) {
		all := t.added(Message(1), Message(2), Message(3))
		c := t.claimFrom(0, "", 2, wide)
		t.wantUIDs(c.Messages, all[:2])
		if c.Head != Start {
			t.Fatalf("head %d, want %d: one is left", c.Head, Start)
		}
		c = t.claimFrom(0, "", 2, wide)
		t.wantUIDs(c.Messages, all[2:])
		if c.Head != 0 {
			t.Fatalf("head %d, want 0: none is left", c.Head)
		}
	}},
	{name: "a claim is bounded by bytes", check: func(t *trial) {
		block := make([]byte, 100_000)
		all := t.added(Message(1, Body(block)), Message(2, Body(nil), Headers("Name", string(block))),
			Message(3, Body(block)), Message(4))
		t.wantUIDs(t.claimFrom(0, "", wide, 250_000).Messages, all[:2])
		t.wantUIDs(t.claimFrom(0, "", wide, 250_000).Messages, all[2:])
	}},
	{name: "a claim takes one message however big it is", check: func(t *trial) {
		all := t.added(Message(1, Body(make([]byte, 1<<20))), Message(2), Message(3))
		t.wantUIDs(t.claimFrom(0, "", wide, 10).Messages, all[:1])
		t.wantUIDs(t.claimFrom(0, "", wide, 1).Messages, all[1:2])
	}},
	{name: "each message is claimed once by claims at the same time", check: func(t *trial) {
		const n = 400
		batch := make([]*message.Message, n)
		for i := range batch {
			batch[i] = Message(i)
		}
		t.added(batch...)
		got, errs := make(chan message.UID, 2*n), make(chan error, 8)
		for range 8 {
			go func() {
				for {
					c, err := t.tl.Claim(t.Context(), 0,
						scheduler.Claim{Term: 1, Now: t.now, Limit: 7, Bytes: wide})
					if err != nil || len(c.Messages) == 0 {
						errs <- err
						return
					}
					for _, m := range c.Messages {
						got <- m.UID
					}
				}
			}()
		}
		for range 8 {
			t.must("claim", <-errs)
		}
		close(got)
		seen := map[message.UID]bool{}
		for uid := range got {
			if seen[uid] {
				t.Fatalf("%s was claimed twice", uid)
			}
			seen[uid] = true
		}
		if len(seen) != n {
			t.Fatalf("%d of %d were claimed", len(seen), n)
		}
	}},
	{name: "of a cancel and a claim at the same time one wins", check: func(t *trial) {
		const n = 200
		batch := make([]*message.Message, n)
		for i := range batch {
			batch[i] = Message(i)
		}
		t.added(batch...)
		claimed, failed := make(chan map[message.UID]bool, 1), make(chan error, 2)
		go func() {
			all := map[message.UID]bool{}
			for {
				c, err := t.tl.Claim(t.Context(), 0,
					scheduler.Claim{Term: 1, Now: t.now, Limit: 3, Bytes: wide})
				for _, m := range c.Messages {
					all[m.UID] = true
				}
				if err != nil || len(c.Messages) == 0 {
					failed <- err
					claimed <- all
					return
				}
			}
		}()
		codes := map[message.UID]scheduler.CancelCode{}
		for i := n - 1; i >= 0; i-- {
			r, err := t.tl.Cancel(t.Context(), scheduler.Ref{UID: batch[i].UID}, t.now)
			t.must("cancel", err)
			codes[batch[i].UID] = r.Code
		}
		t.must("claim", <-failed)
		all := <-claimed
		for uid, code := range codes {
			if want := map[bool]scheduler.CancelCode{
				true: scheduler.CancelInFlight, false: scheduler.CancelDone}[all[uid]]; code != want {
				t.Errorf("%s: claimed %t, and the cancel answered %s", uid, all[uid], code)
			}
		}
	}},
}
