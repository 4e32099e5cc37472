package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// pulling is what a bucket knows of a live message for pull beside the message itself.
type pulling struct {
	expires message.Milli // end of the message's time to live, or 0
	ending  *entry        // stands for the entry in expiring while it waits and expires
	aside   bool          // it waits for the leader, past its time to live
	behind  bool          // it waits behind another one of its key
	keeps   bool          // it keeps its key while it waits for its retry
	lease   *lease        // nil unless it is leased
}

type lease struct {
	nonce scheduler.Nonce
	message.Holding
}

// stretch holds the waiting messages of a topic and a priority, by due time.
type stretch struct {
	priority uint8
	order    order
}

// toPull are the stretches of a topic that hold messages, by priority, high first.
type toPull []*stretch

// due returns when the first message is due, or 0.
func (p toPull) due() (first message.Milli) {
	for _, s := range p {
		if due := max(message.RankDue(s.order[0].rank), 1); first == 0 || due < first {
			first = due
		}
	}
	return first
}

// upTo returns how many messages are due at a time, and when the next will be, or 0.
func (p toPull) upTo(now message.Milli, limit int) (n int, next message.Milli) {
	for _, s := range p {
		more, rank := s.order.upTo(message.RankFrom(s.priority)+int64(now), limit-n)
		if n += more; rank > 0 && (next == 0 || message.RankDue(rank) < next) {
			next = message.RankDue(rank)
		}
	}
	return n, next
}

// stretch returns the order of a topic and a priority.
func (b *bucket) stretch(topic string, priority uint8) *order {
	all := b.pulls[topic]
	at, found := slices.BinarySearchFunc(all, priority, func(s *stretch, p uint8) int {
		return cmp.Compare(p, s.priority)
	})
	if !found {
		all = slices.Insert(all, at, &stretch{priority: priority})
		b.pulls[topic] = all
	}
	return &all[at].order
}

// expect notes that a message for pull waits, and how long it lives.
func (b *bucket) expect(e *entry) {
	m := e.message
	if e.pull == nil {
		e.pull = new(pulling)
		if m.TTL > 0 {
			e.pull.expires = m.Due.Add(m.TTL)
		}
	}
	if e.pull.expires > 0 {
		e.pull.ending = &entry{uid: e.uid}
		b.expiring.push(e.pull.ending, int64(e.pull.expires))
	}
}

// hasten records whether an entry that enters the order of its topic moves the head earlier.
func (b *bucket) hasten(e *entry) {
	m := e.message
	if first := b.pulls[m.Topic].due(); first == 0 || m.Due < first {
		b.hastened = append(b.hastened, scheduler.Earlier{Topic: m.Topic, Due: max(m.Due, 1)})
	}
}

// unexpect undoes expect once the message has left its order.
func (b *bucket) unexpect(e *entry) {
	if e.pull.ending != nil {
		b.expiring.remove(e.pull.ending)
		e.pull.ending = nil
	}
	if !e.pull.aside {
		b.tidy(e.message.Topic)
	}
	e.pull.aside = false
}

// tidy drops the empty stretches of a topic.
func (b *bucket) tidy(topic string) {
	all := slices.DeleteFunc(b.pulls[topic], func(s *stretch) bool { return len(s.order) == 0 })
	if b.pulls[topic] = all; len(all) == 0 {
		delete(b.pulls, topic)
	}
}

// leased returns the lease of an entry, which may be nil, or nil.
func (e *entry) leased() *lease {
	if e == nil || e.pull == nil {
		return nil
	}
	return e.pull.lease
}

// Ready tells what is ready.
func (t *Timeline) Ready(ctx context.Context, wants []scheduler.Want, now message.Milli) []scheduler.Found {
	found := make([]scheduler.Found, len(wants))
	for i, w := range wants {
		found[i].Err = t.in(ctx, w.Bucket, func(b *bucket) error {
			for _, topic := range w.Topics {
				found[i].Topics = append(found[i].Topics, b.ready(topic, now))
			}
			return nil
		})
	}
	return found
}

