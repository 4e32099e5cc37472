package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// doorDelay is the delay of the pushes through the direct door.
const doorDelay = time.Second

// doorCall is a call of a producer: what it sends, again and again, until it has an answer.
type doorCall struct {
	id    string
	tries int
	uid   string
	sent  time.Time // first
}

// knock sends a push to the direct door until it is answered, as a careful producer does.
func knock(t *testing.T, nc *nats.Conn, ns, topic, id string) (doorCall, error) {
	c := doorCall{id: id, sent: time.Now()}
	for ; time.Since(c.sent) < time.Minute; c.tries++ {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: "tarry." + ns + ".push." + topic, Data: []byte(id),
			Header: nats.Header{"Tarry-Delay": {doorDelay.String()}, "Nats-Msg-Id": {id}}})
		stop()
		var a struct{ UID, Error, Durable string }
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			site.Pause(t.Context(), 50*time.Millisecond)
			continue
		case err != nil:
			continue
		}
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return c, fmt.Errorf("%s: %q: %w", id, m.Data, err)
		}
		switch {
		case a.Error == "" && a.Durable == "journal":
			c.uid = a.UID
			return c, nil
		case a.Error == "outcome_unknown", strings.HasSuffix(a.Error, "unavailable"), a.Error == "stopping":
			site.Pause(t.Context(), 50*time.Millisecond)
		default:
			return c, fmt.Errorf("%s: %s", id, m.Data)
		}
	}
	return c, fmt.Errorf("%s: no answer for a minute", id)
}

// Producers push through the direct door while the instance that answers them is killed, and while another one stands
// still with their requests before it and wakes up. Each call is one message, however often it is sent.
func TestTheDirectDoorStoresEachCallOnce(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.NewMariaDB(t))
	a, b := s.Start("a"), s.Start("b")
	s.Leader(0, a, b)
	inbox := s.Inbox(site.CoreSubject + "door.>")
	stop := make(chan struct{})
	var mu sync.Mutex
	var producers sync.WaitGroup
	var calls []doorCall
	for p := range 8 {
		nc := s.Connect(fmt.Sprint("producer ", p))
		producers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c, err := knock(t, nc, s.Ns, fmt.Sprint(site.CoreSubject, "door.", p), fmt.Sprintf("%d.call-%d", n, p))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				calls = append(calls, c)
				mu.Unlock()
			}
		})
	}
	answered := func(n int) {
		t.Helper()
		mu.Lock()
		n += len(calls)
		mu.Unlock()
		lab.Eventually(t, site.Patience, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(calls) < n {
				return fmt.Errorf("%d of %d calls are answered", len(calls), n)
			}
			return nil
		})
	}
	answered(100)
	leader, term := s.Leader(0, a, b)
	leader.Kill()
	answered(100)
	s.Leader(term, s.Others(leader)...)
	leader.Restart()
	s.Ready(leader)
	answered(100)
	leader.Process.Pause()
	site.Pause(t.Context(), 12*time.Second) // longer than what it may stand still
	answered(20)
	leader.Resume()
	s.Ready(leader)
	answered(100)
	close(stop)
	producers.Wait()

	came, bodies := map[string]time.Time{}, map[string]int{} // by uid, when it came first; the uids of a body
	look := func() {
		for _, m := range inbox.Snapshot() {
			if uid := m.Header.Get("Tarry-Id"); came[uid].IsZero() {
				came[uid] = m.At
				bodies[string(m.Data)]++
			}
		}
	}
	lab.Eventually(t, site.Patience, func() error {
		clear(came)
		clear(bodies)
		look()
		for _, c := range calls {
			if came[c.uid].IsZero() {
				return fmt.Errorf("%s, %s, has not come", c.id, c.uid)
			}
		}
		return nil
	})
	site.Pause(t.Context(), 2*doorDelay) // what was stored twice comes too
	look()
	repeated := 0
	for _, c := range calls {
		if c.tries > 0 {
			repeated++
		}
		if n := bodies[c.id]; n != 1 {
			t.Errorf("the call %s, sent %d times, made %d messages", c.id, c.tries+1, n)
		}
		if early := c.sent.Add(doorDelay).Sub(came[c.uid]); early > 0 {
			t.Errorf("%s came %s early", c.uid, early)
		}
	}
	if repeated == 0 || len(came) != len(calls) {
		t.Errorf("of %d calls %d were repeated; %d messages came", len(calls), repeated, len(came))
	}
	t.Logf("%d calls, %d repeated", len(calls), repeated)
}
