package timeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Find asks the one bucket that a uid or key decides, or all buckets at once
// for a client id alone.
func (t *Redis) Find(ctx context.Context, ref scheduler.Ref) ([]scheduler.Info, error) {
	buckets := t.bucketsOf(ref)
	found, next, err := t.find(ctx, buckets, ref, "")
	if err != nil && !errors.Is(err, scheduler.ErrUnreadable) || next == "" {
		return found, err
	}
	// An id with more names than one call looks at: bucket by bucket, then.
	found = nil
	var damaged error
	for _, b := range buckets {
		var here []scheduler.Info
		for next = ""; ; {
			page, after, err := t.find(ctx, []int{b}, ref, next)
			here = append(here, page...)
			if errors.Is(err, scheduler.ErrUnreadable) {
				damaged, err = err, nil
			}
			if err == nil && manyNames(here) {
				err = errManyNames
			}
			if err != nil {
				return append(found, here...), err
			}
			if next = after; next == "" {
				break
			}
		}
		found = append(found, here...)
	}
	return found, damaged
}

// find looks at a page of each bucket's names; next is where one of them goes on. What
// cannot be read is an error beside what was found.
func (t *Redis) find(ctx context.Context, buckets []int, ref scheduler.Ref,
	after string) (found []scheduler.Info, next string, err error) {
	args := findArgs(ref, after)
	many := false
	var damaged error
	err = t.ask(ctx, buckets, t.scripts.find, func(k *keys) ([]string, []any) {
		return []string{k.msg, k.name, k.claimed, k.mark, k.names}, args
	}, func(v any) error {
		f, err := texts(v)
		if err != nil || len(f)%4 != 1 {
			return errAnswer("find", len(f), err)
		}
		if f[0] != "" {
			next = f[0]
		}
		from := len(found)
		for f = f[1:]; len(f) > 0; f = f[4:] {
			info, err := unpackInfo(scheduler.UID(f[0]), f[1], f[2] != "", f[3])
			if errors.Is(err, scheduler.ErrUnreadable) {
				damaged = fmt.Errorf("find: %w", err)
				continue
			}
			if err != nil {
				return fmt.Errorf("find: %w", err)
			}
			found = append(found, info)
		}
		many = many || manyNames(found[from:])
		return nil
	})
	switch {
	case err == nil && many:
		err = errManyNames
	case err == nil:
		err = damaged
	}
	return found, next, err
}

// findArgs are a look-up's arguments, as find.lua takes them.
func findArgs(ref scheduler.Ref, after string) []any {
	args := []any{string(ref.UID), ref.ID, ref.Topic, keyArg(ref), ref.Key, scheduler.MaxNamesOfID, after}
	if ref.Topic == "" && ref.Viewer != nil {
		if len(ref.Viewer.Topics) == 0 {
			return append(args, "^$") // which no topic matches
		}
		for _, p := range ref.Viewer.Topics {
			args = append(args, luaPattern(p))
		}
	}
	return args
}

// luaPattern is a pattern of NATS subjects as Lua writes it.
func luaPattern(pattern string) string {
	b := []byte{'^'}
	for i, token := range strings.Split(pattern, ".") {
		if i > 0 {
			b = append(b, "%."...)
		}
		switch token {
		case "*":
			b = append(b, "[^.]+"...)
		case ">":
			b = append(b, ".+"...)
		default:
			for _, c := range []byte(token) {
				if c > ' ' && c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z' && c < 0x7f {
					b = append(b, '%')
				}
				b = append(b, c)
			}
		}
	}
	return string(append(b, '$'))
}

// manyNames reports whether messages of one bucket have more names than a look-up
// takes.
func manyNames(found []scheduler.Info) bool {
	if len(found) <= scheduler.MaxNamesOfID {
		return false
	}
	type name struct{ topic, key string }
	names := map[name]struct{}{}
	for i := range found {
		names[name{found[i].Topic, found[i].Key}] = struct{}{}
	}
	return len(names) > scheduler.MaxNamesOfID
}

// Cancel ends the waiting message with this uid.
func (t *Redis) Cancel(ctx context.Context, uid scheduler.UID, now scheduler.Milli) (scheduler.CancelResult, error) {
	k := &t.keys[uid.Bucket(len(t.keys))]
	bucket := uid.Bucket(len(t.keys))
	entry := t.context(0, now)
	c := &call{bucket: bucket, script: t.scripts.cancel, entry: entry,
		keys: []string{k.due, k.msg, k.claimed, k.mark, k.ended, k.next, k.counts},
		args: []any{string(uid), int64(now), k.parked}}
	v, err := t.run(ctx, c)
	if err != nil {
		return scheduler.CancelResult{}, err
	}
	f, err := texts(v)
	if err != nil || len(f) != 4 {
		return scheduler.CancelResult{}, errAnswer("cancel", len(f), err)
	}
	code, err := strconv.Atoi(f[0])
	if err != nil || code < 0 || code > 4 {
		return scheduler.CancelResult{}, fmt.Errorf("cancel: answer %q", f[0])
	}
	result := scheduler.CancelResult{Code: scheduler.CancelCode(code), Number: c.number}
	if f[1] != "" {
		if result.Info, err = unpackInfo(uid, f[1], result.Code == scheduler.CancelInFlight, f[2]); err != nil {
			return scheduler.CancelResult{}, fmt.Errorf("cancel: %w", err)
		}
	}
	return result, t.wrote(c, f[3], []scheduler.Change{endedAs(&result.Info)})
}

