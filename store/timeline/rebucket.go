package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Rebucket changes the number of a namespace's buckets in place. Its steps are Hold, Move and Finish, in this order.
//
// What lies in the keys of a bucket belongs to the bucket of its uid or its name (place). If that is another one, it is
// first written there (take.lua), then removed (drop.lua). So at any time it is in one of the two, or the same in both,
// and nothing else changes it. A Rebucket that was killed is run again, to this number or another.
//
// Three things keep everybody else out from Hold to Finish. In place of the number of buckets, meta has a mark that
// lets no instance start. The certifications are not in force, so no script of a running instance has an effect. Every
// write here is fenced by the term: another Rebucket that wakes up writes nothing more.
type Rebucket struct {
	t             *Redis         // with as many buckets as either number
	had, most, to message.Bucket // had: with keys from the beginning
	term          uint64
	progress      func(moved int)
	moved         int

	runs    []string  // the data set of each bucket
	whole   bool      // every certification was in force
	audited bool      // and what the journal alone had was restored since
	kept    [3]uint64 // the latest doubts of a certification, and the latest end that was forgotten
}

const (
	rebucketing  = "%d to %d" // in meta: the highest number of buckets that there may be keys of, and the next number
	rebucketPage = 500
	// rebucketBytes bounds the bytes of a page, by the average of the page before it: Redis scans a hash in no order.
	rebucketBytes = 2 << 20
	// rebucketPatience is how long a Redis may be away.
	rebucketPatience = 30 * time.Second
	// everywhere is the place of what every bucket has.
	everywhere message.Bucket = -1
)

// moving are the keys, up to the first colon, whose contents move. The others that a bucket has are staying: they
// follow from those, or each bucket has its own.
var (
	moving = []string{"due", "msg", "mark", "name", "names", "next", "claimed", "pull", "chain", "serial", "lease",
		"leased", "expires", "grant", "parked", "behind", "dead", "tomb", "tombs", "refused", "ended"}
	staying = []any{"pulls", "leasing", "lanes", "chained", "counts", "gen", "paused", "failing", "big", "trimmed",
		"outbox", "calls", "called", "outboxed", "quarantine", "ended"}
	fencing = []string{"term", "meta"}
)

// ReadBuckets asks Redis for the number of buckets, 0 of a new namespace. If a Rebucket is unfinished, to is the number
// that it was to reach, else 0.
func ReadBuckets(ctx context.Context, rdb Client, namespace string) (now, to message.Bucket, err error) {
	var stored []any
	number := ""
	for _, key := range []string{bucketKeys(namespace, 0).of("meta"), metaKey(namespace)} { // a node may have lost one
		got, err := rdb.HMGet(ctx, key, "buckets", "layout").Result()
		if err = translate(err); err != nil {
			return 0, 0, fmt.Errorf("read the number of buckets: %w", err)
		}
		if text, is := got[0].(string); is {
			stored, number = got, text
		}
	}
	n, _ := fmt.Sscanf(number, rebucketing, &now, &to)
	if number != "" && (n == 0 || stored[1] != Layout) {
		err = fmt.Errorf("%w: namespace %q has %s buckets of key layout %v, this tarry knows %s: "+
			"start an instance of it first", ErrUnfit, namespace, number, stored[1], Layout)
	}
	return now, to, err
}

// NewRebucket prepares a change from a number of buckets, or the higher of an unfinished change, under a term above all
// others.
func NewRebucket(rdb Client, namespace string, from, to message.Bucket, term uint64,
	progress func(moved int)) (*Rebucket, error) {
	t, err := New(Config{Client: rdb, Namespace: namespace, Buckets: max(from, to), EndedKeep: 1, TombstoneKeep: 1,
		TombstoneLimit: 1})
	return &Rebucket{t: t, had: from, most: max(from, to), to: to, term: term, progress: progress, whole: true,
		audited: true, runs: make([]string, max(from, to))}, err
}

