package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// pulled is what the consumers of a story know of one message.
type pulled struct {
	due     time.Time // zero until its push was answered
	first   time.Time // when it came first
	attempt int       // when it came last
	until   time.Time // end of the lease that was not settled, or zero
	acked   bool
}

// pullers are consumers without an MQ client, which share what they know. Each asks any instance.
type pullers struct {
	s    *site.Site
	mu   sync.Mutex
	all  map[string]*pulled // by uid
	void time.Time          // Redis lost its data then: leases of before are void
	lost int                // polls whose answer did not arrive; each may have been a try of a message
}

// leaseLength is how long the pullers lease. A message that comes earlier to another one was leased twice.
const leaseLength = 2 * time.Second

// clocksApart is how much longer a lease may be: it begins by the latest of the clocks.
const clocksApart = 100 * time.Millisecond

// push pushes n messages for pull, due within a second.
func (p *pullers) push(n int) {
	p.s.T.Helper()
	for i := range n {
		door := p.s.Instances[i%len(p.s.Instances)]
		delay := time.Duration(1000*i/n) * time.Millisecond
		earliest := time.Now().Add(delay)
		a := p.s.Push(door, map[string]any{"topic": fmt.Sprintf("work.%d", i%3), "deliver": "pull", "priority": i % 4,
			"delay": delay.String(), "retry": "0,0,0,0,0,0,0,0", "body": "to pull"})
		if a.Due.Before(earliest) {
			p.s.T.Errorf("%s is due %s early", a.UID, earliest.Sub(a.Due))
		}
		p.mu.Lock()
		m := p.of(a.UID)
		// Not what the answer says: where a commit takes long, it may come after a nack that moved the message.
		if m.due = earliest; !m.first.IsZero() && m.first.Before(m.due) {
			p.s.T.Errorf("%s came %s early", a.UID, m.due.Sub(m.first))
		}
		p.mu.Unlock()
	}
}

// of returns what is known of a message, which may come before its push is answered. p.mu is held.
func (p *pullers) of(uid string) *pulled {
	if p.all[uid] == nil {
		p.all[uid] = &pulled{}
	}
	return p.all[uid]
}

// work pulls and settles until stop is closed: mostly with an ack, else with a nack or a release, or not at all.
func (p *pullers) work(seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for {
		select {
		case <-stop:
			return
		default:
		}
		topic := fmt.Sprintf("work.%d", rnd.IntN(3))
		a, err := p.any(rnd).Call(p.s.T.Context(), http.MethodPost, "/v1/topics/"+topic+"/pull",
			map[string]any{"max": 5, "lease": leaseLength.String(), "consumer": fmt.Sprint("worker ", seed),
				"wait": fmt.Sprintf("%dms", min(rnd.IntN(4), 1)*1000)}) // three of four wait
		if err != nil {
			p.mu.Lock()
			p.lost++
			p.mu.Unlock()
		}
		var batch struct {
			Messages []struct {
				UID, Receipt string
				Attempt      int
				Until        time.Time `json:"lease_until"`
			}
		}
		if err != nil || a.Status != http.StatusOK || json.Unmarshal([]byte(a.Raw), &batch) != nil ||
			len(batch.Messages) == 0 {
			site.Pause(p.s.T.Context(), 100*time.Millisecond) // other stories run beside this one
			continue
		}
		now := time.Now()
		for _, m := range batch.Messages {
			p.came(m.UID, m.Attempt, now, m.Until)
		}
		for _, m := range batch.Messages {
			switch n := rnd.IntN(10); {
			case n == 0: // it lapses
			case n == 1:
				p.settle(rnd, m.UID, m.Receipt, "nack", map[string]any{"delay": "50ms"})
			case n == 2:
				p.settle(rnd, m.UID, m.Receipt, "release", nil)
			default:
				p.settle(rnd, m.UID, m.Receipt, "ack", nil)
			}
		}
	}
}

func (p *pullers) any(rnd *rand.Rand) *site.Instance {
	return p.s.Instances[rnd.IntN(len(p.s.Instances))]
}

