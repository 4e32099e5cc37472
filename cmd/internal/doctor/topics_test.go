package doctor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// file gives the settings a file as well.
func (s setup) file(t *testing.T, content string) {
	t.Helper()
	s["CONFIG"] = filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(s["CONFIG"], []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holder makes streams that hold subjects, or changes which ones they hold.
func holder(t *testing.T, js jetstream.JetStream) func(name string, subjects ...string) {
	return func(name string, subjects ...string) {
		t.Helper()
		_, err := js.CreateOrUpdateStream(t.Context(),
			jetstream.StreamConfig{Name: name, Subjects: subjects, Duplicates: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTopics_WhoseCopiesAreLostOrComeBack(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["NATS_URL"] = lab.NewNATS(t).URL()
	js := dialNATS(t, s["NATS_URL"])
	hold := holder(t, js)
	s.file(t, `topics:
  - {pattern: mail.>, dead: ops.mail.dead, expired: ops.mail.late}
  - {pattern: ops.>}
`)
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic ends").
		has(doctor.Warn, "nats", "topic ends", "topics[0].dead (ops.mail.dead)", "topics[0].expired (ops.mail.late)",
			"add the subject to a stream")
	hold("DEAD", "ops.*.dead")
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic ends").has(doctor.Warn, "nats", "topic ends",
		"listens: topics[0].expired")
	create(t, js, jetstream.StreamConfig{Name: "DEAF", Subjects: []string{"ops.mail.late"}, NoAck: true})
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic ends", "nats topic acknowledgements").has(
		doctor.Warn, "nats", "topic ends", "listens: topics[0].expired")
	if err := js.DeleteStream(t.Context(), "DEAF"); err != nil {
		t.Fatal(err)
	}
	hold("LATE", "ops.mail.late")
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "nats", "topic ends")

	// Another namespace takes pushes there.
	create(t, js, jetstream.StreamConfig{Name: "TARRY_billing", Subjects: []string{"later.>"},
		Retention: jetstream.WorkQueuePolicy})
	s.file(t, "topics: [{pattern: mail.>, dead: later.mail, expired: ops.mail.late}]")
	s.diagnosis(t).fails("nats topic ends").warns("zookeeper ensemble").has(doctor.Fail, "nats", "topic ends",
		"topics[0].dead (later.mail) in TARRY_billing")

	// What is due on the subject of copies is divided in turn.
	s.file(t, `topics:
  - {pattern: mail.>, expired: ops.mail.late}
  - {pattern: ops.mail.late, partitions: 2}
`)
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic ends", "nats topic partitions").has(doctor.Warn,
		"nats", "topic ends", "listens: topics[0].expired")
	hold("PARTS", "ops.mail.late.*")
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "nats", "topic ends").has(doctor.OK, "nats",
		"topic partitions")
}

func TestTopics_WhosePartsNoStreamHolds(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["NATS_URL"] = lab.NewNATS(t).URL()
	js := dialNATS(t, s["NATS_URL"])
	hold := holder(t, js)
	const divided = `topics:
  - {pattern: orders.vip, rate: 5}
  - {pattern: "orders.*", partitions: 4}
`
	s.file(t, divided)
	// all goes to core NATS, as without
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "nats", "topic partitions")
	hold("ORDERS", "orders.remind")
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic partitions").
		has(doctor.Warn, "nats", "topic partitions", "topics[1]: ORDERS has orders.remind and not orders.remind.0",
			"add the parts to the stream")
	hold("EVEN", "orders.remind.0", "orders.remind.2")
	s.diagnosis(t).warns("zookeeper ensemble", "nats topic partitions").has(doctor.Warn, "nats", "topic partitions",
		"not orders.remind.1")
	hold("ODD", "orders.remind.1", "orders.remind.3")
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "nats", "topic partitions")
	hold("VIP", "orders.vip") // an earlier topic has it
	s.diagnosis(t).fails().warns("zookeeper ensemble")

	s.file(t, "topics: [{pattern: 'bills.>', partitions: 4}]")
	hold("BILLS", "bills.*.*") // of bills.eu the parts
	s.diagnosis(t).fails().warns("zookeeper ensemble")
	hold("BILLS", "bills.*")
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic partitions").has(doctor.Warn, "nats",
		"topic partitions", "BILLS has bills.* and not bills.*.0")
	hold("BILLS", "bills.>")
	s.diagnosis(t).fails().warns("zookeeper ensemble")
}
