package schedulertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The calls of a leader, drawn at random.

func (m *model) begin(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	term := m.term(t, bucket)
	m.step(fmt.Sprintf("begin %d under %d", bucket, term), func(tl scheduler.Timeline) string {
		return short(tl.Begin(m.ctx, bucket, term))
	}, true, nil)
}

func (m *model) claim(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	m.take(bucket, m.request(t, bucket, ""))
}

func (m *model) claimLane(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	m.take(bucket, m.request(t, bucket, rapid.SampledFrom(lanes).Draw(t, "lane")))
}

func (m *model) request(t *rapid.T, bucket message.Bucket, lane message.Lane) scheduler.Claim {
	return scheduler.Claim{
		Term:  m.term(t, bucket),
		Now:   m.now,
		Limit: rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "limit"),
		Bytes: block/2 + block*rapid.IntRange(0, 6).Draw(t, "bytes"),
		Lane:  lane,
	}
}

// take claims, and checks that the claimed messages were waiting in the bucket and due, and have no lane any more.
func (m *model) take(bucket message.Bucket, req scheduler.Claim) {
	m.claims++
	req.Number = m.claims
	m.step(fmt.Sprintf("claim %+v from %d", req, bucket), func(tl scheduler.Timeline) string {
		c, err := tl.Claim(m.ctx, bucket, req)
		s := fmt.Sprint("head ", c.Head, " missing ", len(c.Missing), short(err))
		for _, got := range c.Messages {
			s += "; " + describe(message.Info{Message: *got})
			if tl != m.ref {
				continue
			}
			if m.was[got.UID] != message.StateWaiting || got.Due > req.Now || got.Mark.Lane != "" ||
				got.UID.Bucket(m.o.Buckets) != bucket || got.Pull {
				m.Fatalf("claim from %d took %s, which is %s and due at %d, with lane %q", bucket, got.UID,
					m.was[got.UID], got.Due, got.Mark.Lane)
			}
			m.claimed[got.UID] = got
		}
		return s
	}, false, nil)
}

// some returns messages of a bucket, mostly claimed ones, each once.
func (m *model) some(t *rapid.T, bucket message.Bucket) (chosen []*message.Message) {
	for _, minted := range m.in(bucket) {
		is := m.was[minted.UID] == message.StateInFlight
		if odds := rapid.IntRange(0, 9).Draw(t, "chosen"); is && odds < 6 || odds == 9 {
			chosen = append(chosen, cmp.Or(m.claimed[minted.UID], minted))
		}
	}
	if len(chosen) == 0 {
		t.Skip("none chosen")
	}
	return chosen
}

func (m *model) finish(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	var ends []scheduler.End
	for _, chosen := range m.some(t, bucket) {
		ends = append(ends, scheduler.End{
			Message: chosen, State: rapid.SampledFrom([]message.State{message.StateDelivered,
				message.StateDelivered, message.StateExpired, message.StateDead}).Draw(t, "end"),
			Uncertain: rapid.Bool().Draw(t, "uncertain"),
			Reason:    rapid.SampledFrom([]string{"", "no responders"}).Draw(t, "reason"),
		})
	}
	m.end(bucket, m.term(t, bucket), ends)
}

func (m *model) end(bucket message.Bucket, term uint64, ends []scheduler.End) {
	if len(ends) == 0 {
		return
	}
	var what strings.Builder
	fmt.Fprintf(&what, "finish in %d under %d:", bucket, term)
	for _, e := range ends {
		fmt.Fprintf(&what, " %s as %s (uncertain %t)", e.Message.UID, e.State, e.Uncertain)
	}
	m.step(what.String(), func(tl scheduler.Timeline) string {
		return short(tl.Finish(m.ctx, bucket, term, ends, m.now))
	}, true, nil)
}

func (m *model) giveBack(t *rapid.T) {
	m.T = t
	m.back(t, func(b *scheduler.Back) {
		if rapid.IntRange(0, 3).Draw(t, "keep") == 0 {
			b.Keep, b.Message = true, nil
		}
	})
}

// park returns messages to lanes.
func (m *model) park(t *rapid.T) {
	m.T = t
	m.back(t, func(b *scheduler.Back) { b.Mark.Lane = rapid.SampledFrom(lanes).Draw(t, "lane") })
}

