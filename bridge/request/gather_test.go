package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestPeers_HearsWhoAnswersAndNamesWhoDoesNot(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), bridgetest.NewNamespace()
	instance := func(name string, tell func(string) any) *request.Peers {
		p := request.NewPeers(request.PeersConfig{Conn: bridgetest.Connect(t, url), Namespace: ns, Instance: name,
			Tell: tell, Log: bridgetest.Logger(t)})
		bridgetest.RunFor(t, p.Run)
		return p
	}
	knows := func(name string) func(string) any {
		return func(what string) any {
			if what != "weather" {
				return nil
			}
			return name + " has rain"
		}
	}
	a := instance("a", knows("a"))
	instance("b", knows("b"))
	instance("c", func(string) any { return make(chan int) }) // cannot be encoded
	instance("d", func(string) any { return nil })
	instance("e", knows("e"))
	instance("f", func(string) any { return []string(nil) }) // nothing is an answer too
	ask := func(what string, of []string, missing []string, want ...string) {
		t.Helper()
		lab.Eventually(t, 10*time.Second, func() error {
			var heard []string
			silent, err := a.Ask(t.Context(), what, of, func(name string, told json.RawMessage) error {
				if name == "e" {
					return errors.New("of another version")
				}
				heard = append(heard, name+" said "+string(told))
				return nil
			})
			slices.Sort(heard)
			if err != nil || !slices.Equal(silent, missing) || !slices.Equal(heard, want) {
				return fmt.Errorf("heard %q, missing %q, %w", heard, silent, err)
			}
			return nil
		})
	}
	ask("weather", []string{"b", "c", "d", "e", "f", "gone"}, []string{"c", "d", "e", "gone"}, `b said "b has rain"`,
		"f said null")
	ask("taxes", []string{"b"}, []string{"b"})
	ask("weather", []string{}, nil)
	ask("weather", []string{"a"}, []string{"a"}) // it does not ask itself
	late, stop := context.WithCancel(t.Context())
	stop()
	if silent, _ := a.Ask(late, "weather", []string{"b"}, nil); !slices.Equal(silent, []string{"b"}) {
		t.Errorf("missing %q", silent)
	}
}
