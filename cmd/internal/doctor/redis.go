package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/store/timeline"
)

// redisMode is how the settings say that Redis runs.
type redisMode string

const (
	single   redisMode = "standalone"
	cluster  redisMode = "cluster"
	sentinel redisMode = "sentinel"
)

func (p *patient) redisMode() redisMode {
	switch r := p.cfg.Redis; {
	case r.Master != "":
		return sentinel
	case len(r.Addrs) > 1:
		return cluster
	}
	return single
}

// dialRedis makes a client for one server, or without an address the client of tarry serve.
func (p *patient) dialRedis(addr string) redis.UniversalClient {
	r := p.cfg.Redis
	cfg := timeline.DialConfig{
		Addrs: r.Addrs, Master: r.Master, Username: r.Username, Password: r.Password.Reveal(), DB: r.DB,
		Name: "tarry-doctor", CallTimeout: p.timeout,
	}
	if addr != "" {
		cfg.Addrs, cfg.Master = []string{addr}, ""
	}
	if r.TLS {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return timeline.Dial(cfg)
}

// dialSentinel makes a client for a Sentinel, which tarry serve asks without credentials.
func (p *patient) dialSentinel(addr string) redis.UniversalClient {
	cfg := timeline.DialConfig{Addrs: []string{addr}, Name: "tarry-doctor", CallTimeout: p.timeout}
	if p.cfg.Redis.TLS {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return timeline.Dial(cfg)
}

// redis finds the servers that hold messages, looks at each, and then at the namespace on them.
func (p *patient) redis(ctx context.Context) ([]Check, []reading) {
	whole := p.notes("redis", "")
	var servers []string
	switch p.redisMode() {
	case sentinel:
		servers = p.sentinels(ctx, whole)
	case cluster:
		servers = p.clusterMasters(ctx, whole)
	default:
		servers = p.cfg.Redis.Addrs
	}
	if len(servers) == 0 {
		return whole.checks, nil
	}
	checks, clocks := side(servers, func(_ int, addr string) ([]Check, []reading) {
		return p.redisServer(ctx, addr)
	})
	if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == "reachable" && c.Status == Fail }) {
		p.redisNamespace(ctx, whole)
	}
	return append(whole.checks, checks...), clocks
}

const sentinelHint = "name the Sentinels in redis.addrs and the group they watch in redis.master"

// announcedAway is that a Sentinel names the master by an address that means another machine there.
const announcedAway = "announced=yes local!=yes"

// sentinelRules hold what a Sentinel knows of the master.
var sentinelRules = []rule{
	{"reachable", "o_down=yes", Fail, sentinelKnows + ", which is down ({flags})",
		"bring the master back, or find out why no replica is promoted"},
	{"reachable", "s_down=yes", Warn, sentinelKnows + ", which this Sentinel cannot reach",
		"check the network between them"},
	{"reachable", "num-other-sentinels<2", Warn, sentinelKnows,
		"run at least three Sentinels, on three machines: two cannot agree once one is lost"},
	{"reachable", "", OK, sentinelKnows, ""},
	{"announced address", announcedAway, Fail,
		"the master is announced as {ip}, which on other machines means those machines",
		"set sentinel announce-ip, or monitor the master by an address that all machines reach"},
}

const sentinelKnows = "it knows {others}, quorum {quorum}, master at {ip}:{port}"

// clusterRules hold what a node knows of its Cluster.
var clusterRules = []rule{
	{"cluster", "cluster_state!=ok", Fail, clusterIs, clusterChange},
	{"cluster", "cluster_slots_ok!=16384", Fail, clusterIs, clusterChange},
	{"cluster", "down!=", Warn, clusterIs + "; down: {down}",
		"bring the nodes back: without a replica, the loss of a master loses messages"},
	{"cluster", "", OK, clusterIs, ""},
}

const (
	clusterIs     = "{masters}, state {cluster_state}, {cluster_slots_assigned} of 16384 slots assigned"
	clusterChange = "bring the missing masters back or assign their slots (redis-cli --cluster check): tarry can " +
		"neither write nor read the buckets in these slots"
)

