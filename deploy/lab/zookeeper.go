package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ZooKeeper is one running ZooKeeper server.
type ZooKeeper struct {
	*Process
	Addr string // host:port
}

// ZooKeeperOption changes how a ZooKeeper server starts.
type ZooKeeperOption func(*zkSetup)

type zkSetup struct {
	tick  time.Duration
	extra []string
}

// ZooKeeperTick sets tickTime, 500 ms by default. A session's timeout lies between 2 and 20 ticks.
func ZooKeeperTick(d time.Duration) ZooKeeperOption { return func(s *zkSetup) { s.tick = d } }

// ZooKeeperConfig adds a line to zoo.cfg, as in ZooKeeperConfig("maxSessionTimeout=60000").
func ZooKeeperConfig(line string) ZooKeeperOption {
	return func(s *zkSetup) { s.extra = append(s.extra, line) }
}

func newZKSetup(options []ZooKeeperOption) zkSetup {
	s := zkSetup{tick: 500 * time.Millisecond}
	for _, o := range options {
		o(&s)
	}
	return s
}

// NewZooKeeper starts a ZooKeeper server for this test alone, without data.
func NewZooKeeper(t testing.TB, options ...ZooKeeperOption) *ZooKeeper {
	t.Helper()
	Needs(t, "ZooKeeper")
	c, err := startZooKeeper(t.TempDir(), newZKSetup(options))
	if err != nil {
		t.Fatal(err)
	}
	return &ZooKeeper{own(t, c), c.addr}
}

// SharedZooKeeper returns the one ZooKeeper of this test binary. Stay below your own znode, and never pause or stop it.
func SharedZooKeeper(t testing.TB) *ZooKeeper {
	t.Helper()
	Needs(t, "ZooKeeper")
	c, err := machine.zookeeper.get(func() (*child, error) {
		dir, err := machine.scratch.sub("zookeeper")
		if err != nil {
			return nil, err
		}
		return startZooKeeper(dir, newZKSetup(nil))
	})
	p := use(t, c, err)
	return &ZooKeeper{p, p.c.addr}
}

func startZooKeeper(dir string, s zkSetup) (*child, error) {
	return onPorts(1, func(ports []port, release func()) (*child, error) {
		c, err := zkChild("zookeeper", dir, ports[0], s)
		if err != nil {
			return nil, err
		}
		c.release = release
		c.ready = func() error { _, err := zkMode(c.addr); return err }
		return c, startOn(c)
	})
}

// Mode returns the mode that the server reports: standalone, leader or follower, or "" while it does not serve.
func (z *ZooKeeper) Mode() string {
	mode, err := zkMode(z.Addr)
	if err != nil {
		return ""
	}
	return mode
}

// Command sends a four-letter word, as in "mntr" or "cons", and returns the answer.
func (z *ZooKeeper) Command(word string) (string, error) { return zkCommand(z.Addr, word) }

// zkChild writes the configuration and builds the command. Debian's zookeeper.jar names the jars it needs in its
// manifest; only the logger must be added. A small heap and only the quick compiler halve the start time. With
// forceSync off, a killed process loses nothing that the kernel has, and no test here cuts the power.
func zkChild(name, dir string, client port, s zkSetup) (*child, error) {
	java, err := program("java")
	if err != nil {
		return nil, err
	}
	const jars, logger = "/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"
	if err := errors.Join(file(jars), file(logger)); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, fmt.Errorf("make zookeeper's directory: %w", err)
	}
	config := filepath.Join(dir, "zoo.cfg")
	lines := append([]string{
		"dataDir=" + data,
		"clientPortAddress=" + loopback,
		"clientPort=" + strconv.Itoa(client.number),
		"tickTime=" + strconv.FormatInt(s.tick.Milliseconds(), 10),
		"initLimit=20",
		"syncLimit=10",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"preAllocSize=1024",
	}, s.extra...)
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write zookeeper's configuration: %w", err)
	}
	return &child{name: name, addr: client.addr(), dir: dir, bin: java, args: []string{
		"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", jars + ":" + logger, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
	}}, nil
}

var errNotServing = errors.New("zookeeper serves nobody yet")

// zkMode sends srvr. A member without a quorum answers, but without a mode: errNotServing.
func zkMode(addr string) (string, error) {
	text, err := zkCommand(addr, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("%w: it says %q", errNotServing, strings.TrimSpace(text))
}

func zkCommand(addr, word string) (string, error) {
	conn, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("ask zookeeper %s: %w", word, err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("ask zookeeper %s: %w", word, err)
	}
	if len(text) == 0 {
		return "", fmt.Errorf("ask zookeeper %s: no answer", word)
	}
	return string(text), nil
}
