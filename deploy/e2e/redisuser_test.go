package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// redisUser is the rule that the operators' page has for a user of tarry's own in Redis.
func redisUser(t *testing.T) []any {
	t.Helper()
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(page), "\n```\nACL SETUSER ")
	line, _, ended := strings.Cut(below, "\n")
	if !found || !ended || !strings.Contains(line, " >SECRET ") {
		t.Fatalf("docs/access.md has no user of Redis: %q", line)
	}
	var rule []any
	for _, word := range strings.Fields("ACL SETUSER " + strings.Replace(line, ">SECRET", ">"+redisPassword, 1)) {
		rule = append(rule, word)
	}
	return rule
}

// With the rights that the page gives its user, and no others, everything works: each call there is, an election, and a
// Redis that returns empty.
func TestARedisUserOfItsOwnMayDoAllThatTarryDoes(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{zk: true})
	s.ns = "default"
	s.journal("sync", lab.SharedMariaDB(t), "TARRY_REDIS_USERNAME=tarry")
	rdb := s.client()
	if err := rdb.Do(t.Context(), redisUser(t)...).Err(); err != nil {
		t.Fatal(err)
	}
	denied := func() {
		t.Helper()
		log, err := rdb.ACLLog(t.Context(), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range log {
			t.Errorf("user %s was denied %s in %s for its %s, %d times", e.Username, e.Object, e.Context,
				e.Reason, e.Count)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(rdb.ACLLog(t.Context(), 100).Result())
		}
	})
	a, b := s.start("a"), s.start("b")
	leader, term := s.leader(0, a, b)
	in := s.inbox("user.>")

	push := func(m map[string]any) answer { return s.push(a, m) }
	push(map[string]any{"topic": "user.soon", "body": "soon", "delay": "10ms", "priority": 9, "ttl": "1h",
		"headers": map[string]string{"X": "1"}})
	for _, how := range []string{"keep", "replace", "debounce"} {
		for range 2 {
			s.must(a, http.MethodPost, "/v1/messages",
				map[string]any{"topic": "user.merged", "body": how, "delay": "1h",
					"id": how, "key": "k", "on_duplicate": how})
		}
		s.must(b, http.MethodGet, "/v1/messages/"+how, nil)
	}
	s.must(a, http.MethodPatch, "/v1/messages/keep", map[string]any{
		"delay": "2h", "body": strings.Repeat("large ", 20_000),
	})
	s.must(b, http.MethodPost, "/v1/messages/keep/run", nil)
	s.must(b, http.MethodDelete, "/v1/messages/replace", nil)
	s.must(a, http.MethodPost, "/v1/messages/reschedule", map[string]any{"topic": "user.>", "shift": "1h"})
	s.must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": "user.merged", "all": true})
	if left, err := a.call(t.Context(), http.MethodDelete, "/v1/messages/nobody?topic=user.x", nil); err != nil ||
		left.status != http.StatusNotFound {
		t.Errorf("a cancel of nobody: %d %s, %v", left.status, left.raw, err) // leaves a tombstone
	}
	producer := s.connect("producer")
	s.tag(producer, "user.tagged", "tagged", "Tarry-Delay", "10ms")
	in.bodies(t, 3)

	// Nobody listens, so it is parked; then somebody does. A pause holds what is due.
	push(map[string]any{"topic": "lonely", "body": "parked", "delay": "1ms", "id": "parked"})
	lab.Eventually(t, patience, func() error {
		got, err := a.call(t.Context(), http.MethodGet, "/v1/messages/parked", nil)
		if err == nil && !strings.Contains(got.raw, `"parked"`+":") {
			err = errors.New(got.raw)
		}
		return err
	})
	s.says(a, 0, "", "topics", "pause", "user.paused")
	push(map[string]any{"topic": "user.paused", "body": "paused", "delay": "1ms"})
	s.says(b, 0, "", "topics")
	s.says(b, 0, "", "topics", "user.paused")
	s.says(b, 0, "", "topics", "resume", "user.paused")
	in.bodies(t, 4)
	s.inbox("lonely").bodies(t, 1)

	// Dead, and after.
	for n := range 3 {
		push(map[string]any{"topic": "user.dead", "body": "dead", "id": fmt.Sprint("dead", n), "attempt": 3,
			"retry": "1ms"})
	}
	lab.Eventually(t, patience, func() error {
		got, err := b.call(t.Context(), http.MethodGet, "/v1/dead?topic=user.dead", nil)
		if err == nil && strings.Count(got.raw, `"state":"dead"`) != 3 {
			err = errors.New(got.raw)
		}
		return err
	})
	s.says(a, 0, "", "dead", "requeue", "dead0", "--delay", "1h")
	s.says(a, 0, "", "dead", "purge", "dead1")
	s.says(a, 0, "", "dead", "purge", "--all", "--topic", "user.dead")

	// Operators' calls, a new leader, and a Redis that returns empty.
	waiting := push(map[string]any{"topic": "user.late", "body": "late", "delay": "1h", "id": "late"})
	s.emptied()
	s.says(a, 0, "", "list", "--topic", "user.late")
	s.says(a, 0, "", "history", "late")
	s.says(a, 0, "", "forecast")
	s.says(b, 0, "", "verify", "--repair")
	s.says(b, 0, "", "restore", "--all")
	s.says(b, 0, "", "redeliver", "--since", "1h", "--dry-run")
	denied()
	leader.Kill()
	standby := s.others(leader)[0]
	s.leader(term, standby)
	s.accepts(standby)
	before := s.certified()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.whole(before, standby)
	if got := s.must(standby, http.MethodGet, "/v1/messages/late", nil); got.UID != waiting.UID ||
		got.State != "waiting" {
		t.Errorf("got %s", got.raw)
	}
	s.must(standby, http.MethodPost, "/v1/messages/late/run", nil)
	in.bodies(t, 5)
	denied()
	if rights, err := rdb.ACLDryRun(t.Context(), "tarry", "FLUSHALL").Result(); err == nil && rights == "OK" {
		t.Error("it may empty Redis")
	}
}
