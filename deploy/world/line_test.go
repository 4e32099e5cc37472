package world_test

import (
	"context"
	"strconv"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/memory"
)

// line is the store as one process reaches it. It embeds no store: a new method of the port is missing here until it
// goes by the bus too.
type line struct {
	access
	at func() *memory.Timeline
}

var (
	_ scheduler.Timeline = (*line)(nil)
	_ record.Mending     = (*line)(nil)
	_ record.Recoverable = (*line)(nil)
	_ record.Recovering  = (*line)(nil)
)

func of(what string, bucket message.Bucket) string { return what + " " + strconv.Itoa(int(bucket)) }

func (l *line) Buckets() message.Bucket { return buckets }

func (l *line) Renew() {}

func (l *line) Recovering(standings []record.Standing, term, number uint64) record.Recovering {
	return &line{l.access, func() *memory.Timeline {
		return l.at().Recovering(standings, term, number).(*memory.Timeline)
	}}
}

// Ready and Lease answer for each bucket by itself.
func (l *line) Ready(ctx context.Context, wants []scheduler.Want, now message.Milli) []scheduler.Found {
	found, err := call(ctx, &l.access, "ready", false, func(ctx context.Context) ([]scheduler.Found, error) {
		return l.at().Ready(ctx, wants, now), nil
	})
	if err != nil {
		found = make([]scheduler.Found, len(wants))
		for i := range found {
			found[i].Err = err
		}
	}
	return found
}

func (l *line) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	leased, err := call(ctx, &l.access, "lease", true, func(ctx context.Context) ([]scheduler.Leased, error) {
		return l.at().Lease(ctx, requests), nil
	})
	if err != nil {
		leased = make([]scheduler.Leased, len(requests))
		for i := range leased {
			leased[i].Err = err
		}
	}
	return leased
}

func (l *line) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	return call2(ctx, &l.access, of("add", bucket), true,
		func(ctx context.Context) ([]scheduler.AddResult, []scheduler.Earlier, error) {
			return l.at().Add(ctx, bucket, batch, now)
		})
}

func (l *line) Reject(ctx context.Context, r *scheduler.Rejected, now message.Milli) (scheduler.Effect, error) {
	return call(ctx, &l.access, "reject", true, func(ctx context.Context) (scheduler.Effect, error) {
		return l.at().Reject(ctx, r, now)
	})
}

func (l *line) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	return call(ctx, &l.access, "find "+string(ref.UID)+ref.ID, false, func(ctx context.Context) ([]message.Info, error) {
		return l.at().Find(ctx, ref)
	})
}

func (l *line) Begin(ctx context.Context, bucket message.Bucket, term uint64) error {
	return call0(ctx, &l.access, of("begin", bucket), func(ctx context.Context) error {
		return l.at().Begin(ctx, bucket, term)
	})
}

func (l *line) Sweep(ctx context.Context, bucket message.Bucket, term, last uint64, limit int,
	now message.Milli) (int, error) {
	return call(ctx, &l.access, of("sweep", bucket), true, func(ctx context.Context) (int, error) {
		return l.at().Sweep(ctx, bucket, term, last, limit, now)
	})
}

func (l *line) Claim(ctx context.Context, bucket message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	return call(ctx, &l.access, of("claim", bucket), true, func(ctx context.Context) (scheduler.Claimed, error) {
		return l.at().Claim(ctx, bucket, req)
	})
}

func (l *line) Finish(ctx context.Context, bucket message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) error {
	return call0(ctx, &l.access, of("finish", bucket), func(ctx context.Context) error {
		return l.at().Finish(ctx, bucket, term, ends, now)
	})
}

func (l *line) Return(ctx context.Context, bucket message.Bucket, term uint64, back []scheduler.Back,
	now message.Milli) error {
	return call0(ctx, &l.access, of("return", bucket), func(ctx context.Context) error {
		return l.at().Return(ctx, bucket, term, back, now)
	})
}

