package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestResign_ReachesTheInstanceThatIsNamed(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), newNamespace()
	asked := make(chan string, 10)
	instance := func(name string, err error) *bridge.Resign {
		r, newErr := bridge.NewResign(
			bridge.ResignConfig{Conn: connect(t, url), Namespace: ns, Instance: name, Log: logger(t),
				Do: func(_ context.Context, reason string) error { asked <- name + ": " + reason; return err }})
		if newErr != nil {
			t.Fatal(newErr)
		}
		runFor(t, r.Run)
		return r
	}
	a := instance("a", errors.New("must not be asked"))
	instance("b", nil)
	instance("c", errors.New("another leads by now"))
	lab.Eventually(t, 10*time.Second, func() error { return a.Ask(t.Context(), "b", "an upgrade") })
	if got := <-asked; got != "b: an upgrade" {
		t.Errorf("%q was asked", got)
	}
	lab.Eventually(t, 10*time.Second, func() error {
		err := a.Ask(t.Context(), "c", "")
		if !errors.Is(err, bridge.ErrNotResigned) || !strings.Contains(err.Error(), "another leads by now") {
			return errors.New("c has not answered")
		}
		return nil
	})
	if err := a.Ask(t.Context(), "nobody", ""); !errors.Is(err, bridge.ErrNotResigned) {
		t.Errorf("nobody resigned with %v", err)
	}
	for len(asked) > 0 {
		if got := <-asked; !strings.HasPrefix(got, "b: ") && !strings.HasPrefix(got, "c: ") {
			t.Errorf("%q was asked", got)
		}
	}
}
