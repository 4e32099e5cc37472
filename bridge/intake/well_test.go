package intake_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// answers takes pushes, or refuses all for now, and counts them.
type answers struct {
	mu  sync.Mutex
	err error
	n   int
}

func (a *answers) Accept(_ *scheduler.Push, done func(scheduler.Accepted)) {
	a.mu.Lock()
	a.n++
	err := a.err
	a.mu.Unlock()
	done(scheduler.Accepted{Err: err})
}

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// An instance that can accept nothing leaves the pushes to one that can: it tries one now and then.
func TestIntake_LeavesPushesToAnInstanceThatIsWell(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
		sick, well := &answers{err: errors.New("the database does not answer")}, &answers{}
		bridgetest.Taking(t, intake.Config{Conn: bridgetest.Connect(t, server.URL()), Namespace: ns, Prefix: "delayed",
			Accept: sick})
		publish := func(from, to int) {
			for i := from; i < to; i++ {
				bridgetest.Publish(t, nc, "delayed.a", "body", "Tarry-Delay", "1h", "Tarry-Id", fmt.Sprint(i))
			}
		}
		publish(0, 3)
		lab.Eventually(t, 10*time.Second, func() error {
			if sick.count() < 4 {
				return fmt.Errorf("it has tried %d times", sick.count())
			}
			return nil
		})
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: well})
		before := sick.count()
		publish(3, 303)
		bridgetest.Emptied(t, nc, ns)
		if tried := sick.count() - before; tried > 20 {
			t.Errorf("the instance that is not well tried %d of 300 pushes", tried)
		}
		if well.count() != 303 {
			t.Errorf("the other one accepted %d, want 303", well.count())
		}
	})
}
