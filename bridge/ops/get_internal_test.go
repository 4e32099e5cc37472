package ops

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// one is a store that knows one message, without its content, and a journal that has it, or says nothing for ever.
type one struct {
	Service
	state message.State
	mute  bool
}

func (o *one) Get(context.Context, scheduler.Ref) (message.Info, error) {
	return message.Info{Message: message.Message{UID: "t-1"}, State: o.state}, nil
}

func (o *one) Whole(ctx context.Context, uid message.UID) (record.Record, error) {
	if o.mute {
		<-ctx.Done()
		return record.Record{}, ctx.Err()
	}
	return record.Record{Info: message.Info{Message: message.Message{UID: uid, Body: []byte("paid"),
		Headers: []message.Header{{Name: "Trace", Value: "7"}}}}}, nil
}

type journalOf struct {
	Journal
	one *one
}

func (j journalOf) Whole(ctx context.Context, uid message.UID) (record.Record, error) {
	return j.one.Whole(ctx, uid)
}

// Of what has ended, the journal has headers and body, for those who may see them. A journal that is silent costs them,
// and nothing else.
func TestGet_HasTheContentOfWhatHasEndedFromTheJournal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state          message.State
		journal, mute  bool
		blind, content bool
	}{
		"delivered":             {message.StateDelivered, true, false, false, true},
		"canceled":              {message.StateCanceled, true, false, false, true},
		"waiting":               {message.StateWaiting, true, false, false, false}, // the store has it
		"dead":                  {message.StateDead, true, false, false, false},
		"without a journal":     {message.StateDelivered, false, false, false, false},
		"a token without right": {message.StateDelivered, true, false, true, false},
		"a journal that hangs":  {message.StateDelivered, true, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &one{state: c.state, mute: c.mute}
				cfg := Config{Service: store, Now: time.Now, Timeout: time.Minute}
				if c.journal {
					cfg.Journal = journalOf{one: store}
				}
				by := &Caller{}
				if c.blind {
					by.Token = &Token{Push: []string{">"}}
				}
				got, err := New(cfg).get(t.Context(), by, &Named{ID: "order-7"})
				if err != nil || got.UID != "t-1" {
					t.Fatalf("%+v, %v", got, err)
				}
				if has := got.Body != nil && *got.Body == "paid" && len(got.Headers) == 1; has != c.content {
					t.Errorf("its content is there: %t", has)
				}
			})
		})
	}
}
