package pull

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// longestLease is the longest that a message may ask for. What leased it is undone for as long, if it has to be.
	longestLease = 12 * time.Hour
	// grantKeep is how long a call of Lease is known after its last lease is over. A call and its repeat take less.
	grantKeep = 30 * time.Second
	// attemptKeep is the same for a poll that its client may repeat.
	attemptKeep = 5 * time.Minute
	// pausesKeep is how long the pauses are believed that hold a topic back. Pauses that do not are believed until
	// Lease answers that there are later ones.
	pausesKeep = time.Second
	// leasePage bounds what the timeline answers at once: Redis does nothing else meanwhile. A poll that wants more asks
	// again.
	leasePage = 4 << 20
	// passTries is how often a look begins anew because the pauses changed under it.
	passTries = 3
)

// Pull leases ready messages: the highest priority first, then the earliest due, then the first accepted, over all
// buckets. If nothing is ready, or the topic is paused, Pull waits for the poll's time; then it returns none. A bucket
// that does not answer is left out; an error means that none answered. Of a poll whose client goes meanwhile, or whose
// LeasesIn are over before it returns, Pull gives back what it took.
func (s *Consumers) Pull(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	for _, topic := range p.Names() {
		if t := s.cfg.Topics.Of(topic); t != nil && t.Webhook && !p.Webhook {
			return nil, scheduler.ErrWebhook
		}
	}
	if p.Attempt != 0 {
		if found, err := s.again(ctx, &p); len(found) > 0 || err != nil {
			return found, err
		}
	}
	wait := s.polls.wait
	if len(p.Topics) > 0 {
		wait = s.pullAny
	}
	found, err := wait(ctx, p)
	if errors.Is(err, errEnded) {
		return nil, nil
	}
	if slices.ContainsFunc(found, s.over()) { // this instance was suspended
		s.GiveBack(ctx, found)
		return nil, nil
	}
	return found, err
}

// over returns what reports whether a lease is over by now.
func (s *Consumers) over() func(scheduler.PulledMessage) bool {
	now := message.CeilMilli(s.cfg.Clock.Latest())
	return func(m scheduler.PulledMessage) bool { return m.Until <= now }
}

// again gives a sending of a poll's attempt a nonce of its own. If earlier ones hold leases, again returns those.
// Whatever became of those sendings, they take nothing from then on: one may still wait at an instance which does not
// know that its client has gone, or has not even read it.
func (s *Consumers) again(ctx context.Context, p *scheduler.Poll) (found []scheduler.PulledMessage, err error) {
	attempt, before := p.Attempt, max(p.Sending-1, 0)
	if p.Attempt = sendingOf(attempt, before); before == 0 {
		return nil, nil
	}
	w := &waiter{Poll: *p}
	if !w.reserve(p.Bytes, true) {
		return nil, scheduler.ErrNoRoom
	}
	defer w.unreserve()
	return s.granted(ctx, w, attempt, before)
}

// sendingOf returns the nonce under which a sending of an attempt leases; the first is 0.
func sendingOf(n scheduler.Nonce, sending int) scheduler.Nonce {
	if sending == 0 {
		return n
	}
	return partOf(n, strconv.Itoa(sending))
}

// partOf returns a nonce for a part of what a nonce stands for. Nobody else can guess it.
func partOf(n scheduler.Nonce, part string) scheduler.Nonce {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(n)), part...))
	return max(scheduler.Nonce(binary.BigEndian.Uint64(sum[:])), 1)
}

