package doctor

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
)

// zkServer is what one server reported.
type zkServer struct {
	addr string
	up   bool
	mode string // empty if unknown
	// voters are the servers of its ensemble that vote, nil if unknown.
	voters []string
	// known reports whether the namespace has a term there.
	known bool
}

// zookeeper checks each server alone, and then the ensemble.
func (p *patient) zookeeper(ctx context.Context) ([]Check, []reading) {
	servers := p.cfg.ZooKeeper.Servers
	list := make([]*zkServer, len(servers))
	checks, _ := side(servers, func(i int, addr string) ([]Check, []reading) {
		n := p.notes("zookeeper", addr)
		list[i] = p.zkServer(ctx, n, addr)
		return n.checks, nil
	})
	up := slices.IndexFunc(list, func(s *zkServer) bool { return s.up })
	if up < 0 {
		return checks, nil
	}
	othersStandIn(checks)
	whole := p.notes("zookeeper", "")
	p.ensemble(whole, list)
	checks = append(checks, p.namespace(ctx, whole, list[up].addr)...)
	return append(checks, whole.checks...), nil
}

// openZooKeeper opens a session on one server as tarry serve does.
func (p *patient) openZooKeeper(ctx context.Context, addr string) (*election.Probe, error) {
	z := p.cfg.ZooKeeper
	return election.OpenProbe(ctx, election.NodeConfig{
		Servers: []string{addr}, Namespace: p.cfg.Namespace, Instance: p.cfg.Instance,
		Session: z.Session, Username: z.Username, Password: z.Password.Reveal(),
	})
}

// maxWords limits the answer to a four-letter word.
const maxWords = 1 << 20

// fourLetters sends a four-letter word, which a server answers without a session if its settings allow that.
func fourLetters(ctx context.Context, addr, word string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxWords))
	return string(text), err
}

// zkServer opens a session on one server, and asks it about itself.
func (p *patient) zkServer(ctx context.Context, n *notes, addr string) *zkServer {
	s := &zkServer{addr: addr}
	call, cancel := p.within(ctx)
	defer cancel()
	word, stop := context.WithTimeout(ctx, min(p.timeout, 2*time.Second))
	srvr, wordErr := fourLetters(word, addr, "srvr")
	stop()
	s.mode = lineOf(srvr, "Mode: ")
	z, err := p.openZooKeeper(call, addr)
	if err != nil {
		change := "start ZooKeeper, open the port, or correct zookeeper.servers"
		switch {
		case errors.Is(err, election.ErrCredentials):
			change = "correct zookeeper.username and zookeeper.password"
		case strings.Contains(srvr, "not currently serving"):
			change = "it runs, but has no majority: start more of the other servers"
		case wordErr == nil && s.mode != "":
			change = "it answers srvr, but grants no session: too many connections from here " +
				"(maxClientCnxns), or TLS only"
		}
		n.broken("reachable", err, change)
		return s
	}
	defer z.Close()
	s.up = true
	found := "it granted a session"
	if s.mode != "" {
		found += ", mode " + s.mode
	}
	n.ok("reachable", "%s", found)
	n.apply(sessionRules, facts{"granted": z.Granted().String(), "zookeeper.session": p.cfg.ZooKeeper.Session.String(),
		"publish.timeout": p.cfg.Publish.Timeout.String(),
		"half":            (z.Granted() / 2).String()})
	if ensemble, err := z.Get(call, "/zookeeper/config"); err == nil {
		s.voters = votersIn(string(ensemble))
	}
	_, err = z.Get(call, "/tarry/"+p.cfg.Namespace+"/term")
	s.known = err == nil
	return s
}

// sessionRules hold the granted session time-out against the one that was asked for: by default, servers keep it within
// 2 and 20 of their ticks.
var sessionRules = []rule{
	{"session", "granted={zookeeper.session}", OK, "{granted}, as asked for", ""},
	{"session", "granted<{zookeeper.session} publish.timeout>{half}", Fail, sessionShort,
		sessionTicks + "; then lower publish.timeout from {publish.timeout} to {half}"},
	{"session", "granted<{zookeeper.session}", Fail, sessionShort, sessionTicks},
	{"session", "", Fail,
		"tarry asked for {zookeeper.session} and the server grants at least {granted}" + sessionWrong,
		"set zookeeper.session to {granted}, or change tickTime (minSessionTimeout, by default 2 ticks) on every server " +
			"of the ensemble"},
}

