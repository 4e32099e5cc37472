package doctor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestNATS_WithoutJetStream(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["NATS_URL"] = lab.NewNATS(t, lab.NoJetStream()).URL()
	s.diagnosis(t).fails("nats jetstream").has(doctor.Fail, "nats", "jetstream", "no stream keeps pushes", "store_dir")
}

// wantedIntake is as tarry makes it.
func wantedIntake(s setup) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "TARRY_" + s["NAMESPACE"], Subjects: []string{s["NATS_PREFIX"] + ".>"},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardNew, MaxBytes: 1 << 30, Duplicates: 2 * time.Minute,
	}
}

func TestNATS_WithAnIntakeThatLosesPushes(t *testing.T) {
	t.Parallel()
	base := healthy(t)
	js := dialNATS(t, base["NATS_URL"])
	for i, c := range []struct {
		change func(*jetstream.StreamConfig)
		status doctor.Status
		name   string
		words  string
	}{
		{func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, doctor.Fail, "intake",
			"stored in memory"},
		{func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }, doctor.Fail, "intake",
			"workqueue is needed"},
		{func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, doctor.Fail, "intake",
			"deletes acknowledged pushes"},
		{func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, doctor.Fail, "intake", "max_age is 1h0m0s"},
		{func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }, doctor.Fail, "intake", "limit of messages"},
		{func(c *jetstream.StreamConfig) { c.Subjects[0] += "x" }, doctor.Fail, "intake", "nats.prefix needs"},
		{func(c *jetstream.StreamConfig) { c.Duplicates = 5 * time.Second }, doctor.Warn, "intake duplicates",
			"duplicate_window 10s or more"},
		{func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 10 }, doctor.Warn, "intake room",
			"raise nats.intake.max_bytes"},
		{func(*jetstream.StreamConfig) {}, doctor.OK, "intake", "work queue on file"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := setup{}
			for k, v := range base {
				s[k] = v
			}
			s["NAMESPACE"], s["NATS_PREFIX"] = fmt.Sprintf("%s-%d", base["NAMESPACE"], i),
				fmt.Sprintf("%s-%d", base["NAMESPACE"], i)
			cfg := wantedIntake(s)
			c.change(&cfg)
			create(t, js, cfg)
			if c.name == "intake room" {
				if _, err := js.Publish(t.Context(), s["NATS_PREFIX"]+".a", make([]byte, 900)); err != nil {
					t.Fatal(err)
				}
			}
			d := s.diagnosis(t).has(c.status, "nats", c.name, c.words)
			if c.status == doctor.Fail {
				d.fails("nats " + c.name)
			} else {
				d.fails().has(doctor.OK, "nats", "intake copies", "single server").has(doctor.OK, "machine",
					"clocks", "nats")
			}
		})
	}
}

func TestNATS_WhereAnotherHoldsTheIntakesSubjects(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	create(t, dialNATS(t, s["NATS_URL"]),
		jetstream.StreamConfig{Name: "TARRY_of-" + s["NAMESPACE"], Subjects: []string{s["NATS_PREFIX"] + ".orders.>"}})
	s.diagnosis(t).fails("nats intake subjects").has(doctor.Fail, "nats", "intake subjects",
		"the intake of namespace of-"+s["NAMESPACE"], "nats.prefix")
	s["NATS_INTAKE_REPLICAS"] = "3"
	s.diagnosis(t).fails("nats intake subjects", "nats intake").has(doctor.Fail, "nats", "intake", "not a cluster")
}

func TestNATS_WithTopicsThatLoseWhatIsDelivered(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	server := lab.NewNATS(t)
	s["NATS_URL"] = server.URL()
	js := dialNATS(t, server.URL())
	create(t, js, jetstream.StreamConfig{Name: "GOOD", Subjects: []string{"good.>"}, Duplicates: 2 * time.Minute})
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "nats", "topics", "1 stream")
	create(t, js, jetstream.StreamConfig{Name: "SHORT", Subjects: []string{"short.>"}, Duplicates: time.Second})
	create(t, js, jetstream.StreamConfig{Name: "MEMORY", Subjects: []string{"memory.>"},
		Storage: jetstream.MemoryStorage, Duplicates: time.Minute})
	create(t, js, jetstream.StreamConfig{Name: "DEAF", Subjects: []string{"deaf.>"}, NoAck: true})
	create(t, js, jetstream.StreamConfig{Name: "NOBODY", Subjects: []string{"nobody.>"},
		Retention: jetstream.InterestPolicy, Duplicates: time.Minute})
	create(t, js, jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full.>"},
		Retention: jetstream.WorkQueuePolicy, MaxMsgs: 4, Discard: jetstream.DiscardOld, Duplicates: time.Minute})
	for range 4 {
		if _, err := js.Publish(t.Context(), "full.a", nil); err != nil {
			t.Fatal(err)
		}
	}
	s.diagnosis(t).fails().warns("zookeeper ensemble", "nats topic duplicates", "nats topic storage", "nats topic room",
		"nats topic consumers", "nats topic acknowledgements").
		has(doctor.Warn, "nats", "topic duplicates", "SHORT", "duplicate_window 10s").has(
		doctor.Warn, "nats", "topic storage", "MEMORY").
		has(doctor.Warn, "nats", "topic room", "FULL").has(
		doctor.Warn, "nats", "topic consumers", "NOBODY").has(doctor.Warn, "nats", "topic acknowledgements", "DEAF")
}

