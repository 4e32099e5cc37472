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

	"github.com/tarry-mq/tarry/deploy/lab"
)

// A leader is frozen at the worst moment: its claim is on the wire. It reaches Redis when another instance leads.
func TestRedisRefusesWhatAFrozenLeaderHadSent(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	seen := s.watch()
	wire := newHeldWire(t, s.redis.Addr)
	s.redisAddr = wire.addr
	a := s.start("a")
	s.redisAddr = s.redis.Addr
	b := s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	l := &load{s: s, h: h, make: maker{seed: 6, spread: time.Second}, least: 500, rate: 100, doors: []*instance{b}}
	l.begin(t)
	leader, term := s.leader(0, a, b)
	if leader != a {
		t.Fatalf("%s leads", leader.name)
	}
	moment(t, h, "a delivery by the leader", anything)

	wire.hold(t)
	close := h.open("SIGSTOP of the leader", time.Now()) // for what its other buckets had in flight
	a.Pause()
	_, next := s.leader(term, b)
	moment(t, h, "a delivery by the next leader", anything)
	s.settled(term, close)
	lab.Eventually(t, patience, func() error { // it leads in every bucket
		if n := seen.count(func(x script) bool { return x.term == next && x.wrote }); n < 4 {
			return fmt.Errorf("the next leader wrote %d times", n)
		}
		return nil
	})
	before := seen.count(func(x script) bool { return x.term == term })
	wrote := seen.count(func(x script) bool { return x.term == term && x.wrote })
	wire.release()
	rdb := s.client()
	lab.Eventually(t, patience, func() error {
		if seen.count(func(x script) bool { return x.term == term }) == before {
			return fmt.Errorf("redis has not seen the late write of term %d", term)
		}
		text, err := rdb.Info(t.Context(), "errorstats").Result()
		if err == nil && !strings.Contains(text, "errorstat_STALE:count=") {
			err = fmt.Errorf("redis has refused nothing as stale: %s", text)
		}
		return err
	})
	if after := seen.count(func(x script) bool { return x.term == term && x.wrote }); after != wrote {
		t.Errorf("the late write of term %d took effect, though term %d leads", term, next)
	}
	a.Resume()
	s.stepsDown(a, term)
	s.leader(term, a, b)

	l.finish(t)
	l.judge(t) // of the held claim nothing was handed to NATS: once the window is closed nothing may arrive twice
	seen.judge(t, h.leaders)
	s.onceStored()
	s.oneLeader()
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
	case <-time.After(patience):
		t.Fatal("no claim came")
	}
}
