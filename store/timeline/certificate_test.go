package timeline_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

// A Redis that was emptied during its run is as uncertified as another server.
func TestRedis_NothingTakesEffectOnAServerThatWasEmptiedOrRestarted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := lab.NewRedis(t)
	tl := open(t, srv, plain(1))
	m := schedulertest.Message(1, schedulertest.DueIn(time.Hour))
	if _, _, err := tl.Add(ctx, 0, []*message.Message{m}, schedulertest.Start); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		calls := map[string]func() error{
			"add": func() error {
				_, _, err := tl.Add(ctx, 0, []*message.Message{schedulertest.Message(2)}, schedulertest.Start)
				return err
			},
			"find":   func() error { _, err := tl.Find(ctx, scheduler.Ref{UID: m.UID}); return err },
			"names":  func() error { _, err := tl.Find(ctx, scheduler.Ref{ID: "order-1"}); return err },
			"cancel": func() error { _, err := tl.Cancel(ctx, scheduler.Ref{UID: m.UID}, schedulertest.Start); return err },
			"bury": func() error {
				_, err := tl.Bury(ctx, scheduler.Ref{ID: "x"}, 1, schedulertest.Start)
				return err
			},
			"begin": func() error { return tl.Begin(ctx, 0, 1) },
			"sweep": func() error { _, err := tl.Sweep(ctx, 0, 1, 0, 10, schedulertest.Start); return err },
			"claim": func() error {
				_, err := tl.Claim(
					ctx,
					0,
					scheduler.Claim{
						Term:   1,
						Number: 1,
						Now:    schedulertest.Start,
						Limit:  1,
						Bytes:  1 << 20,
					},
				)
				return err
			},
			"finish": func() error {
				err := tl.Finish(ctx, 0, 1,
					[]scheduler.End{{Message: m, State: message.StateDelivered}}, schedulertest.Start)
				return err
			},
			"return": func() error {
				err := tl.Return(ctx, 0, 1, []scheduler.Back{{UID: m.UID, Claim: 1, Keep: true}},
					schedulertest.Start)
				return err
			},
			"held":      func() error { _, err := tl.Held(ctx, 0, 1, "", 10); return err },
			"heads":     func() error { _, err := tl.Heads(ctx); return err },
			"lanes":     func() error { _, err := tl.Lanes(ctx, 0); return err },
			"trim":      func() error { _, err := tl.Trim(ctx, 0, 1, schedulertest.Start, 10); return err },
			"unwritten": func() error { _, err := tl.Unwritten(ctx, 0, "", 0, 10, 1<<20); return err },
			"written":   func() error { return tl.Written(ctx, 0, []record.Entry{{ID: "1-1"}}) },
			"quarantine": func() error {
				return tl.Quarantine(ctx, record.Quarantined{ID: "1-1", Number: 1})
			},
			"quarantined": func() error { _, _, err := tl.Quarantined(ctx, 0, ""); return err },
			"lags":        func() error { _, err := tl.Lags(ctx); return err },
			"versions":    func() error { _, err := tl.Versions(ctx, 0, []message.UID{m.UID}); return err },
			"restore": func() error {
				_, err := tl.Restore(ctx, 0, nil, schedulertest.Start, schedulertest.Start)
				return err
			},
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, scheduler.ErrUncertified) || !errors.Is(err, scheduler.ErrUnavailable) {
				t.Errorf("%s, %s: %v, want ErrUncertified", what, name, err)
			}
		}
	}
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 5 * time.Second})
	defer rdb.Close()
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	refused("emptied")
	schedulertest.Certify(t, tl)
	if _, _, err := tl.Add(ctx, 0, []*message.Message{m}, schedulertest.Start); err != nil {
		t.Fatalf("after the certification: %v", err)
	}
	srv.Kill()
	srv.Restart()
	lab.Eventually(t, 10*time.Second, func() error { _, err := tl.Standings(ctx); return err })
	refused("restarted")

	// Emptied between the claims and the certification: everything restored is lost again.
	standings, err := tl.Standings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := tl.Recovering(standings, 3, 0)
	if _, err := r.Reclaim(ctx, 0, 3, 10, schedulertest.Start); err != nil {
		t.Fatal(err)
	}
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	c := record.Certification{Number: 99, Run: standings[0].Now}
	if err := r.Certify(ctx, 0, 3, c); !errors.Is(err, scheduler.ErrUncertified) {
		t.Fatalf("certify what was emptied since: %v", err)
	}
}

