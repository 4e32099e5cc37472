package timeline

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Recovering returns a view of this timeline that runs only on the data sets that standings name.
func (t *Redis) Recovering(standings []record.Standing, term, number uint64) record.Recovering {
	view := &Redis{cfg: t.cfg, rdb: t.rdb, scripts: t.scripts, keys: t.keys, certs: make([]certificate, len(t.keys)),
		home: t, term: term, giving: number}
	for i := range view.certs {
		view.certs[i].number.Store(standings[i].Number)
		if !standings[i].Whole() {
			view.certs[i].forced = "!" + standings[i].Now
		}
	}
	return view
}

// Claims lists the messages in flight.
func (t *Redis) Claims(ctx context.Context, bucket message.Bucket, after message.UID,
	limit int) ([]message.UID, error) {
	held, err := t.held(ctx, bucket, "", after, limit)
	uids := make([]message.UID, len(held))
	for i := range held {
		uids[i] = held[i].UID
	}
	return uids, err
}

// Reclaim returns every claimed message to waiting.
func (t *Redis) Reclaim(ctx context.Context, bucket message.Bucket, term uint64, limit int,
	now message.Milli) (int, error) {
	n, err := t.sweep(ctx, bucket, term, limit, "all", now)
	return n, err
}

// Certify writes the certification, and what Prepare had recorded of the namespace if the server has lost it.
func (t *Redis) Certify(ctx context.Context, bucket message.Bucket, term uint64, c record.Certification) error {
	if err := t.has(bucket); err != nil {
		return err
	}
	if err := t.remember(ctx, t.keys[bucket].of("meta")); err != nil {
		return err
	}
	if err := t.remember(ctx, metaKey(t.cfg.Namespace)); err != nil && !errors.Is(err, scheduler.ErrUnavailable) &&
		!errors.Is(err, scheduler.ErrOutcomeUnknown) {
		return err // if that key's node is away, the bucket's copy suffices
	}
	phase := "whole"
	if c.Filling {
		phase = "filling"
	}
	doubt := c.DoubtUntil
	if t.sync() {
		doubt = 0
	}
	was := &t.certs[bucket].number // in a view, the number is that of its standings
	err := *t.run(ctx, &call{bucket: bucket, script: "certify", args: []any{text(term), c.Run, text(c.Number),
		int64(c.DoubtUntil), phase, text(was.Load()), int64(c.Forgotten), int64(doubt)}}).err
	if err == nil && t.home != nil {
		was.Store(c.Number)
		t.home.certs[bucket].adopt(c.Number, c.Run)
	}
	return err
}

// Restore stores the records that are missing here or have a lower version here.
func (t *Redis) Restore(ctx context.Context, bucket message.Bucket, records []record.Record, read,
	now message.Milli) ([]record.RestoreCode, error) {
	args := make([]any, 3, 3+6*len(records))
	var changes []record.Change
	for i := range records {
		one, changed, err := t.restoreArgs(&records[i], now)
		if err != nil {
			return nil, err
		}
		args = append(args, one...)
		if changed != nil {
			changes = append(changes, *changed)
		}
	}
	// Half of the retention allows for clocks that differ.
	args[0], args[1], args[2] = int64(now), blobOf(changes), int64(read.Add(-t.cfg.EndedKeep/2))
	c := &call{bucket: bucket, script: "restore", entry: t.context(ctx, 0, now), args: args}
	a := t.run(ctx, c)
	list := a.list("codes")
	codes := make([]record.RestoreCode, len(records))
	stored := map[message.UID]bool{}
	for i := range codes {
		codes[i] = record.RestoreCode(list.code("code", int(record.RestoreNewer)))
		stored[records[i].UID] = codes[i] == record.RestoreAdded || codes[i] == record.RestoreRaised
	}
	entry := a.text("entry")
	if err := cmp.Or(list.done(), a.done()); err != nil {
		return nil, err
	}
	return codes, t.wrote(c, entry, only(changes, stored))
}