func (b *bucket) ready(want scheduler.TopicWant, now message.Milli) (found scheduler.TopicReady) {
	for _, s := range b.pulls[want.Topic] {
		until := message.RankFrom(s.priority) + int64(now)
		for _, due := range s.order.least(until, want.Count-len(found.Ranks)) {
			found.Ranks = append(found.Ranks, due.rank)
		}
	}
	found.Next = b.pulls[want.Topic].due()
	return found
}

// granted is what a call of Lease took.
type granted struct {
	uids  []message.UID
	read  bool                 // it takes no more
	did   map[message.UID]deed // what became of them by a refusal or a release
	place *entry               // stands for it in forgets
}

// goesOn reports whether a request takes more under its nonce.
func (g *granted) goesOn(r *scheduler.LeaseRequest) bool {
	return r.Limit > 0 && r.Skip > 0 && len(g.uids) == r.Skip && !g.read
}

// deed is how a lease was settled: a consumer that repeats its own call is told so, and one whose lease lapsed is not.
type deed struct {
	verb scheduler.Verb
	over bool
	kind message.Kind
}

func deedOf(s *scheduler.Settle) deed { return deed{s.Verb, s.Over, s.Kind} }

// settledKeep is how long a refusal or a release is known again.
const settledKeep message.Milli = 10 * 60 * 1000

// grant returns what a nonce took, or nil, and forgets what is older than it was to be kept.
func (b *bucket) grant(nonce scheduler.Nonce, now message.Milli) *granted {
	for len(b.forgets) > 0 && b.forgets[0].rank <= int64(now) {
		first := b.forgets[0].entry
		b.forgets.remove(first)
		delete(b.grants, scheduler.Nonce(first.claim))
	}
	return b.grants[nonce]
}

// keep remembers a grant at least until a time.
func (b *bucket) keep(nonce scheduler.Nonce, g *granted, until message.Milli) {
	if g.place == nil {
		b.grants[nonce] = g
		g.place = &entry{uid: message.UID(nonce.String()), claim: uint64(nonce)}
	} else {
		until = max(until, message.Milli(b.forgets[g.place.place].rank))
		b.forgets.remove(g.place)
	}
	b.forgets.push(g.place, int64(until))
}

// Lease takes ready messages into leases.
func (t *Timeline) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	leased := make([]scheduler.Leased, len(requests))
	for i := range requests {
		r := &requests[i]
		leased[i].Err = t.in(ctx, r.Bucket, func(b *bucket) error {
			if b.cert.Filling {
				return fmt.Errorf("bucket %d is being restored: %w", r.Bucket, scheduler.ErrUncertified)
			}
			g := b.grant(r.Nonce, r.Now)
			if r.Limit > 0 && message.Milli(t.paused.last.Load()) > r.Pauses && (g == nil || g.goesOn(r)) {
				return scheduler.ErrPausesChanged
			}
			b.take(r, &leased[i])
			return nil
		})
	}
	return leased
}

// asideLimit bounds how many messages past their time to live one call sets aside.
const asideLimit = 1000

