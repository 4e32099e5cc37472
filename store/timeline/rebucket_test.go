package timeline_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

// town is a namespace with something of everything, whose number of buckets changes.
type town struct {
	*testing.T
	*timeline.Redis
	rdb   redis.UniversalClient
	addr  string
	ns    string
	n     int
	term  uint64
	uids  []message.UID // to look up
	names []scheduler.Ref
	nonce scheduler.Nonce
	// vague: how many messages cannot be read is not compared. Killed at one point, a change counts some twice.
	vague bool
}

// bulk is how many plain messages TestRebucket_LosesDoublesAndReordersNothing adds to the others.
var bulk = flag.Int("bulk", 4000, "plain messages whose number of buckets changes")

// kills is how often TestRebucket_MayBeKilledAtAnyPoint begins a change that may be killed.
var kills = flag.Int("kills", 40, "times that a change of the number of buckets may be killed")

const townNow = schedulertest.Start

func newTown(t *testing.T, addrs ...string) *town {
	t.Helper()
	w := &town{T: t, ns: "t" + strings.ToLower(rand.Text()), term: 1, addr: addrs[0]}
	w.rdb = timeline.Dial(timeline.DialConfig{Addrs: addrs, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = w.rdb.Close() })
	w.open(4)
	schedulertest.Certify(t, w.Redis)
	for b := range w.Buckets() {
		w.must(w.Begin(t.Context(), b, 1))
	}
	return w
}

func (w *town) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// open opens the namespace as an instance does.
func (w *town) open(buckets message.Bucket) {
	w.Helper()
	var err error
	w.Redis, err = timeline.New(timeline.Config{Client: w.rdb, Namespace: w.ns, Buckets: buckets, EndedKeep: time.Hour,
		TombstoneKeep: time.Hour, TombstoneLimit: 10_000})
	w.must(err)
	_, err = w.Prepare(w.Context())
	w.must(err)
}

// push adds messages, each with its own options.
func (w *town) push(n int, with func(i int) []schedulertest.With) []*message.Message {
	w.Helper()
	all, by := make([]*message.Message, n), map[message.Bucket][]*message.Message{}
	for i := range all {
		w.n++
		m := schedulertest.Message(w.n, append(with(i), schedulertest.Stored(uint64(w.n)))...)
		all[i] = m
		by[m.UID.Bucket(w.Buckets())] = append(by[m.UID.Bucket(w.Buckets())], m)
		if n < 1000 && i%3 == 0 || i%100 == 0 {
			w.uids = append(w.uids, m.UID)
			if m.ID != "" {
				w.names = append(w.names, scheduler.Ref{ID: m.ID}, scheduler.Ref{ID: m.ID, Topic: m.Topic, Key: m.Key,
					Keyed: true})
			}
		}
	}
	for b, part := range by {
		for batch := range slices.Chunk(part, 500) {
			_, _, err := w.Add(w.Context(), b, batch, townNow)
			w.must(err)
		}
	}
	return all
}

// claim claims up to n of what is due in each bucket.
func (w *town) claim(number uint64, n int) map[message.Bucket][]*message.Message {
	w.Helper()
	all := map[message.Bucket][]*message.Message{}
	for b := range w.Buckets() {
		got, err := w.Claim(w.Context(), b,
			scheduler.Claim{Term: w.term, Number: number, Now: townNow, Limit: n, Bytes: 1 << 30})
		w.must(err)
		all[b] = got.Messages
	}
	return all
}

