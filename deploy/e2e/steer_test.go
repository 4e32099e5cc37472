package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// patch sends a change with the version that the message must have.
func (s *site) patch(i *instance, id, version string, body map[string]any) answer {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPatch, "http://"+i.addr+"/v1/messages/"+id,
		strings.NewReader(string(text)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+httpToken)
	if version != "" {
		r.Header.Set("If-Match", version)
	}
	resp, err := web.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// A user moves, edits and runs messages through every API, in sync mode, on either instance, and the history shows it.
func TestSteer_MovesEditsAndRunsByEveryDoor(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.journal("sync", lab.SharedMariaDB(t))
	a, b := s.start("a"), s.start("b")
	in := s.inbox(coreSubject + ">")

	s.push(a, map[string]any{"topic": coreSubject + "http", "id": "by-http", "delay": "1h", "body": "old"})
	got := s.patch(b, "by-http", `"1"`,
		map[string]any{"delay": "1s", "body": "new", "headers": map[string]string{"X-A": "1"}})
	if got.status != http.StatusOK {
		t.Fatalf("patch: %d %s %s", got.status, got.Error, got.Detail)
	}
	if got := s.patch(a, "by-http", `"1"`,
		map[string]any{"delay": "1m"}); got.status != http.StatusPreconditionFailed || got.Error != "version_mismatch" {
		t.Errorf("patch with a version that is over: %d %s", got.status, got.Error)
	}
	if got := in.bodies(t, 1); got[0] != "new" {
		t.Errorf("arrived: %q", got)
	}
	lab.Eventually(t, patience, func() error {
		if got := s.patch(a, "by-http", "", map[string]any{"delay": "1m"}); got.status != http.StatusConflict ||
			got.Error != "already_delivered" {
			return fmt.Errorf("patch after delivery: %d %s", got.status, got.Error)
		}
		return nil
	})
	s.emptied()
	if h := s.must(a, http.MethodGet, "/v1/messages/by-http/history", nil); !strings.Contains(h.raw, `"edited"`) ||
		!strings.Contains(h.raw, `"delivered"`) {
		t.Errorf("history: %s", h.raw)
	}

	s.push(b, map[string]any{"topic": coreSubject + "run", "id": "by-run", "delay": "1h", "body": "run"})
	if got := s.must(a, http.MethodPost, "/v1/messages/by-run/run", nil); got.status != http.StatusOK {
		t.Errorf("run: %d %s", got.status, got.raw)
	}
	in.bodies(t, 2)

	s.push(a, map[string]any{"topic": coreSubject + "nats", "id": "by-nats", "delay": "1h", "body": "nats"})
	reply, err := s.connect("steerer").Request("tarry."+s.ns+".api.reschedule",
		[]byte(`{"id":"by-nats","delay":"500ms"}`), patience)
	if err != nil || strings.Contains(string(reply.Data), "error") {
		t.Fatalf("reschedule by request: %v", err)
	}
	in.bodies(t, 3)

	s.push(a, map[string]any{"topic": coreSubject + "cli", "id": "by-cli", "delay": "1h", "body": "cli"})
	s.says(b, 0, "", "reschedule", "by-cli", "--delay", "2h")
	s.says(b, 0, "", "run", "by-cli")
	in.bodies(t, 4)
	s.says(a, 3, "", "run", "nobody")
	s.emptied()
}

// Operators act on many at once: dry run first, then for real; what is not selected stays.
func TestSteer_ActsOnManyBySelection(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a := s.start("a")
	in := s.inbox(coreSubject + ">")
	var batch []map[string]any
	for i := range 900 {
		topic := coreSubject + "mine"
		if i%3 == 0 {
			topic = coreSubject + "theirs"
		}
		batch = append(batch,
			map[string]any{"topic": topic, "delay": "1h", "body": fmt.Sprint(i), "key": fmt.Sprint("k", i%2)})
	}
	got := s.must(a, http.MethodPost, "/v1/messages/batch", map[string]any{"messages": batch})
	if got.status != http.StatusOK {
		t.Fatal(got.raw)
	}
	s.says(a, 0, "600", "cancel", "--topic", coreSubject+"mine", "--dry-run")
	if got := s.must(a, http.MethodPost, "/v1/messages/cancel",
		map[string]any{"topic": coreSubject + "min*", "key": "k0"}); got.status != http.StatusBadRequest {
		t.Errorf("a pattern with a star inside a token: %d %s", got.status, got.raw)
	}
	if got := s.must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{}); got.status != http.StatusBadRequest {
		t.Errorf("a selection of nothing in particular: %d %s", got.status, got.raw)
	}
	if got := s.must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": coreSubject + "mine",
		"key": "k0"}); got.status != http.StatusOK || !strings.Contains(got.raw, `"done":300`) {
		t.Errorf("cancel: %d %s", got.status, got.raw)
	}
	if got := s.must(a, http.MethodPost, "/v1/messages/reschedule",
		map[string]any{"topic": coreSubject + "theirs", "delay": "100ms"}); got.status != http.StatusOK ||
		!strings.Contains(got.raw, `"done":300`) {
		t.Errorf("reschedule: %d %s", got.status, got.raw)
	}
	in.bodies(t, 300)
	if got := s.must(a, http.MethodGet, "/v1/topics/"+coreSubject+"mine", nil); !strings.Contains(got.raw,
		`"waiting":300`) {
		t.Errorf("counts: %s", got.raw)
	}
}

