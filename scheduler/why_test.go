package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// Every state, every kind of end and every lane has a word of the list, and every word of the list is used.
func TestExplain_HasAWordForEveryWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Topics(&scheduler.Topic{Pattern: "hook", Webhook: true, Deliver: scheduler.DeliverPull},
			&scheduler.Topic{Pattern: "serial", Serial: true, Deliver: scheduler.DeliverPull},
			&scheduler.Topic{Pattern: "pull.*", Deliver: scheduler.DeliverPull})
		s, now := r.S, message.CeilMilli(time.Now())
		if _, _, err := s.Resume(t.Context(), "before"); err != nil { // what an instance knows of pauses may be old
			t.Fatal(err)
		}
		if _, err := s.Pull(t.Context(), scheduler.Poll{Topic: "pull.none", Max: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Pause(t.Context(), "pull.paused", "ann"); err != nil {
			t.Fatal(err)
		}
		// These by the places that are asked, see bridge/api and bridge/intake.
		used := map[message.WhyWord]bool{message.WhyInIntake: true, message.WhySetAside: true, message.WhyRejected: true,
			message.WhyMissing: true, message.WhyStoreAway: true}
		led, nobody := func(context.Context) error { return nil }, errors.New("nobody")
		say := func(info message.Info, led func(context.Context) error) message.Why {
			t.Helper()
			s.Explain(t.Context(), &info, s.Why, led)
			if w := info.Why; !slices.Contains(schedulertest.Whys(), w.Word) || w.Detail == "" && !info.State.Ended() {
				t.Errorf("%s, %s: %+v", info.State, info.Kind, w)
			}
			used[info.Why.Word] = true
			return info.Why
		}
		waiting := func(due time.Duration, set func(*message.Info)) message.Info {
			i := message.Info{State: message.StateWaiting, Message: message.Message{UID: "t-0000000000000000", Topic: "a",
				Attempt: 1, Due: now.Add(due)}}
			if set != nil {
				set(&i)
			}
			return i
		}
		for _, step := range message.Transitions() {
			if step.To.Ended() {
				w := say(message.Info{State: step.To, Kind: step.Kind, Reason: "so", EndedAt: 5}, led)
				if w.Since != 5 || w.Detail != "so" {
					t.Errorf("%s: %+v", step.To, w)
				}
			}
		}
		for _, kind := range append(message.LaneKinds(), message.LaneStream, message.LaneShared) {
			name := "a"
			if kind == message.LaneShared {
				name = ""
			}
			say(waiting(-time.Second, func(i *message.Info) { i.Mark.Lane = kind.Lane(name) }), led)
		}
		for want, info := range map[message.WhyWord]message.Info{
			message.WhyNotDue:   waiting(time.Minute, nil),
			message.WhyRetry:    waiting(time.Minute, func(i *message.Info) { i.Pull, i.Mark.Refusals = true, 1 }),
			message.WhyTurn:     waiting(-time.Second, nil),
			message.WhyExpiring: waiting(-time.Minute, func(i *message.Info) { i.TTL = time.Second }),
			message.WhyUnpulled: waiting(-time.Second, func(i *message.Info) { i.Pull, i.Topic = true, "pull.a" }),
			message.WhyWebhook:  waiting(-time.Second, func(i *message.Info) { i.Pull, i.Topic = true, "hook" }),
			message.WhyLeased: waiting(-time.Second, func(i *message.Info) {
				i.State, i.Held = message.StateInFlight, &message.Holding{Consumer: "worker", Since: 1, Until: now + 1000}
			}),
			message.WhyPublishing: waiting(-time.Second, func(i *message.Info) { i.State = message.StateInFlight }),
		} {
			if got := say(info, led); got.Word != want {
				t.Errorf("%+v, want %s", got, want)
			}
		}
		for _, pull := range []bool{true, false} { // whichever way it would go
			paused := waiting(-time.Second, func(i *message.Info) {
				if i.Pull, i.Topic = pull, "pull.paused"; !pull {
					i.Mark.Lane = message.LanePaused.Lane(i.Topic)
				}
			})
			if got := say(paused, led); got.Word != message.WhyPaused || got.By != "ann" || got.Since < now ||
				got.Detail != "pull.paused is paused" {
				t.Errorf("paused, for pull %t: %+v", pull, got)
			}
		}
		ahead := waiting(time.Minute, func(i *message.Info) { i.Topic = "pull.paused" })
		if got := say(ahead, led); got.Word != message.WhyNotDue || got.By != "" ||
			got.Detail != "it is not due yet; pull.paused is paused, and will hold it back" {
			t.Errorf("of a topic that is paused: %+v", got)
		}
		again := waiting(-time.Second, func(i *message.Info) { i.Pull, i.Topic, i.Mark.Refusals = true, "pull.a", 1 })
		if got := say(again, led); got.Word != message.WhyUnpulled || !strings.Contains(got.Detail, "since try 1 failed") {
			t.Errorf("consumers had it: %+v", got)
		}
		late := waiting(time.Minute, func(i *message.Info) {
			i.TTL, i.Expires, i.Mark.Refusals = time.Second, now-1000, 1
		})
		if got := say(late, led); got.Word != message.WhyExpiring || got.Since != now-1000 {
			t.Errorf("its time to live was over before its retry: %+v", got)
		}
		if got := say(waiting(-time.Second, nil), func(context.Context) error { return nobody }); got.Word !=
			message.WhyNoLeader {
			t.Errorf("without a leader: %+v", got)
		}
		lapsed := waiting(-time.Minute, func(i *message.Info) {
			i.State, i.Held = message.StateInFlight, &message.Holding{Consumer: "worker", Since: 1, Until: now - 1000}
		})
		if got := say(lapsed, led); got.Word != message.WhyTurn || got.By != "worker" || got.Next != 0 {
			t.Errorf("its lease is over: %+v", got)
		}
		if got := say(lapsed, func(context.Context) error { return nobody }); got.Word != message.WhyNoLeader {
			t.Errorf("its lease is over, and nobody leads: %+v", got)
		}

		// Behind another message of its key: before the first is leased, and while it is.
		first := r.Push(scheduler.Push{Topic: "serial", Key: "k", ID: "1"})
		second := r.Push(scheduler.Push{Topic: "serial", Key: "k", ID: "2"})
		time.Sleep(time.Second)
		get := func(uid message.UID) message.Why {
			info, err := s.Get(t.Context(), scheduler.Ref{UID: uid})
			if err != nil {
				t.Fatal(err)
			}
			used[info.Why.Word] = true
			return info.Why
		}
		if a, b := get(first.UID), get(second.UID); a.Word != message.WhyUnpulled || b.Word != message.WhyBehindKey {
			t.Errorf("of a key: %+v, then %+v", a, b)
		}
		if found, err := s.Pull(t.Context(), scheduler.Poll{Topic: "serial", Max: 5, Bytes: 1 << 20}); err != nil ||
			len(found) != 1 {
			t.Fatal(found, err)
		}
		if a, b := get(first.UID), get(second.UID); a.Word != message.WhyLeased || b.Word != message.WhyBehindKey ||
			b.By != string(first.UID) {
			t.Errorf("of a key, leased: %+v, then %+v", a, b)
		}
		r.Clock.Sample("redis", time.Now().Add(-time.Hour), 0, 0)
		if got := say(waiting(-time.Minute, nil), led); got.Word != message.WhyClocks {
			t.Errorf("of clocks that disagree: %+v", got)
		}
		for _, word := range schedulertest.Whys() {
			if !used[word] {
				t.Errorf("nothing is ever %s", word)
			}
		}
	})
}

func TestWhys_AreExplainedToUsers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "why.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "Nothing at all was found?")
	for _, word := range schedulertest.Whys() {
		if !strings.Contains(table, "`"+string(word)+"`") {
			t.Errorf("docs/why.md does not explain %s", word)
		}
	}
}
