package election

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// peerSession is long, so that a takeover within a part of it is not an expiry.
const peerSession = 9 * time.Second

// gate stands between an instance's peer port and the others.
type gate struct {
	t        *testing.T
	listener net.Listener
	to       string

	mu    sync.Mutex
	open  map[net.Conn]bool
	serve func(net.Conn) // in place of the instance; nil for the instance itself
	made  int            // connections that were let through
}

func (g *gate) links() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, listener: l, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); g.cut(func(net.Conn) {}) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(conn)
		}
	}()
	return g
}

func (g *gate) pass(conn net.Conn) {
	defer conn.Close()
	g.mu.Lock()
	g.open[conn] = true
	serve := g.serve
	if serve == nil {
		g.made++
	}
	g.mu.Unlock()
	if serve != nil {
		serve(conn)
		return
	}
	behind, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer behind.Close()
	go func() {
		_, _ = io.Copy(behind, conn)
		_ = behind.Close()
	}()
	_, _ = io.Copy(conn, behind)
}

// cut ends what is open; from now on serve answers, or the instance if it is nil.
func (g *gate) cut(serve func(net.Conn)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serve = serve
	for conn := range g.open {
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // RST
		}
		_ = conn.Close()
	}
	clear(g.open)
}

// linked is an instance with a peer port behind a gate.
func linked(t *testing.T, c *court, ns, name string, change ...func(*setup)) (*instance, *gate) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, l.Addr().String())
	zk := lab.SharedZooKeeper(t).Addr
	i := real(t, c, ns, name, []string{zk}, append([]func(*setup){func(cfg *setup) {
		cfg.Session = peerSession
		cfg.Peers = &PeerConfig{Listener: l, Address: g.listener.Addr().String()}
	}}, change...)...)
	return i.run(t), g
}

// value reads a counter.
func value(c prometheus.Counter) float64 {
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		panic(err) // a counter alone is consistent
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// awaitLink waits until the instance's member znode says that its link stands.
func awaitLink(t *testing.T, i *instance) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		members, err := i.Members(t.Context())
		for _, m := range members {
			if m.Instance == i.name && m.Linked {
				return nil
			}
		}
		return fmt.Errorf("%s is not linked: %+v, %v", i.name, members, err)
	})
}

// A leader whose link is cut and who does not answer is replaced long before its session expires, whatever answers in
// its place. It is alive here: so it does not stand again for 2·S and until it was reached, and its deposer's links are
// not trusted for a while.
func TestPeer_OneThatDoesNotAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	for what, serve := range map[string]func(net.Conn){
		"refused": func(net.Conn) {},
		"silent":  func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"another life": func(conn net.Conn) {
			_, _ = io.WriteString(conn, `{"instance":"a","incarnation":"x","term":1}`+"\n")
		},
		"garbage": func(conn net.Conn) { _, _ = io.WriteString(conn, strings.Repeat("garbage", 1000)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, ns := &court{}, rand.Text()
			a, gate := linked(t, c, ns, "a")
			awaitLeader(t, c, 0)
			b, _ := linked(t, c, ns, "b")
			awaitLink(t, b)
			cut := time.Now()
			gate.cut(serve)
			second := awaitLeader(t, c, 1)
			if second.instance != "b" || second.began.Sub(cut) > peerSession/3 {
				t.Fatalf("%s leads after %s", second.instance, second.began.Sub(cut))
			}
			if n := value(b.metrics.deposed); n != 1 {
				t.Errorf("%g takeovers", n)
			}
			lab.Eventually(t, patience, func() error { // its next renewal
				if first := c.all()[0]; first.ended.IsZero() || !errors.Is(first.cause, ErrLost) {
					return fmt.Errorf("the first still leads: %+v", first)
				}
				return nil
			})
			if err := b.Resign(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
			if s := a.State(); s.Role == Leading {
				t.Error("the one that was deposed leads at once")
			}
		})
	}
}

