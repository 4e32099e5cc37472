package app

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The leader, the scheduler, the webhooks and the other instances tell each other what begins earlier, so none of them
// can be built last. What they call are the methods here. They call nothing before Run, when all parts are there.

// hasten informs the leader, waiting consumers and webhooks of orders that begin earlier.
func (a *App) hasten(bucket message.Bucket, earlier []scheduler.Earlier) {
	a.scheduler.Hasten(bucket, earlier)
}

// heard informs the leader of what another instance has announced.
func (a *App) heard(bucket message.Bucket, due message.Milli) { a.leader.Nudge(bucket, due) }

// heardTopic informs consumers and webhooks of what another instance has announced.
func (a *App) heardTopic(topic string, due message.Milli) {
	a.scheduler.Hear(topic, due)
	a.webhooks.Heard(topic, due)
}

// announce informs the leader, this instance or another, that a bucket's head came earlier.
func (a *App) announce(bucket message.Bucket, due message.Milli) {
	if !a.leader.Nudge(bucket, due) {
		a.nudge.Announce(bucket, due)
	}
}

// announcePull informs webhooks, here and on other instances, and consumers there.
func (a *App) announcePull(topic string, due message.Milli) {
	a.webhooks.Heard(topic, due)
	a.nudge.AnnounceTopic(topic, due)
}

// askPauses makes the leader, this instance or another, read the pauses.
func (a *App) askPauses(ctx context.Context) error {
	if leads, err := a.leader.ReadPauses(ctx); leads {
		return err
	}
	return a.pauses.Ask(ctx)
}

// led returns an error if nobody leads, or that is not known. ZooKeeper is asked at most once a second.
func (a *App) led(ctx context.Context) error {
	a.ledAt.Lock()
	defer a.ledAt.Unlock()
	if time.Since(a.ledAt.read) > time.Second {
		_, led, err := a.race.Leader(ctx)
		if err == nil && !led {
			err = ops.ErrNoLeader
		}
		a.ledAt.err, a.ledAt.read = err, time.Now()
	}
	return a.ledAt.err
}
