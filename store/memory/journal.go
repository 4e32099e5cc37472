package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// JournalConfig limits what a Journal keeps of messages that have ended. The messages that ended first are dropped
// first. A zero field takes its default.
type JournalConfig struct {
	// EndedLimit is the maximum number of ended messages, 10,000 by default.
	EndedLimit int
	// EndedBytes is the maximum total size of their bodies and headers, 64 MiB by default.
	EndedBytes int
}

const (
	defaultEndedLimit = 10_000
	defaultEndedBytes = 64 << 20
)

// Journal is the journal of a process that persists nothing, and the model that the SQL journal is tested against. It
// uses plain maps and sorts on demand. It is safe for concurrent use. Package store/journal declares its interface.
//
// An in-memory SQLite was measured as a replacement and rejected. With it, tarry dev took 3.2 times the processor time
// per push and a quarter more memory, and could not keep up: of 400,000 pushes at once it refused 110,410 because its
// outbox was full. This journal refuses none.
type Journal struct {
	cfg JournalConfig

	mu      sync.Mutex
	rows    map[message.UID]*journaled
	ended   []end                // by time, then uid
	bytes   int                  // total size of ended
	rejects []scheduler.Rejected // by time
	actions []record.Action      // the last first
	fences  map[message.Bucket]uint64
	pauses  map[string]scheduler.PauseChange
	term    uint64
}

// journaled is a message with all its changes.
type journaled struct {
	record  record.Record
	changes map[uint64]record.Change
}

// end records when a message ended.
type end struct {
	at  message.Milli
	uid message.UID
}

func (e end) compare(f end) int { return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(e.uid, f.uid)) }

// NewJournal returns an empty journal.
func NewJournal(cfg JournalConfig) (*Journal, error) {
	cfg.EndedLimit = cmp.Or(cfg.EndedLimit, defaultEndedLimit)
	cfg.EndedBytes = cmp.Or(cfg.EndedBytes, defaultEndedBytes)
	if cfg.EndedLimit < 0 || cfg.EndedBytes < 0 {
		return nil, fmt.Errorf("memory: %d ended messages of %d bytes: want positive numbers", cfg.EndedLimit,
			cfg.EndedBytes)
	}
	return &Journal{cfg: cfg, rows: map[message.UID]*journaled{}, fences: map[message.Bucket]uint64{},
		pauses: map[string]scheduler.PauseChange{}}, nil
}

// locked runs do while holding the journal's lock.
func (j *Journal) locked(ctx context.Context, do func()) error {
	if ctx.Err() != nil {
		return fmt.Errorf("journal: %w", context.Cause(ctx))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	do()
	return nil
}

// Write records all of the changes or none.
func (j *Journal) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) (err error) {
	gone := j.locked(ctx, func() {
		for bucket, number := range fences {
			if stands := j.fences[bucket]; stands > number {
				err = fmt.Errorf("bucket %d under certification %d, and %d stands: %w", bucket, number, stands,
					scheduler.ErrFenced)
				return
			}
		}
		for i := range changes {
			if changes[i].Version == 0 {
				j.reject(&changes[i])
				continue
			}
			j.write(&changes[i])
		}
		for len(j.ended) > j.cfg.EndedLimit || j.bytes > j.cfg.EndedBytes {
			j.drop(j.ended[0].uid)
		}
	})
	return errors.Join(gone, err)
}

func (j *Journal) write(c *record.Change) {
	row := j.rows[c.UID]
	if row == nil {
		row = &journaled{changes: map[uint64]record.Change{}}
		row.record.UID = c.UID
		j.rows[c.UID] = row
	}
	j.forget(row)
	if r := &row.record; c.Message != nil && c.Version > r.Content {
		mark, due := r.Mark, r.Due
		r.Message = kept(c.Message)
		r.Message.Mark, r.Message.Due = mark, due
		r.Content = c.Version
	}
	if r := &row.record; c.Version > r.Version {
		r.Version, r.State, r.Due, r.ChangedAt, r.ChangedBy, r.EndedAt = c.Version, c.State, c.Due, c.At, c.By, 0
		r.Kind, r.Other, r.Reason = c.Kind, c.Other, c.Reason
		r.Mark = message.Mark{Uncertain: c.Uncertain, Refusals: c.Refusals, Changes: uint32(c.Version - 1)}
		if c.State.Ended() {
			r.EndedAt = c.At
		}
	}
	j.remember(row)
	if _, known := row.changes[c.Version]; !known {
		stored := *c
		stored.Message = nil
		row.changes[c.Version] = stored
	}
	j.term = max(j.term, c.Term)
}

