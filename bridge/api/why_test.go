package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// frozen is a journal that answers nothing until the caller has gone.
type frozen struct{ api.Journal }

func (frozen) List(ctx context.Context, _ record.RecordQuery) ([]record.Record, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: the journal does not answer: %w", scheduler.ErrUnavailable, ctx.Err())
}

// timely are rejects that are only told in time.
type timely struct{ api.Rejects }

func (t timely) List(ctx context.Context, q answer.RejectQuery) ([]wire.Rejected, uint64, error) {
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
