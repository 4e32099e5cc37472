package schedulertest

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The calls for consumers that pull, drawn at random.

// place is an order from which consumers pull.
type place struct {
	bucket message.Bucket
	topic  string
}

// handout is what consumers had of a message: its content, how many leases of it ended in vain, and whether one of them
// released it.
type handout struct {
	content  string
	tries    uint32
	released bool
}

// handed checks what a lease hands out: an attempt never comes again once it ended in vain, nor does a message that
// consumers have tried come with other content, since they may skip what they know.
func (m *model) handed(got *message.Message) {
	had := m.had[got.UID]
	now := handout{fmt.Sprintf("%q %x", got.Headers, sha256.Sum256(got.Body)), got.Mark.Refusals, had.released}
	if now.tries < had.tries || (had.tries > 0 || had.released) && now.content != had.content {
		m.Fatalf("%s comes with %+v after consumers had %+v", got.UID, now, had)
	}
	m.had[got.UID] = now
}

// lease sends a request with a new nonce.
func (m *model) lease(t *rapid.T) {
	m.T = t
	m.nonces++
	r := scheduler.LeaseRequest{Bucket: m.bucket(t), Topic: rapid.SampledFrom(topics).Draw(t, "topic"),
		Limit: rapid.SampledFrom([]int{0, 1, 2, 5, 1000}).Draw(t, "limit"),
		Bytes: block/2 + block*rapid.IntRange(0, 6).Draw(t, "bytes"),
		Page:  block/2 + block*rapid.IntRange(0, 9).Draw(t, "page"),
		Over:  rapid.Bool().Draw(t, "over"), Nonce: m.nonces, Keep: 1000 * time.Hour, // Redis forgets by its own clock
		Length:   rapid.SampledFrom([]time.Duration{50 * time.Millisecond, 20 * time.Second}).Draw(t, "length"),
		Fixed:    rapid.Bool().Draw(t, "fixed"),
		Again:    rapid.IntRange(0, 3).Draw(t, "again") == 0,
		Consumer: rapid.SampledFrom([]string{"", "worker 1"}).Draw(t, "consumer")}
	m.requests = append(m.requests, r)
	m.requested(t, r)
}

// leaseAgain sends a request that was sent before.
func (m *model) leaseAgain(t *rapid.T) {
	m.T = t
	if len(m.requests) == 0 {
		t.Skip("nothing was requested")
	}
	m.requested(t, rapid.SampledFrom(m.requests).Draw(t, "request"))
}

func (m *model) requested(t *rapid.T, r scheduler.LeaseRequest) {
	_, changed, err := m.ref.Pauses(m.ctx)
	if err != nil {
		m.Fatalf("pauses: %v", err)
	}
	r.Now, r.From, r.Pauses = m.now, m.now.Add(time.Millisecond), changed
	if rapid.IntRange(0, 9).Draw(t, "knows no pauses") == 0 {
		r.Pauses = 0
	}
	m.leaseBy(r)
}

func (m *model) leaseBy(r scheduler.LeaseRequest) {
	next := map[scheduler.Timeline]message.Milli{}
	known, skip := false, 0
	m.step(fmt.Sprintf("lease %+v", r), func(tl scheduler.Timeline) string {
		l := tl.Lease(m.ctx, []scheduler.LeaseRequest{r})[0]
		if errors.Is(l.Err, scheduler.ErrPausesChanged) {
			return "paused"
		}
		skip = l.Skip
		s := fmt.Sprint("known ", l.Known, " aside ", l.Aside, " next ", l.Skip, short(l.Err))
		for _, got := range l.Messages {
			s += fmt.Sprintf("; until %d %s", got.Until, describe(message.Info{Message: *got.Message}))
			if was := m.was[got.UID]; tl == m.real && !l.Known && (was != message.StateWaiting || got.Due > r.Now ||
				got.Topic != r.Topic || !got.Pull) {
				m.Fatalf("lease took %s, which is %s, due at %d on %s", got.UID, was, got.Due, got.Topic)
			}
			if tl == m.real && !l.Known {
				m.handed(got.Message)
			}
		}
		if !l.Known && l.Err == nil {
			next[tl], known = l.Next, true
			m.heard(tl, r.Bucket, true, scheduler.Earlier{Topic: r.Topic, Due: l.Next})
		}
		return s
	}, true, func(string, string) (bool, string) { return false, "" })
	if known {
		m.bounds("the next message", next)
	}
	if skip > r.Skip { // as the scheduler does, and as often as a consumer that is cut does not
		r.Skip, r.Over = skip, false
		m.requests = append(m.requests, r)
		m.leaseBy(r)
	}
}

