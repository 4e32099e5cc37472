package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func (scripted) Reschedule(_ context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error) {
	r := scheduler.AmendResult{Code: scheduler.AmendDone, Info: info(ref, message.StateWaiting)}
	if e.Priority != nil {
		r.Info.Priority = *e.Priority
	}
	switch {
	case ref.ID == "nobody":
		r.Code = scheduler.AmendUnknown
	case ref.ID == "flying":
		r.Code, r.Info.State = scheduler.AmendInFlight, message.StateInFlight
	case ref.ID == "maybe":
		r.Code = scheduler.AmendMaybe
	case ref.ID == "delivered":
		r.Code, r.Info.State, r.Info.EndedAt = scheduler.AmendEnded, message.StateDelivered, someDue
	case ref.ID == "down":
		return r, scheduler.ErrUnavailable
	case e.Version != 0 && e.Version != 3:
		r.Code = scheduler.AmendVersion
	}
	return r, nil
}

// many answers by the topic that is selected.
func many(sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error) {
	if progress != nil {
		progress(scheduler.Report{Looked: 10, Matched: 2, Done: 1})
	}
	switch {
	case sel.Topic == "down":
		return scheduler.Report{Looked: 5, Matched: 5, Done: 5}, scheduler.ErrUnavailable
	case sel.Topic == "busy.>":
		return scheduler.Report{Looked: 40, Matched: 20, Done: 11, InFlight: 4, Maybe: 3, Ended: 2}, nil
	case sel.Topic == "failing":
		return scheduler.Report{Looked: 40, Matched: 20, Done: 19, Failed: 1}, nil
	case sel.DryRun:
		return scheduler.Report{Looked: 40, Matched: 20}, nil
	}
	return scheduler.Report{Looked: 40, Matched: 20, Done: 20}, nil
}

func (scripted) CancelMany(_ context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return many(sel, progress)
}

func (scripted) RescheduleMany(_ context.Context, sel scheduler.Selection, _ scheduler.Edit,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return many(sel, progress)
}

func (scripted) RequeueMany(_ context.Context, sel scheduler.Selection, _ scheduler.Requeue,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return many(sel, progress)
}

func (scripted) PurgeMany(_ context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return many(sel, progress)
}

// Listed has five dead messages; the cursor is how many were shown. Of others it has one, of a key.
func (scripted) Listed(_ context.Context, q scheduler.Listing, cursor string,
	limit, _ int) (page []message.Info, next string, looked int, err error) {
	if len(q.States) == 0 {
		return []message.Info{{Message: message.Message{UID: someUID}}}, "1", 5, nil
	}
	topic := q.Topic
	if topic == "late" { // others come first
		return nil, "10000", 10_000, nil
	}
	from := 0
	_, _ = fmt.Sscan(cursor, &from)
	for i := from; i < 5 && len(page) < limit && topic != "nothing"; i++ {
		m := info(scheduler.Ref{ID: fmt.Sprintf("order-%d", i)}, message.StateDead)
		m.Why = message.Why{}
		m.UID, m.EndedAt, m.Reason = message.UID(fmt.Sprintf("t-%016d", i)), someDue+message.Milli(i),
			"no \x1b[31mpermission"
		if i%2 == 1 {
			m.ID, m.Reason = "", "refused 3 times"
		}
		page, next = append(page, m), fmt.Sprint(i+1)
	}
	if from+len(page) >= 5 || topic == "nothing" {
		next = ""
	}
	return page, next, len(page), nil
}

func deadOne(ref scheduler.Ref) error {
	switch ref.ID {
	case "nobody":
		return scheduler.ErrUnknownID
	case "waits":
		return fmt.Errorf("%w: it is waiting", scheduler.ErrNotDead)
	case "down":
		return scheduler.ErrUnavailable
	case "lost":
		return scheduler.ErrOutcomeUnknown
	}
	return nil
}

func (scripted) RequeueOne(_ context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error) {
	return scheduler.Accepted{
		ID: ref.ID, UID: someUID, Due: someDue.Add(r.Delay), State: message.StateWaiting, Version: 1}, deadOne(ref)
}

func (scripted) PurgeOne(_ context.Context, ref scheduler.Ref) error { return deadOne(ref) }

