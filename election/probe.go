package election

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// Probe is a read-only session, opened in the same way as an election's. A check made with it meets the same conditions
// as the election.
type Probe struct{ session *session }

// OpenProbe opens a session on the servers that cfg names. If it fails, it returns the reason once it has tried each
// address of each server.
func OpenProbe(ctx context.Context, cfg NodeConfig) (*Probe, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	news := make(chan struct{}, 1)
	var failures atomic.Int64
	open := func(h hooks) (client, error) {
		failed := h.failed
		h.failed = func(err error) {
			failures.Add(1)
			failed(err)
		}
		return realOpener(cfg, zerolog.Nop())(h)
	}
	s, err := openSession(open, timing(cfg.Session), maxOutstanding, func() { raise(news) })
	if err != nil {
		return nil, err
	}
	p := &Probe{s}
	tried := func() bool { return failures.Load() >= int64(addresses(ctx, cfg.Servers)) }
	if err := p.connected(ctx, news, tried); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// addresses counts the addresses that the servers' names resolve to.
func addresses(ctx context.Context, servers []string) int {
	n := 0
	for _, server := range servers {
		host, _, _ := net.SplitHostPort(server)
		found, _ := net.DefaultResolver.LookupHost(ctx, host) // a name without addresses fails once
		n += max(len(found), 1)
	}
	return n
}

// connected waits until the session is established, is over, or has been tried at every address.
func (p *Probe) connected(ctx context.Context, news <-chan struct{}, tried func() bool) error {
	for !p.session.up() {
		select {
		case <-news:
			if err := p.session.trouble(); err != errNotUp && (p.session.reason() != nil || tried()) {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", p.session.trouble(), context.Cause(ctx))
		}
	}
	return nil
}

// Granted returns the session time-out that the server granted.
func (p *Probe) Granted() time.Duration { return p.session.timing().session() }

// Get returns the content of a znode.
func (p *Probe) Get(ctx context.Context, path string) ([]byte, error) {
	n, err := p.session.get(ctx, path)
	return n.data, err
}

// Children returns the names of a znode's children.
func (p *Probe) Children(ctx context.Context, path string) ([]string, error) {
	return p.session.children(ctx, path)
}

// ACL returns a znode's access control list.
func (p *Probe) ACL(ctx context.Context, path string) ([]zk.ACL, error) {
	return call(ctx, p.session, p.session.timing().call(), func(c client) ([]zk.ACL, error) {
		acl, _, err := c.(*connection).GetACL(path)
		return acl, wrap("read the ACL of "+path, err)
	})
}

// Close ends the session at the server.
func (p *Probe) Close() { p.session.close() }
