package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// client is the part of zk.Conn that this package uses. It lives for one session.
type client interface {
	Exists(path string) (bool, *zk.Stat, error)
	Get(path string) ([]byte, *zk.Stat, error)
	Children(path string) ([]string, *zk.Stat, error)
	ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error)
	Create(path string, data []byte, flags int32, acl []zk.ACL) (string, error)
	Set(path string, data []byte, version int32) (*zk.Stat, error)
	Delete(path string, version int32) error
	Multi(ops ...any) ([]zk.MultiResponse, error)
	Sync(path string) (string, error)
	SessionID() int64
	Close() // Close ends the session if it can, and returns when nothing of the client runs any more
}

// hooks are how a client informs its session. The client calls them from its own goroutines; they never block.
type hooks struct {
	state   func(zk.State)
	granted func(timeout time.Duration)
	failed  func(error) // a connection could not be made
}

// opener makes a client. It returns at once and connects in the background.
type opener func(hooks) (client, error)

// maxOutstanding limits how many calls of one race a stuck connection can pile up.
const maxOutstanding = 16

var (
	errExpired = errors.New("zookeeper session expired")
	errClosed  = errors.New("zookeeper session closed")
	errTimeout = errors.New("no answer in time")
	errBusy    = errors.New("too many calls without an answer")
	errNotUp   = errors.New("not connected to zookeeper")
)

// session is one ZooKeeper session: one client, and everything that must not outlive the session.
type session struct {
	client client
	asked  timing

	grant atomic.Int64  // the time-out the server granted; 0 before the first handshake
	live  atomic.Bool   // connected, as far as known
	flag  func()        // called when the connection changed; it never blocks
	over  chan struct{} // closed when the session is
	slots chan struct{}
	wg    sync.WaitGroup // the running calls; grows only under mu and before the end, so that close misses none

	logged struct { // what has been logged about the connection; used by one goroutine at a time
		up   bool
		last time.Time
	}

	mu      sync.Mutex
	err     error // why the session is over
	lastErr error // why the last connection could not be made
}

// openSession returns before the session is established. calls limits how many calls of the session wait for an answer
// at a time. flag is called at every change of the connection.
func openSession(open opener, asked timing, calls int, flag func()) (*session, error) {
	s := &session{
		asked: asked,
		flag:  flag,
		over:  make(chan struct{}),
		slots: make(chan struct{}, calls),
	}
	c, err := open(hooks{
		state:   s.onState,
		granted: func(d time.Duration) { s.grant.Store(int64(d)) },
		failed:  s.onFailure,
	})
	if err != nil {
		return nil, fmt.Errorf("open zookeeper session: %w", err)
	}
	s.client = c
	return s, nil
}

// onState runs on the client's goroutines, so it only stores the state and sets the flag. While no call is under way,
// expiry arrives only here.
func (s *session) onState(state zk.State) {
	if state == zk.StateExpired {
		s.die(errExpired)
	}
	up := state == zk.StateHasSession
	s.live.Store(up)
	if up {
		s.mu.Lock()
		s.lastErr = nil
		s.mu.Unlock()
	}
	s.flag()
}

func (s *session) onFailure(err error) {
	s.mu.Lock()
	s.lastErr = err
	s.mu.Unlock()
	s.flag()
}

// raise sets a flag, which is a channel of capacity 1.
func raise(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

// trouble returns why the session is not up.
func (s *session) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case s.lastErr != nil:
		return fmt.Errorf("%w: %w", errNotUp, s.lastErr)
	}
	return errNotUp
}

// die ends the session. The first reason is kept.
func (s *session) die(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.over)
	}
}

// reason returns why the session is over, or nil while it is not.
func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends the session at the server if the server can be reached, and waits for every call.
func (s *session) close() {
	s.die(errClosed)
	s.client.Close()
	s.wg.Wait()
}

// up reports whether a call is worth sending.
func (s *session) up() bool {
	return s.live.Load() && s.reason() == nil
}

