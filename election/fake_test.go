package election

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// fakeEnsemble is ZooKeeper as far as this package can see it: znodes with their stats, transactions, sessions that
// expire. It is driven by the fake clock of testing/synctest; the real one is in ensemble_test.go.
type fakeEnsemble struct {
	granted time.Duration // 0: what is asked for

	mu sync.Mutex

	zxid    int64
	nodes   map[string]znode
	session int64
	clients map[int64]*fakeClient // of live sessions
	watches []fakeWatch
	opened  int
}

func newFakeEnsemble() *fakeEnsemble {
	return &fakeEnsemble{nodes: map[string]znode{}, clients: map[int64]*fakeClient{}}
}

// fakeWatch is on the children of a path.
type fakeWatch struct {
	client *fakeClient
	path   string
	fired  chan zk.Event
}

// what a fault does to one call.
type verdict int

const (
	pass        verdict = iota
	loseRequest         // not applied, and the caller gets no answer
	loseReply           // applied, and the caller gets no answer
	holdReply           // applied, and the caller waits until release or the connection's end
)

// faults sit between one instance and the ensemble; they outlive its sessions.
type faults struct {
	mu sync.Mutex

	judge   func(op string) verdict
	release chan struct{}
	down    bool
	last    *fakeClient
}

func (f *faults) set(judge func(op string) verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.judge = judge
	f.release = make(chan struct{})
}

func (f *faults) releaseHeld() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.release)
	f.judge, f.release = nil, nil
}

func (f *faults) verdict(op string) (verdict, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.judge == nil {
		return pass, nil
	}
	return f.judge(op), f.release
}

func (f *faults) client() *fakeClient {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// fakeClient is one connection with its one session.
type fakeClient struct {
	e     *fakeEnsemble
	f     *faults
	hooks hooks
	id    int64
	limit time.Duration

	mu sync.Mutex

	closed chan struct{}
	cut    chan struct{} // closed when the client notices that the link is gone; nil while silent or fine
	open   chan struct{} // closed while the link is up
	expiry *time.Timer
}

func (e *fakeEnsemble) opener(f *faults, asked time.Duration) opener {
	return func(h hooks) (client, error) {
		e.mu.Lock()
		e.session++
		e.opened++
		limit := asked
		if e.granted > 0 {
			limit = e.granted
		}
		c := &fakeClient{
			e: e, f: f, hooks: h, id: e.session, limit: limit,
			closed: make(chan struct{}), cut: make(chan struct{}), open: make(chan struct{}),
		}
		close(c.open)
		e.clients[c.id] = c
		e.mu.Unlock()
		f.mu.Lock()
		f.last = c
		down := f.down
		f.mu.Unlock()
		if down {
			c.stall(limit)
			c.notice()
			return c, nil
		}
		h.granted(limit)
		h.state(zk.StateConnected)
		h.state(zk.StateHasSession)
		return c, nil
	}
}

// stall freezes the link: calls hang, and no client is notified. The session dies after left unless the link comes
// back.
func (c *fakeClient) stall(left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.open:
		c.open = make(chan struct{})
		c.cut = make(chan struct{})
		c.expiry = time.AfterFunc(left, func() { c.e.expire(c.id) })
	default:
	}
}

// notice is the client finding out: what hangs fails, and it says Disconnected.
func (c *fakeClient) notice() {
	c.mu.Lock()
	select {
	case <-c.cut:
		c.mu.Unlock()
		return
	default:
		close(c.cut)
	}
	c.mu.Unlock()
	c.hooks.state(zk.StateDisconnected)
}

