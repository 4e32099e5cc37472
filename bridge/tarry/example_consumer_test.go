package tarry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry"
)

// A consumer of reminders that are pulled over HTTP. What fails comes again by its schedule.
func ExampleConsume() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	remind := func(ctx context.Context, d tarry.Delivery) error {
		switch {
		case len(d.Data) == 0:
			return tarry.Dead(errors.New("no address")) // no retry would help
		case d.Attempt == 1:
			return tarry.RetryIn(time.Minute, errors.New("the mail server is away"))
		}
		return nil
	}
	source := tarry.FromPull(&tarry.Puller{URL: "http://localhost:7070"}, "reminders")
	if err := tarry.Consume(ctx, source, remind, tarry.Concurrency(20), tarry.Timeout(time.Minute)); err != nil {
		log.Fatal(err)
	}
}

// A consumer gives back what it could not handle. It comes again by its schedule, and ends as dead after the last
// attempt.
func ExampleClient_Retry() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := tarry.NewClient(nc)
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	consumer, err := js.Consumer(ctx, "ORDERS", "reminders")
	if err != nil {
		log.Fatal(err)
	}
	remind := func([]byte) error { return errors.New("the mail server is away") }
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		if err := remind(msg.Data()); err != nil {
			retried, err := client.Retry(ctx, msg, err.Error())
			if err != nil {
				log.Println(err)
				return // not acknowledged: JetStream delivers it again
			}
			if retried.Over {
				log.Println("given up:", retried.ID)
			}
		}
		if err := msg.Ack(); err != nil {
			log.Println(err)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer consuming.Stop()
}

// With the topic setting partitions: 4, messages due on orders.created leave on orders.created.0 to orders.created.3,
// by their key. One consumer for each, which has one message at a time, keeps the messages of one key in order; more
// processes that run the same share the work and take over from one another.
func Example_partitions() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := js.CreateOrUpdateStream(
		ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.created.*"}}); err != nil {
		log.Fatal(err)
	}
	for n := range 4 {
		consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{
			Durable: fmt.Sprintf("billing-%d", n), FilterSubject: fmt.Sprintf("orders.created.%d", n), MaxAckPending: 1,
		})
		if err != nil {
			log.Fatal(err)
		}
		consuming, err := consumer.Consume(func(msg jetstream.Msg) {
			fmt.Println(msg.Headers().Get(tarry.HeaderKey), msg.Headers().Get(tarry.HeaderID))
			if err := msg.Ack(); err != nil {
				log.Println(err)
			}
		})
		if err != nil {
			log.Fatal(err)
		}
		defer consuming.Stop()
	}
}

// A change says what really happened, too.
func ExampleClient_Reschedule() {
	conn, err := tarry.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := conn.Tarry()
	moved, err := client.Reschedule(context.Background(), tarry.Ref{ID: "order-7131"},
		tarry.Change{Delay: new(time.Hour)})
	switch {
	case err == nil:
		fmt.Println("due at", moved.Due)
	case errors.Is(err, tarry.ErrAlreadyDelivered):
		fmt.Println("too late")
	default:
		fmt.Println("not changed:", err)
	}
}

// Pushes that follow one another become one message, due when it has been quiet for a minute, and after an hour at the
// latest.
func ExampleOnDuplicate() {
	conn, err := tarry.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	msg := tarry.Tag(nats.NewMsg("search.reindex"), tarry.In(time.Minute), tarry.As("reindex-customer-9"))
	if err := conn.PublishMsg(tarry.Tag(msg, tarry.OnDuplicate(tarry.Debounce), tarry.MaxWait(time.Hour))); err != nil {
		log.Fatal(err)
	}
}
