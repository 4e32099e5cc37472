package bridge

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ackQueue publishes acknowledgements from a goroutine of its own: who has the
// outcome of a push must not wait for a slow link to NATS. An acknowledgement
// that is lost costs a redelivery, which changes nothing.
type ackQueue struct {
	nc   *nats.Conn
	room *room
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []ack
}

// ack is the answer to NATS for one push. Unless done is set, the push comes
// again: a forgotten field loses nothing.
type ack struct {
	reply string
	done  bool
	later time.Duration // where it is not done: how long the push stays away
	size  int           // of the room that is free afterwards
}

const (
	ackDone  = "+ACK"
	ackLater = `-NAK {"delay":`
	ackNow   = "-NAK"
)

func newAckQueue(nc *nats.Conn, room *room) *ackQueue {
	return &ackQueue{nc: nc, room: room, wake: make(chan struct{}, 1)}
}

// put never blocks. The queue is bounded by the room that its entries hold.
func (q *ackQueue) put(a ack) {
	q.mu.Lock()
	q.waiting = append(q.waiting, a)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *ackQueue) run(ctx context.Context) error {
	var spare []ack
	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			q.publish(q.take(nil))
			_ = q.nc.FlushTimeout(time.Second) // on a lost connection they come again
			return nil
		}
		taken := q.take(spare)
		q.publish(taken)
		clear(taken)
		spare = taken[:0]
	}
}

func (q *ackQueue) take(spare []ack) []ack {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.waiting
	q.waiting = spare
	return taken
}

func (q *ackQueue) publish(acks []ack) {
	if len(acks) == 0 {
		return
	}
	var size int64
	done := []byte(ackDone)
	for i := range acks {
		data := done
		if !acks[i].done {
			data = acks[i].again()
		}
		_ = q.nc.Publish(acks[i].reply, data) // not sent: the push comes again
		size += int64(acks[i].size)
	}
	q.room.leave(len(acks), size)
}

// again asks for another delivery.
func (a *ack) again() []byte {
	if a.later <= 0 {
		return []byte(ackNow)
	}
	return append(strconv.AppendInt([]byte(ackLater), a.later.Nanoseconds(), 10), '}')
}