// populate fills the namespace with n plain messages and several hundred of each other kind.
func (w *town) populate(n int) {
	w.Helper()
	ctx := w.Context()
	type with = []schedulertest.With
	hash := func(i int) schedulertest.With { return schedulertest.In(message.Bucket(i * 7919 % 65536)) }
	due := schedulertest.DueIn(-time.Minute)
	ends := func(number uint64, state message.State, per int) {
		for b, claimed := range w.claim(number, per) {
			var all []scheduler.End
			for _, m := range claimed {
				all = append(all, scheduler.End{Message: m, State: state, Reason: "why"})
			}
			err := w.Finish(ctx, b, w.term, all, townNow)
			w.must(err)
		}
	}
	w.push(400, func(i int) with { return with{hash(i), due, schedulertest.On("ended.here")} })
	ends(1, message.StateDelivered, 50)
	ends(2, message.StateDead, 30)
	for b, claimed := range w.claim(3, 15) { // to a lane
		var back []scheduler.Back
		for i, m := range claimed {
			back = append(back, scheduler.Back{UID: m.UID, Claim: 3, Score: m.Score() + int64(i%2)<<20,
				Mark: message.Mark{Changes: 1, Lane: "STREAM"}, Message: m, Kind: message.KindParked})
		}
		err := w.Return(ctx, b, w.term, back, townNow)
		w.must(err)
	}
	w.claim(4, 1000) // in flight
	// A name whose message is in flight, and the push that comes next under it.
	w.push(200, func(i int) with {
		return with{schedulertest.Named(fmt.Sprint("merge-", i)), schedulertest.Keyed(fmt.Sprint("k", i%50)), due}
	})
	w.claim(5, 20)
	w.push(200, func(i int) with {
		return with{schedulertest.Named(fmt.Sprint("merge-", i)), schedulertest.Keyed(fmt.Sprint("k", i%50)),
			schedulertest.Merging(message.MergeReplace), schedulertest.DueIn(time.Hour)}
	})
	w.push(400, func(i int) with { // attempts of a name
		return with{schedulertest.Named(fmt.Sprint("order-", i/2)), schedulertest.Attempt(uint32(1 + i%2))}
	})
	for _, m := range w.push(100, func(i int) with { return with{hash(i), schedulertest.On("canceled")} }) {
		_, err := w.Cancel(ctx, scheduler.Ref{UID: m.UID}, townNow)
		w.must(err)
	}
	for i := range 200 {
		ref := scheduler.Ref{ID: fmt.Sprint("gone-", i), Topic: "content", Key: fmt.Sprint("k", i), Keyed: i%2 == 0}
		if i%2 == 1 {
			ref.Key = ""
		}
		_, err := w.Bury(ctx, ref, 1<<40, townNow)
		w.must(err)
	}
	w.push(2, func(i int) with { return with{hash(i), schedulertest.Body(bytes.Repeat([]byte("x"), 100_000))} })
	w.pull()
	damaged := w.push(8, func(i int) with {
		return with{hash(i), schedulertest.DueIn(-time.Hour), schedulertest.On("damaged")}
	})
	for _, m := range damaged {
		b := m.UID.Bucket(w.Buckets())
		w.must(w.rdb.HSet(ctx, fmt.Sprintf("{%s:%d}:msg", w.ns, b), string(m.UID), "garbage").Err())
	}
	w.must(w.rdb.RPush(ctx, fmt.Sprintf("{%s:0}:ended", w.ns), "cut").Err())
	w.claim(6, 2)
	w.push(n, func(i int) with { return with{hash(i), schedulertest.DueIn(time.Duration(i) * time.Second)} })
	_, err := w.Pause(ctx, scheduler.Pause{Pattern: "paused.>", At: townNow, By: "me"})
	w.must(err)
}

