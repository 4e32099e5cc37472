package timeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// wrote reports an entry that a script wrote, if it wrote one, to the journal's
// writer. told is "id size changes", and known are its changes without what the
// context adds. ran is the call.
func (t *Redis) wrote(ran *call, told string, known []scheduler.Change) error {
	if t.cfg.Record == nil || told == "" {
		return nil
	}
	e := scheduler.Entry{Bucket: ran.bucket, Number: ran.number, Changes: known}
	if err := readTold(told, &e); err != nil {
		return err
	}
	c, err := readContext(string(ran.entry))
	if err != nil {
		return err
	}
	for i := range e.Changes {
		c.put(&e.Changes[i], ran.bucket)
	}
	t.cfg.Record.Wrote(e)
	return nil
}

// readTold reads "id size changes".
func readTold(told string, e *scheduler.Entry) error {
	f := strings.Fields(told)
	if len(f) != 3 {
		return fmt.Errorf("%w: size of an entry in %d words", scheduler.ErrUnreadable, len(f))
	}
	var err1, err2 error
	e.ID = f[0]
	e.Size, err1 = strconv.Atoi(f[1])
	e.Count, err2 = strconv.Atoi(f[2])
	if err1 != nil || err2 != nil || e.Size < 0 || e.Count < 0 {
		return fmt.Errorf("%w: size of an entry is no number", scheduler.ErrUnreadable)
	}
	return nil
}

// Unwritten reads entries from the oldest.
func (t *Redis) Unwritten(ctx context.Context, bucket int, after string, age scheduler.Milli, limit,
	bytes int) ([]scheduler.Entry, error) {
	if _, err := t.place(bucket); err != nil {
		return nil, err
	}
	c := &call{bucket: bucket, script: t.scripts.unwritten, args: []any{after, int64(age), limit, bytes}}
	v, err := t.run(ctx, c)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, errAnswer("unwritten", len(list), nil)
	}
	entries := make([]scheduler.Entry, 0, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		id, _ := list[i].(string)
		fields, err := texts(list[i+1])
		if err != nil {
			return nil, fmt.Errorf("unwritten: entry %s: %w", id, err)
		}
		e, err := readEntry(bucket, id, fields)
		if err != nil {
			e = t.damaged(bucket, id, fields, err)
		}
		e.Number = c.number
		entries = append(entries, e)
	}
	return entries, nil
}

// Written removes entries.
func (t *Redis) Written(ctx context.Context, bucket int, entries []scheduler.Entry) error {
	if _, err := t.place(bucket); err != nil {
		return err
	}
	for len(entries) > 0 {
		n := 1
		for n < min(len(entries), 500) && entries[n].Number == entries[0].Number {
			n++
		}
		args := make([]any, n)
		for i := range args {
			args[i] = fmt.Sprintf("%s %d %d", entries[i].ID, entries[i].Size, entries[i].Count)
		}
		_, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.written, args: args, number: entries[0].Number,
			pinned: entries[0].Number > 0})
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// Quarantine moves an entry from the outbox to the quarantine.
func (t *Redis) Quarantine(ctx context.Context, q scheduler.Quarantined) error {
	k, err := t.place(q.Bucket)
	if err != nil {
		return err
	}
	known, uids := "0", make([]byte, 0, len(q.UIDs)*scheduler.UIDLen)
	if q.Known {
		known = "1"
	}
	for _, uid := range q.UIDs[:min(len(q.UIDs), scheduler.MaxQuarantinedUIDs)] {
		uids = append(uids, uid...)
	}
	_, err = t.run(ctx, &call{bucket: q.Bucket, script: t.scripts.quarantine, keys: []string{k.quarantine},
		args:   []any{q.ID, int64(q.At), q.Reason, known, uids, scheduler.MaxQuarantined},
		number: q.Number, pinned: q.Number > 0})
	return err
}

// Quarantined lists what is quarantined.
func (t *Redis) Quarantined(ctx context.Context, bucket int, after string) ([]scheduler.Quarantined, string, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, "", err
	}
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.quarantined, keys: []string{k.quarantine},
		args: []any{after, scheduler.QuarantinedPage}})
	if err != nil {
		return nil, "", err
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, "", errAnswer("quarantined", len(list), nil)
	}
	next, list := fmt.Sprint(list[0]), list[1:]
	found := make([]scheduler.Quarantined, len(list))
	for i := range list {
		f, err := texts(list[i])
		if err != nil || len(f) != 5 {
			return nil, "", errAnswer("quarantined", len(f), err)
		}
		q := scheduler.Quarantined{Bucket: bucket, ID: f[0], Reason: f[2], Known: f[3] == "1"}
		at, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			q.Reason = "what was kept of it is damaged"
		}
		q.At = scheduler.Milli(at)
		uidsIn(f[4], func(uid scheduler.UID) { q.UIDs = append(q.UIDs, uid) })
		found[i] = q
	}
	return found, next, nil
}

// Lags asks every bucket.
func (t *Redis) Lags(ctx context.Context) ([]scheduler.Lag, error) {
	lags := make([]scheduler.Lag, len(t.keys))
	given := func(k *keys) ([]string, []any) { return []string{k.quarantine}, nil }
	failed := t.askEach(ctx, t.allBuckets(), t.scripts.lag, given, func(bucket int, v any) error {
		f, err := texts(v)
		if err != nil || len(f) != 5 {
			return errAnswer("lag", len(f), err)
		}
		return readLag(f, &lags[bucket])
	}, false)
	for bucket, err := range failed {
		lags[bucket].Err = err
	}
	return lags, nobody(failed)
}

func readLag(f []string, lag *scheduler.Lag) (err error) {
	var n [3]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return fmt.Errorf("lag: %w", err)
		}
	}
	lag.Entries, lag.Changes, lag.Bytes = int(n[0]), int(n[1]), n[2]
	if f[3] != "" {
		oldest, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return fmt.Errorf("lag: oldest entry %q: %w", f[3], err)
		}
		lag.Oldest = scheduler.Milli(oldest)
	}
	if lag.Quarantined, err = strconv.Atoi(f[4]); err != nil {
		return fmt.Errorf("lag: %w", err)
	}
	return nil
}

func errAnswer(what string, n int, err error) error {
	if err != nil {
		return fmt.Errorf("%s: answer of %d fields: %w", what, n, err)
	}
	return fmt.Errorf("%s: answer of %d fields", what, n)
}
