package intake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/rejects"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	rejectWorkers = 4
	rejectPause   = 5 * time.Second
)

// storeRejects publishes pushes that cannot be accepted to the stream of rejects, from its own goroutines, and
// acknowledges them only then. If that fails the push is redelivered later: nothing is lost, and good pushes do not
// wait.
func (in *Intake) storeRejects(ctx context.Context) {
	var workers sync.WaitGroup
	for range rejectWorkers {
		workers.Go(func() { in.refused.Run(ctx, 1, func(one []arrival) { in.reject(ctx, one[0]) }) })
	}
	workers.Wait()
}

// reject stores one reject and finishes its push.
func (in *Intake) reject(ctx context.Context, r arrival) {
	if err := in.keep(ctx, &r); err != nil {
		if in.trouble.loud(time.Now()) {
			in.log.Warn().Err(err).Msg("rejects cannot be stored now; they wait in the intake")
		}
		in.metrics.retried.Inc()
		in.acks.Put(ack{reply: r.msg.Reply, later: rejectPause, size: r.size})
		return
	}
	in.acks.Put(ack{reply: r.msg.Reply, done: true, size: r.size})
}

// keep keeps a reject, whichever way its push came: in the journal, if there is one, and in the stream of rejects.
func (in *Intake) keep(ctx context.Context, r *arrival) error {
	if err := in.record(ctx, r); err != nil { // first: what is stored twice shows twice
		return err
	}
	return in.store(ctx, r)
}

// record records a reject in the journal, if one is kept.
func (in *Intake) record(ctx context.Context, r *arrival) (err error) {
	if in.cfg.Reject == nil {
		return nil
	}
	body := r.msg.Data
	p := &scheduler.Rejected{Topic: in.rejects.Topic(r.msg), Size: len(body), Digest: sha256.Sum256(body),
		Body: body[:min(len(body), scheduler.MaxRejectBody)]}
	if id := r.msg.Header.Get(wire.HeaderID); wire.CheckID(id) == nil {
		p.ID = id
	}
	if p.UID = r.uid; p.UID == "" {
		if p.UID, err = r.place.UID(p.ID, ""); err != nil {
			return fmt.Errorf("record a reject: %w", err)
		}
	}
	_, p.Reason = rejects.Reason(r.err)
	return in.cfg.Reject(ctx, p)
}

// store publishes a reject, counts it and logs it.
func (in *Intake) store(ctx context.Context, r *arrival) error {
	word, err := in.rejects.Put(ctx, r.msg, r.place, r.err)
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // the stream was deleted
		ctx, stop := context.WithTimeout(ctx, link.APITimeout)
		defer stop()
		err = errors.Join(err, in.ensure(ctx, in.wantedRejects()))
	}
	if err != nil {
		return err
	}
	in.metrics.rejected.WithLabelValues(word).Inc()
	in.said.say(time.Now(), r.msg.Subject, word, r.place.Sequence)
	in.cfg.Events.Tell(scheduler.Event{Kind: scheduler.EventRejected, Topic: in.rejects.Topic(r.msg), Detail: word})
	return nil
}

// rejectLog logs warnings of refused pushes, because their producers have already received the intake's
// acknowledgement. It limits the warnings, so that a producer whose pushes are all wrong does not fill the log.
type rejectLog struct {
	log zerolog.Logger

	mu      sync.Mutex
	spoke   time.Time
	leftOut uint64 // since then
}

// rejectQuiet is the minimum time between two warnings.
const rejectQuiet = time.Second

// say logs a warning of one refused push, or counts it for the next warning.
func (l *rejectLog) say(now time.Time, subject, reason string, sequence uint64) {
	leftOut, loud := l.turn(now)
	if !loud {
		l.log.Debug().Str("subject", subject).Str("reason", reason).Uint64("sequence", sequence).Msg("push rejected")
		return
	}
	event := l.log.Warn().Str("subject", subject).Str("reason", reason).Uint64("sequence", sequence)
	if leftOut > 0 {
		event = event.Uint64("left_out", leftOut)
	}
	event.Msg("push rejected; it is in the stream of rejects")
}

// dropped logs a warning of rejects that made room for newer ones.
func (l *rejectLog) dropped(subject string, n int) {
	if leftOut, loud := l.turn(time.Now()); loud {
		l.log.Warn().Str("subject", subject).Int("rejects", n).Uint64("left_out", leftOut).Msg(
			"the stream of rejects is at its limit and dropped the oldest; a journal has them")
	}
}

// turn reports whether it is time to warn, and how many refusals had no warning.
func (l *rejectLog) turn(now time.Time) (leftOut uint64, loud bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.spoke) < rejectQuiet {
		l.leftOut++
		return 0, false
	}
	leftOut, l.leftOut, l.spoke = l.leftOut, 0, now
	return leftOut, true
}