// namespaceRules hold what the namespace's first start recorded against the settings. new is yes before it.
var namespaceRules = []rule{
	{"buckets", "new=yes", OK, "namespace {namespace} is new here: the first start will record {buckets}", ""},
	{"buckets", "recorded!={buckets}", Fail,
		"the setting buckets is {buckets}, but namespace {namespace} was begun with {recorded}, which hold its messages",
		"set buckets to {recorded}; or, with every instance stopped, run tarry rebucket {buckets}"},
	{"buckets", "", OK, "{recorded}, as the setting says", ""},
	{"key layout", "new!=yes layout!={layouts}", Fail,
		"namespace {namespace} has layout {layout}, this tarry knows {known}",
		"run the tarry that knows layout {layout} until the namespace is empty, or use another namespace"},
	{"key layout", "new!=yes", OK, "{layout}", ""},
	{"quarantine", "quarantined=0", OK, "empty: the journal could record every entry of the outbox", ""},
	{"quarantine", "quarantined>0", Warn,
		"the journal could not record entries of the outbox: {quarantined} in quarantine in {held}; the journal may show " +
			"their messages as waiting although they have ended, so it restores none of them",
		"tarry verify lists them, and the log says why; once you know the cause, run tarry verify --repair, look at what " +
			"it still finds of them, and then run redis-cli DEL {first}{others}"},
}

// sentinels asks each Sentinel for the master, and returns the master that most of them name.
func (p *patient) sentinels(ctx context.Context, whole *notes) []string {
	votes := make([]string, len(p.cfg.Redis.Addrs))
	checks, _ := side(p.cfg.Redis.Addrs, func(i int, addr string) ([]Check, []reading) {
		n := p.notes("redis", "sentinel "+addr)
		votes[i] = p.oneSentinel(ctx, n, addr)
		return n.checks, nil
	})
	whole.checks = append(whole.checks, checks...)
	count := map[string]int{}
	for _, v := range votes {
		if v != "" {
			count[v]++
		}
	}
	masters := make([]string, 0, len(count))
	for addr := range count {
		masters = append(masters, addr)
	}
	slices.SortFunc(masters, func(a, b string) int { return count[b] - count[a] })
	switch {
	case len(masters) == 0:
		return nil
	case len(masters) > 1:
		whole.fail("sentinels agree", "they name different masters: "+shorten(masters),
			"wait until the failover has ended; if it does not end, some Sentinels watch another Redis or "+
				"cannot reach the others")
	}
	if given := len(p.cfg.Redis.Addrs); given < 3 {
		whole.warn("sentinels named", plural(given, "Sentinel")+" in redis.addrs",
			"name all of them, at least three: while the named Sentinels do not answer, tarry cannot find the master")
	} else {
		whole.ok("sentinels named", "%d in redis.addrs", given)
	}
	return masters[:1]
}

// oneSentinel asks one; it returns the master's address, or nothing.
func (p *patient) oneSentinel(ctx context.Context, n *notes, addr string) string {
	rdb := p.dialSentinel(addr)
	defer rdb.Close()
	call, cancel := p.within(ctx)
	defer cancel()
	answer, err := rdb.Do(call, "SENTINEL", "MASTER", p.cfg.Redis.Master).Result()
	if err != nil {
		switch text := err.Error(); {
		case strings.Contains(text, "unknown command"):
			n.fail("reachable", "it is a Redis server, not a Sentinel", sentinelHint+", or remove redis.master")
		case strings.Contains(text, "No such master"):
			n.fail("reachable", fmt.Sprintf("it watches no group %q", p.cfg.Redis.Master),
				"set redis.master to the name in sentinel.conf (sentinel monitor NAME …)")
		default:
			n.broken("reachable", err,
				"start it, open the port, or correct redis.addrs; tarry asks Sentinels without a password")
		}
		return ""
	}
	f := facts(pairs(answer)).with("s_down", "", "o_down", "")
	for state := range strings.SplitSeq(f["flags"], ",") {
		f[state] = "yes"
	}
	others, _ := strconv.Atoi(f["num-other-sentinels"])
	f.with("others", plural(others, "other Sentinel"), "num-other-sentinels", strconv.Itoa(others), "announced",
		yes(config.Loopback(f["ip"]+":0")), "local", yes(config.Loopback(addr)))
	n.apply(sentinelRules, f)
	if f.hold(announcedAway) || f["ip"] == "" {
		return ""
	}
	return net.JoinHostPort(f["ip"], f["port"])
}

// clusterMasters asks the first node that answers which nodes are masters.
func (p *patient) clusterMasters(ctx context.Context, whole *notes) []string {
	var masters []string
	var failures []error
	for _, addr := range p.cfg.Redis.Addrs {
		found, err := p.clusterNode(ctx, whole, addr)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		if masters = found; len(masters) > 0 {
			break
		}
		return nil // it answered, and does not fit
	}
	if len(masters) == 0 {
		whole.broken("reachable", errors.Join(failures...),
			"start Redis, open the ports, or correct redis.addrs, redis.username and redis.password")
		return nil
	}
	for _, err := range failures {
		whole.add(Warn, "reachable", whole.hide(err.Error()), "correct redis.addrs, or bring the node back", err)
	}
	return masters
}

