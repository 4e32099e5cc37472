package e2e_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
)

// testdata/layout6 is what the last program with layout 6 of Redis and schema 5 of the journal left (commit 3ac909d~1):
// each key of Redis as DUMP writes it, and a journal of SQLite. upgrade_make_test.go made it.
const (
	layout6          = "testdata/layout6/"
	layout6Namespace = "upgrade"
)

// leftWaiting are the messages of it that are due in 2036, as they were pushed.
var leftWaiting = []map[string]any{
	{"id": "options", "topic": "old.options", "body": "with options", "at": "2036-01-31T08:00:00Z", "priority": 7,
		"ttl": "1h", "headers": map[string]string{"X-Order": "17"}},
	{"id": "bytes", "topic": "old.bytes", "body_base64": "AP8B", "at": "2036-01-31T08:00:00Z"},
	{"id": "keyed", "key": "tenant-1", "topic": "old.keyed", "body": "of a tenant", "at": "2036-01-31T08:00:00Z"},
	{"id": "moved", "topic": "old.moved", "body": "moved", "at": "2035-01-31T08:00:00Z"}, // then to 2036
}

// What an older program left is there after the upgrade, whatever of it the servers still have.
func TestUpgrade_KeepsWhatAnOlderLayoutAndSchemaHold(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name           string
		redis, journal bool
	}{{"redis and journal", true, true}, {"redis", true, false}, {"journal", false, true}} {
		t.Run(v.name, func(t *testing.T) {
			s := site.New(t, site.Options{Zk: true})
			s.Ns = layout6Namespace
			keepsLayout6(t, s, v.redis, v.journal)
		})
	}
}

func keepsLayout6(t *testing.T, s *site.Site, redis, journal bool) {
	if redis {
		var keys map[string][]byte
		if err := json.Unmarshal(unzipped(t, "redis.json.gz"), &keys); err != nil {
			t.Fatal(err)
		}
		for key, value := range keys {
			if err := s.Client().Restore(t.Context(), key, 0, string(value)).Err(); err != nil {
				t.Fatalf("restore %s: %v", key, err)
			}
		}
	}
	if journal {
		file := filepath.Join(t.TempDir(), "journal.db")
		if err := os.WriteFile(file, unzipped(t, "journal.db.gz"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Settings = append(s.Settings, "TARRY_JOURNAL_MODE=sync", "TARRY_JOURNAL_DSN=sqlite:"+file)
	}
	came := make(chan *nats.Msg, 100)
	if _, err := s.Connect("consumer").ChanSubscribe("old.>", came); err != nil {
		t.Fatal(err)
	}
	a := s.Start("a")
	next := func(id string) {
		t.Helper()
		select {
		case m := <-came:
			if got := m.Header.Get("Tarry-Id"); got != id {
				t.Errorf("%s came as %q, want %s", m.Subject, got, id)
			}
		case <-time.After(site.Patience):
			t.Fatalf("%s does not come", id)
		}
	}
	next("overdue")
	for _, want := range leftWaiting {
		path := fmt.Sprintf("/v1/messages/%s?topic=%s", want["id"], want["topic"])
		if key, ok := want["key"].(string); ok {
			path += "&key=" + key
		}
		var got struct {
			State, Due, Body, Key, TTL string
			Body64                     string `json:"body_base64"`
			Priority                   int
			Headers                    map[string][]string
		}
		answer := s.Must(a, http.MethodGet, path, nil)
		if err := json.Unmarshal([]byte(answer.Raw), &got); err != nil {
			t.Fatal(err)
		}
		body, _ := want["body"].(string)
		body64, _ := want["body_base64"].(string)
		if got.State != "waiting" || got.Due != "2036-01-31T08:00:00.000Z" || got.Body != body || got.Body64 != body64 {
			t.Errorf("%s: %s", path, answer.Raw)
		}
		if want["id"] == "options" && (got.Priority != 7 || got.TTL == "" || got.Headers["X-Order"][0] != "17") {
			t.Errorf("%s: %s", path, answer.Raw)
		}
		if answer := s.Must(a, http.MethodDelete, path, nil); answer.State != "canceled" {
			t.Errorf("cancel %s: %s", path, answer.Raw)
		}
	}
	if held := s.Must(a, http.MethodGet, "/v1/messages/held?topic=old.held.back", nil); held.State != "waiting" {
		t.Errorf("a message of a paused topic: %s", held.Raw)
	}
	if resumed := s.Must(a, http.MethodPost, "/v1/topics/old.held.*/resume", nil); resumed.Status != http.StatusOK {
		t.Errorf("resume: %s", resumed.Raw)
	}
	next("held")
	if journal {
		for id, state := range map[string]string{"delivered": "delivered", "canceled": "canceled"} {
			if got := s.Must(a, http.MethodGet, "/v1/messages/"+id+"?topic=old."+id, nil); got.State != state {
				t.Errorf("%s: %s", id, got.Raw)
			}
		}
		s.Says(a, 0, "", "verify")
	}
	select {
	case m := <-came:
		t.Errorf("%s comes too: %s", m.Subject, m.Header.Get("Tarry-Id"))
	default:
	}
}

func unzipped(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(layout6 + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
