package wire_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

var now = time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)

func TestCheckDue_AllowsTenYearsToTheMillisecond(t *testing.T) {
	t.Parallel()
	if err := wire.CheckDue(now.Add(wire.MaxDelay), now); err != nil {
		t.Errorf("exactly ten years: %v", err)
	}
	if err := wire.CheckDue(now.AddDate(10, 0, 0), now); err != nil {
		t.Errorf("ten years by the calendar: %v", err)
	}
	if err := wire.CheckDue(now.AddDate(-100, 0, 0), now); err != nil {
		t.Errorf("the past: %v", err)
	}
	wantRefusal(t, wire.CheckDue(now.Add(wire.MaxDelay+time.Millisecond), now), wire.WordAt, wire.FieldAt)
}

func TestMaxDelay_CoversTenYearsFromAnyDay(t *testing.T) {
	t.Parallel()
	for day := range 366 * 8 {
		from := now.AddDate(0, 0, day)
		if ten := from.AddDate(10, 0, 0); ten.Sub(from) > wire.MaxDelay {
			t.Fatalf("ten years from %v are %v, the limit is %v", from, ten.Sub(from), wire.MaxDelay)
		}
	}
}

func TestParseDelay_ReadsEachUnitExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "0.5d": 12 * time.Hour, "1.5d": 36 * time.Hour, "0.1d": 144 * time.Minute,
		"1d1h1m1s1ms": 25*time.Hour + time.Minute + time.Second + time.Millisecond,
		"1h1d":        25 * time.Hour, "1d1d": 48 * time.Hour, ".5s": 500 * time.Millisecond, "5.s": 5 * time.Second,
		"1us": time.Millisecond, "1µs": time.Millisecond, "1μs": time.Millisecond, "1000001ns": 2 * time.Millisecond,
		"+20m": 20 * time.Minute, "000": 0, "0s": 0, "87672h": wire.MaxDelay,
	} {
		if got, err := wire.ParseDelay(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestCheckTarget_RefusesWhatTarryReadsItself(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"delayed", "delayed.x", "tarry", "tarry.default.api.push"} {
		wantRefusal(t, wire.CheckTarget(topic, "delayed"), wire.WordTopic, wire.FieldTopic)
	}
	for _, topic := range []string{"delayedx", "tarrying.x", "x.delayed", "Delayed.x"} {
		if err := wire.CheckTarget(topic, "delayed"); err != nil {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

func TestCheckPrefix_RefusesWhatCannotBeAnIntake(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "tarry", "tarry.in", "a..b", "a.*", ">", "$JS", "_INBOX",
		strings.Repeat("p", wire.MaxPrefix+1)} {
		wantRefusal(t, wire.CheckPrefix(prefix), wire.WordTopic, "prefix")
	}
	for _, prefix := range []string{"delayed", "acme.later", strings.Repeat("p", wire.MaxPrefix)} {
		if err := wire.CheckPrefix(prefix); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}

func TestPush_BuiltFieldByFieldIsTheOneFromHeaders(t *testing.T) {
	t.Parallel()
	p, err := wire.Decode("delayed.orders", "delayed", map[string][]string{"Tarry-Delay": {"1s"}, "x-b": {"1"},
		"X-A": {"2", "1"}, "Empty": {}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p = wire.Push{Topic: "orders", Headers: p.Headers}
	for _, o := range [][2]string{{"delay", "20m"}, {"id", "a"}, {"key", "k"}, {"on_duplicate", "reject"}, {"deliver",
		"mq"}, {"priority", "7"}, {"ttl", "1h"}, {"attempt", "3"}, {"retry", "exp(1s,1m,8)~10%"}, {"reason", "x"}} {
		if err := p.Set(o[0], o[1]); err != nil {
			t.Fatalf("%s: %v", o[0], err)
		}
	}
	if err := p.Check("delayed"); err != nil {
		t.Fatal(err)
	}
	subject, headers := wire.Encode(p, "delayed")
	if again, err := wire.Decode(subject, "delayed", headers, 0); err != nil || !reflect.DeepEqual(again, p) {
		t.Fatalf("got %+v, %v\nwant %+v", again, err, p)
	}
}

func TestPush_SetNamesTheJSONField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, value, word string }{
		{"delay", "soon", wire.WordDelay}, {"at", "1700000000", wire.WordAt}, {"id", "", wire.WordID},
		{"key", "\n", wire.WordKey},
		{"on_duplicate", "Keep", wire.WordOnDuplicate}, {"deliver", "push", wire.WordDeliver},
		{"lease", "99ms", wire.WordLease},
		{"priority", "256", wire.WordPriority},
		{"ttl", "0", wire.WordTTL}, {"attempt", "0", wire.WordAttempt}, {"retry", "1m;2m", wire.WordRetry},
		{"max_wait", "-1m", wire.WordMaxWait},
	} {
		wantRefusal(t, new(wire.Push).Set(c.field, c.value), c.word, c.field)
	}
	wantRefusal(t, new(wire.Push).Set("colour", "red"), wire.WordUnknown, `"colour"`)
}

func TestPush_CheckAsksForOneOfDelayAndAt(t *testing.T) {
	t.Parallel()
	p := wire.Push{Topic: "orders"}
	wantRefusal(t, p.Check("delayed"), wire.WordNoDelay, "delay")
	if err := p.Set("delay", "1s"); err != nil {
		t.Fatal(err)
	}
	if err := p.Set("at", "2030-01-31T08:00:00Z"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, p.Check("delayed"), wire.WordDelayAndAt, "delay")
	p.Topic = "orders.*"
	wantRefusal(t, p.Check("delayed"), wire.WordTopic, "topic")
}

func TestCheckSize_CountsWhatTarryAdds(t *testing.T) {
	t.Parallel()
	p := wire.Push{Topic: "orders", ID: "a", Key: "k", Headers: []wire.Header{{Name: "X", Value: "1"}}}
	room := int64(p.DeliveredSize(1000))
	if err := p.CheckSize(1000, room); err != nil {
		t.Errorf("exactly full: %v", err)
	}
	wantRefusal(t, p.CheckSize(1001, room), wire.WordTooLarge, wire.FieldBody)
	if err := p.CheckSize(1<<30, 0); err != nil {
		t.Errorf("no limit known: %v", err)
	}
	// Every way in takes what the intake takes: a retry of what HTTP accepted comes back by tag.
	most := 1<<20 - wire.HeadRoom - len("X: 1\r\n")
	if err := p.CheckSize(most, 1<<20); err != nil {
		t.Errorf("as much as the intake takes: %v", err)
	}
	wantRefusal(t, p.CheckSize(most+1, 1<<20), wire.WordTooLarge, wire.FieldBody)
}

func TestOptions_TellContentFromName(t *testing.T) {
	t.Parallel()
	base := wire.Push{Topic: "orders", DelayText: "20m", Delay: 20 * time.Minute, ID: "a", Key: "k"}
	for name, c := range map[string]struct {
		change func(*wire.Push)
		same   bool
	}{
		"another id":        {func(p *wire.Push) { p.ID = "b" }, true},
		"another key":       {func(p *wire.Push) { p.Key = "" }, true},
		"reject said aloud": {func(p *wire.Push) { p.OnDuplicate = wire.Reject }, true},
		"another attempt":   {func(p *wire.Push) { p.Attempt = 2 }, true},
		"delay text":        {func(p *wire.Push) { p.DelayText = "1200000" }, false},
		"priority":          {func(p *wire.Push) { p.Priority = 1 }, false},
		"a time":            {func(p *wire.Push) { p.DelayText, p.HasAt, p.At = "", true, now }, false},
		"a reason":          {func(p *wire.Push) { p.Attempt, p.Reason = 2, "x" }, true},
		"merging":           {func(p *wire.Push) { p.OnDuplicate = wire.Keep }, false},
		"retries":           {func(p *wire.Push) { p.Retry.Delays = []time.Duration{0} }, false},
		"a wait":            {func(p *wire.Push) { p.MaxWait = time.Hour }, false},
		"by retry":          {func(p *wire.Push) { p.DelayText = "" }, false},
		"ttl":               {func(p *wire.Push) { p.TTL = time.Hour }, false},
		"deliver":           {func(p *wire.Push) { p.Deliver = wire.MQ }, false},
	} {
		p := base
		if c.change(&p); (p.Options() == base.Options()) != c.same {
			t.Errorf("%s: got %q, the first is %q", name, p.Options(), base.Options())
		}
	}
}

func TestCovers_MatchesASubjectAsTheServerDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, subject string
		want            bool
	}{
		{"orders", "orders", true}, {"orders", "orders.x", false}, {"orders.x", "orders", false},
		{"orders.*", "orders.x", true},
		{"orders.*", "orders", false}, {"orders.*", "orders.x.y", false}, {"orders.>", "orders.x", true},
		{"orders.>", "orders.x.y.z", true},
		{"orders.>", "orders", false}, {">", "a", true}, {">", "a.b", true}, {"*", "a", true}, {"*", "a.b", false},
		{"*.b.*", "a.b.c", true},
		{"*.b.*", "a.c.c", false}, {"a.*.>", "a.b", false}, {"a.*.>", "a.b.c", true}, {"", "a", false},
		{"a", "", false},
		{"order", "orders", false}, {"orders", "order", false}, {"*x", "ax", false}, {"a.>b", "a.c", false},
	} {
		if got := wire.Covers(c.filter, c.subject); got != c.want {
			t.Errorf("%q against %q: got %v, want %v", c.subject, c.filter, got, c.want)
		}
	}
}

func TestHotPaths_AllocateLittle(t *testing.T) {
	match := testing.AllocsPerRun(100, func() { _ = wire.Covers("orders.*.created.>", "orders.eu.created.a.b") })
	if match != 0 {
		t.Errorf("Covers allocates %v times", match)
	}
	if n := testing.AllocsPerRun(100, func() { _ = wire.CheckTarget("orders.eu.created", "delayed") }); n != 0 {
		t.Errorf("CheckTarget allocates %v times", n)
	}
	h := map[string][]string{"Tarry-Delay": {"20m"}, "Tarry-Id": {"order-1"}, "Nats-Msg-Id": {"x"},
		"traceparent": {"00"}}
	if n := testing.AllocsPerRun(100, func() { _, _ = wire.Decode("delayed.orders", "delayed", h, 0) }); n > 3 {
		t.Errorf("Decode allocates %v times", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	h := map[string][]string{"Tarry-Delay": {"20m"}, "Tarry-Id": {"order-1"}, "Nats-Msg-Id": {"x"},
		"traceparent": {"00"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode("delayed.orders.created", "delayed", h, 0); err != nil {
			b.Fatal(err)
		}
	}
}
