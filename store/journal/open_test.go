package journal_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// stores are the databases that a journal can be in, empty.
var stores = map[string]func(testing.TB) string{
	"sqlite":  sqliteDSN,
	"mariadb": func(t testing.TB) string { return lab.SharedMariaDB(t).Database(t) },
}

// inEach runs a test on every kind of database.
func inEach(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Parallel()
	for name, dsn := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dsn(t))
		})
	}
}

func config(dsn string) journal.Config { return journal.Config{DSN: dsn, Namespace: "test"} }

// unfit wants Open to refuse for good, saying so.
func unfit(t *testing.T, cfg journal.Config, words ...string) {
	t.Helper()
	s, err := journal.Open(t.Context(), cfg)
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, journal.ErrUnfit) || journal.Retryable(err) {
		t.Fatalf("got %v, want ErrUnfit", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// run runs a statement past the journal.
func run(t *testing.T, dsn, statement string) {
	t.Helper()
	driver, name := "mysql", dsn
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, name = "sqlite", "file:"+strings.NewReplacer("?", "%3f", "#", "%23", "%", "%25").Replace(file)
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_MigratesAnEmptyDatabaseOnlyWhenAsked(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		cfg := config(dsn)
		unfit(t, cfg, "version 0", "tarry migrate")
		cfg.Migrate = true
		for range 2 {
			s, err := journal.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			version, err := s.Version(t.Context())
			if err != nil || version < 1 {
				t.Fatalf("version %d, %v", version, err)
			}
			if from, to, err := s.Migrate(t.Context()); from != version || to != version || err != nil {
				t.Fatalf("migrated from %d to %d, %v; want %d", from, to, err, version)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			cfg.Migrate = false
		}
	})
}

// Nothing is read from, or written to, a database before it is known to be ours.
func TestNew_IsClosedUntilItIsPrepared(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		cfg := config(dsn)
		cfg.Migrate = true
		s, err := journal.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := schedulertest.Message(1)
		accepted := record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, Due: m.Due, Message: m}
		uids := []message.UID{m.UID}
		calls := map[string]func(context.Context) error{
			"write":   func(ctx context.Context) error { return s.Write(ctx, nil, []record.Change{accepted}) },
			"fenced":  func(ctx context.Context) error { return s.Write(ctx, map[message.Bucket]uint64{0: 1}, nil) },
			"fence":   func(ctx context.Context) error { return s.Fence(ctx, 0, 1) },
			"pause":   func(ctx context.Context) error { return s.WritePause(ctx, scheduler.PauseChange{}) },
			"ping":    s.Ping,
			"fences":  func(ctx context.Context) error { _, err := s.Fences(ctx); return err },
			"pauses":  func(ctx context.Context) error { _, err := s.Pauses(ctx); return err },
			"term":    func(ctx context.Context) error { _, err := s.MaxTerm(ctx); return err },
			"prune":   func(ctx context.Context) error { _, err := s.Prune(ctx, 9, 9); return err },
			"version": func(ctx context.Context) error { _, err := s.Versions(ctx, uids); return err },
			"records": func(ctx context.Context) error { _, err := s.Records(ctx, uids); return err },
			"history": func(ctx context.Context) error { _, err := s.History(ctx, m.UID, record.MaxChanges); return err },
			"find":    func(ctx context.Context) error { _, err := s.Find(ctx, scheduler.Ref{ID: "a"}, 1); return err },
			"names":   func(ctx context.Context) error { _, err := s.Names(ctx, []*message.Message{m}); return err },
			"list": func(ctx context.Context) error {
				_, err := s.List(ctx, record.RecordQuery{Limit: 1})
				return err
			},
			"changes": func(ctx context.Context) error {
				_, err := s.Changes(ctx, record.ChangeQuery{Limit: 1})
				return err
			},
			"forecast": func(ctx context.Context) error {
				_, err := s.Forecast(ctx, record.ForecastQuery{Until: 9, Step: 1})
				return err
			},
		}
		for name, call := range calls {
			if err := call(t.Context()); !errors.Is(err, scheduler.ErrUnavailable) {
				t.Errorf("%s: got %v, want ErrUnavailable", name, err)
			}
		}
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, call := range calls {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s of a prepared journal: %v", name, err)
			}
		}
	})
}

func TestMigrate_TellsTheVersionsAndMakesTheDatabaseFit(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		from, to, err := journal.Migrate(t.Context(), config(dsn))
		if err != nil || from != 0 || to < 1 {
			t.Fatalf("migrated from %d to %d, %v", from, to, err)
		}
		if again, same, err := journal.Migrate(t.Context(), config(dsn)); err != nil || again != to || same != to {
			t.Fatalf("migrated again from %d to %d, %v", again, same, err)
		}
		s, err := journal.Open(t.Context(), config(dsn))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	})
}

func TestOpen_MigratesFromSeveralInstancesAtOnce(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		var opening sync.WaitGroup
		for i := range 4 {
			opening.Go(func() {
				cfg := config(dsn)
				cfg.Migrate = true
				s, err := journal.Open(t.Context(), cfg)
				if err != nil {
					t.Errorf("instance %d: %v", i, err)
					return
				}
				defer s.Close()
				if _, err := s.Find(t.Context(), scheduler.Ref{ID: "a"}, 1); err != nil {
					t.Errorf("instance %d: %v", i, err)
				}
			})
		}
		opening.Wait()
	})
}

