package short_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A payment is pushed again long after it was delivered, when Redis has forgotten its name: the journal remembers it,
// and nothing is delivered twice. It takes as long as the shortest memory of ends, beside other stories.
func TestANameThatRedisHasForgottenIsRecognizedByTheJournal(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.NewMariaDB(t), "TARRY_ENDED_KEEP=5s")
	a := s.Start("a")
	in, nc := s.Inbox(site.CoreSubject+">"), s.Connect("producer")
	charge := func(body string, attempt int) map[string]any {
		push := map[string]any{"topic": site.CoreSubject + "charge", "delay": "1s", "id": "charge-17", "body": body}
		if attempt > 0 {
			push["attempt"] = attempt
		}
		return push
	}
	tagged := func() { s.Tag(nc, site.CoreSubject+"refund", "by tag", "Tarry-Delay", "1s", "Tarry-Id", "refund-17") }
	first := s.Push(a, charge("100 EUR", 0))
	tagged()
	in.Bodies(t, 2)

	rdb := redis.NewClient(&redis.Options{Addr: s.Redis.Addr, Password: site.RedisPassword})
	defer rdb.Close()
	lab.Eventually(t, 5*time.Minute, func() error {
		keys, err := rdb.Keys(t.Context(), "{"+s.Ns+":*}:name").Result()
		if err == nil && len(keys) > 0 {
			err = fmt.Errorf("redis remembers names still: %q", keys)
		}
		return err
	})

	again := s.Must(a, http.MethodPost, "/v1/messages", charge("100 EUR", 0))
	if again.Status != http.StatusOK || !again.Duplicate || again.UID != first.UID || again.State != "delivered" {
		t.Errorf("the same push again: %d %s", again.Status, again.Raw)
	}
	if other := s.Must(a, http.MethodPost, "/v1/messages", charge("200 EUR", 0)); other.Status != http.StatusConflict ||
		other.Error != "duplicate_id" {
		t.Errorf("other content: %d %s", other.Status, other.Raw)
	}
	moved := charge("100 EUR", 0)
	moved["topic"] = site.CoreSubject + "other"
	s.Push(a, moved) // a name belongs to its topic
	tagged()
	retry := s.Push(a, charge("100 EUR", 2))
	lab.Eventually(t, site.Patience, func() error {
		if got := s.Must(a, http.MethodGet, "/v1/messages/"+retry.UID, nil); got.State != "delivered" {
			return fmt.Errorf("the consumer's retry is %s", got.State)
		}
		return nil
	})
	caughtUpWithIntake(s, a)
	if bodies := in.Bodies(t, 4); len(bodies) == 4 {
		t.Logf("delivered %q", bodies)
	}
	if n := s.Metric(a, "tarry_names_unjudged_total"); n != 0 {
		t.Errorf("%d names were not judged", n)
	}
}

// caughtUpWithIntake waits until the intake has passed what it holds: an unknown id is answered after that.
func caughtUpWithIntake(s *site.Site, i *site.Instance) {
	s.T.Helper()
	if a := s.Must(i, http.MethodGet, "/v1/messages/nobody", nil); a.Status != http.StatusNotFound {
		s.T.Errorf("%d %s", a.Status, a.Raw)
	}
}
