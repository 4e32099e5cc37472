package election

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestChaos_OneLeaderAtATimeWithRisingTerms lets random faults at three instances for a long fake time, and holds the
// two promises in each of hundreds of leaderships. At the end it heals all and wants one leader.
func TestChaos_OneLeaderAtATimeWithRisingTerms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func chaos(t *testing.T, rnd *rand.Rand) {
	e, c := newFakeEnsemble(), &court{}
	var all []*instance
	quiet := func(cfg *setup) { cfg.Log = cfg.Log.Level(6) }
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, start(t, e, c, name, quiet))
	}
	after(time.Second)
	within := func(lo, hi float64) time.Duration {
		return time.Duration((lo + rnd.Float64()*(hi-lo)) * float64(testSession))
	}
	for range 300 {
		i := all[rnd.IntN(len(all))]
		cl := i.client()
		switch rnd.IntN(9) {
		case 0, 1: // freeze the link; the session dies no earlier than the trust window says
			cl.stall(within(0.584, 1.5))
		case 2:
			cl.notice()
		case 3:
			cl.heal()
		case 4: // lose what comes, for a while
			p := rnd.Float64()
			i.set(func(string) verdict {
				switch x := rand.Float64(); {
				case x < p/2:
					return loseReply
				case x < p:
					return loseRequest
				}
				return pass
			})
		case 5:
			i.set(nil)
		case 6:
			e.kill(cl)
		case 7:
			i.setHealth([]error{nil, errors.New("sick")}[rnd.IntN(2)])
		case 8:
			if rnd.IntN(8) == 0 { // wiped: the floor is what Redis remembers
				for _, j := range all {
					j.setFloor(highest(c), nil)
				}
				e.outside(func(e *fakeEnsemble) { clear(e.nodes) })
				for _, j := range all { // no old leader may live on past the wipe for its renewal to find out
					e.kill(j.client())
				}
			} else if err := i.Resign(t.Context(), "chaos"); err != nil && !errors.Is(err, ErrNotLeader) {
				t.Error(err)
			}
		}
		after(within(0, 0.7))
	}
	for _, i := range all {
		i.set(nil)
		i.setHealth(nil)
		i.client().heal()
	}
	after(5 * testSession)
	reigns := c.all()
	checkReigns(t, reigns)
	if r := c.last(t); r.ctx.Err() != nil {
		t.Errorf("nobody leads after the faults; the last was %s under term %d", r.instance, r.term)
	}
	if len(reigns) < 5 {
		t.Errorf("only %d leaderships: the faults do nothing", len(reigns))
	}
	t.Logf("%d leaderships, %d sessions, last term %d", len(reigns), e.sessionsOpened(), highest(c))
}

func highest(c *court) (top uint64) {
	for _, r := range c.all() {
		top = max(top, r.term)
	}
	return top
}
