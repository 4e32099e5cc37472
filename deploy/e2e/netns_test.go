//go:build netns

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestALeaderInItsOwnNamespaces runs the leader as a container would: as process 1 of its own namespaces of processes
// and of network, with one pair of virtual interfaces. The kernel ends both with it. It needs root and iproute2, and
// may not run where namespaces are refused:
//
//	go test -count=1 -tags netns -run InItsOwnNamespaces -v ./deploy/e2e
func TestALeaderInItsOwnNamespaces(t *testing.T) {
	for i, name := range []string{"killed", "cut off both ways", "heard by nobody", "reached by nothing"} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, site.Options{Plain: *kills > 5})
			c := &container{t: t, s: s, device: fmt.Sprintf("tarry%d-%d", os.Getpid()%10000, i),
				inside: fmt.Sprintf("10.213.%d.2", i), outside: fmt.Sprintf("10.213.%d.1", i)}
			f := &fault{name: name, most: 8 * time.Second, heal: func() {
				c.heal()
				stepsDown(s, c.a, 1)
			}}
			switch name {
			case "killed": // the session would take 4 s
				f.most = 2 * time.Second
				f.do = func() { c.must(syscall.Kill(c.first(), syscall.SIGKILL)) }
				f.heal = func() { c.a.Wait(site.Patience); c.a.Restart(); c.connect(); s.Ready(c.a) }
			case "cut off both ways":
				f.do = func() { c.lose(true); c.lose(false) }
			case "heard by nobody":
				f.do = func() { c.lose(true) }
			default:
				f.do = func() { c.lose(false) }
			}
			costs(t, s, f, c.start)
		})
	}
}

// container is the namespaces of one instance.
type container struct {
	t               *testing.T
	s               *site.Site
	a               *site.Instance
	device          string // outside; inside it is eth0
	inside, outside string // addresses
}

func (c *container) start() *site.Instance {
	s := c.s
	at := func(addr string) string {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(addr, "nats://"))
		c.must(err)
		return net.JoinHostPort(c.outside, port)
	}
	script := `until ip link set eth0 up 2>/dev/null; do sleep 0.02; done
		ip link set lo up && ip address add ` + c.inside + `/24 dev eth0 && exec "$@" 2>&3`
	c.a = s.LaunchBy("a", []string{"sh", "-c", // unshare's own words are none of the log
		`exec unshare --net --pid --fork sh -c "$0" sh "$@" 3>&2 2>/dev/null`, script},
		"TARRY_HTTP_LISTEN="+c.inside+":7070", "TARRY_PEER_LISTEN="+c.inside+":7071",
		"TARRY_ZOOKEEPER_SERVERS="+at(s.Zk.Addr), "TARRY_REDIS_ADDRS="+at(s.Redis.Addr),
		"TARRY_NATS_URL=nats://"+at(s.Nats.URL()))
	c.a.Addr = c.inside + ":7070"
	c.connect()
	for _, addr := range []string{s.Zk.Addr, s.Redis.Addr, strings.TrimPrefix(s.Nats.URL(), "nats://")} {
		newPeerGate(c.t, at(addr), addr)
	}
	s.Ready(c.a)
	c.t.Cleanup(func() { c.must(syscall.Kill(c.first(), syscall.SIGTERM)) }) // unshare passes no signal on
	return c.a
}

// connect joins the namespace of the instance to the test's by a pair of interfaces.
func (c *container) connect() {
	lab.Eventually(c.t, site.Patience, func() error {
		own, err := os.Readlink("/proc/self/ns/net")
		other, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.a.Pid()))
		if err != nil || err2 != nil || own == other {
			return fmt.Errorf("no namespace yet: %v, %v", err, err2)
		}
		return nil
	})
	c.ip("link", "add", c.device, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(c.a.Pid()))
	c.ip("address", "add", c.outside+"/24", "dev", c.device)
	c.ip("link", "set", c.device, "up")
	c.t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", c.device).Run() })
}

// first returns process 1 of the namespace.
func (c *container) first() int {
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(c.a.Pid())).Output()
	c.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	c.must(err)
	return pid
}

// lose sends every packet that leaves one side to an interface that does not exist: it vanishes, and nobody is told.
func (c *container) lose(leaving bool) {
	where, to, dev := []string(nil), c.inside, c.device
	if leaving {
		where, to, dev = []string{"nsenter", "-n", "-t", strconv.Itoa(c.a.Pid())}, c.outside, "eth0"
	}
	c.run(append(where, "ip", "neighbour", "replace", to, "lladdr", "02:00:00:00:00:01", "dev", dev, "nud", "permanent"))
}

func (c *container) heal() {
	c.ip("neighbour", "flush", "dev", c.device, "nud", "permanent")
	c.run([]string{"nsenter", "-n", "-t", strconv.Itoa(c.a.Pid()), "ip", "neighbour", "flush", "dev", "eth0", "nud",
		"permanent"})
}

func (c *container) ip(args ...string) { c.run(append([]string{"ip"}, args...)) }

func (c *container) run(words []string) {
	c.t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

func (c *container) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