func (s *session) timing() timing {
	if d := s.grant.Load(); d > 0 {
		return timing(d)
	}
	return s.asked
}

// begin takes the slot of one call. If it returns nil, the caller must give the slot back and call wg.Done.
func (s *session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	select {
	case s.slots <- struct{}{}:
		s.wg.Add(1)
		return nil
	default:
		return errBusy
	}
}

// call runs f in a goroutine of the session, because the client supports neither contexts nor time-outs. If call
// returns first, f may still be applied later: that is an unknown outcome like any other.
func call[T any](ctx context.Context, s *session, limit time.Duration, f func(client) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := s.begin(); err != nil {
		return none, err
	}
	done := make(chan answer, 1)
	go func() {
		defer s.wg.Done()
		defer func() { <-s.slots }()
		v, err := f(s.client)
		if errors.Is(err, zk.ErrSessionExpired) {
			s.die(errExpired)
		}
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-time.After(limit):
		return none, fmt.Errorf("%w: %v", errTimeout, limit)
	case <-s.over:
		return none, s.reason()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// rest waits for d. It returns early, with the reason, when ctx or the session ends.
func rest(ctx context.Context, s *session, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.over:
		return s.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// znode is an existing znode.
type znode struct {
	data []byte
	stat zk.Stat
}

func (s *session) get(ctx context.Context, path string) (znode, error) {
	return call(ctx, s, s.timing().call(), func(c client) (znode, error) {
		data, stat, err := c.Get(path)
		if err != nil {
			return znode{}, fmt.Errorf("get %s: %w", path, err)
		}
		return znode{data, *stat}, nil
	})
}

// exists returns nil if there is no znode.
func (s *session) exists(ctx context.Context, path string) (*zk.Stat, error) {
	return call(ctx, s, s.timing().call(), func(c client) (*zk.Stat, error) {
		ok, stat, err := c.Exists(path)
		if err != nil || !ok {
			return nil, wrap("look at "+path, err)
		}
		return stat, nil
	})
}

func (s *session) children(ctx context.Context, path string) ([]string, error) {
	return call(ctx, s, s.timing().call(), func(c client) ([]string, error) {
		names, _, err := c.Children(path)
		return names, wrap("list "+path, err)
	})
}

// watch returns a channel that is closed, or receives a value, once the children of path change. A session has at most
// one outstanding watch: the caller keeps the channel until it fires. If the answer comes too late for the call, nobody
// receives the event of its watch.
func (s *session) watch(ctx context.Context, path string) (<-chan zk.Event, error) {
	return call(ctx, s, s.timing().call(), func(c client) (<-chan zk.Event, error) {
		_, _, fired, err := c.ChildrenW(path)
		return fired, wrap("watch "+path, err)
	})
}

func (s *session) create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (string, error) {
		return c.Create(path, data, flags, acl)
	})
	return wrap("create "+path, err)
}

func (s *session) set(ctx context.Context, path string, data []byte, version int32) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (*zk.Stat, error) {
		return c.Set(path, data, version)
	})
	return wrap("set "+path, err)
}

func (s *session) remove(ctx context.Context, path string, version int32) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (struct{}, error) {
		return struct{}{}, c.Delete(path, version)
	})
	return wrap("delete "+path, err)
}

// sync makes the connected server catch up with the ensemble, so that the next read is not stale.
func (s *session) sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, s.timing().call(), func(c client) (string, error) {
		return c.Sync(path)
	})
	return wrap("sync "+path, err)
}

func (s *session) multi(ctx context.Context, limit time.Duration, ops ...any) ([]zk.MultiResponse, error) {
	return call(ctx, s, limit, func(c client) ([]zk.MultiResponse, error) {
		return c.Multi(ops...)
	})
}

func wrap(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", step, err)
}

// refusals are the errors that a server sends in reply to a request that it did not apply.
var refusals = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrAuthFailed,
	zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrSessionMoved, zk.ErrBadArguments,
}

// refused reports whether err is an answer: the request had no effect and will have none. Every other error leaves the
// outcome unknown.
func refused(err error) bool {
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}