// A link that ends although the leader lives and answers, and one that ends with a goodbye, depose nobody.
func TestPeer_ALivingLeaderStays(t *testing.T) {
	t.Parallel()
	c, ns := &court{}, rand.Text()
	a, gate := linked(t, c, ns, "a")
	first := awaitLeader(t, c, 0)
	b, _ := linked(t, c, ns, "b")
	for cuts := range 5 {
		// Not what its znode still says of the link before: one that is cut while it is made is that of a dead leader.
		lab.Eventually(t, patience, func() error {
			if links := gate.links(); links <= cuts || !b.peers.linkStands() {
				return fmt.Errorf("%d links after %d cuts", links, cuts)
			}
			return nil
		})
		awaitLink(t, b)
		gate.cut(nil)
	}
	awaitLink(t, b)
	if first.ctx.Err() != nil || value(b.metrics.deposed) != 0 {
		t.Fatalf("deposed: %v", first.ctx.Err())
	}
	if err := a.Resign(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if second := awaitLeader(t, c, 1); second.instance != "b" || value(b.metrics.deposed) != 0 {
		t.Errorf("%s leads, with %g takeovers", second.instance, value(b.metrics.deposed))
	}
	awaitLink(t, a)
}

// A killed instance's link may end before its port is closed, by much where its process gets no processor.
func TestPeer_BuriesAnInstanceWhosePortIsAboutToClose(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 2 * answerWithin} {
		t.Run(after.String(), func(t *testing.T) { t.Parallel(); buriesAfter(t, after) })
	}
}

func buriesAfter(t *testing.T, after time.Duration) {
	c, ns := &court{}, rand.Text()
	a, _ := linked(t, c, ns, "a")
	awaitLeader(t, c, 0)
	b, gate := linked(t, c, ns, "b")
	awaitLink(t, b)
	of := hello{Instance: "b", Incarnation: b.incarnation}
	_, before, err := a.registered(t.Context(), "b")
	if err != nil || before == 0 {
		t.Fatalf("version %d, %v", before, err)
	}
	a.peers.bury(t.Context(), of)
	if _, version, err := a.registered(t.Context(), "b"); err != nil || version < before {
		t.Fatalf("it lives, and has version %d after %d, %v", version, before, err)
	}
	gate.cut(func(net.Conn) {
		<-time.After(after)
		_ = gate.listener.Close()
	})
	a.peers.bury(t.Context(), of)
	if _, version, err := a.registered(t.Context(), "b"); err == nil && version >= before {
		t.Errorf("its registration stands, with version %d after %d", version, before)
	}
}

// Strangers get no answer, and change nothing.
func TestPeer_RefusesStrangers(t *testing.T) {
	t.Parallel()
	c, ns := &court{}, rand.Text()
	a, _ := linked(t, c, ns, "a")
	first := awaitLeader(t, c, 0)
	b, _ := linked(t, c, ns, "b")
	awaitLink(t, b)
	before := value(a.peers.refused)
	me := func(change func(*hello)) string {
		h := hello{Instance: "b", Incarnation: b.incarnation, Leader: a.incarnation, Term: first.term}
		change(&h)
		line, err := encode(h)
		if err != nil {
			t.Fatal(err)
		}
		return string(line) + "\n"
	}
	frames := map[string]string{
		"garbage": "GET / HTTP/1.1\r\n\r\n", "half": `{"instance":"b"`, "nothing": "", "long": strings.Repeat("x", 4096),
		"an old life":          me(func(h *hello) { h.Incarnation = "old" }),
		"nobody":               me(func(h *hello) { h.Instance = "nobody" }),
		"a path":               me(func(h *hello) { h.Instance = "../leader" }),
		"another term":         me(func(h *hello) { h.Term++ }),
		"another leader":       me(func(h *hello) { h.Leader = b.incarnation }),
		"a probe of a standby": me(func(h *hello) { h.Probe = true }),
	}
	for what, frame := range frames {
		conn, err := net.Dial("tcp", a.peers.cfg.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(peerSession))
		_, _ = io.WriteString(conn, frame)
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil || line != "" {
			t.Errorf("%s: answered with %q, %v", what, line, err)
		}
		_ = conn.Close()
	}
	var crowd []net.Conn
	for range 1000 {
		conn, err := net.Dial("tcp", a.peers.cfg.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, conn)
	}
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := elsewhere.Dial("tcp", a.peers.cfg.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(peerSession))
	_, _ = io.WriteString(conn, me(func(*hello) {}))
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Errorf("an instance at another address is not answered: %v", err)
	}
	lab.Eventually(t, patience, func() error {
		if n := value(a.peers.refused) - before; n < float64(len(frames)+1000) {
			return fmt.Errorf("%g are refused", n)
		}
		return nil
	})
	for _, conn := range crowd {
		_ = conn.Close()
	}
	awaitLink(t, b)
	if first.ctx.Err() != nil {
		t.Error("the leader fell")
	}
}

