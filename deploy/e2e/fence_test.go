package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A leader is frozen at the worst moment: its claim is on the wire. It reaches Redis when another instance leads.
func TestRedisRefusesWhatAFrozenLeaderHadSent(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	seen := s.Watch()
	wire := newHeldWire(t, s.Redis.Addr)
	s.RedisAddr = wire.addr
	a := s.Start("a")
	s.RedisAddr = s.Redis.Addr
	b := s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 6, Spread: time.Second}, Least: 500, Rate: 100,
		Doors: []*site.Instance{b}}
	l.Begin(t)
	leader, term := s.Leader(0, a, b)
	if leader != a {
		t.Fatalf("%s leads", leader.Name)
	}
	site.Moment(t, h, "a delivery by the leader", site.Anything)

	wire.hold(t)
	close := h.Open("SIGSTOP of the leader", time.Now()) // for what its other buckets had in flight
	a.Pause()
	_, next := s.Leader(term, b)
	site.Moment(t, h, "a delivery by the next leader", site.Anything)
	s.Settled(term, close)
	lab.Eventually(t, site.Patience, func() error { // it leads in every bucket
		if n := seen.Count(func(x site.Script) bool { return x.Term == next && x.Wrote }); n < 4 {
			return fmt.Errorf("the next leader wrote %d times", n)
		}
		return nil
	})
	before := seen.Count(func(x site.Script) bool { return x.Term == term })
	wrote := seen.Count(func(x site.Script) bool { return x.Term == term && x.Wrote })
	wire.release()
	rdb := s.Client()
	lab.Eventually(t, site.Patience, func() error {
		if seen.Count(func(x site.Script) bool { return x.Term == term }) == before {
			return fmt.Errorf("redis has not seen the late write of term %d", term)
		}
		text, err := rdb.Info(t.Context(), "errorstats").Result()
		if err == nil && !strings.Contains(text, "errorstat_STALE:count=") {
			err = fmt.Errorf("redis has refused nothing as stale: %s", text)
		}
		return err
	})
	if after := seen.Count(func(x site.Script) bool { return x.Term == term && x.Wrote }); after != wrote {
		t.Errorf("the late write of term %d took effect, though term %d leads", term, next)
	}
	a.Resume()
	stepsDown(s, a, term)
	s.Leader(term, a, b)

	l.Finish(t)
	l.Judge(t) // of the held claim nothing was handed to NATS: once the window is closed nothing may arrive twice
	seen.Judge(t, h.Leaders)
	s.OnceStored()
	s.OneLeader()
}

// heldWire is a link to Redis that can hold back one request of a leader. It looks for a script that has both a
// bucket's claims and its lanes among its keys: that is a claim, or the return of one.
type heldWire struct {
	addr    string
	to      string
	armed   atomic.Bool
	caught  chan struct{}
	release func()
	free    chan struct{}
	wg      sync.WaitGroup
}

func newHeldWire(t *testing.T, to string) *heldWire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &heldWire{addr: l.Addr().String(), to: to, caught: make(chan struct{}), free: make(chan struct{})}
	w.release = sync.OnceFunc(func() { close(w.free) })
	w.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.serve(client) })
		}
	})
	t.Cleanup(func() { l.Close(); w.release(); w.wg.Wait() })
	return w
}

// serve ends with either side.
func (w *heldWire) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		client.Close()
	})
	chunk := make([]byte, 64<<10)
	for {
		n, err := client.Read(chunk)
		if w.armed.Load() && bytes.Contains(chunk[:n], []byte("}:claimed")) &&
			bytes.Contains(chunk[:n], []byte("}:lanes")) && w.armed.CompareAndSwap(true, false) {
			close(w.caught)
			<-w.free
		}
		if _, writeErr := server.Write(chunk[:n]); err != nil || writeErr != nil {
			break
		}
	}
	server.Close()
	back.Wait()
}

// hold waits until a request is held back.
func (w *heldWire) hold(t *testing.T) {
	t.Helper()
	w.armed.Store(true)
	select {
	case <-w.caught:
	case <-time.After(site.Patience):
		t.Fatal("no claim came")
	}
}
