package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestWipedServer restarts a server without its data, while its session's client has seen higher zxids than it.
func TestWipedServer_ElectsAgainAboveTheFloor(t *testing.T) {
	t.Parallel()
	zoo := lab.NewZooKeeper(t, lab.ZooKeeperTick(realTick))
	c := &court{}
	a := real(t, c, "gone", "a", []string{zoo.Addr}).run(t)
	if r := awaitLeader(t, c, 0); r.term != 1 {
		t.Fatalf("leads under term %d", r.term)
	}
	a.setFloor(7, nil)
	zoo.Kill()
	if err := os.RemoveAll(filepath.Join(zoo.Dir(), "data", "version-2")); err != nil {
		t.Fatal(err)
	}
	zoo.Restart()
	if r := awaitLeader(t, c, 1); r.term != 8 {
		t.Errorf("leads under term %d after the wipe, want 8", r.term)
	}
	checkReigns(t, c.all())
}

func oneDies(t *testing.T, e *lab.Ensemble) {
	c := &court{}
	for _, name := range []string{"a", "b"} {
		real(t, c, "dies", name, e.Addrs()).run(t)
	}
	last := awaitLeader(t, c, 0).term
	for n := range 2 {
		node := e.Nodes[0]
		if n == 1 {
			node = e.Leader()
		}
		node.Kill()
		r := awaitLeader(t, c, last-1) // the same leadership, or a later one
		before, _ := Remaining(r.ctx)
		lab.Eventually(t, patience, func() error {
			r = c.last(t)
			if now, _ := Remaining(r.ctx); r.ctx.Err() != nil || now <= before && now < realSession/3 {
				return fmt.Errorf("not renewed: %v left", now)
			}
			return nil
		})
		last = r.term
		node.Restart()
		e.WaitServing()
	}
	checkReigns(t, c.all())
}

func noQuorum(t *testing.T, e *lab.Ensemble) {
	c := &court{}
	a := real(t, c, "quorum", "a", e.Addrs()).run(t)
	first := awaitLeader(t, c, 0)
	awaitReady(t, a)
	e.Nodes[0].Pause()
	e.Nodes[1].Pause()
	lab.Eventually(t, patience, func() error {
		if first.ctx.Err() == nil {
			return errors.New("still leads without a quorum")
		}
		return nil
	})
	if cause := context.Cause(first.ctx); !errors.Is(cause, ErrLost) || errors.Is(cause, ErrResigned) {
		t.Errorf("cause %v, want a loss", cause)
	}
	e.Nodes[0].Resume()
	e.Nodes[1].Resume()
	awaitLeader(t, c, first.term)
	checkReigns(t, c.all())
}
