package bridge

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// answerQueue publishes answers from a goroutine of its own: who has an
// outcome must not wait for a slow link.
type answerQueue struct {
	nc   *nats.Conn
	room *room
	log  zerolog.Logger
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []reaction
}

// reaction is the answer to one request.
type reaction struct {
	reply   string // empty: nobody waits for it
	body    []byte
	problem *wire.Problem
	size    int // of the request: the room that is free afterwards
}

func newAnswerQueue(nc *nats.Conn, room *room, log zerolog.Logger) *answerQueue {
	return &answerQueue{nc: nc, room: room, log: log, wake: make(chan struct{}, 1)}
}

// put never blocks. The queue is bounded by the room that the requests hold.
func (q *answerQueue) put(r reaction) {
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *answerQueue) run(ctx context.Context) error {
	for {
		select {
		case <-q.wake:
			q.flush()
		case <-ctx.Done():
			q.flush()
			_ = q.nc.FlushTimeout(time.Second) // on a lost connection nobody hears it anyway
			return nil
		}
	}
}

func (q *answerQueue) flush() {
	q.mu.Lock()
	taken := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for i := range taken {
		if r := &taken[i]; r.reply != "" {
			if err := q.nc.PublishMsg(r.message()); err != nil {
				q.log.Debug().Err(err).Msg("answer not sent")
			}
		}
		q.room.leave(1, int64(taken[i].size))
	}
}

func (r *reaction) message() *nats.Msg {
	msg := &nats.Msg{Subject: r.reply, Data: r.body}
	if r.problem != nil {
		msg.Header = nats.Header{headerErrorCode: {strconv.Itoa(r.problem.Status)}, headerError: {r.problem.Word}}
	}
	return msg
}

// problem returns an answer that refuses.
func (s *Service) problem(reply string, size int, p wire.Problem) reaction {
	return reaction{reply: reply, body: wire.AppendProblem(nil, &p), problem: &p, size: size}
}

// busy answers at once that there is no room for a request.
func (s *Service) busy(reply string) {
	if reply == "" {
		return
	}
	r := s.problem(reply, 0, wire.Problem{Status: http.StatusServiceUnavailable, Word: answer.WordBusy,
		Detail: "too many requests are under way; try again"})
	if err := s.nc.PublishMsg(r.message()); err != nil {
		s.log.Debug().Err(err).Msg("answer not sent")
	}
}
