package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// actionColumns are the columns of actions, in the order of the values of WriteAction.
var actionColumns = []string{"id", "at", "who", "address", "instance", "what", "dry", "subject", "problem", "took",
	"ended"}

// subjectBytes bounds what an action is recorded to be on.
const subjectBytes = 16 << 10

// WriteAction records an action, or how it ended. What has ended stays so.
func (s *SQL) WriteAction(ctx context.Context, a *record.Action) error {
	on, err := json.Marshal(a.On)
	if err == nil && len(on) > subjectBytes {
		on, err = json.Marshal(map[string]any{"too_long": len(on)})
	}
	if err != nil {
		return fmt.Errorf("write an action: %w", err)
	}
	_, err = s.write.ExecContext(ctx, s.upserts.action.statement(1), a.ID, int64(a.At), name(a.Who), name(a.From),
		name(a.Instance), name(a.What), bit(a.DryRun), on, name(a.Problem), a.TookMS, bit(a.Ended))
	return wrap(err, "write an action")
}

// Actions returns a page of actions, the last first.
func (s *SQL) Actions(ctx context.Context, q record.ActionQuery) (found []record.Action, err error) {
	w := where{}.and("1 = 1")
	if q.Who != "" {
		w = s.andText(w, "who", q.Who)
	}
	if q.What != "" {
		w = s.andText(w, "what", q.What)
	}
	if q.BeforeID != "" {
		w = w.and("at <= ?", int64(q.Before)).and("(at < ? OR id < ?)", int64(q.Before), q.BeforeID)
	}
	found, err = collect(ctx, s.read, "SELECT "+strings.Join(actionColumns, ", ")+" FROM actions WHERE "+
		w.clause+" ORDER BY at DESC, id DESC LIMIT ?",
		append(w.args, q.Limit), func(row scanner) (a record.Action, err error) {
			var on []byte
			if err = row.Scan(&a.ID, &a.At, &a.Who, &a.From, &a.Instance, &a.What, &a.DryRun, &on, &a.Problem,
				&a.TookMS, &a.Ended); err == nil {
				err = json.Unmarshal(on, &a.On)
			}
			return a, err
		})
	return found, wrap(err, "read the actions")
}

// pruneActions forgets the actions from before a time, and those before the latest MaxActions.
func (s *SQL) pruneActions(ctx context.Context, before message.Milli) error {
	before, err := s.beforeLast(ctx, "actions", record.MaxActions, before)
	if err == nil && before > 0 {
		_, err = s.write.ExecContext(ctx, "DELETE FROM actions WHERE at < ?", int64(before))
	}
	return wrap(err, "prune the actions")
}
