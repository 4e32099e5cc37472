package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// Broker is what a redelivery asks NATS.
type Broker interface {
	// Stored reports whether the message with this uid stands in the stream where its
	// delivery was confirmed. scheduler.ErrUnjudged: the stream may have dropped it rightly.
	Stored(ctx context.Context, stream string, sequence uint64, uid scheduler.UID) (bool, error)
	// Publish puts a message on its topic again and returns where it stands now.
	Publish(ctx context.Context, m *scheduler.Message) (stream string, sequence uint64, err error)
}

// Redeliverer publishes again what a broker confirmed and lost: after a loss of
// power a stream may have forgotten its last messages.
type Redeliverer struct {
	Store    Store
	Broker   Broker
	Buckets  int
	Clock    *scheduler.Clock
	Instance string
	Address  func() string
	Timeout  time.Duration
	Log      zerolog.Logger
}

const (
	redeliverPage    = 500
	redeliverRecords = 100 // whole messages in memory at once
)

// Run checks every delivery since a time.
func (r *Redeliverer) Run(ctx context.Context, req scheduler.RedeliverRequest,
	progress func(scheduler.RedeliverReport)) (scheduler.RedeliverReport, error) {
	var report scheduler.RedeliverReport
	until := r.Clock.Milli()
	q := scheduler.ChangeQuery{Since: req.Since, State: scheduler.StateDelivered, Limit: redeliverPage}
	told := time.Now()
	for {
		call, cancel := context.WithTimeout(ctx, r.Timeout)
		changes, err := r.Store.Changes(call, q)
		cancel()
		if err != nil {
			return report, fmt.Errorf("read deliveries: %w: %w", ErrNoDatabase, err)
		}
		for len(changes) > 0 && changes[len(changes)-1].At >= until { // what this run delivers comes after
			changes = changes[:len(changes)-1]
		}
		if len(changes) == 0 {
			return report, ctx.Err()
		}
		last := changes[len(changes)-1]
		q.AfterAt, q.AfterUID, q.AfterVersion = last.At, last.UID, last.Version
		for len(changes) > 0 {
			n := min(len(changes), redeliverRecords)
			if err := r.some(ctx, req, changes[:n], &report); err != nil {
				return report, err
			}
			changes = changes[n:]
			if progress != nil && time.Since(told) >= tellPause {
				progress(report)
				told = time.Now()
			}
		}
	}
}

func (r *Redeliverer) some(ctx context.Context, req scheduler.RedeliverRequest, changes []scheduler.Change,
	report *scheduler.RedeliverReport) error {
	latest := map[scheduler.UID]scheduler.Change{}
	uids := make([]scheduler.UID, 0, len(changes))
	for _, c := range changes {
		if _, seen := latest[c.UID]; !seen {
			uids = append(uids, c.UID)
		}
		latest[c.UID] = c
	}
	call, cancel := context.WithTimeout(ctx, r.Timeout)
	records, err := r.Store.Records(call, uids)
	cancel()
	if err != nil {
		return fmt.Errorf("read messages: %w: %w", ErrNoDatabase, err)
	}
	for i := range records {
		rec := &records[i]
		c := latest[rec.UID]
		if req.Topic != "" && !scheduler.Matches(req.Topic, rec.Topic) || rec.Version != c.Version {
			continue // another topic, or delivered again since: that delivery is checked itself
		}
		report.Checked++
		if err := r.one(ctx, req.DryRun, rec, &c, report); err != nil {
			return err
		}
	}
	return nil
}

func (r *Redeliverer) one(ctx context.Context, dry bool, rec *scheduler.Record, c *scheduler.Change,
	report *scheduler.RedeliverReport) error {
	if c.Stream == "" || rec.Content == 0 {
		report.Unknown++
		return nil
	}
	call, cancel := context.WithTimeout(ctx, r.Timeout)
	there, err := r.Broker.Stored(call, c.Stream, c.Sequence, rec.UID)
	cancel()
	switch {
	case errors.Is(err, scheduler.ErrUnjudged):
		report.Unknown++
		return nil
	case err != nil:
		return fmt.Errorf("look for %s in stream %s: %w: %w", rec.UID, c.Stream, ErrNoBroker, err)
	case there:
		report.Present++
		return nil
	}
	report.Gone++
	if dry {
		return nil
	}
	call, cancel = context.WithTimeout(ctx, r.Timeout)
	stream, sequence, err := r.Broker.Publish(call, &rec.Message)
	cancel()
	if err != nil {
		report.Failed++
		r.Log.Warn().Err(err).Str("uid", string(rec.UID)).Str("topic", rec.Topic).Msg("not redelivered")
		return ctx.Err()
	}
	report.Redelivered++
	again := scheduler.Change{UID: rec.UID, Version: rec.Version + 1, State: scheduler.StateDelivered,
		At: r.Clock.Milli(), Bucket: rec.UID.Bucket(r.Buckets),
		Instance: r.Instance, Address: r.Address(), Reason: "redelivered: the stream had lost it", Attempt: rec.Attempt,
		Stream: stream, Sequence: sequence, Due: rec.Due,
		Uncertain: rec.Mark.Uncertain, Refusals: rec.Mark.Refusals}
	// It is delivered, however long that took and whoever still waits for the report.
	call, cancel = context.WithTimeout(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	if err := r.Store.Write(call, nil, []scheduler.Change{again}); err != nil {
		return fmt.Errorf("journal the redelivery of %s: %w", rec.UID, err)
	}
	return nil
}