func (l *line) Held(ctx context.Context, bucket message.Bucket, term uint64, after message.UID,
	limit int) ([]scheduler.Held, error) {
	return call(ctx, &l.access, of("held", bucket), false, func(ctx context.Context) ([]scheduler.Held, error) {
		return l.at().Held(ctx, bucket, term, after, limit)
	})
}

func (l *line) Heads(ctx context.Context) ([]scheduler.Head, error) {
	return call(ctx, &l.access, "heads", false, func(ctx context.Context) ([]scheduler.Head, error) {
		return l.at().Heads(ctx)
	})
}

func (l *line) Refused(ctx context.Context, bucket message.Bucket) ([]scheduler.Refusal, error) {
	return call(ctx, &l.access, of("refused", bucket), false,
		func(ctx context.Context) ([]scheduler.Refusal, error) {
			return l.at().Refused(ctx, bucket)
		})
}

func (l *line) Lanes(ctx context.Context, bucket message.Bucket) ([]scheduler.LaneCount, error) {
	return call(ctx, &l.access, of("lanes", bucket), false, func(ctx context.Context) ([]scheduler.LaneCount, error) {
		return l.at().Lanes(ctx, bucket)
	})
}

func (l *line) Trim(ctx context.Context, bucket message.Bucket, term uint64, now message.Milli,
	limit int) (int, error) {
	return call(ctx, &l.access, of("trim", bucket), true, func(ctx context.Context) (int, error) {
		return l.at().Trim(ctx, bucket, term, now, limit)
	})
}

func (l *line) Cancel(ctx context.Context, ref scheduler.Ref, now message.Milli) (scheduler.CancelResult, error) {
	what := "cancel " + string(ref.UID)
	if ref.UID == "" {
		what = "cancel named " + ref.ID
	}
	return call(ctx, &l.access, what, true, func(ctx context.Context) (scheduler.CancelResult, error) {
		return l.at().Cancel(ctx, ref, now)
	})
}

func (l *line) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64,
	now message.Milli) ([]message.UID, error) {
	return call(ctx, &l.access, "bury", true, func(ctx context.Context) ([]message.UID, error) {
		return l.at().Bury(ctx, ref, sequence, now)
	})
}

func (l *line) Amend(ctx context.Context, a scheduler.Amend, now message.Milli) (scheduler.AmendResult, error) {
	what := "amend " + string(a.UID)
	if a.UID == "" {
		what = "amend named " + a.Named.ID
	}
	return call(ctx, &l.access, what, true, func(ctx context.Context) (scheduler.AmendResult, error) {
		return l.at().Amend(ctx, a, now)
	})
}

func (l *line) Browse(ctx context.Context, bucket message.Bucket, q scheduler.Browse) (scheduler.Browsed, error) {
	return call(ctx, &l.access, of("browse", bucket), false, func(ctx context.Context) (scheduler.Browsed, error) {
		return l.at().Browse(ctx, bucket, q)
	})
}

func (l *line) Claims(ctx context.Context, bucket message.Bucket, after message.UID,
	limit int) ([]message.UID, error) {
	return call(ctx, &l.access, of("claims", bucket), false, func(ctx context.Context) ([]message.UID, error) {
		return l.at().Claims(ctx, bucket, after, limit)
	})
}

func (l *line) Requeue(ctx context.Context, old message.UID, waits uint64, m *message.Message,
	now message.Milli) (scheduler.RequeueResult, error) {
	return call(ctx, &l.access, "requeue", true, func(ctx context.Context) (scheduler.RequeueResult, error) {
		return l.at().Requeue(ctx, old, waits, m, now)
	})
}

func (l *line) Purge(ctx context.Context, bucket message.Bucket, uids []message.UID,
	now message.Milli) ([]message.UID, uint64, error) {
	return call2(ctx, &l.access, of("purge", bucket), true,
		func(ctx context.Context) ([]message.UID, uint64, error) {
			return l.at().Purge(ctx, bucket, uids, now)
		})
}

func (l *line) Count(ctx context.Context, topic string) (scheduler.TopicCount, error) {
	return call(ctx, &l.access, "count "+topic, false, func(ctx context.Context) (scheduler.TopicCount, error) {
		return l.at().Count(ctx, topic)
	})
}

