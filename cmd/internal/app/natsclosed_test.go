package app_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/app"
)

// A server's error that the client does not know closes the connection for good: the instance must end, so that its
// supervisor starts it again, and say why, whichever part notices first.
func TestServe_EndsWhenItsConnectionToNATSIsClosedForGood(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]time.Duration{"at rest": 300 * time.Millisecond, "at once": time.Millisecond} {
		t.Run(name, func(t *testing.T) { endsWhenClosedForGood(t, rest) })
	}
}

// endsWhenClosedForGood closes the connection once nothing has come over it for so long.
func endsWhenClosedForGood(t *testing.T, rest time.Duration) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn,
			`INFO {"server_id":"X","version":"2.15.2","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
		connected := false
		for lines := bufio.NewReader(conn); ; {
			line, err := lines.ReadString('\n')
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded): // at rest it has subscribed
				_ = conn.SetReadDeadline(time.Time{})
				_, _ = io.WriteString(conn, "-ERR 'An Error Of Tomorrow'\r\n")
				_, _ = io.Copy(io.Discard, conn)
				return
			case err != nil:
				return
			case strings.TrimSpace(line) == "PING":
				_, _ = io.WriteString(conn, "PONG\r\n")
				connected = true
			}
			if connected {
				_ = conn.SetReadDeadline(time.Now().Add(rest))
			}
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	const nowhere = "127.0.0.1:1"
	a, err := app.New(t.Context(), settings(t, "nats://"+listener.Addr().String(), nowhere, nowhere, "ns", "a"),
		app.Options{Version: "test", Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if err := a.Run(ctx); err == nil || ctx.Err() != nil ||
		!strings.Contains(strings.ToLower(err.Error()), "an error of tomorrow") {
		t.Errorf("it ended with %v", err)
	}
}