func (b *bucket) take(r *scheduler.LeaseRequest, out *scheduler.Leased) {
	var (
		last  message.Milli
		bytes int
	)
	g := b.grant(r.Nonce, r.Now)
	if g != nil && !g.goesOn(r) {
		out.Known, g.read = true, g.read || r.Limit == 0
		for i := r.Skip; i < len(g.uids); i++ {
			e := b.entries[g.uids[i]]
			if e.leased() == nil || e.leased().nonce != r.Nonce {
				continue
			}
			if bytes += e.message.Size(); r.Page > 0 && bytes > r.Page && len(out.Messages) > 0 {
				out.Skip = i
				break
			}
			out.Messages = append(out.Messages, b.handedOut(e))
		}
		return
	}
	g = cmp.Or(g, new(granted))
handing:
	for more := true; more && len(out.Messages) < r.Limit && out.Aside < asideLimit; {
		more = false
		for _, e := range b.handable(r.Topic, r.Now, r.Limit-len(out.Messages)) {
			if e.pull.expires > 0 && e.pull.expires <= r.Now {
				b.leave(e)
				b.expect(e)
				e.pull.aside = true
				b.aside.push(e, e.message.Score())
				b.count(e, 1)
				out.Aside++
				more = true // there is room for others: that of the next of its line, too
				continue
			}
			if bytes += e.message.Size(); bytes > r.Bytes && (len(out.Messages) > 0 || !r.Over) {
				break handing
			}
			if r.Page > 0 && bytes > r.Page && len(out.Messages) > 0 {
				out.Skip = len(g.uids)
				break handing
			}
			length := r.Length
			if e.message.Lease > 0 && !r.Fixed {
				length = e.message.Lease
			}
			b.leave(e)
			e.state = message.StateInFlight
			e.pull.lease = &lease{r.Nonce,
				message.Holding{Consumer: r.Consumer, Since: r.From, Until: r.From.Add(length)}}
			b.enter(e, int64(e.pull.lease.Until))
			last = max(last, e.pull.lease.Until)
			g.uids = append(g.uids, e.uid)
			out.Messages = append(out.Messages, b.handedOut(e))
		}
	}
	if len(g.uids) > 0 || !r.Again {
		b.keep(r.Nonce, g, max(last, r.Now).Add(r.Keep))
	}
	out.Next = b.pulls[r.Topic].due()
}

// handable returns the first messages of a topic that are ready, up to a limit.
func (b *bucket) handable(topic string, now message.Milli, limit int) (all []*entry) {
	for _, s := range b.pulls[topic] {
		for _, due := range s.order.least(message.RankFrom(s.priority)+int64(now), limit-len(all)) {
			all = append(all, due.entry)
		}
	}
	return all
}

// handedOut returns a leased message as its consumer gets it.
func (b *bucket) handedOut(e *entry) scheduler.LeasedMessage {
	m := *e.message
	m.Mark.Uncertain = b.uncertain(e)
	return scheduler.LeasedMessage{Message: &m, Until: e.pull.lease.Until}
}

// Settle ends, returns or extends leases.
func (t *Timeline) Settle(ctx context.Context, n message.Bucket, term uint64, items []scheduler.Settle,
	now message.Milli) (results []scheduler.Settled, made scheduler.Effect, err error) {
	do := func(b *bucket) error {
		var left []scheduler.Recorded
		results = make([]scheduler.Settled, len(items))
		for i := range items {
			r := &results[i]
			*r = b.settle(&items[i], term, now)
			r.Number = b.cert.Number
			if r.Code == scheduler.SettleAgain {
				left = append(left, scheduler.Recorded{UID: r.Info.UID, Version: r.Info.Version})
			}
		}
		made = t.effect(n, b, left)
		made.Earlier = b.hastened
		return nil
	}
	if term > 0 {
		err = t.under(ctx, n, term, do)
	} else {
		err = t.in(ctx, n, do)
	}
	return results, made, err
}

