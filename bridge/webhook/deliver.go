package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/sync/semaphore"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// Target is where the messages of a pattern of topics are posted.
type Target struct {
	Pattern, URL string
	Secrets      []string      // as Standard Webhooks writes them
	Timeout      time.Duration // of one request; 0 is 10 s
	Concurrency  int           // requests at once, of this instance; 0 is 8
	Batch        int           // messages of one request; 0 posts each by itself, in its own form
	Headers      []string      // of messages, which go along though receivers may take them for rights or a proxy's word
}

// View returns how the targets do, by pattern, as this instance has seen it.
func (s *Service) View() []ops.Webhook {
	var all []ops.Webhook
	for pattern, t := range *s.targets.Load() {
		t.mu.Lock()
		w := ops.Webhook{Pattern: pattern, Outcome: t.last}
		if at, err := url.Parse(t.URL); err == nil { // what follows may be secret
			w.Target = at.Scheme + "://" + at.Host
		}
		if !t.lastAt.IsZero() {
			w.At = ops.FormatTime(t.lastAt.UnixMilli())
		}
		if t.failing && !t.since.IsZero() {
			w.FailingSince = ops.FormatTime(t.since.UnixMilli())
		}
		t.mu.Unlock()
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b ops.Webhook) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return all
}

// target is a Target in use.
type target struct {
	Target
	name    string // by which the store knows how it does
	timeout time.Duration
	signers []*standardwebhooks.Webhook
	slots   *semaphore.Weighted // requests
	// closed is until when this instance does not take its messages, in nanoseconds since 1970: it may not post to it.
	closed atomic.Int64

	line *line // of its topics

	mu      sync.Mutex
	failing bool // as noted last
	noted   time.Time
	since   time.Time // since when it fails, as the store said last
	last    string    // what came of the last request, and when
	lastAt  time.Time
}

const (
	timeoutDefault     = 10 * time.Second
	concurrencyDefault = 8
	// closedFor is how long an instance leaves alone what it may not post.
	closedFor = 5 * time.Second
	// leaseMore is how much longer than a request a lease is: to settle it, also while the store is away for a moment.
	leaseMore = 20 * time.Second
	// settlePause is the pause before a settlement that failed is repeated; it doubles up to settlePauseMost.
	settlePause     = 100 * time.Millisecond
	settlePauseMost = 2 * time.Second
	// noteEvery is how often the store is told that a target does as before, and noteLeast the least time between a
	// success and a failure that are both told.
	noteEvery = time.Minute
	noteLeast = time.Second
	// giveUp is how long a target may fail without a success before its topics are paused, as Svix does it
	// (docs.svix.com/retries).
	giveUp = 5 * 24 * time.Hour
	// apart is how long after a failure the next one begins anew: without requests nobody knows how a target does, and
	// after a pause it has as long again.
	apart = 24 * time.Hour
)

func newTarget(of Target) (*target, error) {
	sum := sha256.Sum256([]byte(of.Pattern + " " + of.URL))
	t := &target{Target: of, name: hex.EncodeToString(sum[:8]), timeout: cmp.Or(of.Timeout, timeoutDefault),
		slots: semaphore.NewWeighted(int64(cmp.Or(of.Concurrency, concurrencyDefault)))}
	for _, name := range of.Headers {
		if reserved(plain(name)) {
			return nil, fmt.Errorf("header %s belongs to the connection or to tarry", name)
		}
	}
	for i, secret := range of.Secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("secret number %d is not base64", i+1) // err would show a part of it
		}
		t.signers = append(t.signers, signer)
	}
	return t, nil
}

// take waits for a slot. For messages that are posted one by one it takes all that are free then. It returns how many;
// 0 once ctx has ended.
func (t *target) take(ctx context.Context) (n int) {
	if t.slots.Acquire(ctx, 1) != nil {
		return 0
	}
	for n = 1; t.Batch == 0 && t.slots.TryAcquire(1); n++ {
	}
	return n
}

// group are messages that one slot posts.
type group []*scheduler.PulledMessage

// groups divides messages among slots.
func (t *target) groups(found []scheduler.PulledMessage) (all []group) {
	for i := range found {
		if t.Batch == 0 || len(all) == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], &found[i])
	}
	return all
}

// deliver posts messages and settles them. What was tried before goes by itself, and so do the messages of a batch that
// failed for what may be in one of them: one that the target cannot take must not fail others again and again.
func (s *Service) deliver(ctx, posting context.Context, t *target, all group) {
	fresh, alone := group(nil), group(nil)
	for _, m := range all {
		if m.Attempt+m.Mark.Refusals > 1 {
			alone = append(alone, m)
		} else {
			fresh = append(fresh, m)
		}
	}
	if len(fresh) > 1 {
		fresh = s.hold(posting, t, fresh)
	}
	if len(fresh) > 1 {
		if v := s.post(posting, t, fresh); v.verb == scheduler.Ack || v.all {
			s.settle(posting, fresh, v)
			fresh = nil
		}
	}
	for alone = slices.Concat(fresh, alone); len(alone) > 0; alone = alone[1:] {
		if ctx.Err() != nil || t.closed.Load() > time.Now().UnixNano() { // it counts as no try
			s.settle(posting, alone, verdict{verb: scheduler.Release})
			return
		}
		if alone = s.hold(posting, t, alone); len(alone) == 0 {
			return
		}
		s.settle(posting, alone[:1], s.post(posting, t, alone[:1]))
	}
}

