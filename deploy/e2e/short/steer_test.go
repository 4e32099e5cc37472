package short_test

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

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// patch sends a change with the version that the message must have.
func patch(s *site.Site, i *site.Instance, id, version string, body map[string]any) site.Answer {
	s.T.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.T.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodPatch, "http://"+i.Addr+"/v1/messages/"+id,
		strings.NewReader(string(text)))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+site.HTTPToken)
	if version != "" {
		r.Header.Set("If-Match", version)
	}
	resp, err := site.Web.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	a := site.Answer{Status: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		s.T.Fatal(err)
	}
	return a
}

// A user moves, edits and runs messages through every API, in sync mode, on either instance, and the history shows it.
func TestSteer_MovesEditsAndRunsByEveryDoor(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.SharedMariaDB(t))
	a, b := s.Start("a"), s.Start("b")
	in := s.Inbox(site.CoreSubject + ">")

	s.Push(a, map[string]any{"topic": site.CoreSubject + "http", "id": "by-http", "delay": "1h", "body": "old"})
	got := patch(s, b, "by-http", `"1"`,
		map[string]any{"delay": "1s", "body": "new", "headers": map[string]string{"X-A": "1"}})
	if got.Status != http.StatusOK {
		t.Fatalf("patch: %d %s %s", got.Status, got.Error, got.Detail)
	}
	if got := patch(s, a, "by-http", `"1"`,
		map[string]any{"delay": "1m"}); got.Status != http.StatusPreconditionFailed || got.Error != "version_mismatch" {
		t.Errorf("patch with a version that is over: %d %s", got.Status, got.Error)
	}
	if got := in.Bodies(t, 1); got[0] != "new" {
		t.Errorf("arrived: %q", got)
	}
	lab.Eventually(t, site.Patience, func() error {
		if got := patch(s, a, "by-http", "", map[string]any{"delay": "1m"}); got.Status != http.StatusConflict ||
			got.Error != "already_delivered" {
			return fmt.Errorf("patch after delivery: %d %s", got.Status, got.Error)
		}
		return nil
	})
	s.Emptied()
	h := s.Must(a, http.MethodGet, "/v1/messages/by-http/history", nil)
	if !strings.Contains(h.Raw, `"edited: body, due, headers; content `) || !strings.Contains(h.Raw, `"delivered"`) {
		t.Errorf("history: %s", h.Raw)
	}

	s.Push(b, map[string]any{"topic": site.CoreSubject + "run", "id": "by-run", "delay": "1h", "body": "run"})
	if got := s.Must(a, http.MethodPost, "/v1/messages/by-run/run", nil); got.Status != http.StatusOK {
		t.Errorf("run: %d %s", got.Status, got.Raw)
	}
	in.Bodies(t, 2)

	s.Push(a, map[string]any{"topic": site.CoreSubject + "nats", "id": "by-nats", "delay": "1h", "body": "nats"})
	reply, err := s.Connect("steerer").Request("tarry."+s.Ns+".api.reschedule",
		[]byte(`{"id":"by-nats","delay":"500ms"}`), site.Patience)
	if err != nil || strings.Contains(string(reply.Data), "error") {
		t.Fatalf("reschedule by request: %v", err)
	}
	in.Bodies(t, 3)

	s.Push(a, map[string]any{"topic": site.CoreSubject + "cli", "id": "by-cli", "delay": "1h", "body": "cli"})
	s.Says(b, 0, "", "reschedule", "by-cli", "--delay", "2h")
	s.Says(b, 0, "", "run", "by-cli")
	in.Bodies(t, 4)
	s.Says(a, 3, "", "run", "nobody")
	s.Emptied()
}