func (b *bucket) settle(s *scheduler.Settle, term uint64, now message.Milli) (r scheduler.Settled) {
	if s.Verb == scheduler.Undo {
		b.undo(s.Nonce, term, now)
		r.Code = scheduler.SettleDone
		return r
	}
	e := b.entries[s.UID]
	if e == nil || e.message.Topic != s.Topic {
		return r
	}
	l := e.leased()
	switch {
	case s.Verb == scheduler.Expire:
		if l == nil && e.pull != nil && e.pull.expires > 0 && e.pull.expires <= now {
			b.expire(e, nil, e.message.Mark.Refusals, term, now)
			r.Code = scheduler.SettleDone
		}
	case l != nil && (s.Nonce == 0 || s.Nonce == l.nonce) && (!s.Over || l.Until <= now):
		r.Code = scheduler.SettleDone
		switch s.Verb {
		case scheduler.Ack:
			b.finish(e, l, e.message.Mark.Refusals, message.StateDelivered, cause{s.Kind, "", s.Reason}, term, now)
		case scheduler.Bury:
			b.noteDeed(e, l, s, now)
			to, why := message.StateDead, cause{s.Kind, "", s.Reason}
			if e.rival != nil && e.rival.later == "" {
				to, why = message.StateCanceled, cause{reason: discarded}
			}
			b.finish(e, l, e.message.Mark.Refusals+1, to, why, term, now)
		case scheduler.Discard:
			e.rival = &rival{mode: message.MergeReplace}
			r.Until = l.Until
		case scheduler.Extend, scheduler.Until:
			b.leave(e)
			if s.Verb == scheduler.Until || l.Until < s.Number {
				l.Until = s.Number
			}
			b.enter(e, int64(l.Until))
			r.Until = l.Until
		default:
			b.comeBack(e, s, true, term, now)
		}
	case l == nil && s.Verb == scheduler.Ack && s.Nonce == 0 && !s.Over && e.state == message.StateWaiting &&
		b.wasTried(e):
		r.Code = scheduler.SettleDone
		refusals := max(e.message.Mark.Refusals, 1) - 1 // the last of its leases did not end in vain after all
		b.finish(e, nil, refusals, message.StateDelivered, cause{s.Kind, "", s.Reason}, term, now)
	case b.settled(e, s, now):
		r.Code = scheduler.SettleAgain
	}
	r.Info = b.brief(e)
	return r
}

// settled reports whether the item was done before. A nack after the last retry made the message dead.
func (b *bucket) settled(e *entry, s *scheduler.Settle, now message.Milli) bool {
	if s.Verb == scheduler.Ack {
		return e.state == message.StateDelivered
	}
	g, last := b.grant(s.Nonce, now), deedOf(s)
	if g == nil {
		return false
	}
	last.verb = scheduler.Bury
	did, known := g.did[s.UID]
	return known && (did == deedOf(s) || did == last && s.Verb == scheduler.Nack)
}

// noteDeed notes how a lease was settled.
func (b *bucket) noteDeed(e *entry, l *lease, s *scheduler.Settle, now message.Milli) {
	g := cmp.Or(b.grant(l.nonce, now), new(granted)) // after an extend it may be forgotten
	if g.did == nil {
		g.did = map[message.UID]deed{}
	}
	g.did[e.uid] = deedOf(s)
	b.keep(l.nonce, g, now+settledKeep)
}

// finish ends a message; l is its lease, or nil, and refusals how many of its leases ended in vain, the last included.
func (b *bucket) finish(e *entry, l *lease, refusals uint32, state message.State, why cause, term uint64,
	now message.Milli) {
	if l != nil && state != message.StateExpired {
		why.reason = scheduler.ByConsumer(l.Consumer, why.words(false))
	}
	c := b.tried(e, l, term, now)
	c.Refusals, e.message.Mark.Refusals = refusals, refusals
	if l == nil {
		c.Attempt = e.message.Tries(state)
	}
	b.leave(e)
	b.end(e, state, c.Uncertain, why, now)
	if state == message.StateExpired {
		why.reason = e.reason
	}
	c.State, c.Version, c.Kind, c.Reason = state, e.version, why.kind, why.reason
	b.note(c)
}

// tried describes a change of a message, by a lease or without one. A state, a version and a reason are left out.
func (b *bucket) tried(e *entry, l *lease, term uint64, now message.Milli) record.Change {
	m := e.message
	c := record.Change{UID: e.uid, Due: m.Due, Uncertain: b.uncertain(e), Refusals: m.Mark.Refusals, At: now, Term: term}
	if l != nil {
		c.Claimed, c.Attempt = l.Since, m.Attempt+m.Mark.Refusals
	}
	return c
}

