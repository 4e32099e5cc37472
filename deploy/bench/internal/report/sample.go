// Package report keeps what was measured, holds it against the goals and writes the tables.
package report

import (
	"fmt"
	"slices"
	"strings"
)

// The tests.
const (
	PushOne  = "push-1"
	Push32   = "push-32"
	Push256  = "push-256"
	PushMany = "push-many"
	Drain    = "drain"
	Pending  = "pending"

	JournalPush    = "journal-push"
	JournalDrain   = "journal-drain"
	JournalRestore = "journal-restore"
	JournalNames   = "journal-names"

	OneMachine = "one-machine"

	PlainPush  = "plain-push"
	PlainTag   = "plain-tag"
	PlainDrain = "plain-drain"

	FeaturesPush  = "features-push"
	FeaturesDrain = "features-drain"
	FeaturesCalls = "features-calls"
	FeaturesMany  = "features-many"

	PullMany = "pull-many"
	PullOne  = "pull-1"
	Pull32   = "pull-32"
	PullWake = "pull-wake"
	PullWait = "pull-wait"
)

// Late names the lateness test at a rate.
func Late(rate int) string { return fmt.Sprintf("late-%d", rate) }

// The systems.
const (
	Tarry     = "tarry"
	TarryTag  = "tarry-tag"
	TarryDoor = "tarry-door"
	TarryNATS = "tarry-nats"
	Consume   = "consume" // tarry, by its Go library's Consume
	Answered  = "answered"
	Viewed    = "viewed" // tarry, while ten people look at its console
	Schedules = "schedules"
	JetStream = "jetstream"
	Redis     = "redis"

	JournalOff   = "off"
	JournalAsync = "async"
	JournalSync  = "sync"

	// With names.keep; the two above without.
	NamesAsync = "async-names"
	NamesSync  = "sync-names"

	Beanstalkd = "beanstalkd"
	Asynq      = "asynq"
	River      = "river"

	Before = "before" // another tarry, beside the one that is measured
)

// The features that have a system of their own.
const (
	Named       = "id"
	Keep        = "keep"
	Replace     = "replace"
	ReplaceTen  = "replace-10"
	DebounceTen = "debounce-10"
	RetryTTL    = "retry-ttl"
	NoMatch     = "no-match"
	Partitions  = "partitions"
	Limited     = "rate"
)

// The kinds of work of which one sample has figures each.
const (
	OnePush        = "push"
	OneGet         = "get"
	OneReschedule  = "reschedule"
	OneCancel      = "cancel"
	OneRun         = "run"
	ManyReschedule = "many-reschedule"
	ManyCancel     = "many-cancel"
	Requeue        = "requeue"
	ByTag          = "tag"
)

// Of names a figure of one kind of work among several.
func Of(work, name string) string { return work + "_" + name }

// The names of figures.
const (
	Rate     = "per_s"          // messages a second, acknowledged or received
	Kept     = "accepted_per_s" // messages a second until tarry had accepted the last
	Backlog  = "backlog"        // messages acknowledged and not yet accepted when the push ended
	Messages = "messages"       // what the rate rests on
	// scripts of Redis a message
	ScriptsEach = "scripts_each"
	First       = "first_ms" // from the due time to the first message
	Least       = "least_ms" // lateness
	Median      = "p50_ms"
	P99         = "p99_ms"
	P999        = "p99.9_ms"
	Greatest    = "greatest_ms"
	Beyond      = "beyond_body_bytes" // of Redis, per pending message
	UsedMemory  = "used_bytes"        // of Redis, per pending message, the body included
	RSS         = "rss_bytes"         // of the server that keeps the messages, per pending message
)

// The names of the journal's figures.
const (
	Rows = "rows_per_s" // changes a second that the journal took
	// from the last acknowledgement or delivery until the journal had it all
	Behind       = "behind_s"
	JournalBytes = "journal_bytes" // of its tables and indexes, per message
	LoadRate     = "load_per_s"    // messages a second, pushed to be restored and in the journal
	// from the loss of Redis until all is back and pushes are accepted
	Seconds                      = "restore_s"
	RestoreRate                  = "restored_per_s"       // messages a second, brought back after it
	Outage                       = "outage_s"             // from the loss until a push is accepted
	Missing                      = "missing"              // messages accepted and not there after the restore
	UsedAgain                    = "used_again_bytes"     // of Redis, per message, all its memory after the restore
	FillBefore                   = "fed_before_per_s"     // a feed at a rate, accepted before the loss
	FillDuring                   = "fed_while_lost_per_s" // and from there until all is back
	FeedBefore                   = "feed_per_s"           // a feed at a rate, with nothing beside it
	FeedDuring                   = "feed_restoring_per_s" // and beside an ordered restore
	FlatBefore                   = "flat_per_s"           // a feed that pushes as fast as it is answered
	FlatDuring                   = "flat_restoring_per_s" // and beside an ordered restore
	FeedOrder                    = "feed_ordered_per_s"   // messages a second that this restore reads
	FlatOrder                    = "flat_ordered_per_s"
	FeedP99Before, FeedP99During = "feed_p99_ms", "feed_restoring_p99_ms" // from push to answer
	FlatP99Before, FlatP99During = "flat_p99_ms", "flat_restoring_p99_ms"
)

// CPUMicros names a process's processor time per message.
func CPUMicros(process string) string { return "cpu_us_" + process }

// CPUPercent names a process's share of one core.
func CPUPercent(process string) string { return "cpu_%_" + process }

// Values are the figures of one sample by name.
type Values map[string]float64

// Sample is the result of one test of one system in one repetition. With a fault its figures mean nothing.
type Sample struct {
	Test       string   `json:"test"`
	System     string   `json:"system"`
	Repetition int      `json:"repetition"`
	Values     Values   `json:"values,omitempty"`
	Faults     []string `json:"faults,omitempty"`
}

// String is the sample on one line.
func (s Sample) String() string {
	var words []string
	for name := range s.Values {
		words = append(words, fmt.Sprintf("%s=%s", name, figure(s.Values[name])))
	}
	slices.Sort(words)
	for _, fault := range s.Faults {
		words = append(words, "INVALID: "+fault)
	}
	return strings.Join(words, " ")
}
