package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Begin raises the bucket's term.
func (t *Redis) Begin(ctx context.Context, bucket int, term uint64) error {
	k, err := t.place(bucket)
	if err != nil {
		return err
	}
	_, err = t.run(ctx, &call{bucket: bucket, script: t.scripts.begin, keys: []string{k.term}, args: []any{text(term)}})
	return err
}

// Sweep moves what lower terms, and earlier runs of this one, had claimed back.
func (t *Redis) Sweep(ctx context.Context, bucket int, term, last uint64, limit int, now scheduler.Milli) (int, error) {
	return t.sweep(ctx, bucket, term, limit, text(last), now)
}

func (t *Redis) sweep(ctx context.Context, bucket int, term uint64, limit int, which string,
	now scheduler.Milli) (int, error) {
	k, err := t.place(bucket)
	if err != nil {
		return 0, err
	}
	entry := t.context(term, now)
	c := &call{bucket: bucket, script: t.scripts.sweep, entry: entry,
		keys: []string{k.claimed, k.due, k.msg, k.term, k.mark, k.next, k.ended, k.counts, k.name, k.names, k.refused},
		args: []any{text(term), limit, which, int64(now), k.parked}}
	v, err := t.run(ctx, c)
	if err != nil {
		return 0, err
	}
	parts, ok := v.([]any)
	if !ok || len(parts) != 3 {
		return 0, errAnswer("sweep", len(parts), nil)
	}
	f, err := texts(parts[:2])
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	pairs, err := texts(parts[2])
	if err != nil {
		return 0, errAnswer("sweep", len(pairs), err)
	}
	changes, err := readPairs(pairs)
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	return n, t.wrote(c, f[1], changes)
}

// Claim moves due messages to in_flight.
func (t *Redis) Claim(ctx context.Context, bucket int, req scheduler.Claim) (scheduler.Claimed, error) {
	k, err := t.place(bucket)
	if err != nil {
		return scheduler.Claimed{}, err
	}
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.claim,
		keys: []string{k.source(req.Lane), k.msg, k.claimed, k.term, k.mark, k.lanes, k.big},
		args: []any{text(req.Term), scheduler.ScoreNow(req.Now), req.Limit, req.Bytes, req.Lane, text(req.Number)}})
	if err != nil {
		return scheduler.Claimed{}, err
	}
	answer, ok := v.([]any)
	if !ok || len(answer) != 6 {
		return scheduler.Claimed{}, fmt.Errorf("claim: answer %T of %d parts", v, len(answer))
	}
	score, _ := answer[0].(string)
	doubtText, _ := answer[5].(string)
	doubt, err6 := strconv.ParseInt(doubtText, 10, 64)
	uids, err1 := texts(answer[1])
	packed, err2 := texts(answer[2])
	marks, err3 := texts(answer[3])
	missing, err4 := texts(answer[4])
	head, err5 := headOf(score)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return scheduler.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	var spoiled []any
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
			claimed.Missing = append(claimed.Missing, scheduler.UID(uid))
			spoiled = append(spoiled, uid)
			continue
		}
		m.Claim, m.ClaimedAt = req.Number, req.Now
		m.Mark.Uncertain = m.Mark.Uncertain || m.Due <= scheduler.Milli(doubt)
		claimed.Messages = append(claimed.Messages, m)
	}
	if len(spoiled) > 0 { // where this fails they come back as claims that nobody knows, and are listed then
		_, _ = t.run(ctx, &call{bucket: bucket, script: t.scripts.spoiled,
			keys: []string{k.claimed, k.msg, k.refused, k.term},
			args: append([]any{text(req.Term), text(req.Number), int64(req.Now)}, spoiled...)})
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
	topics := topicsOf(len(ends), func(i int) string { return ends[i].Message.Topic })
	args := make([]any, 5, 5+2*len(topics)+3*len(ends))
	args[0], args[1], args[2], args[4] = text(term), int64(now), len(ends), len(topics)
	for i := range topics {
		args = append(args, topics[i].name, topics[i].n)
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
	changes := t.ended(ends)
	args[3] = blobOf(changes)
	return t.settle(ctx, t.context(term, now), changes, call{bucket: bucket, script: t.scripts.finish,
		keys: []string{k.claimed, k.msg, k.ended, k.term, k.mark, k.dead, k.next, k.counts, k.refused}, args: args})
}

// ended are the changes that a batch of ends makes; nil where no journal is
// kept.
func (t *Redis) ended(ends []scheduler.End) []scheduler.Change {
	if t.cfg.Record == nil {
		return nil
	}
	changes := make([]scheduler.Change, len(ends))
	for i := range ends {
		changes[i] = ends[i].Change()
	}
	return changes
}

// settle runs finish or return: scripts that answer how many were settled,
// which where not all were, the entry they wrote, and what else they did.
func (t *Redis) settle(ctx context.Context, entry []byte, changes []scheduler.Change, c call) error {
	c.entry = entry
	v, err := t.run(ctx, &c)
	if err != nil {
		return err
	}
	f, err := texts(v)
	if err != nil || len(f) < 3 {
		return errAnswer("settle", len(f), err)
	}
	if f[1] != "" {
		changes = only(changes, uidSet(f[1]))
	}
	if len(f) > 3 {
		more, err := readPairs(f[3:])
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		changes = append(changes, more...)
	}
	return t.wrote(&c, f[2], changes)
}

// Return gives claimed messages back, in their order. If two of one name come back
// it returns which of them ends.
func (t *Redis) Return(ctx context.Context, bucket int, term uint64, back []scheduler.Back, now scheduler.Milli) error {
	k, err := t.place(bucket)
	if err != nil {
		return err
	}
	if len(back) == 0 {
		return nil
	}
	args := make([]any, 4, 4+4*len(back))
	var changes []scheduler.Change
	for i := range back {
		b := &back[i]
		score, mark := strconv.FormatInt(b.Score, 10), packMark(b.Mark)
		if b.Keep {
			score, mark = "", "="
		}
		args = append(args, string(b.UID), score, mark, text(b.Claim))
		if b.Message != nil && t.cfg.Record != nil {
			changes = append(changes, b.Change())
		}
	}
	args[0], args[1], args[2], args[3] = text(term), int64(now), blobOf(changes), k.parked
	return t.settle(ctx, t.context(term, now), changes, call{bucket: bucket, script: t.scripts.giveBack,
		keys: []string{k.claimed, k.due, k.term, k.mark, k.lanes, k.msg, k.next, k.ended, k.counts, k.name,
			k.names, k.refused},
		args: args})
}

// Held lists what this term has claimed.
func (t *Redis) Held(ctx context.Context, bucket int, term uint64, after scheduler.UID,
	limit int) ([]scheduler.Held, error) {
	return t.held(ctx, bucket, text(term), after, limit)
}

func (t *Redis) held(ctx context.Context, bucket int, term string, after scheduler.UID,
	limit int) ([]scheduler.Held, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.held, keys: []string{k.claimed, k.term},
		args: []any{term, string(after), limit}})
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
	heads := make([]scheduler.Head, len(t.keys))
	args := func(k *keys) ([]string, []any) { return []string{k.due, k.claimed, k.term}, nil }
	failed := t.askEach(ctx, t.allBuckets(), t.scripts.heads, args, func(bucket int, v any) error {
		f, err := texts(v)
		if err != nil || len(f) != 4 {
			return errAnswer("heads", len(f), err)
		}
		return readHead(f, &heads[bucket])
	}, false)
	for bucket, err := range failed {
		heads[bucket].Err = err
	}
	return heads, nobody(failed)
}