// expire ends a message past its time to live, like finish.
func (b *bucket) expire(e *entry, l *lease, refusals uint32, term uint64, now message.Milli) {
	why := cause{reason: "its time to live was over"}
	if refusals > 0 {
		why = cause{kind: message.KindTried}
	}
	b.finish(e, l, refusals, message.StateExpired, why, term, now)
}

// comeBack returns a leased message to waiting, or ends it if its time to live is over or a later push of its name has
// replaced it. handed: a consumer had it.
func (b *bucket) comeBack(e *entry, s *scheduler.Settle, handed bool, term uint64, now message.Milli) {
	l, counts := e.pull.lease, s.Verb == scheduler.Nack
	b.noteDeed(e, l, s, now)
	refusals := e.message.Mark.Refusals
	if counts {
		refusals++
	}
	if e.pull.expires > 0 && e.pull.expires <= now {
		b.expire(e, l, refusals, term, now)
		return
	}
	uncertain := b.uncertain(e)
	if b.meetRival(e, refusals, uncertain, term, now) {
		return
	}
	change := b.tried(e, l, term, now)
	how := (&cause{s.Kind, "", s.Reason}).words(false)
	b.leave(e)
	mark := e.message.Mark
	mark.Handed = mark.Handed || handed && !counts
	if counts {
		e.message.Due = s.Number
		mark.Refusals = refusals
		mark.Try = message.Try{At: now, Consumer: l.Consumer, How: how[:min(len(how), message.TryMost)]}
		mark.Uncertain = uncertain // a later due time would lie beyond the doubt
	}
	if changed := counts || s.Kind != message.KindPlain; changed {
		mark.Changes++
		change.State, change.Version, change.Due, change.Refusals = message.StateWaiting, 1+uint64(mark.Changes),
			e.message.Due, mark.Refusals
		change.Kind, change.Message = s.Kind, nil
		change.Reason = scheduler.ByConsumer(l.Consumer, how)
		b.note(change)
	}
	e.pull.lease, e.pull.keeps = nil, counts && e.message.Serial
	b.wait(e, e.message.Score(), mark)
}

// undo releases what a nonce took and still holds, unless that was read, and makes sure that it takes nothing more.
func (b *bucket) undo(nonce scheduler.Nonce, term uint64, now message.Milli) {
	g := cmp.Or(b.grant(nonce, now), new(granted))
	b.keep(nonce, g, now+settledKeep)
	if g.read {
		return
	}
	g.read = true
	for _, uid := range g.uids {
		if e := b.entries[uid]; e.leased() != nil && e.leased().nonce == nonce {
			b.comeBack(e, &scheduler.Settle{Verb: scheduler.Release, UID: uid}, false, term, now)
		}
	}
}

// Leases lists leases.
func (t *Timeline) Leases(ctx context.Context, n message.Bucket, q scheduler.LeaseQuery,
	now message.Milli) (page scheduler.LeasePage, err error) {
	if q.Limit < 1 {
		return page, fmt.Errorf("leases: a limit of %d", q.Limit)
	}
	err = t.see(ctx, n, func(b *bucket) {
		switch {
		case q.Over:
			b.over(q.Limit, now, &page)
		case q.Topic != "":
			b.leasesOf(&q, &page)
		default:
			for _, uid := range q.UIDs {
				if e := b.entries[uid]; e.leased() != nil {
					page.Leases = append(page.Leases, b.leaseInfo(e))
				}
			}
		}
	})
	return page, err
}

func (b *bucket) leaseInfo(e *entry) scheduler.LeaseInfo {
	i := scheduler.LeaseInfo{Message: b.brief(e), Expires: e.pull.expires}
	if l := e.pull.lease; l != nil {
		i.Nonce, i.Holding, i.Discarded = l.nonce, l.Holding, e.rival != nil && e.rival.later == ""
	}
	return i
}

