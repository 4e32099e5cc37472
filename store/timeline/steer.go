package timeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Cancel ends a waiting message, by its uid or its exact name.
func (t *Redis) Cancel(ctx context.Context, ref scheduler.Ref, now message.Milli) (scheduler.CancelResult, error) {
	bucket, args := ref.UID.Bucket(t.Buckets()), []any{string(ref.UID), int64(now)}
	if ref.UID == "" {
		bucket, args = t.bucketsOf(ref)[0], append(args, ref.ID, ref.Topic, ref.Key)
	}
	c := &call{bucket: bucket, script: "cancel", entry: t.context(ctx, 0, now), args: args}
	a := t.run(ctx, c)
	code := scheduler.CancelCode(a.code("code", int(scheduler.CancelEnded)))
	packed, mark, entry, uid := a.text("record"), a.text("mark"), a.text("entry"), message.UID(a.text("uid"))
	if err := a.done(); err != nil {
		return scheduler.CancelResult{}, err
	}
	result := scheduler.CancelResult{Code: code, Number: c.number}
	if packed != "" {
		var err error
		if result.Info, err = unpackInfo(uid, packed, code == scheduler.CancelInFlight, mark); err != nil {
			return scheduler.CancelResult{}, fmt.Errorf("cancel: %w", err)
		}
	}
	return result, t.wrote(c, entry, []record.Change{endedAs(&result.Info)})
}

// Bury leaves tombstones where the id names no message.
func (t *Redis) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64,
	now message.Milli) ([]message.UID, error) {
	var found []message.UID
	full, laid := false, false
	args := []any{ref.ID, ref.Topic, keyArg(ref), ref.Key, text(sequence), int64(now), t.cfg.TombstoneLimit,
		scheduler.MaxNamesOfID, int64(now.Add(-t.cfg.TombstoneKeep))}
	failed := t.askEach(ctx, t.bucketsOf(ref), "bury", args, func(_ message.Bucket, a *answer) error {
		uids := a.uids()
		if len(uids) == 1 && uids[0] == "many" {
			return errManyNames
		}
		if len(uids) == 1 && uids[0] == "full" {
			full = true
			return nil
		}
		laid = laid || len(uids) == 0
		found = append(found, uids...)
		return a.done()
	}, false)
	err := cmp.Or(failed...)
	for _, one := range failed {
		if errors.Is(one, scheduler.ErrOutcomeUnknown) {
			err = one
		}
	}
	if err == nil && full && len(found) == 0 {
		err = scheduler.ManyTombstones(laid)
	}
	if laid {
		err = scheduler.Unsure("a tombstone is left in some buckets", err)
	}
	return found, err
}

// Amend changes a waiting message, by its uid or its exact name.
func (t *Redis) Amend(ctx context.Context, a scheduler.Amend, now message.Milli) (scheduler.AmendResult, error) {
	var content []byte
	if a.Message != nil {
		packed, err := pack(nil, a.Message)
		if err != nil {
			return scheduler.AmendResult{}, err
		}
		content = packed[binary.BigEndian.Uint16(packed[11:]):]
	}
	due := binary.BigEndian.AppendUint64(nil, uint64(a.Due))
	bucket, version, place := a.UID.Bucket(t.Buckets()), text(a.Version), append([]byte{a.Priority}, due...)
	if a.UID == "" {
		bucket, version, place = t.bucketsOf(a.Named)[0], "", due
	}
	reason := a.Reason[:min(len(a.Reason), maxText-2)] // leaves room for a kind without another message
	c := &call{bucket: bucket, script: "amend", entry: t.context(ctx, 0, now),
		args: []any{string(a.UID), version, place, packCause(message.KindPlain, "", reason, false), content, t.limit()}}
	if a.UID == "" {
		c.args = append(c.args, a.Named.ID, a.Named.Topic, a.Named.Key)
	}
	f := t.run(ctx, c)
	result := scheduler.AmendResult{Code: scheduler.AmendCode(f.code("code", int(scheduler.AmendTried))),
		Number: c.number}
	packed, mark := f.text("record"), f.text("mark")
	result.Earlier = f.earlier()
	entry, uid := f.text("entry"), message.UID(f.text("uid"))
	if packed != "" {
		var err error
		result.Info, err = unpackInfo(uid, packed, result.Code == scheduler.AmendInFlight, mark)
		f.fail("record", err)
	}
	i := &result.Info
	change := record.Change{UID: uid, Version: i.Version, State: message.StateWaiting, Due: i.Due,
		Refusals: i.Mark.Refusals, Reason: reason}
	if a.Message != nil && entry != "" {
		var err error
		change.Message, err = unpack(uid, packed+string(content))
		f.fail("record", err)
	}
	if err := f.done(); err != nil {
		return scheduler.AmendResult{}, err
	}
	return result, t.wrote(c, entry, []record.Change{change})
}

// Requeue makes a message wait again as a new message.
func (t *Redis) Requeue(ctx context.Context, old message.UID, waits uint64, m *message.Message,
	now message.Milli) (scheduler.RequeueResult, error) {
	bucket := old.Bucket(t.Buckets())
	if at := m.UID.Bucket(t.Buckets()); at != bucket {
		return scheduler.RequeueResult{}, fmt.Errorf("requeue %s of bucket %d as %s: it belongs to %d", old,
			bucket, m.UID, at)
	}
	packed, err := pack(nil, m)
	if err != nil {
		return scheduler.RequeueResult{}, err
	}
	c := &call{bucket: bucket, script: "requeue", entry: t.context(ctx, 0, now),
		args: []any{string(old), int64(now), string(m.UID), packed, t.limit(), text(waits)}}
	a := t.run(ctx, c)
	result := scheduler.RequeueResult{Code: scheduler.RequeueCode(a.code("code", int(scheduler.RequeueTaken))),
		Number: c.number}
	if result.Code == scheduler.RequeueUnknown {
		return result, *a.err
	}
	result.Info, err = a.info()
	a.fail("message", err)
	var changes []record.Change
	if packed := a.text("old"); packed != "" {
		info, err := unpackInfo(old, packed, false, "")
		a.fail("old", err)
		result.Old = info.Version
		life := accepted(m)
		life.Uncertain, life.Kind, life.Other = info.Mark.Uncertain, message.KindRequeue, old
		life.Reason = life.Kind.Words(old, life.Uncertain)
		changes = []record.Change{endedAs(&info), life}
	}
	result.Earlier = a.earlier()
	entry := a.text("entry")
	if err := a.done(); err != nil {
		return scheduler.RequeueResult{}, err
	}
	return result, t.wrote(c, entry, changes)
}

// purgeStep is how many messages one call purges.
const purgeStep = 500

// Purge removes the content of dead messages and ends them for good.
func (t *Redis) Purge(ctx context.Context, bucket message.Bucket, uids []message.UID,
	now message.Milli) (purged []message.UID, number uint64, err error) {
	for first := true; first || len(uids) > 0; first = false {
		step := uids[:min(len(uids), purgeStep)]
		uids = uids[len(step):]
		c := &call{bucket: bucket, script: "purge", entry: t.context(ctx, 0, now),
			args: append([]any{int64(now)}, anyOf(step)...)}
		a := t.run(ctx, c)
		entry, done := a.text("entry"), a.list("purged").uids()
		changes := a.list("changes").changes()
		if err := a.done(); err != nil {
			return nil, 0, err
		}
		if err := t.wrote(c, entry, changes); err != nil {
			return nil, 0, err
		}
		purged, number = append(purged, done...), c.number
	}
	return purged, number, nil
}