func (l *line) Counts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	return call(ctx, &l.access, "counts", false, func(ctx context.Context) ([]scheduler.TopicCount, error) {
		return l.at().Counts(ctx, after, limit)
	})
}

func (l *line) Totals(ctx context.Context, now message.Milli) ([]scheduler.Total, error) {
	return call(ctx, &l.access, "totals", false, func(ctx context.Context) ([]scheduler.Total, error) {
		return l.at().Totals(ctx, now)
	})
}

func (l *line) Falls(ctx context.Context, times []message.Milli) ([]int, error) {
	return call(ctx, &l.access, "falls", false, func(ctx context.Context) ([]int, error) {
		return l.at().Falls(ctx, times)
	})
}

func (l *line) Sample(ctx context.Context, from, until message.Milli, n int) ([]scheduler.Sample, error) {
	return call(ctx, &l.access, "sample", false, func(ctx context.Context) ([]scheduler.Sample, error) {
		return l.at().Sample(ctx, from, until, n)
	})
}

func (l *line) Pauses(ctx context.Context) ([]scheduler.Pause, message.Milli, error) {
	return call2(ctx, &l.access, "pauses", false,
		func(ctx context.Context) ([]scheduler.Pause, message.Milli, error) {
			return l.at().Pauses(ctx)
		})
}

func (l *line) Pause(ctx context.Context, p scheduler.Pause) (scheduler.PauseChange, error) {
	return call(ctx, &l.access, "pause", true, func(ctx context.Context) (scheduler.PauseChange, error) {
		return l.at().Pause(ctx, p)
	})
}

func (l *line) Resume(ctx context.Context, pattern string, now message.Milli) (bool, scheduler.PauseChange, error) {
	return call2(ctx, &l.access, "resume", true, func(ctx context.Context) (bool, scheduler.PauseChange, error) {
		return l.at().Resume(ctx, pattern, now)
	})
}

func (l *line) Settle(ctx context.Context, bucket message.Bucket, term uint64, items []scheduler.Settle,
	now message.Milli) ([]scheduler.Settled, scheduler.Effect, error) {
	return call2(ctx, &l.access, of("settle", bucket), true,
		func(ctx context.Context) ([]scheduler.Settled, scheduler.Effect, error) {
			return l.at().Settle(ctx, bucket, term, items, now)
		})
}

func (l *line) Leases(ctx context.Context, bucket message.Bucket, q scheduler.LeaseQuery,
	now message.Milli) (scheduler.LeasePage, error) {
	return call(ctx, &l.access, of("leases", bucket), false,
		func(ctx context.Context) (scheduler.LeasePage, error) {
			return l.at().Leases(ctx, bucket, q, now)
		})
}

func (l *line) Pulled(ctx context.Context, topics []string, until []message.Milli) ([]scheduler.PullCount, error) {
	return call(ctx, &l.access, "pulled", false, func(ctx context.Context) ([]scheduler.PullCount, error) {
		return l.at().Pulled(ctx, topics, until)
	})
}

func (l *line) Behind(ctx context.Context, uid message.UID, topic, key string) (bool, message.UID, error) {
	return call2(ctx, &l.access, "behind "+string(uid), false,
		func(ctx context.Context) (bool, message.UID, error) {
			return l.at().Behind(ctx, uid, topic, key)
		})
}

func (l *line) Upcoming(ctx context.Context, bucket message.Bucket, until message.Milli) ([]string, error) {
	return call(ctx, &l.access, of("upcoming", bucket), false, func(ctx context.Context) ([]string, error) {
		return l.at().Upcoming(ctx, bucket, until)
	})
}

func (l *line) Failing(ctx context.Context, target string, at message.Milli,
	within time.Duration) (message.Milli, error) {
	return call(ctx, &l.access, "failing", true, func(ctx context.Context) (message.Milli, error) {
		return l.at().Failing(ctx, target, at, within)
	})
}

