package app

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

const at = message.Milli(1_896_076_800_000)

// wellSituation has a leader and a standby, on four parts, and nothing amiss.
func wellSituation() *situation {
	s := &situation{journal: journal.Sync, parts: 4, outbox: 1000, holds: "redis", elects: "zookeeper", votes: 3,
		lag: &record.Lag{}, cluster: &ops.Cluster{Term: 3, Leader: &ops.Leader{Instance: "a"}, Instances: []ops.Instance{
			{Instance: "a", Role: ops.RoleLeader, CanLead: true},
			{Instance: "b", Role: ops.RoleStandby, CanLead: true, Linked: true}}}}
	s.cfg = config.Serve{Store: "redis"}
	s.at, s.sum, s.held = at, &scheduler.Total{}, &intake.Held{}
	return s
}

func overdue(s *situation, hold message.Hold, n int, by time.Duration) {
	s.sum.Waiting[hold] = scheduler.Waiting{Count: n + 1, Overdue: n, Oldest: at.Add(-by)}
}

// lane is a lane whose oldest message fell due so long ago.
func lane(name string, n int, by time.Duration, word message.WhyWord) scheduler.HeldGroup {
	return scheduler.HeldGroup{Name: name, Count: n, Oldest: at.Add(-by),
		Why: message.Why{Word: word, Detail: "it waits", By: "ann"}}
}

