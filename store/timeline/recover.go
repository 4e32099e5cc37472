package timeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// Recovering is this timeline on the very runs that standings name.
func (t *Redis) Recovering(standings []scheduler.Standing, term, number uint64) scheduler.Recovering {
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

// Claims lists what is in flight.
func (t *Redis) Claims(ctx context.Context, bucket int, after scheduler.UID, limit int) ([]scheduler.UID, error) {
	held, err := t.held(ctx, bucket, "", after, limit)
	uids := make([]scheduler.UID, len(held))
	for i := range held {
		uids[i] = held[i].UID
	}
	return uids, err
}

// Reclaim gives back every claim.
func (t *Redis) Reclaim(ctx context.Context, bucket int, term uint64, limit int, now scheduler.Milli) (int, error) {
	return t.sweep(ctx, bucket, term, limit, "all", now)
}

// Certify writes the certification, and what Prepare had recorded of the
// namespace where the server has lost it.
func (t *Redis) Certify(ctx context.Context, bucket int, term uint64, c scheduler.Certification) error {
	k, err := t.place(bucket)
	if err != nil {
		return err
	}
	if err := t.remember(ctx, k.meta); err != nil {
		return err
	}
	if err := t.remember(ctx, metaKey(t.cfg.Namespace)); err != nil && !errors.Is(err, scheduler.ErrUnavailable) &&
		!errors.Is(err, scheduler.ErrOutcomeUnknown) {
		return err // where its node is away the bucket's copy is enough
	}
	phase := "whole"
	if c.Filling {
		phase = "filling"
	}
	was := &t.certs[bucket].number // in a view it is the one that its standings tell
	_, err = t.scripts.certify.Run(ctx, t.rdb, []string{k.gen, k.term, k.counts, k.trimmed},
		text(term), c.Run, text(c.Number), int64(c.DoubtUntil), phase, text(was.Load()), int64(c.Forgotten)).Result()
	if err == nil && t.home != nil {
		was.Store(c.Number)
		t.home.certs[bucket].gave(c.Number, c.Run)
	}
	return translate(err)
}

// Restore stores what is missing here or has a lower version.
func (t *Redis) Restore(ctx context.Context, bucket int, records []scheduler.Record, read,
	now scheduler.Milli) ([]scheduler.RestoreCode, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	args := make([]any, 4, 4+7*len(records))
	var changes []scheduler.Change
	for i := range records {
		one, changed, err := restoreArgs(&records[i], now)
		if err != nil {
			return nil, err
		}
		args = append(args, one...)
		if changed != nil {
			changes = append(changes, *changed)
		}
	}
	entry := t.context(0, now)
	// Half of the memory is for clocks that differ.
	args[0], args[1], args[2], args[3] = int64(now), k.parked, blobOf(changes), int64(read.Add(-t.cfg.EndedKeep/2))
	c := &call{bucket: bucket, script: t.scripts.restore, entry: entry, args: args,
		keys: []string{k.due, k.msg, k.claimed, k.mark, k.ended, k.name, k.names, k.big, k.dead, k.next,
			k.counts, k.trimmed,
			k.refused, k.lanes}}
	v, err := t.run(ctx, c)
	if err != nil {
		return nil, err
	}
	parts, ok := v.([]any)
	if !ok || len(parts) != 2 {
		return nil, errAnswer("restore", len(parts), nil)
	}
	words, err := texts(parts[0])
	if err != nil || len(words) != len(records) {
		return nil, errAnswer("restore", len(words), err)
	}
	codes := make([]scheduler.RestoreCode, len(words))
	stored := map[scheduler.UID]bool{}
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n > int(scheduler.RestoreNewer) {
			return nil, fmt.Errorf("restore: code %q", w)
		}
		codes[i] = scheduler.RestoreCode(n)
		stored[records[i].UID] = codes[i] == scheduler.RestoreAdded || codes[i] == scheduler.RestoreRaised
	}
	told, _ := parts[1].(string)
	return codes, t.wrote(c, told, only(changes, stored))
}

