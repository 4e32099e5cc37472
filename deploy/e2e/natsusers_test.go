package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// natsUsers is the template of docs/access.md, word for word, with a password for each user.
func natsUsers(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```nats\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/access.md has no template of users")
	}
	text := strings.ReplaceAll(string(found[1]), "$TARRY_PASSWORD", site.NATSPassword)
	return regexp.MustCompile(`\$([A-Z]+)_PASSWORD`).ReplaceAllStringFunc(text, func(name string) string {
		return "of-" + strings.ToLower(name[1:])
	})
}

// Every role of the template can do what it is for, and nothing else.
func TestNATSUsers_MayDoWhatTheirRoleIsForAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, version := range map[string][]lab.NATSOption{"2.9": {lab.NATS29()}, "current": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rolesOn(t, version)
		})
	}
}

func rolesOn(t *testing.T, version []lab.NATSOption) {
	s := &site.Site{T: t, Ns: "shop", Settings: []string{"TARRY_NATS_ADMIN=true"}}
	s.Binary = site.Binary(t)
	s.Redis = lab.NewRedis(t, "--requirepass", site.RedisPassword)
	s.RedisAddr = s.Redis.Addr
	root := `{ user: root, password: of-root }` // of the test alone: it makes the stream
	users := strings.Replace(natsUsers(t), "users = [", "users = [\n"+root, 1)
	s.Nats = lab.NewNATS(t, append(version, lab.NATSConfig(users))...)
	s.Zk = lab.NewZooKeeper(t)
	a := s.Start("a")

	as := func(role string) *nats.Conn {
		nc, err := nats.Connect(s.Nats.URL(),
			nats.UserInfo(role, "of-"+role+map[bool]string{false: "_password"}[role == "root"]),
			nats.CustomInboxPrefix("_INBOX."+role), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	js, err := jetstream.New(as("root"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreateConsumer(
		t.Context(), jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}

	for role, r := range map[string]struct {
		can    func(*testing.T, *nats.Conn)
		cannot []string // publish there
		hears  []string // may not subscribe to
	}{
		"producer": {producerCan, []string{"delayed.mail.x", "tarry.shop.push.mail.x", "orders.x",
			"tarry.shop.api.push", "tarry.shop.api.get",
			"tarry.shop.read.list", "tarry.shop.admin.pause",
			"tarry.shop.resign", "tarry.shop.nudge", "tarry.shop.aside.0", "tarry.shop.pauses", "tarry.shop.peers",
			"tarry.shop.rejected.orders", "$JS.API.STREAM.DELETE.TARRY_shop", "$SRV.PING"},
			[]string{"tarry.shop.>", "delayed.>", "orders.>", "_INBOX.operator.>"}},
		"consumer": {consumerCan, []string{"delayed.mail.x", "tarry.shop.push.mail.x", "orders.x", "tarry.shop.api.cancel",
			"tarry.shop.read.list", "tarry.shop.admin.pause", "tarry.shop.resign",
			"tarry.shop.aside.0", "$JS.API.CONSUMER.DELETE.ORDERS.billing",
			"$JS.API.STREAM.MSG.GET.TARRY_REJECTED_shop"},
			[]string{"mail.x", "tarry.shop.rejected.>", "delayed.>"}},
		"reader": {readerCan,
			[]string{"delayed.orders.x", "tarry.shop.push.orders.x", "tarry.shop.api.push",
				"tarry.shop.api.cancel", "tarry.shop.admin.pause",
				"tarry.shop.resign", "tarry.shop.nudge", "tarry.shop.aside.0", "tarry.shop.pauses", "tarry.shop.peers"},
			[]string{"tarry.shop.rejected.>", "orders.>"}},
		"operator": {operatorCan, []string{"delayed.orders.x", "orders.x", "tarry.shop.resign", "tarry.shop.nudge",
			"tarry.shop.aside.0", "tarry.shop.pauses", "tarry.shop.peers", "tarry.shop.rejected.orders",
			"$JS.API.STREAM.DELETE.ORDERS"},
			[]string{"tarry.shop.>", "orders.>"}},
		"tarry": {nil, []string{"$JS.API.STREAM.DELETE.ORDERS", "$JS.API.STREAM.DELETE.TARRY_shop",
			"$JS.API.STREAM.CREATE.OTHER", "mail.x", "tarry.other.resign"}, []string{"orders.>"}},
	} {
		t.Run(role, func(t *testing.T) {
			connect := as
			if role == "tarry" {
				connect = func(string) *nats.Conn { return s.Connect("instance") }
			}
			if r.can != nil {
				nc := connect(role)
				r.can(t, nc)
				if err := nc.LastError(); err != nil {
					t.Errorf("what it is for: %v", err)
				}
			}
			for _, subject := range r.cannot {
				refusedBy(t, connect(role), subject, func(nc *nats.Conn) error {
					return nc.Publish(subject, []byte("{}"))
				})
			}
			for _, subject := range r.hears {
				refusedBy(t, connect(role), subject, func(nc *nats.Conn) error {
					_, err := nc.SubscribeSync(subject)
					return err
				})
			}
		})
	}
	if log := string(a.History()); strings.Contains(strings.ToLower(log), "permissions violation") {
		t.Errorf("the instance may not do what it needs: %s", log)
	}
	if strings.Count(string(a.History()), "operator action") < 4 {
		t.Error("what the operator did has no line in the log")
	}
	checked := s.Must(a, http.MethodGet, "/readyz", nil)
	if checked.Status != http.StatusOK {
		t.Errorf("got %d %s", checked.Status, checked.Raw)
	}
}

// refusedBy does what the server must not permit.
func refusedBy(t *testing.T, nc *nats.Conn, subject string, do func(*nats.Conn) error) {
	t.Helper()
	defer nc.Close()
	err := do(nc)
	if err == nil {
		err = nc.FlushTimeout(site.Patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("%s is permitted: %v", subject, err)
	}
}

func asked(t *testing.T, nc *nats.Conn, subject, body, want string) {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), site.Patience)
	if err != nil {
		t.Errorf("%s: %v, %v", subject, err, nc.LastError())
		return
	}
	if !strings.Contains(string(m.Data), want) {
		t.Errorf("%s %s: got %s, want %s", subject, body, m.Data, want)
	}
}

func producerCan(t *testing.T, nc *nats.Conn) {
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for id, delay := range map[string]string{"due": "1ms", "later": "1h", "refused": "tomorrow"} {
		m := &nats.Msg{Subject: "delayed.orders.x", Data: []byte(id),
			Header: nats.Header{"Tarry-Delay": {delay}, "Tarry-Id": {t.Name() + id}}}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	asked(t, nc, "$JS.API.STREAM.NAMES", `{"subject":"delayed.orders.x"}`, "TARRY_shop")
	asked(t, nc, "tarry.shop.push.orders.x", "", "missing_delay")
}

func consumerCan(t *testing.T, nc *nats.Conn) {
	live, err := nc.SubscribeSync("orders.y")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(
		t.Context(), &nats.Msg{Subject: "delayed.orders.y", Header: nats.Header{"Tarry-Delay": {"1ms"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := live.NextMsg(site.Patience); err != nil {
		t.Errorf("what is due: %v", err)
	}
	c, err := js.Consumer(t.Context(), "ORDERS", "billing")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(site.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Error(err)
	}
}

func readerCan(t *testing.T, nc *nats.Conn) {
	asked(t, nc, "tarry.shop.api.get", `{"id":"nobody"}`, "unknown_id")
	for call, want := range map[string]string{
		"topics":  `"topics":`,
		"topic":   "invalid_topic",
		"dead":    `"messages":[]`,
		"rejects": `"rejects":`,
		"reject":  "invalid_sequence",
		"cluster": `"leader":{`,
		"list":    `"order":"bucket"`, // the journal is off here
		"history": "needs_journal", "dead_groups": `"groups":[]`,
	} {
		asked(t, nc, "tarry.shop.read."+call, "", want)
	}
	asked(t, nc, "tarry.shop.read.forecast", `{"topic":"a"}`, `"exact":true`)
	asked(t, nc, "$SRV.INFO.tarry", "", "tarry.shop.admin.pause") // as nats micro info
}

func operatorCan(t *testing.T, nc *nats.Conn) {
	push := fmt.Sprintf(`{"topic":"orders.z","delay":"1h","id":%q}`, "operated")
	for _, c := range [][3]string{
		{"api.push", push, `"state":"waiting"`}, {"api.get", `{"id":"operated"}`, "orders.z"},
		{"api.reschedule", `{"id":"operated","delay":"2h"}`, "waiting"},
		{"read.forecast", `{"step":"3h","until":"3h"}`, `{"source":"store","overdue":0,"steps":[{`},
		{"read.held", ``, `"groups":[`},
		{"read.forecast", `{"step":"3h","until":"3h","by":"topic"}`, `"orders.z"`},
		{"api.cancel_many", `{"topic":"orders.z"}`, `"done":1`}, {"read.topics", ``, `"topics":`},
		{"admin.pause", `{"topic":"orders.z"}`, `"by":"nats"`},
		{"admin.resume", `{"topic":"orders.z"}`, `"paused":false`},
		{"admin.dead_requeue", `{"all":true}`, `"matched":0`}, {"admin.dead_purge", `{"all":true}`, `"matched":0`},
		{"admin.rejects_requeue", `{"sequence":99}`, "unknown_reject"}, {"admin.resign", ``, "no_standby"},
		{"admin.verify", ``, "needs_journal"}, {"admin.restore", ``, "needs_journal"},
		{"admin.restore_one", `{"id":"a"}`, "needs_journal"},
		{"admin.redeliver", `{"since":"1h"}`, "needs_journal"},
	} {
		asked(t, nc, "tarry.shop."+c[0], c[1], c[2])
	}
	start := time.Now()
	asked(t, nc, "$SRV.PING.tarry", "", `"name":"tarry"`)
	t.Logf("answered within %s", time.Since(start))
}
