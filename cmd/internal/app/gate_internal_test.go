package app

import (
	"errors"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
)

// An instance whose store is not the leader's answers nothing from it.
func TestGate_IsClosedToEveryLookUpOnAnotherStore(t *testing.T) {
	g := &gate{same: &sameStore{}} // no service: nothing may reach it
	g.open.Store(true)
	g.same.other.Store(true)
	for name, ask := range map[string]func() error{
		"get":     func() error { _, err := g.Get(t.Context(), scheduler.Ref{ID: "a"}); return err },
		"cancel":  func() error { _, err := g.Cancel(t.Context(), scheduler.Ref{ID: "a"}); return err },
		"resolve": func() error { _, err := g.Resolve(t.Context(), scheduler.Ref{ID: "a"}); return err },
	} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s went to the service: %v", name, r)
				}
			}()
			if err := ask(); !errors.Is(err, errOtherStore) {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
}
