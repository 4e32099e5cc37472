package bridge

import (
	"context"
	"errors"
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
	msg   *nats.Msg
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
		in.acks.put(ack{reply: r.msg.Reply, later: rejectPause, size: r.size})
		return
	}
	in.metrics.rejected.WithLabelValues(problem.Word).Inc()
	q.said.say(time.Now(), r.msg.Subject, problem.Word, r.place.sequence)
	in.acks.put(ack{reply: r.msg.Reply, done: true, size: r.size})
}

// store publishes a reject: whole, or where the stream will not have it so,
// the reason alone, marked as incomplete. A stream that somebody deleted is made again.
func (in *Intake) store(ctx context.Context, r *rejected, word string) error {
	ctx, stop := context.WithTimeout(ctx, rejectTimeout)
	defer stop()
	id := rejectID(in.stream, r.place)
	msg := in.reject(r, word)
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

// bare is a reject without anything of what was sent.
func (in *Intake) bare(r *rejected, word string) *nats.Msg {
	msg := in.rejectOf(r)
	explain(msg, r, reason(r, word), false)
	return msg
}

// rejectOf is an empty message on the subject of a reject.
func (in *Intake) rejectOf(r *rejected) *nats.Msg {
	return nats.NewMsg(RejectsSubject(in.cfg.Namespace) + "." + firstToken(r.msg.Subject, in.cfg.Prefix))
}

// reason is why a push is refused, its word first.
func reason(r *rejected, word string) string { return word + ": " + oneLine(r.err.Error()) }

// explain gives a reject its reason and where it was sent. Where it is not whole, a
// header says so to programs and the reason to people.
func explain(msg *nats.Msg, r *rejected, reason string, whole bool) {
	if !whole {
		reason += notWhole
		msg.Header[wire.HeaderIncomplete] = []string{"true"}
	}
	msg.Header[wire.HeaderReason] = []string{reason}
	msg.Header[wire.HeaderSubject] = []string{r.msg.Subject}
}

// rejectShare is the part of the stream of rejects that the large ones of one
// subject may take, so that one producer cannot push out everybody else's.
const rejectShare = 8

// makeRoom drops older rejects of the same subject where all that may stand
// there, at the size of this one, would take more than the subject's share. NATS
// itself bounds only their number. It reports whether the reject fits: one that is
// larger than the share keeps nothing of what was sent.
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
		return true, nil // the publish says so as well, and it is made again
	}
	return true, err
}

// purge asks for all but the newest of a subject to be dropped, where Keep is not 0, or
// for those below a sequence.
type purge struct {
	Filter string `json:"filter"`
	Keep   int64  `json:"keep,omitempty"`
	Below  uint64 `json:"seq,omitempty"`
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
// act on the stream of rejects or on its readers, or that no client could have
// sent, stay behind.
func (in *Intake) reject(r *rejected, word string) *nats.Msg {
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
	explain(msg, r, reason, whole)
	return msg
}

// firstToken is that of the topic which an intake subject names.
func firstToken(subject, prefix string) string {
	topic := strings.TrimPrefix(strings.TrimPrefix(subject, prefix), ".")
	first, _, _ := strings.Cut(topic, ".")
	return first
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