const (
	sessionShort = "tarry asked for {zookeeper.session} and the server grants at most {granted}" + sessionWrong
	sessionTicks = "set zookeeper.session to {granted}, or change tickTime (maxSessionTimeout, by default 20 ticks) on " +
		"every server of the ensemble"
	sessionWrong = ": takeovers, duplicate windows and publish.timeout are based on the wrong value"
)

func lineOf(text, start string) string {
	for row := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(row, start); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// votersIn reads the ensemble's own list: server.1=host:2888:3888:participant;0.0.0.0:2181.
func votersIn(config string) (voters []string) {
	for row := range strings.Lines(config) {
		name, spec, ok := strings.Cut(strings.TrimSpace(row), "=")
		if !ok || !strings.HasPrefix(name, "server.") {
			continue
		}
		quorum, _, _ := strings.Cut(spec, ";")
		if !strings.HasSuffix(quorum, ":observer") {
			voters = append(voters, name)
		}
	}
	return voters
}

// ensemble checks whether the servers are one ensemble, and how many of them may be lost.
func (p *patient) ensemble(n *notes, list []*zkServer) {
	given := len(list)
	voters, down := 0, 0
	var alone, leaders []string
	known := map[bool]bool{}
	for _, s := range list {
		if !s.up {
			down++
			continue
		}
		voters = max(voters, len(s.voters))
		switch {
		case s.mode == "standalone":
			alone = append(alone, s.addr)
		case s.mode == "leader":
			leaders = append(leaders, s.addr)
		}
		known[s.known] = true
	}
	const split = "name servers of only one ensemble: instances of different ensembles elect a leader each"
	switch {
	case given > 1 && len(alone) > 0:
		n.fail("ensemble", "zookeeper.servers names standalone servers next to others: "+shorten(alone), split)
		return
	case len(leaders) > 1:
		n.fail("ensemble", "zookeeper.servers names servers of several ensembles: "+shorten(leaders)+" each lead "+
			"one", split)
		return
	case len(known) > 1 && len(alone) == 0:
		n.warn("ensemble", "some of the servers know the namespace and others do not",
			split+"; or one server lags far behind")
		return
	}
	if voters == 0 {
		voters = given // they do not show the list, or are standalone and have none
	}
	found := plural(voters, "voting server")
	switch {
	case voters == 1:
		n.warn("ensemble", found, "run three servers: while the only one is down, nothing is delivered")
	case down > 0:
		n.warn("ensemble", fmt.Sprintf("%s, %d of the named servers down", found, down), "bring them back")
	case given < voters:
		n.warn("ensemble", fmt.Sprintf("%s, and zookeeper.servers names %d", found, given),
			"name all of them: an instance uses only the named ones")
	default:
		n.ok("ensemble", "%s, %d may be lost", found, (voters-1)/2)
	}
}

// namespace checks the znodes through one server.
func (p *patient) namespace(ctx context.Context, n *notes, addr string) []Check {
	call, cancel := p.within(ctx)
	defer cancel()
	z, err := p.openZooKeeper(call, addr)
	if err != nil {
		n.broken("access", err, "look at this server's log")
		return nil
	}
	defer z.Close()
	if err := p.access(call, n, z); err != nil {
		n.unchecked("access", err, "")
	}
	return p.members(ctx, call, z)
}

// access checks whether the ACLs let these credentials do what an election needs. ZooKeeper accepts any digest; only
// the ACLs show whether it is the right one.
func (p *patient) access(ctx context.Context, n *notes, z *election.Probe) error {
	root := "/tarry/" + p.cfg.Namespace
	const parentRights = zk.PermRead | zk.PermCreate | zk.PermDelete
	var missing []string
	parent := "/" // the nearest parent that exists
	exists := map[string]bool{}
	for _, node := range []struct {
		path string
		need int32
		what string
	}{
		{"/", 0, ""}, {"/tarry", 0, ""}, {root, parentRights, "create and delete the leader under it"},
		{root + "/term", zk.PermRead | zk.PermWrite, "read and write it"},
		{root + "/instances", parentRights, "list, create and delete instances under it"},
		{root + "/leader", zk.PermRead, "read it"},
	} {
		list, err := z.ACL(ctx, node.path)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		exists[node.path] = true
		if node.path == "/" || node.path == "/tarry" || node.path == root {
			parent = node.path
		}
		if errors.Is(err, zk.ErrNoAuth) {
			missing = append(missing, node.path+" (the user may not even read its ACL)")
			continue
		}
		if err != nil {
			return err
		}
		if have, sure := p.rightsOf(list); have&node.need != node.need {
			if !sure {
				return fmt.Errorf("the ACL of %s has entries other than world and digest", node.path)
			}
			missing = append(missing, node.path+" ("+node.what+")")
		}
	}
	if parent != root { // the first start makes root
		list, err := z.ACL(ctx, parent)
		if err != nil {
			return err
		}
		if have, sure := p.rightsOf(list); have&zk.PermCreate == 0 && sure {
			missing = append(missing, parent+" (create "+root+" under it)")
		}
	}
	if len(missing) > 0 {
		n.fail("access", "the ACLs do not allow these credentials at "+strings.Join(missing, ", "),
			"correct zookeeper.username and zookeeper.password, or change the ACLs of the znodes (setAcl): after a "+
				"change of credentials, the znodes keep the old ones")
		return nil
	}
	switch {
	case !exists[root]:
		n.ok("access", "%s does not exist yet; these credentials may make it", root)
	case p.cfg.ZooKeeper.Username == "":
		n.ok("access", "anybody who can reach ZooKeeper may write %s: without zookeeper.username, only the network "+
			"protects it", root)
	default:
		n.ok("access", "these credentials may write %s", root)
	}
	return nil
}

// rightsOf returns what an ACL allows with these credentials, and whether that could be determined.
func (p *patient) rightsOf(list []zk.ACL) (rights int32, sure bool) {
	user := p.cfg.ZooKeeper.Username
	sum := sha1.Sum([]byte(user + ":" + p.cfg.ZooKeeper.Password.Reveal())) // ZooKeeper's choice
	digest := user + ":" + base64.StdEncoding.EncodeToString(sum[:])
	sure = true
	for _, a := range list {
		switch {
		case a.Scheme == "world", a.Scheme == "digest" && user != "" && a.ID == digest,
			a.Scheme == "digest" && user != "" && a.ID == user+":x": // as users without ADMIN see it
			rights |= a.Perms
		case a.Scheme != "digest":
			sure = false
		}
	}
	return rights, sure
}

// members checks the registered instances, and how this instance would appear among them.
func (p *patient) members(ctx, call context.Context, z *election.Probe) []Check {
	n := p.notes("machine", "")
	root := "/tarry/" + p.cfg.Namespace + "/instances"
	names, err := z.Children(call, root)
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
		n.ok("instances", "none registered")
		p.advertise(n, 0)
		return n.checks
	}
	if err != nil {
		n.unchecked("instances", err, "")
		return n.checks
	}
	slices.Sort(names)
	var others, self []election.Member
	for _, name := range names {
		data, err := z.Get(call, root+"/"+name)
		if err != nil {
			continue // it has left
		}
		var m election.Member
		if json.Unmarshal(data, &m) != nil || m.Instance == "" {
			n.warn("instances", fmt.Sprintf("the znode %s/%s cannot be read", root, name),
				"find out what else writes below /tarry")
			continue
		}
		if m.Instance == p.cfg.Instance {
			self = append(self, m)
		} else {
			others = append(others, m)
		}
	}
	p.advertise(n, len(others))
	all := slices.Concat(self, others)
	leader := p.leader(call, z)
	redis := p.sameRedis(ctx, leader, all) // before dialling the others, which may take all of a call's time
	f := p.reached(ctx, all).with("instance", p.cfg.Instance, "leader", leader, "peer.listen", p.cfg.Peer.Listen,
		"registered", strconv.Itoa(len(all)), "cluster.instances", strconv.Itoa(p.cfg.Cluster.Instances))
	if len(self) > 0 {
		f.with("there", self[0].Address, "here", cmp.Or(p.advertised(), self[0].Address))
	}
	var without, other, losses []string
	told := 0
	for _, m := range all {
		if m.Instance != leader && !m.Linked {
			without = append(without, m.Instance)
		}
		if names := config.Differing(m.Settings, p.cfg.Shared()); len(names) > 0 {
			other = append(other, m.Instance+": "+strings.Join(names, ", "))
		}
		if m.Settings != "" {
			told++
		}
		if m.Restored != "" {
			losses = append(losses, m.Instance+" found messages missing in Redis and gave them back from the journal: "+
				m.Restored)
		}
	}
	n.apply(memberRules, f.with("without", shorten(without), "other", shorten(other), "losses", shorten(losses),
		"told", strconv.Itoa(told)))
	return append(n.checks, redis...)
}

