// Package measure has the tests of the benchmark. Each test is run by several systems:
//
//	tarry      a tarry serve with default settings
//	tarry-tag  the same, where a test pushes both over HTTP and by tag
//	tarry-door the same, by tag through the direct door
//	answered   a bound of the direct door: a loop that answers the same requests after HSET and ZADD of all that came
//	schedules  NATS's own message schedules (ADR-51): a stream with AllowMsgSchedules, "Nats-Schedule: @at" and a
//	           subject of its own for each message
//	jetstream  a bound: the messages go straight to their stream, with no delay at all
//	redis      a bound: HSET and ZADD, pipelined, with no daemon
//	beanstalkd, asynq, river  what consumers that pull would use in tarry's place
//	before     another tarry, as a rule an older one, beside the tarry that is measured
//	off        a tarry serve without a journal, beside the next two in the journal's tests
//	async      one that answers a push after Redis, and keeps a journal in a MariaDB that flushes each commit
//	sync       one that answers when the journal has it
//
// and these are the tests:
//
//	push-1   one producer that waits for each acknowledgement
//	push-32  32 such producers; for tarry the rate until the last message has been accepted into Redis
//	push-many  tarry: batches of 1,000 over HTTP, or by tag with 256 in flight; schedules: 256 in flight;
//	         redis: pipelines of 100
//	drain    all messages are due at one instant, and are loaded before it; the rate until a consumer has the last one
//	late-R   32 producers push R messages a second, due after a spread of delays; received minus due. jetstream:
//	         they keep each message themselves and publish it at its moment, which is the machine's own lateness;
//	         viewed: ten consoles show their Overview meanwhile
//	pending  far-off messages: what they cost in memory, and in processor time while nothing is due
//	journal-push     push-many over HTTP, and how the journal follows
//	journal-drain    drain; the journal has caught up with the loading before the instant. How it follows deliveries
//	journal-names    push-many under new names, with and without the journal being asked about each (names.keep)
//	journal-restore  a feed of single pushes over HTTP goes on while Redis loses everything (FLUSHALL), until tarry
//	         has certified it whole, /readyz is ok and a push is accepted. Before that, in sync mode: what POST
//	         /v1/restore of everything, over a store that lacks nothing, costs such a feed, and one that pushes as
//	         fast as it is answered
//	one-machine      a tarry serve with store: memory, a SQLite journal and NATS embedded: pushes, what a pending
//	         message costs the process, and a restart after kill -9 with all of them waiting
//	plain-push, plain-tag, plain-drain  push-many over HTTP, push-many by tag and drain, by the tarry before and by
//	         this one
//	features-push    push-many over HTTP, without any option and with those that cost something
//	features-drain   drain, without and with settings of topics
//	features-calls   requests about one message each, 32 in flight: push, look up, reschedule, cancel, run; tarry-nats:
//	         over NATS and with the topic, look up, reschedule and cancel
//	pull-many, pull-1, pull-32  messages that are all due are pulled and acknowledged: in batches of 100, or one by one
//	         by one consumer or 32
//	pull-wake        consumers wait for messages that fall due one after the other; received minus due
//	pull-wait        5,000 polls wait on 200 topics, and nothing is due
//	features-many    one request about many messages: reschedule, cancel, and requeue of dead ones
//
// All producers are plain nats.go and net/http programs without a client library of tarry, and share one connection to
// NATS (four to HTTP and Redis). Consumers are ordered JetStream consumers. Producers, consumer and servers share the
// machine.
package measure