const users = `authorization {
  users = [
    { user: boss, password: "a-password" }
    { user: deaf, password: "a-password", permissions: { subscribe: { deny: "_INBOX.>" } } }
    { user: quiet, password: "a-password", permissions: {
      publish: ["$JS.API.>", "$SYS.REQ.USER.INFO", "_INBOX.>"], subscribe: ["_INBOX.>"] } }
    { user: shut, password: "a-password", permissions: {
      publish: ["$JS.API.INFO", "$JS.API.STREAM.LIST"], subscribe: [">"] } }
    { user: unlisted, password: "a-password", permissions: { publish: { deny: "$JS.API.STREAM.LIST" } } }
    { user: tarry, password: "a-password", permissions: {
      publish: ["tarry.NS.>", "$JS.API.>", "$JS.ACK.>", "_INBOX.>", "$SYS.REQ.USER.INFO", "orders.>"],
      subscribe: ["_INBOX.>", "tarry.NS.>", "$SRV.>", "$JS.EVENT.ADVISORY.STREAM.>"] } }
  ]
}`

func TestNATS_WhoseUserMayNotDoIt(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]lab.NATSOption{"current": nil, "2.9": {lab.NATS29()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			s["NAMESPACE"] = "ns"
			text := ""
			for i := 0; i < len(users); i++ {
				if len(users) > i+2 && users[i:i+3] == "NS." {
					text += "ns."
					i += 2
					continue
				}
				text += users[i : i+1]
			}
			server := lab.NewNATS(t, append(options, lab.NATSConfig(text))...)
			js := dialNATS(t, server.URL(), nats.UserInfo("boss", "a-password"))
			create(t, js,
				jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Duplicates: time.Minute})
			create(t, js, jetstream.StreamConfig{Name: "BILLS", Subjects: []string{"bills.>"}, Duplicates: time.Minute})
			as := func(user string) *diagnosis {
				s["NATS_URL"], s["NATS_USER"], s["NATS_PASSWORD"] = server.URL(), user, "a-password"
				return s.diagnosis(t)
			}
			as("stranger").fails("nats reachable").has(doctor.Fail, "nats", "reachable", "nats.user")
			as("boss").fails()
			as("deaf").fails("nats inbox").has(doctor.Fail, "nats", "inbox", "_INBOX.>")
			as("unlisted").fails("nats streams").has(doctor.Fail, "nats", "streams", "$JS.API.STREAM.LIST")
			as("quiet").fails("nats subscribe", "nats publish").has(
				doctor.Fail, "nats", "subscribe", "tarry.ns.nudge").has(doctor.Fail, "nats", "publish", "tarry.ns.")
			as("shut").fails("nats publish").has(doctor.Fail, "nats", "publish", "$JS.ACK")
			as("tarry").fails().has(doctor.OK, "nats", "publish").has(doctor.OK, "nats", "subscribe")
		})
	}
}

// The instance's user of docs/access.md, as it stands there, is all that a doctor wants.
func TestNATS_WithTheUsersOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(page), "\n```nats\n")
	template, _, found := strings.Cut(below, "\n```\n")
	if !found {
		t.Fatal("docs/access.md has no template of users")
	}
	template = regexp.MustCompile(`\$[A-Z]+_PASSWORD`).ReplaceAllString(template, "a-password")
	for version, options := range map[string][]lab.NATSOption{"current": nil, "2.9": {lab.NATS29()}} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			s["NAMESPACE"], s["NATS_PREFIX"] = "shop", "delayed"
			s["NATS_URL"], s["NATS_USER"], s["NATS_PASSWORD"] =
				lab.NewNATS(t, append(options, lab.NATSConfig(template))...).URL(), "tarry", "a-password"
			s.diagnosis(t).fails().has(doctor.OK, "nats", "publish").has(doctor.OK, "nats", "subscribe")

			less := strings.ReplaceAll(template, `"$JS.ACK.TARRY_shop.>", `, "")
			s["NATS_URL"] = lab.NewNATS(t, append(options, lab.NATSConfig(less))...).URL()
			d := s.diagnosis(t).fails("nats publish").
				has(doctor.Fail, "nats", "publish", "$JS.ACK.TARRY_shop.", "docs/access.md", "tarry.shop.>")
			for _, check := range d.Checks {
				if strings.Contains(check.Change, "$JS.API.>") || strings.Contains(check.Change, "$JS.ACK.>") {
					t.Errorf("it asks for more than the page gives: %s", check.Change)
				}
			}
		})
	}
}

