package publish

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestRoutes_MatchAsNATSDoes(t *testing.T) {
	t.Parallel()
	r := newRoutes(map[string]string{
		"orders": "A", "orders.created": "B", "orders.*.paid": "C", "orders.x.y.>": "D", "*.z": "E", "all.>": "F",
		"orders.eu.paid.late": "G", "*.*.*.deep": "H",
	})
	for subject, want := range map[string]string{
		"orders":              "A",
		"orders.created":      "B",
		"orders.eu.paid":      "C",
		"orders.x.y.z":        "D",
		"orders.x.y":          "",
		"q.z":                 "E",
		"all":                 "",
		"all.a":               "F",
		"all.a.b.c":           "F",
		"orders.eu.paid.late": "G",
		"orders.eu.paid.deep": "H",
		"nothing":             "",
		"a.b.c":               "",
	} {
		got := ""
		if to := r.match(subject); to != nil {
			got = to.stream
			if to.lane != message.LaneStream.Lane(got) {
				t.Errorf("%s: lane %q", subject, to.lane)
			}
		}
		if got != want {
			t.Errorf("%s: got stream %q, want %q", subject, got, want)
		}
	}
}

func TestRoutes_AgreeWithTheFilterRuleOnRandomSubjects(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(tokens []string) string { return tokens[random.IntN(len(tokens))] }
	subject := func(tokens []string) string {
		parts := make([]string, 1+random.IntN(4))
		for i := range parts {
			parts[i] = pick(tokens)
		}
		return strings.Join(parts, ".")
	}
	for range 2000 {
		filter := subject([]string{"a", "b", "*"})
		if random.IntN(3) == 0 {
			filter += ".>"
		}
		r := newRoutes(map[string]string{filter: "S"})
		for range 20 {
			s := subject([]string{"a", "b", "c"})
			if got, want := r.match(s) != nil, scheduler.Matches(filter, s); got != want {
				t.Fatalf("filter %s, subject %s: got %v, want %v", filter, s, got, want)
			} else if topic := scheduler.Matches(filter, s); topic != want { // which may not import wire's
				t.Fatalf("pattern %s, topic %s: got %v, want %v", filter, s, topic, want)
			}
		}
	}
}

func BenchmarkRoutes_Match(b *testing.B) {
	filters := map[string]string{}
	for i := range 1000 {
		filters[fmt.Sprintf("service%d.*.events.>", i)] = fmt.Sprintf("S%d", i)
	}
	r := newRoutes(filters)
	b.ReportAllocs()
	for b.Loop() {
		if r.match("service777.eu.events.order.created.7131") == nil {
			b.Fatal("no match")
		}
	}
}
