package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// manyCalls are the operations on many messages, each of which runs once at a time.
var manyCalls = map[string]struct{ target, body string }{
	"cancel":     {"/v1/messages/cancel", `{"all":true}`},
	"reschedule": {"/v1/messages/reschedule", `{"all":true,"delay":"1ms"}`},
	"requeue":    {"/v1/dead/requeue", `{"all":true}`},
	"purge":      {"/v1/dead/purge", `{"all":true}`},
}

func dry(body string) string { return strings.Replace(body, "{", `{"dry_run":true,`, 1) }

func TestMany_AnswersTheReport(t *testing.T) {
	t.Parallel()
	s := &steering{
		report: scheduler.Report{Looked: 40, Matched: 20, Done: 10, InFlight: 4, Maybe: 3, Ended: 2, Failed: 1}}
	d := open(t, steered(s))
	const want = `"looked":40,"matched":20,"done":10,"in_flight":4,"maybe_delivered":3,"ended":2,"failed":1}`
	for _, c := range manyCalls {
		if a := call(t, d, "POST", c.target, c.body).want(t, 200, ""); a.raw != "{"+want+"\n" {
			t.Errorf("%s: got %s", c.target, a.raw)
		}
		if a := call(t, d, "POST", c.target, dry(c.body)).want(t, 200, ""); a.raw != `{"dry_run":true,`+want+"\n" {
			t.Errorf("%s: got %s", c.target, a.raw)
		}
		if status, lines := inLines(t, d, c.target, c.body); status != 200 || len(lines) != 1 ||
			lines[0] != `{"report":{`+want+`}` {
			t.Errorf("%s: got %d %q", c.target, status, lines)
		}
	}
}

func TestMany_TellsProgressAndWhatWasDoneBeforeAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 5 * time.Millisecond
		s := &steering{
			report: scheduler.Report{Looked: 100, Matched: 50, Done: 49, Failed: 1},
			err:    fmt.Errorf("look at bucket 7: %w", scheduler.ErrUnavailable),
			many: func(_ context.Context, progress func(scheduler.Report)) {
				if progress == nil {
					return
				}
				progress(scheduler.Report{Looked: 50, Matched: 25, Done: 25})
				time.Sleep(6 * every) // of the bubble: for lines to go out
			},
		}
		d := open(t, steered(s), func(c *api.Config) { c.ProgressEvery = every })
		const report = `"report":{"looked":100,"matched":50,"done":49,"in_flight":0,"maybe_delivered":0,"ended":0,` +
			`"failed":1}}`
		for _, c := range manyCalls {
			status, lines := inLines(t, d, c.target, c.body)
			if status != 200 || len(lines) < 2 || !strings.HasPrefix(lines[0], `{"progress":{"looked":`) {
				t.Fatalf("%s: got %d %q", c.target, status, lines)
			}
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, `{"error":"unavailable",`) ||
				!strings.HasSuffix(last, report) {
				t.Errorf("%s: the last line is %s", c.target, last)
			}
			a := call(t, d, "POST", c.target, c.body).want(t, 503, "unavailable")
			if !strings.HasSuffix(a.raw, report+"\n") {
				t.Errorf("%s: got %s", c.target, a.raw)
			}
		}
		s.err = errors.New("secret inside")
		a := call(t, d, "POST", "/v1/messages/cancel", `{"all":true}`).want(t, 500, "internal")
		if strings.Contains(a.raw, "secret") || !strings.HasSuffix(a.raw, report+"\n") ||
			!strings.Contains(d.log.String(), "secret inside") {
			t.Errorf("got %s, log %s", a.raw, d.log)
		}
	})
}

func TestMany_RunsFourAtATimeByKind(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	s := &steering{many: func(context.Context, func(scheduler.Report)) { entered <- struct{}{}; <-leave }}
	d := open(t, steered(s))
	ended := make(chan int)
	for what, c := range manyCalls {
		for range 4 {
			go func() {
				w := httptest.NewRecorder()
				d.ServeHTTP(w,
					httptest.NewRequestWithContext(context.Background(), "POST", c.target, strings.NewReader(c.body)))
				ended <- w.Code
			}()
			<-entered
		}
		for _, body := range []string{c.body, dry(c.body)} {
			if a := call(t, d, "POST", c.target, body).want(t, 409, "already_running"); !strings.Contains(
				a.detail(), what) {
				t.Errorf("it does not say what: %s", a.raw)
			}
		}
	}
	call(t, d, "POST", "/v1/dead/requeue", `{"id":"a"}`).want(t, 200, "") // one message is not many
	call(t, d, "POST", "/v1/dead/purge", `{"ids":["a"]}`).want(t, 200, "")
	close(leave)
	for range 4 * len(manyCalls) {
		if code := <-ended; code != 200 {
			t.Errorf("one of the first four got %d", code)
		}
	}
	for _, c := range manyCalls {
		call(t, d, "POST", c.target, c.body).want(t, 200, "")
		<-entered
	}
}