// topicCounts are those of the topics that have messages, by name.
func topicCounts() []scheduler.TopicCount {
	return []scheduler.TopicCount{{Topic: "mail.out", Waiting: 7}, {Topic: "orders.cancel", Dead: 2},
		{Topic: "orders.remind", Waiting: 12, InFlight: 3, Dead: 1}}
}

func (scripted) TopicCount(_ context.Context, topic string) (scheduler.TopicCount, error) {
	for _, c := range topicCounts() {
		if c.Topic == topic {
			return c, nil
		}
	}
	if topic == "down" {
		return scheduler.TopicCount{}, scheduler.ErrUnavailable
	}
	return scheduler.TopicCount{Topic: topic}, nil
}

func (scripted) TopicCounts(_ context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	rest := slices.DeleteFunc(topicCounts(), func(c scheduler.TopicCount) bool { return c.Topic <= after })
	return rest[:min(limit, len(rest))], nil
}

func (scripted) Pauses(context.Context) ([]scheduler.Pause, error) {
	return []scheduler.Pause{{Pattern: "orders.>", By: "10.0.0.9", At: someDue}}, nil
}

const someWhy = "nobody listens on orders.remind; next try in 3 s"

func (scripted) HeldLanes(context.Context) ([]scheduler.HeldGroup, error) {
	return []scheduler.HeldGroup{{Lane: "core:orders.remind", Name: "orders.remind", Count: 14, Oldest: someDue,
		Why: message.Why{Word: message.WhyNoListener, Detail: someWhy, Next: someDue.Add(time.Second)}}}, nil
}

func (scripted) ReadyTopics(context.Context, int) ([]scheduler.HeldGroup, bool, error) {
	return []scheduler.HeldGroup{{Name: "jobs.>\a", Count: 412,
		Why: message.Why{Word: message.WhyPaused, Detail: "jobs.> is paused", By: "ann", Since: someDue}}}, false, nil
}

func (scripted) View(context.Context, ...*message.Info) error { return nil }

func (scripted) ParkedTopics(context.Context, []string) (map[string]message.Why, error) {
	return map[string]message.Why{"orders.remind": {Word: message.WhyNoListener, Detail: someWhy}}, nil
}

func (scripted) Pause(_ context.Context, pattern, _ string) (bool, error) {
	if pattern == "one.too.many" {
		return false, scheduler.ErrTooManyPauses
	}
	return pattern != "unheard", nil
}

func (scripted) Resume(_ context.Context, pattern string) (was, inEffect bool, err error) {
	return pattern == "orders.>" || pattern == "unheard", pattern == "orders.>", nil
}

