package intake

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
)

// Look finds what no instance has accepted, in the intake and among what was set aside, and says how far it read.
func TestLook_FindsWhatNobodyAccepted(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	c := NewContents(m.from, "moved")
	c.enabled.Store(true)
	for i := range 50 {
		m.publish("delayed.noise", "tarry-id", fmt.Sprint("n", i))
	}
	m.publish("delayed.orders.new", "Tarry-Delay", "20m", "Tarry-Id", "order-1", "Tarry-Key", "k")
	m.publish("delayed.orders.new", "Tarry-Delay", "tomorrow")
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	body := encodeAside(&nats.Msg{Subject: "delayed.orders.old", Header: nats.Header{"Tarry-Id": {"order-2"}}},
		link.Place{Sequence: 7, At: at})
	if _, err := m.source.Publish(t.Context(), AsideSubject("moved")+".3", body); err != nil {
		t.Fatal(err)
	}
	look := func(q ops.WhyQuery) (found []string, looked string) {
		t.Helper()
		q.Prefix = "delayed"
		pushes, places := c.Look(t.Context(), q)
		for _, p := range pushes {
			found = append(found, p.ID+" "+p.Topic+" "+string(p.Why.Word))
			if p.ID == "order-1" {
				if p.UID == "" || p.At == 0 || p.Key != "k" {
					t.Errorf("%+v", p)
				}
				if q.ID == "" {
					again, _ := c.Look(t.Context(), ops.WhyQuery{Prefix: "delayed", ID: p.UID, Most: 100})
					if len(again) != 1 {
						t.Errorf("by uid: %+v", again)
					}
				}
			}
		}
		for _, p := range places {
			looked += fmt.Sprintf("%s %d %t %s;", p.Place, p.Read, p.Whole, p.Error)
		}
		return found, looked
	}
	for _, c := range []struct {
		q      ops.WhyQuery
		found  string
		looked string
	}{
		{ops.WhyQuery{ID: "order-1", Most: 100}, "[order-1 orders.new in_intake]", "intake 52 true ;aside 1 true ;"},
		{ops.WhyQuery{Key: "k", Most: 100}, "[order-1 orders.new in_intake]", "intake 52 true ;aside 1 true ;"},
		{ops.WhyQuery{Topic: "orders.new", Most: 100}, "[order-1 orders.new in_intake  orders.new in_intake]",
			"intake 2 true ;aside 1 true ;"},
		{ops.WhyQuery{ID: "order-2", Most: 100}, "[order-2 orders.old set_aside]", "intake 52 true ;aside 1 true ;"},
		{ops.WhyQuery{Topic: "orders.old", Most: 100}, "[order-2 orders.old set_aside]", "intake 0 true ;aside 1 true ;"},
		{ops.WhyQuery{ID: "order-1", Most: 50}, "[]", "intake 50 false ;aside 0 false ;"},
		{ops.WhyQuery{Key: "k", Most: 100, See: func(topic string) bool { return topic == "orders.old" }}, "[]",
			"intake 52 true ;aside 1 true ;"},
		{ops.WhyQuery{ID: "nobody", Most: 100}, "[]", "intake 52 true ;aside 1 true ;"},
	} {
		if found, looked := look(c.q); fmt.Sprint(found) != c.found || looked != c.looked {
			t.Errorf("%+v: %q, %s", c.q, found, looked)
		}
	}
	if held, err := c.Held(t.Context()); err != nil || held.Pushes != 53 {
		t.Errorf("looking took something away: %+v, %v", held, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, places := c.Look(ctx, ops.WhyQuery{Prefix: "delayed", ID: "order-1", Most: 100}); places[0].Error == "" ||
		places[0].Whole {
		t.Errorf("without an answer: %+v", places)
	}
}
