//go:build fixture

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// leftDue were due soon after the program had stopped; those of old.held.* are paused.
var leftDue = []map[string]any{
	{"id": "overdue", "topic": "old.overdue", "body": "overdue", "delay": "20s"},
	{"id": "held", "topic": "old.held.back", "body": "held", "delay": "20s"},
}

// TestMakeLayout6 has the program that TARRY_OLD names make testdata/layout6:
//
//	git archive 3ac909d~1 | tar -x -C OLD && go build -C OLD -o tarry ./cmd/tarry
//	TARRY_OLD=OLD/tarry go test -tags fixture -run TestMakeLayout6 ./deploy/e2e
func TestMakeLayout6(t *testing.T) {
	s := site.New(t, site.Options{Zk: true})
	s.Ns = layout6Namespace
	s.Binary = os.Getenv("TARRY_OLD")
	journal := filepath.Join(t.TempDir(), "journal.db")
	s.Settings = append(s.Settings, "TARRY_JOURNAL_MODE=sync", "TARRY_JOURNAL_DSN=sqlite:"+journal)
	nc := s.Connect("consumer")
	came, err := nc.SubscribeSync("old.delivered")
	if err != nil {
		t.Fatal(err)
	}
	a := s.LaunchBy("a", []string{"env", "-u", "TARRY_PEER_LISTEN", "-u", "TARRY_OLD"}) // settings that it has not
	s.Ready(a)
	push := func(m map[string]any) {
		t.Helper()
		if got := s.Must(a, http.MethodPost, "/v1/messages", m); got.Status != http.StatusCreated {
			t.Fatalf("%v: %s", m, got.Raw)
		}
	}
	for _, m := range leftWaiting {
		push(m)
	}
	s.Must(a, http.MethodPatch, "/v1/messages/moved?topic=old.moved", map[string]any{"at": "2036-01-31T08:00:00Z"})
	push(map[string]any{"id": "canceled", "topic": "old.canceled", "body": "x", "delay": "1h"})
	s.Must(a, http.MethodDelete, "/v1/messages/canceled?topic=old.canceled", nil)
	push(map[string]any{"id": "delivered", "topic": "old.delivered", "body": "x", "delay": "100ms"})
	if _, err := came.NextMsg(site.Patience); err != nil {
		t.Fatal(err)
	}
	if got := s.Must(a, http.MethodPost, "/v1/topics/old.held.*/pause", nil); got.Status != http.StatusOK {
		t.Fatalf("pause: %s", got.Raw)
	}
	for _, m := range leftDue {
		push(m)
	}
	lab.Eventually(t, site.Patience, func() error { // it has ended in the journal too
		got, err := a.Call(t.Context(), http.MethodGet, "/v1/messages/delivered/history?topic=old.delivered", nil)
		if err == nil && !strings.Contains(got.Raw, `"state":"delivered"`) {
			err = errors.New(got.Raw)
		}
		return err
	})
	a.Stop()

	keys, rdb := map[string][]byte{}, s.Client()
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		value, err := rdb.Dump(t.Context(), key).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = value
	}
	text, err := json.MarshalIndent(keys, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"redis.json.gz": text, "journal.db.gz": db} {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, _ = zip.Write(content)
		_ = zip.Close()
		if err := os.WriteFile(layout6+name, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
