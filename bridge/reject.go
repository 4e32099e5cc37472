package bridge

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

const (
	rejectWorkers = 4
	rejectTimeout = 2 * time.Second
	rejectPause   = 5 * time.Second
)

// storeRejects publishes pushes that cannot be accepted to the stream of rejects, from its own goroutines, and
// acknowledges them only then. If that fails the push is redelivered later: nothing is lost, and good pushes do not
// wait.
func (in *Intake) storeRejects(ctx context.Context) {
	var workers sync.WaitGroup
	for range rejectWorkers {
		workers.Go(func() { in.refused.run(ctx, 1, func(one []arrival) { in.reject(ctx, one[0]) }) })
	}
	workers.Wait()
}

// reject stores one reject and finishes its push.
func (in *Intake) reject(ctx context.Context, r arrival) {
	if err := in.store(ctx, &r); err != nil {
		if in.trouble.loud(time.Now()) {
			in.log.Warn().Err(err).Msg("rejects cannot be stored now; they wait in the intake")
		}
		in.metrics.retried.Inc()
		in.acks.put(ack{reply: r.msg.Reply, later: rejectPause, size: r.size})
		return
	}
	in.acks.put(ack{reply: r.msg.Reply, done: true, size: r.size})
}

// store publishes a reject, counts it and logs it.
func (in *Intake) store(ctx context.Context, r *arrival) error {
	word := answer.Problem(r.err).Word
	if err := in.publishReject(ctx, r, word); err != nil {
		return err
	}
	in.metrics.rejected.WithLabelValues(word).Inc()
	in.said.say(time.Now(), r.msg.Subject, word, r.place.sequence)
	return nil
}

// publishReject publishes a reject: whole or, if the stream refuses that, only the reason, marked as incomplete. A
// deleted stream is created again.
func (in *Intake) publishReject(ctx context.Context, r *arrival, word string) error {
	ctx, stop := context.WithTimeout(ctx, rejectTimeout)
	defer stop()
	id := rejectID(in.stream, r.place)
	msg := in.whole(r, word)
	fits, err := in.makeRoom(ctx, msg)
	if err != nil {
		return err
	}
	if !fits {
		msg = in.bare(r, word)
	}
	_, err = in.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		err = errors.Join(err, in.ensure(ctx, in.wantedRejects()))
	case errors.As(err, &refused):
		_, err = in.js.PublishMsg(ctx, in.bare(r, word), jetstream.WithMsgID(id))
	}
	return err
}

// bare returns a reject without any part of the push.
func (in *Intake) bare(r *arrival, word string) *nats.Msg {
	msg := in.rejectOf(r)
	in.annotate(msg, r, reason(r, word), false)
	return msg
}

// rejectOf returns an empty message on the subject of a reject.
func (in *Intake) rejectOf(r *arrival) *nats.Msg {
	return nats.NewMsg(RejectsSubject(in.cfg.Namespace) + "." + firstToken(r.msg.Subject, in.cfg.Prefix))
}

// reason returns the reason of a refusal, starting with its word.
func reason(r *arrival, word string) string { return word + ": " + oneLine(r.err.Error()) }

// annotate adds the reason and the original subject to a reject. If the reject is incomplete, a header says so for
// programs and the reason for people.
func (in *Intake) annotate(msg *nats.Msg, r *arrival, reason string, whole bool) {
	if !whole {
		reason += notWhole
		msg.Header[wire.HeaderIncomplete] = []string{"true"}
	}
	msg.Header[wire.HeaderReason] = []string{reason}
	msg.Header[wire.HeaderSubject] = []string{in.subject(r)}
}