// Operators act on many at once: dry run first, then for real; what is not selected stays.
func TestSteer_ActsOnManyBySelection(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a := s.Start("a")
	in := s.Inbox(site.CoreSubject + ">")
	var batch []map[string]any
	for i := range 900 {
		topic := site.CoreSubject + "mine"
		if i%3 == 0 {
			topic = site.CoreSubject + "theirs"
		}
		batch = append(batch,
			map[string]any{"topic": topic, "delay": "1h", "body": fmt.Sprint(i), "key": fmt.Sprint("k", i%2)})
	}
	s.Batch(a, batch)
	s.Says(a, 0, "600", "cancel", "--topic", site.CoreSubject+"mine", "--dry-run")
	if got := s.Must(a, http.MethodPost, "/v1/messages/cancel",
		map[string]any{"topic": site.CoreSubject + "min*", "key": "k0"}); got.Status != http.StatusBadRequest {
		t.Errorf("a pattern with a star inside a token: %d %s", got.Status, got.Raw)
	}
	if got := s.Must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{}); got.Status != http.StatusBadRequest {
		t.Errorf("a selection of nothing in particular: %d %s", got.Status, got.Raw)
	}
	if got := s.Must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": site.CoreSubject + "mine",
		"key": "k0"}); got.Status != http.StatusOK || !strings.Contains(got.Raw, `"done":300`) {
		t.Errorf("cancel: %d %s", got.Status, got.Raw)
	}
	if got := s.Must(a, http.MethodPost, "/v1/messages/reschedule",
		map[string]any{"topic": site.CoreSubject + "theirs", "delay": "100ms"}); got.Status != http.StatusOK ||
		!strings.Contains(got.Raw, `"done":300`) {
		t.Errorf("reschedule: %d %s", got.Status, got.Raw)
	}
	in.Bodies(t, 300)
	if got := s.Must(a, http.MethodGet, "/v1/topics/"+site.CoreSubject+"mine", nil); !strings.Contains(got.Raw,
		`"waiting":300`) {
		t.Errorf("counts: %s", got.Raw)
	}
}

// A message that NATS refuses for good is retried by its schedule and then dead, with a copy; it is listed, mended and
// requeued.
func TestDead_IsListedMendedRequeuedAndPurged(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	file := settingsFile(s, "topics:\n  - pattern: jobs.>\n    dead: ops.dead\n    retry: 0,100ms\n")
	a := s.Start("a", "TARRY_CONFIG="+file)
	js := site.OpenJetStream(t, s.Connect("owner"))
	_, err := js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: site.StreamName, Subjects: []string{site.StreamSubject + ">"}, MaxMsgSize: 2000})
	if err != nil {
		t.Fatal(err)
	}
	copies := s.Inbox("ops.dead")
	for _, id := range []string{"one", "two", "three"} {
		s.Push(a,
			map[string]any{"topic": site.StreamSubject + "x", "id": id, "delay": "10ms", "body": strings.Repeat(id, 1000)})
	}
	copies.Bodies(t, 3)
	for _, m := range copies.Snapshot() {
		if m.Header.Get("Tarry-Subject") != site.StreamSubject+"x" || m.Header.Get("Tarry-Reason") == "" {
			t.Errorf("a copy's headers: %v", m.Header)
		}
	}
	lab.Eventually(t, site.Patience, func() error {
		if got := s.Must(a, http.MethodGet, "/v1/dead?topic="+site.StreamSubject+"x", nil); strings.Count(
			got.Raw, `"uid"`) != 3 {
			return fmt.Errorf("dead: %s", got.Raw)
		}
		return nil
	})
	got := s.Must(a, http.MethodPost, "/v1/dead/requeue", map[string]any{"id": "one", "body": "short"})
	if got.Status != http.StatusOK {
		t.Errorf("requeue: %d %s", got.Status, got.Raw)
	}
	lab.Eventually(t, site.Patience, func() error {
		if got := s.Must(a, http.MethodGet, "/v1/messages/one", nil); got.State != "delivered" {
			return fmt.Errorf("requeued, it is %s", got.Raw)
		}
		return nil
	})
	s.Says(a, 0, "two", "dead", "list")
	s.Says(a, 0, "", "dead", "purge", "two")
	s.Says(a, 0, "1", "dead", "requeue", "--topic", "jobs.>", "--dry-run")
	if got := s.Must(a, http.MethodPost, "/v1/dead/purge",
		map[string]any{"topic": "jobs.>"}); got.Status != http.StatusOK {
		t.Errorf("purge: %d %s", got.Status, got.Raw)
	}
	if got := s.Must(a, http.MethodGet, "/v1/dead", nil); strings.Contains(got.Raw, `"uid"`) {
		t.Errorf("after the purge: %s", got.Raw)
	}
}