// restoreArgs returns one record as restore.lua reads it, and the change that the restore itself makes, if any.
func (t *Redis) restoreArgs(r *record.Record, now message.Milli) ([]any, *record.Change, error) {
	m := r.Message
	name := ""
	if m.ID != "" {
		name = nameArg(&m)
	}
	if r.State.Ended() {
		end, err := packEnded(&scheduler.End{Message: &m, State: r.State, Uncertain: r.Mark.Uncertain,
			Kind: r.Kind, Other: r.Other, Reason: r.Reason}, r.EndedAt, uint32(r.Version))
		return []any{string(m.UID), end, "", text(r.Version), text(r.Version), name}, nil, err
	}
	m.Mark = message.Mark{Uncertain: r.Mark.Uncertain, Refusals: r.Mark.Refusals,
		Changes: uint32(r.Version - 1)}
	// It may have been released after a lease that the journal does not know, and moved since.
	m.Mark.Handed = m.Pull && (m.Due <= now || r.Version > 1)
	var changed *record.Change
	if (m.Due <= now && !(m.Pull && t.sync()) || r.Doubt) && !m.Mark.Uncertain {
		m.Mark.Uncertain = true
		m.Mark.Changes++
		changed = &record.Change{UID: m.UID, Version: m.Version(), State: message.StateWaiting, Due: m.Due,
			Uncertain: true, Refusals: m.Mark.Refusals, Kind: message.KindRestored,
			Reason: message.KindRestored.Words("", true)}
	}
	packed, err := pack(nil, &m)
	return []any{string(m.UID), packed, packMark(m.Mark), text(r.Version), text(m.Version()), name}, changed, err
}

// Versions returns the states and versions of messages.
func (t *Redis) Versions(ctx context.Context, bucket message.Bucket,
	uids []message.UID) (map[message.UID]record.Stand, error) {
	a := t.run(ctx, &call{bucket: bucket, script: "versions", args: anyOf(uids)})
	stands := make(map[message.UID]record.Stand, len(uids))
	for _, uid := range uids {
		w := a.words("stand", 2)
		s := record.Stand{State: message.State(w.code("state", math.MaxUint8)), Version: w.number("version")}
		if s.State != message.StateNone {
			stands[uid] = s
		}
	}
	return stands, a.done()
}

// Walk walks through the orders that hold messages that have not ended: due, the dead, claimed, those for pull, the
// leases, then each lane. The
// cursor names the order and the place in it.
func (t *Redis) Walk(ctx context.Context, bucket message.Bucket, cursor string,
	limit int) ([]message.UID, string, error) {
	if err := t.has(bucket); err != nil {
		return nil, "", err
	}
	k := t.keys[bucket]
	at, where, _ := strings.Cut(cursor, "/") // a lane's name may hold any character
	from, _ := strconv.ParseUint(at, 10, 64)
	where = cmp.Or(where, "due")
	key, scan, step := k.of(where), t.rdb.ZScan, 2 // members are followed by their scores
	if lane, is := strings.CutPrefix(where, "lane:"); is {
		key = k.parked(lane)
	} else if where == "claimed" || where == "lease" {
		scan = t.rdb.HScan
	}
	found, next, err := scan(ctx, key, from, "", int64(limit)).Result()
	if err = translate(err); err != nil {
		return nil, "", err
	}
	uids := make([]message.UID, 0, len(found)/step)
	for i := 0; i < len(found); i += step {
		if found[i] != "" { // the nameless field of claimed and lease
			uids = append(uids, message.UID(found[i]))
		}
	}
	if next != 0 {
		return uids, strconv.FormatUint(next, 10) + "/" + where, nil
	}
	after, err := t.walkAfter(ctx, bucket, where)
	return uids, after, err
}

// walkAfter returns the cursor of the order after where, or "" after the last.
func (t *Redis) walkAfter(ctx context.Context, bucket message.Bucket, where string) (string, error) {
	switch where {
	case "due":
		return "0/dead", nil
	case "dead":
		return "0/claimed", nil
	case "claimed":
		return "0/pull", nil
	case "pull":
		return "0/lease", nil
	}
	lanes, err := t.Lanes(ctx, bucket)
	if err != nil {
		return "", err
	}
	for _, l := range lanes { // sorted
		if where == "lease" || string(l.Lane) > strings.TrimPrefix(where, "lane:") {
			return "0/lane:" + string(l.Lane), nil
		}
	}
	return "", nil
}
