package journal_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// A message is larger than the database's max_allowed_packet, as after a failover to a server with a smaller one.
// Nobody waits for what that will never take.
func TestWriter_NobodyWaitsForWhatTheDatabaseNeverTakes(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t, "--max-allowed-packet=256K")
	store := open(t, server.Database(t), func(c *journal.Config) { c.MaxRow = 64 << 10 })
	var writer *journal.Writer
	tl, err := memory.New(memory.Config{Buckets: 1, Record: &record.Recording{Instance: "a", Address: "a:1",
		Limit: 64 << 20, Wrote: func(e record.Entry) { writer.Wrote(e) }}})
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	writer = journal.NewWriter(journal.WriterConfig{Store: store, Mode: journal.Sync, Timeout: 5 * time.Second,
		Log: zerolog.Nop()})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- writer.Run(ctx, tl, nil) }()
	defer func() { stop(); <-done }()
	const n, large = 40, 20
	var changes []scheduler.Recorded
	for i := range n {
		m := schedulertest.Message(i)
		if i == large {
			m.Body = bytes.Repeat([]byte("x"), 600<<10)
		}
		if _, _, err := tl.Add(t.Context(), 0, []*message.Message{m}, schedulertest.Start); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, scheduler.Recorded{UID: m.UID, Version: 1})
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Minute) // without an end of its own, it was for ever
	defer cancel()
	held := map[int]bool{}
	if err := writer.Await(limited, changes, func(i int, bare bool) { held[i] = bare }); err != nil || len(held) != n {
		t.Fatalf("the journal has %d of %d changes: %v", len(held), n, err)
	}
	for i, bare := range held {
		if bare != (i == large) {
			t.Errorf("message %d: without its content: %t", i, bare)
		}
	}
	if err := writer.Ready(); err != nil {
		t.Errorf("pushes are refused: %v", err)
	}
}
