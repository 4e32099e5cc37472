package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// A push by tag that a statement of the journal could not carry, with every byte of it escaped, is rejected: once
// stored, it would hold up all that follows it in its bucket.
func TestIntake_RejectsWhatTheJournalCouldNotWrite(t *testing.T) {
	t.Parallel()
	natsSrv := lab.NewNATS(t, lab.NATSConfig("max_payload: 16MB"))
	redisSrv, zkSrv := lab.SharedRedis(t), lab.SharedZooKeeper(t)
	dsn := lab.SharedMariaDB(t).Database(t)
	a := start(t, journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "rowsize", "a"), "sync", dsn))
	a.ready()
	a.cluster()
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m := &nats.Msg{Subject: "delayed.rowsize.x", Header: nats.Header{"Tarry-Delay": {"1h"}},
		Data: make([]byte, 8<<20-1024)} // MariaDB escapes the byte 0
	if _, err := nc.RequestMsg(m, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 10*time.Second, func() error {
		if status, text := a.says("GET", "/v1/rejects", ""); status != http.StatusOK || !strings.Contains(text, "too_large") {
			return fmt.Errorf("got %d %s, want one that is too large", status, text)
		}
		return nil
	})
	// Over HTTP: the byte ' takes one in JSON, and two where MariaDB escapes it.
	large := strings.Repeat("'", 8<<20-1024)
	if status, text := a.says("POST", "/v1/messages", `{"topic":"rowsize.x","body":"`+large+`","delay":"1h"}`); status !=
		http.StatusRequestEntityTooLarge || !strings.Contains(text, "too_large") {
		t.Errorf("got %d %.200s", status, text)
	}
	a.push(`{"topic":"rowsize.x","body":"1","delay":"1h"}`)
}
