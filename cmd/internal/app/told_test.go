package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// Either instance tells what happened, and what operators did, on both; and NATS has what happened.
func TestEvents_AndActionsAreThoseOfAllInstances(t *testing.T) {
	t.Parallel()
	nc, link, a, b := pair(t, "told")
	published, err := nc.SubscribeSync("tarry.told.event.*.told.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.post("/v1/topics/told.%3E/pause", "")
	if status, text := a.says(http.MethodPost, "/v1/dead/requeue", `{"id":"nobody"}`); status != http.StatusNotFound {
		t.Fatal(status, text)
	}
	b.push(`{"topic":"told.x","delay":"10ms","id":"dies","deliver":"pull"}`)
	b.post("/v1/topics/told.%3E/resume", "")
	var pulled struct{ Messages []struct{ Receipt string } }
	lab.Eventually(t, 20*time.Second, func() error {
		_, text := b.says(http.MethodPost, "/v1/topics/told.x/pull", `{"max":1,"wait":"1s"}`)
		if err := json.Unmarshal([]byte(text), &pulled); err != nil || len(pulled.Messages) != 1 {
			return fmt.Errorf("pulled %s, %w", text, err)
		}
		return nil
	})
	b.post("/v1/leases/"+pulled.Messages[0].Receipt+"/dead", `{"reason":"no such order"}`)

	for _, i := range []*instance{a, b} {
		lab.Eventually(t, 20*time.Second, func() error {
			var events ops.EventList
			var actions ops.ActionList
			if _, err := i.get("/v1/events", &events); err != nil {
				return err
			}
			if _, err := i.get("/v1/actions", &actions); err != nil {
				return err
			}
			var said, did []string
			for _, e := range events.Events { // on a busy machine more happens
				if e.Kind == scheduler.EventDead || e.Kind == scheduler.EventLeader {
					said = append(said, fmt.Sprint(e.Kind, " on ", e.Instance, " ", e.ID, " ", e.Detail))
				}
			}
			for _, one := range actions.Actions {
				did = append(did, fmt.Sprint(one.What, " at ", one.Instance, " ", one.On["topic"], one.On["id"], " ",
					one.Problem))
			}
			if len(said) < 2 || said[0] != "dead on b  no such order" ||
				!strings.HasPrefix(said[len(said)-1], "leader on a  leads, term") {
				return fmt.Errorf("happened: %q", said)
			}
			// A busy machine may have asked twice.
			if got := strings.Join(slices.Compact(did), "; "); got != "resume at b told.><nil> ; "+
				"requeue at a <nil>nobody unknown_id; pause at b told.><nil> " || len(events.Missing)+len(actions.Missing) > 0 {
				return fmt.Errorf("done: %q", did)
			}
			return nil
		})
	}
	// A consumer names its message by a receipt, which has the uid and not the id.
	if m, err := published.NextMsg(20 * time.Second); err != nil || m.Subject != "tarry.told.event.dead.told.x" ||
		!strings.Contains(string(m.Data), `"detail":"no such order"`) {
		t.Errorf("%v, %v", m, err)
	}
	a.has(ops.LevelNote, ops.CondDying, 1)
	var some ops.ActionList
	if _, err := a.get("/v1/actions?what=pause&who=anonymous&limit=1", &some); err != nil || len(some.Actions) != 1 ||
		some.Actions[0].What != "pause" || some.Actions[0].Who != "anonymous" || some.Actions[0].From == "" {
		t.Errorf("%+v, %v", some, err)
	}
	var leads ops.EventList
	if _, err := a.get("/v1/events?kind=leader", &leads); err != nil || len(leads.Events) == 0 ||
		leads.Events[0].Kind != scheduler.EventLeader {
		t.Errorf("%+v, %v", leads, err)
	}
	link.Cut()
	link.Stall()
	lab.Eventually(t, 20*time.Second, func() error {
		var events ops.EventList
		if _, err := a.get("/v1/events", &events); err != nil || len(events.Missing) != 1 || events.Missing[0] != "b" {
			return fmt.Errorf("missing %q, %w", events.Missing, err)
		}
		return nil
	})
}

// Either instance tells what each reaches and how its clocks are; the one that does not answer is missing.
func TestCluster_HasWhatEachTellsOfItself(t *testing.T) {
	t.Parallel()
	_, link, a, b := pair(t, "detail")
	tells := func(i *instance, want string) {
		t.Helper()
		lab.Eventually(t, 30*time.Second, func() error {
			var c ops.Cluster
			if _, err := i.get("/v1/cluster?detail=true", &c); err != nil {
				return err
			}
			got := ""
			for _, one := range c.Instances {
				if d := one.Detail; d != nil {
					got += one.Instance
					for _, k := range d.Checks {
						got += fmt.Sprintf(" %s %t", k.Name, k.OK)
					}
					for _, r := range d.Clocks {
						got += " " + r.Source
						if r.LeastMS > r.MostMS || r.LeastMS < -1000 || r.MostMS > 1000 {
							t.Errorf("%+v on one machine", r)
						}
					}
					if since := time.Since(d.Since.Time()); since < 0 || since > time.Hour {
						t.Errorf("%s runs for %s", one.Instance, since)
					}
					got += "; "
				}
			}
			if got += fmt.Sprint(c.Missing); got != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		})
	}
	well := " redis true nats true zookeeper true machine_id true settings true instances true machine nats redis; "
	tells(a, "a"+well+"b"+well+"[]")
	tells(b, "a"+well+"b"+well+"[]")
	link.Cut()
	link.Stall()
	tells(a, "a"+well+"[b]")
	tells(b, "b"+strings.Replace(strings.Replace(well, "nats true", "nats false", 1), "machine nats", "machine", 1)+"[a]")
}

// happens waits for an event of a kind with this beginning of its detail.
func (i *instance) happens(kind scheduler.EventKind, detail string) {
	i.t.Helper()
	lab.Eventually(i.t, 40*time.Second, func() error {
		var all ops.EventList
		_, err := i.get("/v1/events?kind="+string(kind), &all)
		if err != nil || !slices.ContainsFunc(all.Events, func(e scheduler.Event) bool {
			return e.Kind == kind && strings.HasPrefix(e.Detail, detail)
		}) {
			return fmt.Errorf("%s: %+v, %w", kind, all.Events, err)
		}
		return nil
	})
}

// count returns how many events of a kind are told.
func (i *instance) count(kind scheduler.EventKind) int {
	i.t.Helper()
	var all ops.EventList
	if _, err := i.get("/v1/events?kind="+string(kind), &all); err != nil {
		i.t.Fatal(err)
	}
	return len(all.Events)
}

// began asks when a condition began, which must be when the last event of a kind was told.
func (i *instance) began(word string, kind scheduler.EventKind) {
	i.t.Helper()
	var all ops.EventList
	var o ops.Overview
	if _, err := i.get("/v1/events?limit=1&kind="+string(kind), &all); err != nil || len(all.Events) == 0 {
		i.t.Fatalf("%+v, %v", all, err)
	}
	if _, err := i.get("/v1/overview", &o); err != nil {
		i.t.Fatal(err)
	}
	for _, c := range o.Conditions {
		if apart := c.Since.Time().Sub(all.Events[0].At.Time()).Abs(); c.Word == word && apart < time.Second {
			return
		}
	}
	i.t.Errorf("%s is told at %s, and the overview has %+v", kind, all.Events[0].At.Time(), o.Conditions)
}

// Each kind happens, but for filled, which TestRestore_OfManyIsOneLeaderships has, instance, which the roster's tests
// have, and webhook, which its package has.
func TestEvents_TellWhatHappened(t *testing.T) {
	t.Parallel()
	natsURL, redisSrv, zkAddr := lab.NewNATS(t).URL(), lab.NewRedis(t), lab.SharedZooKeeper(t).Addr
	db := lab.SharedMariaDB(t)
	redis, sql := lab.NewProxy(t, redisSrv.Addr), lab.NewProxy(t, db.Addr)
	cfg := journaled(settings(t, natsURL, redis.Addr, zkAddr, "happens", "a"), "async",
		strings.Replace(db.Database(t), db.Addr, sql.Addr, 1))
	i := start(t, cfg)
	i.ready()
	nc, err := nats.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)

	pushed := time.Now()
	i.push(`{"topic":"happens.x","delay":"10ms"}`)
	i.push(`{"topic":"happens.y","delay":"10ms","ttl":"100ms"}`)
	i.happens(scheduler.EventParked, "nobody listens on happens.x")
	i.happens(scheduler.EventExpired, "")
	lab.Eventually(t, time.Minute, func() error { // until it is late, however quick all is
		if time.Since(pushed) < scheduler.LateEvent+50*time.Millisecond {
			return errors.New("it is not late yet")
		}
		return nil
	})
	if _, err := nc.Subscribe("happens.x", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	i.happens(scheduler.EventOpened, "what was held back leaves: ")
	i.happens(scheduler.EventLate, "late by ")

	bridgetest.Publish(t, nc, "delayed.happens.x", "", "Tarry-Delay", "soon")
	i.happens(scheduler.EventRejected, "invalid_delay")

	i.push(`{"topic":"happens.z","delay":"10ms","deliver":"pull"}`)
	i.post("/v1/topics/happens.z/pull", `{"max":1,"wait":"10s","lease":"1s"}`)
	i.happens(scheduler.EventLapsed, "")

	for _, away := range []struct {
		proxy *lab.Proxy
		kind  scheduler.EventKind
		what  string
		other scheduler.EventKind // of what is well
		word  string              // in the overview
	}{{redis, scheduler.EventStore, "redis", scheduler.EventJournal, ops.CondStoreAway},
		{sql, scheduler.EventJournal, "the journal", scheduler.EventStore, ops.CondJournalAway}} {
		before, stalled := i.count(away.other), time.Now()
		away.proxy.Cut()
		away.proxy.Stall()
		i.happens(away.kind, away.what+" does not answer")
		lab.Eventually(t, time.Minute, func() error {
			if time.Since(stalled) < 6*time.Second {
				return errors.New("the longest look lasts 4.5 s")
			}
			return nil
		})
		i.began(away.word, away.kind) // though nobody has looked before
		away.proxy.Heal()
		i.happens(away.kind, away.what+" answers again")
		if after := i.count(away.other); after != before {
			t.Errorf("while %s was away, %d events of %s", away.what, after-before, away.other)
		}
	}
	i.happens(scheduler.EventLeader, "leads, term ")
}

// Whoever steps down says why, and the other says that it leads.
func TestEvents_TellWhoLedAndWhyNoMore(t *testing.T) {
	t.Parallel()
	_, _, a, b := pair(t, "ruled")
	lab.Eventually(t, 40*time.Second, func() error {
		if status, text := b.says(http.MethodPost, "/v1/cluster/resign", `{"reason":"kernel"}`); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, text) // b may not be known to be well yet
		}
		return nil
	})
	lab.Eventually(t, 40*time.Second, func() error {
		var all ops.EventList
		if _, err := a.get("/v1/events?kind=leader", &all); err != nil {
			return err
		}
		var said []string
		for _, e := range slices.Backward(all.Events) {
			said = append(said, e.Instance+" "+e.Detail)
		}
		want := `a leads, term \d+; a no longer leads, term \d+: leadership given up: kernel; b leads, term \d+`
		if got := strings.Join(said, "; "); !regexp.MustCompile(want).MatchString(got) {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}

// The kinds are a closed list, which the page and the description of the API have.
func TestEvents_AreAllDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	api, err := os.ReadFile("../../../bridge/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "<!-- events -->")
	list, _, _ = strings.Cut(list, "## ")
	var kinds []scheduler.EventKind
	for line := range strings.Lines(list) {
		if word, is := strings.CutPrefix(line, "| `"); is {
			word, _, _ = strings.Cut(word, "`")
			kinds = append(kinds, scheduler.EventKind(word))
		}
	}
	words := strings.Join(strings.Fields(fmt.Sprintf("%q", kinds)), ", ")
	if !slices.Equal(kinds, scheduler.EventKinds()) || !strings.Contains(strings.Join(strings.Fields(string(api)), " "),
		words[1:len(words)-1]) {
		t.Errorf("docs/operations.md has %s, want %q; so should openapi.json", words, scheduler.EventKinds())
	}
}
