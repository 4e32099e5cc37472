package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// An operator's hand: what Redis has lost unnoticed is found and repaired, and what a broker has lost is delivered
// again.
func TestAnOperatorMendsWhatRedisAndNATSHaveLost(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.SharedMariaDB(t))
	a, b := s.Start("a"), s.Start("b")
	js := site.OpenJetStream(t, s.Connect("owner"))
	config := jetstream.StreamConfig{Name: site.StreamName, Subjects: []string{site.StreamSubject + ">"}}
	stream, err := js.CreateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	rdb := s.Client()
	lose := func(uid string) {
		t.Helper()
		n := int64(0)
		for bucket := range 4 {
			prefix := fmt.Sprintf("{%s:%d}:", s.Ns, bucket)
			n += rdb.HDel(t.Context(), prefix+"msg", uid).Val() + rdb.ZRem(t.Context(), prefix+"due", uid).Val()
		}
		if n != 2 {
			t.Fatalf("%s stood in %d places", uid, n)
		}
	}
	// The leader compares the two soon after it has led, and would note what the operator is to find.
	lab.Eventually(t, site.Patience, func() error {
		if !strings.Contains(a.Log()+b.Log(), `"message":"audited"`) {
			return errors.New("no instance has compared Redis with the journal")
		}
		return nil
	})
	begun := time.Now()
	due := begun.Add(30 * time.Second).Truncate(time.Millisecond)
	var uids []string
	for n := range 12 {
		uids = append(uids, s.Push(a, map[string]any{"topic": fmt.Sprintf("jobs.repair%d", n%3), "at": due.UnixMilli(),
			"body": "work " + strconv.Itoa(n), "id": fmt.Sprintf("repair %d", n)}).UID)
	}
	s.Says(b, 0, "the same", "verify")
	for _, uid := range uids[:4] {
		lose(uid)
	}
	// For all that tarry knows, the database has lost what ended: it asks.
	s.Says(b, 1, "4 ended_in_store", "verify")
	s.Says(b, 0, "4 repaired", "verify", "--repair") // it notes that, and nothing takes them up unasked
	s.Says(a, 0, "the same", "verify")
	s.Says(b, 0, "0 added", "restore", "--all", "--dry-run")
	s.Says(b, 0, "4 repaired", "verify", "--revive")
	s.Says(a, 0, "the same", "verify")

	// A few more, by the command that restores.
	lose(uids[4])
	lose(uids[5])
	s.Says(b, 0, "is restored", "restore", uids[4])
	s.Says(b, 0, "1 added", "restore", "--dry-run")
	s.Says(b, 1, "1 ended_in_store", "verify")
	s.Says(b, 0, "1 added", "restore", "--all", "--topic", "jobs.repair2")
	s.Says(a, 0, "the same", "verify")
	if t.Failed() || time.Now().After(due) {
		t.Fatalf("the commands were done %s after the messages were due", time.Since(due))
	}

	stored := func() map[string]int {
		found := map[string]int{}
		info, err := stream.Info(t.Context())
		if err != nil {
			return found
		}
		for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
			if m, err := stream.GetMsg(t.Context(), n); err == nil {
				found[strings.TrimSuffix(m.Header.Get(nats.MsgIdHdr), "@"+s.Ns)]++
			}
		}
		return found
	}
	all := func() error {
		found := stored()
		for _, uid := range uids {
			if found[uid] != 1 {
				return fmt.Errorf("%s stands in the stream %d times", uid, found[uid])
			}
		}
		if len(found) != len(uids) {
			return fmt.Errorf("%d messages stand in the stream", len(found))
		}
		return nil
	}
	lab.Eventually(t, site.Patience, all)
	if time.Now().Before(due) {
		t.Error("they came early")
	}
	s.Emptied()
	s.Says(a, 0, "12 checked: 12 present", "redeliver", "--since", "1h")

	// The stream is lost, and created again with one message in it.
	if err := js.DeleteStream(t.Context(), site.StreamName); err != nil {
		t.Fatal(err)
	}
	if stream, err = js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s.Says(b, 0, "12 gone", "redeliver", "--since", "1h", "--dry-run")
	if n := len(stored()); n != 0 {
		t.Errorf("a dry run delivered %d messages", n)
	}
	s.Says(b, 0, "4 gone", "redeliver", "--since", begun.Add(-time.Second).UTC().Format(time.RFC3339), "--topic",
		"jobs.repair0", "--dry-run")
	s.Says(b, 0, "12 delivered again", "redeliver", "--since", "1h")
	lab.Eventually(t, site.Patience, all)
	s.Says(a, 0, "0 gone", "redeliver", "--since", "1h")
	if err := all(); err != nil {
		t.Error(err)
	}
	answer := s.Must(a, http.MethodGet, "/v1/messages/"+uids[0]+"/history", nil)
	if !strings.Contains(answer.Raw, "redelivered") {
		t.Errorf("its history lacks the redelivery: %s", answer.Raw)
	}
}
