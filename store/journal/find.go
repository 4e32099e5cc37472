package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// brief are the columns of a record without headers and body. whole adds these of records that have no more bytes than
// its two arguments say.
const (
	brief = "uid, topic, id, `key`, priority, ttl, attempt, digest, pull, lease, content, due, state, " +
		"uncertain, refusals, changed, ended, " +
		"COALESCE(kind, 0), COALESCE(other, ''), COALESCE(who, ''), reason, version"
	whole = brief + ", size, CASE WHEN size <= ? THEN headers END, CASE WHEN size <= ? THEN body END"
)

// scanRecord reads a row of brief columns, or whole ones if more is where the size goes.
func scanRecord(row scanner, more ...any) (r record.Record, err error) {
	var ttl, lease, pull, content, version int64
	var digest, headers []byte
	var ended sql.NullInt64
	into := []any{&r.UID, &r.Topic, &r.ID, &r.Key, &r.Priority, &ttl, &r.Attempt, &digest, &pull, &lease,
		&content, &r.Due, &r.State,
		&r.Mark.Uncertain, &r.Mark.Refusals,
		&r.ChangedAt, &ended, &r.Kind, &r.Other, &r.ChangedBy, &r.Reason, &version}
	if len(more) > 0 {
		into = append(into, append(more, &headers, &r.Body)...)
	}
	if err := row.Scan(into...); err != nil {
		return r, fmt.Errorf("read a message: %w", err)
	}
	if err = unpackContent(headers, &r.Message); err != nil {
		return r, fmt.Errorf("read message %s: %w", r.UID, err)
	}
	copy(r.Digest[:], digest)
	r.Pull, r.Serial = pull > 0, pull > 1
	r.TTL, r.Lease = time.Duration(ttl)*time.Millisecond, time.Duration(lease)*time.Millisecond
	r.Content, r.Version, r.EndedAt = uint64(content), uint64(version), message.Milli(ended.Int64)
	r.Mark.Changes = uint32(r.Version - 1)
	return r, nil
}

// Versions returns the version, the state and the last change of each message in the journal.
func (s *SQL) Versions(ctx context.Context, uids []message.UID) (map[message.UID]record.Stand, error) {
	found := make(map[message.UID]record.Stand, len(uids))
	err := inChunks(uids, func(list string, args []any) error {
		return each(ctx, s.read, "SELECT uid, version, state, changed FROM messages WHERE content > 0 AND uid IN "+list, args,
			func(row scanner) error {
				var uid message.UID
				var version, state, changed int64
				err := row.Scan(&uid, &version, &state, &changed)
				found[uid] = record.Stand{State: message.State(state), Version: uint64(version),
					At: message.Milli(changed)}
				return err
			})
	})
	return found, wrap(err, "read versions")
}

// Bare returns the versions of messages whose content the journal refused, or will not get.
func (s *SQL) Bare(ctx context.Context, uids []message.UID) (map[message.UID][]uint64, error) {
	found := map[message.UID][]uint64{}
	err := inChunks(uids, func(list string, args []any) error {
		return each(ctx, s.read, "SELECT t.uid, t.version FROM transitions t JOIN messages m ON m.uid = t.uid "+
			"LEFT JOIN transitions a ON a.uid = t.uid AND a.version = 1 "+
			"WHERE (t.reason = ? OR m.content = 0 AND (a.uid IS NOT NULL OR m.ended IS NOT NULL)) AND t.uid IN "+list,
			append([]any{record.RefusedReason}, args...),
			func(row scanner) error {
				var uid message.UID
				var version int64
				err := row.Scan(&uid, &version)
				found[uid] = append(found[uid], uint64(version))
				return err
			})
	})
	return found, wrap(err, "read bare states")
}

// Records returns the known messages, whole, in the order of their uids.
func (s *SQL) Records(ctx context.Context, uids []message.UID) ([]record.Record, error) {
	return s.Load(ctx, uids, math.MaxInt)
}

// Load returns as many of the known messages as have bytes together, and one at least. One select reads the sizes and
// the contents of all that do not exceed their share, so that it is usually the only one.
func (s *SQL) Load(ctx context.Context, uids []message.UID, bytes int) ([]record.Record, error) {
	found, sum, share := make([]record.Record, 0, len(uids)), 0, max(bytes/chunk, 1)
	var large []message.UID
	err := inChunks(uids, func(list string, args []any) error {
		if sum > bytes {
			return nil
		}
		return each(ctx, s.read, "SELECT "+whole+" FROM messages WHERE uid IN "+list+" ORDER BY uid",
			append([]any{share, share}, args...), func(row scanner) error {
				var size int
				r, err := scanRecord(row, &size)
				if sum += size; err != nil || sum > bytes && len(found) > 0 {
					return err
				}
				if found = append(found, r); size > share {
					large = append(large, r.UID)
				}
				return nil
			})
	})
	if err == nil && len(large) > 0 {
		var rest []record.Record
		rest, err = s.Load(ctx, large, math.MaxInt)
		found = slices.DeleteFunc(found, func(r record.Record) bool {
			_, is := slices.BinarySearch(large, r.UID)
			return is
		})
		found = append(found, rest...)
		slices.SortFunc(found, func(a, b record.Record) int { return cmp.Compare(a.UID, b.UID) })
	}
	return found, wrap(err, "read records")
}

