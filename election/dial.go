package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

const (
	dialTimeout = time.Second            // of one TCP connection
	dialPause   = 100 * time.Millisecond // between two dials of one server, doubled by each failed round
)

// dialError reports why one server could not be reached.
type dialError struct {
	server string
	err    error
}

func (e *dialError) Error() string { return fmt.Sprintf("%s: %v", e.server, e.err) }
func (e *dialError) Unwrap() error { return e.err }

// dialer makes the connections of one session. It is the library's HostProvider and its Dialer. The library asks for
// the next server and then dials it, all from one goroutine; quit and abort are called from others.
type dialer struct {
	servers []string
	greeter greeter
	hooks   hooks
	asked   timing
	lookup  func(ctx context.Context, host string) ([]string, error)

	ctx   context.Context // ends with abort; the library's Dialer passes no context
	abort context.CancelFunc

	mu sync.Mutex

	next    int // index of the next server to return
	failed  int // dials since the last good handshake
	turn    map[string]int
	last    map[string]time.Time
	link    *link // the last connection, or nil before the first
	session int64 // id of the one session this dialer serves, or 0 before the first
	granted time.Duration
	heard   time.Time // when the server last sent something in that session
	closing bool
	over    bool // the session has expired
}

func newDialer(cfg NodeConfig, h hooks) *dialer {
	d := &dialer{
		servers: cfg.Servers,
		hooks:   h,
		asked:   timing(cfg.Session),
		lookup:  net.DefaultResolver.LookupHost,
		next:    rand.IntN(len(cfg.Servers)), // spread the instances over the servers
		turn:    make(map[string]int),
		last:    make(map[string]time.Time),
	}
	d.ctx, d.abort = context.WithCancel(context.Background())
	d.greeter = greeter{username: cfg.Username, password: cfg.Password, accept: d.accept}
	return d
}

// Init ignores the addresses that the library resolved: names stay names until they are dialled.
func (d *dialer) Init([]string) error { return nil }

// Len returns the number of servers.
func (d *dialer) Len() int { return len(d.servers) }

// Next returns the servers in turn. If the second result is true, the library waits a second, and only there checks
// whether it has been closed.
func (d *dialer) Next() (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	server := d.servers[d.next]
	d.next = (d.next + 1) % len(d.servers)
	return server, d.closing || d.over
}

// Connected is called after a successful handshake.
func (d *dialer) Connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = 0
}

// dial connects to one server: name, TCP. The ZooKeeper handshake follows in the connection's first Read, under
// the same deadline.
func (d *dialer) dial(_, server string, _ time.Duration) (net.Conn, error) {
	conn, err := d.connect(server)
	if err != nil {
		err = &dialError{server, err}
		d.report(err)
		return nil, err
	}
	return conn, nil
}

func (d *dialer) connect(server string) (net.Conn, error) {
	if err := d.waitTurn(server); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(d.asked.silence())
	ctx, cancel := context.WithDeadline(d.ctx, deadline)
	defer cancel()
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	address, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	tcp := net.Dialer{Timeout: dialTimeout}
	raw, err := tcp.DialContext(ctx, "tcp", net.JoinHostPort(address, port))
	if err != nil {
		return nil, err
	}
	err = raw.SetDeadline(deadline)
	l := &link{Conn: raw, greeter: d.greeter, heard: d.hear,
		failed: func(err error) { d.report(&dialError{server, err}) }}
	if err == nil {
		err = d.adopt(l)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return l, nil
}

// report passes on a failure, unless this side ended the connection.
func (d *dialer) report(err error) {
	if d.ctx.Err() == nil {
		d.hooks.failed(err)
	}
}

// adopt makes quit and cut apply to the connection.
func (d *dialer) adopt(l *link) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ctx.Err(); err != nil {
		return err
	}
	d.link = l
	return nil
}

// hear notes that the server has sent something.
func (d *dialer) hear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = time.Now()
}