// hold extends leases that might end before the next request is over, and drops the messages that another consumer may
// have by now.
func (s *Service) hold(ctx context.Context, t *target, all group) (held group) {
	if all.until().After(s.cfg.Clock.Latest().Add(t.timeout + leaseMore/2)) {
		return all
	}
	results, errs := s.cfg.Source.Settle(ctx, all.orders(func(o *scheduler.Settlement, _ *scheduler.PulledMessage) {
		o.Verb, o.Lease = scheduler.Extend, t.timeout+leaseMore
	}))
	for i, m := range all {
		if errs[i] == nil && results[i].Code != scheduler.SettleLost {
			m.Until = results[i].Until
		}
		if m.Until.Time().After(s.cfg.Clock.Latest()) && (errs[i] != nil || results[i].Code != scheduler.SettleLost) {
			held = append(held, m)
		}
	}
	return held
}

// until is the end of the shortest lease.
func (g group) until() time.Time {
	return slices.MinFunc(g, func(a, b *scheduler.PulledMessage) int { return cmp.Compare(a.Until, b.Until) }).Until.Time()
}

// orders returns a settlement for each message, completed by set.
func (g group) orders(set func(o *scheduler.Settlement, m *scheduler.PulledMessage)) []scheduler.Settlement {
	all := make([]scheduler.Settlement, len(g))
	for i, m := range g {
		all[i].Receipt = scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}
		set(&all[i], m)
	}
	return all
}

// settle settles messages by a verdict, as often as it takes while their leases hold: what was posted and is not
// settled is posted again.
func (s *Service) settle(ctx context.Context, g group, v verdict) {
	orders := g.orders(func(o *scheduler.Settlement, m *scheduler.PulledMessage) {
		o.Verb, o.Reason = v.verb, v.reason
		schedule := s.cfg.Topics.Schedule(&m.Retry, m.Topic)
		if next, _ := schedule.After(int(m.Mark.Refusals) + 1); v.after > next {
			o.Delay = &v.after
		}
	})
	for pause := settlePause; ; pause = min(2*pause, settlePauseMost) {
		results, errs := s.cfg.Source.Settle(context.WithoutCancel(ctx), orders)
		err := errors.Join(errs...)
		for i := range results {
			if errs[i] == nil && results[i].Code == scheduler.SettleLost {
				err = errors.Join(err, errLost)
			}
		}
		if err == nil {
			return
		}
		if errors.Is(err, errLost) || ctx.Err() != nil || s.cfg.Clock.Latest().After(g.until()) {
			s.cfg.Log.Warn().Err(err).Str("topic", g[0].Topic).Int("messages", len(g)).
				Msg("a webhook could not settle all that it posted; it may be posted again")
			return
		}
		_ = scheduler.Sleep(ctx, pause)
	}
}

var errLost = errors.New("a lease was lost")

// note keeps in the store since when a target fails, and pauses its topics once that is for too long. An operator who
// resumes them gives it as long again.
func (s *Service) note(ctx context.Context, t *target, v verdict) {
	failed, every := v.verb != scheduler.Ack, noteEvery
	t.mu.Lock()
	t.last, t.lastAt = v.reason, time.Now()
	turned := failed != t.failing
	if turned {
		every = noteLeast
	}
	if time.Since(t.noted) < every && (failed || !turned) {
		t.mu.Unlock()
		return
	}
	t.failing, t.noted = failed, time.Now()
	t.mu.Unlock()
	since, err := s.cfg.Source.Failing(ctx, t.name, failed, apart)
	if err == nil {
		t.mu.Lock()
		t.since = since
		t.mu.Unlock()
	}
	log := s.cfg.Log.With().Str("pattern", t.Pattern).Time("since", since).AnErr("error", err).Logger()
	tell := func(detail string) {
		s.cfg.Events.Tell(scheduler.Event{Kind: scheduler.EventWebhook, Topic: t.Pattern, Detail: detail})
	}
	switch {
	case failed && err == nil && s.cfg.Clock.Now().Sub(since) >= giveUp:
		_, err := s.cfg.Source.Pause(ctx, t.Pattern, "a webhook, whose target fails since "+since.Format(time.RFC3339))
		if err == nil {
			_, err = s.cfg.Source.Failing(ctx, t.name, false, apart)
		}
		tell("its target has failed for five days: it is paused")
		log.Error().Err(err).Msg("a webhook's target has failed for five days: its topics are paused, see tarry resume")
	case failed:
		tell("its target fails: " + v.reason)
		log.Warn().Str("reason", v.reason).Msg("a webhook's target fails")
	case turned:
		tell("its target answers again")
		log.Info().Msg("a webhook's target answers again")
	}
}
