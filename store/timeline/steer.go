package timeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Find asks the one bucket that a uid or key decides, or all buckets at once
// for a client id alone.
func (t *Redis) Find(ctx context.Context, ref scheduler.Ref) ([]scheduler.Info, error) {
	var found []scheduler.Info
	err := t.ask(ctx, t.bucketsOf(ref), t.scripts.find, func(k *keys) ([]string, []any) {
		how, what := "uid", string(ref.UID)
		if ref.UID == "" {
			how, what = how2(ref), ref.ID
		}
		return []string{k.msg, k.name, k.claimed, k.mark, k.names}, []any{how, what, ref.Key, scheduler.MaxKeysOfID}
	}, func(v any) error {
		f, err := texts(v)
		if err == nil && len(f) == 1 {
			return errManyKeys
		}
		if err != nil || len(f)%4 != 0 {
			return fmt.Errorf("find: answer of %d fields: %w", len(f), err)
		}
		for ; len(f) > 0; f = f[4:] {
			info, err := unpackInfo(scheduler.UID(f[0]), f[1], f[2] != "", f[3])
			if err != nil {
				return fmt.Errorf("find: %w", err)
			}
			found = append(found, info)
		}
		return nil
	})
	return found, err
}

// Cancel ends the waiting message with this uid.
func (t *Redis) Cancel(ctx context.Context, uid scheduler.UID, now scheduler.Milli) (scheduler.CancelResult, error) {
	k := &t.keys[uid.Bucket(len(t.keys))]
	bucket := uid.Bucket(len(t.keys))
	entry := t.context(0, now)
	c := &call{bucket: bucket, script: t.scripts.cancel, entry: entry,
		keys: []string{k.due, k.msg, k.claimed, k.mark, k.ended, k.next, k.counts}, args: []any{string(uid), int64(now), k.parked}}
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
func (t *Redis) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64, now scheduler.Milli) ([]scheduler.UID, error) {
	var found []scheduler.UID
	err := t.ask(ctx, t.bucketsOf(ref), t.scripts.bury, func(k *keys) ([]string, []any) {
		return []string{k.name, k.tomb, k.tombs, k.names},
			[]any{ref.ID, ref.Key, how2(ref), strconv.FormatUint(sequence, 10), int64(now), t.cfg.TombstoneLimit, scheduler.MaxKeysOfID}
	}, func(v any) error {
		uids, err := uidList(v)
		if len(uids) == 1 && uids[0] == "many" {
			return errManyKeys
		}
		found = append(found, uids...)
		return err
	})
	return found, err
}

// errManyKeys is the scripts' word 'many'.
var errManyKeys = fmt.Errorf("%w: more than %d keys have it; name the key, or use the uid", scheduler.ErrAmbiguousID, scheduler.MaxKeysOfID)

// how2 is how a script looks a name up.
func how2(ref scheduler.Ref) string {
	if ref.Keyed {
		return "key"
	}
	return "id"
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
// pipeline. A pipeline knows no fallback to the script's text and learns nothing
// of a new certification, so such a bucket is asked again by itself.
func (t *Redis) ask(ctx context.Context, buckets []int, s *redis.Script, args func(*keys) ([]string, []any), read func(any) error) error {
	if len(buckets) == 1 {
		k, a := args(&t.keys[buckets[0]])
		v, err := t.run(ctx, &call{bucket: buckets[0], script: s, keys: k, args: a})
		if err != nil {
			return err
		}
		return read(v)
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
		if err != nil {
			return err
		}
		if v == nil {
			return translate(execErr)
		}
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}
