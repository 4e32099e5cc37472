package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestBodies_ThatArePromisedTakeNothing(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.MaxBody = 1 << 20 })
	address, _ := run(t, d)
	for range 200 {
		_, err := fmt.Fprintf(dial(t, address), "POST /v1/messages HTTP/1.1\r\nHost: a\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n ", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
	}
	lab.Eventually(t, 10*time.Second, func() error {
		if held := d.Held(); held < 200*4096 {
			return fmt.Errorf("%d bytes are held", held)
		}
		return nil
	})
	if held := d.Held(); held > 200*4096 {
		t.Errorf("200 bytes that arrived hold %d", held)
	}
	conn, body := dial(t, address), hourly("")
	if _, err := fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	read(t, r).want(t, 201, "")
}

// A body counts until its answer: what waits for a store that is slow holds it, or a copy.
func TestBodies_CountUntilTheAnswer(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 100<<10)
	for target, sent := range map[string]string{
		"POST /v1/messages":                  `{"topic":"a","id":"a","delay":"1h","body":"` + body + `"}`,
		"PATCH /v1/messages/a":               `{"body":"` + body + `"}`,
		"POST /push":                         `{"topic":"a","id":"a","delay":1000,"body":"` + body + `"}`,
		"POST /camellia/delayQueue/sendMsg":  "topic=a&msgId=a&delayMillis=1&msg=" + body,
		"POST /camellia/delayQueue/sendMsg?": "topic=a&delayMillis=1&msg=" + body,
	} {
		var d *door
		calls := 0
		look := func() {
			if calls++; d.Held() < int64(len(body)) {
				t.Errorf("%s: %d bytes are held", target, d.Held())
			}
		}
		d = open(t, with(service{steering: &steering{begun: look},
			accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
				look()
				return []scheduler.Accepted{{UID: uidA, ID: "a", Due: later, State: message.StateWaiting}}
			},
			get: func(context.Context, scheduler.Ref) (message.Info, error) {
				look()
				return message.Info{}, scheduler.ErrUnknownID
			}}))
		method, path, _ := strings.Cut(target, " ")
		if call(t, d, method, path, sent); calls == 0 || d.Held() > 0 {
			t.Errorf("%s: asked %d times, %d bytes are held afterwards", target, calls, d.Held())
		}
	}
}

func TestBodies_OfOneCallerLeaveTheOthersRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proxies []netip.Prefix
		most    int // eighths of the room that one address may take
	}{
		"an address": {nil, 2},
		"a proxy":    {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, func(cfg *api.Config) { cfg.MaxBody, cfg.Proxies = 64<<10, c.proxies })
			post := func(from string, body io.Reader) reply {
				r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/messages", body)
				r.RemoteAddr, r.ContentLength = from, -1
				w := httptest.NewRecorder()
				d.ServeHTTP(w, r)
				return read(t, w.Result())
			}
			eighth := d.MaxBodies() / 8
			begun := 0
			for ; begun < 9; begun++ { // each holds an eighth, in bodies of the maximum
				ended := make(chan reply, 8)
				before := d.Held()
				for range 8 {
					from, to := io.Pipe()
					t.Cleanup(func() { _ = to.Close() })
					go func() { _, _ = to.Write(bytes.Repeat([]byte(" "), 20<<10)) }() // until the pipe is closed
					go func() { ended <- post("10.0.0.7:1", from) }()
				}
				full := false
				lab.Eventually(t, 10*time.Second, func() error {
					select {
					case r := <-ended:
						r.want(t, 503, "busy")
						full = true
						return nil
					default:
					}
					if d.Held()-before < eighth {
						return fmt.Errorf("%d bytes are held", d.Held())
					}
					return nil
				})
				if full {
					break
				}
			}
			if begun != c.most {
				t.Errorf("it could hold %d eighths, want %d", begun, c.most)
			}
			if r := post("10.0.1.1:1", strings.NewReader(hourly(""))); (r.status == 201) != (c.most < 8) {
				t.Errorf("another address got %d %s", r.status, r.raw)
			}
		})
	}
}