// pull adds messages for pull, with and without a line, and leases some.
func (w *town) pull() {
	w.Helper()
	ctx := w.Context()
	type with = []schedulertest.With
	w.push(400, func(i int) with {
		opts := with{schedulertest.In(message.Bucket(i * 31)), schedulertest.ForPull(), schedulertest.On("work"),
			schedulertest.DueIn(time.Duration(i-300) * time.Second), schedulertest.Priority(uint8(i % 3))}
		if i%4 == 0 {
			opts = append(opts, schedulertest.TTL(time.Hour))
		}
		return opts
	})
	w.push(300, func(i int) with {
		return with{schedulertest.InLine(fmt.Sprint("line", i%60)), schedulertest.On(fmt.Sprint("lines.", i%3)),
			schedulertest.DueIn(time.Duration(i-250) * time.Second)}
	})
	w.push(300, func(i int) with {
		return with{schedulertest.ForPull(), schedulertest.Named(fmt.Sprint("j", i)), schedulertest.On("jobs"),
			func() schedulertest.With { return schedulertest.Keyed(fmt.Sprint("serial", i%40)) }(), serial}
	})
	for i, topic := range []string{"work", "lines.0", "lines.1", "jobs"} {
		w.nonce = scheduler.Nonce(100 + i)
		for b := range w.Buckets() {
			l := w.lease(b, topic, w.nonce)
			var items []scheduler.Settle
			for j, m := range l.Messages {
				verb := []scheduler.Verb{scheduler.Ack, scheduler.Nack, scheduler.Release, scheduler.Bury}[j%4]
				if j%9 < 5 {
					items = append(items, scheduler.Settle{Verb: verb, UID: m.UID, Topic: topic, Nonce: w.nonce,
						Number: townNow.Add(time.Minute), Reason: "no"})
				}
			}
			if len(items) > 0 {
				_, _, err := w.Settle(ctx, b, 0, items, townNow)
				w.must(err)
			}
		}
	}
}

var serial = schedulertest.InLine("of its own key")

func (w *town) lease(b message.Bucket, topic string, nonce scheduler.Nonce) scheduler.Leased {
	w.Helper()
	l := w.Lease(w.Context(), []scheduler.LeaseRequest{{Bucket: b, Topic: topic, Limit: 20, Bytes: 1 << 20, Over: true,
		Nonce: nonce, Keep: time.Hour, Now: townNow, From: townNow, Length: time.Minute, Consumer: "c"}})[0]
	w.must(l.Err)
	return l
}

// dump returns what lies in all buckets together, by key, and fails where something lies in two of them.
func (w *town) dump() map[string]string {
	w.Helper()
	ctx, all := w.Context(), map[string]map[string]string{}
	put := func(key, at, value string) {
		if all[key] == nil {
			all[key] = map[string]string{}
		}
		if was, twice := all[key][at]; twice && at != "" && at[:1] != "a" && key != "ended" {
			w.Errorf("%s %q lies twice: %q, %q", key, at, was, value)
		}
		all[key][at] = value
	}
	add := func(key, at, value string) {
		a, b := strings.Fields(all[key][at]), strings.Fields(value)
		sum := make([]string, max(len(a), len(b)))
		for i := range sum {
			x, y := 0, 0
			if i < len(a) {
				x, _ = strconv.Atoi(a[i])
			}
			if i < len(b) {
				y, _ = strconv.Atoi(b[i])
			}
			sum[i] = strconv.Itoa(x + y)
		}
		if all[key] == nil {
			all[key] = map[string]string{}
		}
		all[key][at] = strings.Join(sum, " ")
	}
	var keys []string
	for i := w.rdb.Scan(ctx, 0, "{"+w.ns+":*", 1000).Iterator(); i.Next(ctx); {
		keys = append(keys, i.Val())
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		prefix, name, _ := strings.Cut(key, "}:")
		if n, err := strconv.Atoi(prefix[strings.LastIndexByte(prefix, ':')+1:]); err != nil {
			continue
		} else if n >= int(w.Buckets()) && name != "term" && name != "meta" {
			w.Errorf("%s is left", key)
		}
		switch kind := w.rdb.Type(ctx, key).Val(); {
		case slices.Contains([]string{"gen", "term", "meta", "trimmed", "big", "paused"}, name):
		case name == "counts" || name == "chained":
			for at, value := range w.rdb.HGetAll(ctx, key).Val() {
				if at != "" && !(w.vague && at == "damaged") {
					add(name, at, value)
				}
			}
		case name == "pulls" || name == "leasing":
			for _, z := range w.rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				put(name, prefix+z.Member.(string), "") // see orders
			}
		case name == "lanes":
			for _, lane := range w.rdb.SMembers(ctx, key).Val() {
				put(name, prefix+lane, "")
			}
		case name == "ended":
			for _, end := range w.rdb.LRange(ctx, key, 0, -1).Val() {
				for at := 13; at+18 <= len(end); at += 18 {
					put(name, end[at:at+18], end[:13])
				}
			}
		case kind == "hash":
			for at, value := range w.rdb.HGetAll(ctx, key).Val() {
				if at != "" {
					put(name, at, value)
				}
			}
		case kind == "zset":
			for _, z := range w.rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				at := z.Member.(string)
				if name == "tombs" && at[:1] == "a" { // each bucket has one, with a place of its own
					z.Score = 0
				}
				put(name, at, strconv.FormatFloat(z.Score, 'f', -1, 64))
			}
		default:
			w.Errorf("%s is a %s", key, kind)
		}
	}
	// The derived keys say the same as the orders.
	for _, pair := range [][2]string{{"pulls", "pull:"}, {"leasing", "leased:"}, {"lanes", "parked:"}} {
		want := map[string]bool{}
		for _, key := range keys {
			if prefix, name, _ := strings.Cut(key, "}:"); strings.HasPrefix(name, pair[1]) {
				want[prefix+strings.TrimPrefix(name, pair[1])] = true
			}
		}
		if got := slices.Sorted(maps.Keys(all[pair[0]])); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			w.Errorf("%s: %q, want %q", pair[0], got, slices.Sorted(maps.Keys(want)))
		}
		delete(all, pair[0])
	}
	text := map[string]string{}
	for key, elements := range all {
		var b strings.Builder
		for _, at := range slices.Sorted(maps.Keys(elements)) {
			fmt.Fprintf(&b, "%q %q\n", at, elements[at])
		}
		text[key] = b.String()
	}
	return text
}

