package ops

import (
	"cmp"
	"context"
	"slices"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Level says how bad a condition is.
type Level string

// The levels, the worst first.
const (
	LevelStop Level = "stop" // something is not accepted, or does not leave
	LevelWarn Level = "warn" // all goes on, and a further fault would hurt
	LevelHeld Level = "held" // what is due waits because somebody or something holds it back
	LevelNote Level = "note"
	LevelWell Level = "well" // of an overview without conditions that are worse than a note
)

// Condition is one thing that is not as it should be.
type Condition struct {
	Word  string `json:"word"`
	Level Level  `json:"level"`
	// Name is what it is about: a pattern, a topic, an instance. By is who brought it about.
	Name string `json:"name,omitempty"`
	By   string `json:"by,omitempty"`
	// Count is of messages, and Oldest when the first of them fell due; 0 where that is not known.
	Count  int           `json:"count,omitempty"`
	Oldest message.Milli `json:"oldest,omitempty"`
	// Since is when it began or, where that is not known, when this instance first saw it.
	Since  message.Milli `json:"since"`
	Detail string        `json:"detail"` // a sentence
}

// The words of conditions besides those of message.Why (paused, no_listener, stream, rate, catch_up, unpulled). The
// list is closed, and docs/operations.md has it.
const (
	CondStoreAway       = "store_away"
	CondOtherStore      = "other_store"
	CondFilling         = "filling"
	CondBucketAway      = "bucket_away"
	CondElectionUnknown = "election_unknown"
	CondNoLeader        = "no_leader"
	CondNATSAway        = "nats_away"
	CondNoMachineID     = "no_machine_id"
	CondJournalAway     = "journal_away"
	CondOverdue         = "overdue"
	CondJournalBehind   = "journal_behind"
	CondQuarantined     = "quarantined"
	CondClocks          = "clocks"
	CondNoStandby       = "no_standby"
	CondUnlinked        = "unlinked"
	CondIntakeWaits     = "intake_waits"
	CondSetAside        = "set_aside"
	CondWebhookFails    = "webhook_fails"
	CondRejectsDropped  = "rejects_dropped"
	CondDying           = "dying"
	CondRejects         = "rejects"
	CondJournalOff      = "journal_off"
)

// Overview says in one answer whether all is well and, if not, why. What could not be read is left out: an old number
// would look like a current one.
type Overview struct {
	AsOf      message.Milli `json:"as_of"`
	Namespace string        `json:"namespace"`
	Instance  string        `json:"instance"` // that answers
	Version   string        `json:"version"`  // of its binary
	Level     Level         `json:"level"`    // of the worst condition; notes leave it well
	// Conditions are what is not as it should be, the worst first.
	Conditions []Condition `json:"conditions"`

	Leader    *Leader `json:"leader,omitempty"` // nil while nobody leads, or that is not known
	Term      uint64  `json:"term,omitempty"`
	Instances int     `json:"instances"` // that are registered, and of these Healthy could lead
	Healthy   int     `json:"healthy"`
	Gone      int     `json:"gone,omitempty"` // that were registered, and are not

	Messages *MessageCounts `json:"messages,omitempty"`
	Next     message.Milli  `json:"next,omitempty"` // when the next message falls due
	Overdue  []Overdue      `json:"overdue,omitempty"`
	Intake   *IntakeCounts  `json:"intake,omitempty"`
	Journal  JournalState   `json:"journal"`
	Clocks   ClockState     `json:"clocks"`
	LastHour *LastHour      `json:"last_hour,omitempty"`
}

// MessageCounts counts messages by state. Leased ones are in flight.
type MessageCounts struct {
	Waiting  int `json:"waiting"`
	Ready    int `json:"ready"`
	InFlight int `json:"in_flight"`
	Leased   int `json:"leased"`
	Dead     int `json:"dead"`
}

// Overdue counts messages that are due and wait, by what holds them: none, parked, paused, rate or pull.
type Overdue struct {
	Held   string        `json:"held"`
	Count  int           `json:"count"`
	Oldest message.Milli `json:"oldest"`
}

// IntakeCounts counts pushes by tag that are no messages yet, those of them that are set aside, and refused ones.
type IntakeCounts struct {
	Backlog int `json:"backlog"`
	Aside   int `json:"aside"`
	Rejects int `json:"rejects"`
}

// ClockState says how many clocks decide what is due, and how far they are apart.
type ClockState struct {
	Voters   int   `json:"voters"`
	SpreadMS int64 `json:"spread_ms"`
}

// WorstFirst sorts conditions by their level.
func WorstFirst(all []Condition) []Condition {
	worst := []Level{LevelStop, LevelWarn, LevelHeld, LevelNote}
	slices.SortStableFunc(all, func(x, y Condition) int {
		return slices.Index(worst, x.Level) - slices.Index(worst, y.Level)
	})
	return all
}

// overview says how all does. It answers also while the store, NATS or the election do not.
func (o *Ops) overview(ctx context.Context, _ *Caller, _ *Nothing) (*Overview, error) {
	var hour *Hour
	var wait Together
	wait.Go(func() { hour, _ = o.hour(ctx) }) // left out if it cannot be read
	a := o.Overview(ctx)
	wait.Wait()
	a.Conditions = append([]Condition{}, a.Conditions...) // none is a list too
	a.Namespace, a.Instance, a.Version, a.Level = o.Namespace, o.Instance, o.Version, LevelWell
	a.AsOf, a.Journal.Mode = cmp.Or(a.AsOf, message.Milli(o.Now().UnixMilli())), cmp.Or(o.JournalMode, "off")
	if hour != nil {
		a.LastHour = &hour.Sum
		a.Conditions = WorstFirst(append(a.Conditions, hour.conditions()...))
	}
	if len(a.Conditions) > 0 && a.Conditions[0].Level != LevelNote {
		a.Level = a.Conditions[0].Level
	}
	return &a, nil
}
