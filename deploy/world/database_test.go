package world_test

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// database is the journal's as one process reaches it.
type database struct {
	access
	db *memory.Journal
}

var _ journal.Store = (*database)(nil)

func (d *database) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	return call0(ctx, &d.access, "write", func(ctx context.Context) error {
		return d.db.Write(ctx, fences, changes)
	})
}

func (d *database) Fence(ctx context.Context, bucket message.Bucket, number uint64) error {
	return call0(ctx, &d.access, of("fence", bucket), func(ctx context.Context) error {
		return d.db.Fence(ctx, bucket, number)
	})
}

func (d *database) Fences(ctx context.Context) (map[message.Bucket]uint64, error) {
	return call(ctx, &d.access, "fences", false, func(ctx context.Context) (map[message.Bucket]uint64, error) {
		return d.db.Fences(ctx)
	})
}

func (d *database) Versions(ctx context.Context, uids []message.UID) (map[message.UID]record.Stand, error) {
	return call(ctx, &d.access, "versions", false,
		func(ctx context.Context) (map[message.UID]record.Stand, error) {
			return d.db.Versions(ctx, uids)
		})
}

func (d *database) Bare(ctx context.Context, uids []message.UID) (map[message.UID][]uint64, error) {
	return call(ctx, &d.access, "bare", false, func(ctx context.Context) (map[message.UID][]uint64, error) {
		return d.db.Bare(ctx, uids)
	})
}

func (d *database) Records(ctx context.Context, uids []message.UID) ([]record.Record, error) {
	return call(ctx, &d.access, "records", false, func(ctx context.Context) ([]record.Record, error) {
		return d.db.Records(ctx, uids)
	})
}

func (d *database) Load(ctx context.Context, uids []message.UID, bytes int) ([]record.Record, error) {
	return call(ctx, &d.access, "load", false, func(ctx context.Context) ([]record.Record, error) {
		return d.db.Load(ctx, uids, bytes)
	})
}

func (d *database) Find(ctx context.Context, ref scheduler.Ref, limit int) ([]record.Record, error) {
	return call(ctx, &d.access, "find "+string(ref.UID)+ref.ID, false, func(ctx context.Context) ([]record.Record, error) {
		return d.db.Find(ctx, ref, limit)
	})
}

func (d *database) Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error) {
	return call(ctx, &d.access, "rejects "+string(ref.UID)+ref.ID, false,
		func(ctx context.Context) ([]scheduler.Rejected, error) {
			return d.db.Rejects(ctx, ref, limit)
		})
}

func (d *database) Names(ctx context.Context, pushes []*message.Message) ([][]record.Record, error) {
	return call(ctx, &d.access, "names", false, func(ctx context.Context) ([][]record.Record, error) {
		return d.db.Names(ctx, pushes)
	})
}

func (d *database) History(ctx context.Context, uid message.UID, limit int) ([]record.Change, error) {
	return call(ctx, &d.access, "history "+string(uid), false, func(ctx context.Context) ([]record.Change, error) {
		return d.db.History(ctx, uid, limit)
	})
}

func (d *database) List(ctx context.Context, q record.RecordQuery) ([]record.Record, error) {
	return call(ctx, &d.access, "list", false, func(ctx context.Context) ([]record.Record, error) {
		return d.db.List(ctx, q)
	})
}

func (d *database) Changes(ctx context.Context, q record.ChangeQuery) ([]record.Change, error) {
	return call(ctx, &d.access, "changes", false, func(ctx context.Context) ([]record.Change, error) {
		return d.db.Changes(ctx, q)
	})
}

func (d *database) Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error) {
	return call(ctx, &d.access, "forecast", false, func(ctx context.Context) ([]record.Forecast, error) {
		return d.db.Forecast(ctx, q)
	})
}

func (d *database) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	return call0(ctx, &d.access, "write pause", func(ctx context.Context) error {
		return d.db.WritePause(ctx, c)
	})
}

func (d *database) Pauses(ctx context.Context) ([]scheduler.PauseChange, error) {
	return call(ctx, &d.access, "pauses", false, func(ctx context.Context) ([]scheduler.PauseChange, error) {
		return d.db.Pauses(ctx)
	})
}

func (d *database) WriteAction(ctx context.Context, a *record.Action) error {
	return call0(ctx, &d.access, "write action", func(ctx context.Context) error {
		return d.db.WriteAction(ctx, a)
	})
}

func (d *database) Actions(ctx context.Context, q record.ActionQuery) ([]record.Action, error) {
	return call(ctx, &d.access, "actions", false, func(ctx context.Context) ([]record.Action, error) {
		return d.db.Actions(ctx, q)
	})
}

func (d *database) MaxTerm(ctx context.Context) (uint64, error) {
	return call(ctx, &d.access, "max term", false, func(ctx context.Context) (uint64, error) {
		return d.db.MaxTerm(ctx)
	})
}

func (d *database) Prune(ctx context.Context, before message.Milli, limit int) (int, error) {
	return call(ctx, &d.access, "prune", true, func(ctx context.Context) (int, error) {
		return d.db.Prune(ctx, before, limit)
	})
}

func (d *database) Ping(ctx context.Context) error {
	return call0(ctx, &d.access, "ping", func(ctx context.Context) error { return d.db.Ping(ctx) })
}