// looks returns the answers of every look-up.
func (w *town) looks() map[string]string {
	w.Helper()
	ctx, all := w.Context(), map[string]string{}
	say := func(what string, v any, err error) {
		if err != nil && !errors.Is(err, scheduler.ErrUnreadable) {
			w.Fatalf("%s: %v", what, err)
		}
		all[what] += fmt.Sprintf("%+v %v\n", v, err != nil)
	}
	for _, uid := range w.uids {
		found, err := w.Find(ctx, scheduler.Ref{UID: uid})
		say(string(uid), found, err)
	}
	for _, ref := range w.names {
		found, err := w.Find(ctx, ref)
		say(fmt.Sprintf("%+v", ref), found, err)
	}
	counts, err := w.Counts(ctx, "", 1000)
	counts = slices.DeleteFunc(counts, func(c scheduler.TopicCount) bool { return w.vague && c.Topic == "damaged" })
	say("counts", counts, err)
	pauses, at, err := w.Pauses(ctx)
	say("pauses", fmt.Sprint(pauses, at), err)
	pulled, err := w.Pulled(ctx, []string{"work", "lines.0", "lines.1", "lines.2", "jobs"}, []message.Milli{townNow,
		townNow.Add(time.Hour)})
	say("pulled", pulled, err)
	lists := map[string][]string{}
	var lanes []string
	for b := range w.Buckets() {
		claims, err := w.Claims(ctx, b, "", 10_000)
		w.must(err)
		for _, uid := range claims {
			lists["claims"] = append(lists["claims"], string(uid))
		}
		refused, err := w.Refused(ctx, b)
		w.must(err)
		for _, r := range refused {
			r.Bucket = 0
			lists["refused"] = append(lists["refused"], fmt.Sprintf("%+v", r))
		}
		for _, topic := range []string{"work", "lines.0", "lines.1", "lines.2", "jobs"} {
			page, err := w.Leases(ctx, b, scheduler.LeaseQuery{Topic: topic, Limit: 1000}, townNow)
			w.must(err)
			for _, l := range page.Leases {
				lists["leases"] = append(lists["leases"], fmt.Sprintf("%+v", l))
			}
			for i, on := range []string{"work", "lines.0", "lines.1", "jobs"} { // what each nonce was granted
				l := w.Lease(ctx, []scheduler.LeaseRequest{{Bucket: b, Topic: topic, Nonce: scheduler.Nonce(100 + i), Now: townNow,
					Pauses: townNow}})[0]
				w.must(l.Err)
				for _, m := range l.Messages {
					lists["granted"] = append(lists["granted"], fmt.Sprint(on, " ", m.UID, " ", m.Until))
				}
			}
		}
		more, err := w.Lanes(ctx, b)
		w.must(err)
		for _, l := range more {
			lanes = append(lanes, string(l.Lane))
		}
	}
	slices.Sort(lanes)
	lists["lanes"] = slices.Compact(lanes)
	for what, list := range lists {
		slices.Sort(list)
		all[what] = strings.Join(list, "\n")
	}
	return all
}