// granted returns what so many sendings before one still hold, which take nothing from then on.
func (s *Consumers) granted(ctx context.Context, w *waiter, attempt scheduler.Nonce,
	before int) ([]scheduler.PulledMessage, error) {
	h := handing{s: s, batch: []*waiter{w}, found: make([][]scheduler.PulledMessage, 1),
		next: map[message.Bucket]message.Milli{}}
	for i := range before {
		nonces := []scheduler.Nonce{sendingOf(attempt, i)}
		for at, topic := range w.Topics {
			nonces = append(nonces[:at], partOf(sendingOf(attempt, i), topic))
		}
		for b := range s.cfg.Timeline.Buckets() {
			for _, nonce := range nonces {
				h.requests = append(h.requests, scheduler.LeaseRequest{Bucket: b, Topic: w.Topic, Nonce: nonce, Keep: attemptKeep,
					Page: leasePage, Now: s.cfg.Clock.Milli()})
				h.of = append(h.of, 0)
			}
		}
	}
	_ = h.lease(ctx) // a bucket that is away is left out
	if w.lost != nil {
		return nil, w.lost
	}
	return slices.DeleteFunc(h.found[0], s.over()), nil
}

// reserve takes room for what a poll may get, beyond what is left too, as long as any is.
func (w *waiter) reserve(bytes int, beyond bool) bool {
	if w.Room == nil {
		return true
	}
	w.room = bytes
	if left := w.Room(bytes); left >= 0 || beyond && left+bytes > 0 {
		return true
	}
	w.unreserve()
	return false
}

func (w *waiter) unreserve() {
	if w.room > 0 {
		w.Room(-w.room)
		w.room = 0
	}
}

// hold counts messages that a poll got, and reports whether it may get more.
func (w *waiter) hold(got []scheduler.LeasedMessage) bool {
	if w.Room == nil {
		return true
	}
	bytes := 0
	for i := range got {
		bytes += got[i].Size()
	}
	own := min(bytes, w.room)
	w.room -= own
	return w.Room(bytes-own) > 0 || w.room > 0
}

// sortPulled sorts messages into the order in which they are handed out.
func sortPulled(found []scheduler.PulledMessage) {
	slices.SortFunc(found, func(a, b scheduler.PulledMessage) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), a.UID.Compare(b.UID))
	})
}

// newNonce returns a nonce that cannot be guessed.
func newNonce() scheduler.Nonce {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if n := scheduler.Nonce(binary.BigEndian.Uint64(b[:])); n > 0 {
			return n
		}
	}
}

// knownPauses are the pauses as this instance last read them.
type knownPauses struct {
	old     atomic.Bool    // the next poll reads them
	turn    scheduler.Turn // for the others
	list    []scheduler.Pause
	changed message.Milli
	read    time.Time
}

// forget makes the next poll read the pauses.
func (k *knownPauses) forget() { k.old.Store(true) }

// paused reports whether a topic is paused, and the time of the last change of pauses that this is by.
func (s *Consumers) paused(ctx context.Context, topic string) (paused bool, changed message.Milli, err error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	k := &s.pauses
	if err := k.turn.Take(ctx); err != nil {
		return false, 0, fmt.Errorf("read the pauses: %w: %w", scheduler.ErrUnavailable, err)
	}
	defer k.turn.Leave()
	holds := func() bool { return scheduler.PauseOf(k.list, topic) != nil }
	if k.old.Swap(false) {
		k.read = time.Time{}
	}
	if k.read.IsZero() || holds() && time.Since(k.read) > pausesKeep {
		list, changed, err := s.cfg.Timeline.Pauses(ctx)
		if err != nil {
			return false, 0, scheduler.Looked("read the pauses", err)
		}
		k.list, k.changed, k.read = list, changed, time.Now()
	}
	return holds(), k.changed, nil
}

// CountPulled adds what consumers pull to the counts of topics.
func (s *Consumers) CountPulled(ctx context.Context, counts []scheduler.TopicCount) error {
	if len(counts) == 0 {
		return nil
	}
	topics := make([]string, len(counts))
	for i := range counts {
		topics[i] = counts[i].Topic
	}
	pulled, err := s.cfg.Timeline.Pulled(ctx, topics, []message.Milli{s.cfg.Clock.Milli()})
	if err != nil {
		return err
	}
	for i := range counts {
		c := &counts[i]
		c.Ready, c.Leased, c.Held = pulled[i].Due[0], pulled[i].Leased, pulled[i].Held
		c.Waiting = max(c.Waiting-c.Ready, 0)
	}
	return nil
}

