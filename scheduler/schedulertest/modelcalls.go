package schedulertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The values that the model's messages are made of. They are few, so that messages meet.
var (
	ids  = []string{"order-1", "order-2", "order-3", "order-4", "a", "b"}
	keys = []string{"", "customer-1", "customer-2", "customer-3"}
	// topics are few too; most names belong to the first.
	topics = []string{"orders.created", "orders.created", "orders.created", "orders.paid", "mail"}
	lanes  = []message.Lane{"ORDERS", "core:orders.7"}
)

// block is the step in size of the model's big bodies. It is so far above small bodies and Overhead that a limit in
// between cuts at the same message in every store.
const (
	block     = 32 << 10
	maxBlocks = 3
)

// name is a client id within a key.
type name struct{ id, key string }

// namesIn returns the names that belong to a bucket.
func (m *model) namesIn(bucket message.Bucket) (names []name) {
	for _, id := range ids {
		for _, key := range keys {
			if NameBucket(id, key, m.o.Buckets) == bucket {
				names = append(names, name{id, key})
			}
		}
	}
	return names
}

func (m *model) bucket(t *rapid.T) message.Bucket {
	return message.Bucket(rapid.IntRange(0, int(m.o.Buckets)-1).Draw(t, "bucket"))
}

// term returns mostly the bucket's term, sometimes a new one, sometimes an old one.
func (m *model) term(t *rapid.T, bucket message.Bucket) uint64 {
	have := m.terms[bucket]
	switch kind := rapid.IntRange(0, 9).Draw(t, "term"); {
	case kind == 9 && have > 1:
		return rapid.Uint64Range(1, have-1).Draw(t, "old term")
	case kind == 8 || have == 0:
		have += rapid.Uint64Range(1, 3).Draw(t, "terms ahead")
	}
	m.terms[bucket] = have
	return have
}

// in returns all messages ever made that belong to a bucket.
func (m *model) in(bucket message.Bucket) (all []*message.Message) {
	for _, minted := range m.minted {
		if minted.UID.Bucket(m.o.Buckets) == bucket {
			all = append(all, minted)
		}
	}
	return all
}

// live returns the messages that wait or are in flight.
func (m *model) live() (all []*message.Message) {
	for _, minted := range m.minted {
		if s := m.was[minted.UID]; s == message.StateWaiting || s == message.StateInFlight {
			all = append(all, minted)
		}
	}
	return all
}

// mint makes a new message of a bucket.
func (m *model) mint(t *rapid.T, bucket message.Bucket) *message.Message {
	due := m.now.Time().Sub(Start.Time()) + time.Duration(rapid.IntRange(-50, 200).Draw(t, "due"))*time.Millisecond
	with := []With{In(bucket), DueIn(due), Priority(rapid.SampledFrom([]uint8{0, 5, 255}).Draw(t, "priority"))}
	if names := m.namesIn(bucket); len(names) > 0 && rapid.IntRange(0, 3).Draw(t, "named") > 0 {
		n := rapid.SampledFrom(names).Draw(t, "name")
		with = append(with, Named(n.id), Keyed(n.key),
			Content(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content")),
			Attempt(rapid.SampledFrom([]uint32{1, 1, 1, 2, 3}).Draw(t, "attempt")),
			Merging(rapid.SampledFrom([]message.Merge{message.MergeReject, message.MergeReject,
				message.MergeKeep, message.MergeReplace, message.MergeDebounce}).Draw(t, "merge")))
		if rapid.Bool().Draw(t, "wait at most") {
			// Counted from the uid's time, a day before Start.
			with = append(with,
				MaxWait(24*time.Hour+due-time.Duration(rapid.IntRange(0, 200).Draw(t, "less"))*time.Millisecond))
		}
	}
	with = append(with, On(rapid.SampledFrom(topics).Draw(t, "topic")))
	if rapid.IntRange(0, 2).Draw(t, "for pull") == 0 {
		with = append(with, ForPull(), Leased(rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t, "lease")))
		if rapid.Bool().Draw(t, "serial") {
			with = append(with, inLine)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "by a call") == 0 {
		with = append(with, Called(rapid.SampledFrom([]string{"call-1", "call-2", "call-3"}).Draw(t, "call")))
	}
	if rapid.Bool().Draw(t, "by the intake") {
		stamped := func(label string) message.Milli {
			return Start.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, label))*time.Millisecond - 24*time.Hour)
		}
		with = append(with, Stored(rapid.Uint64Range(1, 20).Draw(t, "stored")),
			Comparing(stamped("since"), stamped("stored at")))
	} else {
		with = append(with, Direct())
	}
	if rapid.IntRange(0, 3).Draw(t, "with retries") == 0 {
		with = append(with, Retrying(uint8(rapid.IntRange(0, 100).Draw(t, "jitter")), 0,
			time.Duration(rapid.IntRange(1, 9).Draw(t, "retry"))*time.Second))
	}
	switch rapid.IntRange(0, 5).Draw(t, "shape") {
	case 0:
		with = append(with, Body(nil))
	case 1:
		with = append(with, Headers("Trace", "7", "Trace", ""), TTL(time.Second))
	case 2:
		with = append(with, Body(m.zeros[:block*rapid.IntRange(1, maxBlocks).Draw(t, "blocks")]))
	}
	return m.make(with...)
}

