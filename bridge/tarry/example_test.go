package tarry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry"
)

// One line makes an existing producer's connection understand delays.
func Example() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	conn, err := tarry.Wrap(nc) // the new line
	if err != nil {
		log.Fatal(err)
	}
	msg := nats.NewMsg("orders.remind")
	msg.Header.Set("Tarry-Delay", "20m")
	msg.Data = []byte(`{"order":7131}`)
	if err := conn.PublishMsg(msg); err != nil { // nil: stored, due on orders.remind in 20 minutes
		log.Fatal(err)
	}
}

// A JetStream producer wraps its context; PubAcks and futures stay what they are.
func ExampleWrapJetStream() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	js, err = tarry.WrapJetStream(js) // the new line
	if err != nil {
		log.Fatal(err)
	}
	msg := tarry.Tag(nats.NewMsg("orders.remind"), tarry.In(20*time.Minute), tarry.As("order-7131"))
	ack, err := js.PublishMsg(context.Background(), msg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored as", ack.Sequence)
}

// A cancel says what really happened.
func ExampleClient_Cancel() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := tarry.NewClient(nc)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Cancel(context.Background(), tarry.Ref{ID: "order-7131"})
	switch {
	case err == nil:
		fmt.Println("it will not be delivered")
	case errors.Is(err, tarry.ErrAlreadyDelivered):
		fmt.Println("too late")
	default:
		fmt.Println("not canceled:", err)
	}
}

// A consumer has a message come back after a delay of its own, and acknowledges it only once that is stored.
func ExampleClient_Retry_after() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := tarry.NewClient(nc)
	if err != nil {
		log.Fatal(err)
	}
	handle := func(msg jetstream.Msg) {
		if attempt := tarry.Attempt(msg.Headers()); attempt < 5 {
			wait := time.Duration(attempt) * time.Minute
			if _, err := client.Retry(context.Background(), msg, "not yet", tarry.In(wait)); err != nil {
				log.Println(err)
				return // not acknowledged: JetStream delivers it again
			}
		}
		if err := msg.Ack(); err != nil {
			log.Println(err)
		}
	}
	_ = handle
}

// A producer of NATS's own schedules changes nothing but its context.
func ExampleJetStream_PublishMsg() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	inner, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	js, err := tarry.WrapJetStream(inner)
	if err != nil {
		log.Fatal(err)
	}
	msg := nats.NewMsg("schedules.7131")
	msg.Header.Set("Nats-Schedule", "@at 2030-01-31T08:00:00Z")
	msg.Header.Set("Nats-Schedule-Target", "orders.remind")
	msg.Data = []byte(`{"order":7131}`)
	if _, err := js.PublishMsg(context.Background(), msg); err != nil {
		log.Fatal(err)
	}
}

// A batch is stored with one request, and each message has an outcome of its own.
func ExampleClient_PushBatch() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := tarry.NewClient(nc)
	if err != nil {
		log.Fatal(err)
	}
	var batch []*nats.Msg
	for n := range 100 {
		batch = append(batch, tarry.Tag(nats.NewMsg("orders.remind"), tarry.In(time.Hour),
			tarry.As(fmt.Sprintf("order-%d", n)),
			tarry.Retries(tarry.Exponential(time.Second, time.Hour, 10).Jitter(20))))
	}
	outcomes, err := client.PushBatch(context.Background(), batch)
	if err != nil {
		log.Fatal(err)
	}
	for n, o := range outcomes {
		if o.Err != nil {
			fmt.Println(n, "is not stored:", o.Err)
		}
	}
}
