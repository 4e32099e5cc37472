package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
)

// The leader tells who has come and gone, each once; of what happens while nobody leads, the next leader.
func TestRoster_TheLeaderTellsWhoComesAndGoes(t *testing.T) {
	t.Parallel()
	a := &App{opened: &opened{}, events: scheduler.NewEvents("a", scheduler.NewClock(scheduler.System()),
		prometheus.NewRegistry(), false)}
	a.cfg.Instance = "a"
	r := &roster{a: a}
	began := time.Now()
	for i, look := range []struct {
		leader  string
		members string // names, with + registered later than before
		want    string
	}{
		{"b", "a b", ""}, // it has just started
		{"b", "a b c", ""},
		{"", "a c", ""},
		{"a", "a c", "b is gone"},
		{"a", "a c", ""},
		{"a", "a c+ d", "c has come back: it was restarted, or its session had ended; d has come"},
		{"a", "a c+ d", ""},
		{"", "a d", ""},
		{"d", "a d", ""}, // which tells it
		{"a", "a d", ""},
	} {
		v := view{led: look.leader != "", leader: election.Leader{Instance: look.leader}}
		for name := range strings.FieldsSeq(look.members) {
			m := election.Member{Instance: strings.TrimSuffix(name, "+"), Since: began}
			if m.Instance != name {
				m.Since = began.Add(time.Minute)
			}
			v.members = append(v.members, m)
		}
		before := len(a.events.Last())
		r.meet(v)
		var said []string
		all := a.events.Last()
		for _, e := range slices.Backward(all[:len(all)-before]) {
			said = append(said, e.Detail)
		}
		if got := strings.Join(said, "; "); got != look.want {
			t.Errorf("look %d: told %q, want %q", i, got, look.want)
		}
	}
}