// reject keeps a rejected push, and drops the oldest of more than EndedLimit.
func (j *Journal) reject(c *record.Change) {
	if slices.ContainsFunc(j.rejects, func(r scheduler.Rejected) bool { return r.UID == c.UID }) {
		return
	}
	r := *c.Rejected
	r.At, r.Digest, r.Body = c.At, [32]byte{}, nil // nothing here returns the body
	j.rejects = append(j.rejects, r)
	slices.SortStableFunc(j.rejects, func(a, b scheduler.Rejected) int { return cmp.Compare(a.At, b.At) })
	j.rejects = j.rejects[max(0, len(j.rejects)-j.cfg.EndedLimit):]
}

// Rejects returns rejected pushes, the latest first.
func (j *Journal) Rejects(ctx context.Context, ref scheduler.Ref,
	limit int) (found []scheduler.Rejected, err error) {
	err = j.locked(ctx, func() {
		for _, r := range j.rejects {
			named := ref.UID == r.UID || ref.UID == "" && ref.ID != "" && ref.ID == r.ID
			if named && (ref.Topic == "" || ref.Topic == r.Topic) && ref.Viewer.Sees(r.Topic) {
				found = append(found, r)
			}
		}
	})
	slices.SortFunc(found, func(a, b scheduler.Rejected) int { return cmp.Compare(b.UID, a.UID) })
	return found[:min(len(found), limit)], err
}

// over reports whether a message in state s can no longer change.
func over(s message.State) bool { return s.Ended() && !s.Kept() }

// remember adds a row to the ended messages if its message is over; forget removes it.
func (j *Journal) remember(row *journaled) {
	if over(row.record.State) {
		e := end{row.record.EndedAt, row.record.UID}
		at, _ := slices.BinarySearchFunc(j.ended, e, end.compare)
		j.ended = slices.Insert(j.ended, at, e)
		j.bytes += row.record.Size()
	}
}

func (j *Journal) forget(row *journaled) {
	if over(row.record.State) {
		at, _ := slices.BinarySearchFunc(j.ended, end{row.record.EndedAt, row.record.UID}, end.compare)
		j.ended = slices.Delete(j.ended, at, at+1)
		j.bytes -= row.record.Size()
	}
}

// drop deletes an ended message.
func (j *Journal) drop(uid message.UID) {
	j.forget(j.rows[uid])
	delete(j.rows, uid)
}

// Fence raises a bucket's certification.
func (j *Journal) Fence(ctx context.Context, bucket message.Bucket, number uint64) error {
	return j.locked(ctx, func() {
		if number > j.fences[bucket] {
			j.fences[bucket] = number
		}
	})
}

// Fences returns the current certifications by bucket.
func (j *Journal) Fences(ctx context.Context) (stand map[message.Bucket]uint64, err error) {
	err = j.locked(ctx, func() { stand = maps.Clone(j.fences) })
	return stand, err
}

// Versions returns the version at which the journal has each message whose content it knows.
func (j *Journal) Versions(ctx context.Context, uids []message.UID) (map[message.UID]record.Stand, error) {
	found := map[message.UID]record.Stand{}
	err := j.locked(ctx, func() {
		for _, uid := range uids {
			if row := j.rows[uid]; row != nil && row.record.Content > 0 {
				found[uid] = record.Stand{State: row.record.State, Version: row.record.Version,
					At: row.record.ChangedAt}
			}
		}
	})
	return found, err
}

// Bare returns the versions of messages whose content the journal will not get.
func (j *Journal) Bare(ctx context.Context, uids []message.UID) (map[message.UID][]uint64, error) {
	found := map[message.UID][]uint64{}
	err := j.locked(ctx, func() {
		for _, uid := range uids {
			row := j.rows[uid]
			if row == nil {
				continue
			}
			_, accepted := row.changes[1]
			none := row.record.Content == 0 && (accepted || row.record.EndedAt > 0)
			for version, c := range row.changes {
				if none || c.Reason == record.RefusedReason {
					found[uid] = append(found[uid], version)
				}
			}
		}
	})
	return found, err
}

// Records returns the known messages, complete, ordered by uid.
func (j *Journal) Records(ctx context.Context, uids []message.UID) (found []record.Record, err error) {
	err = j.locked(ctx, func() {
		for _, uid := range slices.Compact(slices.Sorted(slices.Values(uids))) {
			if row := j.rows[uid]; row != nil {
				found = append(found, row.record)
			}
		}
	})
	return found, err
}

// Load returns the known messages in the order of their uids, as many as have bytes together, and one at least.
func (j *Journal) Load(ctx context.Context, uids []message.UID, bytes int) ([]record.Record, error) {
	found, err := j.Records(ctx, uids)
	for i := range found {
		if bytes -= found[i].Size(); bytes < 0 && i > 0 {
			return found[:i], err
		}
	}
	return found, err
}

