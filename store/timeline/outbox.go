package timeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// wrote reports the entry that a script wrote, if any, to the journal's writer. written is "id size changes", and known
// holds the entry's changes without what the context adds. ran is the call.
func (t *Redis) wrote(ran *call, written string, known []record.Change) error {
	if t.cfg.Record == nil || written == "" {
		return nil
	}
	e := record.Entry{Bucket: ran.bucket, Number: ran.number, Changes: known}
	if err := readWritten(written, &e); err != nil {
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

// Reject records that a push is not accepted.
func (t *Redis) Reject(ctx context.Context, r *scheduler.Rejected, now message.Milli) (scheduler.Effect, error) {
	if t.cfg.Record == nil {
		return scheduler.Effect{}, nil
	}
	form := binary.AppendUvarint(append([]byte{rejectedVersion}, r.Digest[:]...), uint64(r.Size))
	for _, s := range [...]string{r.Reason, r.ID, r.Topic} {
		form = appendText(form, s)
	}
	c := &call{bucket: r.UID.Bucket(t.Buckets()), script: "reject", entry: t.context(ctx, 0, now),
		args: []any{string(r.UID), append(form, r.Body...), t.limit()}}
	a := t.run(ctx, c)
	entry := a.text("entry")
	if err := a.done(); err != nil {
		return scheduler.Effect{}, err
	}
	changes := []record.Change{{UID: r.UID, Rejected: r}}
	return t.effect(c, changes), t.wrote(c, entry, changes)
}

// readWritten reads "id size changes".
func readWritten(written string, e *record.Entry) error {
	f := strings.Fields(written)
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

// Unwritten reads entries, oldest first.
func (t *Redis) Unwritten(ctx context.Context, bucket message.Bucket, after string, age message.Milli, limit,
	bytes int) ([]record.Entry, error) {
	c := &call{bucket: bucket, script: "unwritten", args: []any{after, int64(age), limit, bytes}}
	var entries []record.Entry
	a := t.run(ctx, c)
	for a.more() {
		id, fields := a.text("id"), a.list("fields").texts()
		e, err := readEntry(bucket, id, fields)
		if err != nil {
			e = t.damaged(bucket, id, fields, err)
		}
		e.Number = c.number
		entries = append(entries, e)
	}
	return entries, a.done()
}

// Written removes entries.
func (t *Redis) Written(ctx context.Context, bucket message.Bucket, entries []record.Entry) error {
	for len(entries) > 0 {
		n := 1
		for n < min(len(entries), 500) && entries[n].Number == entries[0].Number {
			n++
		}
		args := make([]any, n)
		for i := range args {
			args[i] = fmt.Sprintf("%s %d %d", entries[i].ID, entries[i].Size, entries[i].Count)
		}
		a := t.run(ctx, &call{bucket: bucket, script: "written", args: args, number: entries[0].Number,
			pinned: entries[0].Number > 0})
		if a.count("removed"); a.done() != nil {
			return a.done()
		}
		entries = entries[n:]
	}
	return nil
}

// Quarantine moves an entry from the outbox to the quarantine.
func (t *Redis) Quarantine(ctx context.Context, q record.Quarantined) error {
	known, uids := "0", make([]byte, 0, len(q.UIDs)*message.UIDLen)
	if q.Known {
		known = "1"
	}
	for _, uid := range q.UIDs[:min(len(q.UIDs), record.MaxQuarantinedUIDs)] {
		uids = append(uids, uid...)
	}
	a := t.run(ctx, &call{bucket: q.Bucket, script: "quarantine",
		args:   []any{q.ID, int64(q.At), q.Reason, known, uids, record.MaxQuarantined},
		number: q.Number, pinned: q.Number > 0})
	a.count("moved")
	return a.done()
}

// Quarantined lists the quarantined entries.
func (t *Redis) Quarantined(ctx context.Context, bucket message.Bucket,
	after string) ([]record.Quarantined, string, error) {
	a := t.run(ctx, &call{bucket: bucket, script: "quarantined", args: []any{after, record.QuarantinedPage}})
	next := a.text("next")
	found := make([]record.Quarantined, 0, len(a.values))
	for a.more() {
		f := a.list("entry")
		q := record.Quarantined{Bucket: bucket, ID: f.text("id")}
		at, err := strconv.ParseInt(f.text("at"), 10, 64)
		q.At, q.Reason = message.Milli(at), f.text("why")
		if err != nil {
			q.Reason = "what was kept of it is damaged"
		}
		q.Known = f.text("known") == "1"
		uidsIn(f.text("uids"), func(uid message.UID) { q.UIDs = append(q.UIDs, uid) })
		found = append(found, q)
	}
	return found, next, a.done()
}

// Lags returns the lag of every bucket.
func (t *Redis) Lags(ctx context.Context) ([]record.Lag, error) {
	lags := make([]record.Lag, len(t.keys))
	failed := t.askEach(ctx, t.allBuckets(), "lag", nil, func(bucket message.Bucket, a *answer) error {
		lags[bucket] = record.Lag{Entries: a.count("entries"), Changes: a.counter("changes"),
			Bytes: int64(a.counter("bytes")), Oldest: message.Milli(a.optional("oldest")),
			Quarantined: a.count("quarantined")}
		return a.done()
	}, false)
	for bucket, err := range failed {
		lags[bucket].Err = err
	}
	return lags, nobody(failed)
}
