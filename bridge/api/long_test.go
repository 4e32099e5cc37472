package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func restoredNothing(context.Context, func(record.RestoreReport)) (record.RestoreReport, error) {
	return record.RestoreReport{}, nil
}

// inLines makes a request that accepts lines and gives them.
func inLines(t testing.TB, h http.Handler, target, body string) (status int, lines []string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(body))
	r.Header.Set("Accept", "application/json;q=0.5, application/x-ndjson")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Result().Header.Get("Content-Type"); w.Code == 200 && got != "application/x-ndjson" {
		t.Errorf("Content-Type %q", got)
	}
	for line := range strings.Lines(w.Body.String()) {
		if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
			t.Errorf("a line is %q", line)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return w.Code, lines
}

func TestLong_AnswersTheReport(t *testing.T) {
	t.Parallel()
	j := &journal{
		verify: func(_ context.Context, progress func(record.VerifyReport)) (record.VerifyReport, error) {
			if progress != nil {
				progress(record.VerifyReport{InStore: 1})
			}
			return record.VerifyReport{InStore: 10, InJournal: 11,
				Found: map[string]int{record.StoreOlder: 1, record.MissingInStore: 1}, Repaired: 1,
				Differences: []record.Difference{
					{UID: uidA, Bucket: 3, Kind: record.MissingInStore,
						Journal: record.Stand{State: message.StateWaiting, Version: 2}, Repaired: true},
					{UID: uidB, Kind: record.StoreOlder, Store: record.Stand{State: message.StateInFlight,
						Version: 1}, Journal: record.Stand{State: message.StateDelivered, Version: 2}},
				}}, nil
		}}
	d := open(t, keeping(j))
	for _, c := range []struct {
		target, body string
		asked        any
		want         string
	}{
		{"/v1/restore", "", record.RestoreRequest{Overdue: true},
			`{"read":21,"added":6,"raised":5,"same":4,"in_flight":3,"newer":2}`},
		{"/v1/restore", `{"overdue":false,"topic":"a.b","dry_run":true,"rate":10}`,
			record.RestoreRequest{Topic: "a.b", DryRun: true, Rate: 10},
			`{"dry_run":true,"read":21,"added":6,"raised":5,"same":4,"in_flight":3,"newer":2}`},
		{"/v1/redeliver", `{"since":"90m"}`, record.RedeliverRequest{Since: 1896085800000},
			`{"checked":21,"present":6,"gone":5,"redelivered":4,"unknown":3,"failed":1}`},
		{"/v1/redeliver", `{"since":"2030-01-31T09:00:00+01:00","topic":"a.b","dry_run":true}`,
			record.RedeliverRequest{Since: 1896076800000, Topic: "a.b", DryRun: true},
			`{"dry_run":true,"checked":21,"present":6,"gone":5,"redelivered":4,"unknown":3,"failed":1}`},
		{"/v1/verify", `{"repair":true,"revive":true}`, record.VerifyRequest{Repair: true, Revive: true},
			`{"in_store":10,"in_journal":11,"found":{"missing_in_store":1,"store_older":1},"repaired":1,` +
				`"differences":[` +
				`{"uid":"t-000000000000000a","bucket":3,"kind":"missing_in_store","journal":{"state":"waiting",` +
				`"version":2},"repaired":true},` +
				`{"uid":"t-000000000000000b","bucket":0,"kind":"store_older","store":{"state":"in_flight",` +
				`"version":1},"journal":{"state":"delivered","version":2},"repaired":false}]}`},
	} {
		if a := call(t, d, "POST", c.target, c.body).want(t, 200, ""); a.raw != c.want+"\n" {
			t.Errorf("%s: got %s\nwant %s", c.target, a.raw, c.want)
		}
		if j.last() != c.asked {
			t.Errorf("%s %s asked for %+v, want %+v", c.target, c.body, j.last(), c.asked)
		}
		if status, lines := inLines(t, d, c.target, c.body); status != 200 || len(lines) != 1 ||
			lines[0] != `{"report":`+c.want+`}` {
			t.Errorf("%s: got %d %q", c.target, status, lines)
		}
	}
	j.verify = nil
	a := call(t, d, "POST", "/v1/verify", "")
	if a.raw != `{"in_store":0,"in_journal":0,"found":{},"repaired":0,"differences":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
}

func TestLong_TellsProgressLineByLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 5 * time.Millisecond
		counts := map[string]int{} // goes on changing while lines are written
		j := &journal{
			verify: func(_ context.Context, progress func(record.VerifyReport)) (record.VerifyReport, error) {
				time.Sleep(6 * every) // of the bubble: for lines to go out, before and after
				for i := range 3000 {
					counts[record.StoreNewer] = i
					progress(
						record.VerifyReport{InStore: i, Found: counts,
							Differences: []record.Difference{{UID: uidA}}})
				}
				time.Sleep(6 * every) // of the bubble
				return record.VerifyReport{InStore: 3000}, nil
			}}
		d := open(t, keeping(j), func(c *api.Config) { c.ProgressEvery = every })
		_, lines := inLines(t, d, "/v1/verify", "")
		if len(lines) < 3 || len(lines) > 100 ||
			lines[0] != `{"progress":{"in_store":0,"in_journal":0,"found":{},"repaired":0,"differences":[]}}` ||
			lines[len(lines)-1] != `{"report":{"in_store":3000,"in_journal":0,"found":{},"repaired":0,`+
				`"differences":[]}}` {
			t.Errorf("got %d lines, %q", len(lines), lines)
		}
		if strings.Contains(strings.Join(lines, ""), "uid") ||
			!strings.Contains(strings.Join(lines, ""), `"found":{"store_newer":`) {
			t.Errorf("got %q", lines)
		}
	})
}

func TestLong_ThatFailsAfterTheFirstLineSaysSoInTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		d := open(t, keeping(j), func(c *api.Config) { c.ProgressEvery = 5 * time.Millisecond })
		for _, c := range []struct {
			err    error
			line   string
			logged bool
		}{
			{scheduler.ErrUnavailable, `{"error":"unavailable","detail":"store unavailable"}`, false},
			{errors.New("secret inside"),
				`{"error":"internal","detail":"internal error; the log has the details"}`, true},
		} {
			j.restore = func(context.Context, func(record.RestoreReport)) (record.RestoreReport, error) {
				time.Sleep(50 * time.Millisecond) // of the bubble
				return record.RestoreReport{}, c.err
			}
			status, lines := inLines(t, d, "/v1/restore", "")
			if status != 200 || len(lines) < 2 || !strings.HasPrefix(lines[0], `{"progress":`) ||
				lines[len(lines)-1] != c.line {
				t.Errorf("got %d %q", status, lines)
			}
			if strings.Contains(d.log.String(), "secret inside") != c.logged {
				t.Errorf("log: %s", d.log)
			}
		}
	})
}

func TestLong_ThatPanicsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	j := &journal{restore: func(context.Context, func(record.RestoreReport)) (record.RestoreReport, error) {
		panic("no")
	}}
	d := open(t, keeping(j))
	for range 2 { // the first must not block the second
		call(t, d, "POST", "/v1/restore", "", "Accept", "application/x-ndjson").want(t, 500, "internal")
		call(t, d, "POST", "/v1/restore", "").want(t, 500, "internal")
	}
}

func TestLong_RunsOnceAtATimeByKind(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting)}}
	wait := func() { entered <- struct{}{}; <-leave }
	j.verify = func(context.Context, func(record.VerifyReport)) (record.VerifyReport, error) {
		wait()
		return record.VerifyReport{}, nil
	}
	j.redeliver = func(context.Context, func(record.RedeliverReport)) (record.RedeliverReport, error) {
		wait()
		return record.RedeliverReport{}, nil
	}
	d := open(t, keeping(j))
	ended := make(chan int)
	for target, body := range map[string]string{"/v1/verify": "", "/v1/redeliver": `{"since":"1h"}`} {
		go func() {
			w := httptest.NewRecorder()
			d.ServeHTTP(w,
				httptest.NewRequestWithContext(context.Background(), "POST", target, strings.NewReader(body)))
			ended <- w.Code
		}()
		<-entered
		a := call(t, d, "POST", target, body).want(t, 409, "already_running")
		if what := strings.TrimPrefix(target, "/v1/"); !strings.Contains(a.detail(), what) {
			t.Errorf("it does not say what: %s", a.raw)
		}
	}
	call(t, d, "POST", "/v1/restore", "").want(t, 200, "")
	call(t, d, "POST", "/v1/messages/a/restore", "").want(t, 200, "")
	close(leave)
	for range 2 {
		if code := <-ended; code != 200 {
			t.Errorf("the first got %d", code)
		}
	}
	call(t, d, "POST", "/v1/verify", "").want(t, 200, "")
}

func TestLong_LeavesOneLineForTheAudit(t *testing.T) {
	t.Parallel()
	j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting)}}
	for _, c := range []struct {
		target, body string
		want         map[string]any
	}{
		{"/v1/restore", `{"topic":"a.b","rate":5}`,
			map[string]any{"operation": "restore", "dry_run": false, "overdue": true, "topic": "a.b", "rate": 5.0}},
		{"/v1/restore", `{"dry_run":true}`, map[string]any{"operation": "restore", "dry_run": true}},
		{"/v1/messages/a/restore", `{"dry_run":true}`,
			map[string]any{"operation": "restore", "dry_run": true, "id": "a"}},
		{"/v1/verify", ``, map[string]any{"operation": "verify", "dry_run": true}},
		{"/v1/verify", `{"repair":true}`, map[string]any{"operation": "verify", "dry_run": false}},
		{"/v1/redeliver", `{"since":"1h"}`,
			map[string]any{"operation": "redeliver", "dry_run": false, "since": "2030-01-31T11:00:00.000Z"}},
	} {
		d := open(t, keeping(j))
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
		if line["message"] != "operator action" || line["remote"] != "192.0.2.1:1234" {
			t.Errorf("%s: got %v", c.target, line)
		}
		for name, want := range c.want {
			if line[name] != want {
				t.Errorf("%s: %s is %v, want %v", c.target, name, line[name], want)
			}
		}
	}
}

// slow is an operation that takes longer than all of the server's time-outs, or until it is stopped.
func slow(ctx context.Context, _ func(record.RestoreReport)) (record.RestoreReport, error) {
	select {
	case <-time.After(1200 * time.Millisecond):
		return record.RestoreReport{Read: 1}, nil
	case <-ctx.Done():
		return record.RestoreReport{}, fmt.Errorf("read the journal: %w", ctx.Err())
	}
}

func TestLong_OutlivesTheServersTimeOuts(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(&journal{restore: slow}), func(c *api.Config) {
		c.HeaderTimeout, c.ReadTimeout, c.Timeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
		c.ProgressEvery = 20 * time.Millisecond
	})
	address, _ := run(t, d)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for _, accept := range []string{"application/x-ndjson", "application/json"} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+"/v1/restore",
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for from := bufio.NewScanner(answer.Body); from.Scan(); {
			last = from.Text()
		}
		_ = answer.Body.Close()
		if answer.StatusCode != 200 || !strings.Contains(last, `"read":1,`) {
			t.Errorf("%s: got %d %q", accept, answer.StatusCode, last)
		}
	}
}

func TestLong_EndsWhenItsClientGoesAway(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"application/x-ndjson", "application/json"} {
		entered, left := make(chan struct{}), make(chan error, 1)
		d := open(t, keeping(&journal{
			redeliver: func(ctx context.Context, _ func(record.RedeliverReport)) (record.RedeliverReport, error) {
				close(entered)
				<-ctx.Done()
				left <- ctx.Err()
				return record.RedeliverReport{}, errors.New("the driver was torn away")
			}}), func(c *api.Config) { c.ReadTimeout, c.ProgressEvery = time.Second, time.Minute }) // else it is answered
		address, _ := run(t, d)
		ctx, gone := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/v1/redeliver",
			strings.NewReader(`{"since":"1h"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		go func() {
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		}()
		<-entered
		select {
		case <-left:
			t.Fatal("it ended by itself")
		case <-time.After(1500 * time.Millisecond): // past the read time-out
		}
		gone()
		select {
		case <-left:
		case <-time.After(10 * time.Second):
			t.Fatal("it goes on without its client")
		}
		eventually(t, func() error { // and may be started again
			if log := d.log.String(); !strings.Contains(log, `"route":"POST /v1/redeliver"`) {
				return fmt.Errorf("log: %s", log)
			}
			return nil
		})
		if log := d.log.String(); strings.Contains(log, "request failed") {
			t.Errorf("a client that left is logged as a failure: %s", log)
		}
	}
}

func TestLong_EndsAtOnceWhenTheInstanceStops(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	d := open(t, keeping(
		&journal{verify: func(ctx context.Context, _ func(record.VerifyReport)) (record.VerifyReport, error) {
			close(entered)
			<-ctx.Done()
			return record.VerifyReport{}, ctx.Err()
		}}))
	address, stop := run(t, d)
	answered := make(chan string, 1)
	go func() {
		answer, err := http.Post("http://"+address+"/v1/verify", "application/json", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- read(t, answer).want(t, 503, "stopping").word()
	}()
	<-entered
	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if got := <-answered; got != "stopping" {
		t.Errorf("got %s", got)
	}
}
