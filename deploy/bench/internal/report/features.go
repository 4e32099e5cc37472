package report

import (
	"fmt"
	"strings"
)

// plainGoals hold the plain path, which uses no feature, against that of another tarry.
func plainGoals() (all []goal) {
	for _, of := range plainWork {
		all = append(all, goal{work: "plain path: " + of.work, own: figureOf{of.test, Tarry, of.rate},
			peer:  figureOf{of.test, Before, of.rate},
			least: 0.97, unit: perSecond})
	}
	return all
}

var plainWork = []struct{ test, work, rate string }{
	{PlainPush, "push over HTTP, batches of 1,000", Kept},
	{PlainTag, "push by tag, 256 in flight, acknowledged and accepted", Kept},
	{PlainDrain, "drain, all due at one instant", Rate},
}

func (b *Book) writePlain(w *strings.Builder) {
	var rows strings.Builder
	for _, of := range plainWork {
		for _, system := range []string{Before, Tarry} {
			b.writeRow(&rows, of.work+", "+names(system), of.test, system, cells(perSecond, of.rate),
				cells(microseconds, CPUMicros("tarry"), CPUMicros("redis"), CPUMicros("nats")))
		}
	}
	if rows.Len() > 0 {
		w.WriteString("\n| plain path, before and after | messages/s | tarry, µs a message | Redis, µs | NATS, µs " +
			"|\n|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}

// feature is one line of the table of features: work with a feature, beside the same without it, or beside a push that
// asks for as much in a request.
type feature struct {
	work   string
	own    figureOf // its rate
	peer   figureOf // its zero value: the line that others are compared with
	beside string
	kind   string // the kind of work within its sample; empty: the whole
}

func features() []feature {
	const plainPush, plainDrain, onePush = "plain push", "plain drain", "single push"
	push, drain := figureOf{FeaturesPush, Tarry, Rate}, figureOf{FeaturesDrain, Tarry, Rate}
	call := func(work string) figureOf { return figureOf{FeaturesCalls, Tarry, Of(work, Rate)} }
	many := func(work string) figureOf { return figureOf{FeaturesMany, Tarry, Of(work, Rate)} }
	with := func(test, system string) figureOf { return figureOf{test, system, Rate} }
	return []feature{
		{work: "plain push over HTTP, batches of 1,000", own: push},
		{work: "with an id", own: with(FeaturesPush, Named), peer: push, beside: plainPush},
		{work: "keep, all names different", own: with(FeaturesPush, Keep), peer: push, beside: plainPush},
		{work: "replace, all names different", own: with(FeaturesPush, Replace), peer: push, beside: plainPush},
		{work: "replace, ten pushes become one message", own: with(FeaturesPush, ReplaceTen), peer: push,
			beside: plainPush},
		{work: "debounce, ten pushes become one message", own: with(FeaturesPush, DebounceTen), peer: push,
			beside: plainPush},
		{work: "with a schedule of retries and a TTL", own: with(FeaturesPush, RetryTTL), peer: push,
			beside: plainPush},
		{work: "plain drain, all due at one instant", own: drain},
		{work: "ten topic settings, none of which matches", own: with(FeaturesDrain, NoMatch), peer: drain,
			beside: plainDrain},
		{work: "8 partitions", own: with(FeaturesDrain, Partitions), peer: drain, beside: plainDrain},
		{work: "retries and TTL from the topic", own: with(FeaturesDrain, RetryTTL), peer: drain, beside: plainDrain},
		{work: "a rate of 1,000,000/s, far above the load", own: with(FeaturesDrain, Limited), peer: drain,
			beside: plainDrain},
		{work: "single push over HTTP, 32 in flight", own: call(OnePush), kind: OnePush},
		{work: "GET by id", own: call(OneGet), peer: call(OnePush), beside: onePush, kind: OneGet},
		{work: "reschedule by id", own: call(OneReschedule), peer: call(OnePush), beside: onePush, kind: OneReschedule},
		{work: "cancel by id", own: call(OneCancel), peer: call(OnePush), beside: onePush, kind: OneCancel},
		{work: "run by id", own: call(OneRun), peer: call(OnePush), beside: onePush, kind: OneRun},
		{work: "reschedule of many by filter", own: many(ManyReschedule), peer: push, beside: plainPush,
			kind: ManyReschedule},
		{work: "cancel of many by filter", own: many(ManyCancel), peer: push, beside: plainPush, kind: ManyCancel},
		{work: "requeue of many dead by filter", own: many(Requeue), peer: push, beside: plainPush, kind: Requeue},
	}
}

// cpu is a figure of a process beside the rate.
func (f feature) cpu(process string) string {
	if f.kind == "" {
		return CPUMicros(process)
	}
	return Of(f.kind, CPUMicros(process))
}

func (b *Book) writeFeatures(w *strings.Builder) {
	var rows strings.Builder
	for _, f := range features() {
		own := b.series(f.own.test, f.own.system, f.own.name)
		rate, ok := own.spread()
		if !ok {
			continue
		}
		fmt.Fprintf(&rows, "| %s | %s |", f.work, perSecond.show(rate))
		beside, ratio := "", ""
		if f.peer.given() {
			peer := b.series(f.peer.test, f.peer.system, f.peer.name)
			if r, ok := own.over(peer).spread(); ok {
				p, _ := peer.spread()
				beside, ratio = f.beside+" "+perSecond.show(p), spreadText(figure, r, "")
			}
		}
		fmt.Fprintf(&rows, " %s | %s |", beside, ratio)
		for _, process := range []string{"tarry", "redis"} {
			text := ""
			if s, ok := b.series(f.own.test, f.own.system, f.cpu(process)).spread(); ok {
				text = spreadText(microseconds.one, s, "")
			}
			fmt.Fprintf(&rows, " %s |", text)
		}
		rows.WriteString("\n")
	}
	if rows.Len() > 0 {
		w.WriteString("\nWhat a feature costs where it is used. Operations on one message name it by the client's " +
			"id, and those on many are one request; " +
			"they stand beside a push of one message a request, and of 1,000.\n")
		w.WriteString("\n| feature | messages/s | beside | ratio | tarry, µs a message | Redis, µs " +
			"|\n|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}