// make makes a message with a new uid. The uids are in no order, because pushes of the intake are stored in any order.
func (m *model) make(with ...With) *message.Message {
	const places, step = 10_007, 7919 // coprime: no place comes twice
	n := len(m.minted)
	if n >= places {
		m.Fatal("too many messages")
	}
	made := Message(n*step%places, with...)
	m.minted = append(m.minted, made)
	return made
}

func (m *model) add(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	var batch []*message.Message
	for range rapid.IntRange(1, 5).Draw(t, "messages") {
		if old := m.in(bucket); len(old) > 0 && rapid.IntRange(0, 4).Draw(t, "repeat") == 0 {
			batch = append(batch, rapid.SampledFrom(old).Draw(t, "repeated"))
			continue
		}
		batch = append(batch, m.mint(t, bucket))
	}
	m.addBatch(bucket, batch)
}

// addAgain adds messages again that may have been added long ago.
func (m *model) addAgain(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	old := m.in(bucket)
	if len(old) == 0 {
		t.Skip("nothing to add again")
	}
	m.addBatch(bucket, rapid.SliceOfN(rapid.SampledFrom(old), 1, 4).Draw(t, "batch"))
}

func (m *model) addBatch(bucket message.Bucket, batch []*message.Message) {
	var what strings.Builder
	fmt.Fprintf(&what, "add to %d:", bucket)
	for _, b := range batch {
		fmt.Fprintf(&what, " %s(%q %q due %d attempt %d stored %d %s within %s)", b.UID, b.ID, b.Key, b.Due-Start,
			b.Attempt, b.Stored, mergeWords[b.Merge], b.MaxWait)
	}
	var answers [][]scheduler.AddResult // of both timelines, then of both again
	m.step(what.String(), func(tl scheduler.Timeline) string {
		results, earlier, err := tl.Add(m.ctx, bucket, batch, m.now)
		m.heard(tl, bucket, false, earlier...)
		answers = append(answers, results)
		s := fmt.Sprint("head ", headOf(earlier), short(err))
		for _, r := range results {
			f := r.First
			s += fmt.Sprintf("; %s %s due %d %s version %d ended %d", addWord(r.Code), f.UID, f.Due, f.State,
				f.Version, f.EndedAt)
		}
		return s
	}, true, func(_, second string) (bool, string) {
		goesOn := false
		for i := range batch {
			if refusedTooEarly(batch, i, answers[1]) {
				goesOn = true
			} else if calledLater(batch, i, answers[1]) {
				continue // its call belongs to that push now
			} else if wrong := m.meansTheSame(batch, i, answers[1], answers[3]); wrong != "" {
				return false, fmt.Sprintf("message %d: %s", i, wrong)
			}
		}
		if !goesOn && !strings.HasPrefix(second, "head 0;") {
			return false, "nothing came earlier the second time"
		}
		return goesOn, ""
	})
}

// refusedTooEarly reports whether a push was refused as uncertain before one of the batch became the next under its
// name: sent again it may go into that one.
func refusedTooEarly(batch []*message.Message, i int, first []scheduler.AddResult) bool {
	return first[i].Code == scheduler.AddUncertain && tookOver(batch, i, first, scheduler.Added)
}

// calledLater reports whether a later push of the batch was stored with the call of push i, which was refused.
func calledLater(batch []*message.Message, i int, first []scheduler.AddResult) bool {
	for j := i + 1; j < len(batch); j++ {
		if code := first[j].Code; batch[i].Call != "" && batch[j].Call == batch[i].Call &&
			(code <= scheduler.AddedCanceled || code == scheduler.AddMerged) {
			return true
		}
	}
	return false
}

// wonLate reports whether a push that was refused too early merged into a message when its batch was sent again. That
// message then has other content, by which the other pushes of the batch are judged, wherever they stand.
func wonLate(batch []*message.Message, first, second []scheduler.AddResult, into message.UID) bool {
	for i := range batch {
		if second[i].Code == scheduler.AddMerged && second[i].First.UID == into && refusedTooEarly(batch, i, first) {
			return true
		}
	}
	return false
}

// tookOver reports whether a later push of the batch, under the name of push i, had the outcome.
func tookOver(batch []*message.Message, i int, first []scheduler.AddResult, code scheduler.AddCode) bool {
	for j := i + 1; j < len(batch); j++ {
		if sameName(batch[j], batch[i]) && first[j].Code == code {
			return true
		}
	}
	return false
}

// replaced reports whether one of the pushes may have replaced a message, which ended by it.
func (m *model) replaced(uid message.UID, by []*message.Message) bool {
	at := slices.IndexFunc(m.minted, func(minted *message.Message) bool { return minted.UID == uid })
	return at >= 0 && slices.ContainsFunc(by, func(b *message.Message) bool {
		return b.Merge == message.MergeReplace && sameName(b, m.minted[at])
	})
}

