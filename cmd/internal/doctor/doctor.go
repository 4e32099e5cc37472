package doctor

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// DefaultTimeout bounds one check.
const DefaultTimeout = 5 * time.Second

// patient is the subject of one run.
type patient struct {
	cfg     config.Serve
	timeout time.Duration
	hide    func(string) string
}

// part checks one dependency. It returns its findings and the readings of the clocks there.
type part func(ctx context.Context) ([]Check, []reading)

// Run runs all checks and returns when they have ended, each within the time-out (0: DefaultTimeout).
func Run(ctx context.Context, cfg config.Serve, timeout time.Duration) Report {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	p := &patient{cfg: cfg, timeout: timeout, hide: hider(cfg)}
	parts := []part{p.machine, p.redis, p.natsServers, p.zookeeper, p.journal}
	if cfg.InMemory() {
		parts = []part{p.machine, p.oneMachine, p.natsServers, p.journal}
	}
	checks, clocks := side(parts, func(_ int, look part) ([]Check, []reading) { return look(ctx) })
	last := p.notes("machine", "")
	if !cfg.Embedded() { // otherwise all clocks are this machine's
		p.clocks(last, clocks)
	}
	return Report{Checks: append(checks, last.checks...)}.grouped()
}

// grouped puts checks of one group and target together, in the order in which they first came.
func (r Report) grouped() Report {
	came := slices.Clone(r.Checks)
	first := func(c Check, whole bool) int {
		return slices.IndexFunc(came, func(d Check) bool { return d.Group == c.Group && (whole || d.Target == c.Target) })
	}
	slices.SortStableFunc(r.Checks, func(a, b Check) int {
		return cmp.Or(first(a, true)-first(b, true), first(a, false)-first(b, false))
	})
	return r
}

// side runs look on all items side by side, each with its index, and joins what they found in the order of the items.
func side[T any](items []T, look func(int, T) ([]Check, []reading)) (checks []Check, clocks []reading) {
	type result struct {
		checks []Check
		clocks []reading
	}
	results := make([]result, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { results[i].checks, results[i].clocks = look(i, item) })
	}
	all.Wait()
	for _, r := range results {
		checks, clocks = append(checks, r.checks...), append(clocks, r.clocks...)
	}
	return checks, clocks
}

// othersStandIn turns failures to reach a server into warnings, since another server of the same kind was reached.
func othersStandIn(checks []Check) {
	for i := range checks {
		if c := &checks[i]; c.Name == "reachable" && c.Status == Fail {
			c.Status = Warn
		}
	}
}

func (p *patient) notes(group, target string) *notes {
	return &notes{group: group, target: target, hide: p.hide}
}

func (p *patient) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.timeout)
}

// window returns how long a stream must remember a Nats-Msg-Id to recognize every repetition around a takeover.
func (p *patient) window() time.Duration { return p.cfg.ZooKeeper.Session + 2*p.cfg.Publish.Timeout }

// leastSecret is the length from which hider removes a secret. A shorter one would also be found in ordinary words, and
// the gap in such a word would reveal it.
const leastSecret = 6

// hider removes the settings' secrets from texts. Drivers do not print them; hider guards against one that does.
func hider(cfg config.Serve) func(string) string {
	secrets := []string{
		cfg.HTTP.Token.Reveal(), cfg.NATS.Password.Reveal(), cfg.NATS.Token.Reveal(), cfg.Redis.Password.Reveal(),
		cfg.ZooKeeper.Password.Reveal(),
		cfg.Journal.DSN.Reveal(), cfg.Journal.Password(),
	}
	var pairs []string
	for _, s := range secrets {
		if len(s) >= leastSecret && !strings.HasPrefix(s, sqliteScheme) {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// reading is the time on a server's clock, relative to the local clock.
type reading struct {
	source string
	// ahead is how far the server's clock is ahead; it may be off by unsure, half of the round trip.
	ahead, unsure time.Duration
}

// read makes a reading of a server's time, requested at sent and received at got.
func read(source string, server, sent, got time.Time) reading {
	trip := got.Sub(sent)
	return reading{source: source, ahead: server.Sub(sent.Add(trip / 2)), unsure: trip / 2}
}

// round rounds a duration for people.
func round(d time.Duration) time.Duration {
	switch a := d.Abs(); {
	case a >= 10*time.Second:
		return d.Round(time.Second)
	case a >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// share returns how much of a limit is used, in percent, or 0 without a limit.
func share(used, limit int64) int {
	if limit <= 0 {
		return 0
	}
	return int(math.Round(float64(used) * 100 / float64(limit)))
}
