package short_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// Whoever asks for the cluster learns of a killed instance long before its session expires, be it a standby or the
// leader.
func TestClusterShowsNoInstanceThatWasKilled(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	const session = 10 * time.Second // the longest that lab's ZooKeeper grants
	for _, name := range []string{"a", "b", "c"} {
		s.Start(name, "TARRY_ZOOKEEPER_SESSION="+session.String())
	}
	leader, term := s.Leader(0, s.Instances...)
	shows := func(at, of *site.Instance) (bool, string) {
		a := s.Must(at, http.MethodGet, "/v1/cluster", nil)
		for _, i := range a.Instances {
			if i.Instance == of.Name {
				return i.Role != "gone", a.Raw
			}
		}
		return true, "not even as gone: " + a.Raw
	}
	linked := func() {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			raw := s.Must(leader, http.MethodGet, "/v1/cluster", nil).Raw
			if n := strings.Count(raw, `"linked":true`); n != 2 {
				return fmt.Errorf("%d links: %s", n, raw)
			}
			return nil
		})
	}
	gone := func(of *site.Instance, among ...*site.Instance) {
		t.Helper()
		began := time.Now()
		for _, i := range among {
			lab.Eventually(t, site.Patience, func() error {
				if listed, raw := shows(i, of); listed {
					return fmt.Errorf("%s shows %s %s after its death: %s", i.Name, of.Name, time.Since(began), raw)
				}
				return nil
			})
		}
		if took := time.Since(began); took > session/2 {
			t.Errorf("%s was gone after %s, and its session takes %s to expire", of.Name, took, session)
		}
	}
	linked()
	standby := s.Others(leader)[0]
	other := s.Others(leader)[1]
	standby.Kill()
	gone(standby, leader, other)
	leader.Kill()
	if next, _ := s.Leader(term, other); next != other {
		t.Fatalf("%s leads", next.Name)
	}
	gone(leader, other)
	standby.Restart() // its name is free
	s.Ready(standby)
}
