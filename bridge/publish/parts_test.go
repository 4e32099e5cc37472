package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestToken_SurvivesItsText(t *testing.T) {
	t.Parallel()
	for range 10_000 {
		want := token(rand.Uint64N(1 << (slotBits + genBits)))
		text := string(appendToken(nil, want))
		if got, ok := parseToken(text); !ok || got != want || strings.ContainsAny(text, ".*> ") {
			t.Fatalf("%d is written %q and read %d, %v", want, text, got, ok)
		}
	}
	for _, bad := range []string{"", "0000000", "000000000", "0000000.", "0000000é"[:8]} {
		if _, ok := parseToken(bad); ok {
			t.Errorf("%q is no token", bad)
		}
	}
}

func TestParsePubAck_ReadsWhatServersWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"stream":"ORDERS", "seq":12}`:                                 "ORDERS 12 false",
		`{"stream":"ORDERS","seq":12}`:                                  "ORDERS 12 false",
		`{"stream":"ORDERS","seq":12,"duplicate": true}`:                "ORDERS 12 true",
		`{"stream":"ORDERS","domain":"hub","seq":12}`:                   "ORDERS 12 false",
		`{"stream":"ORDERS","domain":"hub","seq":12,"duplicate": true}`: "ORDERS 12 true",
		`{"type":"x","stream":"ORDERS","seq":12,"val":"1"}`:             "ORDERS 12 false",
		`{"stream":"a\"b",` +
			`"seq":18446744073709551615}`: `a"b 18446744073709551615 false`,
		`{"error":{"code":400,"err_code":10054,"description":"too large"}}`: "stream: too large " +
			"(400, 10054)",
		`{"error":{"code":503,"err_code":10077,"description":"no"},"stream":"S","seq":0}`: "stream: no (503, 10077)",
	} {
		ack, ok := parsePubAck([]byte(text))
		got := fmt.Sprintf("%s %d %v", ack.stream, ack.sequence, ack.duplicate)
		if ack.err != nil {
			got = ack.err.Error()
		}
		if !ok || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "ok", "{}", `{"stream":"A"}`, `{"seq":1}`, `{"stream":"A","seq":0}`,
		`{"error":"no"}`, `{"error":{"code":400}}`,
		`{"stream":"A","seq":1}x`, `{"stream":"A","seq":01}`, `[1]`,
		`{"stream":"A","seq":` + strings.Repeat("1", 5000) + "}"} {
		if ack, ok := parsePubAck([]byte(text)); ok {
			t.Errorf("%.60q is no acknowledgement, got %+v", text, ack)
		}
	}
}

