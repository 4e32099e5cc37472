package journal

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

const (
	// namesAtOnce is how many ids one statement asks for.
	namesAtOnce = 250
	// namesRows bounds what it reads: messages of other topics and keys may share an id.
	namesRows = 4000
)

// fullName is a client id on its topic and within its key.
type fullName struct{ id, topic, key string }

func nameOf(m *scheduler.Message) fullName { return fullName{m.ID, m.Topic, m.Key} }

// Names returns for each push the messages that have its uid, or its name where it
// has one. An id is mostly unique, so one statement asks for many ids. If too many
// messages share an id, each name of the batch is asked for alone.
func (s *SQL) Names(ctx context.Context, pushes []*scheduler.Message) ([][]scheduler.Record, error) {
	found := make([][]scheduler.Record, len(pushes))
	for from := 0; from < len(pushes); from += namesAtOnce {
		to := min(from+namesAtOnce, len(pushes))
		if err := s.names(ctx, pushes[from:to], found[from:to]); err != nil {
			return nil, fmt.Errorf("look names up: %w", err)
		}
	}
	return found, nil
}

func (s *SQL) names(ctx context.Context, pushes []*scheduler.Message, found [][]scheduler.Record) error {
	ids, uids := map[string]struct{}{}, make([]scheduler.UID, 0, len(pushes))
	for _, m := range pushes {
		if m.ID != "" {
			ids[m.ID] = struct{}{}
		}
		if scheduler.IsUID(string(m.UID)) {
			uids = append(uids, m.UID)
		}
	}
	own, err := records(ctx, s.read, uids, false)
	if err != nil {
		return err
	}
	byUID := make(map[scheduler.UID]scheduler.Record, len(own))
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
			!slices.ContainsFunc(found[i], func(f scheduler.Record) bool { return f.UID == m.UID }) {
			found[i] = append(found[i], r)
		}
	}
	return nil
}

// byName are the messages of some ids by name, the latest accepted first; all is
// false where there are too many to read.
func (s *SQL) byName(ctx context.Context,
	ids map[string]struct{}) (found map[fullName][]scheduler.Record, all bool, err error) {
	found = map[fullName][]scheduler.Record{}
	if len(ids) == 0 {
		return found, true, nil
	}
	args := make([]any, 0, len(ids)+1)
	for id := range ids {
		args = append(args, name(id))
	}
	clauses := s.kind.index("messages_id") + " WHERE id <> '' AND id IN (" + questions(len(args)) + ") LIMIT ?"
	rows, err := appendRecords(ctx, s.read, nil, false, clauses, append(args, namesRows+1))
	if err != nil || len(rows) > namesRows {
		return nil, false, err
	}
	slices.SortFunc(rows, func(a, b scheduler.Record) int { return cmp.Compare(b.UID, a.UID) })
	for _, r := range rows {
		n := nameOf(&r.Message)
		found[n] = append(found[n], r)
	}
	return found, true, nil
}
