package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// Prune deletes up to limit messages that ended before the given time, and
// their changes, in one transaction. What is dead stays until it is dealt with.
//
// What to delete is found by the changes that were ends, whose index there is
// anyway: one on the column ended would cost every end an insert and a removal.
// Whether that end is still the message's state is then asked under a lock.
func (s *SQL) Prune(ctx context.Context, before scheduler.Milli, limit int) (n int, err error) {
	if before <= 0 {
		return 0, nil
	}
	if err := s.prunePauses(ctx, before); err != nil {
		return 0, err
	}
	for after := (moment{}); n < limit; {
		ends, err := s.endsBefore(ctx, before, after, limit-n)
		if err != nil {
			return n, fmt.Errorf("prune: %w", err)
		}
		if len(ends) == 0 {
			break
		}
		deleted, err := s.delete(ctx, before, ends)
		n += deleted
		if err != nil {
			return n, fmt.Errorf("prune: %w", err)
		}
		after = ends[len(ends)-1] // past those that came back to life
	}
	return n, nil
}

// endsBefore are up to limit changes that ended a message, in the order of time.
func (s *SQL) endsBefore(ctx context.Context, before scheduler.Milli, after moment,
	limit int) (ends []moment, err error) {
	for _, state := range everyState() {
		if !state.Ended() || state == scheduler.StateDead {
			continue
		}
		part, err := s.moments(ctx, s.read, state, scheduler.ChangeQuery{AfterAt: after.at, AfterUID: after.uid,
			AfterVersion: uint64(after.version), Limit: limit}, before)
		if err != nil {
			return nil, err
		}
		ends = append(ends, part...)
	}
	slices.SortFunc(ends, moment.compare)
	return ends[:min(len(ends), limit)], nil
}

// delete deletes those of the messages that ended before a time.
func (s *SQL) delete(ctx context.Context, before scheduler.Milli, ends []moment) (n int, err error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // after a commit it does nothing
	err = inChunks(uidsOf(ends), func(list string, args []any) error {
		over, err := ended(ctx, tx,
			"SELECT uid FROM messages WHERE uid IN "+list+" AND ended < ? AND state <> ? ORDER BY uid"+s.kind.update,
			append(args, int64(before), int64(scheduler.StateDead)))
		if err != nil {
			return err
		}
		n += len(over)
		return inChunks(over, func(list string, args []any) error {
			for _, table := range [...]string{"transitions", "messages"} {
				if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE uid IN "+list, args...); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return n, nil
}

func ended(ctx context.Context, tx *sql.Tx, query string, args []any) (uids []scheduler.UID, err error) {
	err = each(ctx, tx, query, args, func(row scanner) error {
		var uid scheduler.UID
		err := row.Scan(&uid)
		uids = append(uids, uid)
		return err
	})
	return uids, err
}
