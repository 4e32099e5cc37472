package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// world is everything that a server asks, as one test wants it.
type world struct {
	steering *steering
	pullers  pullers
	journal  *journal
	cluster  *cluster
	rejects  *rejects
	accepted scheduler.Accepted
	info     message.Info
	canceled scheduler.CancelResult
	getErr   error
	ready    []api.Check
	clocks   error
	panics   bool
	nothing  bool // is to be told of how all does
}

// full has something in every field of every answer.
func full() *world {
	info := message.Info{
		Message: message.Message{
			UID: uidA, ID: "a", Key: "k", Topic: "orders.remind", Due: later, Priority: 7, TTL: time.Minute, Attempt: 2,
			Retry:   message.Retry{Delays: []time.Duration{0, time.Minute}, Jitter: 20},
			Headers: []message.Header{{Name: "X", Value: "1"}},
			Body:    []byte("hello"), Mark: message.Mark{Uncertain: true, Refusals: 3, Lane: "ORDERS",
				Try: message.Try{At: later, Consumer: "worker", How: "sent back: no till"}},
		},
		State: message.StateDead, Version: 4, EndedAt: later, Reason: "no permission", IntakeUnknown: true, Bare: true,
		Why: message.Why{Word: message.WhyStream, Detail: "full", Since: later, Next: later, By: "ORDERS"},
	}
	report := scheduler.Report{Looked: 9, Matched: 8, Done: 3, InFlight: 2, Maybe: 1, Ended: 1, Failed: 1,
		IntakeUnknown: true}
	return &world{
		accepted: scheduler.Accepted{ID: "a", UID: uidA, Due: later, State: message.StateWaiting, Version: 1},
		info:     info,
		canceled: scheduler.CancelResult{Code: scheduler.CancelDone, Info: info},
		pullers: pullers{
			found: []scheduler.PulledMessage{{LeasedMessage: scheduler.LeasedMessage{Message: &info.Message, Until: later},
				Nonce: 1}},
			settled: scheduler.Settled{Code: scheduler.SettleAgain, Until: later,
				Info: message.Info{Message: info.Message, State: message.StateWaiting, Version: 4}},
		},
		steering: &steering{
			amend: scheduler.AmendResult{Code: scheduler.AmendDone, Info: info}, report: report,
			dead: []message.Info{info}, next: "1:" + string(uidA),
			counts: []scheduler.TopicCount{{Topic: "a", Waiting: 1, InFlight: 2, Dead: 3}, {Topic: "orders.x"}},
			pauses: []scheduler.Pause{{Pattern: "orders.>", By: "10.0.0.1", At: later}}, was: true,
		},
		journal: &journal{
			records: []record.Record{{Info: info}, {Info: info}},
			changes: []record.Change{
				{Version: 1, State: message.StateWaiting, At: later, Bucket: 3, Instance: "t1",
					Address: "10.0.0.1:7070"},
				{Version: 2, State: message.StateDelivered, At: later, Due: later,
					Instance: "t1", Address: "10.0.0.1:7070", Term: 4, Attempt: 1, Claimed: later, Reason: "why",
					Stream: "ORDERS", Sequence: 7},
			},
			forecasts: []record.Forecast{{From: message.CeilMilli(noon), Count: 5}, {From: 1, Count: 2}},
			lag:       record.Lag{Changes: 3, Bytes: 400, Oldest: later, Quarantined: 2},
			verify: func(_ context.Context, progress func(record.VerifyReport)) (record.VerifyReport, error) {
				apart := record.Quarantined{Bucket: 1, ID: "1-0", At: later, Reason: "why",
					UIDs: []message.UID{uidA}}
				return record.VerifyReport{Quarantined: []record.Quarantined{apart}, Refused: []scheduler.Refusal{
					{UID: uidA, Bucket: 1, At: later, Transition: message.Transition{From: message.StateInFlight,
						To: message.StateWaiting, Kind: message.KindSwept}},
					{UID: uidB, At: later, Transition: message.Transition{To: message.StateInFlight},
						Unreadable: true}},
					InStore: 10, InJournal: 11,
					Found: map[string]int{record.StoreOlder: 1, record.MissingInStore: 1}, Repaired: 1,
					Differences: []record.Difference{
						{UID: uidA, Bucket: 3, Kind: record.MissingInStore,
							Journal: record.Stand{State: message.StateWaiting, Version: 2}, Repaired: true},
						{UID: uidB, Kind: record.StoreOlder, Store: record.Stand{State: message.StateInFlight,
							Version: 1}, Journal: record.Stand{State: message.StateDelivered, Version: 2}},
					}}, nil
			},
		},
		cluster: &cluster{info: ops.Cluster{
			Term: 42, Leader: &ops.Leader{Instance: "t1", Address: "10.0.0.1:7070",
				Since: ops.FormatTime(noon.UnixMilli())},
			Instances: []ops.Instance{
				{Instance: "t1", Address: "10.0.0.1:7070", Role: ops.RoleLeader, Ready: true, CanLead: true, Version: "v1",
					Lacks: []string{"nats"}},
				{Instance: "t2", Address: "10.0.0.2:7070", Role: ops.RoleStandby, Version: "v2", OtherStore: true,
					Linked: true, Differs: []string{"topics"}, Restored: "7 at " + ops.FormatTime(noon.UnixMilli())},
				{Instance: "t3", Address: "10.0.0.3:7070", Role: ops.RoleGone, Version: "v2",
					Seen: ops.FormatTime(noon.UnixMilli())}},
		}},
		rejects: newRejects(),
		clocks:  errors.New("2 of 3 clocks vote"),
		ready: []api.Check{
			{Name: "redis", Needed: true, Buckets: []message.Bucket{1}, Err: errors.New("not certified")},
			{Name: "journal", Needed: true, Err: scheduler.ErrDiskFull},
			{Name: "nats", Err: errors.New("no connection")}},
	}
}