func TestOpen_RefusesANewerSchema(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		open(t, dsn)
		run(t, dsn, "INSERT INTO schema_versions (version_id, is_applied) VALUES (99, true)")
		cfg := config(dsn)
		unfit(t, cfg, "version 99", "newer")
		cfg.Migrate = true
		unfit(t, cfg, "version 99", "newer")
		if _, _, err := journal.Migrate(t.Context(), cfg); !errors.Is(err, journal.ErrUnfit) {
			t.Fatalf("migrate: got %v, want ErrUnfit", err)
		}
	})
}

func TestOpen_RefusesAnotherNamespace(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		open(t, dsn)
		for _, other := range []string{"other", "Test", "test "} {
			cfg := config(dsn)
			cfg.Namespace = other
			unfit(t, cfg, `"test"`, fmt.Sprintf("%q", other))
			if _, _, err := journal.Migrate(t.Context(), cfg); !errors.Is(err, journal.ErrUnfit) {
				t.Fatalf("migrate: got %v, want ErrUnfit", err)
			}
		}
		open(t, dsn)
	})
}

func TestOpen_RefusesAServerThatTakesNoLargeStatements(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t, "--max-allowed-packet=2M")
	cfg := config(server.Database(t))
	cfg.MaxRow, cfg.Migrate = 1<<20, true
	unfit(t, cfg, "max_allowed_packet", "2097152", "2162688")
	cfg.MaxRow = 1<<20 - 32<<10
	s, err := journal.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestOpen_KeepsThePasswordToItself(t *testing.T) {
	t.Parallel()
	const password = "s3cr3t-word"
	closed := fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
	server := lab.SharedMariaDB(t)
	for _, dsn := range []string{
		"tarry:" + password, "tarry:" + password + "@tcp(127.0.0.1/db", "tarry:" + password + "@tcp(127.0.0.1)/",
		"tarry:" + password + "@/db?tls=" + password,
		"tarry:" + password + "@/db?parseTime=" + password, "tarry:" + password + "@/%zz" + password,
		"tarry:" + password + "@tcp(" + closed + ")/db",
		"tarry:" + password + "@tcp(" + server.Addr + ")/db",
	} {
		s, err := journal.Open(t.Context(), config(dsn))
		if err == nil {
			s.Close()
			t.Fatalf("%s was opened", dsn)
		}
		if strings.Contains(err.Error(), password) {
			t.Errorf("the password is in %q", err)
		}
		if strings.Contains(dsn, "127.0.0.1:") != journal.Retryable(err) {
			t.Errorf("%s: retryable is %v: %v", dsn, journal.Retryable(err), err)
		}
	}
	if _, err := journal.Open(t.Context(), config("sqlite:")); !errors.Is(err, journal.ErrUnfit) {
		t.Errorf("no file: got %v, want ErrUnfit", err)
	}
	if _, err := journal.Open(
		t.Context(), config("sqlite:"+filepath.Join(t.TempDir(), "no", "such", "folder"))); err == nil {
		t.Error("a file in no folder was opened")
	}
	if _, err := journal.Open(t.Context(), journal.Config{DSN: sqliteDSN(t)}); err == nil {
		t.Error("no namespace was taken")
	}
}

// A server may be set up so that it cuts texts, reads backslashes as themselves and quotes as names; sessions must not
// depend on it, nor on the DSN.
func TestOpen_SetsWhatStatementsDependOn(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t, "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
		"--character-set-server=latin1", "--collation-server=latin1_swedish_ci",
		"--transaction-isolation=SERIALIZABLE", "--autocommit=1")
	dsn := server.Database(t) +
		"?sql_mode=%27ANSI_QUOTES%27&parseTime=true&charset=latin1&collation=latin1_swedish_ci" +
		"&interpolateParams=false&multiStatements=true&wait_timeout=1"
	s := open(t, dsn)
	m := &message.Message{Topic: `a"b'c\d`, ID: "ä🕰️\\", Body: []byte("\\\x00'\"\xff"), Due: 5}
	uid, err := message.IntakeUID(1, time.UnixMilli(1_900_000_000_000), m.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	m.UID = uid
	c := record.Change{UID: uid, Version: 1, State: message.StateWaiting, Due: 5, Message: m,
		Reason: `it's "so" \`}
	if err := s.Write(t.Context(), map[message.Bucket]uint64{1: 1}, []record.Change{c}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Find(t.Context(), scheduler.Ref{ID: m.ID}, 9)
	if err != nil || len(found) != 1 || found[0].Topic != m.Topic || found[0].Reason != c.Reason {
		t.Fatalf("found %+v, %v", found, err)
	}
	whole, err := s.Records(t.Context(), []message.UID{uid})
	if err != nil || len(whole) != 1 || string(whole[0].Body) != string(m.Body) {
		t.Fatalf("found %+v, %v", whole, err)
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, dsn := range stores {
		cfg := config(dsn(t))
		cfg.Migrate = true
		if _, err := journal.Open(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	}
}

// What waits may hold anything, so only the owner of the files may read them.
func TestSQLite_KeepsItsFilesFromOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"made.db", "was there.db"} {
		file := filepath.Join(dir, name)
		if name != "made.db" {
			if err := os.WriteFile(file, nil, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		cfg := config("sqlite:" + file)
		cfg.Migrate = true
		s, err := journal.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, end := range []string{"", "-wal", "-shm", "-migration"} {
			want := os.FileMode(0o600)
			if name != "made.db" && end != "-migration" {
				want = 0o640 // whoever made it chose that
			}
			info, err := os.Stat(file + end)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != want {
				t.Errorf("%s%s has %v, want %v", name, end, info.Mode().Perm(), want)
			}
		}
	}
}
