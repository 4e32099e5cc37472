package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// A payment is pushed again long after it was delivered, when Redis has forgotten its name: the journal remembers it,
// and nothing is delivered twice. It takes as long as the shortest memory of ends, beside other stories.
func TestANameThatRedisHasForgottenIsRecognizedByTheJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.failpoints() // for a memory that is short
	s.journal("sync", lab.NewMariaDB(t), "TARRY_ENDED_KEEP=5s")
	a := s.start("a")
	in, nc := s.inbox(coreSubject+">"), s.connect("producer")
	charge := func(body string, attempt int) map[string]any {
		push := map[string]any{"topic": coreSubject + "charge", "delay": "1s", "id": "charge-17", "body": body}
		if attempt > 0 {
			push["attempt"] = attempt
		}
		return push
	}
	tagged := func() { s.tag(nc, coreSubject+"refund", "by tag", "Tarry-Delay", "1s", "Tarry-Id", "refund-17") }
	first := s.push(a, charge("100 EUR", 0))
	tagged()
	in.bodies(t, 2)

	rdb := redis.NewClient(&redis.Options{Addr: s.redis.Addr, Password: redisPassword})
	defer rdb.Close()
	lab.Eventually(t, 5*time.Minute, func() error {
		keys, err := rdb.Keys(t.Context(), "{"+s.ns+":*}:name").Result()
		if err == nil && len(keys) > 0 {
			err = fmt.Errorf("redis remembers names still: %q", keys)
		}
		return err
	})

	again := s.must(a, http.MethodPost, "/v1/messages", charge("100 EUR", 0))
	if again.status != http.StatusOK || !again.Duplicate || again.UID != first.UID || again.State != "delivered" {
		t.Errorf("the same push again: %d %s", again.status, again.raw)
	}
	if other := s.must(a, http.MethodPost, "/v1/messages", charge("200 EUR", 0)); other.status != http.StatusConflict ||
		other.Error != "duplicate_id" {
		t.Errorf("other content: %d %s", other.status, other.raw)
	}
	moved := charge("100 EUR", 0)
	moved["topic"] = coreSubject + "other"
	s.push(a, moved) // a name belongs to its topic
	tagged()
	retry := s.push(a, charge("100 EUR", 2))
	lab.Eventually(t, patience, func() error {
		if got := s.must(a, http.MethodGet, "/v1/messages/"+retry.UID, nil); got.State != "delivered" {
			return fmt.Errorf("the consumer's retry is %s", got.State)
		}
		return nil
	})
	s.caughtUpWithIntake(a)
	if bodies := in.bodies(t, 4); len(bodies) == 4 {
		t.Logf("delivered %q", bodies)
	}
	if n := s.metric(a, "tarry_names_unjudged_total"); n != 0 {
		t.Errorf("%d names were not judged", n)
	}
}

// caughtUpWithIntake waits until the intake has passed what it holds: an unknown id is answered after that.
func (s *site) caughtUpWithIntake(i *instance) {
	s.t.Helper()
	if a := s.must(i, http.MethodGet, "/v1/messages/nobody", nil); a.status != http.StatusNotFound {
		s.t.Errorf("%d %s", a.status, a.raw)
	}
}
