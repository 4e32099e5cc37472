package doctor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestOneMachine_IsHeldAgainstItsDirectoryAndNoServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "made", "later")
	s := setup{"STORE": "memory", "DATA": data, "JOURNAL_MODE": "sync",
		"JOURNAL_DSN": "sqlite:" + filepath.Join(dir, "journal.db")}
	d := s.diagnosis(t).fails().has(doctor.OK, "data", "directory", "does not exist yet").has(
		doctor.OK, "data", "writable", dir).
		has(doctor.OK, "data", "nats", "embedded").has(doctor.OK, "journal", "file", "does not exist yet")
	for _, c := range d.Checks {
		if c.Group == "redis" || c.Group == "zookeeper" || c.Group == "nats" {
			t.Errorf("it looks at %s %s", c.Group, c.Name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("it made the directory")
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	s["NATS_URL"] = lab.SharedNATS(t).URL()
	s.diagnosis(t).fails().has(doctor.OK, "data", "directory", "exists").has(
		doctor.OK, "data", "nats", "sync_interval").has(doctor.OK, "nats", "reachable")
}
