package lab_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestProxy_PassesBothWays(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, echo(t).addr)
	c := connect(t, p.Addr)
	c.say("one")
	c.hear("one")
	if got := p.Conns(); got != 1 {
		t.Errorf("Conns: got %d, want 1", got)
	}
}

func TestProxy_DeliversALongReplyAfterTheClientHasClosedItsSide(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, echo(t).addr)
	c := connect(t, p.Addr)
	text := strings.Repeat("x", 256<<10) // more than the client's window, less than the buffers on the way
	c.say(text)
	if err := c.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error { // until the proxy is done with it
		if n := p.Conns(); n != 0 {
			return fmt.Errorf("%d connections are still open", n)
		}
		return nil
	})
	c.hear(text)
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the reply: got %v, want EOF", err)
	}
}

func TestProxy_StallHoldsEverythingAndHealDeliversIt(t *testing.T) {
	t.Parallel()
	server := echo(t)
	p := lab.NewProxy(t, server.addr)
	before := connect(t, p.Addr)
	before.say("one")
	before.hear("one")

	p.Stall()
	before.say("two")
	during := connect(t, p.Addr)
	during.say("three")
	before.silent()
	during.silent()
	if got := server.heard(); strings.Contains(got, "two") || strings.Contains(got, "three") {
		t.Errorf("the server heard %q during the stall", got)
	}

	p.Heal()
	before.hear("two")
	during.hear("three")
}

func TestProxy_StallHoldsTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	server := echo(t)
	p := lab.NewProxy(t, server.addr)
	orderly, abrupt := connect(t, p.Addr), connect(t, p.Addr)
	for _, c := range []*peer{orderly, abrupt} {
		c.say("one")
		c.hear("one")
	}
	p.Stall()
	orderly.conn.Close()
	_ = abrupt.conn.SetLinger(0)
	abrupt.conn.Close()
	server.stays(2)
	p.Heal()
	lab.Eventually(t, soon, func() error { return server.has(0) })
}

func TestProxy_StallHoldsBackAWriteThatIsUnderWay(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, deaf(t))
	c := connect(t, p.Addr)
	var sent atomic.Int64
	var writer sync.WaitGroup
	writer.Go(func() {
		for chunk := make([]byte, 64<<10); ; {
			n, err := c.conn.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { c.conn.Close(); writer.Wait() })
	last, since := int64(0), time.Now()
	lab.Eventually(t, soon, func() error { // until every buffer on the way is full
		if now := sent.Load(); now == 0 || now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("the client still writes, %d bytes so far", last)
		}
		return nil
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Stall()
		p.StallReplies()
		p.Heal()
	}()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatal("Stall waits for a server that does not read")
	}
}

func TestProxy_StallRepliesLetsRequestsPass(t *testing.T) {
	t.Parallel()
	server := echo(t)
	p := lab.NewProxy(t, server.addr)
	c := connect(t, p.Addr)
	p.StallReplies()
	c.say("two")
	server.waitHeard("two")
	c.silent()
	p.Heal()
	c.hear("two")
}

func TestProxy_CutAfterStallRepliesLosesTheReplyForGood(t *testing.T) {
	t.Parallel()
	server := echo(t)
	p := lab.NewProxy(t, server.addr)
	c := connect(t, p.Addr)
	p.StallReplies()
	c.say("two")
	server.waitHeard("two")
	p.Cut()
	if b, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Cut: got byte %q and %v, want a reset", b, err)
	}
	p.Heal()
	c = connect(t, p.Addr)
	c.say("three")
	c.hear("three")
}

func TestProxy_CutRefusesUntilHealed(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, echo(t).addr)
	open := connect(t, p.Addr)
	open.say("one")
	open.hear("one")
	p.Cut()
	if _, err := open.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection: got %v, want a reset", err)
	}
	if conn, err := net.Dial("tcp4", p.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: got %v and %v, want refused", conn, err)
	}
	p.Stall()
	held := connect(t, p.Addr)
	held.say("two")
	held.silent()
	p.Heal()
	held.hear("two")
}

func TestProxy_DelayIsAddedToEachDirectionAndDoesNotAddUp(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, echo(t).addr)
	c := connect(t, p.Addr)
	c.say("0")
	c.hear("0")
	const d, requests = 200 * time.Millisecond, 40
	p.Delay(d)
	begin := time.Now()
	pace := time.NewTicker(2 * time.Millisecond) // so that the proxy sees them one by one
	defer pace.Stop()
	for range requests {
		c.say("x")
		<-pace.C
	}
	c.hear("x")
	if got := time.Since(begin); got < 2*d {
		t.Errorf("a round trip took %s, want at least %s", got, 2*d)
	}
	c.hear(strings.Repeat("x", requests-1))
	if got := time.Since(begin); got > requests*d/2 {
		t.Errorf("%d requests at once took %s: the delays add up", requests, got)
	}
}

func TestProxy_ModesChangeUnderLoadWithoutLosingAByte(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, echo(t).addr)
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		c := connect(t, p.Addr)
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				line := fmt.Sprintf("line %d\n", n)
				if _, err := io.WriteString(c.conn, line); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				if got, err := c.r.ReadString('\n'); got != line {
					t.Errorf("read: got %q and %v, want %q", got, err, line)
					return
				}
			}
		})
	}
	for range 200 {
		p.Stall()
		p.StallReplies()
		p.Heal()
	}
	close(stop)
	clients.Wait()
}

// When a server resets a connection, what the client has sent is on its way: it ends as well.
func TestProxy_EndsAConnectionThatItsServerResets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	server.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 1<<20))
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); server.Wait() })
	p := lab.NewProxy(t, l.Addr().String())
	for range 10 {
		conn, err := net.Dial("tcp4", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = conn.Write(make([]byte, 32<<10))
		}
		_ = conn.Close()
	}
	lab.Eventually(t, soon, func() error {
		if n := p.Conns(); n != 0 {
			return fmt.Errorf("%d connections are still open", n)
		}
		return nil
	})
}

func TestProxy_ClosesAConnectionWhoseServerIsDown(t *testing.T) {
	t.Parallel()
	p := lab.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t)))
	conn, err := net.Dial("tcp4", p.Addr)
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(soon))
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the end of the connection", err)
	}
}

// Not parallel: no other test has a proxy meanwhile.
func TestProxy_LeavesNoGoroutineInAnyMode(t *testing.T) {
	for name, mode := range map[string]func(p *lab.Proxy){
		"healed":        (*lab.Proxy).Heal,
		"stalled":       (*lab.Proxy).Stall,
		"replies stall": (*lab.Proxy).StallReplies,
		"cut":           (*lab.Proxy).Cut,
		"delayed":       func(p *lab.Proxy) { p.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			p := lab.NewProxy(t, echo(t).addr)
			c := connect(t, p.Addr)
			c.say("one")
			c.hear("one")
			mode(p)
			if name != "cut" {
				c.say("two")
				connect(t, p.Addr).say("three")
			}
		})
	}
	lab.Eventually(t, soon, func() error {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, word := range []string{"lab.(*Proxy)", "lab.(*link)"} {
			if bytes.Contains(stacks, []byte(word)) {
				return fmt.Errorf("goroutines with %s are left:\n%s", word, stacks)
			}
		}
		return nil
	})
}
