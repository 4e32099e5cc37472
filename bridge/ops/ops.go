package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Config configures Ops. Where a field says so, its zero value means a default.
type Config struct {
	Service Service
	Cluster Election
	// Journal answers what needs the journal. If nil, the journal is off, and that is answered with 501 needs_journal.
	Journal Journal
	// Rejects are the pushes by tag that were refused. If nil, what asks for them is answered with 501 needs_jetstream.
	Rejects Rejects
	// Intake finds pushes that no instance has accepted; nil for none.
	Intake interface {
		Look(ctx context.Context, q WhyQuery) ([]WhyPush, []WhyPlace)
	}
	// Settings are those of topics; nil for none.
	Settings *scheduler.Topics
	// Webhooks tells how the targets of webhooks do; nil for none.
	Webhooks func() []Webhook
	// JournalMode is the journal's mode as in the settings, off, async or sync, for cluster. If empty, cluster omits it.
	JournalMode string
	// Checks returns everything that the instance needs, with the reasons of failures, for cluster.
	Checks func(ctx context.Context) []Check
	// Overview reads how all does, its conditions the worst first.
	Overview func(ctx context.Context) Overview
	// Hour reads how the last hour went on all instances.
	Hour func(ctx context.Context) (Hour, error)
	// Events and Actions read what happened on all instances, and what operators did there, the last first, and which
	// instances did not answer.
	Events  func(ctx context.Context) (all []scheduler.Event, missing []string, err error)
	Actions func(ctx context.Context) (all []record.Action, missing []string, err error)
	// Details reads what the instances that answer tell of themselves, by name.
	Details func(ctx context.Context) (map[string]*InstanceDetail, error)
	// Act takes what an operator did; nil for nobody.
	Act func(record.Action)
	// Clocks returns an error while no majority of clocks votes, for cluster. nil returns none.
	Clocks func() error

	Namespace string
	// Instance and Version name the instance and its binary, for callers.
	Instance, Version string
	// Prefix is the first part of the intake's subjects, under which no topic may lie.
	Prefix string
	// Durable is the durability that the answer to a push promises.
	Durable string
	// MaxPayload returns NATS's size limit for a message, headers included, or 0 while it is unknown.
	MaxPayload func() int64
	// SizeLimit bounds body and headers of a message, in addition to NATS's limit, and HoldLimit the bodies that one
	// request holds.
	SizeLimit int
	HoldLimit int64
	// Hold takes bytes of what the bodies of all callers may take together, or gives them back if negative, which cannot
	// fail. nil bounds nothing.
	Hold func(holder string, bytes int64) error
	// Timeout bounds the work on a request that is not long.
	Timeout time.Duration
	// Now is the clock that "2h ago" and forecasts count from.
	Now func() time.Time
	Log zerolog.Logger
}

// Ops does the operations.
type Ops struct {
	Config
	whys chan struct{} // room for requests that look everywhere

	outlooks kept[*scheduler.Outlook]
	groups   kept[*HeldList]
	causes   kept[*DeadGroups]
	waits    kept[stored]
	hours    kept[*Hour]
	events   kept[EventList]
	actions  kept[ActionList]
	details  kept[map[string]*InstanceDetail]

	restoring, verifying, redelivering           exclusive
	canceling, rescheduling, requeueing, purging exclusive
}

// New returns Ops. Every field of cfg must be set where it does not say otherwise.
func New(cfg Config) *Ops {
	return &Ops{Config: cfg, whys: make(chan struct{}, 2),
		restoring: newExclusive("restore", 1), verifying: newExclusive("verify", 1),
		redelivering: newExclusive("redeliver", 1), canceling: newExclusive("cancel of many", manyAtOnce),
		rescheduling: newExclusive("reschedule of many", manyAtOnce),
		requeueing:   newExclusive("requeue of many", manyAtOnce), purging: newExclusive("purge of many", manyAtOnce),
	}
}

