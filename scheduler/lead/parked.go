package lead

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// HeldLanes lists the lanes that hold messages back, of pauses too, the most messages first. On the leader it leaves
// out lanes that are open again and only being emptied.
func (r *Leader) HeldLanes(ctx context.Context) (all []scheduler.HeldGroup, err error) {
	lanes, err := r.lanes(ctx)
	if err != nil {
		return nil, err
	}
	call, stop := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer stop()
	pauses, _, err := r.cfg.Timeline.Pauses(call)
	if err != nil {
		return nil, scheduler.Looked("list pauses", err)
	}
	for _, l := range lanes {
		if !r.holdsBack(l.Lane) {
			continue
		}
		g := scheduler.HeldGroup{Lane: l.Lane, Name: l.Lane.Name(), Count: l.Count, Oldest: l.Oldest, Why: r.Why(l.Lane, "")}
		if at := slices.IndexFunc(pauses, func(p scheduler.Pause) bool {
			return message.LanePaused.Lane(p.Pattern) == l.Lane
		}); at >= 0 {
			g.Why = pauses[at].Why(0)
		}
		all = append(all, g)
	}
	slices.SortStableFunc(all, func(x, y scheduler.HeldGroup) int { return y.Count - x.Count })
	return all, nil
}

// ParkedTopics returns why messages are held back, for those of the given topics that have such messages.
func (r *Leader) ParkedTopics(ctx context.Context, topics []string) (map[string]message.Why, error) {
	lanes, err := r.lanes(ctx)
	if err != nil || len(lanes) == 0 {
		return nil, err
	}
	stands := func(name message.Lane) bool {
		_, found := slices.BinarySearchFunc(lanes, name, place)
		return found
	}
	ctx, stop := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer stop()
	pauses, _, err := r.cfg.Timeline.Pauses(ctx)
	if err != nil {
		return nil, scheduler.Looked("list pauses", err)
	}
	pauses = slices.DeleteFunc(slices.Clone(pauses), func(p scheduler.Pause) bool {
		return !stands(message.LanePaused.Lane(p.Pattern))
	})
	parked := map[string]message.Why{}
	for _, topic := range topics {
		if p := scheduler.PauseOf(pauses, topic); p != nil {
			parked[topic] = p.Why(0)
			continue
		}
		for _, name := range r.lanesOf(topic) {
			if stands(name) && r.holdsBack(name) {
				parked[topic] = r.Why(name, topic)
				break
			}
		}
	}
	return parked, nil
}

// lanes returns the lanes of all buckets that hold messages, by name.
func (r *Leader) lanes(ctx context.Context) (lanes []scheduler.LaneCount, err error) {
	if r.cfg.Admit != nil {
		if err := r.cfg.Admit(); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer stop()
	for bucket := range r.cfg.Timeline.Buckets() {
		some, err := r.cfg.Timeline.Lanes(ctx, bucket)
		if err != nil {
			return nil, scheduler.Looked("list lanes", err)
		}
		for _, l := range some {
			at, found := slices.BinarySearchFunc(lanes, l.Lane, place)
			if !found {
				lanes = slices.Insert(lanes, at, scheduler.LaneCount{Lane: l.Lane, Oldest: l.Oldest})
			}
			lanes[at].Count += l.Count
			lanes[at].Oldest = min(lanes[at].Oldest, l.Oldest)
		}
	}
	return lanes, nil
}

// place compares a lane with a name.
func place(l scheduler.LaneCount, name message.Lane) int { return cmp.Compare(l.Lane, name) }

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