// Hold keeps all instances out. The outboxes and quarantines must be empty.
func (r *Rebucket) Hold(ctx context.Context) error {
	err := r.scanKeys(ctx, func(bucket message.Bucket, name string) error {
		order, _, _ := strings.Cut(name, ":")
		if slices.Contains(moving, order) || slices.Contains(staying, any(order)) || slices.Contains(fencing, name) {
			return nil
		}
		return fmt.Errorf("%w: bucket %d has the key %q, which this tarry does not know", ErrUnfit, bucket, name)
	})
	if err != nil {
		return err
	}
	if err := r.hold(ctx, r.had, r.most); err != nil { // once they are marked, these may not lack a certification either
		return err
	}
	if err := r.mark(ctx, r.t.metas(), fmt.Sprintf(rebucketing, r.most, r.to)); err != nil {
		return err
	}
	return r.hold(ctx, 0, r.had)
}

func (r *Rebucket) mark(ctx context.Context, metas []string, buckets string) error {
	for _, key := range metas {
		if err := again(ctx, func() error {
			return translate(r.t.scripts["mark"].Run(ctx, r.t.rdb, []string{key}, text(r.term), buckets, Layout).Err())
		}); err != nil {
			return fmt.Errorf("record buckets in %s: %w", key, err)
		}
	}
	return nil
}

// hold holds buckets, and fails if a server was replaced since it did so before.
func (r *Rebucket) hold(ctx context.Context, from, to message.Bucket) error {
	for bucket := from; bucket < to; bucket++ {
		before := r.runs[bucket]
		a := r.script(ctx, bucket, "hold", before, flag(bucket >= r.had && before == ""))
		run, phase := a.text("data set"), a.text("phase")
		whole := phase != ""
		for i := range r.kept {
			r.kept[i] = max(r.kept[i], a.number("time"))
		}
		if err := a.done(); err != nil {
			return fmt.Errorf("hold bucket %d: %w", bucket, err)
		}
		if before != "" && !whole {
			return fmt.Errorf("%w: the server of bucket %d was replaced meanwhile", scheduler.ErrUnavailable, bucket)
		}
		r.runs[bucket], r.whole = run, r.whole && whole
		r.audited = r.audited && (phase == "audited" || bucket >= r.had)
	}
	return nil
}

