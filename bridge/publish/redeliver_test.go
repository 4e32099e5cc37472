package publish_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestBroker_TellsWhatAStreamHasLostFromWhatItDroppedRightly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	nc, err := nats.Connect(lab.SharedNATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b, err := publish.NewBroker(nc, "default")
	if err != nil {
		t.Fatal(err)
	}
	cfg := jetstream.StreamConfig{Name: "REDELIVER", Subjects: []string{"redeliver.>"},
		Duplicates: 100 * time.Millisecond}
	stream := func() jetstream.Stream {
		var s jetstream.Stream
		lab.Eventually(t, 10*time.Second, func() (err error) { // the server may still remove an earlier one's files
			s, err = js.CreateStream(ctx, cfg)
			return err
		})
		return s
	}
	s := stream()
	newMessage := func(uid message.UID) *message.Message {
		return &message.Message{UID: uid, ID: "order-1", Topic: "redeliver.a", Body: []byte("hi"), Due: 1000,
			Attempt: 2, Headers: []message.Header{{Name: "Trace", Value: "7"}}}
	}
	one, two := newMessage("t-0000000000000001"), newMessage("t-0000000000000002")
	publish := func(m *message.Message) uint64 {
		t.Helper()
		name, sequence, err := b.Publish(ctx, m)
		if err != nil || name != cfg.Name {
			t.Fatalf("publish: stream %q, %v", name, err)
		}
		return sequence
	}
	want := func(sequence uint64, uid message.UID, there, judged bool) {
		t.Helper()
		got, err := b.Stored(ctx, cfg.Name, sequence, uid)
		if errors.Is(err, scheduler.ErrUnjudged) == judged || (judged && (err != nil || got != there)) {
			t.Fatalf("%s at %d: %v, %v; want %v, judged %v", uid, sequence, got, err, there, judged)
		}
	}
	first, second := publish(one), publish(two)
	got, err := s.GetMsg(ctx, first)
	if err != nil || string(got.Data) != "hi" || got.Header.Get("Nats-Msg-Id") != string(one.UID) ||
		got.Header.Get("Tarry-Attempt") != "2" || got.Header.Get("Trace") != "7" {
		t.Fatalf("published as %+v, %v", got, err)
	}
	want(first, one.UID, true, true)
	want(first, two.UID, false, true) // another message stands there
	want(second+1, one.UID, false, true)
	if err := s.DeleteMsg(ctx, first); err != nil {
		t.Fatal(err)
	}
	want(first, one.UID, false, false) // an operator, a limit or a consumer: it is unknown which
	if err := js.DeleteStream(ctx, cfg.Name); err != nil {
		t.Fatal(err)
	}
	want(second, two.UID, false, true)
	stream()
	want(second, two.UID, false, true)
	if again := publish(two); again != 1 {
		t.Fatalf("published again at %d", again)
	}
	want(1, two.UID, true, true)
}