// memberRules hold the registered instances against each other and against these settings.
var memberRules = []rule{
	{"instance", "there=", OK, "no other instance has the name {instance}", ""},
	{"instance", "there={here}", OK, "{instance} is running, at {there}", ""},
	{"instance", "", Fail, "a process at {there} has registered {instance}, and this one would be at {here}",
		"give each process its own instance name: a second one does not start under a name that is in use (if that process " +
			"is this instance before a change of its address, nothing is wrong)"},
	{"links", "leader!= registered>1 peer.listen=" + config.PeerOff, OK,
		"off: when the leader dies, a standby waits for its session to expire", ""},
	{"links", "leader!= registered>1 without!=", Warn,
		"no link to {leader}, which leads: {without}; if it dies, they wait for its session to expire",
		"let the instances reach each other at the host of peer.advertise and the port of peer.listen"},
	{"links", "leader!= registered>1", OK, "every standby sees at once that {leader}, which leads, is dead", ""},
	{"settings", "other!=", Warn, "not as these have them: {other}",
		"give all instances the same, by a reload or a restart: which of them serves a producer is chance"},
	{"settings", "told>0", OK, "as at {told} of {registered} instances", ""},
	{"losses", "losses!=", Warn, "{losses}",
		"find out what Redis lost them to: a restart without persistence, an eviction, a failover"},
	{"instances", "closed!=", Warn, "registered, but not reached from here: {closed}",
		"set their peer.advertise to addresses that all machines can reach, or open the port"},
	{"instances", "sick!=", Warn, "{registered} registered: {sick}",
		"ask each of them why, with tarry cluster --server …"},
	{"instances", "registered>0 registered<{cluster.instances}", Warn,
		"{registered} of the {cluster.instances} that cluster.instances names are registered",
		"start the others, or change cluster.instances"},
	{"instances", "", OK, "{registered} registered and reached", ""},
}