// records returns the known messages without headers and body.
func records(ctx context.Context, from queryer, uids []message.UID) ([]record.Record, error) {
	found := make([]record.Record, 0, len(uids))
	err := inChunks(uids, func(list string, args []any) (err error) {
		found, err = appendRecords(ctx, from, found, " WHERE uid IN "+list, args)
		return err
	})
	return found, err
}

// appendRecords appends the rows of a select of brief columns with the given clauses, from WHERE on.
func appendRecords(ctx context.Context, from queryer, to []record.Record, clauses string,
	args []any) ([]record.Record, error) {
	err := each(ctx, from, "SELECT "+brief+" FROM messages"+clauses, args, func(row scanner) error {
		r, err := scanRecord(row)
		to = append(to, r)
		return err
	})
	return to, err
}

// viewerPage is how many messages are read at once if some of them may be hidden.
const viewerPage = 500

// Find returns up to limit messages that ref names and its viewer may see, the latest accepted first.
func (s *SQL) Find(ctx context.Context, ref scheduler.Ref, limit int) (found []record.Record, err error) {
	if limit <= 0 {
		return nil, nil
	}
	index, w, page := "", where{}, limit
	if ref.Viewer != nil {
		page = max(limit, viewerPage)
	}
	switch {
	case ref.UID != "" && !message.IsUID(string(ref.UID)), ref.UID == "" && ref.ID == "":
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
		part, err := appendRecords(ctx, s.read, nil, index+" WHERE "+from.clause+" ORDER BY uid DESC LIMIT ?",
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

const (
	// namesAtOnce is how many ids one statement asks for.
	namesAtOnce = 250
	// namesRows bounds the rows that it reads: messages of other topics and keys may share an id.
	namesRows = 4000
)

// fullName is a client id with its topic and key.
type fullName struct{ id, topic, key string }

func nameOf(m *message.Message) fullName { return fullName{m.ID, m.Topic, m.Key} }

// Names returns for each push the messages that have its uid, or its name if it has one. Most ids are unique, so one
// statement asks for many ids. If too many messages share an id, each name of the batch is looked up alone.
func (s *SQL) Names(ctx context.Context, pushes []*message.Message) ([][]record.Record, error) {
	found := make([][]record.Record, len(pushes))
	for from := 0; from < len(pushes); from += namesAtOnce {
		to := min(from+namesAtOnce, len(pushes))
		if err := s.names(ctx, pushes[from:to], found[from:to]); err != nil {
			return nil, fmt.Errorf("look names up: %w", err)
		}
	}
	return found, nil
}

func (s *SQL) names(ctx context.Context, pushes []*message.Message, found [][]record.Record) error {
	ids, uids := map[string]struct{}{}, make([]message.UID, 0, len(pushes))
	for _, m := range pushes {
		if m.ID != "" {
			ids[m.ID] = struct{}{}
		}
		if message.IsUID(string(m.UID)) {
			uids = append(uids, m.UID)
		}
	}
	own, err := records(ctx, s.read, uids)
	if err != nil {
		return err
	}
	byUID := make(map[message.UID]record.Record, len(own))
	for _, r := range own {
		byUID[r.UID] = r
	}
	byName, all, err := s.byName(ctx, ids)
	if err != nil {
		return err
	}
	for i, m := range pushes {
		switch {
		case m.ID != "" && all:
			list := byName[nameOf(m)]
			found[i] = slices.Clip(list[:min(len(list), scheduler.MaxRemembered)])
		case m.ID != "":
			ref := scheduler.Ref{ID: m.ID, Topic: m.Topic, Key: m.Key, Keyed: true}
			if found[i], err = s.Find(ctx, ref, scheduler.MaxRemembered); err != nil {
				return err
			}
		}
		if r, known := byUID[m.UID]; known &&
			!slices.ContainsFunc(found[i], func(f record.Record) bool { return f.UID == m.UID }) {
			found[i] = append(found[i], r)
		}
	}
	return nil
}

// byName returns the messages of some ids by name, the latest accepted first; all is false if there are too many to
// read.
func (s *SQL) byName(ctx context.Context,
	ids map[string]struct{}) (found map[fullName][]record.Record, all bool, err error) {
	found = map[fullName][]record.Record{}
	if len(ids) == 0 {
		return found, true, nil
	}
	args := make([]any, 0, len(ids)+1)
	for id := range ids {
		args = append(args, name(id))
	}
	clauses := s.kind.index("messages_id") + " WHERE id <> '' AND id IN (" + questions(len(args)) + ") LIMIT ?"
	rows, err := appendRecords(ctx, s.read, nil, clauses, append(args, namesRows+1))
	if err != nil || len(rows) > namesRows {
		return nil, false, err
	}
	slices.SortFunc(rows, func(a, b record.Record) int { return cmp.Compare(b.UID, a.UID) })
	for _, r := range rows {
		n := nameOf(&r.Message)
		found[n] = append(found[n], r)
	}
	return found, true, nil
}
