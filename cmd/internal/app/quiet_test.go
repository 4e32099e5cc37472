package app_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestLog_StartsQuietlyAndNamesTheDead: a new namespace is certified in one line,
// and what died is named as its producer calls it.
func TestLog_StartsQuietlyAndNamesTheDead(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		log := startsAndLosesOne(t, fmt.Sprint("quiet", n))
		if bytes.Contains(log, []byte("deadline exceeded")) || bytes.Contains(log, []byte("i/o timeout")) ||
			bytes.Contains(log, []byte("some buckets take no pushes")) {
			continue // something was amiss: on a busy machine a call, or the whole start, took too long
		}
		for line := range bytes.Lines(log) {
			text := string(line)
			if strings.Contains(text, "the journal is not prepared yet") {
				continue // a slow disk is logged, and nobody leads before
			}
			if strings.Contains(text, "again") || strings.Contains(text, `"level":"warn"`) {
				t.Errorf("a start with nothing amiss logs %s", text)
			}
		}
		if n := bytes.Count(log, []byte("certified\"")); n != 1 {
			t.Errorf("%d lines of certification, want one: %s", n, log)
		}
		return
	}
	t.Fatal("at each start a call ran into its time-out, or the store was not certified in time")
}

// startsAndLosesOne runs an instance until a message is dead, and returns what it logged.
func startsAndLosesOne(t *testing.T, namespace string) []byte {
	t.Helper()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	cfg := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, namespace, "a"), "sync",
		"sqlite:"+filepath.Join(t.TempDir(), "journal.db"))
	log := &lines{}
	i := startLogging(t, cfg, zerolog.New(log).Level(zerolog.InfoLevel))
	i.ready()
	i.cluster()
	i.says("POST", "/v1/messages", `{"topic":"quiet.x","id":"order-1","attempt":3,"retry":"1m","reason":"no stock"}`)
	lab.Eventually(t, 10*time.Second, func() error {
		for line := range bytes.Lines(log.bytes()) {
			if text := string(line); strings.Contains(text, `"message is dead"`) {
				if !strings.Contains(text, `"id":"order-1"`) {
					t.Errorf("got %s", text)
				}
				return nil
			}
		}
		return fmt.Errorf("nothing is dead: %s", log.bytes())
	})
	logged := log.bytes()
	i.stop()
	return logged
}
