package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// readyStep is how many topics one script looks at.
	readyStep = 1000
	// settleStep is how many items one script settles, and settleBytes bounds the bytes of messages that it reads.
	settleStep  = 500
	settleBytes = 4 << 20
	// leasesBytes bounds the bytes of messages that one script reads to list leases.
	leasesBytes = 2 << 20
)

// sync reports whether every answered change is in the journal.
func (t *Redis) sync() bool { return t.cfg.Record != nil && t.cfg.Record.Sync }

// Ready tells what is ready, in one pipeline.
func (t *Redis) Ready(ctx context.Context, wants []scheduler.Want, now message.Milli) []scheduler.Found {
	calls := make([]call, len(wants))
	for i, w := range wants {
		args := []any{int64(now)}
		for _, topic := range w.Topics[:min(len(w.Topics), readyStep)] {
			args = append(args, topic.Topic, topic.Count)
		}
		calls[i] = call{bucket: w.Bucket, script: "ready", args: args}
	}
	found := make([]scheduler.Found, len(wants))
	failed := t.askAll(ctx, calls, func(i int, a *answer) error {
		for a.more() {
			var r scheduler.TopicReady
			for _, place := range strings.Fields(a.text("places")) {
				rank, err := strconv.ParseFloat(place, 64)
				a.fail("place", err)
				r.Ranks = append(r.Ranks, int64(rank))
			}
			r.Next = message.Milli(a.optional("next"))
			found[i].Topics = append(found[i].Topics, r)
		}
		return a.done()
	}, false)
	for i, err := range failed {
		found[i].Err = err
	}
	return found
}

// Lease takes ready messages into leases, in one pipeline.
func (t *Redis) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	calls := make([]call, len(requests))
	for i := range requests {
		r := &requests[i]
		calls[i] = call{bucket: r.Bucket, script: "lease", args: []any{r.Topic, int64(r.Now), r.Limit, r.Bytes,
			flag(r.Over), r.Nonce.String(), r.Keep.Milliseconds(), int64(r.From), r.Length.Milliseconds(), flag(r.Fixed),
			r.Consumer, int64(r.Pauses), flag(r.Again), r.Skip, cmp.Or(r.Page, math.MaxInt32)}}
	}
	leased, spoiled := make([]scheduler.Leased, len(requests)), make([][]any, len(requests))
	failed := t.askAll(ctx, calls, func(i int, a *answer) error {
		l := &leased[i]
		l.Known, l.Next, l.Aside = a.text("known") != "", message.Milli(a.optional("next")), a.count("aside")
		l.Skip = int(a.optional("skip"))
		for a.more() {
			uid, packed, mark := message.UID(a.text("uid")), a.text("message"), a.text("mark")
			until := a.milli("until")
			m, err := unpack(uid, packed)
			if err == nil {
				m.Mark, err = unpackMark(mark)
			}
			if err != nil { // in a part that the scripts do not read
				spoiled[i] = append(spoiled[i], string(uid))
				continue
			}
			l.Messages = append(l.Messages, scheduler.LeasedMessage{Message: m, Until: until})
		}
		return a.done()
	}, false)
	for i, err := range failed {
		if err != nil {
			leased[i] = scheduler.Leased{Err: err}
		}
		if r := &requests[i]; len(spoiled[i]) > 0 { // if this fails, the lease lapses
			t.run(ctx, &call{bucket: r.Bucket, script: "spoiled",
				args: append([]any{"", r.Nonce.String(), int64(r.Now)}, spoiled[i]...)})
		}
	}
	return leased
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// verbs are the letters of the verbs in settle.lua.
var verbs = [...]string{scheduler.Ack: "a", scheduler.Nack: "n", scheduler.Bury: "d", scheduler.Release: "r",
	scheduler.Extend: "e", scheduler.Undo: "u", scheduler.Expire: "x", scheduler.Discard: "c",
	scheduler.Until: "t"}

