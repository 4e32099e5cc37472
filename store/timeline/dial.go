package timeline

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// DialConfig describes how to reach Redis.
type DialConfig struct {
	// Addrs is one address for a single server, several for a Cluster, or the Sentinels if Master names the group they
	// watch.
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

// silent discards go-redis's own log, which it writes to standard error: some dozen lines a second while Redis is away,
// in the middle of tarry's log. Failures also reach tarry as errors, and those are logged.
type silent struct{}

// Printf prints nothing.
func (silent) Printf(context.Context, string, ...any) {}

// Client is a connection to Redis.
type Client = redis.UniversalClient

// Dial makes a client, which connects on first use. go-redis retries nothing by itself: only the caller knows what may
// be repeated (a lost reply would run a script twice). Reads never go to a replica, whose data may be older than the
// term.
func Dial(cfg DialConfig) Client {
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

// renewing is a client whose connections can all be closed, so that new ones follow its address to the current server.
type renewing struct {
	redis.UniversalClient
	conns *connections
}

func (r *renewing) renew() { r.conns.closeAll() }

// connections tracks the open connections of a client.
type connections struct {
	mu      sync.Mutex
	open    map[net.Conn]struct{}
	renewed time.Time
	again   bool // renew once more after the pause
}

// renewPause is the least time between two renewals: an address that leads to two servers by turns must not keep its
// clients from working.
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
		if tcp, plain := conn.(*net.TCPConn); plain { // go-redis checks idle connections of this type
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
			time.AfterFunc(wait, func() { // at most one timer, and a short one
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

// Close closes the connection and stops tracking it.
func (c *tcpConn) Close() error {
	c.among.forget(c.TCPConn)
	return c.TCPConn.Close()
}

type otherConn struct {
	net.Conn
	among *connections
}

// Close closes the connection and stops tracking it.
func (c *otherConn) Close() error {
	c.among.forget(c.Conn)
	return c.Conn.Close()
}

// follower keeps a client of a Redis Cluster with the nodes that serve its slots.
//
// By default, go-redis sends a command again after a broken connection, without knowing whether it ran. So its own
// redirects are off here (MaxRedirects -1). It would also use a dead master for up to a minute, since it reloads the
// map of slots only when a live node redirects it. The rules here:
//
//	MOVED, ASK                      the command did not run: it is sent to the node named, at once
//	TRYAGAIN, LOADING, CLUSTERDOWN  the command did not run: the caller may retry
//	READONLY, MASTERDOWN            likewise
//	a dial that fails               likewise
//	silence, a broken connection    it may have run: the caller decides what may be repeated
//
// After each of these the map of slots is reloaded, at most once a second.
type follower struct {
	client *redis.ClusterClient

	mu    sync.Mutex
	asked time.Time                // when the slots were last reloaded
	nodes map[string]*redis.Client // by address
}

const (
	// followLimit is how often one command may be redirected: it must not circle between nodes that disagree.
	followLimit = 3
	// slotsPause is the least time between two reloads of the slots.
	slotsPause = time.Second
)

// follow makes a client of a Redis Cluster.
func follow(options *redis.ClusterOptions) *redis.ClusterClient {
	options.MaxRedirects = -1
	options.DialerRetries = 1             // the caller retries, and by then the slots may have moved
	options.DisableRoutingPolicies = true // none of our commands spans several nodes
	f := &follower{client: redis.NewClusterClient(options), nodes: map[string]*redis.Client{}}
	f.client.OnNewNode(func(node *redis.Client) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.nodes[node.Options().Addr] = node
	})
	f.client.AddHook(f)
	return f.client
}

// clusterOf returns the Redis Cluster client that Dial made, or nil if rdb is a client of one server.
func clusterOf(rdb redis.UniversalClient) *redis.ClusterClient {
	if r, is := rdb.(*renewing); is {
		rdb = r.UniversalClient
	}
	cluster, _ := rdb.(*redis.ClusterClient)
	return cluster
}

// DialHook returns next unchanged.
func (f *follower) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command to the node that serves its slot.
func (f *follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.led(ctx, cmd, next(ctx, cmd))
	}
}

// ProcessPipelineHook does the same for each command of a pipeline.
func (f *follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			return nil
		}
		err = nil
		for _, cmd := range cmds {
			if failed := f.led(ctx, cmd, cmd.Err()); err == nil {
				err = failed
			}
		}
		return err
	}
}

// led sends a command on while its answer redirects it, and returns its error.
func (f *follower) led(ctx context.Context, cmd redis.Cmder, err error) error {
	for range followLimit {
		node, asking := f.leads(err)
		if node == nil {
			break
		}
		cmd.SetErr(nil)
		if asking {
			pipe := node.Pipeline()
			pipe.Do(ctx, "asking")
			_ = pipe.Process(ctx, cmd) // only queues it
			_, err = pipe.Exec(ctx)
		} else {
			err = node.Process(ctx, cmd)
		}
	}
	f.heed(err)
	return err
}

// leads returns the node that an answer redirects a command to, or nil. go-redis made a client of that node when it
// read the answer.
func (f *follower) leads(answer error) (node *redis.Client, asking bool) {
	addr, moved := redis.IsMovedError(answer)
	if !moved {
		if addr, asking = redis.IsAskError(answer); !asking {
			return nil, false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[addr], asking
}

// heed starts to reload the slots, without waiting, if an error may mean that another node serves them now.
func (f *follower) heed(err error) {
	if err == nil || !mayHaveMoved(err) {
		return
	}
	f.mu.Lock()
	due := time.Since(f.asked) >= slotsPause
	if due {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if due {
		f.client.ReloadState(context.Background())
	}
}

// mayHaveMoved reports whether an error may mean that another node serves the slots.
func mayHaveMoved(err error) bool {
	if answer := redis.Error(nil); !errors.As(err, &answer) {
		return !errors.Is(err, redis.ErrClosed) && !errors.Is(err, context.Canceled)
	}
	return redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) ||
		redis.IsTryAgainError(err) || redis.IsLoadingError(err)
}
