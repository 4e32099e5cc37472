package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// unreached is a timeline that no call may reach.
type unreached struct{ scheduler.Timeline }

func (unreached) Buckets() message.Bucket { return 1 }

// An instance whose store may be the wrong one writes nothing to it and answers nothing from it.
func TestAdmit_RefusesEveryCallBeforeItReachesTheTimeline(t *testing.T) {
	t.Parallel()
	shut := errors.New("shut")
	admit := func() error { return shut }
	s, err := steer.New(scheduler.Config{Timeline: unreached{}, Admit: admit,
		IDs: scheduler.NewIDs(rig.Slot{}, time.Now), Clock: scheduler.NewClock(scheduler.System()),
		MaxDelay: time.Hour, EndedKeep: time.Minute, CallTimeout: time.Second, StopTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l, err := lead.New(lead.Config{Timeline: unreached{}, Admit: admit, Publisher: &rig.NATS{},
		Clock: scheduler.NewClock(scheduler.System()), EndedKeep: time.Minute, ClaimBatch: 1, ClaimBytes: 1, Pending: 1,
		Attempts: 1, CallTimeout: time.Second, StopTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ref, sel := scheduler.Ref{ID: "a", Topic: "b"}, scheduler.Selection{Topic: "b"}
	for name, call := range map[string]func(ctx context.Context) error{
		"accept":  func(ctx context.Context) error { return s.AcceptAll(ctx, []*scheduler.Push{{Topic: "b"}})[0].Err },
		"get":     func(ctx context.Context) error { _, err := s.Get(ctx, ref); return err },
		"by uid":  func(ctx context.Context) error { _, err := s.Get(ctx, scheduler.Ref{UID: "t-0"}); return err },
		"resolve": func(ctx context.Context) error { _, err := s.Resolve(ctx, ref); return err },
		"unseen": func(ctx context.Context) error {
			_, err := s.Get(ctx, scheduler.Ref{ID: "a", Topic: "b", Viewer: &scheduler.Viewer{}})
			return err
		},
		"cancel": func(ctx context.Context) error { _, err := s.Cancel(ctx, ref); return err },
		"reschedule": func(ctx context.Context) error {
			_, err := s.Reschedule(ctx, ref, scheduler.Edit{Run: true})
			return err
		},
		"cancel many": func(ctx context.Context) error { _, err := s.CancelMany(ctx, sel, nil); return err },
		"reschedule many": func(ctx context.Context) error {
			_, err := s.RescheduleMany(ctx, sel, scheduler.Edit{Run: true}, nil)
			return err
		},
		"list": func(ctx context.Context) error {
			_, _, _, err := s.Listed(ctx, scheduler.Listing{}, "", 1, 1)
			return err
		},
		"requeue": func(ctx context.Context) error { _, err := s.RequeueOne(ctx, ref, scheduler.Requeue{}); return err },
		"requeue many": func(ctx context.Context) error {
			_, err := s.RequeueMany(ctx, sel, scheduler.Requeue{},
				nil)
			return err
		},
		"purge":       func(ctx context.Context) error { return s.PurgeOne(ctx, ref) },
		"purge many":  func(ctx context.Context) error { _, err := s.PurgeMany(ctx, sel, nil); return err },
		"count":       func(ctx context.Context) error { _, err := s.TopicCount(ctx, "b"); return err },
		"pull counts": func(ctx context.Context) error { _, err := s.PullCounts(ctx, nil, nil); return err },
		"settle held": func(ctx context.Context) error {
			_, err := s.SettleHeld(ctx, scheduler.Ref{ID: "a"}, scheduler.Ack)
			return err
		},
		"counts": func(ctx context.Context) error { _, err := s.TopicCounts(ctx, "", 1); return err },
		"pauses": func(ctx context.Context) error { _, err := s.Pauses(ctx); return err },
		"pause":  func(ctx context.Context) error { _, err := s.Pause(ctx, "b", "me"); return err },
		"resume": func(ctx context.Context) error { _, _, err := s.Resume(ctx, "b"); return err },
		"lanes":  func(ctx context.Context) error { _, err := l.HeldLanes(ctx); return err },
		"topics": func(ctx context.Context) error { _, err := l.ParkedTopics(ctx, []string{"b"}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := call(t.Context()); !errors.Is(err, shut) {
				t.Errorf("got %v", err)
			}
		})
	}
}
