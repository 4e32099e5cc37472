package schedulertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// headless compares two answers that begin with "head", a number and ";". The second call must not move the head.
func headless(first, second string) (goesOn bool, wrong string) {
	rest, nothing := strings.CutPrefix(second, "head 0;")
	_, want, _ := strings.Cut(first, ";")
	switch {
	case !nothing:
		return false, "nothing came earlier the second time"
	case rest != want:
		return false, "want the same answer"
	}
	return false, ""
}

// brief formats what the answers of both stores must say about a message.
func brief(i message.Info) string {
	return fmt.Sprintf("%s due %d priority %d %s version %d ended %d lane %q uncertain %t", i.UID, i.Due, i.Priority,
		i.State, i.Version, i.EndedAt, i.Mark.Lane, i.Mark.Uncertain)
}

// someone returns mostly a message in one of the states, else any.
func (m *model) someone(t *rapid.T, states ...message.State) *message.Message {
	if len(m.minted) == 0 {
		t.Skip("there are no messages")
	}
	choice := m.minted
	if rapid.IntRange(0, 9).Draw(t, "as wanted") > 0 {
		var fitting []*message.Message
		for _, minted := range m.minted {
			if slices.Contains(states, m.was[minted.UID]) {
				fitting = append(fitting, minted)
			}
		}
		if len(fitting) > 0 {
			choice = fitting
		}
	}
	return rapid.SampledFrom(choice).Draw(t, "message")
}

// amend changes a waiting message, mostly at its current version.
func (m *model) amend(t *rapid.T) {
	m.T = t
	uid := m.someone(t, message.StateWaiting).UID
	was, stands := m.was[uid], m.versions[uid]
	a := scheduler.Amend{UID: uid, Version: stands, Reason: "rescheduled",
		Priority: rapid.SampledFrom([]uint8{0, 5, 255}).Draw(t, "priority"),
		Due:      m.now.Add(time.Duration(rapid.IntRange(-50, 200).Draw(t, "due")) * time.Millisecond)}
	switch rapid.IntRange(0, 9).Draw(t, "version") {
	case 0:
		a.Version++
	case 1:
		a.Version -= min(a.Version, 1)
	case 2:
		a.Version = 0
	}
	found := m.byUID(m.ref, uid)
	if len(found) == 1 {
		now := found[0].Message
		if as := rapid.IntRange(0, 3).Draw(t, "as it is"); as == 0 || now.TTL > 0 && as < 3 {
			a.Due, a.Priority = now.Due, now.Priority
		}
		if rapid.IntRange(0, 2).Draw(t, "content too") == 0 {
			now.Mark, now.Due, now.Priority = message.Mark{}, a.Due, a.Priority
			if rapid.Bool().Draw(t, "another body") {
				now.Body = []byte(rapid.SampledFrom([]string{"", "x", "edited"}).Draw(t, "body"))
			}
			if rapid.Bool().Draw(t, "other headers") {
				now.Headers = rapid.SampledFrom(
					[][]message.Header{nil, {{Name: "Trace", Value: "8"}}}).Draw(t, "headers")
			}
			a.Message, a.Reason = &now, editedReason
		}
	}
	var codes []scheduler.AmendCode
	m.step(fmt.Sprintf("amend of %s at %d of %d: due %d, priority %d, content %t", uid, a.Version, stands, a.Due-Start,
		a.Priority, a.Message != nil), func(tl scheduler.Timeline) string {
		r, err := tl.Amend(m.ctx, a, m.now)
		m.heard(tl, uid.Bucket(m.o.Buckets), false, r.Earlier...)
		if headOf(r.Earlier) > 0 && r.Code != scheduler.AmendDone {
			m.Fatalf("an amend that was not done returns the head")
		}
		codes = append(codes, r.Code)
		return fmt.Sprintf("head %d;%s: %s%s", headOf(r.Earlier), amendWord(r.Code), brief(r.Info), short(err))
	}, true, headless)
	want := []scheduler.AmendCode{scheduler.AmendDone, scheduler.AmendMaybe, scheduler.AmendVersion}
	switch {
	case was == message.StateNone:
		want = []scheduler.AmendCode{scheduler.AmendUnknown}
	case was == message.StateInFlight:
		want = []scheduler.AmendCode{scheduler.AmendInFlight}
	case was.Ended():
		want = []scheduler.AmendCode{scheduler.AmendEnded}
	case a.Version == stands && found[0].Pull && (found[0].Mark.Refusals > 0 || found[0].Mark.Handed) &&
		a.Message != nil && !(slices.Equal(found[0].Headers, a.Message.Headers) && sameBody(found[0].Body, a.Message.Body)):
		want = []scheduler.AmendCode{scheduler.AmendTried, scheduler.AmendMaybe}
	case a.Version == stands:
		want = want[:2]
	}
	if !slices.Contains(want, codes[0]) {
		m.Fatalf("amend of the %s message %s answers %s", was, uid, amendWord(codes[0]))
	}
}

