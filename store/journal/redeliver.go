package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Broker is the part of NATS that a redelivery needs.
type Broker interface {
	// Stored reports whether the message with this uid is in the stream where its delivery was confirmed. It returns
	// scheduler.ErrUnjudged if the stream may have dropped the message rightly.
	Stored(ctx context.Context, stream string, sequence uint64, uid message.UID) (bool, error)
	// Publish publishes a message on its topic again and returns its new place.
	Publish(ctx context.Context, m *message.Message) (stream string, sequence uint64, err error)
}

const (
	redeliverPage    = 500
	redeliverRecords = 100 // whole messages in memory at once
)

// Redeliver publishes messages again that a broker has confirmed since a time and then lost: after a loss of power a
// stream may lack its last messages. progress, which may be nil, is called now and then.
func (r *Reconciler) Redeliver(ctx context.Context, broker Broker, req record.RedeliverRequest,
	progress func(record.RedeliverReport)) (record.RedeliverReport, error) {
	work := &redelivery{Reconciler: r, broker: broker, req: req}
	report := nowAndThen(progress)
	until := r.Clock.Milli()
	q := record.ChangeQuery{Since: req.Since, State: message.StateDelivered, Limit: redeliverPage}
	for changes, err := range r.changes(ctx, q) {
		if err != nil {
			return work.report, err
		}
		n := len(changes)
		for n > 0 && changes[n-1].At >= until { // this run's own deliveries follow
			n--
		}
		for part := range slices.Chunk(changes[:n], redeliverRecords) {
			if err := work.some(ctx, part); err != nil {
				return work.report, err
			}
			report(work.report)
		}
		if n < len(changes) {
			break
		}
	}
	return work.report, ctx.Err()
}

// redelivery is one run.
type redelivery struct {
	*Reconciler
	broker Broker
	req    record.RedeliverRequest
	report record.RedeliverReport
}

func (r *redelivery) some(ctx context.Context, changes []record.Change) error {
	latest := map[message.UID]record.Change{}
	uids := make([]message.UID, 0, len(changes))
	for _, c := range changes {
		if _, seen := latest[c.UID]; !seen {
			uids = append(uids, c.UID)
		}
		latest[c.UID] = c
	}
	records, err := r.records(ctx, uids)
	if err != nil {
		return err
	}
	for i := range records {
		rec := &records[i]
		c := latest[rec.UID]
		if r.req.Topic != "" && !scheduler.Matches(r.req.Topic, rec.Topic) || rec.Version != c.Version {
			continue // another topic, or delivered again since: that delivery has its own check
		}
		r.report.Checked++
		if err := r.one(ctx, rec, &c); err != nil {
			return err
		}
	}
	return nil
}

func (r *redelivery) one(ctx context.Context, rec *record.Record, c *record.Change) error {
	if c.Stream == "" || rec.Content == 0 {
		r.report.Unknown++
		return nil
	}
	call, cancel := context.WithTimeout(ctx, r.Timeout)
	there, err := r.broker.Stored(call, c.Stream, c.Sequence, rec.UID)
	cancel()
	switch {
	case errors.Is(err, scheduler.ErrUnjudged):
		r.report.Unknown++
		return nil
	case err != nil:
		return fmt.Errorf("look for %s in stream %s: %w: %w", rec.UID, c.Stream, ErrNoBroker, err)
	case there:
		r.report.Present++
		return nil
	}
	r.report.Gone++
	if r.req.DryRun {
		return nil
	}
	call, cancel = context.WithTimeout(ctx, r.Timeout)
	stream, sequence, err := r.broker.Publish(call, &rec.Message)
	cancel()
	if err != nil {
		r.report.Failed++
		r.Log.Warn().Err(err).Str("uid", string(rec.UID)).Str("topic", rec.Topic).Msg("not redelivered")
		return ctx.Err()
	}
	r.report.Redelivered++
	again := record.Change{UID: rec.UID, Version: rec.Version + 1, State: message.StateDelivered,
		At: r.Clock.Milli(), Bucket: rec.UID.Bucket(r.Buckets),
		Instance: r.Instance, Address: r.Address, Reason: "redelivered: the stream had lost it", Attempt: rec.Attempt,
		Stream: stream, Sequence: sequence, Due: rec.Due,
		Uncertain: rec.Mark.Uncertain, Refusals: rec.Mark.Refusals}
	// The message is delivered: record that even if ctx has ended.
	err = within(context.WithoutCancel(ctx), r.Timeout, func(ctx context.Context) error {
		return r.Store.Write(ctx, nil, []record.Change{again})
	})
	return wrap(err, "journal the redelivery of %s", rec.UID)
}