// rebucket prepares a change of the number of buckets under the next term.
func (w *town) rebucket(to message.Bucket) *timeline.Rebucket {
	w.Helper()
	return w.rebucketBy(w.rdb, to)
}

func (w *town) rebucketBy(rdb redis.UniversalClient, to message.Bucket) *timeline.Rebucket {
	w.Helper()
	from, _, err := timeline.ReadBuckets(w.Context(), w.rdb, w.ns)
	w.must(err)
	w.term++
	r, err := timeline.NewRebucket(rdb, w.ns, from, to, w.term, func(int) {})
	w.must(err)
	return r
}

func become(ctx context.Context, r *timeline.Rebucket) error {
	for _, step := range []func(context.Context) error{r.Hold, r.Move, r.Finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// same compares two maps.
func (w *town) same(what string, was, is map[string]string) {
	w.Helper()
	for key := range maps.Keys(was) {
		if was[key] != is[key] {
			lost, found := strings.Split(was[key], "\n"), []string(nil)
			for _, line := range strings.Split(is[key], "\n") {
				if i := slices.Index(lost, line); i >= 0 {
					lost = slices.Delete(lost, i, i+1)
				} else {
					found = append(found, line)
				}
			}
			w.Errorf("%s of %s: lost %.300q, new %.300q", what, key, lost, found)
		}
	}
	for key := range is {
		if _, known := was[key]; !known {
			w.Errorf("%s: %s is new", what, key)
		}
	}
}

func TestRebucket_LosesDoublesAndReordersNothing(t *testing.T) {
	t.Parallel()
	w := newTown(t, lab.NewRedis(t).Addr)
	w.populate(*bulk)
	looks, dump := w.looks(), w.dump()
	for _, key := range []string{"msg", "mark", "name", "names", "next", "claimed", "pull", "pull:work", "serial",
		"chained", "lease", "leased:work", "expires", "grant:" + scheduler.Nonce(100).String(), "parked:STREAM",
		"behind:STREAM", "ended", "dead", "counts", "tomb", "tombs", "refused"} {
		if dump[key] == "" {
			t.Errorf("nothing is in %s", key)
		}
	}
	for _, to := range []message.Bucket{16, 1, 64, 4} {
		began := time.Now()
		w.must(become(t.Context(), w.rebucket(to)))
		t.Logf("%d buckets after %s", to, time.Since(began))
		w.open(to)
		w.unchanged(looks, dump)
	}
}

// unchanged compares all with what it was.
func (w *town) unchanged(looks, dump map[string]string) {
	w.Helper()
	w.same(fmt.Sprintf("%d buckets: look-up", w.Buckets()), looks, w.looks())
	w.same(fmt.Sprintf("%d buckets: key", w.Buckets()), dump, w.dump())
	if w.Failed() {
		w.FailNow()
	}
}

// killer ends a context with the command after so many, before or after Redis runs it. No later one gets to Redis.
type killer struct {
	left  atomic.Int64
	after bool
	kill  context.CancelCauseFunc
}

var errKilled = errors.New("killed")

func (k *killer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (k *killer) once(run func() error) error {
	left := k.left.Add(-1)
	if left > 0 {
		return run()
	}
	if left == 0 && k.after {
		_ = run()
	}
	k.kill(errKilled)
	return errKilled
}

func (k *killer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return k.once(func() error { return next(ctx, cmd) })
	}
}

func (k *killer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return k.once(func() error { return next(ctx, cmds) })
	}
}

// A change that is killed again and again, between any two commands or before an answer comes, is run again to any
// number.
func TestRebucket_MayBeKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	w := newTown(t, lab.NewRedis(t).Addr)
	w.vague = true
	w.populate(500)
	looks, dump := w.looks(), w.dump()
	rnd := mrand.New(mrand.NewPCG(1, 23))
	numbers := []message.Bucket{1, 2, 3, 4, 7, 16}
	done := 0
	for i := range *kills {
		to := numbers[rnd.IntN(len(numbers))]
		r := timeline.Dial(timeline.DialConfig{Addrs: []string{w.addr}, CallTimeout: 10 * time.Second})
		ctx, kill := context.WithCancelCause(t.Context())
		k := &killer{after: i%2 == 0, kill: kill}
		k.left.Store(1 << 40)
		r.AddHook(k)
		move := w.rebucketBy(r, to)
		k.left.Store(1 + rnd.Int64N(1+rnd.Int64N(4000)))
		err := become(ctx, move)
		kill(nil)
		_ = r.Close()
		switch {
		case err == nil:
			w.open(to)
			w.unchanged(looks, dump)
			done++
		case context.Cause(ctx) != errKilled:
			t.Fatalf("to %d: %v", to, err)
		}
	}
	if done == 0 || done == *kills {
		t.Errorf("%d of %d were finished", done, *kills)
	}
	w.must(become(t.Context(), w.rebucket(5)))
	w.open(5)
	w.unchanged(looks, dump)
}

