package lab

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Proxy forwards TCP connections to one address until its mode changes. Use one Proxy for each link of a test, so that
// one daemon can lose ZooKeeper while the others keep it.
//
//	             passes requests  passes replies  a new connection
//	Heal         yes              yes             passes
//	Stall        no               no              opens, then silence
//	StallReplies yes              no              opens, requests arrive
//	Cut          -                -               is refused; the open ones are reset
//
// The bytes that a stall holds back arrive after Heal, in order and complete, as after a network outage; the end of a
// connection is held back too. Cut discards them. So StallReplies, then Cut, then Heal loses a reply: the request was
// executed, but never confirmed.
//
// When a method returns, its mode is in force: not one more byte passes against it.
type Proxy struct {
	Addr string // host:port, the same across Cut and Heal

	t     testing.TB
	group sync.WaitGroup // all goroutines; close waits for them

	mu       sync.Mutex
	target   string
	mode     proxyMode
	changed  chan struct{} // closed and replaced at each change of mode
	delay    time.Duration
	listener net.Listener // nil while cut
	links    map[*link]struct{}
}

type proxyMode int

const (
	flowing proxyMode = iota
	stalled
	repliesStalled
	cut
	closed
)

func (m proxyMode) passes(reply bool) bool {
	return m == flowing || m == repliesStalled && !reply
}

// NewProxy starts a proxy in front of addr, which need not be up yet.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: addr, changed: make(chan struct{}), links: make(map[*link]struct{})}
	_, err := onPorts(1, func(ports []port, release func()) (struct{}, error) {
		p.Addr = ports[0].addr()
		if err := p.listen(); err != nil {
			return struct{}{}, fmt.Errorf("%w: %w", errPortTaken, err)
		}
		t.Cleanup(release)
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.check(p.set(closed))
		p.group.Wait()
	})
	return p
}

// Stall freezes the link: connections stay open, but no bytes pass.
func (p *Proxy) Stall() { p.t.Helper(); p.check(p.set(stalled)) }

// StallReplies lets requests pass and holds back every reply.
func (p *Proxy) StallReplies() { p.t.Helper(); p.check(p.set(repliesStalled)) }

// Cut resets all connections, discards the bytes they hold, and refuses new ones.
func (p *Proxy) Cut() { p.t.Helper(); p.check(p.set(cut)) }

// Heal ends a Stall, StallReplies or Cut. A Delay remains.
func (p *Proxy) Heal() { p.t.Helper(); p.check(p.set(flowing)) }

// Delay delays by d everything that arrives from now on, each way: a round trip takes 2d longer.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Conns returns the number of open connections.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// check fails the test. Only listening again can fail, on a port that is reserved for this proxy.
func (p *Proxy) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Error(err)
	}
}

// set changes the mode and returns when no write is in progress against it.
func (p *Proxy) set(m proxyMode) error {
	p.mu.Lock()
	if p.mode == closed {
		p.mu.Unlock()
		return nil
	}
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
	var links []*link
	for l := range p.links {
		links = append(links, l)
		l.interrupt()
	}
	off := m == cut || m == closed
	if off && p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()

	for _, l := range links {
		if off {
			l.reset()
		}
		l.quiesce(m)
	}
	if off {
		return nil
	}
	return p.listen()
}

// listen opens the port, unless it is open or the mode has changed again.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.mode == cut || p.mode == closed {
		return nil
	}
	l, err := net.Listen("tcp4", p.Addr)
	for until := time.Now().Add(5 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until); {
		time.Sleep(time.Millisecond) // a process that is being started holds all our sockets until it runs
		l, err = net.Listen("tcp4", p.Addr)
	}
	if err != nil {
		return fmt.Errorf("proxy on %s: %w", p.Addr, err)
	}
	p.listener = l
	p.group.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed by set
		}
		p.mu.Lock()
		if p.listener != l { // cut since; links does not have it, so no other goroutine resets it
			p.mu.Unlock()
			resetConn(conn)
			return
		}
		k := newLink(p, conn)
		p.links[k] = struct{}{}
		p.group.Go(k.run)
		p.mu.Unlock()
	}
}

// Retarget sends new connections to another address, as a change of DNS does; open connections stay where they are.
func (p *Proxy) Retarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// goal returns the address for a new connection.
func (p *Proxy) goal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// state returns the current mode and delay, and a channel that is closed when they change.
func (p *Proxy) state() (proxyMode, time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.delay, p.changed
}
