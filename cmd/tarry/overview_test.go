package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// A monitor needs the exit code, and a person the sentences, the worst first.
func TestOverview_FailsWhereSomethingStops(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		code int
		text string
	}{
		`{"level":"well","conditions":[],"instances":2,"healthy":2,"leader":{"instance":"a"}}`: {exitDone,
			"all is well\na leads, 2 of 2 instances could\n"},
		`{"level":"well","conditions":[],"instances":2,"healthy":1,"gone":1,"leader":{"instance":"a"}}`: {exitDone,
			"a leads, 1 of 2 instances could, and 1 more gone"},
		`{"level":"well","conditions":[],"last_hour":{"accepted":9,"delivered":7,"late":1,"canceled":2,"dead":3}}`: {
			exitDone, "in the last hour 9 accepted, 7 delivered (1 late), 2 canceled, 0 expired, 3 dead"},
		`{"level":"well","conditions":[{"word":"journal_off","level":"note","detail":"the journal is off"}]}`: {exitDone,
			"all is well\nnote  the journal is off (journal_off)\n"},
		`{"level":"held","conditions":[{"word":"paused","level":"held","name":"mail.>","by":"ann\u001b","count":412,` +
			`"detail":"mail.> is paused"}],"messages":{"waiting":500,"ready":1,"in_flight":2,"leased":0,"dead":3},` +
			`"next":"2030-01-31T12:00:00.000Z"}`: {exitDone,
			"held  mail.> is paused, 412, by \"ann\\x1b\" (paused)\n500 waiting, 1 ready, 2 in flight, 3 dead; " +
				"the next falls due at 2030-01-31T12:00:00.000Z"},
		`{"level":"stop","conditions":[{"word":"nats_away","level":"stop","detail":"NATS: not connected"}]}`: {exitFailed,
			"stop  NATS: not connected (nats_away)"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		}))
		t.Cleanup(s.Close)
		tarry(t, "", nil, "overview", "--server", s.URL).want(t, want.code, want.text)
	}
}

// happened is what happened on instances of which one does not answer.
func happened(context.Context) ([]scheduler.Event, []string, error) {
	return []scheduler.Event{
		{At: someDue, Kind: scheduler.EventDead, Instance: "tarry-1", UID: someUID, ID: "order-1", Topic: "orders.remind",
			N: 3, Detail: "HTTP 500\x1b[31m"},
		{At: someDue, Kind: scheduler.EventLeader, Instance: "tarry-2", N: 1, Detail: "leads, term 4"},
	}, []string{"tarry-3"}, nil
}

func detailed(context.Context) (map[string]*ops.InstanceDetail, error) {
	return map[string]*ops.InstanceDetail{"tarry-1": {Since: someDue,
		Checks: []ops.Check{{Name: "redis", OK: true}, {Name: "nats", Detail: "not connected\x1b"},
			{Name: "journal", Buckets: []int{1, 3}, Detail: "full"}},
		Clocks: []ops.ClockReading{{Source: "machine"}, {Source: "redis", LeastMS: -1500, MostMS: -1499.58}}}}, nil
}

func acted(context.Context) ([]record.Action, []string, error) {
	return []record.Action{
		{At: someDue, Who: "ann", From: "10.0.0.7:40112", Instance: "tarry-1", ID: "b", What: "requeue", TookMS: 12,
			Ended: true,
			On:    map[string]any{"topic": "orders.>", "matched": 1_200_000, "done": 1_200_000, "key": ""}},
		{At: someDue, ID: "a", Who: "ann", From: "nats", Instance: "tarry-2", What: "pause", Problem: "unavailable",
			On: map[string]any{"topic": "mail.>"}, Ended: true},
		{At: someDue - 1, ID: "c", Who: "ann", From: "nats", Instance: "tarry-3", What: "restore",
			On: map[string]any{"topic": ""}},
	}, nil, nil
}