// settingsFile writes a file of settings.
func settingsFile(s *site.Site, text string) string {
	s.T.Helper()
	name := filepath.Join(s.T.TempDir(), "tarry.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
	return name
}

// A pause outlives its leader; a reload takes effect as a whole or not at all.
func TestTopics_PauseOutlivesTheLeaderAndSettingsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	file := settingsFile(s, "topics:\n  - pattern: bells.slow\n    rate: 1\n")
	a, b := s.Start("a", "TARRY_CONFIG="+file), s.Start("b", "TARRY_CONFIG="+file)
	leader, term := s.Leader(0, a, b)
	in, slow := s.Inbox(site.CoreSubject+"paused"), s.Inbox(site.CoreSubject+"slow")
	s.Says(a, 0, "", "topics", "pause", site.CoreSubject+"paused")
	lab.Eventually(t, site.Patience, func() error { // the leader reads it once a second: what is pushed later is held
		if got := s.Must(leader, http.MethodGet, "/v1/topics/"+site.CoreSubject+"paused", nil); !strings.Contains(
			got.Raw, `"by"`) {
			return fmt.Errorf("topic: %s", got.Raw)
		}
		return nil
	})
	for i := range 20 {
		s.Push(b, map[string]any{"topic": site.CoreSubject + "paused", "delay": "2s", "body": fmt.Sprint(i)})
	}
	for i := range 30 {
		s.Push(b, map[string]any{"topic": site.CoreSubject + "slow", "delay": "10ms", "body": fmt.Sprint(i)})
	}
	arrived := func(n int) []string { // the different bodies: what was in flight may be delivered again
		t.Helper()
		var bodies []string
		lab.Eventually(t, site.Patience, func() error {
			bodies = nil
			for _, m := range slow.Snapshot() {
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
	next, _ := s.Leader(term, s.Others(leader)...)
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
	if n := len(in.Snapshot()); n > 0 {
		t.Errorf("%d messages of a paused topic arrived", n)
	}
	s.Says(next, 0, "", "topics", "resume", site.CoreSubject+"paused")
	got := in.Bodies(t, 20)
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
	s := site.New(t, site.Options{})
	a := s.Start("a")
	nc := s.Connect("consumer")
	in := s.Inbox(site.CoreSubject + "till")
	push := nats.NewMsg("delayed." + site.CoreSubject + "till")
	push.Header = nats.Header{"Tarry-Delay": {"10ms"}, "Tarry-Retry": {"0,200ms"}, "Tarry-Id": {"order-9"}}
	push.Data = []byte("charge")
	if _, err := nc.RequestMsg(push, site.Patience); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 3; attempt++ {
		in.Bodies(t, attempt)
		m := in.Snapshot()[attempt-1]
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
			if _, err := nc.RequestMsg(back, site.Patience); err != nil {
				t.Fatal(err)
			}
		}
	}
	lab.Eventually(t, site.Patience, func() error {
		got := s.Must(a, http.MethodGet, "/v1/dead", nil) // each of its three tries counts once
		if !strings.Contains(got.Raw, "the till is closed") || !strings.Contains(got.Raw, `"attempt":3,`) {
			return fmt.Errorf("dead: %s", got.Raw)
		}
		return nil
	})
	in.Bodies(t, 3)
}

// partitions: N gives each key one subject, so that one consumer a partition is serial per key.
func TestPartitions_GiveAKeyOneSubject(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a := s.Start("a", "TARRY_CONFIG="+settingsFile(s, "topics:\n  - pattern: bells.orders\n    partitions: 4\n"))
	in := s.Inbox(site.CoreSubject + "orders.*")
	for i := range 80 {
		s.Push(a, map[string]any{"topic": site.CoreSubject + "orders", "delay": "10ms", "body": fmt.Sprint(i),
			"key": fmt.Sprint("order-", i%10)})
	}
	in.Bodies(t, 80)
	subjects, used := map[string]string{}, map[string]bool{}
	for _, m := range in.Snapshot() {
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
	s := site.New(t, site.Options{})
	sum := sha256.Sum256([]byte("tarry_shop"))
	tokens := fmt.Sprintf("http:\n  tokens:\n    - {name: shop, sha256: %x, push: [%q]}\n", sum, site.CoreSubject+"shop.>")
	file := settingsFile(s, tokens)
	a := s.Start("a", "TARRY_CONFIG="+file)
	ask := func(token, topic string) int {
		t.Helper()
		body := fmt.Sprintf(`{"topic":%q,"delay":"1h"}`, topic)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.Addr+"/v1/messages",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := site.Web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for topic, want := range map[string]int{site.CoreSubject + "shop.a": http.StatusCreated,
		site.CoreSubject + "bank.a": http.StatusForbidden} {
		if got := ask("tarry_shop", topic); got != want {
			t.Errorf("%s: %d, want %d", topic, got, want)
		}
	}
	if got := ask("tarry_sho", site.CoreSubject+"shop.a"); got != http.StatusUnauthorized {
		t.Errorf("another token: %d", got)
	}
	if err := os.WriteFile(file, []byte("topics: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Signal(syscall.SIGHUP)
	a.WaitLog("settings loaded again")
	if got := ask("tarry_shop", site.CoreSubject+"shop.a"); got != http.StatusUnauthorized {
		t.Errorf("after it was taken away: %d", got)
	}
	if got := ask(site.HTTPToken, site.CoreSubject+"bank.a"); got != http.StatusCreated {
		t.Errorf("the token with all rights: %d", got)
	}
}

// A message that is too late to deliver is reported and copied, never dropped silently.
func TestExpired_IsToldAndCopied(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a := s.Start("a", "TARRY_CONFIG="+
		settingsFile(s, "topics:\n  - {pattern: bells.quick, ttl: 100ms, expired: ops.late}\n"))
	in, late := s.Inbox(site.CoreSubject+"quick"), s.Inbox("ops.late")
	s.Says(a, 0, "", "topics", "pause", site.CoreSubject+"quick")
	s.Push(a, map[string]any{"topic": site.CoreSubject + "quick", "id": "q", "delay": "10ms", "body": "x"})
	due := time.Now().Add(time.Second)
	lab.Eventually(t, site.Patience, func() error {
		if time.Now().Before(due) {
			return errors.New("its time to live is not over")
		}
		return nil
	})
	s.Says(a, 0, "", "topics", "resume", site.CoreSubject+"quick")
	late.Bodies(t, 1)
	lab.Eventually(t, site.Patience, func() error {
		if got := s.Must(a, http.MethodGet, "/v1/messages/q", nil); got.State != "expired" {
			return fmt.Errorf("it is %s", got.Raw)
		}
		return nil
	})
	if n := len(in.Snapshot()); n > 0 {
		t.Errorf("%d late messages arrived", n)
	}
	if got := s.Must(a, http.MethodDelete, "/v1/messages/q", nil); got.Error != "already_expired" {
		t.Errorf("cancel of what expired: %s", got.Raw)
	}
	if n := s.Metric(a, "tarry_expired_total"); n != 1 {
		t.Errorf("%d expired are counted", n)
	}
}
