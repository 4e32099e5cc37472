package election

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// also makes the node of an instance take part in one more race, which reports to a court of its own.
func (i *instance) also(t *testing.T, name string, c *court) *instance {
	t.Helper()
	second := &instance{Node: i.Node, faults: i.faults, name: i.name, court: c}
	var err error
	second.Race, err = i.Node.Race(RaceConfig{Name: name, Lead: second.lead})
	if err != nil {
		t.Fatal(err)
	}
	return second
}

func named(name string) func(*setup) { return func(cfg *setup) { cfg.Name = name } }

// Two nodes take part in two races: what becomes of one race is nothing to the other, and neither costs a session.
func TestRaces_OfOneNodeHaveTheirOwnLeasesAndTerms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, cx, cy := newFakeEnsemble(), &court{}, &court{}
		ax := build(t, e, cx, "a", named("x"))
		ay := ax.also(t, "y", cy)
		ax.run(t)
		after(time.Second)
		bx := build(t, e, cx, "b", named("x"))
		by := bx.also(t, "y", cy)
		bx.run(t)
		after(time.Second)
		wantLeader(t, cx, "a", 1)
		wantLeader(t, cy, "a", 1)

		if err := ax.Resign(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		wantLeader(t, cx, "b", 2)
		kept := wantLeader(t, cy, "a", 1)
		wantRole(t, ax, Standby)
		wantRole(t, ay, Leading)
		wantRole(t, bx, Leading)
		wantRole(t, by, Standby)
		for name, want := range map[*instance]Leader{ax: {Instance: "b", Term: 2}, by: {Instance: "a", Term: 1}} {
			l, ok, err := name.Leader(t.Context())
			if err != nil || !ok || l.Instance != want.Instance || l.Term != want.Term {
				t.Errorf("leader %+v, %v, %v; want %+v", l, ok, err, want)
			}
		}

		e.outside(func(e *fakeEnsemble) { e.set("/tarry/test/races/x/term", []byte("7"), -1) })
		after(testSession/6 + time.Second)
		if r := cx.last(t); r.term != 8 {
			t.Errorf("a fence of x: its term is %d, want 8", r.term)
		}
		wantLeader(t, cy, "a", 1)

		// Both leases are on one session: losing it ends both.
		if left, ok := Remaining(kept.ctx); !ok || left < testSession/3-time.Millisecond {
			t.Errorf("the lease of y has %v left: it is not renewed", left)
		}
		if n := e.sessionsOpened(); n != 2 {
			t.Errorf("%d sessions for two nodes", n)
		}
		e.kill(ay.client())
		synctest.Wait()
		if !errors.Is(context.Cause(kept.ctx), ErrLost) {
			t.Errorf("the session is over, and y ended by %v", context.Cause(kept.ctx))
		}
		after(time.Second)
		wantLeader(t, cy, "b", 2)
		checkReigns(t, cx.all())
		checkReigns(t, cy.all())
	})
}

// A lease that runs out is its race's alone: the other's renewals go on.
func TestRaces_OneDeadlineLeavesTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, cx, cy := newFakeEnsemble(), &court{}, &court{}
		a := build(t, e, cx, "a", named("x"))
		a.also(t, "y", cy)
		a.run(t)
		after(time.Second)
		e.outside(func(e *fakeEnsemble) { e.remove("/tarry/test/races/x/leader", -1) })
		after(testSession/6 + time.Second)
		wantLeader(t, cx, "a", 2)
		wantLeader(t, cy, "a", 1)
		if first := cx.all()[0]; !errors.Is(first.cause, ErrLost) || first.leftAtLoss != 0 {
			t.Errorf("x ended by %v with %v left", first.cause, first.leftAtLoss)
		}
	})
}

func TestRace_IsRefusedByField(t *testing.T) {
	t.Parallel()
	cfg := good()
	cfg.Registerer = prometheus.NewRegistry()
	n, err := NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0", "1"} {
		if _, err := n.Race(RaceConfig{Name: name, Lead: idle}); err != nil {
			t.Errorf("race %s: %v", name, err)
		}
	}
	for field, cfg := range map[string]RaceConfig{
		`race: "a/b"`:   {Name: "a/b", Lead: idle},
		"is there alre": {Name: "0", Lead: idle},
	} {
		if _, err := n.Race(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error with %q", err, field)
		}
	}
}
