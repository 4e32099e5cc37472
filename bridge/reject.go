package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// rejectQueue publishes what cannot be accepted to the stream of rejects, from
// goroutines of its own, and acknowledges it only then. When that fails the
// push comes again later: nothing is lost, and good pushes do not wait.
type rejectQueue struct {
	in   *Intake
	said rejectLog
	wake chan struct{} // capacity rejectWorkers

	mu      sync.Mutex
	waiting []rejected
}

// rejected is a push and why it is refused.
type rejected struct {
	msg   jetstream.Msg
	place stored
	size  int
	err   error
}

const (
	rejectWorkers = 4
	rejectTimeout = 2 * time.Second
	rejectPause   = 5 * time.Second
)

func newRejectQueue(in *Intake) *rejectQueue {
	return &rejectQueue{in: in, said: rejectLog{log: in.log}, wake: make(chan struct{}, rejectWorkers)}
}

// refuse queues a push for the rejects. It never blocks; the room that the
// push holds bounds the queue.
func (in *Intake) refuse(r rejected) {
	q := in.refused
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *rejectQueue) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range rejectWorkers {
		group.Go(func() error {
			for {
				for r, ok := q.next(); ok; r, ok = q.next() {
					q.publish(ctx, r)
				}
				select {
				case <-q.wake:
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	return group.Wait()
}

func (q *rejectQueue) next() (rejected, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return rejected{}, false
	}
	r := q.waiting[0]
	q.waiting[0] = rejected{}
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return r, true
}

// publish stores one reject and ends its push.
func (q *rejectQueue) publish(ctx context.Context, r rejected) {
	in := q.in
	problem := answer.Problem(r.err)
	if err := in.store(ctx, &r, problem.Word); err != nil {
		if in.trouble.loud(time.Now()) {
			in.log.Warn().Err(err).Msg("rejects cannot be stored now; they wait in the intake")
		}
		in.metrics.retried.Inc()
		in.acks.put(ack{reply: r.msg.Reply(), later: rejectPause, size: r.size})
		return
	}
	in.metrics.rejected.WithLabelValues(problem.Word).Inc()
	q.said.say(time.Now(), r.msg.Subject(), problem.Word, r.place.sequence)
	in.acks.put(ack{reply: r.msg.Reply(), done: true, size: r.size})
}

// store publishes a reject: whole, or where the stream will not have it so,
// the reason alone. A stream that somebody deleted is made again.
func (in *Intake) store(ctx context.Context, r *rejected, word string) error {
	ctx, stop := context.WithTimeout(ctx, rejectTimeout)
	defer stop()
	// A push that comes again, because its acknowledgement was lost, is one reject.
	id := fmt.Sprintf("%s-%d-%d", in.stream, r.place.at.UnixNano(), r.place.sequence)
	msg := in.reject(r, word)
	_, err := in.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		err = errors.Join(err, in.ensure(ctx, in.wantedRejects()))
	case errors.As(err, &refused):
		bare := nats.NewMsg(msg.Subject)
		bare.Header[wire.HeaderReason] = []string{msg.Header[wire.HeaderReason][0] + notWhole}
		bare.Header[wire.HeaderSubject] = msg.Header[wire.HeaderSubject]
		_, err = in.js.PublishMsg(ctx, bare, jetstream.WithMsgID(id))
	}
	return err
}

const (
	// rejectOwn is what a reject needs beyond what was sent: the two headers of
	// ours, the message id, and the frame.
	rejectOwn = 1024
	// rejectHeaders bounds all headers: a stream takes no more than 64 KiB.
	rejectHeaders = 60 << 10
	notWhole      = "; not all of it fits here"
)

// reject is a push as it stands among the rejects: with the reason, and of its
// headers and its body as much as fits into one message. Headers that would
// act on the stream of rejects, or that no client could have sent, stay behind.
func (in *Intake) reject(r *rejected, word string) *nats.Msg {
	msg := nats.NewMsg(RejectsSubject(in.cfg.Namespace))
	reason := word + ": " + oneLine(r.err.Error())
	own := rejectOwn + len(r.msg.Subject()) + len(reason)
	room := int(in.nc.MaxPayload()) - own
	if body := r.msg.Data(); len(body) <= room {
		msg.Data = body
		room -= len(body)
	} else {
		reason += notWhole
	}
	room = min(room, rejectHeaders-own)
	for name, values := range r.msg.Headers() {
		if !wire.IsHeaderName(name) || strings.HasPrefix(strings.ToLower(name), "nats-") ||
			strings.EqualFold(name, wire.HeaderReason) || strings.EqualFold(name, wire.HeaderSubject) {
			continue
		}
		cost := 0
		for _, v := range values {
			cost += len(name) + len(v) + len(": \r\n")
		}
		if cost <= room {
			room -= cost
			msg.Header[name] = values
		} else if !strings.HasSuffix(reason, notWhole) {
			reason += notWhole
		}
	}
	msg.Header[wire.HeaderReason] = []string{reason}
	msg.Header[wire.HeaderSubject] = []string{r.msg.Subject()}
	return msg
}

// oneLine bounds a text for a header. Values in it are quoted already.
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
