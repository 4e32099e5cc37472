package timeline

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// DialConfig says how to reach Redis.
type DialConfig struct {
	// Addrs is one address for a single server, several for Cluster, or the
	// Sentinels when Master names the group they watch.
	Addrs              []string
	Master             string
	Username, Password string
	DB                 int
	TLS                *tls.Config
	// Name is the client's name in CLIENT LIST.
	Name string
	// CallTimeout bounds one call.
	CallTimeout time.Duration
}

// silent takes what go-redis would print on standard error by itself, some
// dozen lines a second while Redis is away, in the middle of our own log. What
// matters of it comes back as errors, and those are logged.
type silent struct{}

// Printf prints nothing.
func (silent) Printf(context.Context, string, ...any) {}

// Dial makes a client; it connects when it is first used. go-redis repeats
// nothing by itself: what may be repeated, only the caller knows (a lost reply
// would run a script twice). Reads never go to a replica, which may lag behind
// the term.
func Dial(cfg DialConfig) redis.UniversalClient {
	redis.SetLogger(silent{}) // go-redis has one logger for all its clients
	open := &connections{open: map[net.Conn]struct{}{}}
	options := &redis.UniversalOptions{
		Dialer: open.dialer(redis.NewDialer(&redis.Options{DialTimeout: cfg.CallTimeout, TLSConfig: cfg.TLS})),
		Addrs:  cfg.Addrs, MasterName: cfg.Master, Username: cfg.Username, Password: cfg.Password, DB: cfg.DB,
		ClientName: cfg.Name, TLSConfig: cfg.TLS,
		MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: cfg.CallTimeout, ReadTimeout: cfg.CallTimeout, WriteTimeout: cfg.CallTimeout,
		PoolTimeout: cfg.CallTimeout,
		PoolSize:    32, MinIdleConns: 1, ConnMaxIdleTime: 5 * time.Minute,
	}
	if cfg.Master == "" && len(cfg.Addrs) > 1 {
		return &renewing{conns: open, UniversalClient: follow(options.Cluster())}
	}
	return &renewing{conns: open, UniversalClient: redis.NewUniversalClient(options)}
}

// renewing is a client whose connections can all be closed, so that it goes where
// its address leads now.
type renewing struct {
	redis.UniversalClient
	conns *connections
}

func (r *renewing) renew() { r.conns.closeAll() }

// connections are those that a client has open.
type connections struct {
	mu      sync.Mutex
	open    map[net.Conn]struct{}
	renewed time.Time
	again   bool // once more when the pause is over
}

// renewPause is between two renewals: an address that leads to two servers by
// turns must not keep its clients from working.
const renewPause = time.Second

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func (c *connections) dialer(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.open[conn] = struct{}{}
		c.mu.Unlock()
		if tcp, plain := conn.(*net.TCPConn); plain { // go-redis looks into idle ones of these
			return &tcpConn{TCPConn: tcp, among: c}, nil
		}
		return &otherConn{Conn: conn, among: c}, nil
	}
}

func (c *connections) forget(conn net.Conn) {
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
}

func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := renewPause - time.Since(c.renewed); wait > 0 {
		if !c.again {
			c.again = true
			time.AfterFunc(wait, func() { // at most one, and soon over
				c.mu.Lock()
				c.again = false
				c.mu.Unlock()
				c.closeAll()
			})
		}
		return
	}
	c.renewed = time.Now()
	for conn := range c.open {
		_ = conn.Close()
	}
	clear(c.open)
}

type tcpConn struct {
	*net.TCPConn
	among *connections
}

// Close closes it and forgets it.
func (c *tcpConn) Close() error {
	c.among.forget(c.TCPConn)
	return c.TCPConn.Close()
}

type otherConn struct {
	net.Conn
	among *connections
}

// Close closes it and forgets it.
func (c *otherConn) Close() error {
	c.among.forget(c.Conn)
	return c.Conn.Close()
}
