package short_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A consumer without an MQ client pulls what is due, and answers by receipts. A kill in between loses nothing, and
// brings nothing acknowledged back.
func TestConsumersPullWhatIsDue(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := site.StartDev(t, "pull", "--data", data)
	d.Ready(t)
	left := listening(t, d, "work.>")
	call := func(method, path string, body any, status int) map[string]any {
		t.Helper()
		a, err := d.Call(t.Context(), method, path, body)
		// A disk that holds the journal up leaves the outcome unknown. The same call again tells it.
		for begun := time.Now(); slices.Contains(site.Unsure, a.Error) && time.Since(begun) < site.Patience; {
			if a, err = d.Call(t.Context(), method, path, body); a.Duplicate && status == http.StatusCreated {
				a.Status = status
			}
		}
		if err != nil || a.Status != status {
			t.Fatalf("%s %s: %d %s, %v", method, path, a.Status, a.Raw, err)
		}
		return answered(t, a.Raw)
	}
	type fields = map[string]any
	push := func(id string, more fields) {
		body := fields{"topic": "work.bill", "id": id, "body": id, "deliver": "pull", "delay": 0}
		for name, value := range more {
			body[name] = value
		}
		call(http.MethodPost, "/v1/messages", body, http.StatusCreated)
	}
	pull := func(more fields) (all []fields) {
		t.Helper()
		body := fields{"max": 10, "lease": "5m", "consumer": "test"}
		for name, value := range more {
			body[name] = value
		}
		list, _ := call(http.MethodPost, "/v1/topics/work.bill/pull", body, http.StatusOK)["messages"].([]any)
		for _, m := range list {
			all = append(all, m.(fields))
		}
		return all
	}
	one := func(id string, more fields) (receipt string, attempt float64) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			found := pull(more)
			if len(found) == 0 {
				return errNotYet
			}
			m := found[0]
			if m["id"] != id || m["body"] != id {
				t.Fatalf("got %v, want %s", m, id)
			}
			receipt, attempt = m["receipt"].(string), m["attempt"].(float64)
			return nil
		})
		return receipt, attempt
	}
	state := func(id string) any {
		t.Helper()
		return call(http.MethodGet, "/v1/messages/"+id, nil, http.StatusOK)["state"]
	}

	begun := time.Now()
	push("early", fields{"delay": "700ms"})
	if got := pull(nil); len(got) > 0 {
		t.Fatalf("it came early: %v", got)
	}
	receipt, _ := one("early", nil)
	if early := time.Until(begun.Add(700 * time.Millisecond)); early > 0 {
		t.Errorf("it came %s early", early)
	}
	if got := state("early"); got != "in_flight" {
		t.Errorf("it is %v", got)
	}
	call(http.MethodPost, "/v1/leases/"+receipt+"/extend", fields{"lease": "10m"}, http.StatusOK)
	call(http.MethodPost, "/v1/leases/"+receipt+"/ack", nil, http.StatusOK)
	if a := call(http.MethodPost, "/v1/leases/"+receipt+"/ack", nil, http.StatusOK); a["duplicate"] != true {
		t.Errorf("again: %v", a)
	}
	call(http.MethodPost, "/v1/leases/"+receipt+"/nack", nil, http.StatusConflict)
	forged := strings.Repeat("0", 16) + receipt[16:]
	call(http.MethodPost, "/v1/leases/"+forged+"/ack", nil, http.StatusConflict)
	call(http.MethodPost, "/v1/leases/x/ack", nil, http.StatusNotFound)

	// A lapse and a nack are tries; a release is none. After its schedule the message is dead, and can be requeued.
	push("tried", fields{"retry": "0,0"})
	one("tried", fields{"lease": "100ms"})
	receipt, attempt := one("tried", nil)
	if attempt != 2 {
		t.Errorf("after a lapse it is attempt %v", attempt)
	}
	call(http.MethodPost, "/v1/leases/"+receipt+"/release", nil, http.StatusOK)
	receipt, attempt = one("tried", nil)
	if attempt != 2 {
		t.Errorf("after a release it is attempt %v", attempt)
	}
	call(http.MethodPost, "/v1/leases/"+receipt+"/nack", fields{"delay_ms": 1, "reason": "the till\nis closed"},
		http.StatusOK)
	if out, _ := d.Cli(t, "why", "tried"); !strings.Contains(out, "  last try 2") ||
		!strings.Contains(out, ": sent back: the till is closed\n") {
		t.Errorf("why says %s", out)
	}
	if out, code := d.Cli(t, "why", "nothing-of-this-name"); code != 3 || !strings.Contains(out, "nats.prefix") {
		t.Errorf("of nothing why says, with %d, %s", code, out)
	}
	receipt, attempt = one("tried", nil)
	a := call(http.MethodPost, "/v1/leases/"+receipt+"/nack", fields{"reason": "still closed"}, http.StatusOK)
	if a["state"] != "dead" || attempt != 3 {
		t.Errorf("after attempt %v: %v", attempt, a)
	}
	if out, _ := d.Cli(t, "get", "tried"); !strings.Contains(out, "sent back after 2 retries: still closed\n") ||
		!strings.Contains(out, "attempt   3\n") {
		t.Errorf("get says %s", out)
	}
	call(http.MethodPost, "/v1/dead/requeue", fields{"id": "tried"}, http.StatusOK)
	receipt, _ = one("tried", nil)
	call(http.MethodPost, "/v1/leases/dead", fields{"receipts": []string{receipt, "x"}, "reason": "no"}, http.StatusOK)
	if got := state("tried"); got != "dead" {
		t.Errorf("it is %v", got)
	}

	push("once", fields{"retry": "none"})
	receipt, _ = one("once", nil)
	if a := call(http.MethodPost, "/v1/leases/"+receipt+"/nack", nil, http.StatusOK); a["state"] != "dead" {
		t.Errorf("without a retry it is %v", a)
	}

	push("acked", nil)
	one("acked", fields{"lease": "100ms"})
	receipt, _ = one("acked", nil)
	call(http.MethodPost, "/v1/leases/"+receipt+"/ack", nil, http.StatusOK)
	push("gone", nil)
	receipt, _ = one("gone", nil)
	call(http.MethodPost, "/v1/leases/"+receipt+"/nack", fields{"delay": "1h"}, http.StatusOK)
	if a := call(http.MethodDelete, "/v1/messages/gone", nil, http.StatusOK); a["attempt"] != 1.0 {
		t.Errorf("what a consumer had once is canceled as %v", a)
	}
	for id, attempt := range map[string]any{"acked": 2.0, "gone": 1.0} {
		if a := call(http.MethodGet, "/v1/messages/"+id, nil, http.StatusOK); a["attempt"] != attempt {
			t.Errorf("ended, it is %v", a)
		}
	}
	push("leased", nil)
	one("leased", nil)
	push("ready", nil)
	count := call(http.MethodGet, "/v1/topics/work.bill", nil, http.StatusOK)
	if count["ready"] != 1.0 || count["leased"] != 1.0 || count["in_flight"] != 1.0 || count["waiting"] != 0.0 {
		t.Errorf("the topic has %v", count)
	}
	report := call(http.MethodPost, "/v1/messages/cancel", fields{"topic": "work.bill", "dry_run": true}, http.StatusOK)
	if report["matched"] != 1.0 || report["leased"] != 1.0 {
		t.Errorf("a cancel of all would report %v", report)
	}
	// A list shows what is ready and what is leased, which the journal does not know.
	for query, want := range map[string]string{
		"": `"leased in_flight test" "ready ready <nil>"`, "&state=ready": `"ready ready <nil>"`, "&state=waiting": "",
		"&state=in_flight": `"leased in_flight test"`, "&state=dead,ready": `"ready ready <nil>"`,
	} {
		var got []string
		list := call(http.MethodGet, "/v1/messages?topic=work.bill"+query, nil, http.StatusOK)
		for _, m := range list["messages"].([]any) {
			if s, _ := m.(fields)["state"].(string); s == "ready" || s == "in_flight" || s == "waiting" {
				got = append(got, fmt.Sprintf("%q", fmt.Sprint(m.(fields)["id"], " ", s, " ", m.(fields)["consumer"])))
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q lists %s, want %s", query, got, want)
		}
	}

	// An operator sees who holds what, and frees it: the consumer's receipt is void, and the history says who did so.
	push("stuck", fields{"priority": 9})
	receipt, _ = one("stuck", fields{"max": 1})
	held := call(http.MethodGet, "/v1/topics/work.bill/leases?limit=10", nil, http.StatusOK)["messages"].([]any)
	if len(held) != 2 || held[1].(fields)["id"] != "stuck" || held[1].(fields)["consumer"] != "test" {
		t.Errorf("the leases are %v", held)
	}
	freed := call(http.MethodPost, "/v1/messages/stuck/release", fields{"reason": "the worker hangs"}, http.StatusOK)
	if freed["state"] != "ready" || freed["attempt"] != 1.0 {
		t.Errorf("freed, it is %v", freed)
	}
	call(http.MethodPost, "/v1/messages/stuck/release", nil, http.StatusConflict)
	call(http.MethodPost, "/v1/leases/"+receipt+"/ack", nil, http.StatusConflict)
	lab.Eventually(t, site.Patience, func() error {
		a, err := d.Call(t.Context(), http.MethodGet, "/v1/messages/stuck/history", nil)
		if err == nil && (!strings.Contains(a.Raw, "consumer test: the worker hangs") ||
			strings.Count(a.Raw, `"state":"ready"`) != 2) { // once due, and once freed
			err = fmt.Errorf("the history is %s", a.Raw)
		}
		return err
	})
	receipt, _ = one("stuck", fields{"max": 1})
	call(http.MethodPost, "/v1/leases/"+receipt+"/ack", nil, http.StatusOK)
	d.Kill()
	d = site.StartDev(t, "pull2", "--data", data)
	d.Ready(t)
	back := map[string]bool{}
	lab.Eventually(t, site.Patience, func() error {
		for _, m := range pull(nil) {
			back[m["id"].(string)] = true
		}
		if len(back) < 2 {
			return errNotYet
		}
		return nil
	})
	if !back["leased"] || !back["ready"] || len(back) != 2 {
		t.Errorf("after the kill came %v", back)
	}
	if m, err := left.NextMsg(10 * time.Millisecond); err == nil {
		t.Errorf("%q left for NATS", m.Data)
	}
}