// PullCounts counts, for each topic, the messages that consumers pull: the leased ones, and those that are due within
// each of the times from now.
func (s *Consumers) PullCounts(ctx context.Context, topics []string, within []time.Duration) ([]scheduler.PullCount,
	error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	until := make([]message.Milli, len(within))
	for i, d := range within {
		until[i] = s.cfg.Clock.Milli() + message.Milli(d.Milliseconds())
	}
	counts, err := s.cfg.Timeline.Pulled(ctx, topics, until)
	return counts, scheduler.Looked("count messages for pull", err)
}

// View completes what is known of messages that consumers pull: which are ready, and who holds those that are leased.
// If the store does not answer, some stay as they are.
func (s *Consumers) View(ctx context.Context, infos ...*message.Info) error {
	now, known := s.cfg.Clock.Milli(), map[message.UID]*message.Info{}
	asked := map[message.Bucket][]message.UID{}
	for _, i := range infos {
		if i.Pull && (i.State == message.StateInFlight || i.State == message.StateWaiting && i.Due <= now) {
			n := i.UID.Bucket(s.cfg.Timeline.Buckets())
			known[i.UID], asked[n] = i, append(asked[n], i.UID)
		}
	}
	for n, uids := range asked {
		err := s.cfg.Admit()
		if err != nil {
			return err
		}
		leases, err := s.LeasesIn(ctx, n, uids...)
		if err != nil {
			return err
		}
		for _, uid := range uids {
			if one := leases[uid]; one != nil {
				known[uid].State, known[uid].Held = message.StateInFlight, &one.Holding
			} else if known[uid].State == message.StateWaiting {
				known[uid].State = message.StateReady
			}
		}
	}
	return nil
}

// What webhooks need beside Pull and Settle.

// Await waits until a message of a topic may be ready, which Pull then finds out. It asks nothing of the timeline but
// the pauses, so many topics may be awaited. It returns false once none will be ready within the time, or the topic is
// paused.
func (s *Consumers) Await(ctx context.Context, topic string, within time.Duration) bool {
	if paused, _, err := s.paused(ctx, topic); err == nil && paused {
		return false
	}
	_, err := s.polls.wait(ctx, scheduler.Poll{Topic: topic, Wait: within})
	return errors.Is(err, errMaybeReady)
}

// Upcoming tells the topics from which a message can be pulled within a time from now, bucket by bucket, without those
// that do not answer. It may tell a topic more often.
func (s *Consumers) Upcoming(ctx context.Context, within time.Duration, tell func(topic string)) error {
	var failed error
	for bucket := range s.cfg.Timeline.Buckets() {
		err := s.cfg.Admit()
		if err == nil && s.cfg.Watch.Answers(bucket) {
			var topics []string
			topics, err = s.cfg.Timeline.Upcoming(ctx, bucket, s.cfg.Clock.Milli().Add(within))
			for _, topic := range topics {
				tell(topic)
			}
		}
		failed = cmp.Or(failed, err)
	}
	return scheduler.Looked("list topics", failed)
}

// Failing notes that a webhook's target failed, or that it did not, and returns since when it has failed without a
// success, or the zero time.
func (s *Consumers) Failing(ctx context.Context, target string, failed bool,
	within time.Duration) (since time.Time, err error) {
	if err := s.cfg.Admit(); err != nil {
		return since, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	at := message.Milli(0)
	if failed {
		at = s.cfg.Clock.Milli()
	}
	first, err := s.cfg.Timeline.Failing(ctx, target, at, within)
	if err == nil && first > 0 {
		since = first.Time()
	}
	return since, err
}
