package measure

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// featureTests are what a feature costs where it is used, beside the same work without it.
func (b bench) featureTests() []Test {
	parts := b
	parts.arrives = dueSubject + ".*"
	return []Test{
		{Name: report.FeaturesPush, Systems: []System{
			{report.Tarry, b.tarryBatches},
			{report.Named, b.batchesWith(named(""), nil)},
			{report.Keep, b.batchesWith(named("keep"), nil)},
			{report.Replace, b.batchesWith(named("replace"), nil)},
			{report.ReplaceTen, b.batchesWith(tens("replace"), mergedTens)},
			{report.DebounceTen, b.batchesWith(tens("debounce"), mergedTens)},
			{report.RetryTTL, b.batchesWith(retryTTL, nil)}}},
		{Name: report.FeaturesDrain, Systems: []System{
			{report.Tarry, b.tarryDrain},
			{report.NoMatch, b.drainTopics(otherTopics(), "")},
			{report.Partitions, parts.drainTopics(topic(dueSubject, "partitions: 8"), "Tarry-Subject")},
			{report.RetryTTL, b.drainTopics(topic(dueSubject, "retry: "+schedule, "ttl: 1h"), "Tarry-Retry")},
			{report.Limited, b.drainTopics(topic(dueSubject, "rate: 1000000"), "")}}},
		{Name: report.FeaturesCalls, Systems: []System{{report.Tarry, b.calls}, {report.TarryNATS, b.callsOverNATS}}},
		{Name: report.FeaturesMany, Systems: []System{{report.Tarry, b.many}}},
	}
}

// schedule is one of retries as people write them.
const schedule = "10s,1m,10m*3,1h"

// retryTTL are the options of a push that brings a schedule and a time to live.
func retryTTL(to []byte, _ int) []byte { return append(to, `,"retry":"`+schedule+`","ttl":"1h"`...) }

// appendName appends the client's id of message n, as the field of a push and in a path.
func appendName(to []byte, n int) []byte {
	return strconv.AppendInt(append(to, "order-"...), int64(n), 10)
}

// named are the options of a push under a name of its own. onDuplicate is empty for reject.
func named(onDuplicate string) func(to []byte, n int) []byte {
	rest := `"`
	if onDuplicate != "" {
		rest = `","on_duplicate":"` + onDuplicate + `"`
	}
	return func(to []byte, n int) []byte { return append(appendName(append(to, `,"id":"`...), n), rest...) }
}

// Ten pushes of a batch have one name. They do not follow one another: every hundredth has the same.
const perName = 10

func tens(onDuplicate string) func(to []byte, n int) []byte {
	const names = batchSize / perName
	one := named(onDuplicate)
	return func(to []byte, n int) []byte { return one(to, n/batchSize*names+n%names) }
}

// mergedTens is how many pushes of a batch find their name there.
func mergedTens(from, to int) int { return max(0, to-from-batchSize/perName) }

// topic are settings of one pattern of topics.
func topic(pattern string, settings ...string) string {
	return "topics:\n" + section(pattern, settings...)
}

func section(pattern string, settings ...string) string {
	return fmt.Sprintf("  - pattern: %q\n    %s\n", pattern, strings.Join(settings, "\n    "))
}

// otherTopics returns settings of ten other patterns. Each is compared with the topic, and none matches.
func otherTopics() string {
	text := "topics:\n"
	for i := range 10 {
		text += section(fmt.Sprintf("other.%d.>", i), "rate: 50", "retry: "+schedule, "ttl: 1h")
	}
	return text
}

// drainTopics drains a tarry with settings of topics. header is one that the first message then has, empty for none:
// the settings are in force.
func (b bench) drainTopics(yaml, header string) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, c, err := b.tarry(ctx, s, s.Settings(yaml)...)
		if err != nil {
			return Outcome{}, err
		}
		o, err := b.drainOf(ctx, s, t, c)
		if err != nil || header == "" || len(o.Faults) > 0 {
			return o, err
		}
		first, err := firstDue(ctx, c.JS)
		if err == nil && first.Header.Get(header) == "" {
			o.Faults = append(o.Faults, fmt.Sprintf(
				"the first message on %s has no header %s: the settings had no effect", first.Subject, header))
		}
		return o, err
	}
}

// firstDue is the first message that was delivered.
func firstDue(ctx context.Context, js jetstream.JetStream) (*jetstream.RawStreamMsg, error) {
	stream, err := js.Stream(ctx, dueStream)
	if err != nil {
		return nil, fmt.Errorf("look up the stream that messages are due on: %w", err)
	}
	first, err := stream.GetMsg(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("look at the first message: %w", err)
	}
	return first, nil
}