func TestReschedule_ChangesWhatIsGivenAndNothingElse(t *testing.T) {
	t.Parallel()
	s, _ := real(t)
	environ := serve(t, api.Config{Config: ops.Config{Service: s}})
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("\x00\xff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tarry(t, "", environ, "push", "orders.remind", "--at", "2030-01-31T08:00:00Z", "--id", "a", "--body", "first",
		"--header", "X-A=1", "--priority", "7").want(t, exitDone, "")
	version := 1
	for _, c := range []struct {
		in       string
		args     []string
		due      message.Milli
		priority uint8
		headers  string
		body     string
	}{
		{"", []string{"--shift", "1h"}, someDue + 3_600_000, 7, "[{X-A 1}]", "first"},
		{"", []string{"--shift=-30m", "--priority", "0"}, someDue + 1_800_000, 0, "[{X-A 1}]", "first"},
		{"", []string{"--at", "1896076800000"}, someDue, 0, "[{X-A 1}]", "first"},
		{"", []string{"--body", ""}, someDue, 0, "[{X-A 1}]", ""},
		{"from a pipe", []string{"--body-file", "-"}, someDue, 0, "[{X-A 1}]", "from a pipe"},
		{"", []string{"--body-file", file, "--header", "X-B=2", "--header", "X-B=3"}, someDue, 0, "[{X-B 2} {X-B 3}]",
			"\x00\xff\n"},
	} {
		args := append([]string{"reschedule", "a", "--if-version", fmt.Sprint(version), "--json"}, c.args...)
		var a struct{ Version int }
		if err := json.Unmarshal(
			[]byte(tarry(t, c.in, environ, args...).want(t, exitDone, `"state":"waiting"`).out), &a); err != nil {
			t.Fatal(err)
		}
		if version++; a.Version != version {
			t.Errorf("%q: version %d, want %d", c.args, a.Version, version)
		}
		i, err := s.Get(t.Context(), scheduler.Ref{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if string(i.Body) != c.body || fmt.Sprint(i.Headers) != c.headers || i.Priority != c.priority ||
			i.Due != c.due {
			t.Errorf("%q: got %+v", c.args, i)
		}
	}
	tarry(t, "", environ, "reschedule", "a", "--if-version", "1", "--delay", "1s").want(t, exitState,
		fmt.Sprintf("the message has the version %d; nothing was changed (version_mismatch)", version))
	tarry(t, "", environ, "run", "a").want(t, exitDone, "a (t-")
	if i, err := s.Get(t.Context(), scheduler.Ref{ID: "a"}); err != nil ||
		i.Due.Time().After(time.Now().Add(time.Second)) {
		t.Errorf("got %+v, %v", i, err)
	}
}

// TestTopics_ShowsEveryPage: of more topics than a page holds.
func TestTopics_ShowsEveryPage(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}}})
	r := tarry(t, "", environ, "topics", "--all", "--limit", "2").want(t, exitDone, "")
	if r.err != "" || strings.Count(r.out, "TOPIC") != 1 || strings.Count(r.out, "PAUSED") != 1 ||
		strings.Index(r.out, "orders.remind") < strings.Index(r.out, "orders.cancel") ||
		strings.Index(r.out, "PAUSED") < strings.Index(r.out, "orders.remind") {
		t.Errorf("got %q, %q", r.out, r.err)
	}
	r = tarry(t, "", environ, "topics", "--all", "--limit", "1", "--json").want(t, exitDone, "")
	pages := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if len(pages) != 3 {
		t.Fatalf("%d pages: %q", len(pages), r.out)
	}
	var first struct{ Cursor string }
	if err := json.Unmarshal([]byte(pages[0]), &first); err != nil || first.Cursor == "" {
		t.Fatalf("got %q, %v", pages[0], err)
	}
	if r = tarry(t, "", environ, "topics", "--limit", "1", "--cursor", first.Cursor, "--json").want(
		t, exitDone, ""); r.out != pages[1]+"\n" {
		t.Errorf("got %q, want %q", r.out, pages[1])
	}
}

func TestMany_OfTheCommandsTellAStory(t *testing.T) {
	t.Parallel()
	s, _ := real(t)
	environ := serve(t, api.Config{Config: ops.Config{Service: s}})
	do := func(code int, out string, args ...string) {
		t.Helper()
		tarry(t, "", environ, args...).want(t, code, out)
	}
	for i := range 20 {
		topic, key := "orders.remind", "odd"
		if i%2 == 0 {
			topic, key = "mail.out", "even"
		}
		do(exitDone, "is due on", "push", topic, "--at", fmt.Sprint(someDue+message.Milli(i)), "--key", key, "--id",
			fmt.Sprint("m", i))
	}
	do(exitDone, "orders.remind                             10         0          0          0\n", "topics")
	do(exitDone, "waiting   10\n", "topics", "mail.out")
	do(exitDone, "dry run, nothing was changed; ", "cancel", "--topic", "orders.>", "--dry-run")
	do(exitDone, " 10 match: 10 rescheduled, 0 in flight", "reschedule", "--topic", "orders.>", "--shift", "1h")
	do(exitDone, "due       2030-01-31T09:00:00.003Z", "get", "m3")
	do(exitDone, " 3 match: 3 canceled", "cancel", "--topic", "mail.out", "--due-to", fmt.Sprint(someDue+4))
	do(exitDone, " 0 match: 0 canceled", "cancel", "--all", "--key", "none")
	do(exitDone, " 7 match: 7 canceled", "cancel", "--all", "--key", "even")
	do(exitDone, "state     canceled", "get", "m18")
	do(exitDone, "orders.> is paused", "topics", "pause", "orders.>")
	do(exitDone, "paused    orders.>, since 2", "topics", "orders.remind")
	do(exitDone, "orders.> is no longer paused", "topics", "resume", "orders.>")
	do(exitNotFound, "not_paused", "topics", "resume", "orders.>")
	do(exitNotFound, "unknown_id", "dead", "requeue", "nobody")
	do(exitState, "not_dead", "dead", "purge", "m1")
	do(exitDone, "10 canceled", "cancel", "--all")
}