// bare has nothing that may be missing.
func bare() *world {
	info := message.Info{Message: message.Message{UID: uidA, Topic: "a", Due: later, Body: []byte{0xff}},
		State: message.StateWaiting, Version: 1}
	w := &world{
		accepted: scheduler.Accepted{ID: string(uidA), UID: uidA, Due: later, State: message.StateWaiting, Version: 1,
			Duplicate: true},
		info: info, canceled: scheduler.CancelResult{Code: scheduler.CancelDone, Info: info},
		pullers:  pullers{settled: scheduler.Settled{Code: scheduler.SettleDone, Info: info}},
		steering: &steering{amend: scheduler.AmendResult{Code: scheduler.AmendDone, Info: info}, was: true},
		journal:  &journal{records: []record.Record{{Info: info}}, lagErr: scheduler.ErrUnavailable},
		cluster:  &cluster{}, rejects: newRejects(), nothing: true,
	}
	return w
}

// failing fails everywhere with this error.
func failing(err error) *world {
	w := full()
	w.accepted.Err, w.getErr, w.pullers.failure = err, err, err
	w.steering.err, w.steering.one = err, func(scheduler.Ref) error { return err }
	w.journal.err = err
	w.journal.verify = func(context.Context, func(record.VerifyReport)) (record.VerifyReport, error) {
		return record.VerifyReport{}, err
	}
	w.cluster.err, w.cluster.refusal = err, err
	w.rejects.err = err
	return w
}

func (w *world) service() service {
	mayPanic := func() {
		if w.panics {
			panic("no")
		}
	}
	return service{
		accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
			mayPanic()
			all := make([]scheduler.Accepted, len(batch))
			for i := range all {
				all[i] = w.accepted
			}
			return all
		},
		get: func(context.Context, scheduler.Ref) (message.Info, error) { mayPanic(); return w.info, w.getErr },
		cancel: func(context.Context, scheduler.Ref) (scheduler.CancelResult, error) {
			return w.canceled, w.getErr
		},
		steering: w.steering,
		pullers:  w.pullers,
	}
}

// door opens a server in this world.
func (w *world) config(c *api.Config) {
	c.Service, c.Journal, c.JournalMode, c.Cluster = w.service(), w.journal, "async", w.cluster
	c.Rejects = w.rejects
	c.Intake = intakeOf{}
	c.Now = func() time.Time { return noon }
	c.Ready = func(context.Context) []api.Check { return w.ready }
	c.Clocks = func() error { return w.clocks }
	if w.nothing {
		c.Overview = func(context.Context) ops.Overview { return ops.Overview{} }
		c.Hour = func(ctx context.Context) (ops.Hour, error) {
			h, err := hour(ctx)
			h.Dead, h.Missing = h.Rejected, nil
			return h, err
		}
	}
}

// intakeOf has one push that nobody has accepted.
type intakeOf struct{}

func (intakeOf) Look(_ context.Context, q ops.WhyQuery) ([]ops.WhyPush, []ops.WhyPlace) {
	return []ops.WhyPush{{ID: "a", UID: string(uidB), Key: "k", Topic: "a.b", At: later,
			Why: message.Why{Word: message.WhyInIntake, Detail: "no instance has accepted it"}}},
		[]ops.WhyPlace{{Place: "intake", Read: 5}, {Place: "aside", Error: "away"}}
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