// One that was deposed while it lived leads again once it was reached by the others, and not before.
func TestPeer_OneThatWasDeposedProvesItself(t *testing.T) {
	t.Parallel()
	short := func(cfg *setup) { cfg.Session = 2 * time.Second }
	c, ns := &court{}, rand.Text()
	a, gate := linked(t, c, ns, "a", short)
	awaitLeader(t, c, 0)
	b, _ := linked(t, c, ns, "b", short)
	awaitLink(t, b)
	gate.cut(func(net.Conn) {}) // nobody reaches a
	if second := awaitLeader(t, c, 1); second.instance != "b" {
		t.Fatalf("%s leads", second.instance)
	}
	until := time.Now().Add(3 * 2 * time.Second)
	lab.Eventually(t, patience, func() error { // the links of the one that deposed it are not trusted
		b.Node.mu.Lock()
		defer b.Node.mu.Unlock()
		if !b.barred.After(time.Now()) {
			return errors.New("b may depose again")
		}
		return nil
	})
	if err := b.Resign(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, patience, func() error {
		if time.Now().Before(until) {
			return errors.New("not yet")
		}
		return nil
	})
	if s := a.State(); s.Role == Leading {
		t.Fatal("one whom nobody reaches leads again")
	}
	awaitLeader(t, c, 2) // b again
	gate.cut(nil)
	lab.Eventually(t, patience, func() error {
		if !a.peers.provedSince(time.Now().Add(-time.Minute)) {
			return errors.New("nobody has reached it")
		}
		return nil
	})
	if err := b.Resign(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if r := awaitLeader(t, c, 3); r.instance != "a" {
		t.Errorf("%s leads", r.instance)
	}
}

// Two of which each was deposed while it lived do not wait for each other: if nobody leads for 2·S, nobody could do
// better. Nor does one whose peers cannot be read.
func TestPeer_NobodyWaitsForProofForever(t *testing.T) {
	t.Parallel()
	short := func(cfg *setup) { cfg.Session = 2 * time.Second }
	c, ns := &court{}, rand.Text()
	a, _ := linked(t, c, ns, "a", short)
	awaitLeader(t, c, 0)
	b, _ := linked(t, c, ns, "b", short)
	awaitLink(t, b)
	for _, i := range []*instance{a, b} {
		i.owe(time.Now())
	}
	resigned := time.Now()
	if err := a.Resign(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if next := awaitLeader(t, c, 1); next.began.Sub(resigned) < 2*2*time.Second {
		t.Errorf("%s leads after %s, without a proof", next.instance, next.began.Sub(resigned))
	}
}

func TestIsDead_TellsTheLeadersFailuresFromItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		dead bool
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, true},
		{fmt.Errorf("hello: %w", os.ErrDeadlineExceeded), true},
		{fmt.Errorf("hello: %w", io.EOF), true},
		{fmt.Errorf("hello: %w", errOtherLife), true},
		{fmt.Errorf("hello: %w", json.Unmarshal([]byte("x"), new(hello))), true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, false},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, false},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, false},
		{&net.DNSError{Err: "no such host", Name: "leader", IsNotFound: true}, false},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false},
		{context.Canceled, false},
	} {
		if got := isDead(c.err); got != c.dead {
			t.Errorf("%v: %t, want %t", c.err, got, c.dead)
		}
	}
}
