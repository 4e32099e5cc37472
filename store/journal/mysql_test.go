package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func openMariaDB(t *testing.T, dsn string) *SQL {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: dsn, Namespace: "test", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	s.write.db.SetMaxOpenConns(1)
	t.Cleanup(func() { s.Close() })
	return s
}

// An instance that lost its power in the middle of a write keeps its locks only as long as its session, and that is not
// for the leader to wait for long.
func TestMariaDB_FenceWaitsForWritesButNotForTheDead(t *testing.T) {
	t.Parallel()
	dsn := lab.SharedMariaDB(t).Database(t)
	writer, leader := openMariaDB(t, dsn), openMariaDB(t, dsn)
	fences := map[message.Bucket]uint64{0: 1}
	if err := writer.Write(t.Context(), fences, nil); err != nil {
		t.Fatal(err)
	}
	tx, err := writer.write.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := writer.checkFences(t.Context(), tx, fences); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := leader.Fence(short, 0, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("while a write is under way: got %v, want the deadline", err)
	}
	start := time.Now()
	if err := leader.Fence(t.Context(), 0, 2); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > serverPatience+3*time.Second {
		t.Fatalf("the fence took %s", took)
	}
	if err := tx.Commit(); err == nil {
		t.Fatal("the silent write was committed")
	}
	if err := writer.Write(t.Context(), fences, nil); !errors.Is(err, scheduler.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
}

// rowsRead counts the rows and index entries that the one session has read.
func rowsRead(t *testing.T, s *SQL) (n int) {
	t.Helper()
	err := each(t.Context(), s.read, "SHOW SESSION STATUS LIKE 'Handler_read%'", nil, func(row scanner) error {
		var name string
		var value int
		err := row.Scan(&name, &value)
		n += value
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever is asked, wherever the page lies and however many are due in the same millisecond: a page costs about as
// much as it holds.
func TestMariaDB_ReadsNoMoreThanAPageHolds(t *testing.T) {
	t.Parallel()
	s := openMariaDB(t, lab.SharedMariaDB(t).Database(t))
	const total, limit = 20_000, 50
	const due message.Milli = 1_900_000_000_000
	var uids []message.UID
	for from := 0; from < total; from += 1000 {
		var changes []record.Change
		for i := from; i < from+1000; i++ {
			m := &message.Message{Topic: "orders", ID: "same", Key: "same", Due: due + message.Milli(i%2),
				Body: make([]byte, 10)}
			uid, err := message.IntakeUID(uint64(i), (due + message.Milli(i)).Time(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			m.UID, uids = uid, append(uids, uid)
			c := record.Change{UID: uid, Version: 1, State: message.StateWaiting, At: due, Due: m.Due, Message: m}
			changes = append(changes, c)
			if i%4 == 3 {
				c.Version, c.State, c.Message = 2, message.StateDelivered, nil
				changes = append(changes, c)
			}
		}
		if err := s.Write(t.Context(), nil, changes); err != nil {
			t.Fatal(err)
		}
	}
	// MariaDB makes index statistics as it likes; what it reads may not depend on them.
	waiting := []message.State{message.StateWaiting}
	deep := record.RecordQuery{AfterDue: due, AfterUID: uids[total/2], Limit: limit}
	queries := map[string]func() (int, error){}
	for name, q := range map[string]record.RecordQuery{
		"all":                {},
		"waiting":            {States: waiting},
		"topic":              {Topic: "orders"},
		"waiting of a topic": {Topic: "orders", States: waiting},
		"key":                {Key: "same"},
		"all places":         {Places: true},
		"nothing":            {States: []message.State{message.StateDead}},
		"a bound":            {DueFrom: due, DueTo: due + 1},
	} {
		q.Limit = limit
		queries["first page of "+name] = func() (int, error) { r, err := s.List(t.Context(), q); return len(r), err }
		q.AfterDue, q.AfterUID = deep.AfterDue, deep.AfterUID
		latest := q
		latest.Latest = true
		queries["latest page of "+name] = func() (int, error) {
			r, err := s.List(t.Context(), latest)
			return len(r), err
		}
		queries["deep page of "+name] = func() (int, error) { r, err := s.List(t.Context(), q); return len(r), err }
	}
	for name, q := range map[string]record.ChangeQuery{
		"changes":                {},
		"changes to delivered":   {State: message.StateDelivered},
		"changes since":          {Since: due},
		"changes to dead":        {State: message.StateDead},
		"a deep page of changes": {AfterAt: due, AfterUID: uids[total/2], AfterVersion: 1},
	} {
		q.Limit = limit
		queries[name] = func() (int, error) { c, err := s.Changes(t.Context(), q); return len(c), err }
	}
	queries["find by uid"] = func() (int, error) {
		r, err := s.Find(t.Context(), scheduler.Ref{UID: uids[total/2]}, limit)
		return len(r), err
	}
	queries["find by id"] = func() (int, error) {
		r, err := s.Find(t.Context(), scheduler.Ref{ID: "same"}, limit)
		return len(r), err
	}
	queries["prune"] = func() (int, error) { return s.Prune(t.Context(), due+1, limit) }
	queries["prune nothing"] = func() (int, error) { return s.Prune(t.Context(), due, limit) }
	for name, ask := range queries {
		before := rowsRead(t, s)
		n, err := ask()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The status itself, two states, keys and rows, and changes by message.
		if read := rowsRead(t, s) - before; read > 12*limit+100 {
			t.Errorf("%s: %d rows read for %d", name, read, n)
		}
	}
}

func TestSQLite_SortsNothingItself(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(),
		Config{DSN: sqliteScheme + t.TempDir() + "/journal.db", Namespace: "test", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, q := range []record.RecordQuery{{}, {Topic: "a"}, {Key: "a"},
		{Topic: "a", Key: "b", States: []message.State{1, 2}}} {
		for _, r := range s.ranges(q) {
			for _, w := range []where{r.where, r.and("due = ?", 5).and("uid > ?", "t"),
				r.and("due >= ?", 5).and("due <= ?", 6)} {
				for _, order := range []string{ascending, descending} {
					query := "SELECT due, uid FROM " + r.from + " WHERE " + w.clause + order
					plan := plan(t, s, query, append(slices.Clip(w.args), 9)...)
					if slices.ContainsFunc(plan,
						func(step string) bool { return step[:4] == "USE " || step[:4] == "SCAN" }) {
						t.Errorf("%s%s: %q", w.clause, order, plan)
					}
				}
			}
		}
	}
}

func plan(t *testing.T, s *SQL, query string, args ...any) (steps []string) {
	t.Helper()
	err := each(t.Context(), s.read, "EXPLAIN QUERY PLAN "+query, args, func(row scanner) error {
		var id, parent, unused int
		var step string
		err := row.Scan(&id, &parent, &unused, &step)
		steps = append(steps, fmt.Sprintf("%-4s", step))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}