// subject returns the intake subject of a push or, for a retry that a consumer pushed to a partition, that of the whole
// topic: the push lacks the header that names it once it is a reject.
func (in *Intake) subject(r *arrival) string {
	tagged, err := wire.Decode(r.msg.Subject, in.cfg.Prefix, r.msg.Header, len(r.msg.Data))
	if err == nil {
		if topic := wholeTopic(in.cfg.Topics, &tagged, r.msg.Header.Get(wire.HeaderSubject)); topic != "" {
			return wire.IntakeSubject(in.cfg.Prefix, topic)
		}
	}
	return r.msg.Subject
}

// rejectShare is the fraction of the stream of rejects that the large rejects of one subject may occupy, so that one
// producer cannot displace the rejects of all others.
const rejectShare = 8

// makeRoom drops older rejects of the same subject if the maximum number of rejects, at the size of this one, would
// exceed the subject's share. NATS itself bounds only their number. makeRoom reports whether the reject fits: a reject
// larger than the share keeps no part of the push.
func (in *Intake) makeRoom(ctx context.Context, msg *nats.Msg) (fits bool, err error) {
	share, size := in.cfg.RejectBytes/rejectShare, int64(msg.Size())
	fit := share / size
	switch {
	case fit >= in.cfg.RejectsPerSubject:
		return true, nil
	case fit == 0:
		return false, nil
	}
	var purged struct{}
	err = apiAsk(ctx, in.nc, "$JS.API.STREAM.PURGE."+in.rejects, purge{Filter: msg.Subject, Keep: fit - 1}, &purged)
	var refused *streamError
	if errors.As(err, &refused) && refused.ErrCode == codeStreamNotFound {
		return true, nil // the publish then fails as well, and the stream is created again
	}
	return true, err
}

// purge is a request to drop a subject's messages: all but the newest Keep, if Keep is not 0, or those below a
// sequence.
type purge struct {
	Filter string `json:"filter"`
	Keep   int64  `json:"keep,omitempty"`
	Below  uint64 `json:"seq,omitempty"`
}

const (
	// rejectOwn is the space that a reject needs in addition to the push: two headers of ours, the message id, and the
	// framing.
	rejectOwn = 1024
	// rejectHeaders bounds all headers: a stream accepts no more than 64 KiB.
	rejectHeaders = 60 << 10
	notWhole      = "; not all of it fits here"
)

// whole returns a push in the form of a reject: with the reason, and as much of its headers and its body as fits into
// one message. It omits headers that would act on the stream of rejects or on its readers, or that no client could have
// sent.
func (in *Intake) whole(r *arrival, word string) *nats.Msg {
	msg, reason := in.rejectOf(r), reason(r, word)
	own := rejectOwn + len(r.msg.Subject) + len(reason)
	room, whole := int(in.nc.MaxPayload())-own, true
	if body := r.msg.Data; len(body) <= room {
		msg.Data = body
		room -= len(body)
	} else {
		whole = false
	}
	room = min(room, rejectHeaders-own)
	for name, values := range r.msg.Header {
		if !wire.IsHeaderName(name) || strings.HasPrefix(strings.ToLower(name), "nats-") ||
			strings.EqualFold(name, wire.HeaderReason) || strings.EqualFold(name, wire.HeaderSubject) ||
			strings.EqualFold(name, wire.HeaderIncomplete) ||
			strings.EqualFold(name, headerStatus) && len(msg.Data) == 0 {
			continue
		}
		cost := 0
		for _, v := range values {
			cost += len(name) + len(v) + len(": \r\n")
		}
		if cost <= room {
			room -= cost
			msg.Header[name] = values
		} else {
			whole = false
		}
	}
	in.annotate(msg, r, reason, whole)
	return msg
}

// firstToken returns the first token of the topic that an intake subject names.
func firstToken(subject, prefix string) string {
	topic := strings.TrimPrefix(strings.TrimPrefix(subject, prefix), ".")
	first, _, _ := strings.Cut(topic, ".")
	return first
}

// oneLine makes a text fit for a header: it truncates the text and replaces control characters. Values in the text are
// already quoted.
func oneLine(s string) string {
	const limit = 300
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
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