// bounds checks that the time of the real timeline is no later than that of the reference, which is exact, and that
// both are there or neither.
func (m *model) bounds(what string, got map[scheduler.Timeline]message.Milli) {
	if real, exact := got[m.real], got[m.ref]; real > exact || (real == 0) != (exact == 0) {
		m.Fatalf("%s: got %d, want at most %d", what, real, exact)
	}
}

// heard moves the timers of the real timeline's instances. A look replaces a timer.
func (m *model) heard(tl scheduler.Timeline, bucket message.Bucket, look bool, earlier ...scheduler.Earlier) {
	for _, e := range earlier {
		at := place{bucket, e.Topic}
		if timer, set := m.timers[at]; tl == m.real && e.Topic != "" && (look || !set || e.Due < timer) {
			if m.timers[at] = e.Due; e.Due == 0 {
				delete(m.timers, at)
			}
		}
	}
}

// looked moves the timers of a bucket as the look does that instances take each second. A sweep and a return tell
// nobody what begins earlier: only where a topic went over from NATS to pull can a message for NATS be given back, have
// the later push of its name yield, and so let the next message of a key come.
func (m *model) looked(tl scheduler.Timeline, bucket message.Bucket) {
	if tl != m.real {
		return
	}
	for _, topic := range topics {
		want := scheduler.Want{Bucket: bucket, Topics: []scheduler.TopicWant{{Topic: topic}}}
		next := tl.Ready(m.ctx, []scheduler.Want{want}, m.now)[0].Topics[0].Next
		m.heard(tl, bucket, true, scheduler.Earlier{Topic: topic, Due: next})
	}
}

// timely checks that no timer is later than when the next message of its topic is due.
func (m *model) timely(what string) {
	for bucket := range m.o.Buckets {
		for _, topic := range topics {
			want := scheduler.Want{Bucket: bucket, Topics: []scheduler.TopicWant{{Topic: topic}}}
			next := m.ref.Ready(m.ctx, []scheduler.Want{want}, m.now)[0].Topics[0].Next
			if timer, set := m.timers[place{bucket, topic}]; next > 0 && (!set || timer > next) {
				m.Fatalf("after %s: the timer of %s in %d is at %d, %t; its next message is due at %d", what, topic, bucket,
					timer, set, next)
			}
		}
	}
}

// leasesIn returns the leases of a bucket.
func (m *model) leasesIn(tl scheduler.Timeline, bucket message.Bucket) []scheduler.LeaseInfo {
	var uids []message.UID
	for _, minted := range m.in(bucket) {
		uids = append(uids, minted.UID)
	}
	page, err := tl.Leases(m.ctx, bucket, scheduler.LeaseQuery{UIDs: uids, Limit: len(uids) + 1}, m.now)
	if err != nil {
		m.Fatalf("leases of %d: %v", bucket, err)
	}
	return page.Leases
}

