package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Begin raises the bucket's term.
func (t *Redis) Begin(ctx context.Context, bucket message.Bucket, term uint64) error {
	if err := t.has(bucket); err != nil {
		return err
	}
	if err := t.fits(ctx, bucket); err != nil {
		return err
	}
	return *t.run(ctx, &call{bucket: bucket, script: "begin", args: []any{text(term)}}).err
}

// Sweep moves back to waiting the messages that lower terms, or earlier runs of this term, had claimed.
func (t *Redis) Sweep(ctx context.Context, bucket message.Bucket, term, last uint64, limit int,
	now message.Milli) (int, error) {
	return t.sweep(ctx, bucket, term, limit, text(last), now)
}

func (t *Redis) sweep(ctx context.Context, bucket message.Bucket, term uint64, limit int, which string,
	now message.Milli) (int, error) {
	c := &call{bucket: bucket, script: "sweep", entry: t.context(ctx, term, now),
		args: []any{text(term), limit, which, int64(now)}}
	a := t.run(ctx, c)
	n, entry, changes := a.count("moved"), a.text("entry"), a.list("changes").changes()
	if err := a.done(); err != nil {
		return 0, err
	}
	return n, t.wrote(c, entry, changes)
}

// Claim moves due messages to StateInFlight.
func (t *Redis) Claim(ctx context.Context, bucket message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	term := text(req.Term)
	a := t.run(ctx, &call{bucket: bucket, script: "claim",
		args: []any{term, message.ScoreNow(req.Now), req.Limit, req.Bytes, string(req.Lane), text(req.Number)}})
	claimed := scheduler.Claimed{Head: a.due("head")}
	uids, packed, marks := a.list("uids").uids(), a.list("messages").texts(), a.list("marks").texts()
	claimed.Missing = a.list("missing").uids()
	doubt := a.milli("doubt")
	if len(packed) != len(uids) || len(marks) != len(uids) && len(marks) != 0 {
		a.fail("messages", fmt.Errorf("%d and %d marks of %d uids", len(packed), len(marks), len(uids)))
	}
	if err := a.done(); err != nil {
		return scheduler.Claimed{}, err
	}
	var spoiled []message.UID
	claimed.Messages = make([]*message.Message, 0, len(uids))
	for i, uid := range uids {
		m, err := unpack(uid, packed[i])
		if err == nil && len(marks) > 0 {
			m.Mark, err = unpackMark(marks[i])
			m.Mark.Lane = ""
		}
		if err != nil {
			spoiled = append(spoiled, uid)
			continue
		}
		m.Claim, m.ClaimedAt = req.Number, req.Now
		m.Mark.Uncertain = m.Mark.Uncertain || m.Due <= doubt
		claimed.Messages = append(claimed.Messages, m)
	}
	if len(spoiled) > 0 { // if this fails, they are returned as unknown claims and listed then
		claimed.Missing = append(claimed.Missing, spoiled...)
		t.run(ctx, &call{bucket: bucket, script: "spoiled",
			args: append([]any{term, text(req.Number), int64(req.Now)}, anyOf(spoiled)...)})
	}
	return claimed, nil
}

// Finish ends claimed messages.
func (t *Redis) Finish(ctx context.Context, bucket message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) error {
	if len(ends) == 0 {
		return nil
	}
	topics := topicsOf(len(ends), func(i int) string { return ends[i].Message.Topic })
	args := make([]any, 5, 5+2*len(topics)+4*len(ends))
	args[0], args[1], args[2], args[4] = text(term), int64(now), len(ends), len(topics)
	for topic, n := range topics {
		args = append(args, topic, n)
	}
	first := len(args)
	for i := range ends {
		args = append(args, string(ends[i].Message.UID))
	}
	for i := range ends {
		record, err := packEnd(&ends[i], now)
		if err != nil {
			return err
		}
		args = append(args, args[first+i], record)
	}
	claim := ""
	for i := range ends {
		if n := ends[i].Message.Claim; i == 0 || n != ends[i-1].Message.Claim { // most were claimed together
			claim = text(term) + ":" + text(n)
		}
		args = append(args, claim)
	}
	changes := t.ended(ends)
	args[3] = blobOf(changes)
	return t.settle(ctx, &call{bucket: bucket, script: "finish", entry: t.context(ctx, term, now), args: args},
		changes)
}

// ended returns the changes that a batch of ends makes, or nil if no journal is kept.
func (t *Redis) ended(ends []scheduler.End) []record.Change {
	if t.cfg.Record == nil {
		return nil
	}
	changes := make([]record.Change, len(ends))
	for i := range ends {
		changes[i] = record.Ended(&ends[i])
	}
	return changes
}

// settle runs finish or return. These scripts answer how many messages were settled, which ones if not all, the entry
// they wrote, and any other changes they made.
func (t *Redis) settle(ctx context.Context, c *call, changes []record.Change) error {
	a := t.run(ctx, c)
	settled, some, entry := a.count("settled"), a.text("some"), a.text("entry")
	if settled == 0 {
		changes = nil
	} else if some != "" {
		changes = only(changes, uidSet(some))
	}
	changes = append(changes, a.changes()...)
	if err := a.done(); err != nil {
		return err
	}
	return t.wrote(c, entry, changes)
}

// effect covers the changes of a call. It is zero if no journal is kept.
func (t *Redis) effect(c *call, changes []record.Change) (made scheduler.Effect) {
	if t.cfg.Record == nil || len(changes) == 0 {
		return made
	}
	made.Changes = make([]scheduler.Recorded, len(changes))
	for i := range changes {
		made.Changes[i] = scheduler.Recorded{UID: changes[i].UID, Version: changes[i].Version, Bucket: c.bucket,
			Number: c.number}
	}
	return made
}

