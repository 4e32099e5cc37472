package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// overview waits until an instance tells these conditions, as "level word", and no others.
func (i *instance) overview(level ops.Level, want ...string) (o ops.Overview) {
	i.t.Helper()
	lab.Eventually(i.t, 30*time.Second, func() error {
		o = ops.Overview{}
		status, err := i.get("/v1/overview", &o)
		if err != nil {
			return err
		}
		var got []string
		for _, c := range o.Conditions {
			got = append(got, string(c.Level)+" "+c.Word)
		}
		if status != http.StatusOK || o.Level != level || !slices.Equal(got, want) {
			return fmt.Errorf("%d %s %q, want %s %q", status, o.Level, got, level, want)
		}
		return nil
	})
	return o
}

// has waits for one condition among those that an instance tells; a count below 0 is any.
func (i *instance) has(level ops.Level, word string, count int) {
	i.t.Helper()
	i.conditions(fmt.Sprintf("want %s %s %d", level, word, count), func(all []ops.Condition) bool {
		return slices.ContainsFunc(all, func(c ops.Condition) bool {
			return c.Word == word && c.Level == level && (count < 0 || c.Count == count) && c.Since > 0 && c.Detail != ""
		})
	})
}

// lacks waits until an instance does not tell a condition.
func (i *instance) lacks(word string) {
	i.t.Helper()
	i.conditions("want none of "+word, func(all []ops.Condition) bool {
		return !slices.ContainsFunc(all, func(c ops.Condition) bool { return c.Word == word })
	})
}

func (i *instance) conditions(want string, are func([]ops.Condition) bool) {
	i.t.Helper()
	lab.Eventually(i.t, 40*time.Second, func() error {
		var o ops.Overview
		if _, err := i.get("/v1/overview", &o); err != nil || !are(o.Conditions) {
			return fmt.Errorf("%+v, %w, %s", o.Conditions, err, want)
		}
		return nil
	})
}

// What else may hold messages back is told while it does, and not after.
func TestOverview_TellsWhatElseHoldsMessagesBack(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	var well atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(target.Close)
	cfg := settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "heldelse", "a")
	cfg.Webhook.Allow = []string{"127.0.0.1"}
	cfg.Topics = []config.Topic{{Pattern: "heldelse.rate", Rate: 1}, {Pattern: "heldelse.late", CatchUpRate: 1},
		{Pattern: "heldelse.hook", Deliver: config.DeliverWebhook, Retry: "1s*100", Webhook: config.Webhook{
			URL: target.URL, Secrets: []config.Secret{"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}}
	a := start(t, cfg)
	a.ready()
	nc, err := natsgo.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, topic := range []string{"heldelse.rate", "heldelse.late"} {
		if _, err := nc.Subscribe(topic, func(*natsgo.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	full := jetstream.StreamConfig{Name: "FULL", Subjects: []string{"heldelse.full"}, MaxMsgs: 1,
		Discard: jetstream.DiscardNew, Storage: jetstream.MemoryStorage}
	if _, err := js.CreateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "heldelse.full", nil); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Minute).Format(time.RFC3339)
	batch := func(topic string, n int) {
		var all []string
		for range n {
			all = append(all, fmt.Sprintf(`{"topic":%q,"at":%q}`, topic, long))
		}
		a.post("/v1/messages/batch", `{"messages":[`+strings.Join(all, ",")+`]}`)
	}
	batch("heldelse.rate", 500)
	batch("heldelse.late", 500)
	batch("heldelse.full", 1)
	batch("heldelse.hook", 1)
	a.has(ops.LevelHeld, string(message.WhyRate), -1)
	a.has(ops.LevelHeld, string(message.WhyCatchUp), -1)
	a.has(ops.LevelHeld, string(message.WhyStream), 1)
	a.has(ops.LevelWarn, ops.CondWebhookFails, 0)

	full.MaxMsgs = 10
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	well.Store(true)
	for _, topic := range []string{"heldelse.rate", "heldelse.late"} {
		a.post("/v1/messages/cancel", `{"topic":"`+topic+`"}`)
	}
	for _, word := range []string{string(message.WhyRate), string(message.WhyCatchUp), string(message.WhyStream),
		ops.CondWebhookFails} {
		a.lacks(word)
	}
}

// What is away is told while it is, and not after.
func TestOverview_TellsWhatIsAwayWhileItIs(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv, db := lab.NewNATS(t), lab.NewRedis(t), lab.NewZooKeeper(t), lab.SharedMariaDB(t)
	through := func(addr string) *lab.Proxy { return lab.NewProxy(t, addr) }
	nats, redis, zk, sql := through(strings.TrimPrefix(natsSrv.URL(), "nats://")), through(redisSrv.Addr),
		through(zkSrv.Addr), through(db.Addr)
	cfg := journaled(settings(t, "nats://"+nats.Addr, redis.Addr, zk.Addr, "seen", "a"), "sync",
		strings.Replace(db.Database(t), db.Addr, sql.Addr, 1))
	a := start(t, cfg)
	a.ready()
	nc, err := natsgo.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe("seen.x", func(*natsgo.Msg) {}); err != nil {
		t.Fatal(err)
	}
	well := []string{"warn no_standby"}
	first := a.overview(ops.LevelWarn, well...)
	if first.Leader == nil || first.Leader.Instance != "a" || first.Instances != 1 || first.Healthy != 1 ||
		first.Term == 0 ||
		first.Namespace != "seen" || first.Instance != "a" || first.Messages == nil || first.Journal.Lag == nil {
		t.Errorf("%+v", first)
	}
	for _, away := range []struct {
		proxy *lab.Proxy
		words []string // of what comes of it
	}{{redis, []string{ops.CondStoreAway, ops.CondNoMachineID}}, {nats, []string{ops.CondNATSAway, ops.CondOverdue}},
		{zk, []string{ops.CondElectionUnknown}}, {sql, []string{ops.CondJournalAway, ops.CondFilling}}} {
		a.push(`{"topic":"seen.x","delay":"1s"}`)
		away.proxy.Cut()
		away.proxy.Stall()
		if away.proxy == sql { // and a Redis that begins anew waits for it
			flush(t, redisSrv)
		}
		for _, word := range away.words {
			a.has(ops.LevelStop, word, -1)
		}
		away.proxy.Heal()
		a.overview(ops.LevelWarn, well...)
	}
}

func flush(t *testing.T, srv *lab.Redis) {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: srv.Addr})
	defer rdb.Close()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// What a journal that stands still brings about, an entry that it can never take, and who takes no pushes by tag.
func TestOverview_TellsWhatWaitsForTheJournal(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv, db := lab.NewNATS(t), lab.NewRedis(t), lab.SharedZooKeeper(t), lab.SharedMariaDB(t)
	sql := lab.NewProxy(t, db.Addr)
	cfg := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "behind", "a"), "async",
		strings.Replace(db.Database(t), db.Addr, sql.Addr, 1))
	cfg.Buckets = 1
	a := start(t, cfg)
	a.ready()
	a.overview(ops.LevelWarn, "warn no_standby")
	sql.Cut()
	sql.Stall()
	for range 9 { // of the 1 MiB that wait at most
		a.push(`{"topic":"behind.x","delay":"1h","body":"` + strings.Repeat("x", 100_000) + `"}`)
	}
	a.has(ops.LevelWarn, ops.CondJournalBehind, -1)
	sql.Heal()
	a.overview(ops.LevelWarn, "warn no_standby")

	rdb := goredis.NewClient(&goredis.Options{Addr: redisSrv.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Do(t.Context(), "XADD", "{behind:0}:outbox", "*", "", "").Err(); err != nil {
		t.Fatal(err)
	}
	a.push(`{"topic":"behind.x","delay":"1h"}`) // which is read after it
	a.has(ops.LevelWarn, ops.CondQuarantined, -1)
	if err := rdb.Del(t.Context(), "{behind:0}:quarantine").Err(); err != nil { // as docs/journal.md says
		t.Fatal(err)
	}
	a.overview(ops.LevelWarn, "warn no_standby")

	nc, err := natsgo.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "TARRY_behind"); err != nil {
		t.Fatal(err)
	}
	taken := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"delayed.>"}}
	lab.Eventually(t, time.Minute, func() error { // before tarry makes its own anew
		if _, err := js.CreateStream(t.Context(), taken); err != nil {
			_ = js.DeleteStream(t.Context(), "TARRY_behind")
			return err
		}
		return nil
	})
	a.has(ops.LevelWarn, ops.CondIntakeWaits, -1)
	if err := js.DeleteStream(t.Context(), "OTHER"); err != nil {
		t.Fatal(err)
	}
	a.overview(ops.LevelWarn, "warn no_standby")
}