// A poll waits for what comes. One whose client goes meanwhile swallows nothing, and an instance that stops answers
// those that wait.
func TestPollsWaitForMessages(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "polls")
	d.Ready(t)
	poll := func(ctx context.Context, more map[string]any) (site.Answer, error) {
		body := map[string]any{"wait": "60s", "max": 10}
		for name, value := range more {
			body[name] = value
		}
		return d.Call(ctx, http.MethodPost, "/v1/topics/work.poll/pull", body)
	}
	push := func(id, delay string) {
		t.Helper()
		a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "work.poll", "id": id, "body": id, "deliver": "pull", "delay": delay})
		if err != nil || a.Status != http.StatusCreated {
			t.Fatal(a.Raw, err)
		}
	}
	waiting := func(n int) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			a, err := d.Call(t.Context(), http.MethodGet, "/metrics", nil)
			if err == nil && !strings.Contains(a.Raw, fmt.Sprintf("\ntarry_polls %d\n", n)) {
				err = fmt.Errorf("not %d polls", n)
			}
			return err
		})
	}
	lasting, over := context.WithTimeout(t.Context(), site.Patience)
	defer over()
	var polls sync.WaitGroup
	var clients []net.Conn
	for range 1000 {
		clients = append(clients, rawPoll(t, d, "work.poll", `{"wait":"60s","max":10}`))
	}
	waiting(len(clients))
	for _, c := range clients {
		if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil { // as a killed process does
			t.Fatal(err)
		}
	}
	killed := time.Now() // the instance may not know yet
	var batch []map[string]any
	for i := range 100 {
		batch = append(batch, map[string]any{"topic": "work.poll", "deliver": "pull", "delay": 0, "body": fmt.Sprint(i)})
	}
	if a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages/batch",
		map[string]any{"messages": batch}); err != nil || a.Status != http.StatusOK {
		t.Fatal(a.Raw, err)
	}
	for left := len(batch); left > 0; {
		a, err := poll(lasting, map[string]any{"max": 1000})
		n := strings.Count(a.Raw, `"receipt":`)
		if err != nil || n != strings.Count(a.Raw, `"attempt":1,`) {
			t.Fatalf("%d %s, %v", a.Status, a.Raw, err)
		}
		left -= n
	}
	t.Logf("the next consumer had everything %s after 1,000 polls were killed", time.Since(killed))
	if took := time.Since(killed); took > 10*time.Second { // a lease is 30 s: none lapsed
		t.Errorf("the next consumer had everything after %s", took)
	}
	waiting(0)
	begun := time.Now()
	push("one", "600ms")
	a, err := poll(lasting, nil)
	if err != nil || !strings.Contains(a.Raw, `"id":"one"`) || !strings.Contains(a.Raw, `"attempt":1,`) {
		t.Fatalf("%d %s, %v", a.Status, a.Raw, err)
	}
	if early := time.Until(begun.Add(600 * time.Millisecond)); early > 0 {
		t.Errorf("it came %s early", early)
	}
	// The same attempt gets the same answer again, as long as the lease lasts.
	push("two", "0")
	token := map[string]any{"attempt": "token-1", "sending": 1} // it is due within a millisecond
	first, err := poll(lasting, token)
	token["sending"] = 2
	again, err2 := poll(lasting, token)
	if err != nil || err2 != nil || first.Raw == "" || receiptIn(t, first.Raw) != receiptIn(t, again.Raw) {
		t.Fatalf("first %s, then %s, %v, %v", first.Raw, again.Raw, err, err2)
	}
	polls.Go(func() {
		a, err := poll(lasting, nil)
		if err != nil || a.Status != http.StatusOK || !strings.Contains(a.Raw, `"messages":[]`) {
			t.Errorf("while it stops: %d %s, %v", a.Status, a.Raw, err)
		}
	})
	waiting(1)
	d.Stop()
	polls.Wait()
}