// over lists what is over.
func (b *bucket) over(limit int, now message.Milli, page *scheduler.LeasePage) {
	for _, s := range b.leases.least(int64(now), limit) {
		page.Leases = append(page.Leases, b.leaseInfo(s.entry))
	}
	for _, s := range b.expiring.least(int64(now), limit-len(page.Leases)) {
		page.Leases = append(page.Leases, b.leaseInfo(b.entries[s.uid]))
	}
	page.Due = b.firstOver()
}

// firstOver returns when the first lease or time to live is over, or 0.
func (b *bucket) firstOver() (first message.Milli) {
	for _, o := range []order{b.leases, b.expiring} {
		if len(o) > 0 && (first == 0 || message.Milli(o[0].rank) < first) {
			first = message.Milli(o[0].rank)
		}
	}
	return first
}

// leasesOf lists a page of a topic's leases by their end and uid.
func (b *bucket) leasesOf(q *scheduler.LeaseQuery, page *scheduler.LeasePage) {
	place := func(s slot) string { return fmt.Sprintf("%016d%s", s.rank, s.uid) }
	var all []slot
	for _, s := range b.leases {
		if s.message.Topic == q.Topic && place(s) > q.After {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b slot) int { return cmp.Compare(place(a), place(b)) })
	if len(all) > q.Limit {
		all = all[:q.Limit]
		page.Next = place(all[q.Limit-1])
	}
	for _, s := range all {
		page.Leases = append(page.Leases, b.leaseInfo(s.entry))
	}
}

// waitingForPull returns the waiting messages that consumers pull, by score.
func (b *bucket) waitingForPull() order {
	all := slices.Clone(b.aside)
	for _, l := range b.lines {
		all = append(all, l.behind...)
	}
	for _, stretches := range b.pulls {
		for _, s := range stretches {
			for _, one := range s.order {
				all = append(all, slot{one.message.Score(), one.entry})
			}
		}
	}
	return all
}

// Behind reports whether a serial message waits behind another one of its key.
func (t *Timeline) Behind(ctx context.Context, uid message.UID, topic, key string) (behind bool, by message.UID,
	err error) {
	err = t.in(ctx, uid.Bucket(t.Buckets()), func(b *bucket) error {
		if e := b.entries[uid]; e != nil && e.pull != nil && e.pull.behind {
			behind = true
			if l := b.lines[topic+"\x00"+key]; l != nil && l.holder != nil {
				by = l.holder.uid
			}
		}
		return nil
	})
	return behind, by, err
}

// Upcoming lists the topics of a bucket from which a message can be pulled by until.
func (t *Timeline) Upcoming(ctx context.Context, n message.Bucket, until message.Milli) (topics []string, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		for topic, stretches := range b.pulls {
			if stretches.due() <= until {
				topics = append(topics, topic)
			}
		}
	})
	return topics, err
}

// Failing notes a failure of a webhook's target, or a success.
func (t *Timeline) Failing(ctx context.Context, target string, at message.Milli,
	within time.Duration) (since message.Milli, err error) {
	err = t.in(ctx, scheduler.PausesBucket, func(*bucket) error {
		if at == 0 {
			delete(t.failing, target)
			return nil
		}
		f, known := t.failing[target]
		if !known || f[1].Add(within) < at {
			f[0] = at
		}
		since, f[1] = f[0], at
		t.failing[target] = f
		return nil
	})
	return since, err
}

// Pulled counts messages for pull.
func (t *Timeline) Pulled(ctx context.Context, topics []string,
	until []message.Milli) ([]scheduler.PullCount, error) {
	counts := make([]scheduler.PullCount, len(topics))
	for i := range counts {
		counts[i].Due = make([]int, len(until))
	}
	err := t.each(ctx, func(_ message.Bucket, b *bucket) {
		for i, topic := range topics {
			counts[i].Leased += b.topics[topic].leased
			counts[i].Held += b.behind[topic]
			for j, at := range until {
				n, _ := b.pulls[topic].upTo(at, len(b.entries))
				counts[i].Due[j] += n
			}
		}
	})
	return counts, err
}