// Settle ends, returns or extends leases.
func (t *Redis) Settle(ctx context.Context, bucket message.Bucket, term uint64, items []scheduler.Settle,
	now message.Milli) ([]scheduler.Settled, scheduler.Effect, error) {
	items = items[:min(len(items), settleStep)]
	args := make([]any, 3, 11+len(items))
	args[0], args[1], args[2] = "", int64(now), settleBytes
	if term > 0 {
		args[0] = text(term)
	}
	for i := 0; i < len(items); {
		s, n := items[i], 0
		nonce, reason := "", cmp.Or(s.Reason, s.Kind.Words("", false))
		if s.Nonce > 0 {
			nonce = s.Nonce.String()
		}
		at := len(args)
		args = append(args, verbs[s.Verb], s.Topic, nonce, int64(s.Number), flag(s.Over), int(s.Kind), reason, 0)
		for ; i < len(items) && s == items[i]; n++ { // those that differ in their uids alone are a group
			args = append(args, string(s.UID))
			if i++; i < len(items) {
				s.UID = items[i].UID
			}
		}
		args[at+7] = n
	}
	c := &call{bucket: bucket, script: "settle", entry: t.context(ctx, term, now), args: args}
	a := t.run(ctx, c)
	entry, earlier, told := a.text("entry"), a.earlier(), a.list("told")
	changes := a.list("changes").changes()
	made := t.effect(c, changes)
	made.Earlier = earlier
	var settled []scheduler.Settled
	for i := 0; told.more() && i < len(items); i++ {
		w := told.words("outcome", 7)
		r := scheduler.Settled{Code: scheduler.SettleCode(w.code("code", int(scheduler.SettleAgain))), Number: c.number}
		info := &r.Info
		info.State, info.Due = message.State(w.code("state", int(message.StateDead))), w.milli("due")
		info.Version, info.Mark.Refusals = w.number("version"), uint32(w.number("refusals"))
		info.EndedAt, r.Until = w.milli("ended"), w.milli("until")
		if info.State != message.StateNone {
			info.UID = items[i].UID
		}
		if r.Code == scheduler.SettleAgain && t.cfg.Record != nil {
			made.Changes = append(made.Changes, scheduler.Recorded{UID: info.UID, Version: info.Version, Bucket: bucket,
				Number: c.number})
		}
		settled = append(settled, r)
	}
	if err := a.done(); err != nil {
		return nil, scheduler.Effect{}, err
	}
	return settled, made, t.wrote(c, entry, changes)
}

// Leases lists leases.
func (t *Redis) Leases(ctx context.Context, bucket message.Bucket, q scheduler.LeaseQuery,
	now message.Milli) (page scheduler.LeasePage, err error) {
	if q.Limit < 1 {
		return page, fmt.Errorf("leases: a limit of %d", q.Limit)
	}
	args := []any{int64(now), q.Limit, leasesBytes}
	switch {
	case q.Over:
		page, due, err := t.leases(ctx, bucket, append(args, "over"))
		page.Due = message.Milli(due)
		return page, err
	case q.Topic != "":
		till, uid, err := readLeasePlace(q.After)
		if err != nil {
			return page, err
		}
		page, more, err := t.leases(ctx, bucket, append(args, "on", q.Topic, till, uid))
		if n := len(page.Leases); more > 0 && n > 0 {
			page.Next = page.Leases[n-1].Place()
		}
		return page, err
	}
	for uids := q.UIDs; len(uids) > 0; {
		some, looked, err := t.leases(ctx, bucket, append(append(args, "of"),
			anyOf(uids[:min(len(uids), settleStep)])...))
		if err == nil && (looked == 0 || looked > uint64(len(uids))) {
			err = fmt.Errorf("leases: it looked at %d of %d", looked, len(uids))
		}
		if err != nil {
			return page, err
		}
		page.Leases, uids = append(page.Leases, some.Leases...), uids[looked:]
	}
	return page, nil
}

// readLeasePlace reads where a page of a topic's leases begins: after the end of a lease and a uid.
func readLeasePlace(s string) (till, uid string, err error) {
	if s == "" {
		return "", "", nil
	}
	if n := len(s) - message.UIDLen; n == 16 && message.IsUID(s[n:]) {
		if at, err := strconv.ParseUint(s[:n], 10, 53); err == nil {
			return text(at), s[n:], nil
		}
	}
	return "", "", fmt.Errorf("leases: %w: %.60q", scheduler.ErrBadCursor, s)
}

// leases calls leases.lua, and returns the first value of its answer as a number.
func (t *Redis) leases(ctx context.Context, bucket message.Bucket,
	args []any) (page scheduler.LeasePage, first uint64, err error) {
	a := t.run(ctx, &call{bucket: bucket, script: "leases", args: args})
	first = a.optional("first")
	for a.more() {
		uid, topic, till, lease := message.UID(a.text("uid")), a.text("topic"), a.milli("till"), a.text("lease")
		packed, mark := a.text("record"), a.text("mark")
		l := scheduler.LeaseInfo{Message: message.Info{Message: message.Message{UID: uid, Topic: topic}}, Expires: till,
			Discarded: a.text("discarded") != ""}
		if info, err := unpackInfo(uid, packed, lease != "", mark); err == nil {
			l.Message = info
		} // else it cannot be read, and the settle takes it out of the orders
		if lease != "" {
			var from, expires int64
			w := strings.SplitN(lease, " ", 4)
			if _, err := fmt.Sscanf(lease, "%16x %d %d", &l.Nonce, &from, &expires); err != nil || len(w) != 4 {
				a.fail("lease", fmt.Errorf("%.60q of %s", lease, uid))
				break
			}
			l.Expires, l.Holding = message.Milli(expires),
				message.Holding{Consumer: w[3], Since: message.Milli(from), Until: till}
		}
		page.Leases = append(page.Leases, l)
	}
	return page, first, a.done()
}