// A consumer that does not read its answer keeps nothing: the write has a time-out of its own, however long the poll
// may wait, and what could not be written is handed to the next.
func TestASlowReaderOfAPollKeepsNothing(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "slow")
	d.Ready(t)
	const n = 80
	for i := range n {
		a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages", map[string]any{"topic": "work.slow",
			"deliver": "pull", "delay": 0, "body": strings.Repeat("x", 512<<10), "priority": i})
		if err != nil || a.Status != http.StatusCreated {
			t.Fatal(a.Status, err)
		}
	}
	all := func(state string) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			a, err := d.Call(t.Context(), http.MethodGet, "/v1/topics/work.slow", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := answered(t, a.Raw)[state]; got != float64(n) {
				return fmt.Errorf("%v messages are %s", got, state)
			}
			return nil
		})
	}
	all("ready") // the last one is due at the next millisecond
	slow := rawPoll(t, d, "work.slow", fmt.Sprintf(`{"max":%d,"max_bytes":%d,"wait":"60s","lease":"12h"}`, n, 64<<20))
	defer slow.Close()
	all("leased")
	begun := time.Now()
	for last, left := begun, n; left > 0; {
		ctx, over := context.WithTimeout(t.Context(), site.Patience)
		a, err := d.Call(ctx, http.MethodPost, "/v1/topics/work.slow/pull",
			map[string]any{"max": n, "max_bytes": 64 << 20, "wait": "30s"})
		over()
		got := strings.Count(a.Raw, `"receipt":`)
		if err != nil || a.Status != http.StatusOK || got != strings.Count(a.Raw, `"attempt":1,`) {
			t.Fatalf("%d %.200s, %v", a.Status, a.Raw, err)
		}
		if got > 0 {
			last, left = time.Now(), left-got
		} else if time.Since(last) > site.Patience {
			t.Fatalf("%d messages stay with a consumer that does not read", left)
		}
	}
	t.Logf("the next consumer had everything %s later", time.Since(begun))
}

// rawPoll sends a poll, and reads no answer.
func rawPoll(t *testing.T, d *site.Dev, topic, body string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", d.Addr)
	if err == nil {
		_, err = fmt.Fprintf(c, "POST /v1/topics/%s/pull HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", topic, d.Addr, site.HTTPToken, len(body), body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// receiptIn returns the receipt of the only message in an answer.
func receiptIn(t *testing.T, raw string) any {
	t.Helper()
	list, _ := answered(t, raw)["messages"].([]any)
	if len(list) != 1 {
		t.Fatal(raw)
	}
	return list[0].(map[string]any)["receipt"]
}

var errNotYet = errors.New("nothing came yet")

// answered reads an answer.
func answered(t *testing.T, raw string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &fields); err != nil {
		t.Fatal(raw, err)
	}
	return fields
}
