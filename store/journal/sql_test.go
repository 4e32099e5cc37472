package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/journal/journaltest"
)

// open opens a journal that the test's end closes.
func open(t testing.TB, dsn string, with ...func(*journal.Config)) *journal.SQL {
	t.Helper()
	cfg := journal.Config{DSN: dsn, Namespace: "test", MaxRow: journaltest.MaxRow, Migrate: true,
		Log: zerolog.New(zerolog.NewTestWriter(t))}
	for _, w := range with {
		w(&cfg)
	}
	s, err := journal.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sqliteDSN(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "a journal?#%.db") }

func TestSQLite_KeepsEveryPromise(t *testing.T) {
	t.Parallel()
	journaltest.Exercise(t, func(t *testing.T) journal.Store { return open(t, sqliteDSN(t)) })
}

func TestSQLite_HoldsUnderRandomWrites(t *testing.T) {
	t.Parallel()
	journaltest.ExerciseModel(t, open(t, sqliteDSN(t)), nil)
}

func TestMariaDB_KeepsEveryPromise(t *testing.T) {
	t.Parallel()
	journaltest.Exercise(t, func(t *testing.T) journal.Store { return open(t, lab.SharedMariaDB(t).Database(t)) })
}

func TestMariaDB_HoldsUnderRandomWrites(t *testing.T) {
	t.Parallel()
	journaltest.ExerciseModel(t, open(t, lab.SharedMariaDB(t).Database(t)), journal.Retryable)
}