// A message that NATS refuses for good is retried by its schedule and then dead, with a copy; it is listed, mended and
// requeued.
func TestDead_IsListedMendedRequeuedAndPurged(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	file := s.settingsFile("topics:\n  - pattern: jobs.>\n    dead: ops.dead\n    retry: 0,100ms\n")
	a := s.start("a", "TARRY_CONFIG="+file)
	js := openJetStream(t, s.connect("owner"))
	_, err := js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: streamName, Subjects: []string{streamSubject + ">"}, MaxMsgSize: 2000})
	if err != nil {
		t.Fatal(err)
	}
	copies := s.inbox("ops.dead")
	for _, id := range []string{"one", "two", "three"} {
		s.push(a,
			map[string]any{"topic": streamSubject + "x", "id": id, "delay": "10ms", "body": strings.Repeat(id, 1000)})
	}
	copies.bodies(t, 3)
	for _, m := range copies.snapshot() {
		if m.Header.Get("Tarry-Subject") != streamSubject+"x" || m.Header.Get("Tarry-Reason") == "" {
			t.Errorf("a copy's headers: %v", m.Header)
		}
	}
	lab.Eventually(t, patience, func() error {
		if got := s.must(a, http.MethodGet, "/v1/dead?topic="+streamSubject+"x", nil); strings.Count(
			got.raw, `"uid"`) != 3 {
			return fmt.Errorf("dead: %s", got.raw)
		}
		return nil
	})
	got := s.must(a, http.MethodPost, "/v1/dead/requeue", map[string]any{"id": "one", "body": "short"})
	if got.status != http.StatusOK {
		t.Errorf("requeue: %d %s", got.status, got.raw)
	}
	lab.Eventually(t, patience, func() error {
		if got := s.must(a, http.MethodGet, "/v1/messages/one", nil); got.State != "delivered" {
			return fmt.Errorf("requeued, it is %s", got.raw)
		}
		return nil
	})
	s.says(a, 0, "two", "dead", "list")
	s.says(a, 0, "", "dead", "purge", "two")
	s.says(a, 0, "1", "dead", "requeue", "--topic", "jobs.>", "--dry-run")
	if got := s.must(a, http.MethodPost, "/v1/dead/purge",
		map[string]any{"topic": "jobs.>"}); got.status != http.StatusOK {
		t.Errorf("purge: %d %s", got.status, got.raw)
	}
	if got := s.must(a, http.MethodGet, "/v1/dead", nil); strings.Contains(got.raw, `"uid"`) {
		t.Errorf("after the purge: %s", got.raw)
	}
}

