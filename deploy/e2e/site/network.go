package site

import (
	"net"
	"strings"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Network is the proxies between one instance and everything else.
type Network struct {
	Zk, Redis, Nats, Peer *lab.Proxy
	SQL                   *lab.Proxy // nil without a journal

	host, dsn string
}

// Network makes the proxies of an instance whose peers reach it at a host of 127.0.0.0/8, which it has for itself.
func (s *Site) Network(host string) *Network {
	s.T.Helper()
	w := &Network{Zk: lab.NewProxy(s.T, s.Zk.Addr), Redis: lab.NewProxy(s.T, s.RedisAddr),
		Nats: lab.NewProxy(s.T, strings.TrimPrefix(s.Nats.URL(), "nats://")), Peer: lab.NewProxy(s.T, ""), host: host}
	w.Peer.Retarget(net.JoinHostPort(host, port(w.Peer)))
	if s.Db != nil {
		w.SQL = lab.NewProxy(s.T, s.Db.Addr)
		w.dsn = strings.Replace(s.Db.DSN(s.database), s.Db.Addr, w.SQL.Addr, 1)
	}
	return w
}

// Settings are those that lead the instance through the proxies.
func (w *Network) Settings() []string {
	settings := []string{"TARRY_ZOOKEEPER_SERVERS=" + w.Zk.Addr, "TARRY_REDIS_ADDRS=" + w.Redis.Addr,
		"TARRY_NATS_URL=nats://" + w.Nats.Addr, "TARRY_PEER_LISTEN=" + net.JoinHostPort(w.host, port(w.Peer)),
		"TARRY_PEER_ADVERTISE=127.0.0.1:7070"}
	if w.SQL != nil {
		settings = append(settings, "TARRY_JOURNAL_DSN="+w.dsn)
	}
	return settings
}

// Each does something to every proxy.
func (w *Network) Each(do func(*lab.Proxy)) {
	for _, p := range []*lab.Proxy{w.Zk, w.Redis, w.Nats, w.Peer, w.SQL} {
		if p != nil {
			do(p)
		}
	}
}

func port(p *lab.Proxy) string {
	_, port, _ := net.SplitHostPort(p.Addr)
	return port
}