func TestDeadList_GoesThroughAllPages(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}}})
	for _, limit := range []string{"1", "2", "5", "1000"} {
		r := tarry(t, "", environ, "dead", "list", "--all", "--limit", limit).want(t, exitDone,
			"2030-01-31T08:00:00.004Z (in 59m)      t-0000000000000004")
		if strings.Count(r.out, "\n") != 6 || strings.Count(r.out, "DIED") != 1 || r.err != "" {
			t.Errorf("limit %s: out %q, err %q", limit, r.out, r.err)
		}
	}
	r := tarry(t, "", environ, "dead", "list", "--limit", "2").want(t, exitDone, "")
	if r.err != "tarry: there are more: --all shows them\n" {
		t.Errorf("err %q", r.err)
	}
	var page struct{ Cursor string }
	if err := json.Unmarshal(
		[]byte(tarry(t, "", environ, "dead", "list", "--json", "--limit", "2").out), &page); err != nil {
		t.Fatal(err)
	}
	tarry(t, "", environ, "dead", "list", "--limit", "1", "--cursor", page.Cursor).want(t, exitDone,
		"t-0000000000000002")
	tarry(t, "", environ, "dead", "list", "--cursor", page.Cursor, "--topic", "other").want(t, exitUsage,
		"invalid_cursor")
}

func TestMany_SaysWhatWasDoneBeforeItFailed(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}}})
	tarry(t, "", environ, "cancel", "--all", "--topic", "down").want(t, exitFailed,
		"store unavailable (unavailable); 5 were canceled before that\n")
	tarry(t, "", environ, "cancel", "--all", "--topic", "down", "--json").want(t, exitFailed,
		`"report":{"looked":5,"matched":5,"done":5,`)
	answers := strings.Join([]string{`{"progress":{"looked":1}}`,
		`{"error":"unavailable","detail":"store unavailable","report":{"done":7}}`, ""}, "\n")
	environ = lines(t, answers) // with progress before it
	tarry(t, "", environ, "dead", "purge", "--all").want(t, exitFailed, "; 7 were purged before that\n")
}

func TestToken_IsNewEachTimeAndItsDigestIsItsOwn(t *testing.T) {
	t.Parallel()
	r := tarry(t, "", nil, "token").want(t, exitDone, "")
	m := regexp.MustCompile(`^token   (\S{20,})\nsha256  ([0-9a-f]{64})\n$`).FindStringSubmatch(r.out)
	if m == nil || r.err != "" || config.HashToken(m[1]) != m[2] {
		t.Fatalf("got %q, %q", r.out, r.err)
	}
	var made struct{ Token, SHA256 string }
	if err := json.Unmarshal([]byte(tarry(t, "", nil, "token", "--json").out), &made); err != nil ||
		made.Token == m[1] || config.HashToken(made.Token) != made.SHA256 {
		t.Errorf("got %+v, %v", made, err)
	}
	tarry(t, "", nil, "token", "x").want(t, exitUsage, "want no arguments")
}

// lines is an instance that answers every request with these.
func lines(t testing.TB, text string) []string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return []string{"TARRY_SERVER=" + s.URL}
}

// showing calls a function once a text has been written.
type showing struct {
	printed
	text  string
	shown func()
}

func (s *showing) Write(b []byte) (int, error) {
	n, err := s.printed.Write(b)
	if strings.Contains(s.String(), s.text) {
		s.shown()
	}
	return n, err
}