// settle settles leases, mostly those that hold.
func (m *model) settle(t *rapid.T) {
	m.T = t
	bucket := m.bucket(t)
	all, held := m.in(bucket), m.leasesIn(m.ref, bucket)
	if len(all) == 0 {
		t.Skip("nothing to settle")
	}
	var items []scheduler.Settle
	for range rapid.IntRange(1, 4).Draw(t, "items") {
		minted := rapid.SampledFrom(all).Draw(t, "message")
		s := scheduler.Settle{UID: minted.UID, Topic: minted.Topic,
			Nonce: scheduler.Nonce(rapid.Uint64Range(0, uint64(m.nonces)).Draw(t, "nonce"))}
		if len(held) > 0 && rapid.IntRange(0, 4).Draw(t, "held") > 0 {
			l := rapid.SampledFrom(held).Draw(t, "lease")
			s.UID, s.Topic, s.Nonce = l.Message.UID, l.Message.Topic, l.Nonce
			if rapid.IntRange(0, 5).Draw(t, "any nonce") == 0 {
				s.Nonce = 0
			}
		}
		s.Verb = rapid.SampledFrom([]scheduler.Verb{scheduler.Ack, scheduler.Nack, scheduler.Nack, scheduler.Bury,
			scheduler.Release, scheduler.Extend, scheduler.Undo, scheduler.Expire, scheduler.Expire,
			scheduler.Discard, scheduler.Until}).Draw(t, "verb")
		s.Number = m.now.Add(time.Duration(rapid.IntRange(-50, 200).Draw(t, "number")) * time.Millisecond)
		s.Over = rapid.IntRange(0, 3).Draw(t, "over") == 0
		switch s.Verb {
		case scheduler.Nack:
			s.Kind = rapid.SampledFrom([]message.Kind{message.KindPlain, message.KindLapsed}).Draw(t, "kind")
			s.Reason = rapid.SampledFrom([]string{"", "sent back"}).Draw(t, "reason")
		case scheduler.Release:
			s.Kind = rapid.SampledFrom([]message.Kind{message.KindPlain, message.KindReleased}).Draw(t, "kind")
		case scheduler.Until: // its callers name a time to come
			s.Number = m.now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "until")) * time.Millisecond)
		case scheduler.Ack, scheduler.Bury:
			s.Reason = rapid.SampledFrom([]string{"", "no use"}).Draw(t, "reason")
		case scheduler.Undo:
			if len(held) == 0 || s.Nonce == 0 { // one that no lease uses: Redis forgets it by its own clock
				s.Nonce |= 1 << 60
			}
		}
		items = append(items, s)
	}
	term := uint64(0)
	if rapid.Bool().Draw(t, "by the leader") {
		term = m.term(t, bucket)
	}
	m.settleAll(bucket, term, items)
}

func (m *model) settleAll(bucket message.Bucket, term uint64, items []scheduler.Settle) {
	m.step(fmt.Sprintf("settle in %d under %d: %+v", bucket, term, items), func(tl scheduler.Timeline) string {
		settled, made, err := tl.Settle(m.ctx, bucket, term, items, m.now)
		m.heard(tl, bucket, false, made.Earlier...)
		s := m.covers(tl, bucket, made) + short(err)
		if err == nil && len(settled) != len(items) {
			m.Fatalf("%d of %d items were settled", len(settled), len(items))
		}
		for at, r := range settled {
			i := r.Info
			if i.State.Ended() {
				i.Due = 0
			}
			if had, is := m.had[i.UID]; is && i.State == message.StateWaiting {
				had.tries = max(had.tries, i.Mark.Refusals)
				had.released = had.released || items[at].Verb == scheduler.Release && r.Code == scheduler.SettleDone
				m.had[i.UID] = had
			}
			s += fmt.Sprintf("; code %d %s %s due %d version %d refusals %d ended %d until %d", r.Code, i.UID, i.State, i.Due,
				i.Version, i.Mark.Refusals, i.EndedAt, r.Until)
		}
		return s
	}, true, func(string, string) (bool, string) { return false, "" })
}