// Table returns all operations but those that push, whose requests have readers of their own.
func (o *Ops) Table() []*Operation {
	return append(o.settling(),
		op("get", "api", "GET /v1/messages/{id}", RightLook, "a look-up", o.get),
		op("cancel", "api", "DELETE /v1/messages/{id}", RightChange, "a look-up", o.cancel),
		op("reschedule", "api", "PATCH /v1/messages/{id}", RightChange, "a reschedule", o.reschedule),
		op("run", "api", "POST /v1/messages/{id}/run", RightChange, "a run", o.run),
		op("", "", "POST /v1/messages/{id}/release", RightOperate, "a release", o.release),
		op("cancel_many", "api", "POST /v1/messages/cancel", RightOperate, "a selection", o.cancelMany).long(),
		op("reschedule_many", "api", "POST /v1/messages/reschedule", RightOperate, "a reschedule of many",
			o.rescheduleMany).long(),
		op("dead", "read", "GET /v1/dead", RightRead, "a list", o.dead).asks("store"),
		op("dead_groups", "read", "GET /v1/dead/groups", RightRead, "what messages died of", o.deadGroups).asks("store"),
		op("dead_requeue", "api admin", "POST /v1/dead/requeue", RightOperate, "a requeue", o.requeue).long(),
		op("dead_purge", "admin", "POST /v1/dead/purge", RightOperate, "a purge", o.purge).long(),

		op("topics", "read", "GET /v1/topics", RightRead, "a list", o.topics).asks("store"),
		op("topic", "read", "GET /v1/topics/{topic}", RightRead, "a look-up", o.topic).asks("store"),
		op("pause", "admin", "POST /v1/topics/{topic}/pause", RightOperate, "a pause or a resume", o.pause),
		op("resume", "admin", "POST /v1/topics/{topic}/resume", RightOperate, "a pause or a resume", o.resume),
		op("", "", "GET /v1/topics/{topic}/leases", RightRead, "a list", o.leases).asks("store"),

		op("list", "read", "GET /v1/messages", RightRead, "a list", o.list).asks("store"),
		op("history", "read", "GET /v1/messages/{id}/history", RightLook, "a look-up",
			o.history).asks("journal").needs(o.Journaled),
		op("held", "read", "GET /v1/held", RightRead, "what is held back", o.held).asks("store"),
		op("forecast", "read", "GET /v1/forecast", RightRead, "a forecast", o.forecast).asks("store"),
		op("restore_one", "admin", "POST /v1/messages/{id}/restore", RightOperate, "the restore of one message",
			o.restoreOne).long().needs(o.Journaled),
		op("restore", "admin", "POST /v1/restore", RightOperate, "a restore", o.restore).long().needs(o.Journaled),
		op("verify", "admin", "POST /v1/verify", RightOperate, "a verify", o.verify).long().needs(o.Journaled),
		op("redeliver", "admin", "POST /v1/redeliver", RightOperate, "a redeliver", o.redeliver).long().needs(o.Journaled),

		op("rejects", "read", "GET /v1/rejects", RightLook, "a list", o.rejects).asks("store").needs(o.rejecting),
		op("reject", "read", "GET /v1/rejects/{sequence}", RightRead, "a look-up",
			o.reject).asks("store").needs(o.rejecting),
		op("rejects_requeue", "admin", "POST /v1/rejects/requeue", RightRequeue, "a requeue of rejects",
			o.requeueRejects).needs(o.rejecting),

		op("why", "read", "GET /v1/why", RightLook, "a look-up", o.why),
		op("", "", "GET /v1/me", RightNone, "a look-up", o.me),
		op("overview", "read", "GET /v1/overview", RightRead, "a look-up", o.overview),
		op("", "", "GET /v1/series", RightRead, "how the last hour went", o.series).asks("election"),
		op("events", "read", "GET /v1/events", RightRead, "a list", o.eventsOf).asks("election"),
		op("actions", "read", "GET /v1/actions", RightRead, "a list", o.actionsOf).asks("election"),
		op("cluster", "read", "GET /v1/cluster", RightRead, "a look-up", o.cluster),
		op("resign", "admin", "POST /v1/cluster/resign", RightOperate, "a resign", o.resign),
		op("forget", "admin", "DELETE /v1/cluster/instances/{instance}", RightOperate, "a forget", o.forget),

		op("", "", "POST /v1/topics/{topic}/pull", RightPull, "a pull", o.pull),
		op("", "", "POST /v1/pull", RightPull, "a pull", o.pullAny),
	)
}

// Journaled refuses what only the journal answers while there is none.
func (o *Ops) Journaled() error {
	if o.Journal == nil {
		return Refuse(http.StatusNotImplemented, WordNeedsJournal,
			"the journal is off; this needs journal.mode async or sync")
	}
	return nil
}

// rejecting refuses what asks for rejects while none are kept.
func (o *Ops) rejecting() error {
	if o.Rejects == nil {
		return ErrNoRejects
	}
	return nil
}

// Limits returns the limits of a push: the configured one and NATS's own.
func (o *Ops) Limits() Limits { return Limits{Content: o.SizeLimit, Payload: o.MaxPayload()} }
