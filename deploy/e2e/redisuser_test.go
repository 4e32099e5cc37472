package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
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
	for _, word := range strings.Fields("ACL SETUSER " + strings.Replace(line, ">SECRET", ">"+site.RedisPassword, 1)) {
		rule = append(rule, word)
	}
	return rule
}

// With the rights that the page gives its user, and no others, everything works: each call there is, an election, and a
// Redis that returns empty.
func TestARedisUserOfItsOwnMayDoAllThatTarryDoes(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Zk: true})
	s.Ns = "default"
	s.Journal("sync", lab.SharedMariaDB(t), "TARRY_REDIS_USERNAME=tarry")
	rdb := s.Client()
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
	a, b := s.Start("a"), s.Start("b")
	leader, term := s.Leader(0, a, b)
	in := s.Inbox("user.>")

	push := func(m map[string]any) site.Answer { return s.Push(a, m) }
	push(map[string]any{"topic": "user.soon", "body": "soon", "delay": "10ms", "priority": 9, "ttl": "1h",
		"headers": map[string]string{"X": "1"}})
	for _, how := range []string{"keep", "replace", "debounce"} {
		for range 2 {
			s.Must(a, http.MethodPost, "/v1/messages",
				map[string]any{"topic": "user.merged", "body": how, "delay": "1h",
					"id": how, "key": "k", "on_duplicate": how})
		}
		s.Must(b, http.MethodGet, "/v1/messages/"+how, nil)
	}
	s.Must(a, http.MethodPatch, "/v1/messages/keep", map[string]any{
		"delay": "2h", "body": strings.Repeat("large ", 20_000),
	})
	s.Must(b, http.MethodPost, "/v1/messages/keep/run", nil)
	s.Must(b, http.MethodDelete, "/v1/messages/replace", nil)
	s.Must(a, http.MethodPost, "/v1/messages/reschedule", map[string]any{"topic": "user.>", "shift": "1h"})
	s.Must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": "user.merged", "all": true})
	if left, err := a.Call(t.Context(), http.MethodDelete, "/v1/messages/nobody?topic=user.x", nil); err != nil ||
		left.Status != http.StatusNotFound {
		t.Errorf("a cancel of nobody: %d %s, %v", left.Status, left.Raw, err) // leaves a tombstone
	}
	producer := s.Connect("producer")
	s.Tag(producer, "user.tagged", "tagged", "Tarry-Delay", "10ms")
	in.Bodies(t, 3)

	// Nobody listens, so it is parked; then somebody does. A pause holds what is due.
	push(map[string]any{"topic": "lonely", "body": "parked", "delay": "1ms", "id": "parked"})
	lab.Eventually(t, site.Patience, func() error {
		got, err := a.Call(t.Context(), http.MethodGet, "/v1/messages/parked", nil)
		if err == nil && !strings.Contains(got.Raw, `"parked"`+":") {
			err = errors.New(got.Raw)
		}
		return err
	})
	s.Says(a, 0, "", "topics", "pause", "user.paused")
	push(map[string]any{"topic": "user.paused", "body": "paused", "delay": "1ms"})
	s.Says(b, 0, "", "topics")
	s.Says(b, 0, "", "topics", "user.paused")
	s.Says(b, 0, "", "held")
	s.Says(b, 0, "", "topics", "resume", "user.paused")
	in.Bodies(t, 4)
	s.Inbox("lonely").Bodies(t, 1)

	// Dead, and after.
	for n := range 3 {
		push(map[string]any{"topic": "user.dead", "body": "dead", "id": fmt.Sprint("dead", n), "attempt": 3,
			"retry": "1ms"})
	}
	lab.Eventually(t, site.Patience, func() error {
		got, err := b.Call(t.Context(), http.MethodGet, "/v1/dead?topic=user.dead", nil)
		if err == nil && strings.Count(got.Raw, `"state":"dead"`) != 3 {
			err = errors.New(got.Raw)
		}
		return err
	})
	s.Says(a, 0, "", "dead", "requeue", "dead0", "--delay", "1h")
	s.Says(a, 0, "", "dead", "purge", "dead1")
	s.Says(a, 0, "", "dead", "purge", "--all", "--topic", "user.dead")

	// Operators' calls, a new leader, and a Redis that returns empty.
	waiting := push(map[string]any{"topic": "user.late", "body": "late", "delay": "1h", "id": "late"})
	s.Emptied()
	s.Says(a, 0, "", "list", "--topic", "user.late")
	s.Says(a, 0, "", "history", "late")
	s.Says(a, 0, "user.late", "forecast", "--by", "topic", "--until", "2h")
	s.Says(b, 0, "", "verify", "--repair")
	s.Says(b, 0, "", "restore", "--all")
	s.Says(b, 0, "", "redeliver", "--since", "1h", "--dry-run")
	denied()
	leader.Kill()
	standby := s.Others(leader)[0]
	s.Leader(term, standby)
	s.Accepts(standby)
	before := s.Certified()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Whole(before, standby)
	if got := s.Must(standby, http.MethodGet, "/v1/messages/late", nil); got.UID != waiting.UID ||
		got.State != "waiting" {
		t.Errorf("got %s", got.Raw)
	}
	s.Must(standby, http.MethodPost, "/v1/messages/late/run", nil)
	in.Bodies(t, 5)
	denied()
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, more, _ := strings.Cut(string(page), "For `tarry rebucket` the user also needs\n`")
	more, _, _ = strings.Cut(more, "`")
	if err := rdb.ACLSetUser(t.Context(), "tarry", strings.Fields(more)...).Err(); err != nil {
		t.Fatal(err)
	}
	standby.Stop()
	lab.Eventually(t, site.Patience, func() error { // the session of the one that was killed must end first
		rebucket := s.Command("rebucket", "5")
		if code := rebucket.Wait(site.Patience); code != 0 {
			return fmt.Errorf("tarry rebucket ends with %d: %s", code, rebucket.Log())
		}
		return nil
	})
	denied()
	if rights, err := rdb.ACLDryRun(t.Context(), "tarry", "FLUSHALL").Result(); err == nil && rights == "OK" {
		t.Error("it may empty Redis")
	}
}