// Return releases claimed messages, in their order. If two messages of one name are returned together, the script
// decides which of them ends.
func (t *Redis) Return(ctx context.Context, bucket message.Bucket, term uint64, back []scheduler.Back,
	now message.Milli) error {
	if len(back) == 0 {
		return nil
	}
	args := make([]any, 3, 3+4*len(back))
	var changes []record.Change
	for i := range back {
		b := &back[i]
		score, mark := strconv.FormatInt(b.Score, 10), packMark(b.Mark)
		if b.Keep {
			score, mark = "", "="
		}
		args = append(args, string(b.UID), score, mark, text(b.Claim))
		if b.Message != nil && t.cfg.Record != nil {
			changes = append(changes, record.Returned(b))
		}
	}
	args[0], args[1], args[2] = text(term), int64(now), blobOf(changes)
	return t.settle(ctx, &call{bucket: bucket, script: "return", entry: t.context(ctx, term, now), args: args},
		changes)
}

// Held lists the messages that this term has claimed.
func (t *Redis) Held(ctx context.Context, bucket message.Bucket, term uint64, after message.UID,
	limit int) ([]scheduler.Held, error) {
	return t.held(ctx, bucket, text(term), after, limit)
}

func (t *Redis) held(ctx context.Context, bucket message.Bucket, term string, after message.UID,
	limit int) ([]scheduler.Held, error) {
	a := t.run(ctx, &call{bucket: bucket, script: "held", args: []any{term, string(after), limit}})
	held := make([]scheduler.Held, 0, len(a.values)/2)
	for a.more() {
		held = append(held, scheduler.Held{UID: message.UID(a.text("uid")), Claim: a.number("claim")})
	}
	return held, a.done()
}

// Heads reads the head of every bucket in one pipeline.
func (t *Redis) Heads(ctx context.Context) ([]scheduler.Head, error) {
	heads := make([]scheduler.Head, len(t.keys))
	failed := t.askEach(ctx, t.allBuckets(), "heads", nil, func(bucket message.Bucket, a *answer) error {
		heads[bucket] = scheduler.Head{Due: a.due("due"), Waiting: a.count("waiting"), Claimed: a.count("claimed"),
			Term: a.optional("term"), Over: message.Milli(a.optional("over"))}
		return a.done()
	}, false)
	for bucket, err := range failed {
		heads[bucket].Err = err
	}
	return heads, nobody(failed)
}

// Refused lists the refused transitions.
func (t *Redis) Refused(ctx context.Context, bucket message.Bucket) ([]scheduler.Refusal, error) {
	a := t.run(ctx, &call{bucket: bucket, script: "refused"})
	all := make([]scheduler.Refusal, 0, len(a.values)/2)
	for a.more() {
		r := scheduler.Refusal{UID: message.UID(a.text("uid")), Bucket: bucket}
		step := a.text("step")
		if _, err := fmt.Sscanf(step, "%d:%d:%d:%d", &r.From, &r.To, &r.Kind, &r.At); err != nil {
			a.fail("step", fmt.Errorf("%q of %.40q: %w", step, r.UID, err))
		}
		r.Unreadable = strings.Count(step, ":") > 3
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b scheduler.Refusal) int { return cmp.Compare(a.UID, b.UID) })
	return all, a.done()
}

// Lanes lists the lanes that hold messages.
func (t *Redis) Lanes(ctx context.Context, bucket message.Bucket) (lanes []scheduler.LaneCount, err error) {
	a := t.run(ctx, &call{bucket: bucket, script: "lanes"})
	for a.more() {
		lanes = append(lanes, scheduler.LaneCount{Lane: message.Lane(a.text("lane")), Count: a.count("count"),
			Oldest: a.due("oldest")})
	}
	slices.SortFunc(lanes, func(x, y scheduler.LaneCount) int { return cmp.Compare(x.Lane, y.Lane) })
	return lanes, a.done()
}

// Trim forgets ends and tombstones whose time is over.
func (t *Redis) Trim(ctx context.Context, bucket message.Bucket, term uint64, now message.Milli,
	limit int) (int, error) {
	a := t.run(ctx, &call{bucket: bucket, script: "trim",
		args: []any{text(term), int64(now.Add(-t.cfg.EndedKeep)), limit, int64(now.Add(-t.cfg.TombstoneKeep)),
			(t.cfg.EndedKeep / 2).Milliseconds()}})
	return a.count("forgotten"), a.done()
}

// MaxTerm returns the highest term in the buckets that answer, certified or not: the floor of an election. If a bucket
// that answers later has a higher term, the leadership ends when the bucket is begun. MaxTerm returns an error if no
// bucket answers.
func (t *Redis) MaxTerm(ctx context.Context) (uint64, error) {
	pipe := t.rdb.Pipeline()
	asked := make([]*redis.StringCmd, len(t.keys))
	for i := range t.keys {
		asked[i] = pipe.Get(ctx, t.keys[i].of("term"))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	var highest uint64
	failed := make([]error, len(asked))
	for i, a := range asked {
		failed[i] = translate(a.Err())
		if a.Val() == "" {
			continue
		}
		term, err := strconv.ParseUint(a.Val(), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read terms: bucket %d: %w", i, err)
		}
		highest = max(highest, term)
	}
	if err := nobody(failed); err != nil {
		return 0, fmt.Errorf("read terms: %w", err)
	}
	return highest, nil
}

// text formats a term or a claim's number as the scripts compare it.
func text(n uint64) string { return strconv.FormatUint(n, 10) }