// TestMany_ThatBreaksOffTellsWhatWasHeardOfIt: what was done stays done, whoever ended the operation.
func TestMany_ThatBreaksOffTellsWhatWasHeardOfIt(t *testing.T) {
	t.Parallel()
	answers := func(end func(*http.Request)) []string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"progress":{"looked":500,"matched":400,"done":320}}`+"\n")
			_ = http.NewResponseController(w).Flush()
			end(r)
		}))
		t.Cleanup(s.Close)
		return []string{"TARRY_SERVER=" + s.URL}
	}
	for _, args := range [][]string{{"cancel", "--all"}, {"cancel", "--all", "--json"}} {
		tarry(t, "", answers(func(*http.Request) {}), args...).want(t, exitFailed,
			"broke off before its report; at least 320 were canceled before that")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	environ := answers(func(r *http.Request) { <-r.Context().Done() })
	shown := &showing{text: "320 canceled", shown: cancel}
	code := run(ctx, []string{"cancel", "--all"},
		outside{out: shown, err: shown, environ: environ, terminal: true, now: time.Now, zone: time.UTC})
	if code != exitFailed ||
		!strings.HasSuffix(shown.String(), "tarry: interrupted; at least 320 were canceled before that\n") {
		t.Errorf("got %d %q", code, shown.String())
	}
}

// At a terminal, what changes many messages asks first. Scripts are not asked.
func TestMany_AskAtATerminal(t *testing.T) {
	t.Parallel()
	var did []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := 6
		if strings.Contains(string(body), "none") {
			n = 0
		}
		dry := strings.Contains(string(body), `"dry_run":true`)
		did = append(did, strings.TrimPrefix(r.URL.Path, "/v1/")+fmt.Sprint(" ", dry))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"report":{"looked":9,"matched":%d,"done":%d,"dry_run":%t,"added":4,"raised":2,"gone":6}}`, n, n, dry)
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		args, says string
		quiet      bool // no terminal
		code       int
		want       []string
	}{
		{"cancel --all", "y\n", false, exitDone, []string{"messages/cancel true", "messages/cancel false"}},
		{"cancel --all", "YES\n", false, exitDone, []string{"messages/cancel true", "messages/cancel false"}},
		{"cancel --all", "n\n", false, exitFailed, []string{"messages/cancel true"}},
		{"cancel --all", "", false, exitFailed, []string{"messages/cancel true"}},
		{"cancel --all", "\n", false, exitFailed, []string{"messages/cancel true"}},
		{"cancel --all --yes", "", false, exitDone, []string{"messages/cancel false"}},
		{"cancel --all", "", true, exitDone, []string{"messages/cancel false"}},
		{"cancel --topic none.> --all", "", false, exitDone, []string{"messages/cancel true", "messages/cancel false"}},
		{"cancel --all --dry-run", "", false, exitDone, []string{"messages/cancel true"}},
		{"reschedule --all --delay 1h", "n\n", false, exitFailed, []string{"messages/reschedule true"}},
		{"dead purge --all", "n\n", false, exitFailed, []string{"dead/purge true"}},
		{"restore --all", "n\n", false, exitFailed, []string{"restore true"}},
		{"redeliver --since 2h", "n\n", false, exitFailed, []string{"redeliver true"}},
		{"redeliver --since 2h", "", true, exitDone, []string{"redeliver false"}},
		{"rejected requeue 1 2 3 4 5 6", "n\n", false, exitFailed, nil},
		{"dead requeue --older 1h", "y\n", false, exitDone, []string{"dead/requeue true", "dead/requeue false"}},
	} {
		did = nil
		var out, said printed
		code := run(t.Context(), append(strings.Fields(c.args), "--server", server.URL), outside{
			in: strings.NewReader(c.says), out: &out, err: &said, asks: !c.quiet,
			now: func() time.Time { return someNow }, zone: time.UTC})
		if code != c.code || !slices.Equal(did, c.want) {
			t.Errorf("%s, answered %q: %d, it did %q, want %d, %q: %s%s", c.args, c.says, code, did, c.code, c.want,
				&out, &said)
		}
		if asked := strings.Contains(said.String(), "6 messages match"); asked != (len(c.want) > 1 && c.says != "" ||
			c.code == exitFailed) {
			t.Errorf("%s: %s", c.args, &said)
		}
	}
	tarry(t, "", nil, "pus", "a").want(t, exitUsage, "did you mean push?")
	if r := tarry(t, "", nil, "pul", "a"); r.code != exitUsage || strings.Contains(r.err, "pull") {
		t.Errorf("%d %s", r.code, r.err)
	}
}
