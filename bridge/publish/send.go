package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// sendStep is the number of messages that share one reading of the clock and of the routes and, on core, one barrier.
// It is small, so that the first outcomes of a large batch arrive early.
const sendStep = 64

// Send publishes the batch in order. done is called once for each message: for some before Send returns, for the others
// from the goroutine that has the answer, the last of them a publish time-out later. Before each message Send checks
// ctx and the lease: once either has ended, the remaining messages are NotSent.
func (p *Publisher) Send(ctx context.Context, batch []*message.Message,
	done func(*message.Message, scheduler.Outcome)) {
	s := sending{p: p, done: done, headers: headerWriter{space: p.space}, topics: topicLook{all: p.cfg.Topics}}
	for len(batch) > 0 {
		n := min(len(batch), sendStep)
		if err := s.step(ctx, batch[:n]); err != nil {
			for _, m := range batch[s.next:] {
				s.finish(m, scheduler.NotSent, err)
			}
			return
		}
		batch = batch[n:]
	}
}

// sending is one call of Send.
type sending struct {
	p       *Publisher
	done    func(*message.Message, scheduler.Outcome)
	headers headerWriter
	msg     nats.Msg
	reply   []byte
	topics  topicLook
	core    []token // the step's publishes whose outcome a barrier decides
	next    int     // the first message of the step that was not handed over
}

// step sends one part of the batch. An error means that the messages from next on were not sent and that no more can be
// sent.
func (s *sending) step(ctx context.Context, part []*message.Message) (err error) {
	p := s.p
	s.next, s.core = 0, nil
	routes := p.routes.Load()
	if routes == nil || !p.Ready() {
		return errNotReady
	}
	now := time.Now()
	for _, m := range part {
		if err = p.may(ctx); err != nil {
			break
		}
		subject, drop := s.topics.of(m)
		to := p.route(routes, subject)
		if to == nil && routes.unsure {
			s.next++
			s.finish(m, scheduler.Unanswered, errUnsure)
			continue
		}
		t, ok := p.pending.add(
			entry{message: m, subject: subject, done: s.done, to: to, noReply: drop && to == nil}, now)
		if !ok {
			err = errTableFull
			break
		}
		s.next++
		if to == nil {
			s.core = append(s.core, t)
		}
		s.publish(m, subject, t, drop && to == nil)
	}
	if len(s.core) > 0 {
		s.barrier(now)
	}
	return err
}

// route returns the stream that receives the subject's messages, or nil for core NATS.
func (p *Publisher) route(routes *routes, subject string) *route {
	if to := p.hidden.route(subject); to != nil {
		return to
	}
	return routes.match(subject)
}

// may returns the reason why the next message may not leave, or nil.
func (p *Publisher) may(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.cfg.Lease != nil && p.cfg.Lease(ctx) <= 0 {
		return errNoLease
	}
	return nil
}

// publish hands one message to the client. A message that fails here is taken out of the table again, unless that has
// happened already. Without a reply subject the server cannot report the lack of a listener: the barrier then only
// shows that the server has received the message.
func (s *sending) publish(m *message.Message, subject string, t token, noReply bool) {
	s.msg.Subject, s.msg.Data = subject, m.Body
	s.msg.Header = s.headers.write(m, subject, s.topics.retry(m))
	s.msg.Reply = ""
	if !noReply {
		s.msg.Reply = s.replyTo(t)
	}
	err := s.p.nc.PublishMsg(&s.msg)
	if err == nil {
		return
	}
	if e, ok := s.p.pending.take(t); ok {
		s.finish(e.message, classifySend(err), fmt.Errorf("publish to %s: %w", subject, err))
	}
}

// barrier sends a message to ourselves behind the step's core publishes. When it is back, every publish that was not
// refused had a listener.
func (s *sending) barrier(now time.Time) {
	t, ok := s.p.pending.add(entry{behind: s.core}, now)
	err := errTableFull
	if ok {
		if err = s.p.nc.Publish(s.replyTo(t), nil); err == nil {
			return
		}
		s.p.pending.take(t)
	}
	// Without a barrier their outcome is unknown.
	s.p.resolve(s.p.pending.takeAll(s.core, nil),
		scheduler.Outcome{Kind: scheduler.Unknown, Err: fmt.Errorf("ask for the end of a batch: %w", err)})
}

func (s *sending) replyTo(t token) string {
	s.reply = appendToken(append(s.reply[:0], s.p.inbox...), t)
	return string(s.reply)
}

func (s *sending) finish(m *message.Message, kind scheduler.OutcomeKind, err error) {
	s.p.metrics.outcomes[kind].Inc()
	s.done(m, scheduler.Outcome{Kind: kind, Err: err})
}
