//go:build lab

package nemesis_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// plant is the servers, the three instances, and what happened.
type plant struct {
	t     *testing.T
	s     *site.Site
	h     *site.History // of the load
	u     *users
	redis *pair
	disk  string // of MariaDB: a file system of its own
	ways  map[*site.Instance]*site.Network
	links map[*site.Instance]string // the instance's own name of the program
	rnd   *rand.Rand

	rounds []round
}

func TestNemesis(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("TARRY_FOR"), "30m"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("TARRY_SEED"), strconv.FormatInt(time.Now().Unix(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("TARRY_SEED=%d TARRY_FOR=%s", seed, length)
	p := newPlant(t, seed)
	l := &site.Load{S: p.s, H: p.h, Make: site.Maker{Seed: seed, Spread: 6 * time.Second, Burst: time.Second}, Least: 1000,
		Rate: 100, Doors: p.s.Instances}
	l.Begin(t)
	p.u.begin()

	site.Pause(t.Context(), 20*time.Second) // so that there is something to compare with
	t.Cleanup(func() { p.keep(seed) })
	begun := time.Now()
	for n := 0; time.Since(begun) < length && !t.Failed(); n++ {
		p.round(n)
	}
	p.u.finish()
	l.Finish(t)
	l.Judge(t)
	p.s.OnceStored()
	p.s.Journaled(p.h)
	p.s.OneLeader()
	p.s.Says(p.s.Instances[0], 0, "", "verify")
	p.judge()
	p.table()
}

func newPlant(t *testing.T, seed uint64) *plant {
	p := &plant{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), ways: map[*site.Instance]*site.Network{},
		links: map[*site.Instance]string{}}
	p.s = site.New(t, site.Options{Zk: true, Plain: true})
	p.redis = newPair(p)
	p.disk = t.TempDir()
	lab.Needs(t, "a file system of its own for MariaDB")
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", p.disk).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", p.disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	p.s.Journal("sync", lab.NewMariaDBIn(t, filepath.Join(p.disk, "data")))
	p.h = site.NewHistory(p.s.Ns)
	p.u = newUsers(p.s, seed)
	settings := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(settings, []byte(p.u.topics()), 0o600); err != nil {
		t.Fatal(err)
	}
	p.s.Settings = append(p.s.Settings, "TARRY_CONFIG="+settings)
	program := p.s.Binary
	for i, name := range []string{"a", "b", "c"} {
		p.s.Binary = filepath.Join(t.TempDir(), "tarry")
		if err := os.Symlink(program, p.s.Binary); err != nil {
			t.Fatal(err)
		}
		way := p.s.Network(fmt.Sprintf("127.0.0.%d", 2+i))
		instance := p.s.Start(name, way.Settings()...)
		p.ways[instance], p.links[instance] = way, p.s.Binary
	}
	p.s.Binary = program
	p.s.Consume(p.h)
	p.s.Explain(p.h)
	return p
}

// round is one time of trouble, and how it was.
type round struct {
	what     string
	from, to time.Time
}

// round begins faults, one after the other, ends them in the same order, and waits until all is well again.
func (p *plant) round(n int) {
	p.t.Helper()
	chosen := p.choose(n)
	var names []string
	for _, f := range chosen {
		names = append(names, f.name)
	}
	r := round{what: strings.Join(names, " + "), from: time.Now()}
	p.t.Logf("%s round %d: %s", site.Stamp(r.from), n, r.what)
	before := p.s.Certified()
	var closed []func()
	for _, f := range chosen {
		if f.ready != nil {
			f.ready()
		}
		switch {
		case f.loses:
			closed = append(closed, p.s.Loses(p.h, f.name), p.u.fault(history.Leases, f.name),
				p.u.fault(history.Repeats, f.name))
		case !f.clean:
			closed = append(closed, p.h.Open(f.name, time.Now()), p.u.fault(history.Repeats, f.name))
		}
		f.begin()
		site.Pause(p.t.Context(), time.Duration(p.rnd.IntN(300))*time.Millisecond)
	}
	site.Pause(p.t.Context(), 200*time.Millisecond+time.Duration(p.rnd.IntN(8000))*time.Millisecond)
	for _, f := range chosen {
		if f.end != nil {
			f.end()
		}
	}
	for _, i := range p.s.Instances {
		p.s.Ready(i)
	}
	if slices.ContainsFunc(chosen, func(f fault) bool { return f.loses }) {
		p.s.Whole(before, p.s.Instances...)
	}
	_, term := p.s.Leader(0, p.s.Instances...)
	p.s.Settled(term-1, func() {})
	p.u.settled()
	for _, end := range closed {
		end()
	}
	r.to = time.Now()
	p.rounds = append(p.rounds, r)
	p.t.Logf("%s round %d: well again", site.Stamp(r.to), n)
	site.Pause(p.t.Context(), time.Duration(500+p.rnd.IntN(1500))*time.Millisecond)
}

// judge holds what the users saw against the promises.
func (p *plant) judge() {
	all := p.u.events()
	found, judged, of := history.Judge(all)
	for i, v := range found {
		if i < 20 {
			picture, err := v.Draw()
			p.t.Error(v, picture, err)
		}
	}
	p.t.Logf("users: %d events, %d promises broken; the answers about %d of %d messages judged; %s", len(all), len(found),
		judged, of, p.u.counts())
}

// keep writes the users' history if the test has failed, also in the middle of a round.
func (p *plant) keep(seed uint64) {
	if !p.t.Failed() {
		return
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("tarry-nemesis-%d.jsonl", seed))
	file, err := os.Create(name)
	if err == nil {
		err = history.Write(file, p.u.events())
		_ = file.Close()
	}
	p.t.Logf("the users' history is in %s (%v): go run ./deploy/check tells more", name, err)
}

// table prints how late the messages came that were due while a fault lasted, before the first, and right after one:
// those may have lost time before they were due, in the intake for example.
func (p *plant) table() {
	during, once := map[string][]time.Duration{}, map[string]int{}
	for _, m := range p.h.Late() {
		what := "(after a fault)"
		if m.Due.Before(p.rounds[0].from.Add(-time.Second)) {
			what = "(before the first fault)"
		}
		for _, r := range p.rounds {
			if !m.Due.Before(r.from.Add(-time.Second)) && m.Due.Before(r.to) {
				what = r.what
			}
		}
		if during[what] = append(during[what], m.Late); m.Times == 1 {
			once[what]++
		}
	}
	var lines []string
	for what, late := range during {
		if slices.Sort(late); len(late) > 0 {
			at := func(share float64) time.Duration {
				return late[min(int(float64(len(late))*share), len(late)-1)].Round(100 * time.Microsecond)
			}
			lines = append(lines, fmt.Sprintf("%-90s %7d %10s %10s %10s %10s %9.3f%%", what, len(late), at(0.5), at(0.99),
				at(0.999), at(1), 100*float64(once[what])/float64(len(late))))
		}
	}
	slices.Sort(lines)
	p.t.Logf("lateness:\n%-90s %7s %10s %10s %10s %10s %10s\n%s", "while", "due", "p50", "p99", "p99.9", "greatest",
		"once", strings.Join(lines, "\n"))
}
