package scheduler

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Event is something that happened, for people and for what watches tarry. Lists and metrics have all of it; events may
// be lost, and many alike may be one.
type Event struct {
	At       message.Milli `json:"at"`
	Kind     EventKind     `json:"kind"`
	Instance string        `json:"instance"`
	UID      message.UID   `json:"uid,omitempty"` // of the message, as are the next three
	ID       string        `json:"id,omitempty"`
	Topic    string        `json:"topic,omitempty"` // or a pattern
	Key      string        `json:"key,omitempty"`
	N        int           `json:"n"` // how many were alike; the event describes the first
	Detail   string        `json:"detail,omitempty"`
}

// EventKind says what happened. The list is closed.
type EventKind string

// The kinds of events.
const (
	EventDead     EventKind = "dead"     // a message died
	EventExpired  EventKind = "expired"  // its time to live ended
	EventLate     EventKind = "late"     // it left on NATS more than LateEvent after it was due
	EventLapsed   EventKind = "lapsed"   // a consumer did not answer, and its lease ended
	EventRejected EventKind = "rejected" // a push by tag was refused
	EventParked   EventKind = "parked"   // messages are held back: nobody listens, or a stream takes nothing
	EventOpened   EventKind = "opened"   // and leave again
	EventLeader   EventKind = "leader"   // an instance leads, or no longer
	EventStore    EventKind = "store"    // the store does not answer, or does again
	EventJournal  EventKind = "journal"  // the journal likewise
	EventFilled   EventKind = "filled"   // a store that lacked messages was filled from the journal
	EventWebhook  EventKind = "webhook"  // a target fails, or answers again
	EventInstance EventKind = "instance" // an instance has come, or is gone, as the leader sees it
)

// EventKinds returns all kinds.
func EventKinds() []EventKind {
	return []EventKind{EventDead, EventExpired, EventLate, EventLapsed, EventRejected, EventParked, EventOpened,
		EventLeader, EventStore, EventJournal, EventFilled, EventWebhook, EventInstance}
}

const (
	// LateEvent is how late a message must leave for an event.
	LateEvent = time.Second
	// eventsKept is how many events an instance keeps, and eventAlike within what time those alike are one.
	eventsKept = 500
	eventAlike = 10 * time.Second
	// eventsQueued is how many events wait to be published.
	eventsQueued = 1000
	// maxEventDetail bounds a detail, in bytes.
	maxEventDetail = 200
)

// Events are what happened on an instance. Nobody waits for them: what finds no room is dropped and counted. A nil
// *Events takes none.
type Events struct {
	instance string
	now      func() message.Milli
	queue    chan Event // nil if nobody publishes them
	dropped  prometheus.Counter

	mu    sync.Mutex
	kept  []*Event // the oldest first
	alike map[alike]*Event
}

// alike is what events have in common that count as one: of a message its topic, and else all.
type alike struct {
	kind          EventKind
	topic, detail string
}

func (e *Event) like() alike {
	if e.UID != "" {
		return alike{e.Kind, e.Topic, ""}
	}
	return alike{e.Kind, e.Topic, e.Detail}
}

// NewEvents returns the events of an instance. Queue has them too if they are to be published.
func NewEvents(instance string, clock *Clock, reg prometheus.Registerer, publish bool) *Events {
	e := &Events{instance: instance, now: clock.Milli, alike: map[alike]*Event{},
		dropped: promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: "tarry_events_dropped_total",
			Help: "Events that were not published: too many waited, or NATS did not take them."})}
	if publish {
		e.queue = make(chan Event, eventsQueued)
	}
	return e
}

// Tell keeps an event and queues it to be published.
func (e *Events) Tell(event Event) {
	if e == nil {
		return
	}
	event.At, event.Instance, event.N = e.now(), e.instance, 1
	if len(event.Detail) > maxEventDetail {
		event.Detail = strings.ToValidUTF8(event.Detail[:maxEventDetail], "")
	}
	if e.queue != nil {
		select {
		case e.queue <- event:
		default:
			e.dropped.Inc()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := event.like()
	if first := e.alike[key]; first != nil && event.At < first.At.Add(eventAlike) {
		first.N++
		return
	}
	if len(e.kept) == eventsKept {
		if gone := e.kept[0]; e.alike[gone.like()] == gone {
			delete(e.alike, gone.like())
		}
		e.kept = append(e.kept[:0], e.kept[1:]...)
	}
	e.alike[key] = &event
	e.kept = append(e.kept, &event)
}

// Of tells an event about a message.
func (e *Events) Of(kind EventKind, m *message.Message, detail string) {
	e.Tell(Event{Kind: kind, UID: m.UID, ID: m.ID, Topic: m.Topic, Key: m.Key, Detail: detail})
}

// Last returns the events that are kept, the last one first.
func (e *Events) Last() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Event, 0, len(e.kept))
	for i := len(e.kept) - 1; i >= 0; i-- {
		all = append(all, *e.kept[i])
	}
	return all
}

// Queue returns the events that are to be published.
func (e *Events) Queue() <-chan Event { return e.queue }

// Dropped counts events that were not published.
func (e *Events) Dropped(n int) { e.dropped.Add(float64(n)) }