// Meanwhile no instance starts, and one that runs does nothing. A change that sleeps while another one is made is over.
// An instance that ZooKeeper did not see, or that was suspended, wakes up after a rebucket: it does nothing more.
func TestRebucket_OneThatSleptThroughItEnds(t *testing.T) {
	t.Parallel()
	for _, to := range []message.Bucket{8, 2} {
		w := newTown(t, lab.NewRedis(t).Addr)
		var told error
		asleep, err := timeline.New(timeline.Config{Client: w.rdb, Namespace: w.ns, Buckets: 4, EndedKeep: time.Hour,
			TombstoneKeep: time.Hour, TombstoneLimit: 10_000, Unfit: func(err error) { told = cmp.Or(told, err) }})
		w.must(err)
		w.must(become(t.Context(), w.rebucket(to)))
		w.open(to)
		dump := w.dump()
		for b := range message.Bucket(4) {
			m := schedulertest.Message(int(b), schedulertest.In(b))
			_, _, added := asleep.Add(t.Context(), b, []*message.Message{m}, townNow)
			_, claimed := asleep.Claim(t.Context(), b, scheduler.Claim{Term: w.term + 9, Now: townNow, Limit: 1, Bytes: 1})
			for what, err := range map[string]error{"a push": added, "a claim": claimed,
				"the next leader": asleep.Begin(t.Context(), b, w.term+9)} {
				gone := b >= to && errors.Is(err, scheduler.ErrUncertified) // there is no such bucket
				if !gone && !errors.Is(err, timeline.ErrUnfit) || !errors.Is(err, scheduler.ErrUnavailable) {
					t.Errorf("%s in bucket %d of 4, now %d: %v", what, b, to, err)
				}
			}
		}
		if want := fmt.Sprintf("was begun with %d", to); told == nil || !strings.Contains(told.Error(), want) {
			t.Errorf("told %v", told)
		}
		w.same("one that wakes up", dump, w.dump())
	}
}

