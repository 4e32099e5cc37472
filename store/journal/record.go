package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// brief are the columns of a record without headers and body, whole all of them.
const (
	brief = "uid, topic, id, `key`, priority, ttl, attempt, digest, content, due, state, uncertain, refusals, " +
		"changed, ended, " +
		"COALESCE(kind, 0), COALESCE(other, ''), reason, version"
	whole = brief + ", headers, body"
)

// scanRecord reads a row of brief or whole columns.
func scanRecord(row scanner, all bool) (r scheduler.Record, err error) {
	var ttl, content, version int64
	var digest, headers []byte
	var ended sql.NullInt64
	into := []any{&r.UID, &r.Topic, &r.ID, &r.Key, &r.Priority, &ttl, &r.Attempt, &digest, &content, &r.Due, &r.State,
		&r.Mark.Uncertain, &r.Mark.Refusals,
		&r.ChangedAt, &ended, &r.Kind, &r.Other, &r.Reason, &version}
	if all {
		into = append(into, &headers, &r.Body)
	}
	if err := row.Scan(into...); err != nil {
		return r, fmt.Errorf("read a message: %w", err)
	}
	if err = unpackContent(headers, &r.Message); err != nil {
		return r, fmt.Errorf("read message %s: %w", r.UID, err)
	}
	copy(r.Digest[:], digest)
	r.TTL = time.Duration(ttl) * time.Millisecond
	r.Content, r.Version, r.EndedAt = uint64(content), uint64(version), scheduler.Milli(ended.Int64)
	r.Mark.Changes = uint32(r.Version - 1)
	return r, nil
}

// Versions returns the version at which the journal has each message.
func (s *SQL) Versions(ctx context.Context, uids []scheduler.UID) (map[scheduler.UID]scheduler.Stand, error) {
	found := make(map[scheduler.UID]scheduler.Stand, len(uids))
	err := inChunks(uids, func(list string, args []any) error {
		return each(ctx, s.read, "SELECT uid, version, state FROM messages WHERE content > 0 AND uid IN "+list, args,
			func(row scanner) error {
				var uid scheduler.UID
				var version, state int64
				err := row.Scan(&uid, &version, &state)
				found[uid] = scheduler.Stand{State: scheduler.State(state), Version: uint64(version)}
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	return found, nil
}

// Records returns the messages that are known, whole, in the order of their uids.
func (s *SQL) Records(ctx context.Context, uids []scheduler.UID) ([]scheduler.Record, error) {
	found, err := records(ctx, s.read, uids, true)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return found, nil
}

func records(ctx context.Context, from queryer, uids []scheduler.UID, all bool) ([]scheduler.Record, error) {
	found := make([]scheduler.Record, 0, len(uids))
	err := inChunks(uids, func(list string, args []any) (err error) {
		found, err = appendRecords(ctx, from, found, all, " WHERE uid IN "+list+" ORDER BY uid", args)
		return err
	})
	return found, err
}

// appendRecords adds what a select finds, its clauses from WHERE on given.
func appendRecords(ctx context.Context, from queryer, to []scheduler.Record, all bool, clauses string,
	args []any) ([]scheduler.Record, error) {
	columns := brief
	if all {
		columns = whole
	}
	err := each(ctx, from, "SELECT "+columns+" FROM messages"+clauses, args, func(row scanner) error {
		r, err := scanRecord(row, all)
		to = append(to, r)
		return err
	})
	return to, err
}

// viewerPage is how many messages are read at once where some of them are hidden.
const viewerPage = 500

// Find returns up to limit messages that ref names and its viewer may see, the
// latest accepted first.
func (s *SQL) Find(ctx context.Context, ref scheduler.Ref, limit int) (found []scheduler.Record, err error) {
	if limit <= 0 {
		return nil, nil
	}
	index, w, page := "", where{}, limit
	if ref.Viewer != nil {
		page = max(limit, viewerPage)
	}
	switch {
	case ref.UID != "" && !scheduler.IsUID(string(ref.UID)), ref.UID == "" && ref.ID == "":
		return nil, nil
	case ref.UID != "":
		w = w.and("uid = ?", string(ref.UID))
	default:
		index, w = s.kind.index("messages_id"), s.andText(w, "id", ref.ID)
		if ref.Keyed {
			w = s.andText(w, "`key`", ref.Key)
		}
	}
	if ref.Topic != "" {
		w = s.andText(w, "topic", ref.Topic)
	}
	for from := w; ; {
		part, err := appendRecords(ctx, s.read, nil, false, index+" WHERE "+from.clause+" ORDER BY uid DESC LIMIT ?",
			append(slices.Clip(from.args), page))
		if err != nil {
			return nil, fmt.Errorf("find messages: %w", err)
		}
		for _, r := range part {
			if len(found) < limit && ref.Viewer.Sees(r.Topic) {
				found = append(found, r)
			}
		}
		if len(found) == limit || len(part) < page {
			return found, nil
		}
		from = w.and("uid < ?", string(part[page-1].UID))
	}
}
