package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// sized is a good push of exactly n bytes.
func sized(n int) string {
	empty := hourly(`,"body":""`)
	return hourly(`,"body":"` + strings.Repeat("x", n-len(empty)) + `"`)
}

func TestBody_AtTheLimitPassesAndAboveItDoesNot(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1000, 64 << 10, 64<<10 - 1, 200_000, 1 << 20} {
		d := open(t, func(c *api.Config) { c.MaxBody = int64(limit) })
		for _, chunked := range []bool{false, true} {
			send := func(n int) reply {
				r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/messages", strings.NewReader(sized(n)))
				if chunked {
					r.ContentLength = -1
				}
				w := httptest.NewRecorder()
				d.ServeHTTP(w, r)
				return read(t, w.Result())
			}
			send(limit-1).want(t, 201, "")
			send(limit).want(t, 201, "")
			a := send(limit+1).want(t, 413, "too_large")
			if !strings.Contains(a.detail(), "request body") || !strings.Contains(a.detail(), "limit") {
				t.Errorf("got %q", a.detail())
			}
		}
		if n := d.stored(t); n != 4 {
			t.Errorf("limit %d: %d messages wait, want 4", limit, n)
		}
	}
}

func TestBody_ArrivingInPiecesIsReadWhole(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, n := range []int{200, 64 << 10, 64<<10 + 1, 300_000} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/messages",
			iotest.HalfReader(strings.NewReader(sized(n))))
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		a := read(t, w.Result()).want(t, 201, "")
		uid, _ := a.json["uid"].(string)
		got, _ := call(t, d, "GET", "/v1/messages/"+uid, "").json["body"].(string)
		if len(got) != n-len(hourly(`,"body":""`)) || strings.Trim(got, "x") != "" {
			t.Errorf("%d bytes came as %d", n, len(got))
		}
	}
}

func TestBody_ThatBreaksOffWritesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	from := io.MultiReader(strings.NewReader(hourly("")), iotest.ErrReader(io.ErrUnexpectedEOF))
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/messages", from)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	read(t, w.Result()).want(t, 400, "incomplete_body")
	if n := d.stored(t); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

func TestBody_BytesOfAllRequestsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	const limit, most = 128 << 10, 32
	entered, leave := make(chan struct{}), make(chan struct{})
	behind := func(c *api.Config) { // many callers
		c.MaxBody, c.Proxies = limit, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	}
	d := open(t, behind, with(service{
		accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
			entered <- struct{}{}
			<-leave
			return make([]scheduler.Accepted, len(batch))
		},
	}))
	var wg sync.WaitGroup
	for range most - 1 { // each holds one byte more than it has
		wg.Go(func() { call(t, d, "POST", "/v1/messages", sized(limit)).want(t, 201, "") })
		<-entered
	}
	a := call(t, d, "POST", "/v1/messages", sized(limit)).want(t, 503, "busy")
	if a.header.Get("Retry-After") == "" || !strings.Contains(a.detail(), "4194304") {
		t.Errorf("got %v %s", a.header, a.raw)
	}
	close(leave)
	wg.Wait()
	wg.Go(func() { <-entered })
	call(t, d, "POST", "/v1/messages", sized(limit)).want(t, 201, "") // all of it was given back
	wg.Wait()
}

func TestBody_OfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t)
	for kind, good := range map[string]bool{
		"": true, "application/json": true, "application/json; charset=UTF-8": true, "application/vnd.x+json": true,
		"application/x-www-form-urlencoded": true, // what curl -d sends
		"text/xml":                          false,
		"multipart/form-data; boundary=x":   false,
		"application/json; charset=latin1":  false,
		"///":                               false,
	} {
		for _, path := range []string{"/v1/messages", "/v1/messages/batch"} {
			body := hourly("")
			if strings.HasSuffix(path, "batch") {
				body = `{"messages":[` + body + `]}`
			}
			a := call(t, d, "POST", path, body, "Content-Type", kind)
			if good && a.status > 201 || !good && (a.status != 415 || a.word() != "unsupported_media_type") {
				t.Errorf("%s %q: got %d %s", path, kind, a.status, a.raw)
			}
		}
	}
	call(t, d, "POST", "/v1/messages", hourly(""), "Content-Encoding", "gzip").want(t, 415, "unsupported_media_type")
	call(t, d, "POST", "/v1/messages", hourly(""), "Content-Encoding", "identity").want(t, 201, "")
	call(t, d, "POST", "/v1/messages?key=a", hourly("")).want(t, 400, "unknown_parameter")
	call(t, d, "POST", "/v1/messages/batch?x=1", hourly("")).want(t, 400, "unknown_parameter")
}

func TestAnswers_SayWhenTheStoreCannot(t *testing.T) {
	t.Parallel()
	const uid = "t-0123456789abcdef"
	for _, c := range []struct {
		err    error
		status int
		word   string
		again  string // Retry-After
	}{
		{scheduler.ErrUnavailable, 503, "unavailable", "1"},
		{scheduler.ErrFull, 503, "store_full", "5"},
		{scheduler.ErrBusy, 503, "busy", "1"},
		{scheduler.ErrStopping, 503, "stopping", "1"},
		{scheduler.ErrNoMachineID, 503, "unavailable", "1"},
		{scheduler.ErrOutcomeUnknown, 504, "outcome_unknown", ""},
		{scheduler.ErrStaleUID, 409, "stale_uid", ""},
		{errors.New("some secret of the inside"), 500, "internal", ""},
	} {
		d := open(t, with(service{
			accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
				results := make([]scheduler.Accepted, len(batch))
				for i := range results {
					results[i] = scheduler.Accepted{UID: uid, Err: c.err}
				}
				return results
			},
			get: func(context.Context, scheduler.Ref) (message.Info, error) { return message.Info{}, c.err },
			cancel: func(context.Context, scheduler.Ref) (scheduler.CancelResult, error) {
				return scheduler.CancelResult{}, c.err
			},
		}))
		push := call(t, d, "POST", "/v1/messages", hourly("")).want(t, c.status, c.word)
		if c.status == 504 && push.json["id"] != uid {
			t.Errorf("no id to retry with: %s", push.raw)
		}
		if got := push.header.Get("Tarry-Uid"); (got == uid) != (c.status == 504) {
			t.Errorf("%d says Tarry-Uid %q", c.status, got)
		}
		get := call(t, d, "GET", "/v1/messages/a", "").want(t, c.status, c.word)
		cancel := call(t, d, "DELETE", "/v1/messages/a", "").want(t, c.status, c.word)
		batch := call(t, d, "POST", "/v1/messages/batch", `{"messages":[`+hourly("")+`]}`).want(t, 200, "")
		if !strings.Contains(batch.raw, `{"failed":1,"results":[{"error":"`+c.word+`"`) {
			t.Errorf("got %s", batch.raw)
		}
		for _, a := range []reply{push, get, cancel} {
			if a.header.Get("Retry-After") != c.again || strings.Contains(a.raw, "secret") {
				t.Errorf("%s: got %v %s", c.word, a.header, a.raw)
			}
		}
		if c.status == 500 && !strings.Contains(d.log.String(), "some secret of the inside") {
			t.Errorf("the log does not say what: %s", d.log)
		}
	}
}

func TestTimeout_BoundsTheWorkOnARequest(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.Timeout = 1 }, with(service{
		get: func(ctx context.Context, _ scheduler.Ref) (message.Info, error) {
			<-ctx.Done()
			return message.Info{}, ctx.Err()
		},
	}))
	call(t, d, http.MethodGet, "/v1/messages/a", "").want(t, 504, "outcome_unknown")
}
