package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// client is what is used of a zk.Conn. It lives for one session.
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
	Close() // ends the session where it can, and returns when nothing of the client runs any more
}

// hooks are called by a client, from goroutines of its own, to inform its session; they never block.
type hooks struct {
	state   func(zk.State)
	granted func(timeout time.Duration)
	failed  func(error) // a connection could not be made
}

// opener makes a client; it returns at once and connects behind.
type opener func(hooks) (client, error)

// maxOutstanding bounds the calls that a stuck connection can pile up.
const maxOutstanding = 16

var (
	errExpired = errors.New("zookeeper session expired")
	errClosed  = errors.New("zookeeper session closed")
	errTimeout = errors.New("no answer in time")
	errBusy    = errors.New("too many calls without an answer")
	errNotUp   = errors.New("not connected to zookeeper")
)

// session is one ZooKeeper session: one client, and everything that must not outlive it.
type session struct {
	client client
	asked  timing

	grant atomic.Int64  // the time-out the server granted; 0 before the first handshake
	live  atomic.Bool   // connected, as far as known
	news  chan struct{} // one flag: live changed
	over  chan struct{} // closed when the session is
	slots chan struct{}
	wg    sync.WaitGroup // the calls that run

	told struct { // what the log knows of the connection; of Run's goroutine
		up   bool
		last time.Time
	}

	mu      sync.Mutex
	err     error // why it is over
	lastErr error // why the last connection could not be made
}

func openSession(open opener, asked timing) (*session, error) {
	s := &session{
		asked: asked,
		news:  make(chan struct{}, 1),
		over:  make(chan struct{}),
		slots: make(chan struct{}, maxOutstanding),
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

// onState runs on the client's goroutines: it stores and flags, no more. Expiry arrives here and nowhere
// else while no call is under way.
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

// flag makes whoever waits for news look.
func (s *session) flag() { raise(s.news) }

// raise sets a flag that is a channel of one.
func raise(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

// trouble is why the session is not up.
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

// die ends the session; the first reason stays.
func (s *session) die(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.over)
	}
}

// reason is why the session is over, nil while it is not.
func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends the session at the server where it can be reached, and waits for every call.
func (s *session) close() {
	s.die(errClosed)
	s.client.Close()
	s.wg.Wait()
}

// up says that calls are worth sending.
func (s *session) up() bool {
	return s.live.Load() && s.reason() == nil
}

func (s *session) timing() timing {
	if d := s.grant.Load(); d > 0 {
		return timing(d)
	}
	return s.asked
}

// call runs f in a goroutine of the session's, because the client knows neither contexts nor time-outs. When call
// returns first, f may still be applied later: that is an unknown outcome like any other.
func call[T any](ctx context.Context, s *session, limit time.Duration, f func(client) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := s.reason(); err != nil {
		return none, err
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return none, errBusy
	}
	done := make(chan answer, 1)
	s.wg.Go(func() {
		defer func() { <-s.slots }()
		v, err := f(s.client)
		if errors.Is(err, zk.ErrSessionExpired) {
			s.die(errExpired)
		}
		done <- answer{v, err}
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-timer.C:
		return none, fmt.Errorf("%w: %v", errTimeout, limit)
	case <-s.over:
		return none, s.reason()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