func (l *line) Unwritten(ctx context.Context, bucket message.Bucket, after string, age message.Milli, limit,
	bytes int) ([]record.Entry, error) {
	return call(ctx, &l.access, of("unwritten", bucket), false, func(ctx context.Context) ([]record.Entry, error) {
		return l.at().Unwritten(ctx, bucket, after, age, limit, bytes)
	})
}

// Written is late in vain once Redis has lost everything: there the ids of entries are times, and those of store/memory
// begin anew.
func (l *line) Written(ctx context.Context, bucket message.Bucket, entries []record.Entry) error {
	emptied := l.redis.emptied.Load()
	return call0(ctx, &l.access, of("written", bucket), func(ctx context.Context) error {
		if l.redis.emptied.Load() != emptied {
			return nil
		}
		return l.at().Written(ctx, bucket, entries)
	})
}

func (l *line) Quarantine(ctx context.Context, q record.Quarantined) error {
	return call0(ctx, &l.access, "quarantine", func(ctx context.Context) error {
		return l.at().Quarantine(ctx, q)
	})
}

func (l *line) Quarantined(ctx context.Context, bucket message.Bucket, after string) ([]record.Quarantined,
	string, error) {
	return call2(ctx, &l.access, of("quarantined", bucket), false,
		func(ctx context.Context) ([]record.Quarantined, string, error) {
			return l.at().Quarantined(ctx, bucket, after)
		})
}

func (l *line) Lags(ctx context.Context) ([]record.Lag, error) {
	return call(ctx, &l.access, "lags", false, func(ctx context.Context) ([]record.Lag, error) {
		return l.at().Lags(ctx)
	})
}

func (l *line) Standings(ctx context.Context) ([]record.Standing, error) {
	return call(ctx, &l.access, "standings", false, func(ctx context.Context) ([]record.Standing, error) {
		return l.at().Standings(ctx)
	})
}

func (l *line) Audited(ctx context.Context, bucket message.Bucket, number uint64) error {
	return call0(ctx, &l.access, of("audited", bucket), func(ctx context.Context) error {
		return l.at().Audited(ctx, bucket, number)
	})
}

func (l *line) Restore(ctx context.Context, bucket message.Bucket, records []record.Record, read,
	now message.Milli) ([]record.RestoreCode, error) {
	return call(ctx, &l.access, of("restore", bucket), true,
		func(ctx context.Context) ([]record.RestoreCode, error) {
			return l.at().Restore(ctx, bucket, records, read, now)
		})
}

func (l *line) Versions(ctx context.Context, bucket message.Bucket,
	uids []message.UID) (map[message.UID]record.Stand, error) {
	return call(ctx, &l.access, of("versions", bucket), false,
		func(ctx context.Context) (map[message.UID]record.Stand, error) {
			return l.at().Versions(ctx, bucket, uids)
		})
}

func (l *line) Walk(ctx context.Context, bucket message.Bucket, cursor string, limit int) ([]message.UID,
	string, error) {
	return call2(ctx, &l.access, of("walk", bucket), false,
		func(ctx context.Context) ([]message.UID, string, error) {
			return l.at().Walk(ctx, bucket, cursor, limit)
		})
}

func (l *line) Certify(ctx context.Context, bucket message.Bucket, term uint64, c record.Certification) error {
	return call0(ctx, &l.access, of("certify", bucket), func(ctx context.Context) error {
		return l.at().Certify(ctx, bucket, term, c)
	})
}

func (l *line) Leased(ctx context.Context, bucket message.Bucket, cursor string, limit int) ([]message.UID,
	string, error) {
	return call2(ctx, &l.access, of("leased", bucket), false,
		func(ctx context.Context) ([]message.UID, string, error) {
			return l.at().Leased(ctx, bucket, cursor, limit)
		})
}

func (l *line) Reclaim(ctx context.Context, bucket message.Bucket, term uint64, limit int,
	now message.Milli) (int, error) {
	return call(ctx, &l.access, of("reclaim", bucket), true, func(ctx context.Context) (int, error) {
		return l.at().Reclaim(ctx, bucket, term, limit, now)
	})
}