// came judges a message that a pull returned.
func (p *pullers) came(uid string, attempt int, now, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.of(uid)
	if m.first.IsZero() {
		m.first = now
	}
	switch {
	case now.Before(m.due):
		p.s.T.Errorf("%s came %s early", uid, m.due.Sub(now))
	case m.acked:
		p.s.T.Errorf("%s came after it was acknowledged", uid)
	case now.Add(50*time.Millisecond).Before(m.until) && m.until.After(p.void.Add(leaseLength+clocksApart)):
		p.s.T.Errorf("%s came %s before the end of its lease", uid, m.until.Sub(now))
	case attempt < m.attempt || attempt > m.attempt+1+p.lost:
		p.s.T.Errorf("%s came as attempt %d after %d", uid, attempt, m.attempt)
	}
	m.attempt, m.until = attempt, until
}

// settle settles a lease, and asks again at another instance until it has an answer.
func (p *pullers) settle(rnd *rand.Rand, uid, receipt, verb string, body any) {
	// Whatever the answer, the message may come again from now on.
	p.mu.Lock()
	p.all[uid].until = time.Time{}
	p.mu.Unlock()
	for begun := time.Now(); time.Since(begun) < site.Patience; site.Pause(p.s.T.Context(), 20*time.Millisecond) {
		a, err := p.any(rnd).Call(p.s.T.Context(), http.MethodPost, "/v1/leases/"+receipt+"/"+verb, body)
		switch {
		case err != nil || a.Status >= 500:
			continue
		case a.Status == http.StatusOK && verb == "ack":
			p.mu.Lock()
			p.all[uid].acked = true
			p.mu.Unlock()
		case a.Status != http.StatusOK && a.Error != "lease_lost":
			p.s.T.Errorf("%s of %s: %d %s", verb, uid, a.Status, a.Raw)
		}
		return
	}
	p.s.T.Errorf("nobody answers a %s", verb)
}

// voids makes Redis lose leases. Nothing that comes meanwhile is judged before that is over.
func (p *pullers) voids(lose func() error) {
	p.s.T.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := lose(); err != nil {
		p.s.T.Fatal(err)
	}
	p.void = time.Now()
}

// left counts the messages that were not acknowledged.
func (p *pullers) left() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if !m.acked {
			n++
		}
	}
	return n
}

// busy waits until a share of the messages is acknowledged.
func (p *pullers) busy(left int) {
	p.s.T.Helper()
	lab.Eventually(p.s.T, site.Patience, func() error {
		if n := p.left(); n > left {
			return fmt.Errorf("%d messages are left, want %d", n, left)
		}
		return nil
	})
}

// Consumers pull at any instance while leaders die and Redis loses everything: nothing is lost, early, or leased twice
// at one time, nothing acknowledged comes again, and attempts rise by one. Where only the leader, ZooKeeper and NATS
// are away, pulls and acknowledgements go on.
func TestConsumersPullThroughEveryLoss(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Zk: true})
	s.Journal("sync", lab.SharedMariaDB(t))
	a, b := s.Start("a"), s.Start("b")
	p := &pullers{s: s, all: map[string]*pulled{}}
	const n = 240
	p.push(n)
	end := p.worked(4)

	p.busy(n * 3 / 4)
	leader, term := s.Leader(0, a, b)
	leader.Kill() // with leases out
	s.Leader(term, s.Others(leader)...)
	leader.Restart()
	s.Ready(leader)
	p.busy(0)

	// Nobody leads, and neither ZooKeeper nor NATS answers: what was pushed before is due, pulled and acknowledged. What
	// lapses waits.
	p.push(n)
	s.Zk.Kill()
	s.Nats.Kill()
	p.busy(n / 4)
	s.Zk.Restart()
	s.Nats.Restart()
	s.Ready(a)
	s.Ready(b)
	p.busy(0)

	p.push(n)
	ready := s.Push(a, map[string]any{"topic": "quiet.work", "deliver": "pull", "delay": 0}).UID
	p.busy(n / 2)
	before := s.Certified()
	p.voids(func() error { return s.Client().FlushAll(t.Context()).Err() })
	s.Whole(before, a, b)
	p.busy(0)
	edited := s.Must(b, http.MethodPatch, "/v1/messages/"+ready, map[string]any{"priority": 7})
	if edited.Status != http.StatusOK {
		t.Errorf("a ready message cannot be edited after a loss: %d %s", edited.Status, edited.Raw)
	}
	end()
	if got := len(p.all); got != 3*n {
		t.Errorf("%d messages came or were pushed, want %d", got, 3*n)
	}
	s.Says(a, 0, "", "verify")
}

