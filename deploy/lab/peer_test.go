package lab_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

const (
	soon  = 20 * time.Second       // what must happen happens within it
	quiet = 150 * time.Millisecond // what must not happen has had this long
)

// echoServer sends back what it receives, and records it.
type echoServer struct {
	t    *testing.T
	addr string

	mu    sync.Mutex
	text  strings.Builder
	conns map[net.Conn]bool
}

func echo(t *testing.T) *echoServer {
	t.Helper()
	l := listen(t)
	e := &echoServer{t: t, addr: l.Addr().String(), conns: make(map[net.Conn]bool)}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns[conn] = true
			e.mu.Unlock()
			group.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		e.mu.Lock()
		for c := range e.conns {
			c.Close()
		}
		e.mu.Unlock()
		group.Wait()
	})
	return e
}

// deaf listens and never reads.
func deaf(t *testing.T) string {
	t.Helper()
	return listen(t).Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (e *echoServer) serve(conn net.Conn) {
	defer func() {
		e.mu.Lock()
		delete(e.conns, conn)
		e.mu.Unlock()
		conn.Close()
	}()
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		e.mu.Lock()
		e.text.Write(buf[:n])
		e.mu.Unlock()
		if _, werr := conn.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (e *echoServer) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

func (e *echoServer) waitHeard(want string) {
	e.t.Helper()
	lab.Eventually(e.t, soon, func() error {
		if got := e.heard(); got != want {
			return fmt.Errorf("the server heard %q, want %q", got, want)
		}
		return nil
	})
}

func (e *echoServer) has(n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := len(e.conns); got != n {
		return fmt.Errorf("the server has %d connections, want %d", got, n)
	}
	return nil
}

// stays fails the test when the number of connections changes for a while.
func (e *echoServer) stays(n int) {
	e.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(quiet); ; {
		if err := e.has(n); err != nil {
			e.t.Error(err)
			return
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// peer is a client of an echoServer.
type peer struct {
	t    *testing.T
	conn *net.TCPConn
	r    *bufio.Reader
}

func connect(t *testing.T, addr string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	return &peer{t, conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *peer) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *peer) hear(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
		c.t.Fatalf("heard %.40q and %v, want %.40q", got[:n], err, want)
	}
}

// silent fails the test when anything arrives for a while.
func (c *peer) silent() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(quiet))
	if b, err := c.r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("heard %q and %v, want nothing", b, err)
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(soon))
}
