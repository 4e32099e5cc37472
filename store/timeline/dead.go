package timeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tarry-mq/tarry/scheduler"
)

// Requeue gives what is dead another life.
func (t *Redis) Requeue(ctx context.Context, dead scheduler.UID, m *scheduler.Message,
	now scheduler.Milli) (scheduler.RequeueResult, error) {
	bucket := dead.Bucket(len(t.keys))
	if at := m.UID.Bucket(len(t.keys)); at != bucket {
		return scheduler.RequeueResult{}, fmt.Errorf("requeue %s of bucket %d as %s: it belongs to %d", dead,
			bucket, m.UID, at)
	}
	k := &t.keys[bucket]
	packed, err := pack(nil, m)
	if err != nil {
		return scheduler.RequeueResult{}, err
	}
	c := &call{bucket: bucket, script: t.scripts.requeue, entry: t.context(0, now),
		keys: []string{k.due, k.msg, k.claimed, k.mark, k.ended, k.dead, k.name, k.names, k.big, k.counts},
		args: []any{string(dead), int64(now), string(m.UID), m.Score(), packed}}
	v, err := t.run(ctx, c)
	if err != nil {
		return scheduler.RequeueResult{}, err
	}
	f, err := texts(v)
	if err != nil || len(f) != 8 {
		return scheduler.RequeueResult{}, errAnswer("requeue", len(f), err)
	}
	code, err := strconv.Atoi(f[0])
	if err != nil || code < 0 || code > int(scheduler.RequeueNamed) {
		return scheduler.RequeueResult{}, fmt.Errorf("requeue: answer %q", f[0])
	}
	result := scheduler.RequeueResult{Code: scheduler.RequeueCode(code), Number: c.number}
	if f[1] != "" {
		if result.Info, err = unpackInfo(scheduler.UID(f[1]), f[2], f[3] != "", f[4]); err != nil {
			return scheduler.RequeueResult{}, fmt.Errorf("requeue: %w", err)
		}
	}
	var changes []scheduler.Change
	if f[5] != "" {
		info, err := unpackInfo(dead, f[5], false, "")
		if err != nil {
			return scheduler.RequeueResult{}, fmt.Errorf("requeue: %w", err)
		}
		result.Dead = info.Version
		life := accepted(m)
		life.Uncertain, life.Kind, life.Other = info.Mark.Uncertain, scheduler.KindRequeue, dead
		life.Reason = life.Kind.Words(dead, life.Uncertain)
		changes = []scheduler.Change{endedAs(&info), life}
	}
	if result.Head, err = headOf(f[6]); err != nil {
		return scheduler.RequeueResult{}, fmt.Errorf("requeue: %w", err)
	}
	return result, t.wrote(c, f[7], changes)
}

// purgeStep is how many messages one script purges.
const purgeStep = 500

// Purge ends dead messages for good.
func (t *Redis) Purge(ctx context.Context, bucket int, uids []scheduler.UID,
	now scheduler.Milli) (purged []scheduler.UID, number uint64, err error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, 0, err
	}
	for first := true; first || len(uids) > 0; first = false {
		step := uids[:min(len(uids), purgeStep)]
		uids = uids[len(step):]
		args := make([]any, 1, 1+len(step))
		args[0] = int64(now)
		for _, uid := range step {
			args = append(args, string(uid))
		}
		c := &call{bucket: bucket, script: t.scripts.purge, entry: t.context(0, now), args: args,
			keys: []string{k.dead, k.msg, k.ended, k.counts}}
		done, err := t.purge(ctx, c)
		if err != nil {
			return nil, 0, err
		}
		purged, number = append(purged, done...), c.number
	}
	return purged, number, nil
}

func (t *Redis) purge(ctx context.Context, c *call) ([]scheduler.UID, error) {
	v, err := t.run(ctx, c)
	if err != nil {
		return nil, err
	}
	parts, ok := v.([]any)
	if !ok || len(parts) != 3 {
		return nil, errAnswer("purge", len(parts), nil)
	}
	told, _ := parts[0].(string)
	purged, err := uidList(parts[1])
	if err != nil {
		return nil, errAnswer("purge", len(purged), err)
	}
	pairs, err := texts(parts[2])
	if err != nil {
		return nil, errAnswer("purge", len(pairs), err)
	}
	changes, err := readPairs(pairs)
	if err != nil {
		return nil, fmt.Errorf("purge: %w", err)
	}
	return purged, t.wrote(c, told, changes)
}