// leader returns the instance that leads, or an empty text.
func (p *patient) leader(call context.Context, z *election.Probe) string {
	var leader struct{ Instance string }
	data, err := z.Get(call, "/tarry/"+p.cfg.Namespace+"/leader")
	if err != nil || json.Unmarshal(data, &leader) != nil {
		return ""
	}
	return leader.Instance
}

// sameRedis compares the Redis of these settings with that of the leader.
func (p *patient) sameRedis(ctx context.Context, leader string, members []election.Member) []Check {
	i := slices.IndexFunc(members, func(m election.Member) bool { return m.Instance == leader })
	if i < 0 || members[i].Store == "" {
		return nil
	}
	rdb := p.dialRedis("")
	defer rdb.Close()
	ask, cancel := p.within(ctx)
	defer cancel()
	mine, err := rdb.HGet(ask, "{"+p.cfg.Namespace+"}:meta", "id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil // Redis's own checks report it
	}
	n := p.notes("redis", "")
	if mine != members[i].Store {
		n.fail("same redis", "these settings name another Redis than that of "+leader+
			", which leads: nobody would deliver the messages in it",
			"compare redis.addrs, redis.master and redis.db with those of "+leader)
	} else {
		n.ok("same redis", "the same as that of %s, which leads", leader)
	}
	return n.checks
}

// advertise checks the address that this instance advertises.
func (p *patient) advertise(n *notes, others int) {
	mine := p.advertised()
	n.apply(advertiseRules, facts{"mine": mine, "others": strconv.Itoa(others),
		"away": yes(mine != "" && config.Loopback(mine))})
}

// advertiseRules hold the address that this instance would register.
var advertiseRules = []rule{
	{"peer.advertise", "mine=", OK, "not set, and http.listen uses any free port", ""},
	{"peer.advertise", "others>0 away=yes", Warn,
		"it is {mine}, which on other machines means those machines; {others} other instances registered",
		"set peer.advertise to an address at which others reach this machine, and http.listen to one that includes it"},
	{"peer.advertise", "", OK, "{mine}", ""},
}

// reached connects to the registered addresses. It tells which it did not reach, and what the others say of themselves.
func (p *patient) reached(ctx context.Context, members []election.Member) facts {
	open := make([]bool, len(members))
	side(members, func(i int, m election.Member) ([]Check, []reading) {
		call, cancel := p.within(ctx)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(call, "tcp", m.Address)
		if open[i] = err == nil; open[i] {
			_ = conn.Close()
		}
		return nil, nil
	})
	var closed, sick []string
	for i, m := range members {
		switch {
		case !open[i]:
			closed = append(closed, fmt.Sprintf("%s (%s)", m.Instance, m.Address))
		case m.Unready:
			sick = append(sick, m.Instance+" is not ready: "+m.Lacks)
		case m.Lacks != "":
			sick = append(sick, m.Instance+" is degraded: "+m.Lacks)
		case !m.Healthy:
			sick = append(sick, m.Instance+" cannot lead")
		}
	}
	return facts{"closed": shorten(closed), "sick": shorten(sick)}
}