// A standby without a link to the leader would not see at once that it is dead, and without one nobody takes over.
func TestOverview_TellsWhoWouldNotTakeOver(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	a := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "links", "a"))
	a.ready()
	cfg := settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "links", "b")
	apart := cfg
	apart.Peer.Listen = config.PeerOff
	b := start(t, apart)
	b.ready()
	a.overview(ops.LevelWarn, "warn unlinked", "note journal_off")
	b.stop()
	a.overview(ops.LevelWarn, "warn no_standby", "note journal_off")
	start(t, cfg).ready()
	a.overview(ops.LevelWell, "note journal_off")
}

// What holds messages back is told by name, with who did it and how many it holds.
func TestOverview_TellsWhatHoldsMessagesBack(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	a := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "heldup", "a"))
	a.ready()
	b := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "heldup", "b"))
	b.ready()
	a.overview(ops.LevelWell, "note journal_off")
	if resp, err := http.Post("http://"+a.Addr().String()+"/v1/topics/heldup.mail/pause", "", nil); err != nil ||
		resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	long := time.Now().Add(-time.Minute).Format(time.RFC3339)
	for _, push := range []string{`{"topic":"heldup.mail","body":"1"`, `{"topic":"heldup.mail","body":"2"`,
		`{"topic":"heldup.nobody","body":"3"`, `{"topic":"heldup.pulled","deliver":"pull","body":"4"`} {
		a.push(push + `,"at":"` + long + `"}`)
	}
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	a.push(`{"topic":"heldup.later","body":"5","at":"` + later.Format(time.RFC3339) + `"}`)
	for _, i := range []*instance{a, b} { // each knows it
		o := i.overview(ops.LevelHeld, "held unpulled", "held paused", "held no_listener", "note journal_off")
		for at, want := range []string{" 1 ", "heldup.mail 2 127.0.0.1", "heldup.nobody 1 "} {
			c := o.Conditions[at]
			if got := fmt.Sprintf("%s %d %s", c.Name, c.Count, c.By); got != want || c.Oldest == 0 || c.Since == 0 ||
				c.Detail == "" {
				t.Errorf("%+v, want %q", c, want)
			}
		}
		if o.Messages.Ready != 1 || o.Messages.Waiting != 4 || len(o.Overdue) != 3 || !o.Next.Time().Equal(later) {
			t.Errorf("%+v %+v, the next at %s", o.Messages, o.Overdue, o.Next.Time())
		}
	}
}
