package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisCluster is a Redis Cluster for one test. Its masters hold even shares of the slots, in their order. The other
// nodes are replicas, first all of the first master, then of the next. If a master without a replica ends, its slots
// are unavailable, and the other masters continue (cluster-require-full-coverage no).
type RedisCluster struct {
	Nodes   []*Redis // the masters first
	masters int

	t testing.TB
}

// RedisClusterOption changes how NewRedisCluster starts it.
type RedisClusterOption func(*redisClusterSetup)

type redisClusterSetup struct {
	replicas int
	timeout  time.Duration
	announce []*Proxy
}

// RedisReplicas sets the number of replicas of each master.
func RedisReplicas(n int) RedisClusterOption { return func(s *redisClusterSetup) { s.replicas = n } }

// RedisNodeTimeout is how long a node must be silent to count as failed; a promotion takes about twice that. The
// default is 1 s.
func RedisNodeTimeout(d time.Duration) RedisClusterOption {
	return func(s *redisClusterSetup) { s.timeout = d }
}

// RedisAnnounce puts proxies before the nodes, in their order: a node announces its proxy's port as its own.
func RedisAnnounce(proxies ...*Proxy) RedisClusterOption {
	return func(s *redisClusterSetup) { s.announce = proxies }
}

const redisSlots = 16384