// Each condition once, by what brings it about, at its level; and none where all is well.
func TestConditions_EachOnce(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	told := map[string]bool{ops.CondDying: true, ops.CondRejectsDropped: true} // those of the last minutes, see ops.Hour
	for name, c := range map[string]struct {
		do   func(s *situation)
		want string // "level word name count", the worst first
	}{
		"well":       {func(*situation) {}, ""},
		"not asked":  {func(s *situation) { s.store.err, s.db.err = errNotAsked, errNotAsked }, ""},
		"store away": {func(s *situation) { s.store.err = down }, "stop store_away"},
		"other":      {func(s *situation) { s.other = true }, "stop other_store"},
		"filling":    {func(s *situation) { s.store.closed, s.store.filling = []message.Bucket{1, 2}, 2 }, "stop filling"},
		"bucket":     {func(s *situation) { s.store.closed = []message.Bucket{1} }, "stop bucket_away"},
		"bucket and filling": {func(s *situation) { s.store.closed, s.store.filling = []message.Bucket{1, 2}, 1 },
			"stop filling, stop bucket_away"},
		"election":     {func(s *situation) { s.cluster, s.election = nil, down }, "stop election_unknown"},
		"no leader":    {func(s *situation) { s.cluster.Leader = nil }, "stop no_leader"},
		"nats":         {func(s *situation) { s.nats = down }, "stop nats_away"},
		"machine":      {func(s *situation) { s.machine = down }, "stop no_machine_id"},
		"journal":      {func(s *situation) { s.db.err, s.lag = down, nil }, "stop journal_away"},
		"journal late": {func(s *situation) { s.db.err, s.journal, s.lag = down, journal.Async, nil }, "warn journal_away"},
		"behind":       {func(s *situation) { s.lag.Oldest = at.Add(-time.Minute) }, "warn journal_behind"},
		"outbox":       {func(s *situation) { s.lag.Bytes = 900 }, "warn journal_behind"},
		"quarantined":  {func(s *situation) { s.lag.Quarantined = 1 }, "warn quarantined"},
		"no journal":   {func(s *situation) { s.journal, s.lag = journal.Off, nil }, "note journal_off"},
		"clocks":       {func(s *situation) { s.spread = time.Hour }, "warn clocks"},
		"few clocks":   {func(s *situation) { s.few = down }, "warn clocks"},
		"disputed":     {func(s *situation) { s.disputed = 3 }, "warn clocks"},
		"no standby":   {func(s *situation) { s.cluster.Instances[1].CanLead = false }, "warn no_standby"},
		"alone": {func(s *situation) { s.cluster.Instances, s.cfg.Store = s.cluster.Instances[:1], "memory" },
			""},
		"unlinked":     {func(s *situation) { s.cluster.Instances[1].Linked = false }, "warn unlinked"},
		"links off":    {func(s *situation) { s.cluster.Instances[1].Linked, s.cfg.Peer.Listen = false, config.PeerOff }, ""},
		"intake":       {func(s *situation) { s.held.Pushes, s.intake = 7, down }, "warn intake_waits 7"},
		"intake gone":  {func(s *situation) { s.held, s.intake = nil, down }, "warn intake_waits"},
		"nats gone":    {func(s *situation) { s.held, s.intake, s.nats = nil, down, down }, "stop nats_away"},
		"intake moves": {func(s *situation) { s.held.Pushes = 7 }, ""},
		"aside":        {func(s *situation) { s.held.Pushes, s.held.Aside = 2, 2 }, "warn set_aside 2"},
		"rejects":      {func(s *situation) { s.held.Rejects = 3 }, "note rejects 3"},
		"webhook": {func(s *situation) {
			s.webhooks = []ops.Webhook{{Pattern: "bills.>"}, {Pattern: "mail.>", FailingSince: "2030-01-31T08:00:00Z"}}
		}, "warn webhook_fails mail.>"},
		"overdue": {func(s *situation) { overdue(s, message.HoldNone, 5, 3*time.Second) }, "stop overdue 5"},
		"overdue for a reason": {func(s *situation) { s.nats = down; overdue(s, message.HoldNone, 5, 3*time.Second) },
			"stop nats_away, stop overdue 5 for that reason"},
		"overdue for no reason": {func(s *situation) {
			s.db.err, s.machine, s.other = down, down, true // none of which keeps back what is due
			overdue(s, message.HoldNone, 5, 3*time.Second)
		}, "stop other_store, stop no_machine_id, stop journal_away, stop overdue 5"},
		"barely late": {func(s *situation) { overdue(s, message.HoldNone, 5, time.Second) }, ""},
		"unpulled":    {func(s *situation) { overdue(s, message.HoldPull, 5, time.Minute) }, "held unpulled 5"},
		"paused": {func(s *situation) {
			s.lanes = []scheduler.HeldGroup{lane("mail.>", 5, time.Minute, message.WhyPaused)}
		}, "held paused mail.> 5 ann"},
		"paused a moment": {func(s *situation) {
			s.lanes = []scheduler.HeldGroup{lane("mail.>", 5, time.Second, message.WhyPaused)}
		}, ""},
		"paused before anything is due": {func(s *situation) {
			s.pauses = []scheduler.Pause{{Pattern: "mail.>", By: "ann", At: 1}, {Pattern: "sms", By: "bob", At: 1}}
			s.lanes = []scheduler.HeldGroup{lane("sms", 5, time.Minute, message.WhyPaused)}
		}, "held paused sms 5 ann, note paused mail.>"},
		"two lanes": {func(s *situation) {
			s.lanes = []scheduler.HeldGroup{lane("sms", 5, time.Minute, message.WhyNoListener),
				lane("ORDERS", 3, time.Minute, message.WhyStream)}
		}, "held no_listener sms 5, held stream ORDERS 3"},
		"rates": {func(s *situation) {
			s.lanes = []scheduler.HeldGroup{lane("a", 2, time.Minute, message.WhyRate),
				lane("b", 1, time.Minute, message.WhyCatchUp)}
		}, "held rate a 2, held catch_up b 1"},
		"several": {func(s *situation) { s.held.Rejects, s.spread, s.nats = 1, time.Hour, down },
			"stop nats_away, warn clocks, note rejects 1"},
		"nothing read": {func(s *situation) { s.sum, s.held, s.lag, s.cluster = nil, nil, nil, nil }, ""},
	} {
		s := wellSituation()
		c.do(s)
		var got []string
		for _, one := range new(viewing).dated(s.conditions(), at, time.Now()) {
			words := []string{string(one.Level), one.Word}
			if one.Name != "" {
				words = append(words, one.Name)
			}
			if one.Count > 0 {
				words = append(words, strings.TrimSpace(strings.Join([]string{itoa(one.Count), one.By}, " ")))
			}
			if strings.HasSuffix(one.Detail, "for that reason") {
				words = append(words, "for that reason")
			}
			if told[one.Word] = true; one.Detail == "" && one.Count == 0 && one.Name == "" || one.Since <= 0 ||
				one.Since > at {
				t.Errorf("%s: %+v", name, one)
			}
			got = append(got, strings.Join(words, " "))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, ", "), c.want)
		}
		s.counts() // of whatever could be read
	}
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	described, err := os.ReadFile("../../../bridge/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	for word := range told {
		if !strings.Contains(string(page), "| `"+word+"` |") || !strings.Contains(string(described), `"`+word+`"`) {
			t.Errorf("docs/operations.md or openapi.json lacks %s", word)
		}
	}
	_, list, _ := strings.Cut(string(page), "<!-- conditions -->")
	for line := range strings.Lines(list) {
		if word, is := strings.CutPrefix(line, "| `"); is {
			if word, _, _ = strings.Cut(word, "`"); !told[word] {
				t.Errorf("docs/operations.md has %s, which nothing brings about", word)
			}
		} else if strings.HasPrefix(line, "## ") {
			break
		}
	}
}

func itoa(n int) string { return strings.TrimSpace(string(rune('0' + n))) }

// A condition has one beginning as long as it is not gone for five seconds.
func TestViewing_KeepsTheBeginningOfWhatFlickers(t *testing.T) {
	t.Parallel()
	v, start := new(viewing), time.Now()
	look := func(after time.Duration, words ...string) (since []message.Milli) {
		var all []ops.Condition
		for _, word := range words {
			all = append(all, ops.Condition{Word: word, Level: ops.LevelWarn})
		}
		for _, c := range v.dated(all, at.Add(after), start.Add(after)) {
			since = append(since, c.Since)
		}
		return since
	}
	look(0, "clocks")
	look(time.Second)
	if got := look(4*time.Second, "clocks", "unlinked"); !slices.Equal(got, []message.Milli{at, at.Add(4 * time.Second)}) {
		t.Errorf("since %v", got)
	}
	look(5 * time.Second)
	if got := look(10*time.Second, "clocks"); !slices.Equal(got, []message.Milli{at.Add(10 * time.Second)}) {
		t.Errorf("after six seconds since %v", got)
	}
}
