package request_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestResign_ReachesTheInstanceThatIsNamed(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), bridgetest.NewNamespace()
	asked := make(chan string, 10)
	instance := func(name string, err error) *request.Resign {
		r := request.NewResign(
			request.ResignConfig{Conn: bridgetest.Connect(t, url), Namespace: ns, Instance: name, Log: bridgetest.Logger(t)})
		bridgetest.RunFor(t, func(ctx context.Context) error {
			return r.Run(ctx, func(_ context.Context, reason string) error { asked <- name + ": " + reason; return err })
		})
		return r
	}
	a := instance("a", errors.New("must not be asked"))
	instance("b", nil)
	instance("c", ops.ErrNoStandby)
	instance("e", fmt.Errorf("%w: session lost at 10.0.0.7:2181", ops.ErrUnreachable))
	instance("d", errors.New("zk: connection refused at 10.0.0.7:2181"))
	lab.Eventually(t, 10*time.Second, func() error { return a.Ask(t.Context(), "b", "an upgrade") })
	if got := <-asked; got != "b: an upgrade" {
		t.Errorf("%q was asked", got)
	}
	for name, says := range map[string]string{
		"c": ops.ErrNoStandby.Error(), "d": "internal error", "e": ops.ErrUnreachable.Error(),
	} {
		lab.Eventually(t, 10*time.Second, func() error {
			err := a.Ask(t.Context(), name, "")
			if !errors.Is(err, request.ErrNotResigned) || !strings.Contains(err.Error(), name+" says: "+says) {
				return fmt.Errorf("%s answered %w", name, err)
			}
			return nil
		})
		if err := a.Ask(t.Context(), name, ""); strings.Contains(err.Error(), "10.0.0.7") {
			t.Errorf("%s names what is inside: %v", name, err)
		}
	}
	if err := a.Ask(t.Context(), "nobody", ""); !errors.Is(err, request.ErrNotResigned) {
		t.Errorf("nobody resigned with %v", err)
	}
	for len(asked) > 0 {
		if got := <-asked; strings.HasPrefix(got, "a: ") {
			t.Errorf("%q was asked", got)
		}
	}
}