// heal brings the link back, to the same session or to the news that it has expired.
func (c *fakeClient) heal() {
	c.notice()
	c.mu.Lock()
	select {
	case <-c.closed:
		c.mu.Unlock()
		return
	default:
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	alive := c.e.alive(c.id)
	if alive {
		c.cut, c.open = make(chan struct{}), make(chan struct{})
		close(c.open)
	}
	c.mu.Unlock()
	c.hooks.state(zk.StateConnected)
	if !alive {
		c.hooks.state(zk.StateExpired)
		return
	}
	c.hooks.granted(c.limit)
	c.hooks.state(zk.StateHasSession)
	c.e.fire(func(w fakeWatch) bool { return w.client == c }) // set again relative to zxid 0
}

// fire fires watches. Those of a client that is cut off fire when it is back.
func (e *fakeEnsemble) fire(which func(fakeWatch) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fireLocked(which)
}

func (e *fakeEnsemble) fireLocked(which func(fakeWatch) bool) {
	e.watches = slices.DeleteFunc(e.watches, func(w fakeWatch) bool {
		if !which(w) || !w.client.isOpen() {
			return false
		}
		w.fired <- zk.Event{Type: zk.EventNodeChildrenChanged, Path: w.path}
		close(w.fired)
		return true
	})
}

// childChanged fires the watches on the parent of path.
func (e *fakeEnsemble) childChanged(path string) {
	parent := path[:strings.LastIndex(path, "/")]
	e.fireLocked(func(w fakeWatch) bool { return w.path == parent })
}

func (c *fakeClient) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.open:
		return true
	default:
		return false
	}
}

func (e *fakeEnsemble) alive(id int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clients[id] != nil
}

// expire ends a session at the server, ephemeral znodes included.
func (e *fakeEnsemble) expire(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.clients, id)
	e.zxid++
	for path, n := range e.nodes {
		if n.stat.EphemeralOwner == id {
			delete(e.nodes, path)
			e.childChanged(path)
		}
	}
}

// kill expires a session whose client is connected, and notifies it.
func (e *fakeEnsemble) kill(c *fakeClient) {
	e.expire(c.id)
	c.hooks.state(zk.StateDisconnected)
	c.hooks.state(zk.StateExpired)
}

// do passes one call through the faults to the ensemble.
func (c *fakeClient) do(op string, apply func(e *fakeEnsemble) error) error {
	c.mu.Lock()
	open, cut := c.open, c.cut
	c.mu.Unlock()
	for range 2 { // a closed client answers so even when its link is up
		select {
		case <-c.closed:
			return zk.ErrConnectionClosed
		default:
		}
		select {
		case <-open:
		case <-cut:
			return zk.ErrConnectionClosed
		case <-c.closed:
		}
	}
	v, release := c.f.verdict(op)
	if v == loseRequest {
		return fmt.Errorf("write tcp: broken pipe")
	}
	c.e.mu.Lock()
	if c.e.clients[c.id] == nil {
		c.e.mu.Unlock()
		return zk.ErrSessionExpired
	}
	c.e.zxid++
	err := apply(c.e)
	c.e.mu.Unlock()
	switch v {
	case loseReply:
		return zk.ErrConnectionClosed
	case holdReply:
		select {
		case <-release:
		case <-cut:
			return zk.ErrConnectionClosed
		case <-c.closed:
			return zk.ErrConnectionClosed
		}
	}
	return err
}

func (e *fakeEnsemble) create(owner int64, path string, data []byte) error {
	if _, ok := e.nodes[path]; ok {
		return zk.ErrNodeExists
	}
	if parent := path[:strings.LastIndex(path, "/")]; parent != "" {
		if _, ok := e.nodes[parent]; !ok {
			return zk.ErrNoNode
		}
	}
	e.nodes[path] = znode{data, zk.Stat{Czxid: e.zxid, Mzxid: e.zxid, EphemeralOwner: owner}}
	e.childChanged(path)
	return nil
}

func (e *fakeEnsemble) check(path string, version int32) (znode, error) {
	n, ok := e.nodes[path]
	if !ok {
		return n, zk.ErrNoNode
	}
	if version >= 0 && n.stat.Version != version {
		return n, zk.ErrBadVersion
	}
	return n, nil
}

func (e *fakeEnsemble) set(path string, data []byte, version int32) (zk.Stat, error) {
	n, err := e.check(path, version)
	if err != nil {
		return zk.Stat{}, err
	}
	n.data, n.stat.Mzxid, n.stat.Version = data, e.zxid, n.stat.Version+1
	e.nodes[path] = n
	return n.stat, nil
}

func (e *fakeEnsemble) remove(path string, version int32) error {
	if _, err := e.check(path, version); err != nil {
		return err
	}
	delete(e.nodes, path)
	e.childChanged(path)
	return nil
}

// outside changes the ensemble as an operator or another program would.
func (e *fakeEnsemble) outside(change func(e *fakeEnsemble)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.zxid++
	change(e)
}

func (e *fakeEnsemble) peek(path string) (znode, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := e.nodes[path]
	return n, ok
}

func (e *fakeEnsemble) sessionsOpened() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opened
}
