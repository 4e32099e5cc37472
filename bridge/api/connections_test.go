package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// asks makes one request on a connection, which stays open.
func asks(conn net.Conn) error {
	if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	if err == nil && r.StatusCode != 200 {
		err = errors.New(r.Status)
	}
	return err
}

// closed reports whether the other side has closed a connection, eventuallyClosed whether it does so in time.
func closed(conn net.Conn) bool { return closedWithin(conn, 100*time.Millisecond) }

func eventuallyClosed(conn net.Conn) bool { return closedWithin(conn, 10*time.Second) }

func closedWithin(conn net.Conn, within time.Duration) bool {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}

func TestRun_ClientsThatConnectAndSayNothingKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const limit = 4
	d := open(t, func(c *api.Config) { c.Connections = limit })
	address, _ := run(t, d)
	var silent []net.Conn
	for range 3 * limit {
		conn := dial(t, address)
		silent = append(silent, conn)
		if err := asks(dial(t, address)); err != nil {
			t.Fatalf("with %d silent clients: %v", len(silent), err)
		}
	}
	open := 0
	for _, conn := range silent {
		if !closed(conn) {
			open++
		}
	}
	if open > limit {
		t.Errorf("%d connections are open", open)
	}
	if n := strings.Count(d.log.String(), "http.connections reached"); n != 1 {
		t.Errorf("%d lines of it in the log", n)
	}
}

func TestRun_WhereAllAreAtWorkTheNewConnectionIsClosed(t *testing.T) {
	t.Parallel()
	const limit = 3
	entered, leave := make(chan struct{}), make(chan struct{})
	d := open(t, func(c *api.Config) { c.Connections = limit },
		with(service{get: func(context.Context, scheduler.Ref) (message.Info, error) {
			entered <- struct{}{}
			<-leave
			return message.Info{}, nil
		}}))
	address, _ := run(t, d)
	var busy []net.Conn
	for range limit {
		conn := dial(t, address)
		if err := asks(conn); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /v1/messages/a HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
		busy = append(busy, conn)
	}
	for range 3 {
		if conn := dial(t, address); !eventuallyClosed(conn) {
			t.Error("a connection beyond the limit stays open")
		}
	}
	close(leave)
	for i, conn := range busy {
		if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("connection %d, which was at work: got %v, %v", i, r, err)
		}
	}
	eventually(t, func() error { // they wait now, so one makes room
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		return asks(conn)
	})
}

