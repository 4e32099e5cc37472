package measure

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
)

// Plan is how large the tests are.
type Plan struct {
	Messages int           `json:"messages"` // pushed, drained and pending
	Limit    time.Duration `json:"limit"`    // after which a push stops; its rate is that of what was pushed
	Rates    []int         `json:"rates"`    // of the lateness tests, messages a second
	For      time.Duration `json:"for"`      // how long those push
	Shortest time.Duration `json:"shortest"` // delay of those
	Longest  time.Duration `json:"longest"`
	// how long a loaded server may give buffers back, write its file and collect garbage before it is looked at
	Calm     time.Duration `json:"calm"`
	Idle     time.Duration `json:"idle"`     // how long processor time is watched while nothing is due
	Restored int           `json:"restored"` // messages that Redis loses
	Feed     int           `json:"feed"`     // of single pushes meanwhile, messages a second
	FeedFor  time.Duration `json:"feed_for"` // how long it is watched with nothing beside it, and beside a restore
	Calls    int           `json:"calls"`    // requests about one message, of each kind
	Many     int           `json:"many"`     // messages that one order changes
	Dead     int           `json:"dead"`     // messages that are requeued
}

// Full is the plan of the figures that count.
func Full() Plan {
	return Plan{Messages: 200_000, Limit: 8 * time.Second, Rates: []int{1000, 5000}, For: 20 * time.Second,
		Shortest: time.Second, Longest: 10 * time.Second, Calm: 5 * time.Second, Idle: 20 * time.Second,
		Restored: 1_000_000, Feed: 500, FeedFor: 10 * time.Second,
		Calls: 20_000, Many: 100_000, Dead: 10_000}
}

// Quick is the plan that shows that every test still works.
func Quick() Plan {
	return Plan{Messages: 3_000, Limit: 2 * time.Second, Rates: []int{1000}, For: time.Second,
		Shortest: 300 * time.Millisecond, Longest: time.Second, Calm: time.Second, Idle: time.Second,
		Restored: 5_000, Feed: 500, FeedFor: 400 * time.Millisecond,
		Calls: 300, Many: 1_000, Dead: 300}
}

// lead is how long before its due time a drain begins to load: enough for a machine much slower than any seen.
func (p Plan) lead() time.Duration {
	return 1500*time.Millisecond + time.Duration(p.Messages)*time.Second/12_000
}

// journalLead is lead for a drain that a journal must be ready for too: it has the loading written, and the audit that
// tarry makes 10 s after its start is over or has not begun.
func (p Plan) journalLead() time.Duration {
	const beforeAudit, afterAudit = 5 * time.Second, 18 * time.Second
	lead := 1500*time.Millisecond + time.Duration(p.Messages)*time.Second/6_000
	if lead > beforeAudit {
		return max(lead, afterAudit)
	}
	return lead
}

// Words say what the plan is, for the table.
func (p Plan) Words() string {
	return fmt.Sprintf("%s messages pushed (at most %s), drained and pending; lateness over %s with delays of %s to "+
		"%s; idle over %s; %s restored beside a feed of %d/s; %s calls of a kind, %s changed by one order, %s requeued",
		report.Thousands(p.Messages), p.Limit, p.For, p.Shortest, p.Longest, p.Idle,
		report.Thousands(p.Restored), p.Feed,
		report.Thousands(p.Calls), report.Thousands(p.Many), report.Thousands(p.Dead))
}

// loaded says why a drain cannot begin: loading was cut short, or ended when messages were nearly due.
func (p Plan) loaded(sent load.Sent, due time.Time) (fault string, ok bool) {
	last := due.Add(-ready - margin)
	if sent.Count == p.Messages && !sent.Began.Add(sent.Elapsed).After(last) {
		return "", true
	}
	return fmt.Sprintf("%d of %d messages were loaded in %s, and all must be %s before they are due",
		sent.Count, p.Messages, sent.Elapsed.Round(time.Millisecond), ready+margin), false
}

// paced says why the figures of a lateness test are not those of its rate: producers fell behind.
func (p Plan) paced(sent load.Sent) (fault string, ok bool) {
	if sent.Elapsed <= p.For+p.For/20+250*time.Millisecond {
		return "", true
	}
	return fmt.Sprintf("the pace was not kept: %d messages took %s and not %s", sent.Count,
		sent.Elapsed.Round(time.Millisecond), p.For), false
}
