package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// TestHistory_TellsEveryLifeOfAName: a message dies, is requeued and canceled, and
// its name is used again. One answer has all of it, and so has a list by the name.
func TestHistory_TellsEveryLifeOfAName(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	journal := "sqlite:" + filepath.Join(t.TempDir(), "journal.db")
	a := start(t, journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "lives", "a"), "sync", journal))
	a.ready()
	a.cluster()
	did := func(method, path, body string) string {
		t.Helper()
		status, text := a.says(method, path, body)
		if status/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return text
	}
	uid := func(text string) string {
		t.Helper()
		var m struct{ UID string }
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.UID == "" {
			t.Fatalf("%s, %v", text, err)
		}
		return m.UID
	}
	dead := uid(did("POST", "/v1/messages",
		`{"topic":"lives.x","id":"order-1","attempt":3,"retry":"1m","reason":"no stock","body":"1"}`))
	// another topic's is another name
	did("POST", "/v1/messages", `{"topic":"lives.other","id":"order-1","delay":"1h"}`)
	lab.Eventually(t, 10*time.Second, func() error {
		if _, text := a.says("GET", "/v1/messages/"+dead, ""); !strings.Contains(text, `"state":"dead"`) {
			return fmt.Errorf("not dead yet: %s", text)
		}
		return nil
	})
	again := uid(did("POST", "/v1/dead/requeue", `{"id":"order-1","topic":"lives.x","delay":"1h"}`))

	type life struct {
		UID, State, Kind, Other string
		History                 []struct{ State, Kind, Other string }
	}
	var h struct {
		life
		Others []life
		More   bool
	}
	if err := json.Unmarshal([]byte(did("GET", "/v1/messages/order-1/history?topic=lives.x", "")), &h); err != nil {
		t.Fatal(err)
	}
	if h.UID != again || len(h.Others) != 1 || h.Others[0].UID != dead || h.More {
		t.Fatalf("got %+v, want %s and before it %s", h, again, dead)
	}
	old := h.Others[0]
	if old.State != "canceled" || old.Kind != "requeued" || old.Other != again || len(old.History) < 2 ||
		old.History[len(old.History)-2].State != "dead" {
		t.Errorf("got %+v, want what was dead, and as which it goes on", old)
	}
	if h.History[0].Kind != "requeue" || h.History[0].Other != dead {
		t.Errorf("got %+v, want the one that it was", h.History[0])
	}
	h.Others = nil
	if err := json.Unmarshal([]byte(did("GET", "/v1/messages/"+dead+"/history", "")), &h); err != nil ||
		h.UID != dead || len(h.Others) != 0 {
		t.Errorf("by uid: got %+v, %v, want %s alone", h, err, dead)
	}
	// The retry of a message without a name has that message's uid as its name.
	unnamed := uid(did("POST", "/v1/messages", `{"topic":"lives.x","delay":"1h"}`))
	retry := uid(did("POST", "/v1/messages", `{"topic":"lives.x","id":"`+unnamed+`","attempt":2,"delay":"1h"}`))
	h.Others = nil
	if err := json.Unmarshal([]byte(did("GET", "/v1/messages/"+unnamed+"/history", "")), &h); err != nil ||
		h.UID != unnamed || len(h.Others) != 1 || h.Others[0].UID != retry {
		t.Errorf("without a name: got %+v, %v, want %s and its retry %s", h, err, unnamed, retry)
	}
	// The journal may have forgotten the first.
	retry = uid(did("POST", "/v1/messages", `{"topic":"lives.x","id":"t-0123456789abcdef","attempt":2,"delay":"1h"}`))
	h.Others = nil
	if err := json.Unmarshal([]byte(did("GET", "/v1/messages/t-0123456789abcdef/history", "")), &h); err != nil ||
		h.UID != retry || len(h.Others) != 0 {
		t.Errorf("forgotten: got %+v, %v, want its retry %s", h, err, retry)
	}
	if text := did("GET", "/v1/messages?id=order-1", ""); strings.Count(text, `"id":"order-1"`) != 3 ||
		!strings.Contains(text, again) || !strings.Contains(text, dead) {
		t.Errorf("list: got %s", text)
	}

	// More than an answer holds: it says so.
	for i := range 22 {
		a.cancel("/v1/messages/order-1?topic=lives.x")
		lab.Eventually(t, 10*time.Second, func() error {
			push := fmt.Sprintf(
				`{"topic":"lives.x","id":"order-1","on_duplicate":"replace","delay":"1h","body":"%d"}`, i)
			status, text := a.says("POST", "/v1/messages", push)
			if status/100 != 2 { // 200: one whose outcome was unknown was made
				return fmt.Errorf("%d %s", status, text)
			}
			return nil
		})
	}
	err := json.Unmarshal([]byte(did("GET", "/v1/messages/order-1/history?topic=lives.x", "")), &h)
	if err != nil || len(h.Others) != 19 || !h.More {
		t.Errorf("got %d others, more %v, %v", len(h.Others), h.More, err)
	}

	// Merges are changes without end: the answer has the last ones, and says that there are earlier ones.
	version := func() (n int, err error) { // of the live one, 0 if there is none
		var m struct {
			Version int
			State   string
		}
		status, text := a.says("GET", "/v1/messages/busy", "")
		if status == http.StatusNotFound {
			return 0, nil
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil || status != http.StatusOK {
			return 0, fmt.Errorf("%d %s, %v", status, text, err)
		}
		if m.State != "waiting" {
			return 0, nil
		}
		return m.Version, nil
	}
	// A push whose outcome is unknown, as on a disk that stalls, may have been made: the message tells what is missing.
	merged := func(n int) {
		t.Helper()
		before, err := version()
		if err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, time.Minute, func() error {
			now, err := version()
			if missing := before + n - now; err == nil && missing > 0 {
				one := `{"topic":"lives.x","id":"busy","on_duplicate":"replace","delay":"1h"}`
				did("POST", "/v1/messages/batch", `{"messages":[`+strings.Repeat(one+",", missing-1)+one+`]}`)
				err = fmt.Errorf("%d are missing", missing)
			}
			return err
		})
	}
	var busy struct {
		bounded
		Others []bounded
	}
	read := func() {
		t.Helper()
		busy.Earlier, busy.Others = false, nil
		if err := json.Unmarshal([]byte(did("GET", "/v1/messages/busy/history", "")), &busy); err != nil {
			t.Fatal(err)
		}
	}
	merged(record.MaxChanges)
	if read(); busy.Earlier || busy.versions() != "1 to 1000" {
		t.Errorf("got versions %s, earlier %v, want all", busy.versions(), busy.Earlier)
	}
	merged(5)
	if read(); !busy.Earlier || busy.versions() != "6 to 1005" {
		t.Errorf("got versions %s, earlier %v, want the last %d", busy.versions(), busy.Earlier, record.MaxChanges)
	}
	a.cancel("/v1/messages/busy")
	merged(2)
	if read(); busy.Earlier || busy.versions() != "1 to 2" || len(busy.Others) != 1 || !busy.Others[0].Earlier ||
		busy.Others[0].versions() != "9 to 1006" {
		t.Errorf("got versions %s and of the one before %+v, want %d together", busy.versions(), busy.Others,
			record.MaxChanges)
	}
	merged(record.MaxChanges)
	if read(); !busy.Earlier || busy.versions() != "3 to 1002" || len(busy.Others) != 1 || !busy.Others[0].Earlier ||
		busy.Others[0].versions() != "1006 to 1006" {
		t.Errorf("got versions %s and of the one before %+v, want its end", busy.versions(), busy.Others)
	}
}

// bounded is a message in a history, with the part of it that a bound on the answer decides.
type bounded struct {
	History []struct{ Version int }
	Earlier bool
}

func (b *bounded) versions() string {
	if len(b.History) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d to %d", b.History[0].Version, b.History[len(b.History)-1].Version)
}
