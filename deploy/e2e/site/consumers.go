package site

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Where the load's messages are due: under jobs. a stream holds them, under bells. it is core NATS.
const (
	StreamName    = "JOBS"
	StreamSubject = "jobs."
	CoreSubject   = "bells."
)

// Consume starts the consumers: some workers of a durable pull consumer, and some of a queue group. They know nothing
// of tarry: but for the lab, the import list of this file is the one of any Go consumer.
func (s *Site) Consume(h *History) {
	s.T.Helper()
	s.Queue(h)
	s.Stream(StreamName, StreamSubject+">")
	for w := range workers {
		s.pull(h, fmt.Sprintf("stream worker %d", w))
	}
}

const workers = 2

// Queue starts the queue group alone.
func (s *Site) Queue(h *History) {
	s.T.Helper()
	for w := range workers {
		nc := s.Connect(fmt.Sprintf("core worker %d", w))
		handled := new(atomic.Int64)
		sub, err := nc.QueueSubscribe(CoreSubject+">", "workers", func(m *nats.Msg) {
			h.arrived(m.Subject, m.Header, m.Data, 0)
			handled.Add(1)
		})
		if err != nil {
			s.T.Fatal(err)
		}
		s.workers = append(s.workers, worker{nc, sub, handled})
		if err := nc.Flush(); err != nil {
			s.T.Fatal(err)
		}
	}
}

// worker is one of the queue group.
type worker struct {
	nc      *nats.Conn
	sub     *nats.Subscription
	handled *atomic.Int64 // messages
}

// CaughtUp waits until the queue group has seen all that nats-server sent it so far.
func (s *Site) CaughtUp() {
	s.T.Helper()
	lab.Eventually(s.T, Patience, func() error {
		for _, w := range s.workers {
			if err := w.nc.FlushTimeout(Patience); err != nil {
				return err
			}
			if n, _, err := w.sub.Pending(); err != nil || n > 0 {
				return fmt.Errorf("%d messages are before a worker: %w", n, err)
			}
			// What it has taken it may not have noted yet: on a busy machine that lasts.
			if n, err := w.sub.Delivered(); err != nil || n > w.handled.Load() {
				return fmt.Errorf("a worker has noted %d of %d messages: %w", w.handled.Load(), n, err)
			}
		}
		return nil
	})
}

// Stream makes a stream with the server's usual duplicate window of two minutes.
func (s *Site) Stream(name, subjects string) {
	s.T.Helper()
	js := OpenJetStream(s.T, s.Connect("owner of "+name))
	if _, err := js.CreateStream(
		s.T.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subjects}}); err != nil {
		s.T.Fatal(err)
	}
}

// pull adds a worker to the durable pull consumer.
func (s *Site) pull(h *History, name string) {
	s.T.Helper()
	js := OpenJetStream(s.T, s.Connect(name))
	consumer, err := js.CreateOrUpdateConsumer(s.T.Context(), StreamName, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 5 * time.Second, MaxAckPending: 5000,
	})
	if err != nil {
		s.T.Fatal(err)
	}
	running, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			s.T.Error(err)
			return
		}
		h.arrived(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream)
		_ = m.Ack() // a lost one brings the message again, under the same sequence
	})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(running.Stop)
}

func OpenJetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// PublishStored publishes a message until a stream has it: a daemon that is ready may not have made its own yet, and
// what no stream takes is lost.
func PublishStored(t testing.TB, nc *nats.Conn, m *nats.Msg) {
	t.Helper()
	js := OpenJetStream(t, nc)
	lab.Eventually(t, Patience, func() error {
		_, err := js.PublishMsg(t.Context(), m)
		return err
	})
}

// OnceStored reads the whole stream, past every consumer: no Nats-Msg-Id may be in it twice.
func (s *Site) OnceStored() {
	s.T.Helper()
	ctx := s.T.Context()
	js := OpenJetStream(s.T, s.Connect("auditor"))
	stream, err := js.Stream(ctx, StreamName)
	if err != nil {
		s.T.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		s.T.Fatal(err)
	}
	auditor, err := js.OrderedConsumer(ctx, StreamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.T.Fatal(err)
	}
	at := map[string]uint64{}
	for n := uint64(0); n < info.State.Msgs; {
		batch, err := auditor.Fetch(int(min(info.State.Msgs-n, 500)), jetstream.FetchMaxWait(Patience))
		if err != nil {
			s.T.Fatal(err)
		}
		for m := range batch.Messages() {
			n++
			meta, err := m.Metadata()
			if err != nil {
				s.T.Fatal(err)
			}
			id := m.Headers().Get(nats.MsgIdHdr)
			if first, twice := at[id]; twice {
				s.T.Errorf("%s is stored at %d and at %d", id, first, meta.Sequence.Stream)
			}
			at[id] = meta.Sequence.Stream
		}
		if err := batch.Error(); err != nil {
			s.T.Fatal(err)
		}
	}
	if len(at) == 0 {
		s.T.Error("the stream is empty")
	}
}
