package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestMessagesAreHeldWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]lab.NATSOption{"current": nil, "2.9": {lab.NATS29()}} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, site.Options{Nats: options})
			if old := strings.HasPrefix(s.Nats.Version(), "2.9."); old != (name == "2.9") {
				t.Fatalf("the server is %s", s.Nats.Version())
			}
			a, b := s.Start("a"), s.Start("b")
			h := site.NewHistory(s.Ns)
			s.Consume(h)
			l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 5, Spread: 3 * time.Second, Burst: time.Second}, Least: 2000,
				Rate: 200, Doors: s.Instances}
			l.Begin(t)

			site.Moment(t, h, "a burst", inBurst)
			// What was handed to NATS and not answered may have reached a core consumer.
			closed := h.Open("kill -9 of nats", time.Now())
			h.NatsDies()
			s.Nats.Kill()
			for _, i := range s.Instances {
				s.Missing(i, "nats")
			}
			// Pushes are still accepted, and their messages are held.
			var far []string
			for _, i := range s.Instances {
				far = append(far, s.Push(i, map[string]any{"topic": "quiet.room", "delay": "1h"}).UID)
			}
			s.Nats.Restart()
			s.Ready(a)
			s.Ready(b)
			_, term := s.Leader(0, a, b)
			site.Moment(t, h, "a delivery on core", func(x site.Arrival) bool { return x.Stored == 0 })
			site.Moment(t, h, "a delivery on a stream", func(x site.Arrival) bool { return x.Stored > 0 })
			s.Settled(term-1, closed)

			site.Moment(t, h, "a burst", inBurst)
			leader, _ := s.Leader(0, a, b)
			leader.Stop()
			site.Moment(t, h, "a delivery by the next leader", site.Anything)
			leader.Restart()
			s.Ready(leader)

			for _, uid := range far {
				if answer := s.Must(a, http.MethodDelete, "/v1/messages/"+uid, nil); answer.State != "canceled" {
					t.Errorf("cancel a push of when nats was away: %s", answer.Raw)
				}
			}
			l.Finish(t)
			for _, uid := range h.LostWithNATS() { // the server had answered for it, or it was canceled
				if answer := s.Must(a, http.MethodGet, "/v1/messages/"+uid, nil); answer.State != "delivered" &&
					answer.State != "canceled" {
					t.Errorf("%s did not arrive and is %s: %s", uid, answer.State, answer.Raw)
				}
			}
			l.Judge(t)
			s.OnceStored()
			s.OneLeader()
		})
	}
}

func TestPushesGoByRequestWhereJetStreamIsOff(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Nats: []lab.NATSOption{lab.NoJetStream()}})
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Queue(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 8, Spread: time.Second, Core: true}, Least: 300, Rate: 150,
		Doors: s.Instances, ByHTTP: true}
	l.Begin(t)
	example(s, t, "orders.plain", false)
	l.Finish(t)
	l.Judge(t)
	s.OneLeader()
	for _, i := range []*site.Instance{a, b} {
		said := false
		for _, x := range site.Lines(t, i) {
			said = said || x.Level == "warn" && strings.Contains(x.Message, "jetstream is off") &&
				strings.Contains(x.Message, "not kept while every instance is down")
		}
		if !said {
			t.Errorf("%s does not say what is weaker", i.Name)
		}
	}
}