// named cancels or moves in one step the message of a name, which may be that of several or of none.
func (m *model) named(t *rapid.T) {
	m.T = t
	x := m.someone(t, message.StateWaiting)
	ref := scheduler.Ref{ID: x.ID, Topic: x.Topic, Key: x.Key, Keyed: true}
	if x.ID == "" {
		t.Skip("it has no name")
	}
	a := scheduler.Amend{Named: ref, Reason: "rescheduled: due",
		Due: m.now.Add(time.Duration(rapid.IntRange(-50, 200).Draw(t, "due")) * time.Millisecond)}
	found, err := m.ref.Find(m.ctx, ref)
	if err != nil {
		m.Fatalf("find %+v: %v", ref, err)
	}
	sole := len(found) == 1 && found[0].State == message.StateWaiting && !found[0].Mark.Uncertain
	if sole && rapid.IntRange(0, 3).Draw(t, "as it is") == 0 {
		a.Due = found[0].Due
	}
	bucket := x.UID.Bucket(m.o.Buckets)
	what, want, do := fmt.Sprintf("move %+v to %d", ref, a.Due-Start), sole && found[0].Due != a.Due,
		func(tl scheduler.Timeline) string {
			r, err := tl.Amend(m.ctx, a, m.now)
			m.heard(tl, bucket, false, r.Earlier...)
			return fmt.Sprintf("%s: head %d;%s%s", r.Code, headOf(r.Earlier), brief(r.Info), short(err))
		}
	if rapid.Bool().Draw(t, "cancel") {
		what, want, do = fmt.Sprintf("cancel %+v", ref), sole, func(tl scheduler.Timeline) string {
			r, err := tl.Cancel(m.ctx, ref, m.now)
			m.heard(tl, bucket, false, r.Effect(bucket).Earlier...)
			return fmt.Sprintf("%s: %s%s", r.Code, brief(r.Info), short(err))
		}
	}
	m.step(what, do, true, func(first, second string) (goesOn bool, wrong string) {
		if strings.HasPrefix(first, "unknown_id:") == want {
			return false, fmt.Sprintf("want it done: %t", want)
		} else if !strings.HasPrefix(second, "unknown_id:") {
			return false, "want nothing the second time"
		}
		return false, ""
	})
}

