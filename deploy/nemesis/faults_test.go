//go:build lab

package nemesis_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// fault is something that goes wrong. Two faults come together if they have no place in common.
type fault struct {
	name  string
	at    []string
	loses bool   // redis forgets
	clean bool   // nothing may come twice for it
	ready func() // what it needs; may be nil
	begin func()
	end   func() // nil: it ends by itself
}

// choose draws what comes in a round: each kind of fault once, then pairs. TARRY_FAULTS chooses among the kinds: those
// whose names have it.
func (p *plant) choose(n int) []fault {
	chosen := os.Getenv("TARRY_FAULTS")
	all := slices.DeleteFunc(p.faults(), func(f fault) bool { return !strings.Contains(f.name, chosen) })
	if len(all) == 0 {
		p.t.Fatalf("TARRY_FAULTS=%q is in the name of no kind", chosen)
	}
	if n < len(all) {
		return all[n : n+1]
	}
	one := all[p.rnd.IntN(len(all))]
	others := slices.DeleteFunc(all, func(other fault) bool {
		return slices.ContainsFunc(one.at, func(place string) bool { return slices.Contains(other.at, place) })
	})
	if len(others) == 0 {
		return []fault{one}
	}
	return []fault{one, others[p.rnd.IntN(len(others))]}
}

// victim is an instance, every other time the leader. Who leads is known only while one answers.
func (p *plant) victim() *site.Instance {
	if p.rnd.IntN(2) == 0 {
		leader, _ := p.s.Leader(0, p.s.Instances...)
		return leader
	}
	return p.s.Instances[p.rnd.IntN(len(p.s.Instances))]
}

// faults are all kinds, each with a victim.
func (p *plant) faults() []fault {
	var all []fault
	add := func(f fault) { all = append(all, f) }

	killed, stopped, frozen := p.victim(), p.victim(), p.victim()
	add(fault{name: "an instance is killed", at: []string{killed.Name}, begin: killed.Kill,
		end: func() { killed.Restart() }})
	add(fault{name: "an instance is told to stop", at: []string{stopped.Name}, clean: true,
		begin: func() { stopped.Signal(syscall.SIGTERM) },
		end: func() {
			if code := stopped.Wait(site.Patience); code != 0 {
				p.t.Errorf("%s ended with %d", stopped.Name, code)
			}
			stopped.Restart()
		}})
	add(fault{name: "an instance is frozen", at: []string{frozen.Name}, begin: frozen.Pause, end: frozen.Resume})

	if before := os.Getenv("TARRY_BEFORE"); before != "" {
		changed := p.victim()
		add(fault{name: "an instance runs the program before", at: []string{changed.Name},
			begin: func() { p.replace(changed, before) }, end: func() { p.replace(changed, p.s.Binary) }})
	}

	// The links of one instance.
	for _, l := range []struct {
		server string
		of     func(*site.Network) *lab.Proxy
	}{
		{"redis", func(n *site.Network) *lab.Proxy { return n.Redis }},
		{"nats", func(n *site.Network) *lab.Proxy { return n.Nats }},
		{"zookeeper", func(n *site.Network) *lab.Proxy { return n.Zk }},
		{"sql", func(n *site.Network) *lab.Proxy { return n.SQL }},
	} {
		victim := p.victim()
		link := l.of(p.ways[victim])
		for name, begin := range map[string]func(){"cut": link.Cut, "silent": link.Stall, "silent one way": link.StallReplies,
			"slow": func() { link.Delay(time.Duration(20+p.rnd.IntN(300)) * time.Millisecond) }} {
			add(fault{name: "the link of an instance to " + l.server + " is " + name,
				at: []string{victim.Name, victim.Name + "-" + l.server}, begin: begin,
				clean: name == "slow" && (l.server == "nats" || l.server == "zookeeper"),
				end:   func() { link.Delay(0); link.Heal() }})
		}
	}
	alone := p.victim()
	add(fault{name: "an instance is cut off", at: []string{alone.Name},
		begin: func() { p.ways[alone].Each((*lab.Proxy).Stall) }, end: func() { p.ways[alone].Each((*lab.Proxy).Heal) }})

	// The servers.
	for _, server := range []struct {
		name string
		*lab.Process
	}{{"redis", p.redis.primary.Process}, {"nats", p.s.Nats.Process}, {"zookeeper", p.s.Zk.Process},
		{"sql", p.s.Db.Process}} {
		add(fault{name: server.name + " is killed", at: []string{server.name}, begin: func() {
			if server.name == "nats" {
				p.h.NatsDies()
			}
			server.Kill()
		}, end: func() { server.Restart() }})
		add(fault{name: server.name + " is frozen", at: []string{server.name}, begin: server.Pause, end: server.Resume})
	}
	add(fault{name: "redis forgets everything", at: []string{"redis", "sql"}, loses: true, begin: func() {
		if err := p.s.Client().FlushAll(p.t.Context()).Err(); err != nil {
			p.t.Error(err)
		}
	}})
	add(fault{name: "a replica that missed writes is promoted", at: []string{"redis", "sql"}, loses: true,
		ready: p.redis.follow, begin: p.redis.promote})
	limit := func(bytes string) func() {
		return func() {
			if err := p.s.Client().ConfigSet(p.t.Context(), "maxmemory", bytes).Err(); err != nil {
				p.t.Error(err)
			}
		}
	}
	add(fault{name: "redis is full", at: []string{"redis"}, begin: limit("1"), end: limit("0")})
	ballast := filepath.Join(p.disk, "ballast")
	add(fault{name: "the disk of sql is full", at: []string{"sql"}, begin: func() { fill(p.t, ballast) }, end: func() {
		if err := os.Remove(ballast); err != nil {
			p.t.Error(err)
		}
		select { // a server that crashes is started again, as systemd does
		case <-p.s.Db.Exited():
			p.s.Db.Restart()
		case <-time.After(2 * time.Second):
		}
	}})
	step := time.Hour
	if p.rnd.IntN(2) == 0 {
		step = -time.Hour
	}
	add(fault{name: "the clock of redis steps by an hour", at: []string{"redis"}, clean: true,
		begin: func() { p.redis.primary.Step(p.t, step) }, end: func() { p.redis.primary.Step(p.t, 0) }})

	slices.SortFunc(all, func(a, b fault) int { return slices.Compare([]string{a.name}, []string{b.name}) })
	return all
}

// fill writes to a file until its disk is full.
func fill(t *testing.T, name string) {
	f, err := os.Create(name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for block := make([]byte, 1<<20); err == nil; {
		if _, err = f.Write(block); err != nil && len(block) > 4096 {
			block, err = block[:len(block)/2], nil
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("fill the disk: %v", err)
	}
}

// replace stops an instance and starts it with another program.
func (p *plant) replace(i *site.Instance, program string) {
	i.Stop()
	err := os.Remove(p.links[i])
	if err == nil {
		err = os.Symlink(program, p.links[i])
	}
	if err != nil {
		p.t.Fatal(err)
	}
	i.Restart()
}
