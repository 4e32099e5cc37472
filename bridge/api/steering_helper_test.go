package api_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// steering is the part of a scheduler that steers: it answers as a test sets it and keeps the requests.
type steering struct {
	mu    sync.Mutex
	asked []any

	err     error
	begun   func() // is called as an edit is asked for
	amend   scheduler.AmendResult
	report  scheduler.Report
	many    func(ctx context.Context, progress func(scheduler.Report)) // what an operation on many does before it ends
	one     func(ref scheduler.Ref) error                              // of requeues and purges
	dead    []message.Info
	next    string
	counts  []scheduler.TopicCount
	pauses  []scheduler.Pause
	parked  map[string]string // by topic
	unheard bool              // the leader takes no pause over
	was     bool              // what is resumed was paused
	part    bool              // not all topics were looked at
}

type (
	rescheduleAsked struct {
		ref  scheduler.Ref
		edit scheduler.Edit
	}
	manyAsked struct {
		what string
		sel  scheduler.Selection
		edit scheduler.Edit
		how  scheduler.Requeue
	}
	deadAsked struct {
		topic, cursor string
		limit         int
	}
	oneAsked struct {
		what string
		ref  scheduler.Ref
		how  scheduler.Requeue
	}
	countAsked  string
	countsAsked struct {
		after string
		limit int
	}
	pauseAsked struct{ pattern, by string }
)

func (s *steering) note(what any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
}

// take is what was asked since the last time.
func (s *steering) take() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *steering) Reschedule(_ context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error) {
	e.Fit = nil // tests of its own
	if s.begun != nil {
		s.begun()
	}
	s.note(rescheduleAsked{ref, e})
	return s.amend, s.err
}

func (s *steering) run(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
	if s.many != nil {
		s.many(ctx, progress)
	}
	return s.report, s.err
}

func (s *steering) CancelMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	s.note(manyAsked{what: "cancel", sel: sel})
	return s.run(ctx, progress)
}

func (s *steering) RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	s.note(manyAsked{what: "reschedule", sel: sel, edit: e})
	return s.run(ctx, progress)
}

func (s *steering) RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	r.Fit = nil
	s.note(manyAsked{what: "requeue", sel: sel, how: r})
	return s.run(ctx, progress)
}

func (s *steering) PurgeMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	s.note(manyAsked{what: "purge", sel: sel})
	return s.run(ctx, progress)
}

func (s *steering) Listed(_ context.Context, q scheduler.Listing, cursor string, limit, _ int) ([]message.Info, string,
	int, error) {
	s.note(deadAsked{q.Topic, cursor, limit})
	return s.dead, s.next, len(s.dead), s.err
}

func (s *steering) RequeueOne(_ context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error) {
	r.Fit = nil
	s.note(oneAsked{"requeue", ref, r})
	a := scheduler.Accepted{ID: ref.ID, UID: uidC, Due: later, State: message.StateWaiting, Version: 1}
	if s.one != nil {
		if err := s.one(ref); err != nil {
			return a, err
		}
	}
	return a, s.err
}

func (s *steering) PurgeOne(_ context.Context, ref scheduler.Ref) error {
	s.note(oneAsked{what: "purge", ref: ref})
	if s.one != nil {
		return s.one(ref)
	}
	return s.err
}

func (s *steering) TopicCount(_ context.Context, topic string) (scheduler.TopicCount, error) {
	s.note(countAsked(topic))
	for _, c := range s.counts {
		if c.Topic == topic {
			return c, s.err
		}
	}
	return scheduler.TopicCount{Topic: topic}, s.err
}

// Outlook goes by the number of the step.
func (s *steering) Outlook(_ context.Context, q scheduler.OutlookQuery) (*scheduler.Outlook, error) {
	s.note(q)
	o := &scheduler.Outlook{Source: "store", Steps: make([]scheduler.Fall, len(q.Times)-1)}
	for i := range o.Steps {
		o.Steps[i] = scheduler.Fall{From: q.Times[i], Count: i}
		if q.By != "" {
			o.Steps[i].Groups, o.Steps[i].Others = []int{i}, i
			o.Steps[i].Behind = []scheduler.Behind{{Name: "a.>", Left: i, LateMS: 1000}}
		}
	}
	if q.Topic == "" {
		o.Overdue, o.Held = new(7), map[string]int{"paused": 7}
	}
	if q.By != "" {
		o.Groups = []string{"a"}
	}
	if q.By != "" || q.Topic != "" {
		o.Sample = &scheduler.SampleSize{Read: 4, Of: 5}
	}
	return o, s.err
}

// TopicCounts goes by what counts holds, which stands by name.
func (s *steering) TopicCounts(_ context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	s.note(countsAsked{after, limit})
	rest := slices.DeleteFunc(slices.Clone(s.counts), func(c scheduler.TopicCount) bool { return c.Topic <= after })
	return rest[:min(limit, len(rest))], s.err
}

func (s *steering) Pauses(context.Context) ([]scheduler.Pause, error) { return s.pauses, s.err }

func (s *steering) HeldLanes(context.Context) (all []scheduler.HeldGroup, err error) {
	for _, topic := range slices.Sorted(maps.Keys(s.parked)) {
		all = append(all, scheduler.HeldGroup{Lane: message.LaneCore.Lane(topic), Name: topic, Count: 3, Oldest: 1000,
			Why: message.Why{Word: message.WhyNoListener, Detail: s.parked[topic], Next: 2000}})
	}
	return all, s.err
}

// ReadyTopics goes by what counts holds.
func (s *steering) ReadyTopics(context.Context, int) (groups []scheduler.HeldGroup, whole bool, err error) {
	for _, c := range s.counts {
		if c.Ready > 0 {
			groups = append(groups, scheduler.HeldGroup{Name: c.Topic, Count: c.Ready,
				Why: message.Why{Word: message.WhyUnpulled, Detail: "ready", Since: 3000, By: "ann"}})
		}
	}
	return groups, !s.part, s.err
}

func (s *steering) ParkedTopics(context.Context, []string) (map[string]message.Why, error) {
	parked := map[string]message.Why{}
	for topic, why := range s.parked {
		parked[topic] = message.Why{Word: message.WhyNoListener, Detail: why}
	}
	return parked, s.err
}

func (s *steering) Pause(_ context.Context, pattern, by string) (bool, error) {
	s.note(pauseAsked{pattern, by})
	return !s.unheard, s.err
}

func (s *steering) Resume(_ context.Context, pattern string) (was, inEffect bool, err error) {
	s.note(pattern)
	return s.was, !s.unheard, s.err
}

// steered opens a door with this steering, at a moment that stands still.
func steered(s *steering) func(*api.Config) {
	return func(c *api.Config) { c.Service, c.Now = service{steering: s}, func() time.Time { return noon } }
}

func acceptMerged(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	all := make([]scheduler.Accepted, len(batch))
	for i := range all {
		all[i] = scheduler.Accepted{ID: "a", UID: uidB, Due: later, State: message.StateWaiting,
			Version: 2, Merged: true}
	}
	return all
}