import (
	"context"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// Outcome is the result of one test of one system.
type Outcome struct {
	Values report.Values
	Faults []string
}

// System runs a test in its own way, or with one of the features that are compared.
type System struct {
	Name string
	Run  func(context.Context, *stage.Scope) (Outcome, error)
}

// Test is one kind of work, for all systems that can do it.
type Test struct {
	Name    string
	Systems []System
	Alone   bool   // it is held to a pace or an instant: nothing runs beside it, even where figures do not count
	Skip    string // why it cannot be run; empty: it can
}

const (
	producers   = 32
	inFlight    = 256
	batchSize   = 1000
	connections = 4
	forwarding  = 8192 // in flight, as tarry has by default
)

// bench is what all tests share.
type bench struct {
	plan    Plan
	program string // of tarry
	bodies  *load.Bodies
	arrives string // the subject, or the pattern of subjects, that messages are due on
}

func newBench(plan Plan, program string) bench {
	return bench{plan: plan, program: program, bodies: load.NewBodies(), arrives: dueSubject}
}

// All lists the tests in the order of the table. before is another program that the plain path is compared with;
// without one those tests are skipped.
func All(plan Plan, program, before string) []Test {
	b := newBench(plan, program)
	tests := []Test{
		{Name: report.PushOne, Systems: []System{
			{report.Tarry, b.tarrySync(1)}, {report.TarryDoor, b.doorSync(1)}, {report.Answered, b.answeredSync(1)},
			{report.Schedules, b.schedulesSync(1)}, {report.JetStream, b.bareSync(1)}}},
		{Name: report.Push32, Systems: []System{
			{report.Tarry, b.tarrySync(producers)}, {report.TarryDoor, b.doorSync(producers)},
			{report.Answered, b.answeredSync(producers)}, {report.Schedules, b.schedulesSync(producers)}}},
		{Name: report.Push256, Systems: []System{{report.TarryDoor, b.doorSync(inFlight)},
			{report.Answered, b.answeredSync(inFlight)}, {report.Schedules, b.schedulesSync(inFlight)}}},
		{Name: report.PushMany, Systems: []System{
			{report.Tarry, b.tarryBatches}, {report.TarryTag, b.tarryAsync}, {report.TarryDoor, b.doorAsync},
			{report.Answered, b.answeredAsync}, {report.Schedules, b.schedulesAsync}, {report.Redis, b.rawRedis}}},
		{Name: report.Drain, Systems: []System{
			{report.Tarry, b.tarryDrain}, {report.Schedules, b.schedulesDrain}, {report.JetStream, b.bareDrain}},
			Alone: true},
	}
	for _, rate := range plan.Rates {
		tests = append(tests, Test{Name: report.Late(rate), Systems: []System{
			{report.Tarry, b.tarryLate(rate, 0)}, {report.Viewed, b.tarryLate(rate, 10)},
			{report.Schedules, b.schedulesLate(rate)}, {report.JetStream, b.bareLate(rate)}}, Alone: true})
	}
	tests = append(tests,
		Test{Name: report.Pending,
			Systems: []System{{report.Tarry, b.tarryPending}, {report.Schedules, b.schedulesPending}}},
		Test{Name: report.JournalPush, Systems: []System{
			{report.JournalOff, b.journalPush(stage.JournalOff)},
			{report.JournalAsync, b.journalPush(stage.JournalAsync)},
			{report.JournalSync, b.journalPush(stage.JournalSync)}}},
		Test{Name: report.JournalDrain, Systems: []System{
			{report.JournalOff, b.journalDrain(stage.JournalOff)},
			{report.JournalAsync, b.journalDrain(stage.JournalAsync)},
			{report.JournalSync, b.journalDrain(stage.JournalSync)}}, Alone: true},
		Test{Name: report.JournalNames, Systems: []System{
			{report.JournalAsync, b.journalNames(stage.JournalAsync, "0")},
			{report.NamesAsync, b.journalNames(stage.JournalAsync, "168h")},
			{report.JournalSync, b.journalNames(stage.JournalSync, "0")},
			{report.NamesSync, b.journalNames(stage.JournalSync, "168h")}}},
		Test{Name: report.JournalRestore, Systems: []System{
			{report.JournalAsync, b.restored(stage.JournalAsync)},
			{report.JournalSync, b.restored(stage.JournalSync)}}},
		Test{Name: report.OneMachine,
			Systems: []System{{report.Tarry, b.oneMachine}, {report.JournalSync, b.journalPush(stage.JournalSync)}}})
	return slices.Concat(tests, b.plainTests(before), b.featureTests(), b.pullTests())
}

// dial opens the connection of a test's producers or of its consumer.
func dial(s *stage.Scope, url string, pending int) (*load.Client, error) {
	c, err := load.Dial(url, pending)
	if err == nil {
		s.Cleanup(c.Close)
	}
	return c, err
}

// farOff is how long a message of a push waits: a day, and a spread over the next.
func farOff(n int) time.Duration {
	const day = 24 * time.Hour
	return (day + time.Duration(load.Spread(n)*float64(day))).Truncate(time.Millisecond)
}

// pushed are the figures of a push. One that its limit has cut short has a good rate too; the number says what it rests
// on.
func pushed(sent load.Sent) report.Values {
	return report.Values{report.Rate: sent.Rate(), report.Messages: float64(sent.Count)}
}

// micros adds what each process used for each of n messages.
func micros(values report.Values, cost *stage.Cost, n int) error {
	used, _, err := cost.Used()
	if err != nil {
		return err
	}
	for process, d := range used {
		values[report.CPUMicros(process)] = float64(d.Microseconds()) / float64(n)
	}
	return nil
}

// percents adds what share of one core each process used.
func percents(values report.Values, cost *stage.Cost) error {
	used, elapsed, err := cost.Used()
	if err != nil {
		return err
	}
	for process, d := range used {
		values[report.CPUPercent(process)] = 100 * d.Seconds() / elapsed.Seconds()
	}
	return nil
}

// lateness adds how late messages came.
func lateness(values report.Values, l load.Lateness) {
	for name, share := range map[string]float64{report.Least: 0, report.Median: 0.5, report.P99: 0.99,
		report.P999: 0.999, report.Greatest: 1} {
		values[name] = float64(l.At(share).Microseconds()) / 1000
	}
}