func (m *model) back(t *rapid.T, tune func(*scheduler.Back)) {
	bucket := m.bucket(t)
	var back []scheduler.Back
	for _, chosen := range m.some(t, bucket) {
		b := scheduler.Back{UID: chosen.UID, Claim: chosen.Claim, Score: chosen.Score(), Mark: message.Mark{
			Uncertain: rapid.IntRange(0, 3).Draw(t, "uncertain") == 0,
			Refusals:  rapid.Uint32Range(0, 2).Draw(t, "refusals"), Changes: chosen.Mark.Changes,
		}}
		if rapid.Bool().Draw(t, "tried") {
			b.Mark.Changes++
			b.Message, b.Reason = chosen, rapid.SampledFrom([]string{"", "refused"}).Draw(t, "reason")
		}
		if rapid.Bool().Draw(t, "later") {
			later := m.now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "by")) * time.Millisecond)
			b.Score = int64(later)<<8 | b.Score&255
		}
		if rapid.IntRange(0, 9).Draw(t, "of another claim") == 0 {
			b.Claim = rapid.Uint64Range(0, m.claims).Draw(t, "claim")
		}
		tune(&b)
		back = append(back, b)
	}
	term := m.term(t, bucket)
	m.step(fmt.Sprintf("return in %d under %d: %+v", bucket, term, back), func(tl scheduler.Timeline) string {
		err := tl.Return(m.ctx, bucket, term, back, m.now)
		m.looked(tl, bucket)
		return short(err)
	}, true, nil)
}

// covers formats what an effect covers. It must cover everything that its call has just reported to the journal.
func (m *model) covers(tl scheduler.Timeline, bucket message.Bucket, made scheduler.Effect) string {
	log := &m.realLog
	if tl == m.ref {
		log = &m.refLog
	}
	for _, c := range log.new {
		if !slices.ContainsFunc(made.Changes, func(r scheduler.Recorded) bool {
			return r.UID == c.UID && r.Version == c.Version
		}) {
			m.Fatalf("%s@%d was reported to the journal, the effect covers %+v", c.UID, c.Version, made.Changes)
		}
	}
	words := make([]string, len(made.Changes))
	for i, r := range made.Changes {
		words[i] = fmt.Sprintf("%s@%d", r.UID, r.Version)
		if r.Bucket != bucket || r.Number == 0 {
			m.Fatalf("the effect of a call in bucket %d covers %+v", bucket, r)
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}

// counted sends a call that answers with a number below its limit once nothing is left to do.
func (m *model) counted(what string, limit int, do func(scheduler.Timeline) (int, error)) {
	m.step(what, func(tl scheduler.Timeline) string {
		n, err := do(tl)
		return fmt.Sprint(n, short(err))
	}, true, func(first, second string) (goesOn bool, wrong string) {
		goesOn = first == fmt.Sprint(limit)
		if !goesOn && second != first && second != "0" {
			return false, "want 0: the first was through"
		}
		return goesOn, ""
	})
}

func (m *model) sweep(t *rapid.T) {
	m.T = t
	bucket, limit := m.bucket(t), rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "limit")
	var term uint64
	if rapid.Bool().Draw(t, "a new leader") {
		m.terms[bucket]++
		term = m.terms[bucket]
	} else {
		term = m.term(t, bucket)
	}
	var last uint64
	if rapid.Bool().Draw(t, "of an earlier run") {
		last = rapid.Uint64Range(0, m.claims).Draw(t, "last")
	}
	m.counted(fmt.Sprintf("sweep %d of %d under %d, up to %d", limit, bucket, term, last), limit,
		func(tl scheduler.Timeline) (int, error) {
			n, err := tl.Sweep(m.ctx, bucket, term, last, limit, m.now)
			m.looked(tl, bucket)
			return n, err
		})
}

func (m *model) trim(t *rapid.T) {
	m.T = t
	bucket, limit := m.bucket(t), rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "limit")
	term := m.term(t, bucket)
	m.drainOutboxes() // what the journal does not know is not forgotten
	m.counted(fmt.Sprintf("trim %d of %d under %d", limit, bucket, term), limit,
		func(tl scheduler.Timeline) (int, error) {
			return tl.Trim(m.ctx, bucket, term, m.now, limit)
		})
}

func (m *model) held(t *rapid.T) {
	m.T = t
	bucket, limit, after := m.bucket(t), rapid.IntRange(1, 3).Draw(t, "limit"), message.UID("")
	if old := m.in(bucket); len(old) > 0 && rapid.Bool().Draw(t, "page") {
		after = rapid.SampledFrom(old).Draw(t, "after").UID
	}
	term := m.term(t, bucket)
	m.step(fmt.Sprintf("held in %d under %d after %q", bucket, term, after), func(tl scheduler.Timeline) string {
		held, err := tl.Held(m.ctx, bucket, term, after, limit)
		return fmt.Sprint(held, short(err))
	}, true, nil)
}
