package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

func TestRejects_ListsPageByPage(t *testing.T) {
	t.Parallel()
	j := newRejects()
	d := open(t, rejecting(j))
	first := call(t, d, "GET", "/v1/rejects?limit=1", "").want(t, 200, "")
	want := `{"rejects":[{"sequence":1,"at":"2030-01-31T08:00:00.000Z","topic":"orders.x","id":"a","key":"k",` +
		`"reason":"invalid_delay","detail":"why","size":5}],"cursor":`
	if !strings.HasPrefix(first.raw, want) {
		t.Errorf("got %s, want %s", first.raw, want)
	}
	second := call(t, d, "GET", "/v1/rejects?cursor="+fmt.Sprint(first.json["cursor"]), "").want(t, 200, "")
	if second.json["cursor"] != nil || !strings.Contains(second.raw, `"sequence":2`) ||
		!strings.Contains(second.raw, `"incomplete":true`) {
		t.Errorf("got %s", second.raw)
	}
	call(t, d, "GET", "/v1/rejects?id=a&cursor="+fmt.Sprint(first.json["cursor"]), "").want(t, 400, "invalid_cursor")
	if a := call(t, d, "GET", "/v1/rejects?topic=orders.%3E&id=a&reason=invalid_delay", ""); !strings.Contains(
		a.raw, `"sequence":1`) || strings.Contains(a.raw, `"sequence":2`) {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "GET", "/v1/rejects?topic=nothing", "").want(t, 200, ""); a.raw != `{"rejects":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	one := call(t, d, "GET", "/v1/rejects/1", "").want(t, 200, "")
	if one.json["body"] != "hello" || fmt.Sprint(one.json["headers"]) != "map[Tarry-Delay:[soon]]" {
		t.Errorf("got %s", one.raw)
	}
	call(t, d, "GET", "/v1/rejects/9", "").want(t, 404, "unknown_reject")
	call(t, d, "GET", "/v1/rejects/x", "").want(t, 400, "invalid_sequence")
	call(t, open(t), "GET", "/v1/rejects", "").want(t, 501, "needs_jetstream")
}

func TestRejects_PushedAgainAreNoRejectsAnyMore(t *testing.T) {
	t.Parallel()
	j := newRejects()
	d := open(t, rejecting(j), letting(crowd()...))
	a := call(t, d, "POST", "/v1/rejects/requeue", `{"sequence":1}`, as("ops")...).want(t, 200, "")
	if a.json["sequence"] != 1.0 || a.json["state"] != "waiting" || a.json["id"] != "a" || a.json["kept"] != nil ||
		fmt.Sprint(j.dropped) != "[1]" {
		t.Errorf("got %s, dropped %v", a.raw, j.dropped)
	}
	if line := d.log.String(); !strings.Contains(line, `"operation":"requeue rejects"`) ||
		!strings.Contains(line, `"who":"ops"`) || !strings.Contains(line, `"sequence":"1"`) {
		t.Errorf("the log says %s", line)
	}
	a = call(t, d, "POST", "/v1/rejects/requeue", `{"sequences":[2,9,1]}`, as("ops")...).want(t, 200, "")
	for i, want := range []string{`"sequence":2,"error":"incomplete_reject"`, `"sequence":9,"error":"unknown_reject"`,
		`"duplicate":true`} {
		if results, _ := a.json["results"].([]any); len(results) != 3 || !strings.Contains(a.raw, want) {
			t.Errorf("%d: got %s", i, a.raw)
		}
	}
	j.keeps = scheduler.ErrUnavailable
	if a = call(t, d, "POST", "/v1/rejects/requeue", `{"sequence":1}`, as("ops")...).want(
		t, 200, ""); a.json["kept"] != true {
		t.Errorf("got %s", a.raw)
	}
	if n := d.stored(t); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}

// Each call to NATS would wait as long as the first that got no answer.
func TestRejects_AreAskedForNoMoreOnceNATSDoesNotAnswer(t *testing.T) {
	t.Parallel()
	j := newRejects()
	for n := uint64(2); n <= 4; n++ {
		one := j.list[0]
		one.Sequence, one.ID = n, fmt.Sprint("a-", n)
		j.list = append(j.list[:n-1:n-1], one)
	}
	d := open(t, rejecting(j), letting(crowd()...))
	requeue := func() []string {
		a := call(t, d, "POST", "/v1/rejects/requeue", `{"sequences":[1,2,3,4]}`, as("ops")...).want(t, 200, "")
		return strings.SplitAfter(a.raw, "},{")
	}
	j.silent = 2
	for i, result := range requeue() {
		if want := []string{`"kept":true`, `"error":"unavailable"`}[min(i, 1)]; !strings.Contains(result, want) {
			t.Errorf("%d: got %s", i+1, result)
		}
	}
	if j.read != 2 || len(j.dropped) > 0 || d.stored(t) != 1 {
		t.Errorf("read %d, dropped %v, %d messages wait", j.read, j.dropped, d.stored(t))
	}
	j.silent, j.keeps = 0, scheduler.ErrUnavailable
	for i, result := range requeue() {
		if !strings.Contains(result, `"kept":true`) {
			t.Errorf("%d: got %s", i+1, result)
		}
	}
	if fmt.Sprint(j.dropped) != "[1]" || d.stored(t) != 4 {
		t.Errorf("dropped %v, %d messages wait", j.dropped, d.stored(t))
	}
}

func TestRejects_AreJudgedByTopic(t *testing.T) {
	t.Parallel()
	j, s := newRejects(), newCounting()
	j.list[1].Incomplete = false
	d := open(t, rejecting(j), with(s), letting(crowd()...))
	if a := call(t, d, "GET", "/v1/rejects", "", as("shop")...).want(t, 200, ""); strings.Contains(a.raw, "bills") ||
		!strings.Contains(a.raw, "orders.x") {
		t.Errorf("got %s", a.raw)
	}
	for _, order := range []string{`{"sequence":%d}`, `{"sequence":%d,"topic":"orders.x"}`} {
		hidden := call(t, d, "POST", "/v1/rejects/requeue", fmt.Sprintf(order, 2), as("shop")...).want(t, 404,
			"unknown_reject")
		none := call(t, d, "POST", "/v1/rejects/requeue", fmt.Sprintf(order, 9), as("shop")...).want(t, 404,
			"unknown_reject")
		if none.raw != hidden.raw || strings.Contains(none.raw, "TARRY") {
			t.Errorf("a reject of another's answers %s, none at all %s", hidden.raw, none.raw)
		}
	}
	both := call(t, d, "POST", "/v1/rejects/requeue", `{"sequences":[2,9]}`, as("shop")...).want(t, 200, "")
	if first, second, _ := strings.Cut(both.raw, "},{"); strings.TrimPrefix(
		first, `{"results":[{"sequence":2`) != strings.TrimSuffix(strings.TrimPrefix(second, `"sequence":9`), "}]}\n") {
		t.Errorf("a reject of another's and none at all differ: %s", both.raw)
	}
	call(t, d, "POST", "/v1/rejects/requeue", `{"sequence":1,"topic":"bills"}`, as("shop")...).want(t, 403, "forbidden")
	call(t, d, "POST", "/v1/rejects/requeue", `{"sequence":1,"topic":"orders.y"}`, as("ops")...).want(t,
		403, "forbidden")
	call(t, d, "POST", "/v1/rejects/requeue", `{"sequence":1,"topic":"orders.y"}`, as("shop")...).want(t, 200, "")
	if changes := s.take(); fmt.Sprint(changes) != "[push orders.y]" {
		t.Errorf("changed %q", changes)
	}
	j.err = fmt.Errorf("read: %w", ops.ErrNoRejects)
	call(t, d, "POST", "/v1/rejects/requeue", `{"sequence":1}`, as("shop")...).want(t, 501, "needs_jetstream")
}

// A request names a thousand rejects of a megabyte each: they take their place among all bodies, a request's worth at a
// time, and each is pushed once.
func TestRejects_TakeNoMoreMemoryThanTheBodyOfARequest(t *testing.T) {
	t.Parallel()
	j, text := newRejects(), strings.Repeat("x", 400)
	j.list = nil
	for n := uint64(1); n <= 7; n++ {
		j.list = append(j.list, ops.Rejected{Sequence: n, Topic: "orders.x", ID: fmt.Sprint(n), Body: &text})
	}
	var d *door
	var batches []int
	var others int64
	d = open(t, rejecting(j), letting(crowd()...), func(c *api.Config) { c.MaxBody = 1000 },
		with(service{accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
			batches = append(batches, len(batch))
			if held := d.Held() - others; held != int64(len(batch)*len(text)) {
				t.Errorf("%d bodies hold %d bytes", len(batch), held)
			}
			return make([]scheduler.Accepted, len(batch))
		}}))
	const order = `{"sequences":[1,2,1,3,4,1,5,6,7,7]}`
	a := call(t, d, "POST", "/v1/rejects/requeue", order, as("ops")...).want(t, 200, "")
	if results, _ := a.json["results"].([]any); len(results) != 7 || fmt.Sprint(batches) != "[3 3 1]" ||
		fmt.Sprint(j.dropped) != "[1 2 3 4 5 6 7]" {
		t.Errorf("%d results, pushed by %v, dropped %v", len(results), batches, j.dropped)
	}
	if held := d.Held(); held != 0 {
		t.Errorf("%d bytes are held afterwards", held)
	}
	others = d.MaxBodies() - 500
	d.Hold(others)
	a = call(t, d, "POST", "/v1/rejects/requeue", `{"sequences":[1,2]}`, as("ops")...).want(t, 200, "")
	if strings.Count(a.raw, `"error":"busy"`) != 1 {
		t.Errorf("with room for one: %s", a.raw)
	}
	a = d.calls(ops.GroupAdmin).ask(t, "rejects_requeue", `{"sequences":[1,2]}`) // over NATS, too
	if strings.Count(a.raw, `"error":"busy"`) != 1 || d.Held() != others {
		t.Errorf("with room for one, and %d bytes held: %s", d.Held()-others, a.raw)
	}
}
