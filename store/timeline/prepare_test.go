package timeline_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/timeline"
)

func TestPrepare_RefusesAnotherNumberOfBuckets(t *testing.T) {
	t.Parallel()
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{lab.SharedRedis(t).Addr}, CallTimeout: 5 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	make := func(buckets message.Bucket) *timeline.Redis {
		tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: "prepare", Buckets: buckets,
			EndedKeep: time.Minute, TombstoneKeep: time.Minute, TombstoneLimit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	for range 2 {
		if _, err := make(4).Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := make(8).Prepare(t.Context())
	if !errors.Is(err, timeline.ErrUnfit) {
		t.Fatalf("another number of buckets: %v, want ErrUnfit", err)
	}
	for _, word := range []string{"buckets is 8", "set buckets to 4", "stop every instance and run tarry rebucket 8"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not name %q: %v", word, err)
		}
	}
}

func TestPrepare_RefusesARedisThatMayEvict(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 5 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: "evict", Buckets: 1, EndedKeep: time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tl.Prepare(t.Context())
	if !errors.Is(err, timeline.ErrUnfit) || !strings.Contains(err.Error(), "allkeys-lru") ||
		!strings.Contains(err.Error(), "noeviction") {
		t.Fatalf("got %v, want a refusal with the policy and the limit", err)
	}
}

func TestPrepare_CallsAnUnreachableRedisUnavailable(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t)
	tl := open(t, srv, plain(1))
	srv.Kill()
	if _, err := tl.Prepare(t.Context()); !errors.Is(err, scheduler.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
}

// TestRedis_DrainsWhenFull fills a Redis to its maxmemory: pushes are refused whole, and everything that takes messages
// out still works.
func TestRedis_DrainsWhenFull(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction", "--appendonly", "no")
	tl := open(t, srv, plain(1))
	ctx := t.Context()
	ids := scheduler.NewIDs(one{}, time.Now)
	var kept []*message.Message
	push := func() error {
		batch := make([]*message.Message, 100)
		for i := range batch {
			uid, err := ids.Next(0)
			if err != nil {
				t.Fatal(err)
			}
			batch[i] = &message.Message{UID: uid, Topic: "orders", Body: make([]byte, 1000), Due: 1000, Attempt: 1}
		}
		_, _, err := tl.Add(ctx, 0, batch, 1)
		if err == nil {
			kept = append(kept, batch...)
		}
		return err
	}
	var err error
	for err == nil {
		err = push()
	}
	if !errors.Is(err, scheduler.ErrFull) {
		t.Fatalf("a full Redis: %v, want ErrFull", err)
	}
	heads, err := tl.Heads(ctx)
	if err != nil || heads[0].Waiting != len(kept) {
		t.Fatalf("%+v waiting, %v; want the %d that were acknowledged", heads, err, len(kept))
	}
	if err := tl.Begin(ctx, 0, 1); err != nil {
		t.Fatalf("begin: %v", err)
	}
	ref := scheduler.Ref{UID: kept[len(kept)-1].UID}
	if c, err := tl.Cancel(ctx, ref, 2); err != nil || c.Code != scheduler.CancelDone {
		t.Fatalf("cancel: %s, %v", c.Code, err)
	}
	got, err := tl.Claim(ctx, 0, scheduler.Claim{Term: 1, Now: 2000, Limit: 10, Bytes: 1 << 20})
	if err != nil || len(got.Messages) != 10 {
		t.Fatalf("claim: %d messages, %v", len(got.Messages), err)
	}
	m := got.Messages[0]
	if err := tl.Return(ctx, 0, 1, []scheduler.Back{
		{UID: m.UID, Score: m.Score(), Mark: message.Mark{Uncertain: true, Lane: "js:ORDERS"}}}, 1); err != nil {
		t.Fatalf("park: %v", err)
	}
	if n, err := tl.Sweep(ctx, 0, 2, 0, 100, 1); err != nil || n != 9 {
		t.Fatalf("sweep: %d, %v", n, err)
	}
	left := len(kept) - 1
	for _, lane := range []message.Lane{"js:ORDERS", ""} {
		for {
			got, err := tl.Claim(ctx, 0,
				scheduler.Claim{Term: 2, Now: 2000, Limit: 500, Bytes: 1 << 20, Lane: lane})
			if err != nil {
				t.Fatalf("claim while full: %v", err)
			}
			if len(got.Messages) == 0 {
				break
			}
			ends := make([]scheduler.End, len(got.Messages))
			for i, m := range got.Messages {
				ends[i] = scheduler.End{Message: m, State: message.StateDelivered}
			}
			if err := tl.Finish(ctx, 0, 2, ends, 3); err != nil {
				t.Fatalf("finish while full: %v", err)
			}
			left -= len(ends)
		}
	}
	if left != 0 {
		t.Fatalf("%d messages did not leave", left)
	}
	if err := push(); err != nil {
		t.Fatalf("push after the drain: %v", err)
	}
}
