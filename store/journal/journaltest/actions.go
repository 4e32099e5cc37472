package journaltest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// action is the nth action of these tests, as it begins.
func action(n int, who string) record.Action {
	return record.Action{ID: fmt.Sprint("act-", n), At: start + message.Milli(n), Who: who, From: "10.0.0.1:99",
		Instance: "tarry-a", What: "requeue", DryRun: n%2 == 1, On: map[string]any{"topic": "müll <\x01> \U0001f4a4"}}
}

func ended(a record.Action) record.Action {
	a.Ended, a.TookMS, a.Problem = true, 12, "unavailable"
	a.On = map[string]any{"topic": a.On["topic"], "done": 3.0}
	return a
}

func (t *trial) act(actions ...record.Action) {
	t.Helper()
	for i := range actions {
		t.must("write an action", t.j.WriteAction(t.Context(), &actions[i]))
	}
}

func (t *trial) wantActions(q record.ActionQuery, want ...record.Action) {
	t.Helper()
	found, err := t.j.Actions(t.Context(), q)
	if t.must("actions", err); !reflect.DeepEqual(found, want) {
		t.Fatalf("%+v has %+v, want %+v", q, found, want)
	}
}

var actionPromises = []promise{
	{"an action is there from before it was done, and what has ended stays so", func(t *trial) {
		a, b, c := action(1, "ann"), action(2, "ann"), action(3, "bob")
		t.act(a, b, c, a)
		t.wantActions(record.ActionQuery{Limit: 9}, c, b, a)
		t.act(ended(b), ended(b), b) // a write that comes after its end
		other := ended(b)
		other.Problem = ""
		t.act(other, ended(a))
		t.wantActions(record.ActionQuery{Limit: 9}, c, ended(b), ended(a))
		t.wantActions(record.ActionQuery{Limit: 9, Who: "ann"}, ended(b), ended(a))
		t.wantActions(record.ActionQuery{Limit: 9, What: "purge"})
		t.wantActions(record.ActionQuery{Limit: 9, Who: "ann "})
	}},
	{"actions are listed in pages, those of one moment too", func(t *trial) {
		var all []record.Action
		for n := range 5 {
			a := ended(action(n, "ann"))
			a.At = start + message.Milli(n/2)
			all = append(all, a)
			t.act(a)
		}
		slices.Reverse(all)
		q := record.ActionQuery{Limit: 2}
		for part := range slices.Chunk(all, 2) {
			t.wantActions(q, part...)
			last := part[len(part)-1]
			q.Before, q.BeforeID = last.At, last.ID
		}
		t.wantActions(q)
	}},
	{"actions are pruned by their age", func(t *trial) {
		t.act(action(1, "ann"), action(2, "ann"), action(3, "ann"))
		_, err := t.j.Prune(t.Context(), start+3, 10)
		t.must("prune", err)
		t.wantActions(record.ActionQuery{Limit: 9}, action(3, "ann"))
	}},
	{"no action is refused for what is in it", func(t *trial) {
		a := action(1, strings.Repeat("ä", 200)+"\xff")
		a.On = map[string]any{"reason": strings.Repeat("r", 100_000)}
		t.act(a)
		found, err := t.j.Actions(t.Context(), record.ActionQuery{Limit: 9})
		if t.must("actions", err); len(found) != 1 || found[0].ID != a.ID || len(found[0].On) != 1 {
			t.Fatalf("found %+v", found)
		}
	}},
}
