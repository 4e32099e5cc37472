package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestMessagesAreLateButNotLostWhenRedisDies(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Redis: []string{"--appendfsync", "always"}})
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 3, Spread: 3 * time.Second, Burst: time.Second}, Least: 2000,
		Rate:  200,
		Doors: s.Instances}
	l.Begin(t)

	for range 2 {
		site.Moment(t, h, "a burst", inBurst)
		// Claims and deliveries whose replies are lost are repeated under one name, which core NATS does not recognize.
		closed := h.Open("kill -9 of redis", time.Now())
		s.Redis.Kill()
		for _, i := range s.Instances {
			s.Missing(i, "redis")
			refuses(s, i)
		}
		s.Redis.Restart()
		s.Ready(a)
		s.Ready(b)
		s.Leader(0, a, b)
		s.Settled(0, closed)
	}

	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.OneLeader()
}

// refuses holds the answers of an instance without Redis to what a client can act on.
func refuses(s *site.Site, i *site.Instance) {
	s.T.Helper()
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/v1/messages", map[string]any{"topic": "bells.never", "delay": "1h", "id": "not-kept"}},
		{http.MethodGet, "/v1/messages/some-order", nil},
		{http.MethodDelete, "/v1/messages/some-order", nil},
	} {
		a := s.Must(i, c.method, c.path, c.body)
		known := a.Status == http.StatusServiceUnavailable && a.Error == "unavailable" ||
			a.Status == http.StatusGatewayTimeout && a.Error == "outcome_unknown"
		if !known || a.Detail == "" {
			s.T.Errorf("without redis %s %s through %s: %d %s", c.method, c.path, i.Name, a.Status, a.Raw)
		}
	}
}

func TestAFullRedisRefusesPushesAndStillDrains(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	rdb := s.Client()
	fill := func(limit string) {
		t.Helper()
		if err := rdb.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	leader, _ := s.Leader(0, a, b)
	standby := s.Others(leader)[0]

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
	large := strings.Repeat(site.BodyMarker+"large body ", 2000)
	k := site.Maker{Seed: 4, Spread: time.Second}
	next := func() *site.Message {
		m := k.Make(len(h.Sent), time.Now())
		m.At, m.NotBefore, m.Body = due, due, []byte(large)
		h.Pushed(&m.Sent)
		return m
	}
	var full site.Answer
	for full.Error == "" {
		var round [16]struct { // at once: on a slow disk they share commits, and are not due before it is full
			m      *site.Message
			answer site.Answer
			err    error
		}
		var producers sync.WaitGroup
		for i := range round {
			p := &round[i]
			p.m = next()
			producers.Go(func() {
				p.answer, p.err = s.Instances[p.m.Seq%2].Sure(t.Context(), http.MethodPost, "/v1/messages", p.m.Json(),
					"outcome_unknown")
			})
		}
		producers.Wait()
		for _, p := range round {
			switch {
			case p.err != nil:
				t.Fatal(p.err)
			case p.answer.Status == http.StatusCreated:
				h.Acknowledged(&p.m.Sent, p.answer.UID, p.answer.Due.UnixMilli(), due)
			default:
				full = p.answer
			}
		}
		if round[0].m.Seq > 10_000 {
			t.Fatal("redis is never full")
		}
	}
	if full.Status != http.StatusServiceUnavailable || full.Error != "store_full" {
		t.Errorf("a full redis: %d %s", full.Status, full.Raw)
	}
	kept, _ := h.Counts()
	if kept < 100 || time.Until(due) < 2*time.Second {
		t.Fatalf("%d messages fit; they are due in %s", kept, time.Until(due))
	}

	// A cancel works, and what is canceled stays so.
	var victim *site.Sent
	for _, m := range h.Sent {
		if m.Kept && m.Id != "" && m.Key == "" && (victim == nil || m.Seq < victim.Seq) {
			victim = m
		}
	}
	l := &site.Load{S: s, H: h, Ctx: t.Context(), Nc: s.Connect("producer"), Doors: []*site.Instance{standby}}
	l.Js = site.OpenJetStream(t, l.Nc)
	begun := time.Now()
	word := l.CancelByHTTP(&site.Message{Sent: *victim}, victim.Id)
	h.Cancel(site.Canceled{Seq: victim.Seq, Begun: begun, At: time.Now(), Word: word})
	if word != site.OkCancel {
		t.Errorf("cancel with a full redis: %s", word)
	}
	// A tagged push waits in the intake. The room that the cancel made must not be enough for it.
	fill(fmt.Sprint(used + 8<<20))
	tagged := next()
	l.Tag(t, tagged)

	// The leader leaves while Redis is full; its successor drains it all the same.
	_, term := s.Leader(0, a, b)
	leader.Stop()
	s.Leader(term, standby)
	if answer := s.Must(standby, http.MethodPost, "/v1/messages", next().Json()); answer.Error != "store_full" {
		t.Errorf("a full redis, after a takeover: %d %s", answer.Status, answer.Raw)
	}
	lab.Eventually(t, site.Patience, func() error {
		if n, _ := h.Missing(); n > 0 {
			return fmt.Errorf("%d messages have not arrived", n)
		}
		return s.Drained(rdb)
	})
	if time.Now().Before(due) {
		t.Error("all arrived before they were due")
	}
	// There is room again.
	after := next()
	after.At = time.Now().Add(100 * time.Millisecond).Truncate(time.Millisecond)
	after.NotBefore = after.At
	lab.Eventually(t, site.Patience, func() error {
		answer := s.Must(standby, http.MethodPost, "/v1/messages", after.Json())
		if answer.Status != http.StatusCreated && answer.Status != http.StatusOK {
			return errors.New(answer.Raw)
		}
		h.Acknowledged(&after.Sent, answer.UID, answer.Due.UnixMilli(), after.At)
		return nil
	})
	lab.Eventually(t, site.Patience, func() error {
		if n, _ := h.Missing(); n > 0 {
			return fmt.Errorf("%d messages have not arrived", n)
		}
		return nil
	})
	h.Leaders = site.Leaderships(t, s.Instances)
	site.Report(t, site.Check(h.Snapshot()))
	s.OnceStored()
}
