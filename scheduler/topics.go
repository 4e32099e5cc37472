package scheduler

import (
	"fmt"
	"slices"
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
	// Deliver is how the messages reach their consumers if a push does not say it; DeliverTopic is as DeliverMQ, but not
	// said aloud. Lease is how long one may hold a message that consumers pull.
	Deliver Deliver
	Lease   time.Duration
	// Webhook: every instance posts what is ready to a target by itself. It goes with DeliverPull.
	Webhook bool
	// Serial: of the messages that consumers pull, those of one key are leased one after the other.
	Serial bool
	// Partitions appends a number below Partitions to the subject, chosen by key; 0 leaves the subject unchanged.
	Partitions int
}

// ForNATS returns the name of a setting that only concerns what NATS carries, if one is set.
func (t *Topic) ForNATS() string {
	for _, s := range []struct {
		name string
		set  bool
	}{{"rate", t.Rate > 0}, {"catch_up_rate", t.CatchUp > 0}, {"core", t.Drop}, {"partitions", t.Partitions > 0},
		{"dead", t.Dead != ""}, {"expired", t.Expired != ""}} {
		if s.set {
			return s.name
		}
	}
	return ""
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

// Total counts the messages of a bucket at one moment.
type Total struct {
	// InFlight counts the leased ones too.
	InFlight, Leased, Dead int
	// Waiting counts waiting messages by what holds them back.
	Waiting [message.Holds]Waiting
	// Next is the earliest due time to come, or 0 where none waits for its time or a store has stopped counting.
	Next message.Milli
}

// Falls notes that a message falls due at a time to come; at 0 none does.
func (t *Total) Falls(due message.Milli) {
	if due > 0 && (t.Next == 0 || due < t.Next) {
		t.Next = due
	}
}

// Waiting is how many messages wait, and how many of them are due. All messages that are held back are due: they were
// due when they were moved aside.
type Waiting struct {
	Count, Overdue int
	// Oldest is the earliest due time of a waiting message, or 0 if none waits. A message that NATS refused and that
	// nothing holds back is due at its next try. A message that is held back counts from its own due time, whenever it
	// is probed next.
	Oldest message.Milli
}

// Add adds the counts of another bucket.
func (t *Total) Add(other Total) {
	t.InFlight += other.InFlight
	t.Leased += other.Leased
	t.Dead += other.Dead
	t.Falls(other.Next)
	for i := range t.Waiting {
		w, o := &t.Waiting[i], other.Waiting[i]
		w.Add(o)
	}
}

// Add adds the messages that wait in another bucket under the same hold.
func (w *Waiting) Add(o Waiting) {
	w.Count += o.Count
	w.Overdue += o.Overdue
	if o.Oldest > 0 && (w.Oldest == 0 || o.Oldest < w.Oldest) {
		w.Oldest = o.Oldest
	}
}

// MaxOverdue is how many due messages of one order are counted by a store that has no index of them.
const MaxOverdue = 100_000

// TopicPage selects the topics of a page: the first ones by name after the last topic of the previous page. A store
// passes its topics to Meet in any order; a topic may be passed more than once.
type TopicPage struct {
	after string
	limit int
	names []string
	// last is the highest name on the page once it is full; later names are not on it.
	last string
	full bool
}

// NewTopicPage returns an empty page for up to limit topics, at least one.
func NewTopicPage(after string, limit int) *TopicPage {
	return &TopicPage{after: after, limit: max(limit, 1)}
}

// Meet adds a topic if it belongs on the page.
func (p *TopicPage) Meet(topic string) {
	if topic <= p.after || p.full && topic >= p.last {
		return
	}
	if p.names = append(p.names, topic); len(p.names) >= 2*p.limit {
		p.cut()
	}
}

// Topics returns the topics of the page, in order.
func (p *TopicPage) Topics() []string {
	p.cut()
	return p.names
}

// cut removes repeated names and names beyond the page.
func (p *TopicPage) cut() {
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	if len(p.names) >= p.limit {
		p.names = p.names[:p.limit]
		p.last, p.full = p.names[p.limit-1], true
	}
}

// Retried makes an item that returns a message after one try more say when the message is due again, or that it is
// dead: the schedule is over.
func (t *Topics) Retried(item *Settle, m *message.Info, now time.Time) {
	schedule := t.Schedule(&m.Retry, m.Topic)
	tries := int(m.Mark.Refusals) + 1
	delay, over := schedule.After(tries)
	if over {
		item.Verb, item.Kind = Bury, message.KindPlain
		item.Reason += After(tries - 1)
	}
	item.Number = message.CeilMilli(now.Add(delay))
}

// After returns the words for how often a message that is dead was tried again.
func After(retries int) string {
	if retries == 1 {
		return " after 1 retry"
	}
	return fmt.Sprintf(" after %d retries", retries)
}