func FuzzParsePubAck(f *testing.F) {
	f.Add([]byte(`{"stream":"ORDERS", "seq":12,"duplicate": true}`))
	f.Add([]byte(`{"stream":"ORDERS","domain":"d","seq":12}`))
	f.Add([]byte("{\"stream\":\"OR\x81\xbd\xfcDERS\", \"seq\":12,\"duplicate\": true}"))
	f.Add([]byte(`{"error":{"code":400,"err_code":10054,"description":"too large"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ack, ok := quickPubAck(data)
		if !ok {
			parsePubAck(data)
			return
		}
		var std struct {
			Stream    string
			Seq       uint64
			Duplicate bool
		}
		if err := json.Unmarshal(data, &std); err != nil {
			t.Fatalf("%q: encoding/json: %v", data, err)
		}
		if std.Seq != ack.sequence || std.Duplicate != ack.duplicate || string(ack.stream) != std.Stream {
			t.Fatalf("%q: got %q %d %v, encoding/json reads %+v", data, ack.stream, ack.sequence, ack.duplicate, std)
		}
	})
}

func TestClassify_SparesOnlyWhatTimeCanHeal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, errCode int
		want          scheduler.OutcomeKind
		surprise      bool
	}{
		{400, 10054, scheduler.Refused, false}, {400, 10109, scheduler.Refused, false},
		{400, 10097, scheduler.Refused, false},
		{400, 10165, scheduler.Refused, false}, {400, 10071, scheduler.Refused, false},
		{400, 10002, scheduler.Unanswered, false}, {404, 10059, scheduler.Unanswered, true},
		{400, 10060, scheduler.Unanswered, true},
		{503, 10077, scheduler.Unknown, false}, {503, 10023, scheduler.Unanswered, false},
		{503, 10008, scheduler.Unanswered, false},
		{500, 10118, scheduler.Unanswered, false}, {429, 10167, scheduler.Unanswered, false},
		{500, 10047, scheduler.Unanswered, false},
		{409, 10158, scheduler.Unknown, false},
	} {
		kind, surprise := classify(&link.StreamError{Code: c.code, ErrCode: c.errCode})
		if kind != c.want || surprise != c.surprise {
			t.Errorf("%d, %d: got %d %v, want %d %v", c.code, c.errCode, kind, surprise, c.want, c.surprise)
		}
	}
	// A store that is full says so before it writes. Any other failure may be one server's alone.
	for text, want := range map[string]scheduler.OutcomeKind{
		"maximum messages exceeded":             scheduler.Unanswered,
		"maximum bytes exceeded":                scheduler.Unanswered,
		"maximum messages per subject exceeded": scheduler.Unanswered,
		"store is closed":                       scheduler.Unknown,
		"no space left on device":               scheduler.Unknown,
	} {
		if kind, _ := classify(&link.StreamError{Code: 503, ErrCode: 10077, Description: text}); kind != want {
			t.Errorf("%s: got %d, want %d", text, kind, want)
		}
	}
	for err, want := range map[error]scheduler.OutcomeKind{
		nats.ErrMaxPayload: scheduler.Refused, nats.ErrBadSubject: scheduler.Refused,
		nats.ErrReconnectBufExceeded: scheduler.NotSent,
		nats.ErrConnectionClosed:     scheduler.NotSent, errors.New("write: broken pipe"): scheduler.Unknown,
	} {
		if got := classifySend(fmt.Errorf("publish: %w", err)); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

func TestParseDenied_ReadsTheSubject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]denied{
		`Permissions Violation for Publish to "a.b"`:              {"a.b", "Publish"},
		`Permissions Violation for Publish to "a.\"b"`:            {`a."b`, "Publish"},
		`Permissions Violation for Publish with Reply of "_I.x"`:  {"_I.x", "Publish with Reply"},
		`Permissions Violation for Subscription to "_I.*"`:        {"_I.*", "Subscription"},
		`Permissions Violation for Subscription to "a" using q (`: {"a", "Subscription"},
		`Permissions Violation for Something New to "a"`:          {},
		`Permissions Violation for Publish to unquoted`:           {},
	} {
		got, ok := parseDenied(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		if got != want || ok != (want.verb != "") {
			t.Errorf("%s: got %+v, %v", text, got, ok)
		}
	}
	if _, ok := parseDenied(errors.New(`Permissions Violation for Publish to "a.b"`)); ok {
		t.Error("only nats.go's own error counts")
	}
}

func TestPendings_AnswerOnceAndInOrderOfTime(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	p := newPendings(1000, timeout)
	start := time.Unix(0, 0)
	open := map[token]*message.Message{}
	var order []token
	random := rand.New(rand.NewPCG(3, 4))
	for step := range 20_000 {
		now := start.Add(time.Duration(step) * time.Millisecond)
		switch random.IntN(3) {
		case 0, 1:
			m := &message.Message{Due: message.Milli(step)}
			tok, ok := p.add(entry{message: m}, now)
			if ok != (len(open) < 1000) {
				t.Fatalf("added %v with %d open", ok, len(open))
			}
			if _, twice := open[tok]; twice && ok {
				t.Fatalf("token %d twice", tok)
			}
			if ok {
				open[tok] = m
				order = append(order, tok)
			}
		default:
			if len(order) == 0 {
				continue
			}
			i := random.IntN(len(order))
			e, ok := p.take(order[i])
			if !ok || e.message != open[order[i]] {
				t.Fatalf("took %+v, %v", e, ok)
			}
			if _, ok := p.take(order[i]); ok {
				t.Fatal("taken twice")
			}
			delete(open, order[i])
			order = slices.Delete(order, i, i+1)
		}
		if step%97 == 0 {
			taken, _, _ := p.overdue(now)
			for _, e := range taken {
				if e.message != open[order[0]] ||
					now.Sub(start.Add(time.Duration(e.message.Due)*time.Millisecond)) < timeout {
					t.Fatalf("message %d ended at %s", e.message.Due, now.Sub(start))
				}
				delete(open, order[0])
				order = order[1:]
			}
			if len(order) > 0 && now.Sub(start.Add(time.Duration(open[order[0]].Due)*time.Millisecond)) >= timeout {
				t.Fatalf("message %d is overdue and waits", open[order[0]].Due)
			}
		}
		if n := p.count; n != len(open) {
			t.Fatalf("%d entries, want %d", n, len(open))
		}
	}
}

func TestHeaderWriter_TellsTheTopicWhereAMessageLeavesElsewhere(t *testing.T) { // not parallel: it counts allocations
	w, m := headerWriter{}, &message.Message{UID: "t-0123456789abcdef", Topic: "orders", Attempt: 1}
	for range 2 { // the map is used again
		if h := w.write(m, "orders.3", &m.Retry); h.Get("Tarry-Subject") != "orders" || len(h) != 6 {
			t.Errorf("got %v", h)
		}
		if h := w.write(m, m.Topic, &m.Retry); len(h) != 5 {
			t.Errorf("got %v", h)
		}
		if !w.plain {
			t.Error("what has nothing of its own is not plain")
		}
	}
	m.Retry.Delays = []time.Duration{time.Minute}
	if h := w.write(m, m.Topic, &m.Retry); h.Get("Tarry-Retry") != "1m" || len(h) != 6 || w.plain {
		t.Errorf("got %v", h)
	}
	m.Retry = message.Retry{Delays: []time.Duration{time.Minute}, Jitter: 5}
	if h := w.write(m, m.Topic, &m.Retry); h.Get("Tarry-Retry") != "1m~5%" {
		t.Errorf("got %v", h)
	}
	plain := &message.Message{UID: "t-0123456789abcdef", Topic: "orders", Attempt: 1, Due: 1}
	w.write(plain, plain.Topic, &plain.Retry)
	if n := testing.AllocsPerRun(100, func() { w.write(plain, plain.Topic, &plain.Retry) }); n > 1 {
		t.Errorf("a plain message allocates %v times, once for its secret", n)
	}
	if n := testing.AllocsPerRun(100, func() { w.write(m, m.Topic, &m.Retry) }); n > 1 {
		t.Errorf("a schedule that was seen before allocates %v times, once for its secret", n)
	}
}

func TestHeaderWriter_KeepsTheUsersAndAddsItsOwn(t *testing.T) {
	t.Parallel()
	w, m := headerWriter{}, &message.Message{UID: "0u", ID: "order-1", Key: "k", Topic: "orders", Due: 1896076800000,
		Attempt: 2, Headers: []message.Header{{Name: "X", Value: "1"}, {Name: "X", Value: "2"},
			{Name: "traceparent", Value: "00"}, {Name: "X", Value: "3"}}}
	got := w.write(m, m.Topic, &m.Retry)
	want := nats.Header{"X": {"1", "2", "3"}, "traceparent": {"00"}, "Tarry-Id": {"order-1"},
		"Tarry-Due": {"1896076800000"}, "Tarry-Attempt": {"2"}, "Tarry-Key": {"k"}, "Nats-Msg-Id": {"0u"},
		"Tarry-Once": got["Tarry-Once"]}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v\nwant %v", got, want)
	}
	got["traceparent"] = append(got["traceparent"], "tracer's own")
	got["Tarry-Id"] = append(got["Tarry-Id"], "and another")
	if got["X"][0] != "1" || got["Tarry-Due"][0] != want["Tarry-Due"][0] || len(got["X"]) != 3 {
		t.Fatal("appending to one header writes into the next")
	}
	m = &message.Message{UID: "0u", Topic: "orders"}
	if got := w.write(m, m.Topic, &m.Retry); got["Tarry-Id"][0] != "0u" || got["Tarry-Key"] != nil {
		t.Fatalf("without an id: got %v", got)
	}
}

// What is delivered takes no more than the size that a push is held against.
func FuzzHeaderWriter(f *testing.F) {
	f.Add("delayed.orders", "Tarry-Delay: 20m\nTarry-Id: order-1\nX: 1\nX: 2")
	f.Add("delayed.orders.eu", "Tarry-At: 2030-01-31T08:00:00Z\nTarry-Key: k\nTarry-Retry: 1m,5m~10%\ntraceparent: 00")
	f.Add("delayed.a", "Tarry-Id: a\nTarry-Attempt: 3\nTarry-Delay: 1s\nTarry-Reason: it failed")
	f.Fuzz(func(t *testing.T, subject, block string) {
		h := map[string][]string{}
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			h[name] = append(h[name], value)
		}
		p, err := wire.Decode(subject, "delayed", h, 0)
		if err != nil {
			return
		}
		m := &message.Message{UID: "u", ID: p.ID, Key: p.Key, Topic: p.Topic, Due: 1, Attempt: 1,
			Retry: message.Retry(p.Retry)}
		for _, header := range p.Headers {
			m.Headers = append(m.Headers, message.Header(header))
		}
		if p.Reason != "" {
			m.Headers = append(m.Headers, message.Header{Name: wire.HeaderReason, Value: p.Reason})
		}
		size, w := 12, headerWriter{}
		for name, values := range w.write(m, m.Topic+".7", &m.Retry) {
			if !strings.HasPrefix(name, "Tarry-") && name != "Nats-Msg-Id" && !reflect.DeepEqual(values, h[name]) {
				t.Fatalf("header %q: got %q, want %q", name, values, h[name])
			}
			for _, v := range values {
				size += len(name) + len(v) + 4
			}
		}
		if p.Retry.Empty() { // its topic's may be delivered
			size += len(wire.HeaderRetry) + wire.RetryRoom + 4
		}
		if size > p.DeliveredSize(0) {
			t.Fatalf("delivered headers take %d bytes, reserved are %d", size, p.DeliveredSize(0))
		}
	})
}

// The handler may be called with an error, and with the next, between a barrier's arrival and its look.
func TestBarriers_HoldNoneForAnErrorThatWasSeen(t *testing.T) {
	t.Parallel()
	var b barriers
	b.timeout = time.Minute
	violation := func() error { return fmt.Errorf("%w: Publish to \"a\"", nats.ErrPermissionViolation) }
	first, second := violation(), violation()
	free := make(chan []held, 1)
	passed := b.passes([]token{1}, 0, func() error {
		called := make(chan []held, 1)
		go func() { called <- append(b.saw(first), b.saw(second)...) }()
		select {
		case list := <-called:
			free <- list
		case <-time.After(50 * time.Millisecond): // it waits for this look
			go func() { free <- <-called }()
		}
		return first
	}, time.Now())
	if list := <-free; !passed && len(list) == 0 {
		t.Error("a barrier waits for an error that the handler was called with before")
	}
}
