package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// frozen is a journal that answers nothing until the caller has gone.
type frozen struct{ ops.Journal }

func (frozen) List(ctx context.Context, _ record.RecordQuery) ([]record.Record, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: the journal does not answer: %w", scheduler.ErrUnavailable, ctx.Err())
}

// timely are rejects that are only told in time.
type timely struct{ ops.Rejects }

func (t timely) List(ctx context.Context, q ops.RejectQuery) ([]ops.Rejected, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	return t.Rejects.List(ctx, q)
}

// A place that does not answer takes no time from the others, and is called by its own name.
func TestWhy_TellsWhatTheOthersKnow(t *testing.T) {
	t.Parallel()
	w := full()
	d := open(t, func(c *api.Config) {
		w.config(c)
		c.Journal, c.Rejects = frozen{w.journal}, timely{w.rejects}
	})
	a := call(t, d, "GET", "/v1/why?id=a", "").want(t, 200, "")
	for _, want := range []string{`{"place":"store","read":1,"whole":true}`, `{"place":"rejects","read":`,
		`"error":"the journal does not answer: `} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("it lacks %s: %s", want, a.raw)
		}
	}
	if strings.Contains(a.raw, "store unavailable") || !strings.Contains(a.raw, `"word":"rejected"`) {
		t.Errorf("it says %s", a.raw)
	}
	// A message that the journal has and of which the store says nothing.
	w = full()
	w.getErr = scheduler.ErrUnavailable
	for i := range w.journal.records {
		w.journal.records[i].State = message.StateWaiting
	}
	d = open(t, w.config)
	if a := call(t, d, "GET", "/v1/why?id=a", "").want(t, 200, ""); !strings.Contains(a.raw, `"word":"store_away"`) {
		t.Errorf("it says %s", a.raw)
	}
}

// A token that may push is told of its own messages wherever they are, and nothing of others, nor how many there are.
func TestWhy_TellsAProducerOfItsOwn(t *testing.T) {
	t.Parallel()
	s, j := newCounting(), full().journal
	j.records = []record.Record{recordOf(uidA, "a", 1, message.StateDead), recordOf(uidB, "a", 1, message.StateDead)}
	j.records[0].Topic, j.records[1].Topic, j.records[1].Reason = "orders.x", "bills", "secret"
	d := open(t, keeping(j), with(s), rejecting(newRejects()), letting(crowd()...), func(c *api.Config) {
		c.Intake = lookers{{ID: "a", Topic: "orders.x"}, {ID: "a", Topic: "bills", UID: "secret"}}
	})
	for who, whole := range map[string]bool{"shop": false, "watch": true} {
		a := call(t, d, "GET", "/v1/why?id=a", "", as(who)...).want(t, 200, "")
		for _, part := range []string{"secret", string(uidB), `"topic":"bills"`, `"read":1`, `"whole":true`} {
			if strings.Contains(a.raw, part) != whole {
				t.Errorf("%s: whether %s is told is not %t: %s", who, part, whole, a.raw)
			}
		}
		if strings.Count(a.raw, `"topic":"orders.x"`) < 2 || !strings.Contains(a.raw, string(uidA)) {
			t.Errorf("%s is not told of its own: %s", who, a.raw)
		}
	}
	d = open(t, keeping(j), with(s), letting(crowd()...), func(c *api.Config) { c.Journal = frozen{j} })
	if a := call(t, d, "GET", "/v1/why?id=a", "", as("shop")...); strings.Contains(a.raw, "does not answer: ") {
		t.Errorf("it says where tarry runs: %s", a.raw)
	}
}

// lookers are pushes that no instance has accepted.
type lookers []ops.WhyPush

func (l lookers) Look(_ context.Context, q ops.WhyQuery) (found []ops.WhyPush, looked []ops.WhyPlace) {
	for _, push := range l {
		if q.See == nil || q.See(push.Topic) {
			found = append(found, push)
		}
	}
	return found, []ops.WhyPlace{{Place: "intake", Read: len(l), Whole: true}}
}