// requeue requeues a dead message, or one that waits.
func (m *model) requeue(t *rapid.T) {
	m.T = t
	waits, from := uint64(0), message.StateDead
	if rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
		from = message.StateWaiting
	}
	dead := m.someone(t, from)
	if from == message.StateWaiting {
		waits = m.versions[dead.UID] + rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "ahead")
	}
	with := []With{In(dead.UID.Bucket(m.o.Buckets)), Keyed(dead.Key), On(dead.Topic), Direct(),
		DueIn(m.now.Time().Sub(Start.Time()) + time.Duration(rapid.IntRange(-50, 200).Draw(t, "due"))*time.Millisecond)}
	if dead.ID != "" {
		with = append(with, Named(dead.ID))
	}
	if dead.Pull {
		with = append(with, ForPull())
	}
	if dead.Serial {
		with = append(with, inLine)
	}
	made := m.make(with...)
	if found := m.byUID(m.ref, dead.UID); len(found) == 1 && rapid.Bool().Draw(t, "as it was due") {
		made.Due, made.TTL = found[0].Due, found[0].TTL // as an edit of what consumers have tried
	}
	was := m.was[dead.UID]
	done, uncertain := false, m.uncertain(dead.UID)
	can := was == from && (waits == 0 || waits == m.versions[dead.UID] && !uncertain)
	m.step(fmt.Sprintf("requeue of %s, version %d, as %s, due %d", dead.UID, waits, made.UID, made.Due-Start),
		func(tl scheduler.Timeline) string {
			r, err := tl.Requeue(m.ctx, dead.UID, waits, made, m.now)
			m.heard(tl, dead.UID.Bucket(m.o.Buckets), false, r.Earlier...)
			done = r.Code == scheduler.RequeueDone
			if headOf(r.Earlier) > 0 && !done {
				m.Fatalf("a requeue that was not done returns the head")
			}
			return fmt.Sprintf("head %d;%s: %s, the dead one has %d%s", headOf(r.Earlier), requeueWord(r.Code), brief(r.Info),
				r.Old, short(err))
		}, true, headless)
	if done != (can && m.was[made.UID] == message.StateWaiting) {
		m.Fatalf("requeue of the %s message %s: done %t, and the new one is %s", was, dead.UID, done, m.was[made.UID])
	}
	if done && m.uncertain(made.UID) != uncertain {
		m.Fatalf("requeue of %s, uncertain %t: the new one is not so", dead.UID, uncertain)
	}
}

// uncertain reports whether a message may have been delivered, according to the reference.
func (m *model) uncertain(uid message.UID) bool {
	found := m.byUID(m.ref, uid)
	return len(found) == 1 && found[0].Mark.Uncertain
}

func (m *model) purge(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	var uids, dead []message.UID
	for _, minted := range m.in(bucket) {
		is := m.was[minted.UID] == message.StateDead
		if odds := rapid.IntRange(0, 9).Draw(t, "chosen"); is && odds < 5 || odds == 9 {
			uids = append(uids, minted.UID)
			if is {
				dead = append(dead, minted.UID)
			}
		}
	}
	if len(uids) == 0 {
		t.Skip("none chosen")
	}
	m.step(fmt.Sprintf("purge in %d: %v", bucket, uids), func(tl scheduler.Timeline) string {
		purged, _, err := tl.Purge(m.ctx, bucket, uids, m.now)
		return fmt.Sprint(purged, short(err))
	}, true, nil)
	for _, uid := range dead {
		if m.was[uid] != message.StateCanceled {
			m.Fatalf("%s was dead, and is %s once it was purged", uid, m.was[uid])
		}
	}
}

// browse reads page by page. Each message must come once.
func (m *model) browse(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	q := scheduler.Browse{Dead: rapid.Bool().Draw(t, "dead"),
		Limit: rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "from") {
		q.From = m.now.Add(time.Duration(rapid.IntRange(-500, 200).Draw(t, "from when")) * time.Millisecond)
	}
	if rapid.Bool().Draw(t, "to") {
		q.To = m.now.Add(time.Duration(rapid.IntRange(-500, 400).Draw(t, "to when")) * time.Millisecond)
	}
	var all []message.Info
	m.step(fmt.Sprintf("browse of %d: %+v", bucket, q), func(tl scheduler.Timeline) string {
		found, err := browseAll(bucket, q, func(q scheduler.Browse) (scheduler.Browsed, error) {
			return tl.Browse(m.ctx, bucket, q)
		})
		all = found
		var b strings.Builder
		for _, f := range found {
			b.WriteString(describe(f) + "; ")
		}
		return b.String() + short(err)
	}, true, nil)
	m.wantBrowsed(bucket, q, all)
}