// settingsFile writes a file of settings.
func (s *site) settingsFile(text string) string {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// A pause outlives its leader; a reload takes effect as a whole or not at all.
func TestTopics_PauseOutlivesTheLeaderAndSettingsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	file := s.settingsFile("topics:\n  - pattern: bells.slow\n    rate: 1\n")
	a, b := s.start("a", "TARRY_CONFIG="+file), s.start("b", "TARRY_CONFIG="+file)
	leader, term := s.leader(0, a, b)
	in, slow := s.inbox(coreSubject+"paused"), s.inbox(coreSubject+"slow")
	s.says(a, 0, "", "topics", "pause", coreSubject+"paused")
	lab.Eventually(t, patience, func() error { // the leader reads it once a second: what is pushed later is held
		if got := s.must(leader, http.MethodGet, "/v1/topics/"+coreSubject+"paused", nil); !strings.Contains(
			got.raw, `"by"`) {
			return fmt.Errorf("topic: %s", got.raw)
		}
		return nil
	})
	for i := range 20 {
		s.push(b, map[string]any{"topic": coreSubject + "paused", "delay": "2s", "body": fmt.Sprint(i)})
	}
	for i := range 30 {
		s.push(b, map[string]any{"topic": coreSubject + "slow", "delay": "10ms", "body": fmt.Sprint(i)})
	}
	arrived := func(n int) []string { // the different bodies: what was in flight may be delivered again
		t.Helper()
		var bodies []string
		lab.Eventually(t, patience, func() error {
			bodies = nil
			for _, m := range slow.snapshot() {
				bodies = append(bodies, string(m.Data))
			}
			slices.Sort(bodies)
			if bodies = slices.Compact(bodies); len(bodies) < n {
				return fmt.Errorf("%d messages arrived, want %d", len(bodies), n)
			}
			return nil
		})
		return bodies
	}
	arrived(1)
	leader.Kill()
	next, _ := s.leader(term, s.others(leader)...)
	if n := len(arrived(5)); n > 15 {
		t.Errorf("%d of 30 messages arrived at one a second", n)
	}
	if err := os.WriteFile(file, []byte("topics:\n  - pattern: bells.slow\n    rate: -3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	next.Signal(syscall.SIGHUP)
	next.WaitLog("settings were not reloaded")
	if err := os.WriteFile(file, []byte("topics:\n  - pattern: bells.slow\n    rate: 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	next.Signal(syscall.SIGHUP)
	next.WaitLog("settings loaded again")
	if got := arrived(30); !slices.Equal(got, sortedNumbers(30)) {
		t.Errorf("after the limit was lifted: %q", got)
	}
	if n := len(in.snapshot()); n > 0 {
		t.Errorf("%d messages of a paused topic arrived", n)
	}
	s.says(next, 0, "", "topics", "resume", coreSubject+"paused")
	got := in.bodies(t, 20)
	if !slices.Equal(slices.Sorted(slices.Values(got)), sortedNumbers(20)) {
		t.Errorf("after the resume: %q", got)
	}
}

func sortedNumbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	slices.Sort(all)
	return all
}

// A consumer without tarry's library sends a message back by its headers alone, until its schedule is over.
func TestRetry_AConsumerSendsBackUntilItIsDead(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a := s.start("a")
	nc := s.connect("consumer")
	in := s.inbox(coreSubject + "till")
	push := nats.NewMsg("delayed." + coreSubject + "till")
	push.Header = nats.Header{"Tarry-Delay": {"10ms"}, "Tarry-Retry": {"0,200ms"}, "Tarry-Id": {"order-9"}}
	push.Data = []byte("charge")
	if _, err := nc.RequestMsg(push, patience); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 3; attempt++ {
		in.bodies(t, attempt)
		m := in.snapshot()[attempt-1]
		if m.Header.Get("Tarry-Attempt") != fmt.Sprint(attempt) || m.Header.Get("Tarry-Retry") != "0,200ms" {
			t.Fatalf("delivery %d: %v", attempt, m.Header)
		}
		back := nats.NewMsg("delayed." + m.Subject)
		back.Data = m.Data
		for name, values := range m.Header {
			if name != nats.MsgIdHdr {
				back.Header[name] = values
			}
		}
		back.Header.Set("Tarry-Attempt", fmt.Sprint(attempt+1))
		back.Header.Set("Tarry-Reason", "the till is closed")
		for range 2 { // it is safe to repeat
			if _, err := nc.RequestMsg(back, patience); err != nil {
				t.Fatal(err)
			}
		}
	}
	lab.Eventually(t, patience, func() error {
		if got := s.must(a, http.MethodGet, "/v1/dead", nil); !strings.Contains(got.raw, "the till is closed") {
			return fmt.Errorf("dead: %s", got.raw)
		}
		return nil
	})
	in.bodies(t, 3)
}

// partitions: N gives each key one subject, so that one consumer a partition is serial per key.
func TestPartitions_GiveAKeyOneSubject(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a := s.start("a", "TARRY_CONFIG="+s.settingsFile("topics:\n  - pattern: bells.orders\n    partitions: 4\n"))
	in := s.inbox(coreSubject + "orders.*")
	for i := range 80 {
		s.push(a, map[string]any{"topic": coreSubject + "orders", "delay": "10ms", "body": fmt.Sprint(i),
			"key": fmt.Sprint("order-", i%10)})
	}
	in.bodies(t, 80)
	subjects, used := map[string]string{}, map[string]bool{}
	for _, m := range in.snapshot() {
		key := m.Header.Get("Tarry-Key")
		if was, seen := subjects[key]; seen && was != m.Subject {
			t.Errorf("key %s came on %s and %s", key, was, m.Subject)
		}
		subjects[key], used[m.Subject] = m.Subject, true
	}
	if len(subjects) != 10 || len(used) < 2 || len(used) > 4 {
		t.Errorf("%d keys on %d subjects", len(subjects), len(used))
	}
}

// Tokens with rights, as the built binary takes them from its settings, and loses them on SIGHUP.
func TestTokens_HoldOnTheBuiltBinary(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	sum := sha256.Sum256([]byte("tarry_shop"))
	tokens := fmt.Sprintf("http:\n  tokens:\n    - {name: shop, sha256: %x, push: [%q]}\n", sum, coreSubject+"shop.>")
	file := s.settingsFile(tokens)
	a := s.start("a", "TARRY_CONFIG="+file)
	ask := func(token, topic string) int {
		t.Helper()
		body := fmt.Sprintf(`{"topic":%q,"delay":"1h"}`, topic)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.addr+"/v1/messages",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for topic, want := range map[string]int{coreSubject + "shop.a": http.StatusCreated,
		coreSubject + "bank.a": http.StatusForbidden} {
		if got := ask("tarry_shop", topic); got != want {
			t.Errorf("%s: %d, want %d", topic, got, want)
		}
	}
	if got := ask("tarry_sho", coreSubject+"shop.a"); got != http.StatusUnauthorized {
		t.Errorf("another token: %d", got)
	}
	if err := os.WriteFile(file, []byte("topics: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Signal(syscall.SIGHUP)
	a.WaitLog("settings loaded again")
	if got := ask("tarry_shop", coreSubject+"shop.a"); got != http.StatusUnauthorized {
		t.Errorf("after it was taken away: %d", got)
	}
	if got := ask(httpToken, coreSubject+"bank.a"); got != http.StatusCreated {
		t.Errorf("the token with all rights: %d", got)
	}
}

// A message that is too late to deliver is reported and copied, never dropped silently.
func TestExpired_IsToldAndCopied(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a := s.start("a", "TARRY_CONFIG="+
		s.settingsFile("topics:\n  - {pattern: bells.quick, ttl: 100ms, expired: ops.late}\n"))
	in, late := s.inbox(coreSubject+"quick"), s.inbox("ops.late")
	s.says(a, 0, "", "topics", "pause", coreSubject+"quick")
	s.push(a, map[string]any{"topic": coreSubject + "quick", "id": "q", "delay": "10ms", "body": "x"})
	due := time.Now().Add(time.Second)
	lab.Eventually(t, patience, func() error {
		if time.Now().Before(due) {
			return errors.New("its time to live is not over")
		}
		return nil
	})
	s.says(a, 0, "", "topics", "resume", coreSubject+"quick")
	late.bodies(t, 1)
	lab.Eventually(t, patience, func() error {
		if got := s.must(a, http.MethodGet, "/v1/messages/q", nil); got.State != "expired" {
			return fmt.Errorf("it is %s", got.raw)
		}
		return nil
	})
	if n := len(in.snapshot()); n > 0 {
		t.Errorf("%d late messages arrived", n)
	}
	if got := s.must(a, http.MethodDelete, "/v1/messages/q", nil); got.Error != "already_expired" {
		t.Errorf("cancel of what expired: %s", got.raw)
	}
	if n := s.metric(a, "tarry_expired_total"); n != 1 {
		t.Errorf("%d expired are counted", n)
	}
}