func sameName(a, b *message.Message) bool {
	return a.ID == b.ID && a.Topic == b.Topic && a.Key == b.Key
}

// meansTheSame compares what a batch and its repeat answer about message i. It returns what is wrong.
func (m *model) meansTheSame(batch []*message.Message, i int, first, second []scheduler.AddResult) string {
	one, two := first[i], second[i]
	switch one.Code {
	case scheduler.Added, scheduler.AddedCanceled:
		state := message.StateWaiting
		if one.Code == scheduler.AddedCanceled {
			state = message.StateCanceled
		}
		if two.Code != scheduler.AddDuplicate || two.First.UID != batch[i].UID || two.First.State != state {
			return "want a duplicate of itself"
		}
		return ""
	}
	if one.Code == scheduler.AddMerged {
		if two.Code != scheduler.AddMerged || two.First.UID != one.First.UID {
			return "want it merged into the same message"
		}
		return ""
	}
	if tookOver(batch, i, first, scheduler.Added) || tookOver(batch, i, first, scheduler.AddedCanceled) {
		return "" // the name went to a later one of the batch
	}
	if two.First.UID == one.First.UID &&
		(tookOver(batch, i, first, scheduler.AddMerged) || wonLate(batch, first, second, one.First.UID)) {
		return "" // the content is another by now
	}
	if two.Code != one.Code || two.First.UID != one.First.UID ||
		two.First.State != one.First.State && !m.replaced(one.First.UID, batch[i+1:]) {
		return "want the same refusal"
	}
	return ""
}

func (m *model) cancel(t *rapid.T) {
	m.T = t
	if len(m.minted) == 0 {
		t.Skip("nothing to cancel")
	}
	choice := m.minted
	if live := m.live(); len(live) > 0 && rapid.IntRange(0, 3).Draw(t, "live") > 0 {
		choice = live
	}
	uid := rapid.SampledFrom(choice).Draw(t, "message").UID
	was := m.was[uid]
	m.step("cancel "+string(uid), func(tl scheduler.Timeline) string {
		r, err := tl.Cancel(m.ctx, scheduler.Ref{UID: uid}, m.now)
		if (r.Code == scheduler.CancelUnknown) != (was == message.StateNone) ||
			(r.Code == scheduler.CancelInFlight) != (was == message.StateInFlight) {
			m.Fatalf("cancel of the %s message %s answers %s", was, uid, r.Code)
		}
		m.heard(tl, uid.Bucket(m.o.Buckets), false, r.Effect(uid.Bucket(m.o.Buckets)).Earlier...)
		i := r.Info
		return fmt.Sprintf("%s: %s due %d %s version %d ended %d uncertain %t%s", r.Code, i.UID, i.Due, i.State,
			i.Version, i.EndedAt, i.Mark.Uncertain, short(err))
	}, true, nil)
}

func (m *model) anyRef(t *rapid.T) scheduler.Ref {
	ref := scheduler.Ref{ID: rapid.SampledFrom(ids).Draw(t, "id")}
	switch rapid.IntRange(0, 3).Draw(t, "topical") {
	case 0, 1:
		ref.Topic = rapid.SampledFrom(topics).Draw(t, "topic")
	case 2:
		ref.Viewer = &scheduler.Viewer{Topics: rapid.SampledFrom(
			[][]string{nil, {"mail"}, {"orders.*"}, {"mail.>", "orders.p*id", "orders.paid"}, {">"}}).Draw(t, "viewer")}
	}
	if rapid.Bool().Draw(t, "keyed") {
		ref.Key, ref.Keyed = rapid.SampledFrom(keys).Draw(t, "key"), true
	}
	return ref
}

func (m *model) bury(t *rapid.T) {
	m.T = t
	ref := m.anyRef(t)
	ref.Topic, ref.Viewer = rapid.SampledFrom(topics).Draw(t, "topic of the tombstone"), nil
	sequence := rapid.Uint64Range(10, 20).Draw(t, "sequence")
	m.step(fmt.Sprintf("bury %+v up to %d", ref, sequence), func(tl scheduler.Timeline) string {
		found, err := tl.Bury(m.ctx, ref, sequence, m.now)
		slices.Sort(found)
		return fmt.Sprint(found, short(err))
	}, true, nil)
}

func (m *model) find(t *rapid.T) {
	m.T = t
	ref := m.anyRef(t)
	m.step(fmt.Sprintf("find %+v as %+v", ref, ref.Viewer),
		func(tl scheduler.Timeline) string { return findUIDs(m.ctx, tl, ref) }, true, nil)
}

func (m *model) wait(t *rapid.T) {
	m.T = t
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 100 * time.Millisecond,
		300 * time.Millisecond, 20 * time.Second, m.o.EndedKeep, m.o.TombstoneKeep}).Draw(t, "time"))
}
