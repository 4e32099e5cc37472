package api_test

import (
	"bufio"
	"bytes"
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

// run serves d on a port of its own; stop ends it and gives what Run returned.
func run(t *testing.T, d *door) (address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, listener) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("Run does not end")
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return listener.Addr().String(), stop
}

func TestRun_ServesUntilTheContextEndsAndFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	d := open(t, with(service{get: func(ctx context.Context, _ scheduler.Ref) (message.Info, error) {
		close(entered)
		<-leave
		return message.Info{}, ctx.Err()
	}}))
	address, stop := run(t, d)
	answered := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + address + "/v1/messages/a")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer r.Body.Close()
		answered <- r.Status
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	eventually(t, func() error { // the door is closed at once
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return errors.New("still listening")
		}
		return nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the answer: %v", err)
	default:
	}
	close(leave)
	if got := <-answered; got != "200 OK" {
		t.Errorf("the request under way got %s", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestRun_CutsOffWhatDoesNotEndInTime(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	d := open(t, func(c *api.Config) { c.StopTimeout = 20 * time.Millisecond }, with(service{
		get: func(ctx context.Context, _ scheduler.Ref) (message.Info, error) {
			close(entered)
			<-ctx.Done()
			close(left)
			return message.Info{}, ctx.Err()
		},
	}))
	address, stop := run(t, d)
	go func() {
		if r, err := http.Get("http://" + address + "/v1/messages/a"); err == nil {
			_ = r.Body.Close()
		}
	}()
	<-entered
	if err := stop(); err != nil {
		t.Error(err)
	}
	<-left
	if !strings.Contains(d.log.String(), "http stopped with requests under way") {
		t.Errorf("log: %s", d.log)
	}
}

func TestRun_SaysWhenItCannotServe(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := open(t).Run(t.Context(), listener); err == nil ||
		!strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestRun_DropsClientsThatAreSlowOnPurpose(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.HeaderTimeout, c.ReadTimeout = time.Second, 1500*time.Millisecond })
	address, _ := run(t, d)
	for name, c := range map[string]struct{ first, answer string }{
		"headers never end": {"GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ", ""},
		"a body never ends": {"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
			`"request_timeout"`},
		"headers too large": {"GET /livez HTTP/1.1\r\nHost: a\r\nX-Large: " + strings.Repeat("x", 64<<10) +
			"\r\n\r\n", "431"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := io.WriteString(conn, c.first); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			_, err = io.Copy(&got, conn)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("the connection stays open")
			}
			if !strings.Contains(got.String(), c.answer) {
				t.Errorf("got %q", got.String())
			}
		})
	}
}

func TestRun_KeepsAConnectionForTheNextRequest(t *testing.T) {
	t.Parallel()
	d := open(t)
	address, _ := run(t, d)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	from := bufio.NewReader(conn)
	for i, body := range []string{hourly(""), `{"bad`, `{"topic":"a.*"}`, hourly("")} {
		fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		r, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		read(t, r)
		if r.Close {
			t.Fatalf("request %d closed the connection", i)
		}
	}
}