// leases lists what is over, or the leases of a topic page by page.
func (m *model) leases(t *rapid.T) {
	m.T = t
	bucket, q := m.bucket(t), scheduler.LeaseQuery{Over: true, Limit: wide}
	if rapid.Bool().Draw(t, "of a topic") {
		q = scheduler.LeaseQuery{Topic: rapid.SampledFrom(topics).Draw(t, "topic"),
			Limit: rapid.IntRange(1, 3).Draw(t, "limit")}
	}
	due := map[scheduler.Timeline]message.Milli{}
	m.step(fmt.Sprintf("leases of %d: %+v", bucket, q), func(tl scheduler.Timeline) string {
		var lines []string
		for q := q; ; {
			page, err := tl.Leases(m.ctx, bucket, q, m.now)
			if err != nil {
				m.Fatalf("leases: %v", err)
			}
			for i := range page.Leases {
				lines = append(lines, leaseLine(&page.Leases[i]))
			}
			due[tl] = page.Due
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if q.Over { // the reference lists all topics together
			slices.Sort(lines)
		}
		return strings.Join(lines, "; ")
	}, true, nil)
	m.bounds("when to ask again", due)
}

func leaseLine(l *scheduler.LeaseInfo) string {
	return fmt.Sprintf("%s nonce %s %t %+v expires %d: %s", l.Message.UID, l.Nonce, l.Discarded, l.Holding, l.Expires,
		describe(l.Message))
}

// ready looks what is ready on some topics.
func (m *model) ready(t *rapid.T) {
	m.T = t
	w := scheduler.Want{Bucket: m.bucket(t)}
	for _, topic := range slices.Compact(slices.Clone(topics)) {
		w.Topics = append(w.Topics, scheduler.TopicWant{Topic: topic, Count: rapid.IntRange(0, 3).Draw(t, "wanted")})
	}
	next := make([]map[scheduler.Timeline]message.Milli, len(w.Topics))
	m.step(fmt.Sprintf("ready %+v", w), func(tl scheduler.Timeline) string {
		found := tl.Ready(m.ctx, []scheduler.Want{w}, m.now)[0]
		s := short(found.Err)
		for i, r := range found.Topics {
			s += fmt.Sprintf("; %v", r.Ranks)
			if next[i] == nil {
				next[i] = map[scheduler.Timeline]message.Milli{}
			}
			next[i][tl] = r.Next
			m.heard(tl, w.Bucket, true, scheduler.Earlier{Topic: w.Topics[i].Topic, Due: r.Next})
		}
		return s
	}, true, nil)
	for i := range next {
		m.bounds("the next message of "+w.Topics[i].Topic, next[i])
	}
}

// drainPulled brings every message for pull of a bucket to an end: leases lapse, times to live end, and what is left is
// leased and acknowledged.
func (m *model) drainPulled(bucket message.Bucket) {
	page, err := m.ref.Leases(m.ctx, bucket, scheduler.LeaseQuery{Over: true, Limit: wide}, m.now)
	if err != nil {
		m.Fatalf("what is over in %d: %v", bucket, err)
	}
	settle := func(leases []scheduler.LeaseInfo, verb scheduler.Verb) {
		var items []scheduler.Settle
		for i := range leases {
			l := &leases[i]
			s := scheduler.Settle{Verb: verb, UID: l.Message.UID, Topic: l.Message.Topic, Nonce: l.Nonce, Number: m.now}
			if l.Nonce == 0 {
				s.Verb = scheduler.Expire
			}
			items = append(items, s)
		}
		for part := range slices.Chunk(items, 100) {
			m.settleAll(bucket, 0, part)
		}
	}
	settle(page.Leases, scheduler.Nack)
	_, changed, _ := m.ref.Pauses(m.ctx)
	for { // of a key one comes at a time
		for _, topic := range slices.Compact(slices.Clone(topics)) {
			m.nonces++
			m.leaseBy(scheduler.LeaseRequest{Bucket: bucket, Topic: topic, Limit: 1000, Bytes: wide, Over: true,
				Nonce: m.nonces, Keep: time.Minute, Now: m.now, From: m.now, Length: time.Hour, Fixed: true,
				Pauses: changed})
		}
		taken := m.leasesIn(m.ref, bucket)
		if len(taken) == 0 {
			return
		}
		settle(taken, scheduler.Ack)
	}
}

// lookPulled adds what consumers who pull see to a view.
func (m *model) lookPulled(tl scheduler.Timeline, line func(format string, args ...any)) {
	pulled, err := tl.Pulled(m.ctx, topics, []message.Milli{m.now})
	line("pulled %+v%s", pulled, short(err))
	for bucket := range m.o.Buckets {
		var lines []string
		all := m.leasesIn(tl, bucket)
		slices.SortFunc(all, func(a, b scheduler.LeaseInfo) int { return cmp.Compare(a.Message.UID, b.Message.UID) })
		for i := range all {
			lines = append(lines, leaseLine(&all[i]))
		}
		line("leases of %d: %s", bucket, strings.Join(lines, "; "))
	}
}
