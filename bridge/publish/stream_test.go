package publish_test

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPublisher_WarnsOnceOfAShortDuplicateWindow(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	nc := bridgetest.Connect(t, server.URL())
	bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "SHORT", Subjects: []string{"short"}, Duplicates: time.Second})
	bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "LONG", Subjects: []string{"long"}, Duplicates: time.Minute})
	bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "DEAF", Subjects: []string{"deaf"}, NoAck: true})
	log := &bridgetest.LogBuffer{}
	p, err := publish.New(
		publish.Config{Conn: nc, Window: 10 * time.Second, Refresh: 10 * time.Millisecond, Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := nc.SubscribeSync("$JS.API.STREAM.LIST")
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.RunFor(t, p.Run)
	for range 5 {
		if _, err := asked.NextMsg(bridgetest.Rereads); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]int{`"stream":"SHORT"`: 1, `"stream":"LONG"`: 0, `"stream":"DEAF"`: 1} {
		if n := log.Count(text); n != want {
			t.Errorf("%s stands in the log %d times, want %d:\n%s", text, n, want, log)
		}
	}
	// A stream that acknowledges nothing hears, and that is all there is to know.
	wantKind(t, send(t, p, newMessage("deaf", "x"))[0], scheduler.Delivered, "")
}

func TestHeaders_AreWholeThoughTheirMapIsUsedAgain(t *testing.T) {
	t.Parallel()
	server := lab.SharedNATS(t)
	nc := bridgetest.Connect(t, server.URL())
	p := bridgetest.Running(t, publish.Config{Conn: nc})
	sub, err := nc.SubscribeSync("headers.check")
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]bool{}
	var batch []*message.Message
	for i, headers := range [][]message.Header{nil, {{Name: "A", Value: "1"}}, nil, nil,
		{{Name: "A", Value: "1"}, {Name: "B", Value: ""}, {Name: "A", Value: "2"}}, nil} {
		for _, key := range []string{"", "k", ""} {
			m := newMessage("headers.check", "")
			m.Headers, m.Key, m.Attempt, m.Due = headers, key, uint32(i+1), message.Milli(1896076800000+i%2)
			if i%3 == 0 {
				m.ID = fmt.Sprintf("id %d", i)
			}
			if i%4 == 1 {
				m.Retry.Delays = []time.Duration{time.Minute, time.Duration(i) * time.Hour}
				m.Retry.Jitter = uint8(len(key))
			}
			batch = append(batch, m)
		}
	}
	send(t, p, batch...)
	for _, m := range batch {
		got, err := sub.NextMsg(5 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		want, once := bridgetest.WantHeaders(m, got.Header), got.Header.Get("Tarry-Once")
		if secrets[once] || once == "" {
			t.Errorf("the secret %q came before", once)
		}
		secrets[once] = true
		if !maps.EqualFunc(map[string][]string(got.Header), want,
			func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("got %v\nwant %v", got.Header, want)
		}
	}
}
