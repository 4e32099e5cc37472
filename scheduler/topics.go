package scheduler

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Topic is what the settings say of the topics that match a pattern.
type Topic struct {
	Pattern string
	// Retry, TTL are for messages that bring none of their own.
	Retry message.Retry
	TTL   time.Duration
	// Rate bounds deliveries a second, CatchUp those of messages that are overdue by more than Overdue; 0 is no bound.
	// All topics of the pattern share them.
	Rate, CatchUp float64
	// Dead and Expired are subjects that get a copy of what ends so; empty for none.
	Dead, Expired string
	// Drop: a core subject on which nobody listens loses its messages, else they wait.
	Drop bool
	// Partitions appends a number below it to the subject, by key; 0 leaves the subject as it is.
	Partitions int
}

// Overdue is how late a message is before it counts against CatchUp.
const Overdue = 5 * time.Second

// Topics are the settings of topics, the first that matches counts. They may be replaced while they are used. The zero
// value has none.
type Topics struct {
	set atomic.Pointer[topics]
}

type topics struct {
	list  []*Topic
	retry message.Retry
}

// Set replaces all settings. retry is the schedule of messages that consumers send back and for which neither they nor
// their topic say any; empty is DefaultRetry.
func (t *Topics) Set(list []*Topic, retry message.Retry) { t.set.Store(&topics{list, retry}) }

// retry is the schedule where nothing else is set.
func (t *Topics) retry() message.Retry {
	if t != nil {
		if set := t.set.Load(); set != nil && !set.retry.Empty() {
			return set.retry
		}
	}
	return message.DefaultRetry()
}

// Of is what is set for a topic, nil for nothing.
func (t *Topics) Of(topic string) *Topic {
	for _, one := range t.all() {
		if Matches(one.Pattern, topic) {
			return one
		}
	}
	return nil
}

// all are the settings as they stand.
func (t *Topics) all() []*Topic {
	if t == nil {
		return nil
	}
	if set := t.set.Load(); set != nil {
		return set.list
	}
	return nil
}

// Matches reports whether a topic matches a pattern of NATS subjects: * is one token, > at the end is one or more.
func Matches(pattern, topic string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		t, trest, tmore := strings.Cut(topic, ".")
		switch {
		case p == ">" && !pmore:
			return true
		case p != "*" && p != t, pmore != tmore:
			return false
		case !pmore:
			return true
		}
		pattern, topic = prest, trest
	}
}