// wantBrowsed compares what was browsed with what look-ups return.
func (m *model) wantBrowsed(bucket message.Bucket, q scheduler.Browse, all []message.Info) {
	met := map[message.UID]bool{}
	for i, f := range all {
		if met[f.UID] {
			m.Fatalf("%s was met twice", f.UID)
		}
		met[f.UID] = true
		want := message.StateWaiting
		if q.Dead {
			want = message.StateDead
		}
		if f.State != want || m.was[f.UID] != want {
			m.Fatalf("met %s as %s, it is %s, want %s", f.UID, f.State, m.was[f.UID], want)
		}
		if i > 0 && q.Dead && cmp.Or(cmp.Compare(all[i-1].EndedAt, f.EndedAt), cmp.Compare(all[i-1].UID, f.UID)) >= 0 {
			m.Fatalf("%s stands before %s", all[i-1].UID, f.UID)
		}
		if i > 0 && !q.Dead && (all[i-1].Pull && !f.Pull || all[i-1].Mark.Lane > f.Mark.Lane && !f.Pull) {
			m.Fatalf("lane %q stands before %q", all[i-1].Mark.Lane, f.Mark.Lane)
		}
		if q.Dead && (f.EndedAt < q.From || q.To > 0 && f.EndedAt > q.To) {
			m.Fatalf("%s died at %d", f.UID, f.EndedAt)
		}
	}
	if q.From > 0 || q.To > 0 {
		return
	}
	for _, minted := range m.in(bucket) {
		s := m.was[minted.UID]
		if (q.Dead && s == message.StateDead || !q.Dead && s == message.StateWaiting) && !met[minted.UID] {
			m.Fatalf("%s is %s and was not met", minted.UID, s)
		}
	}
}

var patterns = []string{"orders.>", "orders.*", "mail"}

func (m *model) pause(t *rapid.T) {
	m.T = t
	p := scheduler.Pause{Pattern: rapid.SampledFrom(patterns).Draw(t, "pattern"),
		By: rapid.SampledFrom([]string{"", "ann"}).Draw(t, "by"), At: m.now}
	m.step(fmt.Sprintf("pause %+v", p), func(tl scheduler.Timeline) string {
		c, err := tl.Pause(m.ctx, p)
		return fmt.Sprintf("%+v%s", c, short(err))
	}, true, nil)
}

func (m *model) resume(t *rapid.T) {
	m.T = t
	pattern := rapid.SampledFrom(patterns).Draw(t, "pattern")
	m.step("resume "+pattern, func(tl scheduler.Timeline) string {
		was, c, err := tl.Resume(m.ctx, pattern, m.now)
		return fmt.Sprintf("%t %+v%s", was, c, short(err))
	}, true, func(_, second string) (bool, string) {
		if !strings.HasPrefix(second, "false ") {
			return false, "it was resumed before"
		}
		return false, ""
	})
}

var errLoops = errors.New("the page leads to itself")

// browseAll reads pages until there is no next one, and checks the limit of each.
func browseAll(bucket message.Bucket, q scheduler.Browse,
	read func(scheduler.Browse) (scheduler.Browsed, error)) (all []message.Info, err error) {
	for pages := 0; ; pages++ {
		page, err := read(q)
		if err != nil {
			return nil, err
		}
		if len(page.Messages) > q.Limit {
			return nil, fmt.Errorf("a page of %d, the limit is %d", len(page.Messages), q.Limit)
		}
		for _, m := range page.Messages {
			if len(m.Headers)+len(m.Body) > 0 {
				return nil, fmt.Errorf("%s comes with headers or body", m.UID)
			}
		}
		all = append(all, page.Messages...)
		if page.Next == "" {
			return all, nil
		}
		if page.Next == q.After || pages > 10_000 {
			return nil, fmt.Errorf("bucket %d, page %d: %w", bucket, pages, errLoops)
		}
		q.After = page.Next
	}
}
