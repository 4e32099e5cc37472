package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestMessagesAreHeldWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]lab.NATSOption{"current": nil, "2.9": {lab.NATS29()}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, siteOptions{nats: options})
			if old := strings.HasPrefix(s.nats.Version(), "2.9."); old != (name == "2.9") {
				t.Fatalf("the server is %s", s.nats.Version())
			}
			a, b := s.start("a"), s.start("b")
			h := newHistory(s.ns)
			s.consume(h)
			l := &load{s: s, h: h, make: maker{seed: 5, spread: 3 * time.Second, burst: time.Second}, least: 2000,
				rate: 200, doors: s.instances}
			l.begin(t)

			moment(t, h, "a burst", inBurst)
			// What was handed to NATS and not answered may have reached a core consumer.
			closed := h.open("kill -9 of nats", time.Now())
			h.natsDies()
			s.nats.Kill()
			for _, i := range s.instances {
				s.missing(i, "nats")
			}
			// Pushes are still accepted, and their messages are held.
			var far []string
			for _, i := range s.instances {
				far = append(far, s.push(i, map[string]any{"topic": "quiet.room", "delay": "1h"}).UID)
			}
			s.nats.Restart()
			s.ready(a)
			s.ready(b)
			_, term := s.leader(0, a, b)
			moment(t, h, "a delivery on core", func(x arrival) bool { return x.stored == 0 })
			moment(t, h, "a delivery on a stream", func(x arrival) bool { return x.stored > 0 })
			s.settled(term-1, closed)

			moment(t, h, "a burst", inBurst)
			leader, _ := s.leader(0, a, b)
			leader.Stop()
			moment(t, h, "a delivery by the next leader", anything)
			leader.Restart()
			s.ready(leader)

			for _, uid := range far {
				if answer := s.must(a, http.MethodDelete, "/v1/messages/"+uid, nil); answer.State != "canceled" {
					t.Errorf("cancel a push of when nats was away: %s", answer.raw)
				}
			}
			l.finish(t)
			for _, uid := range h.lostWithNATS() { // the server had answered for it, or it was canceled
				if answer := s.must(a, http.MethodGet, "/v1/messages/"+uid, nil); answer.State != "delivered" &&
					answer.State != "canceled" {
					t.Errorf("%s did not arrive and is %s: %s", uid, answer.State, answer.raw)
				}
			}
			l.judge(t)
			s.onceStored()
			s.oneLeader()
		})
	}
}

func TestPushesGoByRequestWhereJetStreamIsOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{nats: []lab.NATSOption{lab.NoJetStream()}})
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	s.queue(h)
	l := &load{s: s, h: h, make: maker{seed: 8, spread: time.Second, core: true}, least: 300, rate: 150,
		doors: s.instances, byHTTP: true}
	l.begin(t)
	s.example(t, "orders.plain", false)
	l.finish(t)
	l.judge(t)
	s.oneLeader()
	for _, i := range []*instance{a, b} {
		said := false
		for _, x := range lines(t, i) {
			said = said || x.Level == "warn" && strings.Contains(x.Message, "jetstream is off") &&
				strings.Contains(x.Message, "not kept while every instance is down")
		}
		if !said {
			t.Errorf("%s does not say what is weaker", i.name)
		}
	}
}
