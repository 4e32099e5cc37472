package timeline_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/memory"
	"github.com/tarry-mq/tarry/store/timeline"
)

// open makes a timeline of its own namespace on a redis-server.
func open(t *testing.T, srv *lab.Redis, o schedulertest.Options) *timeline.Redis {
	t.Helper()
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	ns := "t" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		for bucket := range o.Buckets {
			nothingStays(t, rdb, fmt.Sprintf("{%s:%d}:", ns, bucket))
		}
	})
	tl, err := timeline.New(
		timeline.Config{Client: rdb, Namespace: ns, Buckets: o.Buckets,
			EndedKeep: o.EndedKeep, TombstoneKeep: o.TombstoneKeep, TombstoneLimit: o.TombstoneLimit, CallLimit: o.CallLimit,
			Record: o.Record})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	return tl
}

// nothingStays checks that no message that has ended has a mark or a next one of its name.
func nothingStays(t *testing.T, rdb redis.UniversalClient, prefix string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer stop()
	for _, of := range []string{"mark", "next"} {
		uids, err := rdb.HKeys(ctx, prefix+of).Result()
		if err != nil || len(uids) == 0 { // some tests end their server
			continue
		}
		records := rdb.HMGet(ctx, prefix+"msg", uids...).Val()
		for i, uid := range uids {
			if record, _ := records[i].(string); record != "" && record[0] != 1 {
				t.Errorf("%s has %s, which has ended", prefix+of, uid)
			}
		}
	}
}

// plain are the options of a test that does not care.
func plain(buckets message.Bucket) schedulertest.Options {
	return schedulertest.Options{Buckets: buckets, EndedKeep: 10 * time.Minute, TombstoneKeep: 10 * time.Minute,
		TombstoneLimit: 10_000}
}

func TestRedis_KeepsEveryPromise(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	schedulertest.Exercise(t, func(t *testing.T, o schedulertest.Options) scheduler.Timeline { return open(t, srv, o) })
}

func TestRedis_DoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	// Its own, so that no other test's writes are taken for the model's.
	srv := lab.NewRedis(t, "--appendonly", "no")
	schedulertest.ExerciseModel(t,
		func(t *testing.T, o schedulertest.Options) scheduler.Timeline { return open(t, srv, o) },
		func(t *testing.T, o schedulertest.Options) scheduler.Timeline {
			m, err := memory.New(memory.Config{Buckets: o.Buckets, EndedKeep: o.EndedKeep,
				TombstoneKeep: o.TombstoneKeep, TombstoneLimit: o.TombstoneLimit, CallLimit: o.CallLimit,
				Record: o.Record})
			if err != nil {
				t.Fatal(err)
			}
			schedulertest.Certify(t, m)
			return m
		})
}

func TestRedis_CarriesAMessageFromPushToEnd(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tl := open(t, lab.SharedRedis(t), plain(1))
	m := &message.Message{UID: "t-0123456789abcdef", ID: "order-1", Topic: "orders", Body: []byte("hi"), Due: 1000,
		Attempt: 1, Digest: message.Digest{1}}
	results, earlier, err := tl.Add(ctx, 0, []*message.Message{m}, 10)
	if err != nil || results[0].Code != scheduler.Added || !slices.Equal(earlier, []scheduler.Earlier{{Due: 1000}}) {
		t.Fatalf("add: %+v, earlier %v, %v", results, earlier, err)
	}
	results, earlier, err = tl.Add(ctx, 0, []*message.Message{m}, 11)
	if err != nil || results[0].Code != scheduler.AddDuplicate || results[0].First.Due != 1000 || len(earlier) != 0 {
		t.Fatalf("add again: %+v, earlier %v, %v", results, earlier, err)
	}
	if err := tl.Begin(ctx, 0, 7); err != nil {
		t.Fatal(err)
	}
	if err := tl.Begin(ctx, 0, 6); !errors.Is(err, scheduler.ErrStaleTerm) {
		t.Fatalf("begin of a lower term: %v", err)
	}
	got, err := tl.Claim(ctx, 0, scheduler.Claim{Term: 7, Now: 999, Limit: 10, Bytes: 1000})
	if err != nil || len(got.Messages) != 0 || got.Head != 1000 {
		t.Fatalf("claim too early: %+v, %v", got, err)
	}
	got, err = tl.Claim(ctx, 0, scheduler.Claim{Term: 7, Now: 1000, Limit: 10, Bytes: 1000})
	if err != nil || len(got.Messages) != 1 || string(got.Messages[0].Body) != "hi" || got.Head != 0 {
		t.Fatalf("claim: %+v, %v", got, err)
	}
	c, err := tl.Cancel(ctx, scheduler.Ref{UID: m.UID}, 12)
	if err != nil || c.Code != scheduler.CancelInFlight {
		t.Fatalf("cancel in flight: %+v, %v", c, err)
	}
	if n, err := tl.Sweep(ctx, 0, 8, 0, 10, 12); err != nil || n != 1 {
		t.Fatalf("sweep: %d, %v", n, err)
	}
	c, err = tl.Cancel(ctx, scheduler.Ref{UID: m.UID}, 12)
	if err != nil || c.Code != scheduler.CancelMaybe {
		t.Fatalf("cancel of what was swept: %+v, %v", c, err)
	}
	found, err := tl.Find(ctx, scheduler.Ref{ID: "order-1"})
	if err != nil || len(found) != 1 || found[0].State != message.StateCanceled || !found[0].Mark.Uncertain {
		t.Fatalf("find: %+v, %v", found, err)
	}
	if n, err := tl.Trim(ctx, 0, 8, message.Milli(12+10*60*1000), 100); err != nil || n != 1 {
		t.Fatalf("trim: %d, %v", n, err)
	}
	if found, err = tl.Find(ctx, scheduler.Ref{ID: "order-1"}); err != nil || len(found) != 0 {
		t.Fatalf("find after trim: %+v, %v", found, err)
	}
}
