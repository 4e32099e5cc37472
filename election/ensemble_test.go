package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tarry-mq/tarry/deploy/lab"
)

const (
	realTick    = 500 * time.Millisecond  // grants sessions of 1 to 10 s
	realSession = 1500 * time.Millisecond // where the session is to be lost
	midSession  = 4 * time.Second         // where it must be kept first, and is to be lost or waited for then
	longSession = 9 * time.Second         // where it must be kept, on a machine that may be busy
	patience    = 30 * time.Second
)

// real makes an elector over real servers, not running yet.
func real(t *testing.T, c *court, ns, name string, servers []string, change ...func(*setup)) *instance {
	t.Helper()
	return assemble(t, c, name, func(_ *instance, cfg *setup) opener {
		cfg.Servers, cfg.Namespace, cfg.Session = servers, ns, realSession
		for _, f := range change {
			f(cfg)
		}
		return nil
	})
}

// lasting makes the session of an elector last another time than realSession.
func lasting(d time.Duration) func(*setup) {
	return func(cfg *setup) { cfg.Session = d }
}

// awaitLeader waits until somebody leads under a term above the given one.
func awaitLeader(t *testing.T, c *court, above uint64) reign {
	t.Helper()
	var got reign
	lab.Eventually(t, patience, func() error {
		all := c.all()
		if len(all) == 0 {
			return errors.New("nobody has led")
		}
		got = all[len(all)-1]
		if got.term <= above || got.ctx.Err() != nil {
			return fmt.Errorf("%s under term %d: %v", got.instance, got.term, context.Cause(got.ctx))
		}
		return nil
	})
	return got
}

// awaitReady waits until the instance is connected and registered.
func awaitReady(t *testing.T, i *instance) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		if s := i.State(); s.Role == Disconnected {
			return fmt.Errorf("%s is %s: %w", i.name, s.Role, s.Err)
		}
		return nil
	})
}

// awaitMembers waits until all of the names are registered and healthy.
func awaitMembers(t *testing.T, by *instance, names ...string) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		list, err := by.Members(t.Context())
		if err != nil {
			return err
		}
		var got []string
		for _, m := range list {
			if m.Healthy {
				got = append(got, m.Instance)
			}
		}
		if strings.Join(got, " ") != strings.Join(names, " ") {
			return fmt.Errorf("members %v, want %v", got, names)
		}
		return nil
	})
}

// awaitRenewal waits until a renewal that was sent after the given time is acknowledged. The session is longSession.
func awaitRenewal(t *testing.T, r reign, since time.Time) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		left, _ := Remaining(r.ctx)
		if sent := time.Now().Add(left - longSession/2); sent.Before(since) {
			return fmt.Errorf("not renewed for %v (%v)", time.Since(since), context.Cause(r.ctx))
		}
		return nil
	})
}

// plain is a client of a test's own.
func plain(t *testing.T, servers []string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(servers, 5*time.Second, zk.WithLogger(libraryLog{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// proxies puts one in front of each server.
func proxies(t *testing.T, servers []string) (list []*lab.Proxy, addrs []string) {
	t.Helper()
	for _, s := range servers {
		p := lab.NewProxy(t, s)
		list, addrs = append(list, p), append(addrs, p.Addr)
	}
	return list, addrs
}

// TestEnsemble runs against three real servers. The first group leaves them alone; the second breaks them.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := lab.NewZooKeeperEnsemble(t, 3, lab.ZooKeeperTick(realTick))
	servers := e.Addrs()
	t.Run("intact", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, []string){
			"ten hand-overs":                      tenHandOvers,
			"frozen leader ends before standby":   frozenLeader,
			"silent server is passed by":          silentServer,
			"leader moves off a silent server":    movesOffSilentServer,
			"lost reply of the race is proved":    lostRaceReply,
			"cut connections keep the term":       cutConnections,
			"namespaces do not know each other":   namespaces,
			"floor goes on above a wiped one":     wiped,
			"second instance of a name":           twin,
			"credentials lock the znodes":         credentials,
			"unresolvable name does not stop one": unresolvable,
			"granted time-out is read":            granted,
			"races of one session are apart":      twoRaces,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, servers)
			})
		}
	})
	t.Run("broken", func(t *testing.T) {
		t.Run("one server of three dies", func(t *testing.T) { oneDies(t, e) })
		t.Run("no quorum", func(t *testing.T) { noQuorum(t, e) })
	})
}

