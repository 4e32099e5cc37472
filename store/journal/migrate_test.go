package journal

import (
	"context"
	"database/sql"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// eachKind runs a test on every kind of database, empty.
func eachKind(t *testing.T, test func(t *testing.T, cfg Config)) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "journal.db"), "mariadb": lab.SharedMariaDB(t).Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Config{DSN: dsn, Namespace: "test", Migrate: true})
		})
	}
}

// atVersion makes the tables as a tarry of that version did.
func atVersion(t *testing.T, cfg Config, version int64) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.kind.lock(t.Context(), s, func(db *sql.DB) error {
		p, err := s.provider(db)
		if err == nil {
			_, err = p.UpTo(t.Context(), version)
		}
		return err
	})
	if err == nil {
		err = s.claimNamespace(t.Context())
	}
	if got, _ := s.Version(t.Context()); err != nil || got != version {
		t.Fatalf("version %d, %v; want %d", got, err, version)
	}
}

// asVersion1 writes a change the way version 1 did.
func asVersion1(ctx context.Context, s *SQL, c *record.Change) error {
	_, err := s.write.db.ExecContext(ctx,
		"INSERT INTO transitions (uid, version, state, at, claimed, bucket, instance, "+
			"address, term, attempt, reason, stream, sequence)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(c.UID), int64(c.Version),
		int64(c.State), int64(c.At),
		int64(c.Claimed), c.Bucket,
		c.Instance, c.Address, int64(c.Term), int64(c.Attempt), c.Reason, c.Stream, int64(c.Sequence))
	return err
}

func someChange(t *testing.T, version uint64) record.Change {
	t.Helper()
	uid, err := message.IntakeUID(1, message.Milli(1_896_076_800_000).Time(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return record.Change{UID: uid, Version: version, State: message.StateWaiting,
		At: 1_896_076_800_000 + message.Milli(version), Bucket: 3, Instance: "one", Address: "a:1", Reason: "why"}
}

func TestMigrate_KeepsTheRowsOfVersion1AndItsWriters(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg Config) {
		atVersion(t, cfg, 1)
		old, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		const rows = 500
		want := make([]record.Change, 0, rows+2)
		for n := range uint64(rows) {
			want = append(want, someChange(t, n+1))
			if err := asVersion1(t.Context(), old, &want[n]); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if at, err := s.Version(t.Context()); err != nil || at < 2 {
			t.Fatalf("version %d, %v", at, err)
		}
		// While instances are replaced one by one, an older one goes on writing.
		late := someChange(t, rows+1)
		if err := asVersion1(t.Context(), old, &late); err != nil {
			t.Fatal(err)
		}
		moved := someChange(t, rows+2)
		moved.Due, moved.Uncertain, moved.Refusals = 1_896_080_400_000, true, 4_294_967_295
		if err := s.Write(t.Context(), nil, []record.Change{moved}); err != nil {
			t.Fatal(err)
		}
		want = append(want, late, moved)
		got, err := s.History(t.Context(), moved.UID, record.MaxChanges)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%d changes, %v; the last is %+v\nwant %+v", len(got), err, got[max(len(got)-1, 0):], moved)
		}
	})
}

// A run that was killed after its statements is repeated.
func TestMigrate_GoesOnWhereItBrokeOff(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg Config) {
		atVersion(t, cfg, 2)
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.kind.file != "" {
			return // its statements and its version are one transaction
		}
		if _, err := s.write.db.ExecContext(t.Context(), "DELETE FROM "+versions+" WHERE version_id = 2"); err != nil {
			t.Fatal(err)
		}
		if from, to, err := s.Migrate(t.Context()); err != nil || from != 1 || to < 2 {
			t.Fatalf("from %d to %d, %v", from, to, err)
		}
	})
}

// A reschedule's history shows the due time that it set, and a change without one takes no space.
func TestHistory_TellsWhatAChangeMade(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg Config) {
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		changes := []record.Change{someChange(t, 1), someChange(t, 2), someChange(t, 3)}
		changes[1].Due, changes[1].Reason, changes[1].By = 1_896_080_400_000, "rescheduled", "on-call"
		changes[2].Due, changes[2].Uncertain, changes[2].Refusals = 1_896_080_400_000, true, 2
		for range 2 { // the second time nothing changes
			if err := s.Write(t.Context(), nil, changes); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.History(t.Context(), changes[0].UID, record.MaxChanges)
		if err != nil || !reflect.DeepEqual(got, changes) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, changes)
		}
		page, err := s.Changes(t.Context(), record.ChangeQuery{State: message.StateWaiting, Limit: 10})
		if err != nil || !reflect.DeepEqual(page, changes) {
			t.Errorf("got %+v, %v\nwant %+v", page, err, changes)
		}
		var empty int
		if err := s.read.db.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM transitions WHERE due IS NULL AND uncertain IS NULL AND refusals IS NULL").Scan(
			&empty); err != nil || empty != 1 {
			t.Errorf("%d rows without, %v", empty, err)
		}
	})
}

// Inspect leaves a database as it is, also one that is not there.
func TestInspect_ReadsAndMakesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, cfg Config) {
		found, err := Inspect(t.Context(), cfg)
		if err != nil || found.Schema != 0 || found.Known < 2 || found.Namespace != "" {
			t.Fatalf("got %+v, %v", found, err)
		}
		if file := found.File; found.Missing != (file != "") {
			t.Errorf("missing %v of %q", found.Missing, file)
		}
		if again, err := Inspect(t.Context(), cfg); err != nil || again.Missing != found.Missing {
			t.Errorf("got %+v, %v", again, err)
		}
		atVersion(t, cfg, 1)
		found, err = Inspect(t.Context(), cfg)
		if err != nil || found.Schema != 1 || found.Namespace != "test" || found.Missing || found.Server == "" {
			t.Fatalf("got %+v, %v", found, err)
		}
		if len(found.Forbidden) > 0 ||
			found.File == "" && (len(found.Clocks) == 0 || found.Variables["innodb_flush_log_at_trx_commit"] != "1") {
			t.Errorf("got %+v", found)
		}
	})
}
