package journal_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// life is what happens to the n-th message: accepted, returned, delivered.
func life(t testing.TB, n int) []record.Change {
	t.Helper()
	m := &message.Message{Topic: "orders", ID: fmt.Sprintf("order-%d", n), Body: fmt.Appendf(nil, "body %d", n),
		Due: 1_900_000_000_000, Attempt: 1}
	uid, err := message.IntakeUID(uint64(n), message.Milli(1_890_000_000_000+n).Time(), m.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	m.UID = uid
	c := record.Change{UID: uid, Version: 1, State: message.StateWaiting, At: m.Due - 9, Due: m.Due, Message: m,
		Instance: "test"}
	back, end := c, c
	back.Version, back.At, back.Message, back.Uncertain, back.Refusals = 2, m.Due, nil, true, 1
	end.Version, end.At, end.Message, end.State, end.Uncertain, end.Refusals = 3, m.Due+1, nil,
		message.StateDelivered, true, 1
	return []record.Change{c, back, end}
}

// persist repeats a write until it succeeds.
func persist(ctx context.Context, s *journal.SQL, changes []record.Change) error {
	for {
		err := s.Write(ctx, map[message.Bucket]uint64{0: 1}, changes)
		if err == nil || !journal.Retryable(err) || ctx.Err() != nil {
			return err
		}
	}
}

// wantLives wants whole lives of that many messages.
func wantLives(t *testing.T, s *journal.SQL, n int) {
	t.Helper()
	for i := range n {
		l := life(t, i)
		records, err := s.Records(t.Context(), []message.UID{l[0].UID})
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != 1 || records[0].Version != 3 || records[0].State != message.StateDelivered ||
			records[0].Content != 1 || string(records[0].Body) != string(l[0].Message.Body) {
			t.Fatalf("message %d is %+v", i, records)
		}
		history, err := s.History(t.Context(), l[0].UID, record.MaxChanges)
		if err != nil {
			t.Fatal(err)
		}
		if len(history) != 3 {
			t.Fatalf("message %d has %d changes, want 3", i, len(history))
		}
	}
}

// writeLives writes the lives of n messages by several writers, in batches that overlap and whose order is the writer's
// own, and calls half when half of it is written.
func writeLives(t *testing.T, s *journal.SQL, n int, half func()) {
	t.Helper()
	const writers = 6
	var changes []record.Change
	for i := range n {
		changes = append(changes, life(t, i)...)
	}
	var written atomic.Int64
	var once sync.Once
	reached := make(chan struct{})
	var writing sync.WaitGroup
	for w := range writers {
		own := slices.Clone(changes)
		random := rand.New(rand.NewPCG(uint64(w), 7))
		random.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
		writing.Go(func() {
			for batch := range slices.Chunk(own, 40) {
				if err := persist(t.Context(), s, batch); err != nil {
					t.Errorf("writer %d: %v", w, err)
					once.Do(func() { close(reached) })
					return
				}
				if written.Add(int64(len(batch))) >= int64(writers*len(changes)/2) {
					once.Do(func() { close(reached) })
				}
			}
		})
	}
	<-reached
	half()
	writing.Wait()
}

func TestMariaDB_LosesNothingWhereManyWriteTheSame(t *testing.T) {
	t.Parallel()
	s := open(t, lab.SharedMariaDB(t).Database(t))
	writeLives(t, s, 200, func() {})
	wantLives(t, s, 200)
}

func TestMariaDB_LosesNothingWhenItIsKilled(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t)
	s := open(t, server.Database(t))
	writeLives(t, s, 300, func() {
		server.Kill()
		server.Restart()
	})
	wantLives(t, s, 300)
}

func TestMariaDB_KeepsDeadlinesWhenItStandsStill(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t)
	s := open(t, server.Database(t))
	server.Pause()
	for range 3 { // on a connection that was open before, and on new ones
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := s.Write(ctx, map[message.Bucket]uint64{0: 1}, life(t, 0))
		cancel()
		if took := time.Since(start); err == nil || !journal.Retryable(err) || took > 5*time.Second {
			t.Fatalf("got %v after %s", err, took)
		}
	}
	server.Resume()
	if err := persist(t.Context(), s, life(t, 0)); err != nil {
		t.Fatal(err)
	}
	wantLives(t, s, 1)
}

func TestSQLite_KeepsDeadlinesWhileAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	dsn := sqliteDSN(t)
	s := open(t, dsn)
	other, err := sql.Open("sqlite",
		"file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(strings.TrimPrefix(dsn, "sqlite:")))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, nil, life(t, 0)); !errors.Is(err, context.DeadlineExceeded) || !journal.Retryable(err) {
		t.Fatalf("got %v, want the deadline", err)
	}
	if _, err := s.Versions(t.Context(), []message.UID{life(t, 0)[0].UID}); err != nil {
		t.Fatalf("a reader waits too: %v", err)
	}
	if _, err := other.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := persist(t.Context(), s, life(t, 0)); err != nil {
		t.Fatal(err)
	}
	wantLives(t, s, 1)
}

// TestSQLite_KeepsWhatItAnsweredWhenKilled runs itself as a process that writes one message after another and reports
// each, and kills it.
func TestSQLite_KeepsWhatItAnsweredWhenKilled(t *testing.T) {
	if dsn := os.Getenv("TARRY_TEST_WRITER"); dsn != "" {
		s := open(t, dsn)
		for i := 0; ; i++ {
			if err := s.Write(t.Context(), nil, life(t, i)); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("wrote %d\n", i)
		}
	}
	t.Parallel()
	dsn := sqliteDSN(t)
	wrote := 0
	for round := range 3 {
		writer := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		writer.Env = append(os.Environ(), "TARRY_TEST_WRITER="+dsn)
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n := 0
			if _, err := fmt.Sscanf(lines.Text(), "wrote %d", &n); err != nil {
				t.Fatalf("the writer says %q", lines.Text())
			}
			if wrote = max(wrote, n+1); n >= 20*(round+1) {
				writer.Process.Kill()
			}
		}
		writer.Wait() // killed, as was asked
		wantLives(t, open(t, dsn), wrote)
	}
	if wrote < 60 {
		t.Fatalf("only %d were written", wrote)
	}
}