// Behind reports whether a serial message waits behind another one of its key.
func (t *Redis) Behind(ctx context.Context, uid message.UID, topic, key string) (bool, message.UID, error) {
	k := t.keys[uid.Bucket(t.Buckets())]
	_, err := t.rdb.ZScore(ctx, k.of("chain:"+topic+"\x00"+key), string(uid)).Result()
	if errors.Is(err, redis.Nil) {
		return false, "", nil
	}
	by := ""
	if err == nil {
		by, err = t.rdb.HGet(ctx, k.of("serial"), topic+"\x00"+key).Result()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, "", fmt.Errorf("look who has the key: %w", translate(err))
	}
	return true, message.UID(by), nil
}

// upcomingStep is how many names one call returns.
const upcomingStep = 1000

// Upcoming lists the topics of a bucket from which a message can be pulled by until. It reads in steps, each from the
// time at which the one before ended: Redis counts an offset from the first. What changes meanwhile may be left out.
func (t *Redis) Upcoming(ctx context.Context, bucket message.Bucket, until message.Milli) (topics []string, err error) {
	by := redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(int64(until), 10), Count: upcomingStep}
	for more := true; more; {
		page, err := t.rdb.ZRangeByScoreWithScores(ctx, t.keys[bucket].of("pulls"), &by).Result()
		if err = translate(err); err != nil {
			return nil, fmt.Errorf("list what can be pulled: %w", err)
		}
		more = len(page) == upcomingStep
		for _, topic := range page {
			if at := strconv.FormatFloat(topic.Score, 'f', -1, 64); at != by.Min {
				by.Min, by.Offset = at, 0
			}
			by.Offset++
			topics = append(topics, topic.Member.(string))
		}
	}
	return topics, nil
}

// Failing notes a failure of a webhook's target, or a success.
func (t *Redis) Failing(ctx context.Context, target string, at message.Milli,
	within time.Duration) (message.Milli, error) {
	a := t.run(ctx, &call{bucket: scheduler.PausesBucket, script: "failing",
		args: []any{target, int64(at), within.Milliseconds()}})
	since := message.Milli(a.optional("since"))
	if err := a.done(); err != nil {
		return 0, fmt.Errorf("note how %s does: %w", target, err)
	}
	return since, nil
}

// Pulled counts messages for pull in every bucket.
func (t *Redis) Pulled(ctx context.Context, topics []string,
	until []message.Milli) ([]scheduler.PullCount, error) {
	counts := make([]scheduler.PullCount, len(topics))
	for i := range counts {
		counts[i].Due = make([]int, len(until))
	}
	at := make([]int, t.Buckets()) // how far each bucket has come
	for left := t.allBuckets(); len(left) > 0; {
		calls := make([]call, len(left))
		for i, bucket := range left {
			args := []any{len(until)}
			for _, u := range until {
				args = append(args, int64(u))
			}
			for _, topic := range topics[at[bucket]:min(len(topics), at[bucket]+countsStep)] {
				args = append(args, topic)
			}
			calls[i] = call{bucket: bucket, script: "pulled", args: args}
		}
		var more []message.Bucket
		failed := t.askAll(ctx, calls, func(i int, a *answer) error {
			bucket, before := left[i], at[left[i]]
			for a.more() && at[bucket] < len(topics) {
				w := a.words("counts", 2+len(until))
				c := &counts[at[bucket]]
				c.Leased += w.count("leased")
				c.Held += w.count("held")
				for j := range until {
					c.Due[j] += w.count("due")
				}
				at[bucket]++
			}
			if at[bucket] < len(topics) {
				more = append(more, bucket)
				if at[bucket] == before {
					a.fail("counts", fmt.Errorf("of none of %d topics", len(topics)))
				}
			}
			return a.done()
		}, true)
		for _, err := range failed {
			if err != nil {
				return nil, err
			}
		}
		left = more
	}
	return counts, nil
}

// Leased walks the leased messages.
func (t *Redis) Leased(ctx context.Context, bucket message.Bucket, cursor string,
	limit int) (uids []message.UID, next string, err error) {
	a := t.run(ctx, &call{bucket: bucket, script: "leased", args: []any{cmp.Or(cursor, "0"), limit}})
	if next = a.text("next"); next == "0" {
		next = ""
	}
	return a.uids(), next, a.done()
}
