package timeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/tarry-mq/tarry/scheduler"
)

// Amend changes the waiting message with this uid.
func (t *Redis) Amend(ctx context.Context, a scheduler.Amend, now scheduler.Milli) (scheduler.AmendResult, error) {
	bucket := a.UID.Bucket(len(t.keys))
	k := &t.keys[bucket]
	head := scheduler.Message{Due: a.Due, Priority: a.Priority} // what of it has a place in the order
	var content []byte
	if a.Message != nil {
		packed, err := pack(nil, a.Message)
		if err != nil {
			return scheduler.AmendResult{}, err
		}
		content = packed[binary.BigEndian.Uint16(packed[11:]):]
	}
	reason := a.Reason[:min(len(a.Reason), maxText-2)] // beside a kind and no other message
	c := &call{bucket: bucket, script: t.scripts.amend, entry: t.context(0, now),
		keys: []string{k.due, k.msg, k.claimed, k.mark, k.big},
		args: []any{string(a.UID), k.parked, text(a.Version), head.Score(),
			binary.BigEndian.AppendUint64([]byte{a.Priority}, uint64(a.Due)),
			packCause(scheduler.KindPlain, "", reason, false), content}}
	v, err := t.run(ctx, c)
	if err != nil {
		return scheduler.AmendResult{}, err
	}
	f, err := texts(v)
	if err != nil || len(f) != 5 {
		return scheduler.AmendResult{}, errAnswer("amend", len(f), err)
	}
	code, err := strconv.Atoi(f[0])
	if err != nil || code < 0 || code > int(scheduler.AmendVersion) {
		return scheduler.AmendResult{}, fmt.Errorf("amend: answer %q", f[0])
	}
	result := scheduler.AmendResult{Code: scheduler.AmendCode(code), Number: c.number}
	if f[1] != "" {
		if result.Info, err = unpackInfo(a.UID, f[1], result.Code == scheduler.AmendInFlight, f[2]); err != nil {
			return scheduler.AmendResult{}, fmt.Errorf("amend: %w", err)
		}
	}
	if result.Head, err = headOf(f[3]); err != nil {
		return scheduler.AmendResult{}, fmt.Errorf("amend: %w", err)
	}
	i := &result.Info
	change := scheduler.Change{UID: a.UID, Version: i.Version, State: scheduler.StateWaiting, Due: i.Due,
		Refusals: i.Mark.Refusals, Reason: reason}
	if a.Message != nil && f[4] != "" {
		if change.Message, err = unpack(a.UID, f[1]+string(content)); err != nil {
			return scheduler.AmendResult{}, fmt.Errorf("amend: %w", err)
		}
	}
	return result, t.wrote(c, f[4], []scheduler.Change{change})
}
