package scheduler

import "github.com/tarry-mq/tarry/scheduler/message"

// Sample is what Counting.Sample has read of a bucket.
type Sample struct {
	Of   int // how many messages there are
	Read []Sampled
}

// Sampled is a message of a sample. Topic is empty if the message is too long, or damaged, to look into it.
type Sampled struct {
	Topic string
	Due   message.Milli
}

// MaxSample is how many messages an outlook reads to tell topics apart.
const MaxSample = 4096

// OutlookQuery asks how many messages fall due when.
type OutlookQuery struct {
	// Times are the beginnings of the steps, ascending, and the end of the last step.
	Times []message.Milli
	// Topic is a pattern; empty for all topics.
	Topic string
	// By tells groups apart: ByTopic, ByPattern, or empty for no groups. The Top largest are named.
	By  string
	Top int
}

// What groups of an outlook have in common. A pattern is one of the settings of topics.
const (
	ByTopic   = "topic"
	ByPattern = "pattern"
)

// Outlook counts the messages that fall due in each step from now on.
type Outlook struct {
	// Source is who counted: store or journal.
	Source string `json:"source"`
	// Overdue counts those that should have left already, and Held does so by what holds them. Where a topic is asked
	// for, the store leaves both out: it does not know.
	Overdue *int           `json:"overdue,omitempty"`
	Held    map[string]int `json:"held,omitempty"`
	// Groups are the largest groups over all steps, the largest first.
	Groups []string `json:"groups,omitempty"`
	Steps  []Fall   `json:"steps"`
	// Sample is set where not all numbers are counts.
	Sample *SampleSize `json:"sample,omitempty"`
}

// SampleSize is how many of the messages that fall due were read to tell them apart. If Exact, all were, and each
// number is a count. Else the shares of groups are those of the sample: a group of one in a thousand may be missing.
type SampleSize struct {
	Read  int  `json:"read"`
	Of    int  `json:"of"`
	Exact bool `json:"exact"`
}

// Fall is how many messages fall due within a step.
type Fall struct {
	From  message.Milli `json:"from"` // the beginning of the step
	Count int           `json:"count"`
	// Groups are the parts of the groups of the outlook, and Others is what belongs to none of them.
	Groups []int `json:"groups,omitempty"`
	Others int   `json:"others,omitempty"`
	// Behind are the patterns whose rate will make messages late.
	Behind []Behind `json:"behind,omitempty"`
}

// Behind is how a pattern's rate will fall behind.
type Behind struct {
	Name string `json:"name"`
	// Left is how many messages wait for the rate at the end of the step.
	Left int `json:"left"`
	// LateMS is how late a message of the step leaves at most.
	LateMS int64 `json:"late_ms"`
}
