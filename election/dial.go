package election

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	dialTimeout = time.Second            // of one TCP connection
	dialPause   = 100 * time.Millisecond // between two dials of one server, doubled by each round that failed
)

// dialError is why one server could not be reached.
type dialError struct {
	server string
	err    error
}

func (e *dialError) Error() string { return fmt.Sprintf("%s: %v", e.server, e.err) }
func (e *dialError) Unwrap() error { return e.err }

// dialer makes the connections of one session: it is the library's HostProvider and its Dialer. The library asks
// for the next server, then dials it, all from one goroutine; quit and abort come from others.
type dialer struct {
	servers []string
	tls     *tls.Config
	greeter greeter
	hooks   hooks
	asked   timing
	lookup  func(ctx context.Context, host string) ([]string, error)

	ctx   context.Context // ends with abort; the library's Dialer has none to give
	abort context.CancelFunc

	mu sync.Mutex

	next    int // index of the server to give out next
	failed  int // dials since the last good handshake
	turn    map[string]int
	last    map[string]time.Time
	link    *link // the last connection, nil before the first
	session int64 // id of the one session this dialer serves, 0 before the first
	closing bool
	over    bool // the session has expired
}

func newDialer(cfg ZooKeeperConfig, h hooks) *dialer {
	d := &dialer{
		servers: cfg.Servers,
		tls:     cfg.TLS,
		hooks:   h,
		asked:   timing(cfg.Session),
		lookup:  net.DefaultResolver.LookupHost,
		next:    rand.IntN(len(cfg.Servers)), // spreads the instances over the servers
		turn:    make(map[string]int),
		last:    make(map[string]time.Time),
	}
	d.ctx, d.abort = context.WithCancel(context.Background())
	d.greeter = greeter{username: cfg.Username, password: cfg.Password, accept: d.accept}
	return d
}

// Init ignores what the library made of the addresses: names stay names until they are dialled.
func (d *dialer) Init([]string) error { return nil }

// Len is the number of servers.
func (d *dialer) Len() int { return len(d.servers) }

// Next gives the servers out in turn. The library waits a second where the second value is true, and
// looks only there whether it has been closed.
func (d *dialer) Next() (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	server := d.servers[d.next]
	d.next = (d.next + 1) % len(d.servers)
	return server, d.closing || d.over
}

// Connected is called after a good handshake.
func (d *dialer) Connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = 0
}

// dial connects to one server: name, TCP, TLS; the ZooKeeper handshake follows in the connection's first Read,
// under the same deadline.
func (d *dialer) dial(_, server string, _ time.Duration) (net.Conn, error) {
	conn, err := d.connect(server)
	if err != nil {
		err = &dialError{server, err}
		d.tell(err)
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
	conn, err := d.secure(ctx, raw, host)
	if err == nil {
		err = conn.SetDeadline(deadline)
	}
	l := &link{Conn: conn, raw: raw, greeter: d.greeter, failed: func(err error) { d.tell(&dialError{server, err}) }}
	if err == nil {
		err = d.adopt(l)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return l, nil
}

// secure puts TLS on the connection where it is asked for.
func (d *dialer) secure(ctx context.Context, raw net.Conn, host string) (net.Conn, error) {
	if d.tls == nil {
		return raw, nil
	}
	cfg := d.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return conn, nil
}

// tell reports a failure, unless it is this side that ended the connection.
func (d *dialer) tell(err error) {
	if d.ctx.Err() == nil {
		d.hooks.failed(err)
	}
}

// adopt makes quit and cut reach the connection.
func (d *dialer) adopt(l *link) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ctx.Err(); err != nil {
		return err
	}
	d.link = l
	return nil
}

// waitTurn keeps a server that refuses, or drops every connection, from being dialled in a tight loop.
func (d *dialer) waitTurn(server string) error {
	d.mu.Lock()
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

// resolve looks a name up now, and takes its addresses in turn, so that one that does not answer is passed by.
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

// accept judges the server's part of the handshake: a dialer serves one session only.
func (d *dialer) accept(session int64, granted time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if session == 0 {
		d.over = true // the library tells the hooks
		return nil
	}
	if d.over || d.session != 0 && d.session != session {
		d.over = true
		d.hooks.state(zk.StateExpired)
		return fmt.Errorf("%w: the server gave another one", errExpired)
	}
	d.session = session
	d.hooks.granted(granted)
	return nil
}

// quit lets a live connection say goodbye, and ends everything else: a dial, a wait, a handshake.
func (d *dialer) quit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	if d.link == nil || !d.link.greeted.Load() {
		d.stop()
	}
}

// cut ends everything.
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