func TestRebucket_KeepsEverybodyElseOut(t *testing.T) {
	t.Parallel()
	w := newTown(t, lab.NewRedis(t).Addr)
	w.push(100, func(i int) []schedulertest.With { return []schedulertest.With{schedulertest.In(message.Bucket(i))} })
	for _, asleep := range []string{"before it begins", "before it moves", "before it finishes"} {
		for _, last := range []message.Bucket{9, 4} {
			frozen := w.rebucket(6)
			if asleep != "before it begins" {
				w.must(frozen.Hold(t.Context()))
			}
			if asleep == "before it finishes" {
				w.must(frozen.Move(t.Context()))
			}
			r := w.rebucket(last)
			w.must(r.Hold(t.Context()))
			if _, err := w.Prepare(t.Context()); !errors.Is(err, timeline.ErrUnfit) ||
				!strings.Contains(err.Error(), fmt.Sprintf("tarry rebucket %d of namespace", last)) {
				t.Fatalf("an instance that starts: %v", err)
			}
			m := schedulertest.Message(9999)
			_, _, added := w.Add(t.Context(), 0, []*message.Message{m}, townNow)
			_, claimed := w.Claim(t.Context(), 0, scheduler.Claim{Term: w.term, Now: townNow, Limit: 1, Bytes: 1})
			_, found := w.Find(t.Context(), scheduler.Ref{UID: w.uids[0]})
			for _, err := range []error{added, claimed, found} {
				if !errors.Is(err, scheduler.ErrUncertified) {
					t.Fatalf("an instance that runs: %v", err)
				}
			}
			if err := w.Begin(t.Context(), 0, w.term+9); !errors.Is(err, timeline.ErrUnfit) {
				t.Fatalf("an instance that is elected: %v", err)
			}
			w.must(r.Move(t.Context()))
			w.must(r.Finish(t.Context()))
			w.open(last)
			dump := w.dump()
			for _, step := range []func(context.Context) error{frozen.Hold, frozen.Move, frozen.Finish} {
				if err := step(t.Context()); !errors.Is(err, scheduler.ErrStaleTerm) {
					t.Errorf("%s: one that wakes up: %v", asleep, err)
				}
			}
			w.open(last)
			w.same("one that wakes up", dump, w.dump())
		}
	}
}

// A full Redis ends it; with more room it is run again. A link that breaks does not end it.
func TestRebucket_FullRedisAndBrokenLink(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--maxmemory-policy", "noeviction")
	w := newTown(t, srv.Addr)
	w.populate(2000)
	looks, dump := w.looks(), w.dump()
	var used int64
	for line := range strings.Lines(w.rdb.Info(t.Context(), "memory").Val()) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); is {
			used, _ = strconv.ParseInt(text, 10, 64)
		}
	}
	set := func(limit int64) {
		w.must(w.rdb.ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(limit, 10)).Err())
	}
	for _, room := range []int64{-1 << 20, 0, 128 << 10} {
		set(used + room)
		if err := become(t.Context(), w.rebucket(16)); !errors.Is(err, scheduler.ErrFull) {
			t.Fatalf("with %d bytes of room: %v", room, err)
		}
	}
	set(0)
	proxy := lab.NewProxy(t, srv.Addr)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{proxy.Addr}, CallTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	move := w.rebucketBy(rdb, 16)
	done := make(chan error, 1)
	go func() { done <- become(t.Context(), move) }()
	for range 4 {
		lab.Eventually(t, 10*time.Second, func() error {
			if proxy.Conns() == 0 {
				return errors.New("no connection")
			}
			return nil
		})
		proxy.Cut()
		proxy.Heal()
		proxy.StallReplies()
		proxy.Heal()
	}
	w.must(<-done)
	w.open(16)
	w.unchanged(looks, dump)
}

func TestRebucket_InACluster(t *testing.T) {
	t.Parallel()
	var addrs []string
	for _, node := range lab.NewRedisCluster(t, 3).Nodes {
		addrs = append(addrs, node.Addr)
	}
	w := newTown(t, addrs...)
	w.populate(500)
	looks := w.looks()
	for _, to := range []message.Bucket{11, 2} {
		w.must(become(t.Context(), w.rebucket(to)))
		w.open(to)
		w.same(fmt.Sprintf("%d buckets: look-up", to), looks, w.looks())
	}
}

