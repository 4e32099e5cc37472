package request_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

func TestPauses_AreReadByTheLeaderAlone(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), bridgetest.NewNamespace()
	var leader atomic.Int32
	var reads [2]atomic.Int32
	var failure atomic.Pointer[error]
	instance := func(n int32) *request.Pauses {
		p := request.NewPauses(request.PausesConfig{Conn: bridgetest.Connect(t, url), Namespace: ns,
			Log: bridgetest.Logger(t),
			Read: func(context.Context) (bool, error) {
				if leader.Load() != n {
					return false, nil
				}
				reads[n].Add(1)
				if err := failure.Load(); err != nil {
					return true, *err
				}
				return true, nil
			}})
		bridgetest.RunFor(t, p.Run)
		return p
	}
	a, b := instance(0), instance(1)
	lab.Eventually(t, 10*time.Second, func() error { // until both listen
		for n, one := range []*request.Pauses{b, a} {
			leader.Store(int32(n))
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			err := one.Ask(ctx)
			stop()
			if err != nil {
				return err
			}
		}
		return nil
	})
	if reads[0].Load() == 0 || reads[1].Load() == 0 {
		t.Errorf("the leaders read %d and %d times", reads[0].Load(), reads[1].Load())
	}
	away := fmt.Errorf("%w: the store is away", scheduler.ErrUnavailable)
	failure.Store(&away)
	err := a.Ask(t.Context())
	if !errors.Is(err, request.ErrNotRead) || !strings.Contains(err.Error(), "the store is away") {
		t.Errorf("a leader that could not read them: %v", err)
	}
	// The caller gets a word, as from every other route, and nothing internal.
	nc := bridgetest.Connect(t, url)
	for _, c := range []struct {
		err        error
		code, want string
	}{
		{errors.New("dial tcp 10.0.0.1:6379: refused"), "500",
			`{"error":"internal","detail":"internal error; the log has the details"}`},
		{fmt.Errorf("%w: dial tcp 10.0.0.1:6379: refused", scheduler.ErrUnavailable), "503",
			`{"error":"unavailable","detail":"store unavailable: no connection"}`},
		{context.DeadlineExceeded, "503",
			`{"error":"unavailable","detail":"store unavailable: the pauses were not read in time"}`},
	} {
		failure.Store(&c.err)
		m, err := nc.Request("tarry."+ns+".pauses", nil, 5*time.Second)
		if err != nil || string(m.Data) != c.want || m.Header.Get("Nats-Service-Error-Code") != c.code ||
			m.Header.Get("Nats-Service-Error") == "" {
			t.Errorf("%v: answered %+v, %v", c.err, m, err)
		}
		if err := a.Ask(t.Context()); !errors.Is(err, request.ErrNotRead) || strings.Contains(err.Error(), "10.0.0.1") {
			t.Errorf("%v: asked %v", c.err, err)
		}
	}
	leader.Store(-1)
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if err := a.Ask(ctx); !errors.Is(err, request.ErrNotRead) {
		t.Errorf("while nobody leads: %v", err)
	}
}
