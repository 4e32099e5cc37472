package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// eachStored answers a push, or a batch with a result for each push, by the topic: what say returns, else a success.
func eachStored(t *testing.T, say func(topic string) string) func(int, string) string {
	return func(_ int, data string) string {
		type push struct{ Topic, ID string }
		var asked struct {
			push
			Messages []push
		}
		if err := json.Unmarshal([]byte(data), &asked); err != nil {
			t.Error(err)
		}
		result := func(p push) string {
			if text := say(p.Topic); text != "" {
				return text
			}
			return fmt.Sprintf(`{"id":%q,"uid":"uid-%[1]s","due":"2030-01-31T08:00:00.000Z"}`, p.ID)
		}
		if asked.Messages == nil {
			return result(asked.push)
		}
		var results []string
		for _, p := range asked.Messages {
			results = append(results, result(p))
		}
		return `{"results":[` + strings.Join(results, ",") + `]}`
	}
}

func batch(n int, topic string) []*nats.Msg {
	var msgs []*nats.Msg
	for i := range n {
		msgs = append(msgs, Tag(message(topic, "body"), In(time.Hour), As(fmt.Sprint(i))))
	}
	return msgs
}

func TestPushBatch_ReturnsAnOutcomeForEachInOrder(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, eachStored(t, func(topic string) string {
		if topic == "taken" {
			return `{"error":"duplicate_id","detail":"d","id":"1"}`
		}
		return ""
	}))
	client := wrap(t, nc).Tarry()
	msgs := batch(5, "orders")
	msgs[1].Subject = "taken"
	msgs[2] = message("orders", "untagged")
	msgs[3] = nil
	got, err := client.PushBatch(t.Context(), msgs)
	if err != nil || len(got) != 5 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, n := range []int{0, 4} {
		want := Stored{ID: fmt.Sprint(n), Route: ByRequest, UID: fmt.Sprint("uid-", n),
			Due: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)}
		if got[n].Err != nil || got[n].Stored != want {
			t.Errorf("%d: got %+v", n, got[n])
		}
	}
	if !errors.Is(got[1].Err, ErrDuplicateID) || !errors.Is(got[3].Err, nats.ErrInvalidMsg) {
		t.Errorf("got %v and %v", got[1].Err, got[3].Err)
	}
	wantRefused(t, got[2].Err, "missing_delay", "Tarry-Delay")
	if asked := in.all(); len(asked) != 1 || strings.Contains(asked[0], "untagged") {
		t.Errorf("asked %s", asked)
	}
}

