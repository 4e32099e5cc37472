package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestMessagesAreLateButNotLostWhenRedisDies(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{redis: []string{"--appendfsync", "always"}})
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	l := &load{s: s, h: h, make: maker{seed: 3, spread: 3 * time.Second, burst: time.Second}, least: 2000, rate: 200,
		doors: s.instances}
	l.begin(t)

	for range 2 {
		moment(t, h, "a burst", inBurst)
		// Claims and deliveries whose replies are lost are repeated under one name, which core NATS does not recognize.
		closed := h.open("kill -9 of redis", time.Now())
		s.redis.Kill()
		for _, i := range s.instances {
			s.missing(i, "redis")
			s.refuses(i)
		}
		s.redis.Restart()
		s.ready(a)
		s.ready(b)
		s.leader(0, a, b)
		s.settled(0, closed)
	}

	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.oneLeader()
}

// missing waits until the instance says that it lacks exactly these things. Without redis it holds no machine id
// either.
func (s *site) missing(i *instance, what ...string) {
	s.t.Helper()
	lab.Eventually(s.t, patience, func() error {
		a, err := i.call(s.t.Context(), http.MethodGet, "/readyz", nil)
		if err != nil {
			return err
		}
		var failing []string
		for _, c := range a.Checks {
			if !c.OK && c.Name != "machine_id" {
				failing = append(failing, c.Name)
			}
		}
		slices.Sort(failing)
		status := http.StatusOK // pushes are accepted, and wait
		if slices.Contains(what, "redis") {
			status = http.StatusServiceUnavailable
		}
		if a.status != status || !slices.Equal(failing, what) {
			return fmt.Errorf("%s does not miss %s: %d %s", i.name, what, a.status, a.raw)
		}
		return nil
	})
}

// refuses holds the answers of an instance without Redis to what a client can act on.
func (s *site) refuses(i *instance) {
	s.t.Helper()
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/v1/messages", map[string]any{"topic": "bells.never", "delay": "1h", "id": "not-kept"}},
		{http.MethodGet, "/v1/messages/some-order", nil},
		{http.MethodDelete, "/v1/messages/some-order", nil},
	} {
		a := s.must(i, c.method, c.path, c.body)
		known := a.status == http.StatusServiceUnavailable && a.Error == "unavailable" ||
			a.status == http.StatusGatewayTimeout && a.Error == "outcome_unknown"
		if !known || a.Detail == "" {
			s.t.Errorf("without redis %s %s through %s: %d %s", c.method, c.path, i.name, a.status, a.raw)
		}
	}
}

func TestAFullRedisRefusesPushesAndStillDrains(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	rdb := s.client()
	fill := func(limit string) {
		t.Helper()
		if err := rdb.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	leader, _ := s.leader(0, a, b)
	standby := s.others(leader)[0]

	// Large messages, all due at one moment, until no more fit.
	info, err := rdb.InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var used int64
	if _, err := fmt.Sscan(info["Memory"]["used_memory"], &used); err != nil {
		t.Fatal(err)
	}
	fill(fmt.Sprint(used + 16<<20))
	due := time.Now().Add(20 * time.Second).Truncate(time.Millisecond)
	large := strings.Repeat(bodyMarker+"large body ", 2000)
	k := maker{seed: 4, spread: time.Second}
	next := func() *message {
		m := k.make(len(h.sent), time.Now())
		m.at, m.notBefore, m.body = due, due, []byte(large)
		h.pushed(&m.sent)
		return m
	}
	var full answer
	for full.Error == "" {
		m := next()
		answer := s.must(s.instances[m.seq%2], http.MethodPost, "/v1/messages", m.json())
		switch {
		case answer.status == http.StatusCreated:
			h.acknowledged(&m.sent, answer.UID, answer.Due.UnixMilli(), due)
		default:
			full = answer
		}
		if m.seq > 10_000 {
			t.Fatal("redis is never full")
		}
	}
	if full.status != http.StatusServiceUnavailable || full.Error != "store_full" {
		t.Errorf("a full redis: %d %s", full.status, full.raw)
	}
	kept, _ := h.counts()
	if kept < 100 || time.Until(due) < 2*time.Second {
		t.Fatalf("%d messages fit; they are due in %s", kept, time.Until(due))
	}

	// A cancel works, and what is canceled stays so.
	var victim *sent
	for _, m := range h.sent {
		if m.kept && m.id != "" && m.key == "" && (victim == nil || m.seq < victim.seq) {
			victim = m
		}
	}
	l := &load{s: s, h: h, ctx: t.Context(), nc: s.connect("producer"), doors: []*instance{standby}}
	l.js = openJetStream(t, l.nc)
	word := l.cancelByHTTP(&message{sent: *victim}, victim.id)
	h.cancel(canceled{victim.seq, time.Now(), word})
	if word != okCancel {
		t.Errorf("cancel with a full redis: %s", word)
	}
	// A tagged push waits in the intake. The room that the cancel made must not be enough for it.
	fill(fmt.Sprint(used + 8<<20))
	tagged := next()
	l.tag(t, tagged)

	// The leader leaves while Redis is full; its successor drains it all the same.
	_, term := s.leader(0, a, b)
	leader.Stop()
	s.leader(term, standby)
	if answer := s.must(standby, http.MethodPost, "/v1/messages", next().json()); answer.Error != "store_full" {
		t.Errorf("a full redis, after a takeover: %d %s", answer.status, answer.raw)
	}
	lab.Eventually(t, patience, func() error {
		if n, _ := h.missing(); n > 0 {
			return fmt.Errorf("%d messages have not arrived", n)
		}
		return s.drained(rdb)
	})
	if time.Now().Before(due) {
		t.Error("all arrived before they were due")
	}
	// There is room again.
	after := next()
	after.at = time.Now().Add(100 * time.Millisecond).Truncate(time.Millisecond)
	after.notBefore = after.at
	lab.Eventually(t, patience, func() error {
		answer := s.must(standby, http.MethodPost, "/v1/messages", after.json())
		if answer.status != http.StatusCreated && answer.status != http.StatusOK {
			return errors.New(answer.raw)
		}
		h.acknowledged(&after.sent, answer.UID, answer.Due.UnixMilli(), after.at)
		return nil
	})
	lab.Eventually(t, patience, func() error {
		if n, _ := h.missing(); n > 0 {
			return fmt.Errorf("%d messages have not arrived", n)
		}
		return nil
	})
	h.leaders = leaderships(t, s.instances)
	report(t, check(h.snapshot()))
	s.onceStored()
}