func readHead(f []string, h *scheduler.Head) (err error) {
	if h.Due, err = headOf(f[0]); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	var err1, err2, err3 error
	h.Waiting, err1 = strconv.Atoi(f[1])
	h.Claimed, err2 = strconv.Atoi(f[2])
	if f[3] != "" {
		h.Term, err3 = strconv.ParseUint(f[3], 10, 64)
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	return nil
}

// Refused lists the transitions that were refused.
func (t *Redis) Refused(ctx context.Context, bucket int) ([]scheduler.Refusal, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.refused, keys: []string{k.refused, k.msg, k.claimed}})
	if err != nil {
		return nil, err
	}
	f, err := texts(v)
	if err != nil || len(f)%2 != 0 {
		return nil, errAnswer("refused", len(f), err)
	}
	all := make([]scheduler.Refusal, 0, len(f)/2)
	for ; len(f) > 0; f = f[2:] {
		r := scheduler.Refusal{UID: scheduler.UID(f[0]), Bucket: bucket}
		if _, err := fmt.Sscanf(f[1], "%d:%d:%d:%d", &r.From, &r.To, &r.Kind, &r.At); err != nil {
			return nil, fmt.Errorf("refused: %q of %.40q: %w", f[1], f[0], err)
		}
		r.Unreadable = strings.Count(f[1], ":") > 3
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b scheduler.Refusal) int { return cmp.Compare(a.UID, b.UID) })
	return all, nil
}

// Lanes lists the lanes that hold messages.
func (t *Redis) Lanes(ctx context.Context, bucket int) ([]string, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, err
	}
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.lanes, keys: []string{k.lanes}, args: []any{k.parked}})
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
	v, err := t.run(ctx, &call{bucket: bucket, script: t.scripts.trim,
		keys: []string{k.ended, k.msg, k.name, k.term, k.tomb, k.tombs, k.names, k.trimmed},
		args: []any{text(term), int64(now.Add(-t.cfg.EndedKeep)), limit, int64(now.Add(-t.cfg.TombstoneKeep)),
			(t.cfg.EndedKeep / 2).Milliseconds()}})
	return count(v, err)
}

// MaxTerm is the highest term that any bucket knows which answers, certified or
// not: the floor of an election. A bucket that comes back with a higher one ends
// the leadership when it is begun. It is an error where none answers.
func (t *Redis) MaxTerm(ctx context.Context) (uint64, error) {
	pipe := t.rdb.Pipeline()
	asked := make([]*redis.StringCmd, len(t.keys))
	for i := range t.keys {
		asked[i] = pipe.Get(ctx, t.keys[i].term)
	}
	_, _ = pipe.Exec(ctx) // each has its own error
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
