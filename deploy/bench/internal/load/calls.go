package load

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Calls makes requests over HTTP about one message each, and takes nothing but a success for an answer.
type Calls struct {
	URL      string // of the API
	InFlight int
	// Call is the n-th request: its body is appended to to, which is empty, and none where it stays so.
	Call func(to []byte, n int) (method, path string, body []byte)
}

// Send makes the calls 0 to want-1. It stops early at the limit. Any refusal is an error.
func (c Calls) Send(ctx context.Context, want int, limit time.Duration) (Sent, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: c.InFlight, MaxConnsPerHost: c.InFlight}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 3 * patience}
	began := time.Now()
	return together(ctx, c.InFlight, want, began, func(ctx context.Context, next func() int) error {
		var x exchange
		for time.Since(began) < limit {
			n := next()
			if n >= want {
				return nil
			}
			var method, path string
			method, path, x.request = c.Call(x.request[:0], n)
			if err := x.send(ctx, client, method, c.URL+path); err != nil {
				return fmt.Errorf("call %d: %w", n, err)
			}
		}
		return nil
	})
}
