package site

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Settled closes the window of a fault: nothing is claimed under the lost term any more, what is due has gone out, what
// was on its way then has ended too (the next leader claims again what the lost one had sent), and consumers have seen
// it. So nothing can be delivered again.
func (s *Site) Settled(term uint64, close func()) {
	s.T.Helper()
	rdb := s.Client()
	lab.Eventually(s.T, Patience, func() error {
		_, overdue, claimed, err := s.Held(s.T.Context(), rdb, time.Now().Add(-300*time.Millisecond), term)
		if err == nil && overdue+claimed > 0 {
			err = fmt.Errorf("%d messages are overdue, %d claimed under a term up to %d", overdue, claimed, term)
		}
		return err
	})
	before, err := s.Claims(s.T.Context(), rdb)
	if err != nil {
		s.T.Fatal(err)
	}
	lab.Eventually(s.T, Patience, func() error {
		now, err := s.Claims(s.T.Context(), rdb)
		maps.DeleteFunc(before, func(uid, under string) bool { return now[uid] != under })
		if err == nil && len(before) > 0 {
			err = fmt.Errorf("%d messages are still on their way", len(before))
		}
		return err
	})
	s.CaughtUp()
	close()
}

// Loses opens the window of a loss of Redis: what the journal has not yet recorded as delivered may be delivered again.
func (s *Site) Loses(h *History, why string) (closed func()) {
	s.T.Helper()
	return h.Begin(Window{Why: why, From: time.Now(), Recorded: s.Recorded(), Lost: true})
}

// Certified counts how often leaders have certified Redis.
func (s *Site) Certified() int {
	s.T.Helper()
	n := 0
	for _, i := range s.Instances {
		n += bytes.Count(i.History(), []byte(`"message":"the store is certified"`))
	}
	return n
}

// Whole waits until Redis has been certified more often than before, in every bucket, and every instance accepts. One
// recovery may certify some buckets, and a second one the rest, because their scanners notice a loss one by one.
func (s *Site) Whole(before int, doors ...*Instance) {
	s.T.Helper()
	begun := time.Now()
	lab.Eventually(s.T, Patience, func() error {
		if n := s.Certified(); n <= before {
			return fmt.Errorf("redis has been certified %d times", n)
		}
		return nil
	})
	rdb := s.Client()
	lab.Eventually(s.T, Patience, func() error {
		info, err := rdb.Info(s.T.Context(), "replication").Result()
		if err != nil {
			return err
		}
		_, history, _ := strings.Cut(info, "master_replid:")
		for bucket := range 4 {
			gen, err := rdb.Get(s.T.Context(), fmt.Sprintf("{%s:%d}:gen", s.Ns, bucket)).Result()
			if err != nil || !strings.Contains(gen, " whole ") || !strings.Contains(gen, history[:16]) {
				return fmt.Errorf("bucket %d is certified as %q, the history is %.16s: %w", bucket, gen, history, err)
			}
		}
		return nil
	})
	certified := time.Since(begun)
	for _, i := range doors {
		s.Accepts(i)
	}
	s.T.Logf("certified after %s, every instance accepted pushes after %s", certified.Round(time.Millisecond),
		time.Since(begun).Round(time.Millisecond))
}

// Accepts waits until an instance takes a push, and takes it back.
func (s *Site) Accepts(i *Instance) {
	s.T.Helper()
	var pushed Answer
	id := fmt.Sprintf("probe %d", time.Now().UnixNano())
	lab.Eventually(s.T, Patience, func() error {
		a, err := i.Call(s.T.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.probe", "delay": "1h", "id": id})
		if err == nil && a.Status != http.StatusCreated && a.Status != http.StatusOK {
			err = fmt.Errorf("%s does not accept: %d %s", i.Name, a.Status, a.Raw)
		}
		pushed = a
		return err
	})
	lab.Eventually(s.T, Patience, func() error {
		a, err := i.Call(s.T.Context(), http.MethodDelete, "/v1/messages/"+pushed.UID, nil)
		if err == nil && a.State != "canceled" {
			err = fmt.Errorf("%s does not cancel: %d %s", i.Name, a.Status, a.Raw)
		}
		return err
	})
}
