package ops_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A change of the body or of the headers makes no message that could not have been pushed.
func TestLimits_RefuseAStatusBesideAnEmptyBody(t *testing.T) {
	t.Parallel()
	m := &message.Message{Topic: "orders", Body: []byte("x")}
	m.Headers = []message.Header{{Name: "status", Value: "503"}}
	if err := (ops.Limits{}).Fits(m); err != nil {
		t.Error(err)
	}
	m.Body = nil
	refused := new(wire.Error)
	if !errors.As((ops.Limits{}).Fits(m), &refused) || refused.Word != wire.WordHeader || refused.Field != "status" {
		t.Errorf("got %v", refused)
	}
}

// A message is held to the same limits as the push that made it.
func TestLimits_AreThoseOfAPush(t *testing.T) {
	t.Parallel()
	push := wire.Push{ID: "order", Key: "k", Topic: "orders", Attempt: 2, Reason: "no database",
		Headers: []wire.Header{{Name: "X", Value: "1"}}}
	body := []byte(strings.Repeat("x", 100))
	asked := ops.Push(&push, body)
	m := &message.Message{ID: asked.ID, Key: asked.Key, Topic: asked.Topic, Headers: asked.Headers, Body: body}
	most := push.DeliveredSize(len(body))
	for _, c := range []struct {
		limits ops.Limits
		fits   bool
	}{
		{ops.Limits{}, true}, {ops.Limits{Payload: int64(most)}, true},
		{ops.Limits{Payload: int64(most) - 1}, false},
		{ops.Limits{Content: 1000, Payload: int64(most) - 1}, false},
		{ops.Limits{Content: 100, Payload: int64(most)}, false},
	} {
		err := c.limits.Fits(m)
		if refused := new(wire.Error); (err == nil) != c.fits ||
			err != nil && (!errors.As(err, &refused) || refused.Word != wire.WordTooLarge) {
			t.Errorf("%+v: got %v", c.limits, err)
		}
	}
}
