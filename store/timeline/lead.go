package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Begin raises the bucket's term.
func (t *Redis) Begin(ctx context.Context, bucket int, term uint64) error {
	k, err := t.place(bucket)
	if err != nil {
		return err
	}
	_, err = t.run(ctx, t.scripts.begin, []string{k.term}, text(term))
	return err
}

// Sweep moves what lower terms had claimed back.
func (t *Redis) Sweep(ctx context.Context, bucket int, term uint64, limit int) (int, error) {
	k, err := t.place(bucket)
	if err != nil {
		return 0, err
	}
	v, err := t.run(ctx, t.scripts.sweep, []string{k.claimed, k.due, k.msg, k.term, k.mark}, text(term), limit)
	return count(v, err)
}

// Claim moves due messages to in_flight.
func (t *Redis) Claim(ctx context.Context, bucket int, req scheduler.Claim) (scheduler.Claimed, error) {
	k, err := t.place(bucket)
	if err != nil {
		return scheduler.Claimed{}, err
	}
	v, err := t.run(ctx, t.scripts.claim, []string{k.source(req.Lane), k.msg, k.claimed, k.term, k.mark, k.lanes, k.big},
		text(req.Term), scheduler.ScoreNow(req.Now), req.Limit, req.Bytes, req.Lane, text(req.Number))
	if err != nil {
		return scheduler.Claimed{}, err
	}
	answer, ok := v.([]any)
	if !ok || len(answer) != 5 {
		return scheduler.Claimed{}, fmt.Errorf("claim: answer %T of %d parts", v, len(answer))
	}
	score, _ := answer[0].(string)
	uids, err1 := texts(answer[1])
	packed, err2 := texts(answer[2])
	marks, err3 := texts(answer[3])
	missing, err4 := texts(answer[4])
	head, err5 := headOf(score)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return scheduler.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	claimed := scheduler.Claimed{Head: head, Messages: make([]*scheduler.Message, 0, len(uids))}
	for _, uid := range missing {
		claimed.Missing = append(claimed.Missing, scheduler.UID(uid))
	}
	for i, uid := range uids {
		m, err := unpack(scheduler.UID(uid), packed[i])
		if err == nil && len(marks) > 0 {
			m.Mark, err = unpackMark(marks[i])
			m.Mark.Lane = ""
		}
		if err != nil {
			// It stays claimed and visible; taking the whole batch down with it would hold the rest back.
			claimed.Missing = append(claimed.Missing, scheduler.UID(uid))
			continue
		}
		m.Claim = req.Number
		claimed.Messages = append(claimed.Messages, m)
	}
	return claimed, nil
}

// Finish ends claimed messages.
func (t *Redis) Finish(ctx context.Context, bucket int, term uint64, ends []scheduler.End, now scheduler.Milli) error {
	k, err := t.place(bucket)
	if err != nil {
		return err
	}
	if len(ends) == 0 {
		return nil
	}
	args := make([]any, 3, 3+3*len(ends))
	args[0], args[1], args[2] = text(term), int64(now), len(ends)
	for i := range ends {
		args = append(args, string(ends[i].Message.UID))
	}
	for i := range ends {
		if s := ends[i].State; !s.Ended() || !scheduler.StateInFlight.Can(s) {
			return fmt.Errorf("finish %s: in_flight does not end as %s", ends[i].Message.UID, s)
		}
		record, err := packEnd(&ends[i], now)
		if err != nil {
			return err
		}
		args = append(args, args[3+i], record)
	}
	_, err = t.run(ctx, t.scripts.finish, []string{k.claimed, k.msg, k.ended, k.term, k.mark, k.dead}, args...)
	return err
}

// Return gives claimed messages back, one script a destination.
func (t *Redis) Return(ctx context.Context, bucket int, term uint64, back []scheduler.Back) error {
	k, err := t.place(bucket)
	if err != nil {
		return err
	}
	byLane := map[string][]any{}
	for _, b := range back {
		lane, score, mark := b.Mark.Lane, strconv.FormatInt(b.Score, 10), packMark(b.Mark)
		if b.Keep {
			lane, score, mark = "", "", "="
		}
		byLane[lane] = append(byLane[lane], string(b.UID), score, mark, text(b.Claim))
	}
	for lane, entries := range byLane {
		args := append([]any{text(term), lane}, entries...)
		if _, err := t.run(ctx, t.scripts.giveBack, []string{k.claimed, k.source(lane), k.term, k.mark, k.lanes, k.msg}, args...); err != nil {
			return err
		}
	}
	return nil
}

