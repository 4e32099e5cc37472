package lead

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// ParkedLanes lists the lanes that hold messages back, by name. On the leader it leaves out lanes that are open again
// and only being emptied.
func (r *Leader) ParkedLanes(ctx context.Context) ([]scheduler.Parked, error) {
	lanes, err := r.HeldLanes(ctx, math.MaxInt)
	parked := make([]scheduler.Parked, len(lanes))
	for i, l := range lanes {
		parked[i] = scheduler.Parked{Lane: l.Lane, Why: l.Why.Detail}
	}
	return parked, err
}

// HeldLane is a lane that holds messages back, and why.
type HeldLane struct {
	Lane message.Lane
	Why  message.Why
}

// HeldLanes returns the first lanes that hold messages back, of pauses too, by name.
func (r *Leader) HeldLanes(ctx context.Context, limit int) (all []HeldLane, err error) {
	names, err := r.lanes(ctx)
	if err != nil {
		return nil, err
	}
	call, stop := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer stop()
	pauses, _, err := r.cfg.Timeline.Pauses(call)
	if err != nil {
		return nil, scheduler.Looked("list pauses", err)
	}
	for _, name := range names {
		if len(all) == limit {
			break
		}
		why := r.Why(name, "")
		if at := slices.IndexFunc(pauses, func(p scheduler.Pause) bool {
			return message.LanePaused.Lane(p.Pattern) == name
		}); at >= 0 {
			why = pauses[at].Why(0)
		}
		if r.holdsBack(name) {
			all = append(all, HeldLane{name, why})
		}
	}
	return all, nil
}

// ParkedTopics returns why messages are held back, for those of the given topics that have such messages.
func (r *Leader) ParkedTopics(ctx context.Context, topics []string) (map[string]message.Why, error) {
	names, err := r.lanes(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer stop()
	pauses, _, err := r.cfg.Timeline.Pauses(ctx)
	if err != nil {
		return nil, scheduler.Looked("list pauses", err)
	}
	pauses = slices.DeleteFunc(slices.Clone(pauses), func(p scheduler.Pause) bool {
		return !slices.Contains(names, message.LanePaused.Lane(p.Pattern))
	})
	parked := map[string]message.Why{}
	for _, topic := range topics {
		if p := scheduler.PauseOf(pauses, topic); p != nil {
			parked[topic] = p.Why(0)
			continue
		}
		for _, name := range r.lanesOf(topic) {
			if _, stands := slices.BinarySearch(names, name); stands && r.holdsBack(name) {
				parked[topic] = r.Why(name, topic)
				break
			}
		}
	}
	return parked, nil
}

// lanes returns the sorted names of all lanes that hold messages.
func (r *Leader) lanes(ctx context.Context) ([]message.Lane, error) {
	if r.cfg.Admit != nil {
		if err := r.cfg.Admit(); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer stop()
	var names []message.Lane
	for bucket := range r.cfg.Timeline.Buckets() {
		some, err := r.cfg.Timeline.Lanes(ctx, bucket)
		if err != nil {
			return nil, scheduler.Looked("list lanes", err)
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// lanesOf returns the lanes in which messages of a topic may wait, except those of pauses.
func (r *Leader) lanesOf(topic string) []message.Lane {
	m := message.Message{Topic: topic}
	names := []message.Lane{r.cfg.Publisher.Lane(&m)}
	t := r.cfg.Topics.Of(topic)
	if t == nil {
		return names
	}
	for n := range t.Partitions {
		names = append(names, message.LaneCore.Lane(fmt.Sprintf("%s.%d", topic, n)))
	}
	return append(names, message.LaneRate.Lane(t.Pattern), message.LaneLate.Lane(t.Pattern))
}

// holdsBack reports whether a lane holds its messages back. Only the leader knows that a lane is open.
func (r *Leader) holdsBack(name message.Lane) bool {
	l := r.leading.Load()
	if l == nil || !name.Destination() {
		return true
	}
	return l.lanes.parked(name) != ""
}

// Why returns why messages wait in a lane and when they are tried again. topic is the topic of the message in
// question, or empty. The leader knows when the next try is; the other instances know the longest wait between two
// tries.
func (r *Leader) Why(name message.Lane, topic string) message.Why {
	say := func(word message.WhyWord, detail string, more ...any) message.Why {
		return message.Why{Word: word, Detail: fmt.Sprintf(detail, more...), By: name.Name()}
	}
	switch name.Kind() {
	case message.LanePaused:
		return (&scheduler.Pause{Pattern: name.Name()}).Why(0)
	case message.LaneRate:
		return say(message.WhyRate, "held back by the rate limit of %s", name.Name())
	case message.LaneLate:
		return say(message.WhyCatchUp, "held back by the catch-up rate limit of %s", name.Name())
	}
	next, at := "within "+lastBackoff.String(), message.Milli(0)
	state := laneState{parked: true, gone: name.Kind() == message.LaneCore || name == sharedLane}
	if l := r.leading.Load(); l != nil && name != sharedLane {
		state = l.lanes.state(name, time.Now())
		switch {
		case !state.parked:
			return say(message.WhyTurn, "%s accepts messages again; the message is on its way", destination(name))
		case state.wait > 0:
			next = fmt.Sprintf("in %d s", (state.wait+time.Second-1)/time.Second)
			at = r.cfg.Clock.Milli().Add(state.wait)
		default:
			next = "now"
		}
	}
	why := message.Why{}
	switch {
	case name == sharedLane && topic != "":
		why = say(message.WhyNoListener, "nobody listens on %s; next try %s", topic, next)
		why.By = topic
	case name == sharedLane:
		why = say(message.WhyNoListener, "nobody listens on subjects beyond the first %d of that kind; each is tried "+
			"again %s", maxCoreLanes, next)
	case state.gone:
		why = say(message.WhyNoListener, "nobody listens on %s; next try %s", name.Name(), next)
	case state.why != "":
		why = say(message.WhyStream, "%s is not accepting messages (%s); next try %s", destination(name), state.why, next)
	default:
		why = say(message.WhyStream, "%s is not accepting messages; next try %s", destination(name), next)
	}
	why.Next = at
	return why
}

// destination describes where the messages of a lane are sent, in words.
func destination(lane message.Lane) string {
	if lane.Kind() == message.LaneStream {
		return "stream " + lane.Name()
	}
	return lane.Name()
}
