package scheduler

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Topic holds the settings of the topics that match a pattern.
type Topic struct {
	Pattern string
	// Retry and TTL apply to messages that set none.
	Retry message.Retry
	TTL   time.Duration
	// Rate bounds deliveries per second, CatchUp those of messages that are overdue by more than Overdue; 0 is no
	// bound. All topics of the pattern share both.
	Rate, CatchUp float64
	// Dead and Expired are subjects that receive a copy of messages that end so; empty for none.
	Dead, Expired string
	// Drop: messages for a core subject without a listener are lost; otherwise they wait.
	Drop bool
	// Partitions appends a number below Partitions to the subject, chosen by key; 0 leaves the subject unchanged.
	Partitions int
}

// Overdue is how late a message is before it counts against CatchUp.
const Overdue = 5 * time.Second

// Topics holds the settings of topics; the first pattern that matches applies. They may be replaced while in use. The
// zero value has none.
type Topics struct {
	set atomic.Pointer[topics]
}

type topics struct {
	list  []*Topic
	retry message.Retry
}

// Set replaces all settings. retry is the schedule of messages that consumers send back if neither the message nor its
// topic has one; empty means DefaultRetry.
func (t *Topics) Set(list []*Topic, retry message.Retry) { t.set.Store(&topics{list, retry}) }

// retry returns the schedule that applies if no other is set.
func (t *Topics) retry() message.Retry {
	if t != nil {
		if set := t.set.Load(); set != nil && !set.retry.Empty() {
			return set.retry
		}
	}
	return message.DefaultRetry()
}

// Of returns the settings of a topic, or nil if there are none.
func (t *Topics) Of(topic string) *Topic {
	for _, one := range t.All() {
		if Matches(one.Pattern, topic) {
			return one
		}
	}
	return nil
}

// All returns the present settings.
func (t *Topics) All() []*Topic {
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

// Schedule returns the retry schedule of a message: its own, else its topic's, else the default.
func (t *Topics) Schedule(own *message.Retry, topic string) message.Retry {
	if !own.Empty() {
		return *own
	}
	if one := t.Of(topic); one != nil && !one.Retry.Empty() {
		return one.Retry
	}
	return t.retry()
}