// restoreArgs are one record as restore.lua takes it, and the change that the
// restore itself is, if any.
func restoreArgs(r *scheduler.Record, now scheduler.Milli) ([]any, *scheduler.Change, error) {
	m := r.Message
	name := ""
	if m.ID != "" {
		name = nameArg(&m)
	}
	if r.State.Ended() {
		end, err := packEnded(&scheduler.End{Message: &m, State: r.State, Uncertain: r.Mark.Uncertain,
			Kind: r.Kind, Other: r.Other, Reason: r.Reason}, r.EndedAt, uint32(r.Version))
		return []any{string(m.UID), end, "", "", text(r.Version), text(r.Version), name}, nil, err
	}
	m.Mark = scheduler.Mark{Uncertain: r.Mark.Uncertain, Refusals: r.Mark.Refusals, Changes: uint32(r.Version - 1)}
	var changed *scheduler.Change
	if m.Due <= now && !m.Mark.Uncertain {
		m.Mark.Uncertain = true
		m.Mark.Changes++
		changed = &scheduler.Change{UID: m.UID, Version: m.Version(), State: scheduler.StateWaiting, Due: m.Due,
			Uncertain: true, Refusals: m.Mark.Refusals, Kind: scheduler.KindRestored,
			Reason: scheduler.KindRestored.Words("", true)}
	}
	packed, err := pack(nil, &m)
	return []any{string(m.UID), packed, m.Score(), packMark(m.Mark), text(r.Version), text(m.Version()),
		name}, changed, err
}

// Versions returns how messages stand.
func (t *Redis) Versions(ctx context.Context, bucket int,
	uids []scheduler.UID) (map[scheduler.UID]scheduler.Stand, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	args := make([]any, 1+len(uids))
	args[0] = k.parked
	for i, uid := range uids {
		args[1+i] = string(uid)
	}
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.versions, args: args,
		keys: []string{k.msg, k.mark, k.claimed, k.due}})
	if err != nil {
		return nil, err
	}
	found, err := texts(v)
	if err != nil || len(found) != len(uids) {
		return nil, errAnswer("versions", len(found), err)
	}
	stands := make(map[scheduler.UID]scheduler.Stand, len(uids))
	for i, f := range found {
		state, version, _ := strings.Cut(f, " ")
		n, err1 := strconv.Atoi(state)
		count, err2 := strconv.ParseUint(version, 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("versions: answer %q", f)
		}
		if n != 0 {
			stands[uids[i]] = scheduler.Stand{State: scheduler.State(n), Version: count}
		}
	}
	return stands, nil
}

// Walk goes through the orders that hold messages which have not ended: due,
// the dead, claimed, then each lane. The cursor names the order and the place
// in it.
func (t *Redis) Walk(ctx context.Context, bucket int, cursor string, limit int) ([]scheduler.UID, string, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, "", err
	}
	at, where, _ := strings.Cut(cursor, "/") // a lane's name may hold anything
	from, _ := strconv.ParseUint(at, 10, 64)
	var found []string
	var next uint64
	step := 2 // a ZSET's members come with their scores
	switch {
	case where == "" || where == "due":
		where = "due"
		found, next, err = t.rdb.ZScan(ctx, k.due, from, "", int64(limit)).Result()
	case where == "dead":
		found, next, err = t.rdb.ZScan(ctx, k.dead, from, "", int64(limit)).Result()
	case where == "claimed":
		found, next, err = t.rdb.HScan(ctx, k.claimed, from, "", int64(limit)).Result()
	default:
		found, next, err = t.rdb.ZScan(
			ctx, k.parked+strings.TrimPrefix(where, "lane:"), from, "", int64(limit)).Result()
	}
	if err = translate(err); err != nil {
		return nil, "", err
	}
	uids := make([]scheduler.UID, 0, len(found)/step)
	for i := 0; i < len(found); i += step {
		if found[i] != "" { // the field of claimed that is no claim
			uids = append(uids, scheduler.UID(found[i]))
		}
	}
	if next != 0 {
		return uids, strconv.FormatUint(next, 10) + "/" + where, nil
	}
	after, err := t.walkAfter(ctx, bucket, where)
	return uids, after, err
}

// walkAfter names the order that a walk goes to next, empty after the last.
func (t *Redis) walkAfter(ctx context.Context, bucket int, where string) (string, error) {
	switch where {
	case "due":
		return "0/dead", nil
	case "dead":
		return "0/claimed", nil
	}
	lanes, err := t.Lanes(ctx, bucket)
	if err != nil {
		return "", err
	}
	for _, lane := range lanes { // sorted
		if where == "claimed" || lane > strings.TrimPrefix(where, "lane:") {
			return "0/lane:" + lane, nil
		}
	}
	return "", nil
}
