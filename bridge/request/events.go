package request

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/scheduler"
)

// eventsMost is how many events of a kind are published a second. The rest of a second is one event.
const eventsMost = 100

// Announce publishes events on tarry.<namespace>.event.<kind>.<topic>, where - stands for none and for a pattern, until
// ctx ends. It uses core NATS, so they arrive at most once.
func Announce(ctx context.Context, nc *nats.Conn, namespace string, events *scheduler.Events) error {
	publish := func(e *scheduler.Event) {
		topic := e.Topic
		if topic == "" || strings.ContainsAny(topic, "*>") {
			topic = "-"
		}
		text, err := json.Marshal(e)
		if err == nil {
			err = nc.Publish("tarry."+namespace+".event."+string(e.Kind)+"."+topic, text)
		}
		if err != nil {
			events.Dropped(e.N)
		}
	}
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	sent, more := map[scheduler.EventKind]int{}, map[scheduler.EventKind]*scheduler.Event{}
	for {
		select {
		case e := <-events.Queue():
			switch rest := more[e.Kind]; {
			case sent[e.Kind] < eventsMost:
				sent[e.Kind]++
				publish(&e)
			case rest == nil:
				more[e.Kind] = &scheduler.Event{At: e.At, Kind: e.Kind, Instance: e.Instance, N: 1,
					Detail: "and further ones within a second"}
			default:
				rest.N++
			}
		case <-seconds.C:
			for _, rest := range more {
				publish(rest)
			}
			clear(sent)
			clear(more)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
