// Command listen is an ordinary NATS consumer, as deploy/container.sh needs one: plain nats.go, nothing of tarry.
//
// It takes the messages of one subject from core NATS, and of another from a stream that it makes, and prints a line
// for each:
//
//	<unix ms of arrival> <ms after the due time that the message names> <Nats-Msg-Id> <subject>
//
// "listening" on stderr says that nothing is missed from then on. It ends with 0 when --want different messages have
// come and nothing more for --quiet, with 1 when that takes longer than --within.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type options struct {
	url, core, stream, subject string
	want                       int
	within, quiet              time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.url, "url", nats.DefaultURL, "NATS server")
	flag.StringVar(&o.core, "core", "orders.>", "subject taken from core NATS")
	flag.StringVar(&o.stream, "stream", "BILLS", "stream to make, in memory")
	flag.StringVar(&o.subject, "subject", "bills.>", "subject of that stream")
	flag.IntVar(&o.want, "want", 1, "how many different messages must come")
	flag.DurationVar(&o.within, "within", time.Minute, "how long that may take")
	flag.DurationVar(&o.quiet, "quiet", 2*time.Second, "how long to wait for more than that")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := listen(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "listen:", err)
		stop()
		os.Exit(1)
	}
}

// arrival is a message and when it came.
type arrival struct {
	header  nats.Header
	subject string
	at      time.Time
}

func listen(ctx context.Context, o options) error {
	ctx, stop := context.WithTimeout(ctx, o.within)
	defer stop()
	nc, err := nats.Connect(o.url, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", o.url, err)
	}
	defer nc.Close()

	arrivals := make(chan arrival, 1024)
	hand := func(header nats.Header, subject string) {
		select {
		case arrivals <- arrival{header, subject, time.Now()}:
		case <-ctx.Done():
		}
	}
	if _, err := nc.Subscribe(o.core, func(m *nats.Msg) { hand(m.Header, m.Subject) }); err != nil {
		return fmt.Errorf("subscribe to %s: %w", o.core, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	consumer, err := consume(ctx, js, o)
	if err != nil {
		return err
	}
	pull, err := consumer.Consume(func(m jetstream.Msg) {
		hand(m.Headers(), m.Subject())
		_ = m.Ack() // a lost one brings the message again, with the same id
	})
	if err != nil {
		return fmt.Errorf("pull from %s: %w", o.stream, err)
	}
	defer pull.Stop()
	if err := nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("reach %s: %w", o.url, err)
	}
	fmt.Fprintln(os.Stderr, "listening")
	return collect(ctx, arrivals, o)
}

func consume(ctx context.Context, js jetstream.JetStream, o options) (jetstream.Consumer, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: o.stream, Subjects: []string{o.subject}, Storage: jetstream.MemoryStorage,
	})
	if err != nil {
		return nil, fmt.Errorf("make stream %s: %w", o.stream, err)
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return nil, fmt.Errorf("make a consumer of %s: %w", o.stream, err)
	}
	return consumer, nil
}

// collect prints what comes until enough has.
func collect(ctx context.Context, arrivals <-chan arrival, o options) error {
	seen := map[string]bool{}
	calm := time.NewTimer(o.within)
	defer calm.Stop()
	for {
		select {
		case a := <-arrivals:
			id := a.header.Get(nats.MsgIdHdr)
			due, err := strconv.ParseInt(a.header.Get("Tarry-Due"), 10, 64)
			if err != nil || id == "" {
				return fmt.Errorf("a message on %s has no due time or no id: %v", a.subject, a.header)
			}
			fmt.Printf("%d %.3f %s %s\n", a.at.UnixMilli(), float64(a.at.UnixMicro()-due*1000)/1000, id, a.subject)
			if seen[id] = true; len(seen) >= o.want {
				calm.Reset(o.quiet)
			}
		case <-calm.C:
			return nil
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d of %d messages came", len(seen), o.want), ctx.Err())
		}
	}
}