// Move moves everything to its bucket. The queues come first, since a chain counts those that do not stand in one.
func (r *Rebucket) Move(ctx context.Context) error {
	for turn := range 3 {
		err := r.scanKeys(ctx, func(bucket message.Bucket, name string) error {
			order, topic, _ := strings.Cut(name, ":")
			first, last := order == "pull" && topic != "", name == "counts" // only of records that cannot be read
			if turn == 0 && first || turn == 1 && !first && slices.Contains(moving, order) ||
				turn == 2 && last && bucket >= r.to {
				return r.move(ctx, bucket, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Finish certifies the new buckets and lets instances start with the new number. If a certification was not in force
// the leader certifies them, after it has compared them with the journal.
func (r *Rebucket) Finish(ctx context.Context) error {
	if err := r.hold(ctx, 0, r.most); err != nil {
		return err
	}
	for bucket := range r.to {
		number, phase := r.term<<20, "whole" // above those of earlier terms
		if r.audited {
			phase = "audited"
		}
		script, args := "certify", []any{r.runs[bucket], number, r.kept[0], phase, 0, r.kept[2], r.kept[1]}
		if !r.whole {
			script, args = "clear", []any{fmt.Sprintf("%d %040d %d filling %d", number, 0, r.kept[0], r.kept[1])}
		}
		if err := *r.script(ctx, bucket, script, args...).err; err != nil {
			return fmt.Errorf("finish bucket %d: %w", bucket, err)
		}
	}
	metas := r.t.metas() // the one for all buckets comes last
	if err := r.mark(ctx, append(metas[1:1+r.to:1+r.to], metas[0]), strconv.Itoa(int(r.to))); err != nil {
		return err
	}
	for bucket := r.to; bucket < r.most; bucket++ { // what is left there is harmless
		r.script(ctx, bucket, "clear", append([]any{""}, staying...)...)
	}
	return nil
}

// scanKeys shows every key of a bucket.
func (r *Rebucket) scanKeys(ctx context.Context, show func(bucket message.Bucket, name string) error) error {
	prefix := "{" + r.t.cfg.Namespace + ":"
	var one sync.Mutex
	scan := func(ctx context.Context, node redis.Cmdable) error {
		one.Lock()
		defer one.Unlock()
		page := func(cursor uint64) *redis.ScanCmd { return node.Scan(ctx, cursor, prefix+"*", rebucketPage) }
		return scan(ctx, page, func(keys []string) error {
			for _, key := range keys {
				at, name, _ := strings.Cut(strings.TrimPrefix(key, prefix), "}:")
				bucket, err := strconv.Atoi(at)
				if err != nil || message.Bucket(bucket) >= r.most { // it has machine ids
					continue
				}
				if err := show(message.Bucket(bucket), name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if cluster := clusterOf(r.t.rdb); cluster != nil {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	}
	return scan(ctx, r.t.rdb)
}

// scan shows all pages of a scan.
func scan(ctx context.Context, page func(cursor uint64) *redis.ScanCmd, show func([]string) error) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var found []string
		err := again(ctx, func() error {
			all, next, err := page(cursor).Result()
			if err == nil {
				found, cursor = all, next
			}
			return translate(err)
		})
		if err == nil {
			err = show(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// place returns the bucket of what lies in a key.
func (r *Rebucket) place(name, at string) message.Bucket {
	order, of, _ := strings.Cut(name, ":")
	if at == "" || order[:1] == "t" && at[:1] == "a" { // the tombstone of an id without a key
		return everywhere
	}
	switch order {
	case "chain":
		at = of
	case "tomb", "tombs":
		at = at[1:]
		fallthrough
	case "name", "names":
		return message.BucketOf(hashed(at), r.to)
	case "serial":
	default:
		return message.UID(at).Bucket(r.to)
	}
	_, key, _ := strings.Cut(at, "\x00")
	return message.BucketOf(key, r.to)
}

// hashed returns what decides the bucket of a name, which stands as field in lib.lua writes it.
func hashed(field string) string {
	cut := func(s string) (text, rest string) {
		s += "\x00" // one that is damaged ends early
		n := min(1+int(s[0]), len(s)-1)
		return s[min(1, n):n], s[n : len(s)-1]
	}
	id, rest := cut(field)
	_, key := cut(rest)
	return message.HashedName(id, key)
}

// move moves what lies in a key to its bucket.
func (r *Rebucket) move(ctx context.Context, from message.Bucket, name string) error {
	const least = 8
	key, page, kind, ttl := r.t.keys[from].of(name), int64(least), "", time.Duration(0)
	err := again(ctx, func() error {
		pipe := r.t.rdb.Pipeline()
		is, left := pipe.Type(ctx, key), pipe.PTTL(ctx, key)
		_, err := pipe.Exec(ctx)
		kind, ttl = is.Val(), left.Val()
		return translate(err)
	})
	if err != nil {
		return err
	}
	read := r.t.rdb.HScan
	switch kind {
	case "none":
		return nil
	case "list":
		return r.moveEnds(ctx, from)
	case "zset":
		read = r.t.rdb.ZScan
	}
	next := func(cursor uint64) *redis.ScanCmd { return read(ctx, key, cursor, "", page) }
	return scan(ctx, next, func(found []string) error {
		parts, leave, size := map[message.Bucket][]any{}, []any(nil), 1
		for i := 0; i < len(found); i += 2 {
			size += len(found[i]) + len(found[i+1])
			to, granted := r.place(name, found[i]), map[message.Bucket]string(nil)
			if name == "counts" {
				to = from % r.to
			} else if to == everywhere && strings.HasPrefix(name, "grant:") {
				granted = r.divide(found[i+1])
			}
			for b := range r.to {
				if some := granted[b]; some != "" && b != from {
					parts[b] = append(parts[b], found[i], some)
				} else if b != from && (b == to || to == everywhere && granted == nil) {
					parts[b] = append(parts[b], found[i], found[i+1])
				}
			}
			if to != from && (to != everywhere || from >= r.to) {
				leave = append(leave, found[i])
			}
		}
		page = min(rebucketPage, int64(least+len(found)*rebucketBytes/size))
		if name == "msg" {
			r.moved += len(leave)
			r.progress(r.moved)
		}
		return r.hand(ctx, from, name, kind, ttl, parts, leave)
	})
}

// moveEnds moves the list of ends. Each is forgotten once its own time is over, so their order may be any.
func (r *Rebucket) moveEnds(ctx context.Context, from message.Bucket) error {
	const stamp = 13 // the length of the time
	for at := int64(0); ; at += rebucketPage {
		var ends []string
		err := again(ctx, func() (err error) {
			ends, err = r.t.rdb.LRange(ctx, r.t.keys[from].of("ended"), at, at+rebucketPage-1).Result()
			return translate(err)
		})
		if err != nil || len(ends) == 0 {
			return err
		}
		parts, leave := map[message.Bucket][]any{}, []any(nil)
		for i, end := range ends {
			if len(end) < stamp { // it is damaged, and names nobody
				continue
			}
			uids := r.divide(end[stamp:])
			stays := end[:stamp] + uids[from]
			if stays == end {
				continue
			}
			delete(uids, from)
			for b, some := range uids {
				parts[b] = append(parts[b], end[:stamp]+some)
			}
			leave = append(leave, at+int64(i), stays)
		}
		if err := r.hand(ctx, from, "ended", "list", 0, parts, leave); err != nil {
			return err
		}
	}
}

// divide divides concatenated uids by their buckets.
func (r *Rebucket) divide(uids string) map[message.Bucket]string {
	parts := map[message.Bucket]string{}
	for ; len(uids) >= message.UIDLen; uids = uids[message.UIDLen:] {
		parts[message.UID(uids[:message.UIDLen]).Bucket(r.to)] += uids[:message.UIDLen]
	}
	return parts
}

// hand lets the buckets take their parts, and then drops what leaves.
func (r *Rebucket) hand(ctx context.Context, from message.Bucket, name, kind string, ttl time.Duration,
	parts map[message.Bucket][]any, leave []any) error {
	front := ""
	var takes []call
	for b, part := range parts {
		takes = append(takes, call{bucket: b, script: "take",
			args: append([]any{text(r.term), name, kind, ttl.Milliseconds()}, part...)})
	}
	err := again(ctx, func() error {
		return cmp.Or(r.t.askAll(ctx, takes, func(_ int, a *answer) error {
			front = a.text("front") // of a chain, which has one part
			return a.done()
		}, true)...)
	})
	if err != nil {
		return fmt.Errorf("move %q of bucket %d: %w", name, from, err)
	}
	if len(leave) == 0 {
		return nil
	}
	if err := *r.script(ctx, from, "drop", append([]any{name, kind, front}, leave...)...).err; err != nil {
		return fmt.Errorf("remove %q from bucket %d: %w", name, from, err)
	}
	return nil
}

// script runs a script under the term, which comes first among its arguments.
func (r *Rebucket) script(ctx context.Context, bucket message.Bucket, name string, args ...any) (a *answer) {
	_ = again(ctx, func() error { // the answer has its error
		a = r.t.run(ctx, &call{bucket: bucket, script: name, args: append([]any{text(r.term)}, args...)})
		return *a.err
	})
	return a
}

// again repeats what may be repeated while Redis is away, for a while.
func again(ctx context.Context, do func() error) error {
	for until := time.Now().Add(rebucketPatience); ; {
		err := do()
		if !errors.Is(err, scheduler.ErrUnavailable) && !errors.Is(err, scheduler.ErrOutcomeUnknown) ||
			time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(renewPause / 5):
		}
	}
}