// A full Redis is certified all the same, and then drains.
func TestRedis_AFullOneIsCertified(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := lab.NewRedis(t)
	tl := open(t, srv, plain(1))
	m, gone := schedulertest.Message(1), schedulertest.Message(2, schedulertest.DueIn(time.Hour))
	if _, _, err := tl.Add(ctx, 0, []*message.Message{m}, schedulertest.Start); err != nil {
		t.Fatal(err)
	}
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 5 * time.Second})
	defer rdb.Close()
	if err := rdb.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tl.Add(ctx, 0, []*message.Message{gone}, schedulertest.Start); !errors.Is(err,
		scheduler.ErrFull) {
		t.Fatalf("it is not full: %v", err)
	}
	standings, err := tl.Standings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	standings[0].Run = "" // as if another server had been certified
	r := tl.Recovering(standings, 3, 0)
	if _, err := r.Reclaim(ctx, 0, 3, 10, schedulertest.Start); err != nil {
		t.Fatalf("reclaim: %v", err)
	}
	records := []record.Record{
		{Info: message.Info{Message: *gone, State: message.StateWaiting, Version: 1}, Content: 1}}
	if codes, err := r.Restore(ctx, 0, records, schedulertest.Start, schedulertest.Start); err != nil &&
		!errors.Is(err, scheduler.ErrFull) || err == nil && codes[0] != record.RestoreAdded {
		t.Fatalf("restore: %v, %v", codes, err)
	}
	c := record.Certification{Number: standings[0].Number + 1, Run: standings[0].Now}
	if err := r.Certify(ctx, 0, 3, c); err != nil {
		t.Fatalf("certify: %v", err)
	}
	got, err := tl.Claim(ctx, 0,
		scheduler.Claim{Term: 3, Number: 1, Now: schedulertest.Start, Limit: 10, Bytes: 1 << 20})
	if err != nil || len(got.Messages) == 0 {
		t.Fatalf("claim: %+v, %v", got, err)
	}
}

// What some buckets did is not answered as if nothing had been done, because of another that is not certified.
func TestBury_InSomeBucketsIsUnsure(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := lab.NewRedis(t)
	tl := open(t, srv, plain(3))
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 5 * time.Second})
	defer rdb.Close()
	if n, err := rdb.Del(ctx, rdb.Keys(ctx, "*:1}:*").Val()...).Result(); err != nil || n == 0 {
		t.Fatalf("%d keys of bucket 1 are deleted: %v", n, err)
	}
	_, err := tl.Bury(ctx, scheduler.Ref{ID: "x", Topic: "orders"}, 1, schedulertest.Start)
	if !errors.Is(err, scheduler.ErrOutcomeUnknown) || errors.Is(err, scheduler.ErrUnavailable) {
		t.Errorf("in all buckets: %v, want an unknown outcome", err)
	}
	for i := range 100 {
		ref := scheduler.Ref{ID: "x", Topic: "orders", Key: fmt.Sprint("k", i), Keyed: true}
		alone := message.BucketOf(message.HashedName(ref.ID, ref.Key), 3) == 1
		_, err := tl.Bury(ctx, ref, 1, schedulertest.Start)
		if alone != errors.Is(err, scheduler.ErrUnavailable) || !alone && err != nil {
			t.Fatalf("of key %s, in bucket 1: %v: %v", ref.Key, alone, err)
		}
	}
}
