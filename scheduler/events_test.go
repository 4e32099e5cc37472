package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestEvents_ThoseAlikeAreOneAndAllAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		e := scheduler.NewEvents("a", scheduler.NewClock(scheduler.System()), reg, true)
		dies := func(topic, why string) {
			e.Of(scheduler.EventDead, &message.Message{UID: "t-1", ID: "order", Topic: topic, Key: "k"}, why)
		}
		dies("orders", "first")
		time.Sleep(9 * time.Second)
		dies("orders", "second")
		dies("mail", "other")
		time.Sleep(2 * time.Second)
		dies("orders", "third") // the first is 11 s ago
		all := e.Last()
		var said []string
		for _, one := range all {
			said = append(said, fmt.Sprint(one.Topic, " ", one.Detail, " ", one.N))
		}
		if got := strings.Join(said, ", "); got != "orders third 1, mail other 1, orders first 2" {
			t.Errorf("got %s", got)
		}
		if one := all[0]; one.UID != "t-1" || one.ID != "order" || one.Key != "k" || one.Instance != "a" || one.At == 0 {
			t.Errorf("got %+v", one)
		}
		for _, word := range []string{"goes", "comes", "goes"} {
			e.Tell(scheduler.Event{Kind: scheduler.EventStore, Detail: word})
		}
		if all := e.Last(); all[0].Detail != "comes" || all[0].N != 1 || all[1].Detail != "goes" || all[1].N != 2 {
			t.Errorf("got %+v", all[:2])
		}
		dies("long", strings.Repeat("é", 300)+"\xff")
		if got := e.Last()[0].Detail; len(got) > 200 || len(got) < 190 || !utf8.ValidString(got) {
			t.Errorf("%d bytes of detail", len(got))
		}
		for i := range 600 {
			dies(fmt.Sprint("topic.", i), "")
		}
		if all := e.Last(); len(all) != 500 || all[0].Topic != "topic.599" || all[499].Topic != "topic.100" {
			t.Errorf("%d are kept, from %s to %s", len(all), all[0].Topic, all[len(all)-1].Topic)
		}
		time.Sleep(11 * time.Second)
		dies("topic.99", "again") // it was forgotten
		if got := e.Last()[0]; got.Detail != "again" || got.N != 1 {
			t.Errorf("got %+v", got)
		}
		// 609 of them wait to be published, and there is room for 1,000.
		for range 500 {
			dies("flood", "")
		}
		families, err := reg.Gather()
		if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 109 {
			t.Errorf("dropped: %v, %v", families, err)
		}
	})
}

func TestEvents_NobodyNeedNotTakeThem(t *testing.T) {
	t.Parallel()
	var none *scheduler.Events
	none.Of(scheduler.EventDead, &message.Message{}, "")
	e := scheduler.NewEvents("a", scheduler.NewClock(scheduler.System()), prometheus.NewRegistry(), false)
	for range 2000 {
		e.Tell(scheduler.Event{Kind: scheduler.EventLeader})
	}
	if all := e.Last(); len(all) != 1 || all[0].N != 2000 || e.Queue() != nil {
		t.Errorf("got %+v", all)
	}
}
