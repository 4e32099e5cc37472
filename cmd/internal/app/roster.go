package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
)

// rosterPause is the time between two looks at the other instances.
const rosterPause = 2 * time.Second

// roster is what an instance knows of the others and of the settings that it should share with them. The checks and
// what it announces ask it, from memory.
type roster struct {
	a *App

	mu      sync.Mutex
	cfg     config.Serve // in effect
	refused error        // the last reload, nil if it was taken
	differs error        // settings that are not as the leader's
	few     error        // instances that should be there
	seen    *ops.Cluster // at the last look

	met map[string]time.Time // since when each instance is registered, when somebody last led; of run alone
	// restored says how many messages the store was found to lack since the start, and when last; empty if none.
	lost     int
	restored string
}

// reloaded takes the settings of a reload, or why it was refused.
func (r *roster) reloaded(next config.Serve, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused = refused; refused == nil {
		r.cfg.Topics, r.cfg.Retry, r.cfg.Webhook, r.cfg.HTTP.Tokens = next.Topics, next.Retry, next.Webhook, next.HTTP.Tokens
	}
}

// run looks at the other instances until ctx ends. The leader renews its store's name after a loss and registers the
// new name a moment later, so another store counts only once it has lasted.
func (r *roster) run(ctx context.Context) error {
	for scheduler.Sleep(ctx, rosterPause) == nil {
		v, _ := r.a.same.look(ctx, r.a.cluster, r.a.cfg.ZooKeeper.Session+rosterPause)
		if len(v.members) > 0 { // else the election's own check says so
			r.compare(ctx, v)
			r.meet(v)
			info := v.cluster()
			r.mu.Lock()
			r.seen = &info
			r.mu.Unlock()
		}
	}
	return nil
}

// last returns the cluster as it was at the last look, nil before the first.
func (r *roster) last() *ops.Cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// compare compares what there is with what there should be, and logs what has changed.
func (r *roster) compare(ctx context.Context, v view) {
	var differs, few error
	for _, m := range v.members {
		if names := config.Differing(m.Settings, v.leads.Settings); m.Instance == r.a.cfg.Instance && len(names) > 0 {
			differs = fmt.Errorf("not as at %s, which leads: %s", v.leader.Instance, strings.Join(names, ", "))
		}
	}
	if want := r.a.cfg.Cluster.Instances; len(v.members) < want {
		say := []string{fmt.Sprintf("%d of %d are registered", len(v.members), want)}
		call, cancel := context.WithTimeout(ctx, maxCall)
		gone, _ := r.a.node.Gone(call) // without it the count stands alone
		cancel()
		for _, g := range gone {
			say = append(say, g.Instance+" was last seen at "+ops.FormatTime(g.Seen.UnixMilli()))
		}
		few = errors.New(strings.Join(say, "; "))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("settings differ from the leader's", r.differs, differs)
	r.note("instances are missing", r.few, few)
	r.differs, r.few = differs, few
}

// meet tells, if this instance leads, which others have come or gone. What happens while nobody leads, the next leader
// tells: all know whom the last one knew.
func (r *roster) meet(v view) {
	if !v.led {
		return
	}
	now, leads := map[string]time.Time{}, v.leader.Instance == r.a.cfg.Instance && r.met != nil
	tell := func(tells bool, what string) {
		if tells {
			r.a.log.Info().Msg(what)
			r.a.events.Tell(scheduler.Event{Kind: scheduler.EventInstance, Detail: what})
		}
	}
	for _, m := range v.members {
		now[m.Instance] = m.Since
		was, known := r.met[m.Instance]
		tell(leads && !known, m.Instance+" has come")
		tell(leads && known && !was.Equal(m.Since), m.Instance+" has come back: it was restarted, or its session had ended")
	}
	for name := range r.met {
		_, there := now[name]
		tell(leads && !there, name+" is gone")
	}
	r.met = now
}

// regained takes what the journal gave back to a store that had lost it.
func (r *roster) regained(messages int) {
	if messages == 0 || r.a.cfg.InMemory() { // memory is empty at each start
		return
	}
	r.a.lost.Add(float64(messages))
	r.a.events.Tell(scheduler.Event{Kind: scheduler.EventFilled,
		Detail: fmt.Sprintf("the store lacked %d messages that the journal had", messages)})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost += messages
	r.restored = fmt.Sprintf("%d, the last at %s", r.lost, ops.FormatTime(r.a.clock.Now().UnixMilli()))
}

// note logs that something is amiss, or is no more.
func (r *roster) note(what string, before, now error) {
	if now != nil && (before == nil || before.Error() != now.Error()) {
		r.a.log.Warn().Err(now).Msg(what)
	} else if now == nil && before != nil {
		r.a.log.Info().Msg(what + ": no more")
	}
}

// checks returns those about the settings and about the other instances.
func (r *roster) checks() []api.Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	settings := r.differs
	if r.refused != nil {
		settings = errors.New("the last reload was refused: " + strings.ReplaceAll(r.refused.Error(), "\n", "; "))
	}
	return []api.Check{{Name: "settings", Err: settings}, {Name: "instances", Err: r.few}}
}

// tell returns what the other instances are told of this one.
func (r *roster) tell() election.Told {
	checks := r.a.health.checks(context.Background())
	lacks, ready := api.Amiss(checks)
	if slices.ContainsFunc(checks, func(c api.Check) bool { return errors.Is(c.Err, scheduler.ErrDiskFull) }) {
		lacks = append(lacks, "room on the journal's disk")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return election.Told{Unready: !ready, Lacks: strings.Join(lacks, ", "), Settings: r.cfg.Shared(),
		Restored: r.restored}
}
