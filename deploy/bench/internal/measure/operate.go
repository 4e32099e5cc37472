package measure

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const messagesPath = "/v1/messages"

// calls makes one kind of request after the other. Messages are named by their client's ids, as users do: such a name
// is looked up in all buckets. What is run now is delivered beside the calls that follow.
func (b bench) calls(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t, _, err := b.tarry(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	want, began := b.plan.Calls, time.Now()
	values := report.Values{report.Messages: float64(want)}
	due := func(n int) time.Time { return began.Add(farOff(n)) }
	step := func(work string, call func(to []byte, n int) (string, string, []byte)) (load.Sent, error) {
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return load.Sent{}, err
		}
		sent, err := load.Calls{URL: t.URL, InFlight: producers, Call: call}.Send(ctx, want, b.plan.Limit)
		if err != nil {
			return sent, fmt.Errorf("%s: %w", work, err)
		}
		return sent, stepped(values, work, float64(sent.Count), sent.Elapsed, cost)
	}
	if _, err := step(report.OnePush, func(to []byte, n int) (string, string, []byte) {
		return http.MethodPost, messagesPath, b.item(to, n, dueSubject, due(n), nil)
	}); err != nil {
		return Outcome{}, err
	}
	batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
		return b.item(to, n, dueSubject, due(n), named(""))
	}}
	if _, err := batches.Send(ctx, 2*want, time.Hour); err != nil { // half of them for cancels
		return Outcome{}, err
	}
	about := func(n int) string { return string(appendName([]byte(messagesPath+"/"), n)) }
	if _, err := step(report.OneGet, func(to []byte, n int) (string, string, []byte) {
		return http.MethodGet, about(n), to
	}); err != nil {
		return Outcome{}, err
	}
	if _, err := step(report.OneReschedule, func(to []byte, n int) (string, string, []byte) {
		return http.MethodPatch, about(n), fmt.Appendf(to, `{"delay":"%dms"}`, farOff(n+1).Milliseconds())
	}); err != nil {
		return Outcome{}, err
	}
	if _, err := step(report.OneCancel, func(to []byte, n int) (string, string, []byte) {
		return http.MethodDelete, about(want + n), to
	}); err != nil {
		return Outcome{}, err
	}
	ran, err := step(report.OneRun, func(to []byte, n int) (string, string, []byte) {
		return http.MethodPost, about(n) + "/run", to
	})
	if err != nil {
		return Outcome{}, err
	}
	_, err = t.Delivered(ctx, ran.Count)
	return Outcome{Values: values}, err
}

// callsOverNATS makes the calls whose message is found without a look in all buckets.
func (b bench) callsOverNATS(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t, c, err := b.tarry(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	want, began := b.plan.Calls, time.Now()
	values := report.Values{report.Messages: float64(want)}
	batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
		return b.item(to, n, dueSubject, began.Add(farOff(n)), named(""))
	}}
	if _, err := batches.Send(ctx, want, time.Hour); err != nil {
		return Outcome{}, err
	}
	for _, call := range []struct{ kind, verb, more string }{
		{report.OneGet, "get", ""},
		{report.OneReschedule, "reschedule", fmt.Sprintf(`,"delay":"%dms"`, farOff(1).Milliseconds())},
		{report.OneCancel, "cancel", ""},
	} {
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return Outcome{}, err
		}
		sent, err := c.DoorSync(ctx, producers, want, b.plan.Limit, func(n int) *nats.Msg {
			return &nats.Msg{Subject: "tarry.default.api." + call.verb, Data: fmt.Appendf(
				appendName([]byte(`{"topic":"`+dueSubject+`","key":"","id":"`), n), `"%s}`, call.more)}
		})
		if err != nil {
			return Outcome{}, fmt.Errorf("%s: %w", call.verb, err)
		}
		if err := stepped(values, call.kind, float64(sent.Count), sent.Elapsed, cost); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{Values: values}, nil
}

// stepped adds the figures of one of several kinds of work.
func stepped(values report.Values, work string, n float64, took time.Duration, cost *stage.Cost) error {
	used, _, err := cost.Used()
	if err != nil {
		return err
	}
	values[report.Of(work, report.Rate)] = n / took.Seconds()
	for process, d := range used {
		values[report.Of(work, report.CPUMicros(process))] = float64(d.Microseconds()) / n
	}
	return nil
}

const (
	manySubject  = "bench.many"
	restSubject  = "bench.rest" // one in eleven, which no order is about
	smallSubject = "bench.small"
)

// many moves and cancels what a topic's messages are that are due within a span, and requeues dead messages. They die
// of a stream that takes no message of their size, at the second try.
func (b bench) many(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t, c, err := b.tarry(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	want, dead, began := b.plan.Many, b.plan.Dead, time.Now()
	batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
		topic := manySubject
		if n%11 == 10 {
			topic = restSubject
		}
		return b.item(to, n, topic, began.Add(farOff(n)), nil)
	}}
	if _, err := batches.Send(ctx, want+want/10, time.Hour); err != nil {
		return Outcome{}, err
	}
	o := Outcome{Values: report.Values{report.Messages: float64(want)}}
	order := func(work, path, text string, want int) error {
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return err
		}
		did, took, err := t.Many(ctx, path, text)
		if err != nil {
			return err
		}
		if did.Matched != want || did.Done != want {
			o.Faults = append(o.Faults,
				fmt.Sprintf("%s: %d were matched and %d done, of %d", work, did.Matched, did.Done, want))
		}
		return stepped(o.Values, work, float64(max(did.Done, 1)), took, cost)
	}
	// What moves leaves the span: nothing is met twice.
	if err := order(report.ManyReschedule, messagesPath+"/reschedule",
		`{"topic":"`+manySubject+`","due_to":"49h","shift":"3d"}`, want); err != nil {
		return o, err
	}
	if err := order(report.ManyCancel, messagesPath+"/cancel", `{"topic":"`+manySubject+`","due_from":"49h"}`,
		want); err != nil {
		return o, err
	}
	if err := b.die(ctx, t, c, dead); err != nil {
		return o, err
	}
	return o, order(report.Requeue, "/v1/dead/requeue", `{"topic":"`+smallSubject+`","delay":"1d"}`, dead)
}

// die makes dead messages, once tarry knows the stream: before, they would leave by core NATS, which refuses none.
func (b bench) die(ctx context.Context, t *stage.Tarry, c *load.Client, want int) error {
	known, err := t.Streams(ctx)
	if err != nil {
		return err
	}
	_, err = c.JS.CreateStream(ctx,
		jetstream.StreamConfig{Name: "SMALL", Subjects: []string{smallSubject}, MaxMsgSize: load.BodySize / 2})
	if err != nil {
		return fmt.Errorf("make a stream of small messages: %w", err)
	}
	if err := t.Knows(ctx, known+1); err != nil {
		return err
	}
	batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
		return b.item(to, n, smallSubject, time.Now(), func(to []byte, _ int) []byte {
			return append(to, `,"retry":"0"`...)
		})
	}}
	if _, err := batches.Send(ctx, want, time.Hour); err != nil {
		return err
	}
	return t.Died(ctx, want)
}
