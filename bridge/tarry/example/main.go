// Command example is a producer of delayed messages: it publishes orders that consumers of an ordinary subject see
// later, and prints one line of JSON for each that is stored. Run tarry, subscribe to the subject, and start it:
//
//	nats sub orders.remind &
//	go run -C bridge/tarry ./example -delay 2s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry"
)

// order is what this producer sends.
type order struct {
	Order string `json:"order"`
	Text  string `json:"text"`
}

// line is what it prints for each message that is stored.
type line struct {
	ID       string    `json:"id"`
	Subject  string    `json:"subject"`
	Delay    string    `json:"delay"`
	Sent     time.Time `json:"sent"`
	Stored   time.Time `json:"stored"`
	Stream   string    `json:"stream,omitempty"`
	Sequence uint64    `json:"sequence,omitempty"`
}

type settings struct {
	url, subject, id, prefix, namespace string
	delay                               time.Duration
	count                               int
	jetStream                           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// parse reads flags; the environment gives their defaults.
func parse(args []string, env func(string) string) (settings, error) {
	or := func(name, value string) string {
		if v := env(name); v != "" {
			return v
		}
		return value
	}
	var (
		s     settings
		flags = flag.NewFlagSet("example", flag.ContinueOnError)
		delay = flags.String("delay", or("DELAY", "2s"), "how long each message waits (DELAY)")
		count = flags.String("count", or("COUNT", "1"), "how many to publish (COUNT)")
		js    = flags.Bool("jetstream", env("JETSTREAM") == "true",
			"publish through a JetStream context (JETSTREAM=true)")
		err error
	)
	flags.StringVar(&s.url, "url", or("NATS_URL", nats.DefaultURL), "NATS server (NATS_URL)")
	flags.StringVar(&s.subject, "subject", or("SUBJECT", "orders.remind"), "where the messages are due (SUBJECT)")
	flags.StringVar(&s.id, "id", or("ID", "order-"+strconv.FormatInt(time.Now().UnixMilli(), 10)),
		"the messages are called ID-1, ID-2, ... (ID)")
	flags.StringVar(&s.prefix, "prefix", or("PREFIX", "delayed"), "tarry's setting nats.prefix (PREFIX)")
	flags.StringVar(&s.namespace, "namespace", or("NAMESPACE", "default"), "tarry's setting namespace (NAMESPACE)")
	if err = flags.Parse(args); err != nil {
		return s, err
	}
	if s.delay, err = time.ParseDuration(*delay); err != nil {
		return s, fmt.Errorf("read -delay: %w", err)
	}
	if s.count, err = strconv.Atoi(*count); err != nil || s.count < 1 {
		return s, fmt.Errorf("-count %q is not a number from 1 up", *count)
	}
	s.jetStream = *js
	return s, nil
}

func run(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	s, err := parse(args, env)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(s.url, nats.Name("tarry example"), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.url, err)
	}
	defer nc.Close()
	publish, err := publisher(nc, s)
	if err != nil {
		return err
	}
	print := json.NewEncoder(out)
	for n := 1; n <= s.count && ctx.Err() == nil; n++ {
		l := line{ID: s.id + "-" + strconv.Itoa(n), Subject: s.subject, Delay: s.delay.String(), Sent: time.Now()}
		body, err := json.Marshal(order{Order: l.ID, Text: "your basket is still waiting"})
		if err != nil {
			return err
		}
		msg := &nats.Msg{Subject: s.subject, Data: body, Header: nats.Header{"Content-Type": {"application/json"}}}
		tarry.Tag(msg, tarry.In(s.delay), tarry.As(l.ID)) // the two tags
		if err := publish(ctx, msg, &l); err != nil {
			return fmt.Errorf("publish %s: %w", l.ID, err)
		}
		l.Stored = time.Now()
		if err := print.Encode(l); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// publisher is how the producer publishes, with the one line that tarry adds.
func publisher(nc *nats.Conn, s settings) (func(context.Context, *nats.Msg, *line) error, error) {
	opts := []tarry.Option{tarry.WithPrefix(s.prefix), tarry.WithNamespace(s.namespace)} // not needed for the defaults
	if !s.jetStream {
		conn, err := tarry.Wrap(nc, opts...) // the one line
		if err != nil {
			return nil, err
		}
		return func(_ context.Context, msg *nats.Msg, _ *line) error { return conn.PublishMsg(msg) }, nil
	}
	inner, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	js, err := tarry.WrapJetStream(inner, opts...) // the one line
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, msg *nats.Msg, l *line) error {
		ack, err := js.PublishMsg(ctx, msg)
		if err != nil {
			return err
		}
		l.Stream, l.Sequence = ack.Stream, ack.Sequence
		return nil
	}, nil
}
