package ops

import (
	"context"
	"net/http"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// topics lists the topics that have messages, in the order of their names, with the numbers of their messages.
func (o *Ops) topics(ctx context.Context, _ *Caller, in *Page) (*Topics, error) {
	after, err := in.open(listTopics, "")
	if err != nil {
		return nil, err
	}
	a := &Topics{Topics: []TopicRow{}, Paused: []scheduler.Pause{}}
	if o.Webhooks != nil {
		a.Webhooks = o.Webhooks()
	}
	limit := in.limit()
	// one more shows that there is a next page
	counts, err := o.Service.TopicCounts(ctx, after, limit+1)
	if err != nil {
		return nil, err
	}
	if len(counts) > limit {
		counts = counts[:limit]
		a.Cursor = seal(listTopics, "", counts[limit-1].Topic)
	}
	names := make([]string, len(counts))
	for i := range counts {
		names[i] = counts[i].Topic
	}
	parked, err := o.Service.ParkedTopics(ctx, names)
	if err != nil {
		return nil, err
	}
	pauses, err := o.Service.Pauses(ctx)
	a.Paused = append(a.Paused, pauses...)
	for i := range counts {
		topic := counts[i].Topic
		a.Topics = append(a.Topics, TopicRow{TopicCount{counts[i], parked[topic], o.settingsOf(topic)},
			pausing(pauses, topic)})
	}
	return a, err
}

// pausing returns the pause of a topic: its own, or else the first that matches, or nil.
func pausing(pauses []scheduler.Pause, topic string) *scheduler.Pause {
	own := slices.IndexFunc(pauses, func(p scheduler.Pause) bool { return p.Pattern == topic })
	if own >= 0 {
		return &pauses[own]
	}
	return scheduler.PauseOf(pauses, topic)
}

// OneTopic names a topic.
type OneTopic struct {
	Topic string `json:"topic" as:"one topic"`
}

// topic counts the messages of one topic. A topic without messages has zero counts; it is not an unknown topic.
func (o *Ops) topic(ctx context.Context, _ *Caller, in *OneTopic) (*TopicCounts, error) {
	count, err := o.Service.TopicCount(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	parked, err := o.Service.ParkedTopics(ctx, []string{in.Topic})
	if err != nil {
		return nil, err
	}
	a := &TopicCounts{TopicCount: TopicCount{TopicCount: count, Why: parked[in.Topic],
		Settings: o.settingsOf(in.Topic)}}
	pauses, err := o.Service.Pauses(ctx)
	a.Paused = pausing(pauses, in.Topic)
	return a, err
}

// Pattern names topics.
type Pattern struct {
	Topic string `json:"topic" as:"pattern"`
}

// pause holds back the due messages of topics that match a pattern. Pausing again replaces who paused it and since
// when.
func (o *Ops) pause(ctx context.Context, by *Caller, in *Pattern) (*Paused, error) {
	o.Begin(ctx, by.Audit("pause", false).Str("topic", in.Topic))
	inEffect, err := o.Service.Pause(ctx, in.Topic, by.who())
	return &Paused{Pattern: in.Topic, Paused: true, By: by.who(), InEffect: inEffect}, err
}

// resume ends the pause of exactly this pattern.
func (o *Ops) resume(ctx context.Context, by *Caller, in *Pattern) (*Paused, error) {
	o.Begin(ctx, by.Audit("resume", false).Str("topic", in.Topic))
	found, inEffect, err := o.Service.Resume(ctx, in.Topic)
	if err == nil && !found {
		err = Refuse(http.StatusNotFound, WordNotPaused,
			"%.300q is not paused; a resume needs the pattern exactly as it was paused", in.Topic)
	}
	return &Paused{Pattern: in.Topic, InEffect: inEffect}, err
}