func (p *patient) clusterNode(ctx context.Context, whole *notes, addr string) ([]string, error) {
	rdb := p.dialRedis(addr)
	defer rdb.Close()
	call, cancel := p.within(ctx)
	defer cancel()
	text, err := rdb.ClusterInfo(call).Result()
	if err != nil && strings.Contains(err.Error(), "cluster support disabled") {
		whole.fail("cluster", addr+" is a single server, but several redis.addrs without redis.master mean a Cluster",
			"name one address in redis.addrs; or, with Sentinels, "+sentinelHint)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	f := facts(timeline.ParseInfo(text))
	nodes, err := rdb.ClusterNodes(call).Result()
	if err != nil {
		return nil, err
	}
	masters, down := mastersIn(nodes, addr)
	whole.apply(clusterRules, f.with("masters", plural(len(masters), "master"), "down", shorten(down)))
	return masters, nil
}

// mastersIn parses CLUSTER NODES and returns the masters that have slots, and the nodes that are down. An empty host
// means the host of the server asked.
func mastersIn(nodes, asked string) (masters, down []string) {
	for row := range strings.Lines(nodes) {
		f := strings.Fields(row)
		if len(f) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(f[1], "@")
		addr, _, _ = strings.Cut(addr, ",")
		if strings.HasPrefix(addr, ":") {
			addr = asked[:strings.LastIndexByte(asked, ':')] + addr
		}
		flags := strings.Split(f[2], ",")
		switch {
		case slices.Contains(flags, "noaddr") || slices.Contains(flags, "handshake"):
		case slices.Contains(flags, "fail") || slices.Contains(flags, "fail?") ||
			f[7] == "disconnected" && !slices.Contains(flags, "myself"):
			down = append(down, addr)
		case slices.Contains(flags, "master") && len(f) > 8:
			masters = append(masters, addr)
		}
	}
	return masters, down
}

// redisNamespace checks what the namespace's first start recorded, as tarry serve will.
func (p *patient) redisNamespace(ctx context.Context, n *notes) {
	rdb := p.dialRedis("")
	defer rdb.Close()
	call, cancel := p.within(ctx)
	defer cancel()
	key := "{" + p.cfg.Namespace + "}:meta"
	stored, err := rdb.HMGet(call, key, "buckets", "layout").Result()
	if err != nil {
		n.broken("buckets", err, "the user needs the key patterns {"+p.cfg.Namespace+"}:* and {"+
			p.cfg.Namespace+":*}:*")
		return
	}
	recorded, _ := stored[0].(string)
	layout, _ := stored[1].(string)
	f := facts{"namespace": p.cfg.Namespace, "buckets": strconv.Itoa(p.cfg.Buckets), "recorded": recorded,
		"new": yes(recorded+layout == ""), "layout": layout, "known": timeline.Layout,
		"layouts": timeline.Layout + "|" + timeline.RaisedLayout}
	if recorded == f["buckets"] && f.hold("layout={layouts}") {
		p.quarantined(ctx, n, rdb, f)
	}
	n.apply(namespaceRules, f)
}

// quarantined looks for entries of the outbox that the journal could not record.
func (p *patient) quarantined(ctx context.Context, n *notes, rdb redis.UniversalClient, f facts) {
	call, cancel := p.within(ctx)
	defer cancel()
	keys, lengths := make([]string, p.cfg.Buckets), make([]*redis.IntCmd, p.cfg.Buckets)
	_, err := rdb.Pipelined(call, func(all redis.Pipeliner) error {
		for bucket := range keys {
			keys[bucket] = fmt.Sprintf("{%s:%d}:quarantine", p.cfg.Namespace, bucket)
			lengths[bucket] = all.XLen(call, keys[bucket])
		}
		return nil
	})
	if err != nil {
		n.unchecked("quarantine", err, "let the user call XLEN on keys like "+keys[0])
		return
	}
	var entries int64
	var held []string
	for bucket, key := range keys {
		if in := lengths[bucket].Val(); in > 0 {
			entries, held = entries+in, append(held, "'"+key+"'")
		}
	}
	f.with("quarantined", strconv.FormatInt(entries, 10), "held", shorten(held))
	if len(held) > 0 {
		f.with("first", held[0], "others", strings.Repeat(" and the same for the others", min(len(held)-1, 1)))
	}
}

// pairs reads names and values. Older servers send them as a list, newer ones as a map.
func pairs(answer any) map[string]string {
	out := map[string]string{}
	switch a := answer.(type) {
	case map[any]any:
		for k, v := range a {
			out[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any:
		for i := 0; i+1 < len(a); i += 2 {
			out[fmt.Sprint(a[i])] = fmt.Sprint(a[i+1])
		}
	}
	return out
}