// waitTurn prevents a tight loop of dials to a server that refuses or drops every connection. It gives a session up
// that no server has answered for S: where requests arrive and answers do not, each handshake renews the session, and
// with it the znode of a leader that leads no more.
func (d *dialer) waitTurn(server string) error {
	d.mu.Lock()
	if d.session != 0 && !d.over && time.Since(d.heard) > d.granted {
		d.over = true
		d.hooks.state(zk.StateExpired)
	}
	if d.over {
		d.mu.Unlock()
		return errExpired // one dialer is one session
	}
	rounds := min(d.failed/len(d.servers), 10)
	gap := min(dialPause<<rounds, max(dialPause, d.asked.retry()), time.Second)
	wait := time.Until(d.last[server].Add(gap))
	d.last[server] = time.Now().Add(max(0, wait))
	d.failed++
	d.mu.Unlock()
	pause(d.ctx, wait)
	return d.ctx.Err()
}

// resolve looks up a name now and takes its addresses in turn, so that an address that does not answer is passed over.
func (d *dialer) resolve(ctx context.Context, host string) (string, error) {
	if net.ParseIP(host) != nil {
		return host, nil
	}
	addresses, err := d.lookup(ctx, host)
	if err != nil {
		return "", err
	}
	if len(addresses) == 0 {
		return "", fmt.Errorf("%s has no address", host)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.turn[host]
	d.turn[host]++
	return addresses[n%len(addresses)], nil
}

// accept judges the server's part of the handshake: a dialer serves only one session.
func (d *dialer) accept(session int64, granted time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if session == 0 {
		d.over = true // the library then reports the expiry to the hooks
		return nil
	}
	if d.over || d.session != 0 && d.session != session {
		d.over = true
		d.hooks.state(zk.StateExpired)
		return fmt.Errorf("%w: the server opened another one", errExpired)
	}
	d.session, d.granted, d.heard = session, granted, time.Now()
	d.hooks.granted(granted)
	return nil
}

// quit lets a live connection say goodbye, and aborts everything else: a dial, a wait, a handshake.
func (d *dialer) quit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	if d.link == nil || !d.link.greeted.Load() {
		d.stop()
	}
}

// cut aborts everything.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	d.stop()
}

func (d *dialer) stop() {
	d.abort()
	if d.link != nil {
		d.link.Close()
	}
}

var _ zk.HostProvider = (*dialer)(nil)

// stopTimeout limits the wait for the library's goroutine, which has nothing left to wait for by then.
const stopTimeout = 5 * time.Second

// bufferSize is the buffer for one packet in each direction. The longest packet is the list of members; the library's
// default is 1.5 MiB twice.
const bufferSize = 256 << 10

// connection is a zk.Conn for one session. It closes from outside everything that the library leaves open.
type connection struct {
	*zk.Conn
	dialer *dialer
	events <-chan zk.Event
	log    zerolog.Logger
}

func realOpener(cfg NodeConfig, log zerolog.Logger) opener {
	return func(h hooks) (client, error) {
		d := newDialer(cfg, h)
		conn, events, err := zk.Connect(cfg.Servers, cfg.Session,
			zk.WithHostProvider(d),
			zk.WithDialer(d.dial),
			zk.WithEventCallback(func(e zk.Event) {
				if e.Type == zk.EventSession {
					h.state(e.State)
				}
			}),
			zk.WithLogger(libraryLog{log}),
			zk.WithLogInfo(false),
			zk.WithMaxBufferSize(bufferSize),
			zk.WithMaxConnBufferSize(bufferSize),
		)
		if err != nil {
			d.cut()
			return nil, err
		}
		return &connection{Conn: conn, dialer: d, events: events, log: log}, nil
	}
}

// Close says goodbye if there is a connection, so that the ephemeral znodes disappear at once. It waits until the
// library's goroutine has ended: that goroutine closes the event channel last.
func (c *connection) Close() {
	c.dialer.quit()
	c.Conn.Close()
	c.dialer.cut()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	for {
		select {
		case _, ok := <-c.events:
			if !ok {
				return
			}
		case <-timer.C:
			c.log.Error().Dur("after", stopTimeout).Msg("zookeeper client did not stop")
			return
		}
	}
}

// libraryLog logs the library's messages at a level where only a reader who looks for them finds them. This package
// logs the important events itself.
type libraryLog struct{ log zerolog.Logger }

func (l libraryLog) Printf(format string, args ...any) {
	l.log.Debug().Str("detail", fmt.Sprintf(format, args...)).Msg("zookeeper client")
}
