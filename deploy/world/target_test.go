package world_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/webhook"
	"github.com/tarry-mq/tarry/deploy/check/history"
)

// target is where the messages of the topic hook are posted, as one process reaches it.
type target struct {
	*world
	p *process
}

var hook = webhook.Target{Pattern: "hook", URL: "http://target/", Timeout: 3 * time.Second, Concurrency: 2}

var errReset = errors.New("the connection is reset")

// RoundTrip takes a request, or not, and answers it, or not.
func (g *target) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	uid := r.Header.Get("Webhook-Id")
	t := g.bus.enter(g.p, "post "+uid)
	if t.dead {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	what := 0
	if !g.over && g.faults["target"] {
		what = t.roll.IntN(16)
	}
	if what == 1 {
		g.met("target: it is not reached")
		return nil, errReset
	}
	attempt, err := strconv.Atoi(r.Header.Get("Tarry-Attempt"))
	if err != nil {
		g.t.Errorf("seed %d: a post of %s: %v", g.seed, uid, err)
	}
	word := history.Posted
	if what < 2 || what > 7 {
		word = history.Accepted
	}
	g.tell(history.Event{Kind: history.Deliver, By: "target", Message: nameOf(body), UID: uid, Attempt: attempt,
		Body: string(body), Word: word})
	a := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok"))}
	switch what {
	case 2:
		g.met("target: its answer is lost")
		return nil, errReset
	case 3:
		g.met("target: it does not answer in time")
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case 4:
		g.met("target: it refuses a message")
		a.StatusCode = http.StatusInternalServerError
	case 5:
		g.met("target: it is busy")
		a.StatusCode = http.StatusServiceUnavailable
		a.Header.Set("Retry-After", "2")
	case 6:
		g.met("target: it wants a message no more")
		a.StatusCode = http.StatusGone
	case 7:
		_ = wait(ctx, time.Duration(t.roll.Int64N(int64(4*time.Second))))
		if g.bus.enter(g.p, "answer of "+uid).dead || ctx.Err() != nil {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	}
	return a, nil
}
