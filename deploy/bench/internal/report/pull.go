package report

import "strings"

// pullGoals hold consumers that pull against those of beanstalkd, asynq and River.
func pullGoals() []goal {
	rate := func(test, system string) figureOf { return figureOf{test, system, Rate} }
	return []goal{
		{work: "pull and acknowledge, batches of 100", own: rate(PullMany, Tarry), peer: rate(PullMany, Beanstalkd),
			beside: "beanstalkd, reserve and delete", least: 1.5, unit: perSecond},
		{work: "scripts a message, batches of 100, four buckets", own: figureOf{PullMany, Tarry, ScriptsEach}, most: 0.15,
			unit: number},
		{work: "pull and acknowledge, one by one, one consumer", own: rate(PullOne, Tarry),
			peer: rate(PullOne, Beanstalkd), beside: "beanstalkd, reserve and delete", unit: perSecond},
		{work: "pull and acknowledge, one by one, 32 consumers", own: rate(Pull32, Tarry), peer: rate(Pull32, Asynq),
			beside: "asynq, 32 workers", least: 1, unit: perSecond},
		{work: "Consume of the Go library, 32 workers", own: rate(Pull32, Consume), peer: rate(Pull32, Asynq),
			beside: "asynq, 32 workers", least: 1.2, unit: perSecond},
		{work: "Consume of the Go library, 32 workers", own: rate(Pull32, Consume), peer: rate(Pull32, River),
			beside: "River on PostgreSQL, 32 workers", unit: perSecond},
		{work: "wake-up of a poll, p99 at 1,000/s", own: figureOf{PullWake, Tarry, P99}, most: 10, unit: milliseconds},
		{work: "5,000 polls wait on 200 topics, tarry's share of one core",
			own: figureOf{PullWait, Tarry, CPUPercent("tarry")}, most: 3, unit: percent},
		{work: "5,000 polls wait on 200 topics, Redis's share of one core",
			own: figureOf{PullWait, Tarry, CPUPercent("redis")}, most: 3, unit: percent},
	}
}

func (b *Book) writePull(w *strings.Builder) {
	var rows strings.Builder
	for _, of := range []struct{ test, work string }{{PullMany, "batches of 100"}, {PullOne, "one by one, one consumer"},
		{Pull32, "one by one, 32 consumers"}} {
		for _, system := range []string{Tarry, Consume, Beanstalkd, Asynq, River} {
			b.writeRow(&rows, of.work+", "+names(system), of.test, system, cells(perSecond, Rate),
				cells(microseconds, CPUMicros("tarry"), CPUMicros("redis"), CPUMicros("beanstalkd"), CPUMicros("bench")))
		}
	}
	if rows.Len() > 0 {
		w.WriteString("\nConsumers that pull. beanstalkd flushes its log once a second and asynq's Redis its file, as " +
			"tarry's does; River's PostgreSQL does not wait for its log either (synchronous_commit off). " +
			"beanstalkd has no batches, and takes from 32 connections in their place.\n")
		w.WriteString("\n| pull and acknowledge | messages/s | tarry, µs a message | Redis, µs | beanstalkd, µs | " +
			"consumers, µs |\n|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}