// A cancel that was answered while one bucket had a message of its id holds in every bucket afterwards: of the
// tombstones of an id the latest counts.
func TestRebucket_KeepsTheLatestTombstone(t *testing.T) {
	t.Parallel()
	for _, to := range []message.Bucket{1, 2, 7} {
		w := newTown(t, lab.SharedRedis(t).Addr)
		id := scheduler.Ref{ID: "x", Topic: "content"}
		bury := func(sequence uint64, at message.Milli) {
			t.Helper()
			_, err := w.Bury(t.Context(), id, sequence, at)
			w.must(err)
		}
		push := func(sequence uint64, key string) scheduler.AddCode {
			t.Helper()
			w.n++
			m := schedulertest.Message(w.n, schedulertest.Named("x"), schedulertest.Keyed(key), schedulertest.Stored(sequence))
			got, _, err := w.Add(t.Context(), m.UID.Bucket(w.Buckets()), []*message.Message{m}, townNow)
			w.must(err)
			return got[0].Code
		}
		bury(5, townNow-10)
		if code := push(7, "k1"); code != scheduler.Added {
			t.Fatalf("a later push: %d", code)
		}
		bury(10, townNow)
		w.must(become(t.Context(), w.rebucket(to)))
		w.open(to)
		for i := range 20 {
			if code := push(8, fmt.Sprint("other-", i)); code != scheduler.AddedCanceled {
				t.Errorf("%d buckets: a push from before the cancel: %d", to, code)
			}
		}
	}
}

// What was not certified before is not certified after it: the leader compares it with the journal first.
// What an audit restored once it does not take for lost again.
func TestRebucket_KeepsWhatWasAudited(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{true, false} {
		w := newTown(t, lab.SharedRedis(t).Addr)
		standings, err := w.Standings(t.Context())
		w.must(err)
		for b, s := range standings {
			if all || b > 0 {
				w.must(w.Audited(t.Context(), message.Bucket(b), s.Number))
			}
		}
		w.must(become(t.Context(), w.rebucket(5)))
		w.open(5)
		standings, err = w.Standings(t.Context())
		w.must(err)
		for b, s := range standings {
			if !s.Whole() || s.Audited != all {
				t.Errorf("all were audited: %t; bucket %d stands at %+v", all, b, s)
			}
		}
	}
}

func TestRebucket_CertifiesNothingNew(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(w *town){
		"a certification is lost": func(w *town) { w.must(w.rdb.Del(t.Context(), "{"+w.ns+":1}:gen").Err()) },
		"it is of another server": func(w *town) {
			w.must(w.rdb.Set(t.Context(), "{"+w.ns+":1}:gen", "7 "+strings.Repeat("a", 40)+" 0 whole 0", 0).Err())
		},
		"it is being filled": func(w *town) {
			key := "{" + w.ns + ":1}:gen"
			gen := strings.Replace(w.rdb.Get(t.Context(), key).Val(), "whole", "filling", 1)
			w.must(w.rdb.Set(t.Context(), key, gen, 0).Err())
		},
	} {
		w := newTown(t, lab.SharedRedis(t).Addr)
		w.push(10, func(i int) []schedulertest.With { return nil })
		key := "{" + w.ns + ":2}:gen"
		gen := strings.Replace(w.rdb.Get(t.Context(), key).Val(), " 0 whole", " 77 whole", 1)
		w.must(w.rdb.Set(t.Context(), key, gen, 0).Err())
		lose(w)
		w.must(become(t.Context(), w.rebucket(3)))
		w.open(3)
		standings, err := w.Standings(t.Context())
		w.must(err)
		for b, s := range standings {
			if s.Number == 0 || s.Whole() || s.DoubtUntil != 77 {
				t.Errorf("%s: bucket %d stands at %+v", what, b, s)
			}
		}
	}
}