// Find returns up to limit messages that ref names and that its viewer may see, the latest accepted first.
func (j *Journal) Find(ctx context.Context, ref scheduler.Ref, limit int) ([]record.Record, error) {
	found, err := j.selected(ctx, func(r *record.Record) bool {
		if ref.Topic != "" && r.Topic != ref.Topic || !ref.Viewer.Sees(r.Topic) {
			return false
		}
		if ref.UID != "" {
			return r.UID == ref.UID
		}
		return ref.ID != "" && r.ID == ref.ID && (!ref.Keyed || r.Key == ref.Key)
	}, func(a, b *record.Record) int { return cmp.Compare(b.UID, a.UID) }, limit, false)
	for i := range found {
		found[i].Headers, found[i].Body = nil, nil
	}
	return found, err
}

// Names returns, for each push, the messages that have its uid, or its name if it has one.
func (j *Journal) Names(ctx context.Context, pushes []*message.Message) ([][]record.Record, error) {
	found := make([][]record.Record, len(pushes))
	for i, m := range pushes {
		if m.ID != "" {
			ref := scheduler.Ref{ID: m.ID, Topic: m.Topic, Key: m.Key, Keyed: true}
			list, err := j.Find(ctx, ref, scheduler.MaxRemembered)
			if err != nil {
				return nil, err
			}
			found[i] = list
		}
		own, err := j.Find(ctx, scheduler.Ref{UID: m.UID}, 1)
		if err != nil {
			return nil, err
		}
		if len(own) > 0 && !slices.ContainsFunc(found[i], func(r record.Record) bool { return r.UID == m.UID }) {
			found[i] = append(found[i], own[0])
		}
	}
	return found, nil
}

// selected returns the first limit records for which want reports true, or the last limit of them, in order. It copies
// no others, and sorts few: everybody waits for it.
func (j *Journal) selected(ctx context.Context, want func(*record.Record) bool,
	order func(a, b *record.Record) int, limit int, last bool) (found []record.Record, err error) {
	limit = max(limit, 0)
	if forward := order; last {
		order = func(a, b *record.Record) int { return forward(b, a) }
	}
	err = j.locked(ctx, func() {
		var rows []*record.Record
		var worst *record.Record // of those that stay, once there are enough
		keep := func() {
			slices.SortFunc(rows, order)
			if rows = rows[:min(len(rows), limit)]; len(rows) > 0 && len(rows) == limit {
				worst = rows[limit-1]
			}
		}
		for _, row := range j.rows {
			if r := &row.record; want(r) && (worst == nil || order(r, worst) < 0) {
				if rows = append(rows, r); len(rows) >= 2*limit {
					keep()
				}
			}
		}
		keep()
		for _, r := range rows {
			found = append(found, *r)
		}
	})
	if last {
		slices.Reverse(found)
	}
	return found, err
}

// History returns the last changes of a message, by version.
func (j *Journal) History(ctx context.Context, uid message.UID, limit int) (found []record.Change, err error) {
	err = j.locked(ctx, func() {
		if row := j.rows[uid]; row != nil {
			found = slices.Collect(maps.Values(row.changes))
		}
	})
	slices.SortFunc(found, func(a, b record.Change) int { return cmp.Compare(a.Version, b.Version) })
	return found[max(0, len(found)-max(limit, 0)):], err
}

// List returns a page of records.
func (j *Journal) List(ctx context.Context, q record.RecordQuery) ([]record.Record, error) {
	order := func(r *record.Record) end { return end{r.Due, r.UID} }
	after := end{q.AfterDue, q.AfterUID}
	found, err := j.selected(ctx, func(r *record.Record) bool {
		return (q.Topic == "" || r.Topic == q.Topic) && (q.Key == "" || r.Key == q.Key) &&
			(q.ID == "" || r.ID == q.ID) &&
			(len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
			(q.DueFrom == 0 || r.Due >= q.DueFrom) && (q.DueTo == 0 || r.Due <= q.DueTo) &&
			(q.Latest || after == end{} || order(r).compare(after) > 0)
	}, func(a, b *record.Record) int { return order(a).compare(order(b)) }, q.Limit, q.Latest)
	for i := range found {
		if found[i].Headers, found[i].Body = nil, nil; q.Places {
			found[i] = record.Record{Info: message.Info{Message: message.Message{UID: found[i].UID, Due: found[i].Due}}}
		}
	}
	return found, err
}

// Changes returns a page of changes.
func (j *Journal) Changes(ctx context.Context, q record.ChangeQuery) (found []record.Change, err error) {
	order := func(a, b *record.Change) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Version, b.Version))
	}
	after := record.Change{At: q.AfterAt, UID: q.AfterUID, Version: q.AfterVersion}
	first := after.At == 0 && after.UID == ""
	err = j.locked(ctx, func() {
		for _, row := range j.rows {
			for _, c := range row.changes {
				if c.At >= q.Since && (q.State == message.StateNone || c.State == q.State) &&
					(first || order(&c, &after) > 0) {
					found = append(found, c)
				}
			}
		}
	})
	slices.SortFunc(found, func(a, b record.Change) int { return order(&a, &b) })
	return found[:min(len(found), max(q.Limit, 0))], err
}

