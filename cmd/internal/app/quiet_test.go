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
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	cfg := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "quiet", "a"), "sync",
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
	for line := range bytes.Lines(log.bytes()) {
		if text := string(line); strings.Contains(text, "again") || strings.Contains(text, `"level":"warn"`) {
			t.Errorf("a start with nothing amiss logs %s", text)
		}
	}
	if n := bytes.Count(log.bytes(), []byte("certified\"")); n != 1 {
		t.Errorf("%d lines of certification, want one: %s", n, log.bytes())
	}
}