// worked starts n workers. end stops them and waits for them.
func (p *pullers) worked(n int) (end func()) {
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range n {
		workers.Go(func() { p.work(uint64(i), stop) })
	}
	end = sync.OnceFunc(func() {
		close(stop)
		workers.Wait()
	})
	p.s.T.Cleanup(end)
	return end
}

// While the database is away, acknowledgements end messages: none comes again, though its answer waits. Then a replica
// is promoted that missed the last leases and acknowledgements: what was leased is ready again, what was acknowledged
// has ended.
func TestConsumersPullWithoutSQLAndThroughAPromotion(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.NewMariaDB(t))
	front := lab.NewProxy(t, s.Redis.Addr)
	s.RedisAddr = front.Addr
	replica := lab.NewRedis(t, "--requirepass", site.RedisPassword, "--masterauth", site.RedisPassword)
	replication := lab.NewProxy(t, s.Redis.Addr)
	toReplica := redis.NewClient(&redis.Options{Addr: replica.Addr, Password: site.RedisPassword})
	t.Cleanup(func() { _ = toReplica.Close() })
	host, port, err := net.SplitHostPort(replication.Addr)
	if err == nil {
		err = toReplica.ReplicaOf(t.Context(), host, port).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Start("a"), s.Start("b")
	p := &pullers{s: s, all: map[string]*pulled{}}
	const n = 120
	end := p.worked(4)
	p.push(n)
	p.busy(n / 2)
	s.Db.Kill()
	site.Pause(t.Context(), 5*time.Second) // leases lapse meanwhile, and acknowledgements wait
	s.Db.Restart()
	p.busy(0)

	lab.Eventually(t, site.Patience, func() error {
		info, err := toReplica.InfoMap(t.Context(), "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("the replica does not follow: %v", info["Replication"])
		}
		return err
	})
	p.push(n)
	replication.Stall()
	p.busy(n / 2) // the replica knows nothing of these
	before := s.Certified()
	old := s.Redis
	p.voids(func() error {
		err := toReplica.ReplicaOf(t.Context(), "no", "one").Err()
		replication.Cut()
		front.Retarget(replica.Addr)
		s.Redis = replica
		old.Kill()
		return err
	})
	s.Whole(before, a, b)
	p.busy(0)
	end()
	if got := len(p.all); got != 2*n {
		t.Errorf("%d messages came or were pushed, want %d", got, 2*n)
	}
	s.Says(a, 0, "", "verify")
}

// On a Cluster of three, pulls from the nodes that answer go on while one stands still.
func TestConsumersPullFromACluster(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	c := onCluster(s)
	a, b := s.Start("a"), s.Start("b")
	p := &pullers{s: s, all: map[string]*pulled{}}
	const n = 120
	p.push(n)
	victim := c.Owner(fmt.Sprintf("{%s:0}", s.Ns))
	stuck := len(lies(s, c, victim))
	if stuck == 0 || stuck == n {
		t.Fatalf("%d of %d messages lie on one node", stuck, n)
	}
	victim.Pause()
	end := p.worked(4)
	p.busy(stuck)
	victim.Resume()
	p.busy(n / 20)
	leader, term := s.Leader(0, a, b)
	leader.Kill()
	s.Leader(term, s.Others(leader)...)
	leader.Restart()
	s.Ready(leader)
	p.push(n)
	p.busy(0)
	end()
	if got := len(p.all); got != 2*n {
		t.Errorf("%d messages came or were pushed, want %d", got, 2*n)
	}
}

// One clock of three steps an hour ahead, then an hour back, with leases out: nothing comes early, and no lease is
// shorter or longer.
func TestConsumersPullWhileAClockSteps(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	stepped := lab.NewSteppedRedis(t, "--requirepass", site.RedisPassword)
	s.Redis, s.RedisAddr = stepped.Redis, stepped.Addr
	s.Start("a")
	s.Start("b")
	p := &pullers{s: s, all: map[string]*pulled{}}
	const n = 60
	end := p.worked(3)
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		p.push(n)
		p.busy(n * 3 / 4)
		stepped.Step(t, step)
		p.push(n)
		p.busy(0)
	}
	end()
	if got := len(p.all); got != 4*n {
		t.Errorf("%d messages came or were pushed, want %d", got, 4*n)
	}
}