// NewRedisCluster starts a cluster with one or more masters, and returns when all slots are served and every replica
// has its master's data.
func NewRedisCluster(t testing.TB, masters int, options ...RedisClusterOption) *RedisCluster {
	t.Helper()
	Needs(t, "redis-server")
	s := redisClusterSetup{timeout: time.Second}
	for _, o := range options {
		o(&s)
	}
	dir, n := t.TempDir(), masters*(1+s.replicas)
	nodes, err := onPorts(2*n, func(ports []port, release func()) ([]*child, error) {
		return startRedisNodes(dir, ports, release, s)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &RedisCluster{masters: masters, t: t}
	for _, node := range nodes {
		c.Nodes = append(c.Nodes, &Redis{own(t, node), node.addr})
	}
	if err := c.join(nodes); err != nil {
		t.Fatal(err)
	}
	return c
}

// Addrs lists the addresses of the nodes.
func (c *RedisCluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Owner returns the node that was started as the owner of a key's slot.
func (c *RedisCluster) Owner(key string) *Redis {
	c.t.Helper()
	var slot int
	answered := false
	for _, n := range c.Nodes {
		if text, err := redisSays(n.Addr, "CLUSTER KEYSLOT "+key); err == nil {
			if slot, err = strconv.Atoi(strings.TrimPrefix(text, ":")); err == nil {
				answered = true
				break
			}
		}
	}
	if !answered {
		c.t.Fatalf("slot of %s: no node of the cluster says", key)
	}
	return c.Nodes[slot*c.masters/redisSlots]
}

// Replica returns the first replica that was started for a master.
func (c *RedisCluster) Replica(master *Redis) *Redis {
	c.t.Helper()
	for i, n := range c.Nodes[:c.masters] {
		if n == master && len(c.Nodes) > c.masters {
			return c.Nodes[c.masters+i*(len(c.Nodes)/c.masters-1)]
		}
	}
	c.t.Fatalf("%s has no replica", master.Addr)
	return nil
}

// WaitMaster returns when a node is a master that serves slots.
func (c *RedisCluster) WaitMaster(n *Redis) {
	c.t.Helper()
	Eventually(c.t, startPatience, func() error {
		nodes, err := redisSays(n.Addr, "CLUSTER NODES")
		if err != nil {
			return err
		}
		for line := range strings.Lines(nodes) {
			if f := strings.Fields(line); len(f) > 8 && f[2] == "myself,master" {
				return nil
			}
		}
		return fmt.Errorf("%s serves no slots", n.Addr)
	})
}

func startRedisNodes(dir string, ports []port, release func(), s redisClusterSetup) (nodes []*child, err error) {
	bin, err := program("redis-server")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, c := range nodes {
			c.kill()
		}
	}()
	for i := range len(ports) / 2 {
		name := "redis-" + strconv.Itoa(i+1)
		c := &child{name: name, addr: ports[2*i].addr(), dir: filepath.Join(dir, name), bin: bin}
		if err := os.MkdirAll(c.dir, 0o755); err != nil {
			return nodes, fmt.Errorf("make the directory of %s: %w", name, err)
		}
		c.args = []string{
			"--port", strconv.Itoa(ports[2*i].number), "--cluster-port", strconv.Itoa(ports[2*i+1].number), "--bind",
			loopback, "--dir", c.dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0",
			"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(s.timeout.Milliseconds(), 10),
			"--cluster-require-full-coverage", "no", "--cluster-announce-ip", loopback,
		}
		if i < len(s.announce) {
			_, announced, _ := net.SplitHostPort(s.announce[i].Addr)
			c.args = append(c.args, "--cluster-announce-port", announced, "--cluster-announce-bus-port",
				strconv.Itoa(ports[2*i+1].number))
			s.announce[i].Retarget(c.addr)
		}
		c.ready = func() error { return redisAnswers(c.addr) }
		if i == 0 {
			c.release = release // own registers this node first, so it is stopped last
		}
		nodes = append(nodes, c)
		if err := startOn(c); err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// join makes a cluster of servers that do not know each other.
func (c *RedisCluster) join(nodes []*child) error {
	replicas := len(nodes)/c.masters - 1
	for i, n := range nodes { // before they meet: afterwards an epoch cannot be set
		if err := redisDoes(n.addr, "CLUSTER SET-CONFIG-EPOCH "+strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i >= c.masters {
			continue
		}
		first, next := ceilDiv(i*redisSlots, c.masters), ceilDiv((i+1)*redisSlots, c.masters)
		if err := redisDoes(n.addr, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", first, next-1)); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		for _, peer := range nodes {
			if peer == n {
				continue
			}
			if err := redisDoes(n.addr, "CLUSTER MEET "+loopback+" "+peer.args[1]+" "+peer.args[3]); err != nil {
				return err
			}
		}
	}
	ids := make([]string, c.masters)
	for i, n := range nodes[:c.masters] {
		var err error
		if ids[i], err = redisSays(n.addr, "CLUSTER MYID"); err != nil {
			return err
		}
	}
	for i, n := range nodes[c.masters:] {
		if err := n.awaitFor(
			func() error { return redisDoes(n.addr, "CLUSTER REPLICATE "+ids[i/replicas]) }); err != nil {
			return err
		}
	}
	for i, n := range nodes {
		if err := n.awaitFor(func() error { return c.joined(n.addr, len(nodes), i >= c.masters) }); err != nil {
			return err
		}
	}
	return nil
}

// joined returns nil when a node knows the whole cluster and, if it is a replica, has its master's data.
func (c *RedisCluster) joined(addr string, nodes int, replica bool) error {
	info, err := redisSays(addr, "CLUSTER INFO")
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(redisSlots),
		"cluster_known_nodes:" + strconv.Itoa(nodes), "cluster_size:" + strconv.Itoa(c.masters)} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("%s is not %s yet", addr, want)
		}
	}
	if list, err := redisSays(addr, "CLUSTER NODES"); err != nil || strings.Count(list, "slave ") != nodes-c.masters {
		return errors.Join(fmt.Errorf("%s does not know every replica yet", addr), err)
	}
	if replication, err := redisSays(addr, "INFO replication"); err != nil ||
		replica != strings.Contains(replication, "master_link_status:up") {
		return errors.Join(fmt.Errorf("replica %s has no data yet", addr), err)
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// redisDoes runs a command and expects the answer OK.
func redisDoes(addr, command string) error {
	text, err := redisSays(addr, command)
	if err == nil && text != "+OK" {
		err = fmt.Errorf("%s at %s: it says %q", command, addr, text)
	}
	return err
}

// redisSays runs a command and returns a line, or the text of a bulk string.
func redisSays(addr, command string) (string, error) {
	conn, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "-") {
		return "", fmt.Errorf("%s at %s: it says %q", command, addr, line)
	}
	size, bulk := strings.CutPrefix(line, "$")
	if !bulk {
		return line, nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return "", fmt.Errorf("%s at %s: it says %q", command, addr, line)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return string(text), nil
}