// Held lists what this term has claimed.
func (t *Redis) Held(ctx context.Context, bucket int, term uint64, after scheduler.UID, limit int) ([]scheduler.Held, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	v, err := t.run(ctx, t.scripts.held, []string{k.claimed, k.term}, text(term), string(after), limit)
	if err != nil {
		return nil, err
	}
	fields, err := texts(v)
	if err != nil || len(fields)%2 != 0 {
		return nil, fmt.Errorf("held: answer of %d fields: %w", len(fields), err)
	}
	held := make([]scheduler.Held, len(fields)/2)
	for i := range held {
		held[i].UID = scheduler.UID(fields[2*i])
		if held[i].Claim, err = strconv.ParseUint(fields[2*i+1], 10, 64); err != nil {
			return nil, fmt.Errorf("held: claim of %s: %w", held[i].UID, err)
		}
	}
	return held, nil
}

// Heads looks at every bucket in one pipeline.
func (t *Redis) Heads(ctx context.Context) ([]scheduler.Head, error) {
	pipe := t.rdb.Pipeline()
	type answers struct {
		first            *redis.ZSliceCmd
		waiting, claimed *redis.IntCmd
		term             *redis.StringCmd
	}
	asked := make([]answers, len(t.keys))
	for i := range t.keys {
		k := &t.keys[i]
		asked[i] = answers{pipe.ZRangeWithScores(ctx, k.due, 0, 0), pipe.ZCard(ctx, k.due), pipe.HLen(ctx, k.claimed), pipe.Get(ctx, k.term)}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, translate(err)
	}
	heads := make([]scheduler.Head, len(t.keys))
	for i, a := range asked {
		if err := errors.Join(a.first.Err(), a.waiting.Err(), a.claimed.Err()); err != nil {
			return nil, translate(err)
		}
		if first := a.first.Val(); len(first) > 0 {
			heads[i].Due = max(scheduler.ScoreDue(int64(first[0].Score)), 1)
		}
		heads[i].Waiting, heads[i].Claimed = int(a.waiting.Val()), max(int(a.claimed.Val())-1, 0) // less the one field that is no claim
		if a.term.Val() != "" {
			term, err := strconv.ParseUint(a.term.Val(), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("heads: term of bucket %d: %w", i, err)
			}
			heads[i].Term = term
		}
	}
	return heads, nil
}

// Lanes lists the lanes that hold messages.
func (t *Redis) Lanes(ctx context.Context, bucket int) ([]string, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	v, err := t.run(ctx, t.scripts.lanes, []string{k.lanes}, k.parked)
	if err != nil {
		return nil, err
	}
	lanes, err := texts(v)
	slices.Sort(lanes)
	return lanes, err
}

// Trim forgets ends and tombstones past their time.
func (t *Redis) Trim(ctx context.Context, bucket int, term uint64, now scheduler.Milli, limit int) (int, error) {
	k, err := t.place(bucket)
	if err != nil {
		return 0, err
	}
	v, err := t.run(ctx, t.scripts.trim, []string{k.ended, k.msg, k.name, k.term, k.tomb, k.tombs, k.names},
		text(term), int64(now.Add(-t.cfg.EndedKeep)), limit, int64(now.Add(-t.cfg.TombstoneKeep)))
	return count(v, err)
}

// MaxTerm is the highest term that any bucket knows: the floor of an election.
func (t *Redis) MaxTerm(ctx context.Context) (uint64, error) {
	heads, err := t.Heads(ctx)
	if err != nil {
		return 0, fmt.Errorf("read terms: %w", err)
	}
	var term uint64
	for _, h := range heads {
		term = max(term, h.Term)
	}
	return term, nil
}

// text is a term or a claim's number as the scripts compare it.
func text(n uint64) string { return strconv.FormatUint(n, 10) }

func count(v any, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("redis: answer is %T, want a number", v)
	}
	return int(n), nil
}

func uidList(v any) ([]scheduler.UID, error) {
	list, err := texts(v)
	if err != nil {
		return nil, err
	}
	uids := make([]scheduler.UID, len(list))
	for i, s := range list {
		uids[i] = scheduler.UID(s)
	}
	return uids, nil
}
