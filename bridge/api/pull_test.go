package api_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// gone is the connection of a client that does not read its answer.
type gone struct{ *httptest.ResponseRecorder }

func (gone) FlushError() error { return errors.New("broken pipe") }

// quick is the connection of a client that closes it once it has read its answer.
type quick struct {
	*httptest.ResponseRecorder
	close func()
}

func (q quick) FlushError() error {
	q.close()
	return nil
}

// A poll that waits ends with its token, or with the right that it had by it: what it had taken by then goes back.
func TestPull_EndsWithItsToken(t *testing.T) {
	t.Parallel()
	pulls := func(topics ...string) []api.Token {
		one := token("la", nil, false, false)
		one.Pull = topics
		return []api.Token{one}
	}
	for name, c := range map[string]struct {
		next   []api.Token
		status int
		gave   int64
	}{
		"it is removed":      {nil, 401, 1},
		"it loses the right": {pulls("b"), 403, 1},
		"it stays":           {append(pulls("a", "b", "c"), token("new", nil, true, false)), 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d *door
			one := info(uidA, "a", message.StateInFlight)
			p := pullers{gave: new(atomic.Int64), found: []scheduler.PulledMessage{{
				LeasedMessage: scheduler.LeasedMessage{Message: &one.Message, Until: later}, Nonce: 1}}}
			p.wait = func(ctx context.Context) {
				d.SetTokens(c.next)
				if c.gave > 0 {
					<-ctx.Done()
				}
			}
			for target, body := range map[string]string{"/v1/topics/a/pull": `{"attempt":"x","sending":1,"wait":"1m"}`,
				"/v1/pull": `{"topics":["a","c"],"wait":"1m"}`} {
				p.gave.Store(0)
				d = open(t, letting(pulls("a", "c")...), with(service{pullers: p}))
				got := call(t, d, "POST", target, body, as("la")...)
				if got.status != c.status || p.gave.Load() != c.gave {
					t.Errorf("%s: %d; %d messages were given back, want %d and %d", target, got.status, p.gave.Load(), c.status,
						c.gave)
				}
			}
		})
	}
}

// What cannot be written to a consumer is given back at once, unless a part was written and it may ask for all again.
func TestPull_GivesBackWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		with string // its connection
		gave int64
	}{
		"it reads":                   {`{}`, "", 0},
		"it has gone":                {`{}`, "gone", 1},
		"it went before":             {`{}`, "closed", 1},
		"it reads, and closes":       {`{}`, "quick", 0},
		"it may repeat the poll":     {`{"attempt":"a","sending":1}`, "gone", 0},
		"it went, and may repeat it": {`{"attempt":"a","sending":1}`, "closed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := info(uidA, "a", message.StateInFlight)
			p := pullers{gave: new(atomic.Int64), found: []scheduler.PulledMessage{{
				LeasedMessage: scheduler.LeasedMessage{Message: &one.Message, Until: later}, Nonce: 1}}}
			w := httptest.NewRecorder()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := httptest.NewRequestWithContext(ctx, "POST", "/v1/topics/a/pull", strings.NewReader(c.body))
			d := open(t, with(service{pullers: p}))
			switch c.with {
			case "gone":
				d.ServeHTTP(gone{w}, r)
			case "quick":
				d.ServeHTTP(quick{w, leave}, r)
			case "closed":
				leave()
				fallthrough
			default:
				d.ServeHTTP(w, r)
			}
			if w.Code != 200 || p.gave.Load() != c.gave {
				t.Errorf("%d %s; %d messages were given back, want %d", w.Code, w.Body, p.gave.Load(), c.gave)
			}
		})
	}
}

// The answers to polls take 512 MiB at most, those to one caller a quarter, until they are written.
func TestPull_BoundsWhatAnswersHold(t *testing.T) {
	t.Parallel()
	const quarter = 128 << 20
	var d *door
	var tokens []api.Token
	for _, name := range []string{"la", "lb", "lc", "ld", "le"} {
		one := token(name, nil, false, false)
		one.Pull = []string{"a"}
		tokens = append(tokens, one)
	}
	ask := func(name string) {
		if got := call(t, d, "POST", "/v1/topics/a/pull", `{}`, as(name)...); got.status != 200 {
			t.Errorf("%s: %d %s", name, got.status, got.raw)
		}
	}
	at := 0
	polls := []struct {
		by          string
		takes, left int
		next        []string // who asks while this one holds what it took
	}{
		{"la", quarter, 0, []string{"la", "lb"}},
		{"la", 0, 0, nil},
		{"lb", quarter + 1, -1, []string{"lc"}},
		{"lc", quarter - 1, 1, []string{"ld"}},
		{"ld", quarter, 0, []string{"le"}},
		{"le", 0, 0, nil}, // it holds nothing, and all is taken
		{"la", 0, quarter, nil},
	}
	d = open(t, letting(tokens...), with(service{pullers: pullers{polled: func(p scheduler.Poll) {
		now := polls[at]
		at++
		if left := p.Room(now.takes); left != now.left {
			t.Errorf("poll %d, by %s: %d are left, want %d", at, now.by, left, now.left)
		}
		for _, by := range now.next {
			ask(by)
		}
	}}}))
	ask("la")
	ask("la")
	if at != len(polls) {
		t.Errorf("%d polls", at)
	}
}
