package measure

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
)

func TestOptionsOfAPushAreFieldsOfItsJSON(t *testing.T) {
	t.Parallel()
	b := newBench(Full(), "")
	type pushed struct {
		Topic, Body, ID, Retry, TTL string
		OnDuplicate                 string `json:"on_duplicate"`
		At                          int64
	}
	due := time.UnixMilli(1_800_000_000_123)
	const n = 4711
	plain := pushed{Topic: "a.topic", Body: string(b.body(n)), At: due.UnixMilli()}
	with := func(set func(*pushed)) pushed { p := plain; set(&p); return p }
	for name, c := range map[string]struct {
		options func([]byte, int) []byte
		want    pushed
	}{
		"none":      {nil, plain},
		"id":        {named(""), with(func(p *pushed) { p.ID = "order-4711" })},
		"keep":      {named("keep"), with(func(p *pushed) { p.ID, p.OnDuplicate = "order-4711", "keep" })},
		"ten":       {tens("replace"), with(func(p *pushed) { p.ID, p.OnDuplicate = "order-411", "replace" })},
		"retry ttl": {retryTTL, with(func(p *pushed) { p.Retry, p.TTL = schedule, "1h" })},
	} {
		var got pushed
		if text := b.item(nil, n, "a.topic", due, c.options); json.Unmarshal(text, &got) != nil || got != c.want {
			t.Errorf("%s: %s, want %+v", name, text, c.want)
		}
	}
}

func TestTenPushesOfABatchHaveOneNameAndNoneOfAnother(t *testing.T) {
	t.Parallel()
	names := make(map[string][]int)
	option := tens("replace")
	for n := range 3 * batchSize {
		name := string(option(nil, n))
		names[name] = append(names[name], n)
	}
	for name, all := range names {
		if len(all) != perName || all[0]/batchSize != all[perName-1]/batchSize {
			t.Fatalf("%s has the messages %v", name, all)
		}
	}
	for n, want := range map[int]int{batchSize: 900, 500: 400, 100: 0, 1: 0} {
		if got := mergedTens(batchSize, batchSize+n); got != want {
			t.Errorf("of %d, %d are merged, want %d", n, got, want)
		}
	}
}

func TestSettingsOfTopicsAreYAML(t *testing.T) {
	t.Parallel()
	const want = "topics:\n  - pattern: \"a.>\"\n    retry: 1m,1h\n    ttl: 1h\n"
	if got := topic("a.>", "retry: 1m,1h", "ttl: 1h"); got != want {
		t.Errorf("they are\n%s\nwant\n%s", got, want)
	}
}

func TestThePlainPathIsSkippedWithoutAProgramBefore(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{"": noBefore, "/old/tarry": ""} {
		n := 0
		for _, test := range All(Full(), "/new/tarry", before) {
			switch test.Name {
			case report.PlainPush, report.PlainTag, report.PlainDrain:
				if n++; test.Skip != want {
					t.Errorf("before %q, %s is skipped for %q, want %q", before, test.Name, test.Skip, want)
				}
			default:
				if test.Skip != "" {
					t.Errorf("%s is skipped: %s", test.Name, test.Skip)
				}
			}
		}
		if n != 3 {
			t.Errorf("there are %d tests of the plain path", n)
		}
	}
}
