package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Ensemble is a group of ZooKeeper servers that form a quorum.
//
// Restart of a node returns when the node answers at all: it cannot serve before a majority runs. WaitServing waits for
// that.
type Ensemble struct {
	Nodes []*ZooKeeper

	t testing.TB
}

// NewZooKeeperEnsemble starts n servers for this test alone and returns when one leads and the others follow.
func NewZooKeeperEnsemble(t testing.TB, n int, options ...ZooKeeperOption) *Ensemble {
	t.Helper()
	Needs(t, "ZooKeeper")
	dir := t.TempDir()
	nodes, err := onPorts(3*n, func(ports []port, release func()) ([]*child, error) {
		return startEnsemble(dir, n, ports, release, newZKSetup(options))
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &Ensemble{t: t}
	for _, c := range nodes {
		e.Nodes = append(e.Nodes, &ZooKeeper{own(t, c), c.addr})
	}
	return e
}

// Addrs lists the client addresses, as zk.Connect takes them.
func (e *Ensemble) Addrs() []string {
	var addrs []string
	for _, n := range e.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Leader returns the current leader, or nil.
func (e *Ensemble) Leader() *ZooKeeper {
	for _, n := range e.Nodes {
		if n.Running() && n.Mode() == "leader" {
			return n
		}
	}
	return nil
}

// WaitServing returns when every running node leads or follows. No node may be paused.
func (e *Ensemble) WaitServing() {
	e.t.Helper()
	Eventually(e.t, startPatience, func() error {
		var errs []error
		for _, n := range e.Nodes {
			if n.Running() {
				_, err := zkMode(n.Addr)
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// startEnsemble uses three ports for each node: for clients, for the quorum and for the election. All nodes must run
// before one can be ready. The last node to end releases the ports.
func startEnsemble(dir string, n int, ports []port, release func(), s zkSetup) (nodes []*child, err error) {
	for i := range n {
		peer := ports[n+2*i:]
		s.extra = append(s.extra, fmt.Sprintf("server.%d=%s:%d:%d", i+1, loopback, peer[0].number, peer[1].number))
	}
	for i := range n {
		name := "zookeeper-" + strconv.Itoa(i+1)
		c, err := zkChild(name, filepath.Join(dir, name), ports[i], s)
		if err != nil {
			return nil, err
		}
		id := filepath.Join(c.dir, "data", "myid")
		if err := os.WriteFile(id, []byte(strconv.Itoa(i+1)+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("name %s: %w", name, err)
		}
		c.ready = func() error {
			if _, err := zkMode(c.addr); err != nil && !errors.Is(err, errNotServing) {
				return err
			}
			return nil
		}
		nodes = append(nodes, c)
	}
	nodes[0].release = release // own registers this node first, so it is stopped last

	defer func() {
		if err == nil {
			return
		}
		for _, c := range nodes {
			c.kill()
			if c.portTaken() {
				err = fmt.Errorf("%w: %w", errPortTaken, err)
			}
		}
		_ = os.RemoveAll(dir) // its votes name ports that the next try does not have
	}()
	for _, c := range nodes {
		if err := c.launch(); err != nil {
			return nil, err
		}
	}
	for _, c := range nodes {
		if err := c.awaitFor(func() error { _, err := zkMode(c.addr); return err }); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