func tenHandOvers(t *testing.T, servers []string) {
	c := &court{}
	all := map[string]*instance{}
	for _, name := range []string{"a", "b", "c"} {
		all[name] = real(t, c, "handover", name, servers, lasting(longSession)).run(t)
	}
	last := uint64(0)
	for n := range 10 {
		r := awaitLeader(t, c, last)
		i := all[r.instance]
		awaitMembers(t, i, "a", "b", "c")
		last = r.term
		var asked time.Time
		if n%2 == 0 { // as a rolling restart does
			asked = time.Now()
			if err := i.halt(); err != nil {
				t.Fatal(err)
			}
		} else {
			asked = time.Now()
			if err := i.Resign(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
		}
		next := awaitLeader(t, c, last)
		t.Logf("hand-over %d: %v from the request to the next leader", n, next.began.Sub(asked).Round(time.Millisecond))
		if n%2 == 0 {
			all[r.instance] = real(t, c, "handover", r.instance, servers, lasting(longSession)).run(t)
		}
	}
	checkReigns(t, c.all())
	for _, r := range c.all() {
		if !r.canceled.IsZero() && !errors.Is(r.cause, ErrResigned) {
			t.Logf("term %d ended by %v", r.term, r.cause) // a machine under load may lose a lease; it must not overlap
		}
	}
}

func frozenLeader(t *testing.T, servers []string) {
	c := &court{}
	links, through := proxies(t, servers)
	a := real(t, c, "frozen", "a", through, lasting(midSession)).run(t)
	first := awaitLeader(t, c, 0)
	b := real(t, c, "frozen", "b", servers, lasting(midSession)).run(t)
	awaitReady(t, b)
	for _, p := range links {
		p.Stall()
	}
	second := awaitLeader(t, c, first.term)
	if second.instance != "b" {
		t.Fatalf("%s leads", second.instance)
	}
	lost := c.all()[len(c.all())-2]
	if !errors.Is(lost.cause, ErrLost) || !lost.canceled.Before(second.began) {
		t.Errorf("the frozen leader's context ended at %v by %v, the standby began at %v", lost.canceled,
			lost.cause, second.began)
	}
	t.Logf("lease ended %v before the standby began", second.began.Sub(lost.canceled))
	if l, ok, err := a.Leader(t.Context()); err == nil {
		t.Errorf("a frozen instance is sure of leader %+v, %v", l, ok)
	}
	for _, p := range links {
		p.Heal()
	}
	lab.Eventually(t, patience, func() error {
		if s := a.State(); s.Role != Standby {
			return fmt.Errorf("after the freeze: %+v", s)
		}
		return nil
	})
	checkReigns(t, c.all())
}

func silentServer(t *testing.T, servers []string) {
	c := &court{}
	silent, addrs := proxies(t, []string{servers[0], servers[0], servers[0]})
	for _, p := range silent {
		p.Stall()
	}
	at := time.Now()
	a := real(t, c, "silent", "a", append(addrs, servers[1]), lasting(midSession)).run(t) // it begins at any of them
	awaitReady(t, a)
	// At worst three servers of S/3 each; the library alone takes 6.7·S for each.
	if took := time.Since(at); took > 3*midSession {
		t.Errorf("connected after %v", took)
	}
	awaitLeader(t, c, 0)
}

func movesOffSilentServer(t *testing.T, servers []string) {
	c := &court{}
	links, through := proxies(t, servers[:2])
	links[1].Cut()
	real(t, c, "moves", "a", through, lasting(longSession)).run(t)
	first := awaitLeader(t, c, 0)
	links[1].Heal()
	links[0].Stall()
	lab.Eventually(t, patience, func() error {
		if links[1].Conns() == 0 {
			return errors.New("still on the silent server")
		}
		return nil
	})
	awaitRenewal(t, first, time.Now())
	if first.ctx.Err() != nil {
		t.Errorf("leadership was lost on the way: %v", context.Cause(first.ctx))
	}
}

// lostRaceReply loses the reply to the race alone: Floor is asked right before it.
func lostRaceReply(t *testing.T, servers []string) {
	c := &court{}
	p := lab.NewProxy(t, servers[0])
	asked := make(chan struct{}, 1)
	slow := func(cfg *setup) {
		cfg.Session = longSession
		cfg.Floor = func(context.Context, uint64) (uint64, error) {
			select {
			case asked <- struct{}{}:
				p.StallReplies()
			default:
			}
			return 41, nil
		}
	}
	real(t, c, "lostreply", "a", []string{p.Addr}, slow).run(t)
	direct := plain(t, servers)
	lab.Eventually(t, patience, func() error {
		data, _, err := direct.Get("/tarry/lostreply/term")
		if err != nil || string(data) != "42" {
			return fmt.Errorf("term %q, %v", data, err)
		}
		return nil
	})
	if n := len(c.all()); n != 0 {
		t.Fatal("led before the outcome was known")
	}
	p.Cut()
	p.Heal()
	if r := awaitLeader(t, c, 0); r.term != 42 {
		t.Errorf("leads under term %d, want 42: the race was won the first time", r.term)
	}
}

// cutConnections is also what -race watches: reconnects under the load of polls and renewals.
func cutConnections(t *testing.T, servers []string) {
	c := &court{}
	links, through := proxies(t, servers)
	long := func(cfg *setup) {
		cfg.Session = longSession
		cfg.Username, cfg.Password = "tarry", "secret"
	}
	a := real(t, c, "cuts", "a", through, long).run(t)
	first := awaitLeader(t, c, 0)
	b := real(t, c, "cuts", "b", through, long).run(t)
	awaitReady(t, b)
	for range 20 {
		before := time.Now()
		for _, p := range links {
			p.Cut()
		}
		for _, p := range links {
			p.Heal()
		}
		for _, i := range []*instance{a, b} {
			lab.Eventually(t, patience, func() error {
				_, _, err := i.Leader(t.Context())
				return err
			})
		}
		awaitRenewal(t, first, before)
	}
	if first.ctx.Err() != nil {
		t.Errorf("leadership was lost: %v", context.Cause(first.ctx))
	}
	checkReigns(t, c.all())
}

func namespaces(t *testing.T, servers []string) {
	one, two := &court{}, &court{}
	real(t, one, "ns-one", "a", servers).run(t)
	real(t, two, "ns-two", "a", servers).run(t)
	if x, y := awaitLeader(t, one, 0), awaitLeader(t, two, 0); x.term != 1 || y.term != 1 {
		t.Errorf("terms %d and %d, want 1 and 1", x.term, y.term)
	}
}

// wipe deletes a znode and all below it.
func wipe(conn *zk.Conn, at string) error {
	names, _, err := conn.Children(at)
	for _, name := range names {
		err = errors.Join(err, wipe(conn, at+"/"+name))
	}
	if err = errors.Join(err, conn.Delete(at, -1)); errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

func wiped(t *testing.T, servers []string) {
	c := &court{}
	a := real(t, c, "wiped", "a", servers)
	a.setFloor(99, nil)
	a.run(t)
	if r := awaitLeader(t, c, 0); r.term != 100 {
		t.Fatalf("leads under term %d, want 100", r.term)
	}
	a.setFloor(100, nil)
	direct := plain(t, servers)
	lab.Eventually(t, patience, func() error { return wipe(direct, "/tarry/wiped") }) // the node writes meanwhile
	if r := awaitLeader(t, c, 100); r.term != 101 {
		t.Errorf("leads under term %d after the wipe, want 101", r.term)
	}
	awaitMembers(t, a, "a")
}

func twin(t *testing.T, servers []string) {
	c := &court{}
	real(t, c, "twin", "a", servers, lasting(midSession)).run(t)
	first := awaitLeader(t, c, 0)
	second := real(t, c, "twin", "a", servers, lasting(midSession)).run(t)
	err := <-second.stopped
	second.stopped <- err
	if !errors.Is(err, ErrDuplicateInstance) || !strings.Contains(err.Error(), "a:7071") {
		t.Errorf("Run of the twin returned %v, want ErrDuplicateInstance with the address", err)
	}
	if first.ctx.Err() != nil && len(c.all()) == 1 {
		t.Errorf("the first one was disturbed: %v", context.Cause(first.ctx))
	}
}

func granted(t *testing.T, servers []string) {
	c := &court{}
	real(t, c, "granted", "a", servers, func(cfg *setup) { cfg.Session = time.Minute }).run(t)
	r := awaitLeader(t, c, 0)
	if left, _ := Remaining(r.ctx); left > 10*realTick { // half of the 20 ticks that a server grants at most
		t.Errorf("Remaining is %v: the time-out asked for counts, not the one granted", left)
	}
}

func twoRaces(t *testing.T, servers []string) {
	cx, cy := &court{}, &court{}
	ax := real(t, cx, "races", "a", servers, lasting(longSession), named("x"))
	ax.also(t, "y", cy)
	ax.run(t)
	x, y := awaitLeader(t, cx, 0), awaitLeader(t, cy, 0)
	bx := real(t, cx, "races", "b", servers, lasting(longSession), named("x"))
	bx.also(t, "y", cy)
	bx.run(t)
	awaitMembers(t, ax, "a", "b")
	at := time.Now()
	if err := ax.Resign(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if next := awaitLeader(t, cx, x.term); next.instance != "b" || next.term != 2 {
		t.Errorf("%s leads x under term %d, want b under 2", next.instance, next.term)
	}
	awaitRenewal(t, y, at)
	if last := cy.last(t); last.instance != "a" || last.term != 1 || y.ctx.Err() != nil {
		t.Errorf("%s leads y under term %d (%v), want a under 1", last.instance, last.term, context.Cause(y.ctx))
	}
	checkReigns(t, cx.all())
	checkReigns(t, cy.all())
}

func unresolvable(t *testing.T, servers []string) {
	c := &court{}
	a := real(t, c, "resolve", "a", []string{"no-such-host.invalid:2181", servers[0]}).run(t)
	awaitReady(t, a)
	awaitLeader(t, c, 0)
}