// A system account may export the answer that shows sync_interval.
func TestNATS_ThatTellsHowItSyncs(t *testing.T) {
	t.Parallel()
	const accounts = `accounts {
  SYS: { users: [{ user: sys, password: "a-password" }], exports: [{ service: "$SYS.REQ.SERVER.PING.VARZ" }] }
  APP: { jetstream: enabled, users: [{ user: app, password: "a-password" }],
    imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ" } }] }
}
system_account: SYS`
	s := healthy(t)
	s["NATS_URL"], s["NATS_USER"], s["NATS_PASSWORD"] = lab.NewNATS(t, lab.NATSConfig(accounts)).URL(),
		"app", "a-password"
	s.diagnosis(t).fails().has(doctor.Warn, "nats", "sync_interval", "2m0s", "sync_interval: always")
}

func TestNATS_ServersThatAreAwayAreWarnedOfWhileOneIsUp(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["NATS_URL"] = "nats://" + nobody(t) + "," + s["NATS_URL"]
	s.diagnosis(t).fails().warns("nats reachable", "zookeeper ensemble")
}

// TestNATS_WhoseRejectsAreAtTheirLimit: what refused pushes the stream of rejects has to drop is told before it is.
func TestNATS_WhoseRejectsAreAtTheirLimit(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["NATS_REJECTS_PER_SUBJECT"] = "3"
	js := dialNATS(t, s["NATS_URL"])
	subject := link.RejectsSubject(s["NAMESPACE"])
	create(t, js, jetstream.StreamConfig{Name: link.RejectsName(s["NAMESPACE"]), Subjects: []string{subject + ".>"}})
	for i := range 3 {
		s.diagnosis(t).has(doctor.OK, "nats", "rejects", fmt.Sprintf("%d reject", i))
		if _, err := js.Publish(t.Context(), subject+".orders", nil); err != nil {
			t.Fatal(err)
		}
	}
	s.diagnosis(t).has(doctor.Warn, "nats", "rejects", "orders (3)")
}

func TestNATS_WhosePayloadIsLargerThanARequest(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["HTTP_BODY_LIMIT"] = "512KiB"
	s.diagnosis(t).fails().warns("nats max_payload", "zookeeper ensemble").has(doctor.Warn, "nats", "max_payload",
		"raise http.body_limit to 1 MiB")
}

// TestNATS_WhoseIntakeIsOlderThanItsConsumer has a server that comes back with the stream of before, and with its
// consumer as it was after: so may a nats-server 2.9 that was killed.
func TestNATS_WhoseIntakeIsOlderThanItsConsumer(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	server := lab.NewNATS(t, lab.NATS29())
	s["NATS_URL"] = server.URL()
	js := dialNATS(t, server.URL())
	cfg := wantedIntake(s)
	create(t, js, cfg)
	durable := jetstream.ConsumerConfig{Durable: "tarry", AckPolicy: jetstream.AckExplicitPolicy}
	push := func(count int) {
		t.Helper()
		for range count {
			if _, err := js.Publish(t.Context(), s["NATS_PREFIX"]+".a", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	accept := func(count int) {
		t.Helper()
		c, err := js.CreateOrUpdateConsumer(t.Context(), cfg.Name, durable)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := c.Fetch(count)
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(5)
	if _, err := js.CreateConsumer(t.Context(), cfg.Name, durable); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails().has(doctor.OK, "nats", "intake consumer").
		has(doctor.OK, "nats", "intake room", "5 messages")
	server.Stop()
	messages := filepath.Join(server.Dir(), "store", "jetstream", "$G", "streams", cfg.Name, "msgs")
	kept := filepath.Join(t.TempDir(), "msgs")
	if err := os.CopyFS(kept, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	js = dialNATS(t, server.URL())
	push(2)
	accept(7)
	server.Stop()
	if err := errors.Join(os.RemoveAll(messages), os.CopyFS(messages, os.DirFS(kept))); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	js = dialNATS(t, server.URL())
	s.diagnosis(t).fails().
		has(doctor.Warn, "nats", "intake consumer", "up to sequence 7", "the last of "+cfg.Name+" is 5",
			"makes a new consumer")
	push(2)
	s.diagnosis(t).fails().
		has(doctor.Warn, "nats", "intake consumer", "holds messages up to sequence 7", "makes a new consumer")
	if err := js.DeleteConsumer(t.Context(), cfg.Name, durable.Durable); err != nil { // as an instance does
		t.Fatal(err)
	}
	accept(7)
	s.diagnosis(t).fails().has(doctor.OK, "nats", "intake consumer").
		has(doctor.OK, "nats", "intake room", "0 messages")
}