// Bury leaves tombstones where the id names nothing.
func (t *Redis) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64,
	now scheduler.Milli) ([]scheduler.UID, error) {
	var found []scheduler.UID
	full, laid := false, false
	err := t.ask(ctx, t.bucketsOf(ref), t.scripts.bury, func(k *keys) ([]string, []any) {
		return []string{k.name, k.tomb, k.tombs, k.names}, []any{ref.ID, ref.Topic, keyArg(ref), ref.Key,
			strconv.FormatUint(sequence, 10), int64(now), t.cfg.TombstoneLimit, scheduler.MaxNamesOfID,
			int64(now.Add(-t.cfg.TombstoneKeep))}
	}, func(v any) error {
		uids, err := uidList(v)
		if len(uids) == 1 && uids[0] == "many" {
			return errManyNames
		}
		if len(uids) == 1 && uids[0] == "full" {
			full = true
			return nil
		}
		laid = laid || len(uids) == 0
		found = append(found, uids...)
		return err
	})
	if err == nil && full && len(found) == 0 {
		err = scheduler.ManyTombstones(laid)
	}
	return found, err
}

// errManyNames: a look-up that leaves topic or key open would grow with their number.
var errManyNames = fmt.Errorf("%w: more than %d topics and keys have it; name the topic and the key, or use the uid",
	scheduler.ErrAmbiguousID, scheduler.MaxNamesOfID)

// keyArg returns a script's argument for a key, which may be given and empty.
func keyArg(ref scheduler.Ref) string {
	if ref.Keyed {
		return "k"
	}
	return ""
}

// bucketsOf are the buckets that may know a reference.
func (t *Redis) bucketsOf(ref scheduler.Ref) []int {
	switch {
	case ref.UID != "":
		return []int{ref.UID.Bucket(len(t.keys))}
	case ref.Keyed && ref.Key != "":
		return []int{int(scheduler.Hash(ref.Key)) % len(t.keys)}
	case ref.Keyed:
		return []int{int(scheduler.Hash(ref.ID)) % len(t.keys)}
	}
	return t.allBuckets()
}

func (t *Redis) allBuckets() []int {
	all := make([]int, len(t.keys))
	for i := range all {
		all[i] = i
	}
	return all
}

// ask runs a repeatable script that writes no entry in several buckets in one
// pipeline; it ends with the first that fails.
func (t *Redis) ask(ctx context.Context, buckets []int, s *redis.Script, args func(*keys) ([]string, []any),
	read func(any) error) error {
	failed := t.askEach(ctx, buckets, s, args, func(_ int, v any) error { return read(v) }, true)
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// askEach runs such a script in several buckets, and returns an error for each: a node
// that is away does not affect another's answer. If stop is set nothing is read after
// the first failure. A pipeline has no fallback to the script's text and learns
// nothing of a new certification, so such a bucket is asked again by itself.
func (t *Redis) askEach(ctx context.Context, buckets []int, s *redis.Script, args func(*keys) ([]string, []any),
	read func(bucket int, answer any) error, stop bool,
) []error {
	failed := make([]error, len(buckets))
	if len(buckets) == 1 {
		k, a := args(&t.keys[buckets[0]])
		v, err := t.run(ctx, &call{bucket: buckets[0], script: s, keys: k, args: a})
		if err == nil {
			err = read(buckets[0], v)
		}
		failed[0] = err
		return failed
	}
	pipe := t.rdb.Pipeline()
	asked := make([]*redis.Cmd, len(buckets))
	for i, b := range buckets {
		k, a := args(&t.keys[b])
		k, a = t.full(&call{bucket: b, keys: k, args: a})
		asked[i] = s.EvalSha(ctx, pipe, k, a...)
	}
	_, execErr := pipe.Exec(ctx)
	for i, cmd := range asked {
		v, err := cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "UNCERTIFIED") {
			k, a := args(&t.keys[buckets[i]])
			v, err = t.run(ctx, &call{bucket: buckets[i], script: s, keys: k, args: a})
		} else {
			err = translate(err)
		}
		if err == nil && v == nil {
			err = translate(execErr)
		} else if err == nil {
			err = read(buckets[i], v)
		}
		if failed[i] = err; err != nil && stop {
			return failed
		}
	}
	return failed
}

// nobody returns an error where none of several buckets answered: the first one's.
func nobody(failed []error) error {
	for _, err := range failed {
		if err == nil {
			return nil
		}
	}
	return failed[0]
}
