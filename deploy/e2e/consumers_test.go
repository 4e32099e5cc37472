package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Where the load's messages are due: under jobs. a stream holds them, under bells. it is core NATS.
const (
	streamName    = "JOBS"
	streamSubject = "jobs."
	coreSubject   = "bells."
)

// consume starts the consumers: some workers of a durable pull consumer, and some of a queue group. They know nothing
// of tarry: but for the lab, the import list of this file is the one of any Go consumer.
func (s *site) consume(h *history) {
	s.t.Helper()
	s.queue(h)
	s.stream(streamName, streamSubject+">")
	for w := range workers {
		s.pull(h, fmt.Sprintf("stream worker %d", w))
	}
}

const workers = 2

// queue starts the queue group alone.
func (s *site) queue(h *history) {
	s.t.Helper()
	for w := range workers {
		nc := s.connect(fmt.Sprintf("core worker %d", w))
		sub, err := nc.QueueSubscribe(coreSubject+">", "workers", func(m *nats.Msg) {
			h.arrived(m.Subject, m.Header, m.Data, 0)
		})
		if err != nil {
			s.t.Fatal(err)
		}
		s.workers = append(s.workers, worker{nc, sub})
		if err := nc.Flush(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// worker is one of the queue group.
type worker struct {
	nc  *nats.Conn
	sub *nats.Subscription
}

// caughtUp waits until the queue group has seen all that nats-server sent it so far.
func (s *site) caughtUp() {
	s.t.Helper()
	lab.Eventually(s.t, patience, func() error {
		for _, w := range s.workers {
			if err := w.nc.FlushTimeout(patience); err != nil {
				return err
			}
			if n, _, err := w.sub.Pending(); err != nil || n > 0 {
				return fmt.Errorf("%d messages are before a worker: %w", n, err)
			}
		}
		return nil
	})
}

// stream makes a stream with the server's usual duplicate window of two minutes.
func (s *site) stream(name, subjects string) {
	s.t.Helper()
	js := openJetStream(s.t, s.connect("owner of "+name))
	if _, err := js.CreateStream(
		s.t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subjects}}); err != nil {
		s.t.Fatal(err)
	}
}

// pull adds a worker to the durable pull consumer.
func (s *site) pull(h *history, name string) {
	s.t.Helper()
	js := openJetStream(s.t, s.connect(name))
	consumer, err := js.CreateOrUpdateConsumer(s.t.Context(), streamName, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 5 * time.Second, MaxAckPending: 5000,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	running, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			s.t.Error(err)
			return
		}
		h.arrived(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream)
		_ = m.Ack() // a lost one brings the message again, under the same sequence
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(running.Stop)
}

func openJetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// onceStored reads the whole stream, past every consumer: no Nats-Msg-Id may be in it twice.
func (s *site) onceStored() {
	s.t.Helper()
	ctx := s.t.Context()
	js := openJetStream(s.t, s.connect("auditor"))
	stream, err := js.Stream(ctx, streamName)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	auditor, err := js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	at := map[string]uint64{}
	for n := uint64(0); n < info.State.Msgs; {
		batch, err := auditor.Fetch(int(min(info.State.Msgs-n, 500)), jetstream.FetchMaxWait(patience))
		if err != nil {
			s.t.Fatal(err)
		}
		for m := range batch.Messages() {
			n++
			meta, err := m.Metadata()
			if err != nil {
				s.t.Fatal(err)
			}
			id := m.Headers().Get(nats.MsgIdHdr)
			if first, twice := at[id]; twice {
				s.t.Errorf("%s is stored at %d and at %d", id, first, meta.Sequence.Stream)
			}
			at[id] = meta.Sequence.Stream
		}
		if err := batch.Error(); err != nil {
			s.t.Fatal(err)
		}
	}
	if len(at) == 0 {
		s.t.Error("the stream is empty")
	}
}
