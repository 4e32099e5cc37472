package election

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func credentials(t *testing.T, servers []string) {
	c := &court{}
	with := func(password string) func(*setup) {
		return func(cfg *setup) { cfg.Username, cfg.Password = "tarry", password }
	}
	p := lab.NewProxy(t, servers[0])
	a := real(t, c, "locked", "a", []string{p.Addr}, with("secret"), func(cfg *setup) {
		cfg.Session = longSession
	}).run(t)
	first := awaitLeader(t, c, 0)

	stranger := plain(t, servers)
	for _, path := range []string{"", "/leader", "/term", "/instances/a"} {
		if _, _, err := stranger.Get("/tarry/locked" + path); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger reads %q: %v, want ErrNoAuth", path, err)
		}
	}
	b := real(t, c, "locked", "b", servers, with("guess")).run(t)
	lab.Eventually(t, patience, func() error {
		if s := b.State(); !errors.Is(s.Err, zk.ErrNoAuth) {
			return fmt.Errorf("with a wrong password: %+v", s)
		}
		return nil
	})
	for range 3 { // each connection brings the credentials again
		at := time.Now()
		p.Cut()
		p.Heal()
		awaitRenewal(t, first, at)
	}
	if first.ctx.Err() != nil {
		t.Error("leadership was lost with the connection")
	}
	awaitReady(t, a)
}