func TestMany_EndsAtOnceWhenTheInstanceStops(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	s := &steering{err: context.Canceled, report: scheduler.Report{Looked: 500, Matched: 400, Done: 30},
		many: func(ctx context.Context, _ func(scheduler.Report)) {
			close(entered)
			<-ctx.Done()
		}}
	d := open(t, steered(s))
	address, stop := run(t, d)
	answered := make(chan reply, 1)
	go func() {
		r := httptest.NewRequest("POST", "http://"+address+"/v1/messages/cancel", strings.NewReader(`{"all":true}`))
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		answered <- read(t, w.Result())
	}()
	<-entered
	if err := stop(); err != nil {
		t.Error(err)
	}
	const report = `"report":{"looked":500,"matched":400,"done":30,"in_flight":0,"maybe_delivered":0,"ended":0,` +
		`"failed":0}}`
	if a := (<-answered).want(t, 503, "stopping"); !strings.HasSuffix(a.raw, report+"\n") {
		t.Errorf("it does not say how far it came: %s", a.raw)
	}
	// Over NATS the request API's context says so.
	d = open(t, steered(&steering{err: fmt.Errorf("browse: %w", scheduler.ErrUnavailable), report: s.report,
		many: func(ctx context.Context, _ func(scheduler.Report)) { <-ctx.Done() }}))
	ctx, end := context.WithCancelCause(t.Context())
	end(scheduler.ErrStopping)
	a := d.calls(ops.GroupAPI).do(t, ctx, "cancel_many", `{"all":true}`)
	if !strings.HasSuffix(a.want(t, 503, "stopping").raw, report+"\n") {
		t.Errorf("over NATS: got %s", a.raw)
	}
}

// TestMany_ThatIsStoppedDoesNotHideAnUnknownOutcome: what may have happened is never reported as not having happened.
func TestMany_ThatIsStoppedDoesNotHideAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	d := open(t, steered(&steering{err: fmt.Errorf("cancel: %w", scheduler.ErrOutcomeUnknown),
		many: func(context.Context, func(scheduler.Report)) {
			leave()
		}}))
	w := httptest.NewRecorder()
	d.ServeHTTP(w,
		httptest.NewRequestWithContext(ctx, "POST", "/v1/messages/cancel", strings.NewReader(`{"all":true}`)))
	if a := read(t, w.Result()).want(t, 504, "outcome_unknown"); !strings.HasPrefix(a.detail(), "cancel: ") {
		t.Errorf("got %s", a.raw)
	}
}

func TestSteering_LeavesOneLineForTheAudit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, body string
		want         map[string]any
	}{
		{"/v1/messages/cancel", `{"topic":"orders.>","key":"k","due_to":1896076800000,"dry_run":true}`,
			map[string]any{"operation": "cancel", "dry_run": true, "topic": "orders.>", "key": "k",
				"to": "2030-01-31T08:00:00.000Z", "from": nil,
				"matched": 5.0, "done": 3.0, "failed": 1.0}},
		{"/v1/messages/reschedule", `{"all":true,"shift":"1h"}`,
			map[string]any{"operation": "reschedule", "dry_run": false, "topic": ""}},
		{"/v1/dead/requeue", `{"id":"a"}`, map[string]any{"operation": "requeue", "id": "a"}},
		{"/v1/dead/requeue", `{"ids":["a","b"]}`, map[string]any{"operation": "requeue", "ids": 2.0}},
		{"/v1/dead/purge", `{"from":1896076800000}`,
			map[string]any{"operation": "purge", "from": "2030-01-31T08:00:00.000Z", "key": nil}},
		{"/v1/topics/orders.%3E/pause", ``, map[string]any{"operation": "pause", "topic": "orders.>"}},
		{"/v1/topics/orders.%3E/resume", ``, map[string]any{"operation": "resume", "topic": "orders.>"}},
	} {
		d := open(t, steered(&steering{was: true, report: scheduler.Report{Matched: 5, Done: 3, Failed: 1}}))
		call(t, d, "POST", c.target, c.body).want(t, 200, "")
		var line map[string]any
		for text := range strings.Lines(d.log.String()) {
			if !strings.Contains(text, `"level":"info"`) {
				continue
			}
			if line != nil {
				t.Errorf("%s: a second line: %s", c.target, text)
			}
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range c.want {
			if line[name] != want {
				t.Errorf("%s: %s is %v, want %v", c.target, name, line[name], want)
			}
		}
	}
}

// TestLong_MayBeAskedForAgainOnceItsReportIsOut: a script asks for one after the other.
func TestLong_MayBeAskedForAgainOnceItsReportIsOut(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(&journal{}), func(c *api.Config) { c.Service = service{steering: &steering{}} })
	all := map[string]string{"/v1/restore": "", "/v1/verify": "", "/v1/redeliver": `{"since":"1h"}`}
	for _, c := range manyCalls {
		all[c.target] = c.body
	}
	for target, body := range all {
		for _, accept := range []string{"application/json", "application/x-ndjson"} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(body))
			r.Header.Set("Accept", accept)
			again := 0
			d.ServeHTTP(&onWrite{httptest.NewRecorder(), func() {
				again = call(t, d, "POST", target, body).status
			}}, r)
			if again != 200 {
				t.Errorf("%s, %s: got %d", target, accept, again)
			}
		}
	}
}

// onWrite does something as the answer goes out.
type onWrite struct {
	*httptest.ResponseRecorder
	do func()
}

func (w *onWrite) Write(b []byte) (int, error) {
	w.do()
	return w.ResponseRecorder.Write(b)
}