func TestPushBatch_RefusesMoreThanItsLimitBeforeItSends(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, eachStored(t, func(string) string { return "" }))
	client := wrap(t, nc, patient()...).Tarry()
	_, err := client.PushBatch(t.Context(), batch(MaxBatch+1, "orders"))
	wantRefused(t, err, "too_large", "messages")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.PushBatch(ctx, batch(1, "orders")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, err := client.PushBatch(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if asked := in.all(); len(asked) != 0 {
		t.Errorf("asked %s", asked)
	}
	got, err := client.PushBatch(t.Context(), batch(MaxBatch, "orders"))
	if err != nil || len(got) != MaxBatch || len(in.all()) != 1 {
		t.Fatalf("got %d, %v with %d requests", len(got), err, len(in.all()))
	}
	for _, o := range got {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
}

func TestPushBatch_TakesAsManyRequestsAsMaxPayloadAsksFor(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, eachStored(t, func(string) string { return "" }))
	msgs := batch(10, "orders")
	for _, m := range msgs {
		m.Data = make([]byte, 200_000)
	}
	msgs[9].Data = make([]byte, 800_000) // in base64 too large even alone
	got, err := wrap(t, nc, patient()...).Tarry().PushBatch(t.Context(), msgs)
	if err != nil {
		t.Fatal(err)
	}
	for n, o := range got[:9] {
		if o.Err != nil || o.Stored.ID != fmt.Sprint(n) {
			t.Errorf("%d: got %+v", n, o)
		}
	}
	wantRefused(t, got[9].Err, "too_large", "body")
	if asked := in.all(); len(asked) != 3 {
		t.Errorf("asked %d times, want 3", len(asked))
	}

	nc = connect(t, newServer(t, "max_payload: 8KB").url)
	in = newInstance(t, nc, eachStored(t, func(string) string { return "" }))
	got, err = wrap(t, nc, patient()...).Tarry().PushBatch(t.Context(), batch(20, "orders"))
	if err != nil || got[19].Err != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, asked := range in.all() { // a result takes up to 1,024 bytes of the answer
		if n := strings.Count(asked, `"topic"`); n > 8 {
			t.Errorf("a request has %d pushes", n)
		}
	}
}

// TestPushBatch_RepeatsOnlyWhatIsSafe loses the first answer, and has an instance that is busy with some.
func TestPushBatch_RepeatsOnlyWhatIsSafe(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	busy := true
	stores := eachStored(t, func(topic string) string {
		switch {
		case topic == "busy" && busy:
			return `{"error":"busy","detail":"d"}`
		case topic == "unknown" && busy:
			return `{"error":"outcome_unknown","detail":"d","id":"given"}`
		}
		return ""
	})
	in := newInstance(t, nc, func(n int, data string) string {
		if n == 0 {
			return ""
		}
		busy = n == 1
		return stores(n, data)
	})
	client := wrap(t, nc, WithAckWait(time.Second)).Tarry()
	msgs := batch(3, "orders")
	msgs[1].Subject = "busy"
	msgs = append(msgs, Tag(message("orders", "no name"), In(time.Hour)))
	got, err := client.PushBatch(t.Context(), msgs)
	if err != nil {
		t.Fatal(err)
	}
	for n, o := range got[:3] {
		if o.Err != nil || o.Stored.ID != fmt.Sprint(n) {
			t.Errorf("%d: got %+v", n, o)
		}
	}
	if !errors.Is(got[3].Err, ErrOutcomeUnknown) {
		t.Errorf("without a name: got %+v", got[3])
	}
	if asked := in.all(); len(asked) != 3 || strings.Contains(asked[1], "no name") ||
		strings.Contains(asked[2], `"messages"`) || !strings.Contains(asked[2], `"busy"`) {
		t.Errorf("asked %s", asked)
	}

	nc2, _ := account(t)
	in = newInstance(t, nc2, func(n int, data string) string {
		busy = n == 0
		return stores(n, data)
	})
	msgs = []*nats.Msg{Tag(message("unknown", ""), In(time.Hour)), Tag(message("orders", ""), In(time.Hour), As("a"))}
	got, err = wrap(t, nc2).Tarry().PushBatch(t.Context(), msgs)
	if err != nil || got[0].Err != nil || got[0].Stored.ID != "given" || got[1].Err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if asked := in.all(); len(asked) != 2 || !strings.Contains(asked[1], `"id":"given"`) {
		t.Errorf("asked %s", asked)
	}
}

func TestPushBatch_SaysWhenTheBatchHasNoAnswer(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc) // the batch asks an instance all the same
	got, err := wrap(t, nc).Tarry().PushBatch(t.Context(), batch(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range got {
		if !errors.Is(o.Err, ErrNoInstance) || errors.Is(o.Err, ErrOutcomeUnknown) ||
			strings.Contains(o.Err.Error(), "stream") {
			t.Errorf("without an instance: %v", o.Err)
		}
	}
	for answer, want := range map[string]error{
		`{"results":[{}]}`:                       ErrOutcomeUnknown, // one result for two pushes
		`{"results":[{},{}]}`:                    ErrOutcomeUnknown,
		`hello`:                                  ErrOutcomeUnknown,
		`{"error":"too_large","detail":"are 2"}`: &Error{Word: "too_large"},
	} {
		nc, _ := account(t)
		newInstance(t, nc, always(answer))
		got, err := wrap(t, nc).Tarry().PushBatch(t.Context(), batch(2, "orders"))
		if err != nil || !errors.Is(got[0].Err, want) || !errors.Is(got[1].Err, want) {
			t.Errorf("%s: got %+v, %v", answer, got, err)
		}
	}
}
