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
	PushMany = "push-many"
	Drain    = "drain"
	Pending  = "pending"
)

// Late names the lateness test at a rate.
func Late(rate int) string { return fmt.Sprintf("late-%d", rate) }

// The systems.
const (
	Tarry     = "tarry"
	TarryTag  = "tarry-tag"
	Schedules = "schedules"
	JetStream = "jetstream"
	Redis     = "redis"
)

// The names of figures.
const (
	Rate       = "per_s"          // messages a second, acknowledged or received
	Kept       = "accepted_per_s" // messages a second until tarry had accepted the last
	Backlog    = "backlog"        // messages acknowledged and not yet accepted when the push ended
	Messages   = "messages"       // what the rate rests on
	First      = "first_ms"       // from the due time to the first message
	Least      = "least_ms"       // lateness
	Median     = "p50_ms"
	P99        = "p99_ms"
	P999       = "p99.9_ms"
	Greatest   = "greatest_ms"
	Beyond     = "beyond_body_bytes" // of Redis, per pending message
	UsedMemory = "used_bytes"        // of Redis, per pending message, the body included
	RSS        = "rss_bytes"         // of the server that keeps the messages, per pending message
)

// CPUMicros names a process's processor time per message.
func CPUMicros(process string) string { return "cpu_us_" + process }

// CPUPercent names a process's share of one core.
func CPUPercent(process string) string { return "cpu_%_" + process }

// Values are the figures of one sample by name.
type Values map[string]float64

// Sample is what one test of one system gave in one repetition. With a fault its figures mean nothing.
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
