package steer

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Explain says why a message that Get returned is where it is. lane knows why messages wait in a lane, and led returns
// an error if nobody leads or that is not known. What the store does not answer is left out.
func (s *Scheduler) Explain(ctx context.Context, i *message.Info, lane func(message.Lane, string) message.Why,
	led func(context.Context) error) {
	now := s.cfg.Clock.Milli()
	why := message.Why{Next: i.Due}
	say := func(word message.WhyWord, detail string, more ...any) {
		why.Word, why.Detail = word, fmt.Sprintf(detail, more...)
	}
	tries := i.Tries()
	over := cmp.Or(i.Expires, i.Due.Add(i.TTL))
	switch due := i.Due <= now; {
	case i.State.Ended():
		why = i.WhyEnded()
	case i.Held != nil && i.Held.Until <= now:
		why.Since, why.Next, why.By = i.Held.Until, 0, i.Held.Consumer
		if err := led(ctx); err != nil {
			say(message.WhyNoLeader, "its lease is over, and it waits for a leader: %v", err)
		} else {
			say(message.WhyTurn, "its lease is over, and the leader takes it back next")
		}
	case i.Held != nil:
		why.Since, why.Next, why.By = i.Held.Since, i.Held.Until, i.Held.Consumer
		say(message.WhyLeased, "a consumer has it, until %s at the latest", timeText(why.Next))
	case i.State == message.StateInFlight:
		why.Since, why.Next = i.ClaimedAt, 0
		say(message.WhyPublishing, "it was handed to NATS, which has not acknowledged it")
	case i.Mark.Lane != "":
		why = lane(i.Mark.Lane, i.Topic)
		if p := s.pausing(ctx, i.Topic); p != nil && why.Word == message.WhyPaused {
			why = p.Why(i.Due)
		}
	case i.TTL > 0 && over <= now:
		why.Since = over
		say(message.WhyExpiring, "its time to live is over, and the leader ends it next")
	case !due && s.cfg.Clock.Disputes(i.Due):
		say(message.WhyClocks, "the clocks disagree: it is due by one of them, and not by the one that decides")
	case !due && tries > 0:
		say(message.WhyRetry, "it was tried, and waits for try %d%s", tries+1, s.ahead(ctx, i.Topic))
	case !due:
		say(message.WhyNotDue, "it is not due yet%s", s.ahead(ctx, i.Topic))
	case i.Pull:
		why.Since, why.Next = i.Due, 0
		s.explainReady(ctx, i, &why, say)
	default:
		why.Since, why.Next = i.Due, 0
		if err := led(ctx); err != nil {
			say(message.WhyNoLeader, "it is due, and waits for a leader: %v", err)
		} else {
			say(message.WhyTurn, "it is due, and the leader takes it next")
		}
	}
	i.Why = why
}

func (s *Scheduler) explainReady(ctx context.Context, i *message.Info, why *message.Why,
	say func(word message.WhyWord, detail string, more ...any)) {
	topic := s.cfg.Topics.Of(i.Topic)
	say(message.WhyUnpulled, "it is ready, and no consumer has pulled it")
	if tries := i.Tries(); tries > 0 {
		say(message.WhyUnpulled, "it is ready, and no consumer has pulled it since try %d failed", tries)
	}
	if topic != nil && topic.Webhook {
		say(message.WhyWebhook,
			"it is ready, and an instance that may post there (webhook.allow) does when the target has room")
	}
	if p := s.pausing(ctx, i.Topic); p != nil {
		*why = p.Why(i.Due)
		return
	}
	if i.Serial {
		behind, by, err := s.cfg.Timeline.Behind(ctx, i.UID, i.Topic, i.Key)
		if err == nil && behind {
			why.By = string(by)
			say(message.WhyBehindKey, "another message of its key comes first")
		}
	}
}

// ahead says what will hold a topic's messages back once they are due, if it does so already.
func (s *Scheduler) ahead(ctx context.Context, topic string) string {
	if p := s.pausing(ctx, topic); p != nil {
		return "; " + p.Pattern + " is paused, and will hold it back"
	}
	return ""
}

// pausing returns the pause that holds a topic back, or nil if none is known to.
func (s *Scheduler) pausing(ctx context.Context, topic string) *scheduler.Pause {
	list, _, err := s.cfg.Timeline.Pauses(ctx) // what is known may be old: nothing leased by it
	if err != nil {
		return nil
	}
	return scheduler.PauseOf(list, topic)
}

func timeText(at message.Milli) string { return at.Time().UTC().Format("2006-01-02T15:04:05.000Z") }