// Forecast counts the waiting messages that fall due, by step.
func (j *Journal) Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error) {
	if q.Step <= 0 {
		return nil, errors.New("forecast: want steps of at least a millisecond")
	}
	counts := map[message.Milli]int{}
	err := j.locked(ctx, func() {
		for _, row := range j.rows {
			r := &row.record
			if r.State == message.StateWaiting && (q.Topic == "" || r.Topic == q.Topic) &&
				(q.Pattern == "" || scheduler.Matches(q.Pattern, r.Topic)) && r.Due >= q.From && r.Due < q.Until {
				counts[(r.Due-q.From)/q.Step]++
			}
		}
	})
	var found []record.Forecast
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		found = append(found, record.Forecast{From: q.From + n*q.Step, Count: counts[n]})
	}
	return found, err
}

// WritePause keeps a change unless the journal has a later change of its pattern.
func (j *Journal) WritePause(ctx context.Context, c scheduler.PauseChange) (err error) {
	gone := j.locked(ctx, func() {
		if stands := j.fences[scheduler.PausesBucket]; c.Number > 0 && stands > c.Number {
			err = fmt.Errorf("a pause under certification %d, and %d stands: %w", c.Number, stands, scheduler.ErrFenced)
			return
		}
		if was, stands := j.pauses[c.Pattern]; !stands || was.At <= c.At {
			c.Number = 0
			j.pauses[c.Pattern] = c
		}
	})
	return errors.Join(gone, err)
}

// Pauses returns the last changes, by time.
func (j *Journal) Pauses(ctx context.Context) (changes []scheduler.PauseChange, err error) {
	err = j.locked(ctx, func() {
		changes = slices.SortedFunc(maps.Values(j.pauses), func(a, b scheduler.PauseChange) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Pattern, b.Pattern))
		})
	})
	return changes, err
}

// MaxTerm returns the highest term that any change carries, or 0 if none carries one.
func (j *Journal) MaxTerm(ctx context.Context) (term uint64, err error) {
	err = j.locked(ctx, func() { term = j.term })
	return term, err
}

// Prune deletes up to limit messages that ended before the given time, and their changes.
func (j *Journal) Prune(ctx context.Context, before message.Milli, limit int) (n int, err error) {
	err = j.locked(ctx, func() {
		for n < limit && n < len(j.rejects) && j.rejects[n].At < before {
			n++
		}
		j.rejects = j.rejects[n:]
		for ; n < limit && len(j.ended) > 0 && j.ended[0].at < before; n++ {
			j.drop(j.ended[0].uid)
		}
		j.actions = slices.DeleteFunc(j.actions, func(a record.Action) bool { return a.At < before })
		maps.DeleteFunc(j.pauses, func(_ string, c scheduler.PauseChange) bool { return c.Resumed && c.At < before })
	})
	return n, err
}

// Ping reports whether the journal answers.
func (j *Journal) Ping(ctx context.Context) error { return j.locked(ctx, func() {}) }

// WriteAction records what an operator does, before and after it.
func (j *Journal) WriteAction(ctx context.Context, a *record.Action) error {
	return j.locked(ctx, func() {
		at, known := slices.BinarySearchFunc(j.actions, a, func(kept record.Action, a *record.Action) int {
			return cmp.Or(cmp.Compare(a.At, kept.At), cmp.Compare(a.ID, kept.ID))
		})
		switch {
		case !known:
			j.actions = slices.Insert(j.actions, at, *a)
		case a.Ended && !j.actions[at].Ended:
			j.actions[at] = *a
		}
		j.actions = j.actions[:min(len(j.actions), j.cfg.EndedLimit)]
	})
}

// Actions returns a page of actions, the last first.
func (j *Journal) Actions(ctx context.Context, q record.ActionQuery) (found []record.Action, err error) {
	err = j.locked(ctx, func() {
		for i := range j.actions {
			if a := &j.actions[i]; len(found) < q.Limit && q.Takes(a) {
				found = append(found, *a)
			}
		}
	})
	return found, err
}