// Slow on purpose: a byte now and then, of headers or of a body. Each is cut off in time, and others are served
// meanwhile.
func TestRun_ClientsThatTrickleAreCutOffAndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	const headers, whole = time.Second, 2 * time.Second
	d := open(t, func(c *api.Config) { c.HeaderTimeout, c.ReadTimeout, c.IdleTimeout = headers, whole, headers })
	address, _ := run(t, d)
	type end struct {
		name, got string
		took      time.Duration
	}
	ends := make(chan end)
	count := 0
	for name, first := range map[string]string{
		"headers":          "GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ",
		"a body":           "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
		"the request line": "GET /li",
		"a chunked body":   "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
		"nothing":          "",
		"the next request": "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		for range 4 {
			count++
			conn := dial(t, address)
			go func() { // ends with the connection, which has a deadline
				start := time.Now()
				if _, err := io.WriteString(conn, first); err != nil {
					ends <- end{name, err.Error(), time.Since(start)}
					return
				}
				stop := make(chan struct{})
				if strings.HasSuffix(first, " ") ||
					strings.HasSuffix(first, "\n") && strings.HasPrefix(first, "POST") || name == "the request line" {
					go func() {
						tick := time.NewTicker(40 * time.Millisecond)
						defer tick.Stop()
						for {
							select {
							case <-stop:
								return
							case <-tick.C:
								_, _ = io.WriteString(conn, "x")
							}
						}
					}()
				}
				got, _ := io.ReadAll(conn)
				close(stop)
				ends <- end{name, string(got), time.Since(start)}
			}()
		}
	}
	// A connection for each request: one that is kept could be closed for being idle as the next is sent.
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	worst, left := time.Duration(0), count
	for left > 0 {
		start := time.Now()
		r, err := client.Post("http://"+address+"/v1/messages", "application/json", strings.NewReader(hourly("")))
		if err != nil || r.StatusCode != 201 {
			t.Fatalf("an honest client: got %v, %v", r, err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		worst = max(worst, time.Since(start))
		select {
		case e := <-ends:
			left--
			if e.took > whole+5*time.Second {
				t.Errorf("%s: cut off after %s", e.name, e.took)
			}
			if strings.Contains(e.name, "body") && e.got != "" && !strings.Contains(e.got, "request_timeout") {
				t.Errorf("%s: got %q", e.name, e.got)
			}
			if e.name == "the next request" && !strings.Contains(e.got, `{"live":true}`) {
				t.Errorf("%s: got %q", e.name, e.got)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	if worst > 2*time.Second {
		t.Errorf("an honest client waited %s", worst)
	}
	t.Logf("an honest client waited %s at most", worst)
}

func TestRun_HeadersAreBounded(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.HeaderLimit = 8 << 10 })
	address, _ := run(t, d)
	for size, want := range map[int]int{4 << 10: 200, 16 << 10: 431} {
		conn := dial(t, address)
		if _, err := fmt.Fprintf(
			conn, "GET /livez HTTP/1.1\r\nHost: a\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || r.StatusCode != want {
			t.Errorf("%d bytes: got %v, %v, want %d", size, r, err, want)
		}
	}
}

// Nobody who may not make a request holds a connection with it: with its body, or with what it says after the answer.
func TestRun_ThoseWhoAreRefusedKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const limit = 16
	d := open(t, func(c *api.Config) { c.Connections, c.Token = limit, "correct-horse-battery" })
	address, _ := run(t, d)
	var refused []net.Conn
	for range 3 * limit {
		conn := dial(t, address)
		refused = append(refused, conn)
		_, err := io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if err := asks(dial(t, address)); err != nil {
			t.Fatalf("with %d refused requests: %v", len(refused), err)
		}
	}
	answered := 0
	for _, conn := range refused {
		if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && r.StatusCode == 401 && r.Close {
			answered++
		}
	}
	if answered < limit/2 {
		t.Errorf("%d of %d were answered", answered, len(refused))
	}
}

// One token's polls leave connections to others, and a poll beyond its share is answered.
func TestRun_OneCallerLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	const limit, share = 16, 12
	d := open(t, func(c *api.Config) { c.Connections, c.Token = limit, "correct-horse-battery" })
	address, _ := run(t, d)
	poll := func() net.Conn {
		conn := dial(t, address)
		if _, err := io.WriteString(conn, "POST /v1/topics/a/pull HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n"+
			"Authorization: Bearer correct-horse-battery\r\n\r\n{\"wait\":\"60s\"}"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var polls [share + 2]net.Conn
	answered := make(chan int, len(polls))
	for i := range polls {
		polls[i] = poll()
		go func() { // ends with the connection, which has a deadline
			r, err := http.ReadResponse(bufio.NewReader(polls[i]), nil)
			if err == nil && r.StatusCode != 503 {
				t.Errorf("poll %d got %s", i, r.Status)
			}
			answered <- i
		}()
	}
	beyond := [2]int{<-answered, <-answered}
	if err := asks(dial(t, address)); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if len(answered) > 0 {
		t.Error("a poll within the share has ended")
	}
	for i := range polls {
		if i != beyond[0] && i != beyond[1] {
			_ = polls[i].Close()
			break
		}
	}
	eventually(t, func() error {
		conn := poll()
		if closed(conn) {
			return errors.New("the place of a poll that ended is not free")
		}
		return nil
	})
}

// Clients that read the answer once they have sent all of a body get the refusal, and not a broken connection.
func TestRun_ARefusalReachesClientsThatAreStillWriting(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.MaxBody = 64 << 10 })
	address, _ := run(t, d)
	for name, head := range map[string]string{"promised": "Content-Length: 20000000\r\n\r\n",
		"in chunks": "Transfer-Encoding: chunked\r\n\r\n1312d00\r\n"} { // 20,000,000
		conn := dial(t, address)
		if _, err := io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: a\r\n"+head); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(conn, zeros{}, 20_000_000); err != nil {
			t.Errorf("%s: sending it: %v", name, err)
		}
		if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != 413 || !r.Close {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
