package timeline_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

func TestRedis_ALinkThatFallsSilentOrBreaksLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	proxy := lab.NewProxy(t, lab.SharedRedis(t).Addr)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{proxy.Addr}, CallTimeout: 600 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: "t" + strings.ToLower(rand.Text()), Buckets: 2,
		EndedKeep: time.Minute, TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	ctx, uid := t.Context(), message.UID("t-0123456789abcdef")
	m := &message.Message{UID: uid, Topic: "a", Due: 1, Attempt: 1}
	calls := map[string]func() error{
		"add": func() error {
			_, _, err := tl.Add(ctx, uid.Bucket(2), []*message.Message{m}, 1)
			return err
		},
		"find":   func() error { _, err := tl.Find(ctx, scheduler.Ref{ID: "a"}); return err },
		"cancel": func() error { _, err := tl.Cancel(ctx, scheduler.Ref{UID: uid}, 1); return err },
		"amend": func() error {
			_, err := tl.Amend(ctx, scheduler.Amend{UID: uid, Version: 1, Due: 2}, 1)
			return err
		},
		"browse":  func() error { _, err := tl.Browse(ctx, 0, scheduler.Browse{Limit: 1}); return err },
		"requeue": func() error { _, err := tl.Requeue(ctx, uid, 0, m, 1); return err },
		"purge":   func() error { _, _, err := tl.Purge(ctx, 0, []message.UID{uid}, 1); return err },
		"count":   func() error { _, err := tl.Count(ctx, "a"); return err },
		"counts":  func() error { _, err := tl.Counts(ctx, "", 1); return err },
		"pauses":  func() error { _, _, err := tl.Pauses(ctx); return err },
		"pause":   func() error { _, err := tl.Pause(ctx, scheduler.Pause{Pattern: "a"}); return err },
		"resume":  func() error { _, _, err := tl.Resume(ctx, "a", 1); return err },
		"bury":    func() error { _, err := tl.Bury(ctx, scheduler.Ref{ID: "a"}, 1, 1); return err },
	}
	for name, call := range calls {
		// So that there is a connection. After many failures go-redis tries once a second to make one.
		until := time.Now().Add(5 * time.Second)
		for err := call(); err != nil; err = call() {
			if time.Now().After(until) {
				t.Fatalf("%s: %v", name, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		proxy.StallReplies()
		if err := call(); !errors.Is(err, scheduler.ErrOutcomeUnknown) || errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("%s without a reply: %v", name, err)
		}
		broken := make(chan error, 1)
		go func() { broken <- call() }()
		proxy.Cut()
		if err := <-broken; !errors.Is(err, scheduler.ErrOutcomeUnknown) && !errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("%s on a link that breaks: %v", name, err)
		}
		lab.Eventually(t, 5*time.Second, func() error { // a connection of the pool may not know yet that it is cut
			err := call()
			switch unknown := errors.Is(err, scheduler.ErrOutcomeUnknown); {
			case unknown == errors.Is(err, scheduler.ErrUnavailable):
				t.Errorf("%s without a link: %v", name, err)
			case unknown:
				return err
			}
			return nil
		})
		proxy.Heal()
	}
}
