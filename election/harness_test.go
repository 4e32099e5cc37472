package election

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

const (
	testSession = 6 * time.Second
	testNS      = "test"
)

// reign is one call of lead, as a test sees it.
type reign struct {
	instance   string
	term       uint64
	began      time.Time
	canceled   time.Time // when the context ended
	ended      time.Time // when lead returned; zero while it runs
	cause      error
	ctx        context.Context
	leftAtLoss time.Duration
}

// court records the reigns of all instances of a test.
type court struct {
	mu sync.Mutex

	list []*reign
}

func (c *court) all() []reign {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []reign
	for _, r := range c.list {
		out = append(out, *r)
	}
	return out
}

func (c *court) last(t *testing.T) reign {
	t.Helper()
	all := c.all()
	if len(all) == 0 {
		t.Fatal("nobody has led yet")
	}
	return all[len(all)-1]
}

// instance is one elector of a test, running.
type instance struct {
	*Node
	*Race
	*faults

	name   string
	court  *court
	linger chan struct{} // when not nil, lead returns only after it is closed
	refuse error         // when set, lead returns it at once

	stop    context.CancelFunc
	stopped chan error

	mu     sync.Mutex
	health error
	floor  uint64
	floorE error
}

func (i *instance) setHealth(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.health = err
}

func (i *instance) setFloor(n uint64, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.floor, i.floorE = n, err
}

func (i *instance) lead(ctx context.Context, term uint64) error {
	r := &reign{instance: i.name, term: term, began: time.Now(), ctx: ctx}
	i.court.mu.Lock()
	i.court.list = append(i.court.list, r)
	i.court.mu.Unlock()
	defer func() {
		i.court.mu.Lock()
		defer i.court.mu.Unlock()
		r.ended = time.Now()
	}()
	if i.refuse != nil {
		return i.refuse
	}
	<-ctx.Done()
	left, _ := Remaining(ctx)
	i.court.mu.Lock()
	r.canceled, r.cause, r.leftAtLoss = time.Now(), context.Cause(ctx), left
	i.court.mu.Unlock()
	if i.linger != nil {
		<-i.linger
	}
	return nil
}

// setup is the config of an elector: of a node and its one race.
type setup struct {
	NodeConfig
	RaceConfig
}

// build makes an elector on the fake ensemble, not running yet.
func build(t *testing.T, e *fakeEnsemble, c *court, name string, change ...func(*setup)) *instance {
	t.Helper()
	return assemble(t, c, name, func(i *instance, cfg *setup) opener {
		cfg.Servers, cfg.Namespace, cfg.Session = []string{"fake"}, testNS, testSession
		for _, f := range change {
			f(cfg)
		}
		return e.opener(i.faults, cfg.Session)
	})
}

// assemble makes an elector that reports to the court; set completes its config and gives its opener, nil for real
// connections.
func assemble(t *testing.T, c *court, name string, set func(*instance, *setup) opener) *instance {
	t.Helper()
	i := &instance{faults: &faults{}, name: name, court: c, stopped: make(chan error, 1)}
	cfg := setup{
		NodeConfig: NodeConfig{
			Instance: name, Address: name + ":7071",
			Healthy: func() error {
				i.mu.Lock()
				defer i.mu.Unlock()
				return i.health
			},
			Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel),
		},
		RaceConfig: RaceConfig{
			Lead: i.lead,
			Floor: func(context.Context, uint64) (uint64, error) {
				i.mu.Lock()
				defer i.mu.Unlock()
				return i.floor, i.floorE
			},
		},
	}
	open := set(i, &cfg)
	whole, err := cfg.NodeConfig.complete()
	if err != nil {
		t.Fatal(err)
	}
	i.Node, err = newNode(whole, open)
	if err != nil {
		t.Fatal(err)
	}
	i.Race, err = i.Node.Race(cfg.RaceConfig)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// run starts the elector; the test's end stops it and waits.
func (i *instance) run(t *testing.T) *instance {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	i.stop = stop
	go func() { i.stopped <- i.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-i.stopped
	})
	return i
}

// halt stops the elector now and returns what Run returned.
func (i *instance) halt() error {
	i.stop()
	err := <-i.stopped
	i.stopped <- err
	return err
}

func start(t *testing.T, e *fakeEnsemble, c *court, name string, change ...func(*setup)) *instance {
	t.Helper()
	return build(t, e, c, name, change...).run(t)
}

// after lets the fake clock run.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func wantLeader(t *testing.T, c *court, name string, term uint64) reign {
	t.Helper()
	r := c.last(t)
	if r.instance != name || r.term != term || !r.ended.IsZero() {
		t.Fatalf("leader is %s under term %d (ended %v), want %s under term %d", r.instance, r.term,
			!r.ended.IsZero(), name, term)
	}
	return r
}

func wantRole(t *testing.T, i *instance, role Role) {
	t.Helper()
	if s := i.State(); s.Role != role {
		t.Fatalf("%s is %s (%v), want %s", i.name, s.Role, s.Err, role)
	}
}

// checkReigns holds what must be true in every run: terms rise strictly, and no context of a leader is alive when the
// next one's begins.
func checkReigns(t *testing.T, reigns []reign) {
	t.Helper()
	for n, r := range reigns {
		if !r.canceled.IsZero() && !errors.Is(r.cause, ErrLost) {
			t.Errorf("%s under term %d ended by %v, want a cause that Is ErrLost", r.instance, r.term, r.cause)
		}
		if n > 0 && r.term <= reigns[n-1].term {
			t.Errorf("term %d follows term %d", r.term, reigns[n-1].term)
		}
		for _, p := range reigns[:n] {
			if over := p.canceled; over.IsZero() && p.ended.IsZero() || over.After(r.began) {
				t.Errorf("%s under term %d began at %v, while %s under term %d led until %v",
					r.instance, r.term, r.began, p.instance, p.term, over)
			}
		}
	}
}
