package doctor

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/election"
)

// zkServer is what one server said.
type zkServer struct {
	addr string
	up   bool
	mode string // empty where it is not known
	// voters are the servers of its ensemble that vote; nil where they are not known.
	voters []string
	// known reports whether the namespace has had a term.
	known bool
}

// zookeeper looks at each server alone, then at what they make together.
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

// maxWords bounds the answer to four letters.
const maxWords = 1 << 20

// fourLetters asks what servers answer without a session, where they are let.
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
			change = "it runs and serves nobody: bring enough of the other servers up for a majority"
		case wordErr == nil && s.mode != "":
			change = "it answers srvr, and gives no session: too many connections from here " +
				"(maxClientCnxns), or TLS only"
		}
		n.broken("reachable", err, change)
		return s
	}
	defer z.Close()
	s.up = true
	found := "a session was given"
	if s.mode != "" {
		found += ", mode " + s.mode
	}
	n.ok("reachable", "%s", found)
	p.granted(n, z.Granted())
	p.zkLatency(n, srvr)
	if config, err := z.Get(call, "/zookeeper/config"); err == nil {
		s.voters = votersIn(string(config))
	}
	_, err = z.Get(call, "/tarry/"+p.cfg.Namespace+"/term")
	s.known = err == nil
	return s
}

// granted compares the session time-out that was asked for with the granted one: servers keep it between 2 and 20 of
// their ticks.
func (p *patient) granted(n *notes, granted time.Duration) {
	asked := p.cfg.ZooKeeper.Session
	if granted == asked {
		n.ok("session", "%s, as asked for", granted)
		return
	}
	low, limit := "at least", "minSessionTimeout, 2 ticks unless set"
	if granted < asked {
		low, limit = "at most", "maxSessionTimeout, 20 ticks unless set"
	}
	change := fmt.Sprintf("zookeeper.session %s, or change tickTime (%s) on every server of the ensemble",
		granted, limit)
	if granted < 2*p.cfg.Publish.Timeout {
		change += fmt.Sprintf("; publish.timeout %s must then go down to %s", p.cfg.Publish.Timeout, granted/2)
	}
	n.fail("session", fmt.Sprintf("%s was asked for and the server grants %s %s: takeovers, duplicate windows and "+
		"publish.timeout go by the wrong figure", asked, low, granted), change)
}

// zkLatency is how long requests have waited at the most; a disk that is shared with others shows here.
func (p *patient) zkLatency(n *notes, srvr string) {
	parts := strings.Split(lineOf(srvr, "Latency min/avg/max: "), "/")
	if len(parts) != 3 {
		return
	}
	most := time.Duration(number(parts[2])) * time.Millisecond
	found := fmt.Sprintf("requests took %s ms on average and %s ms at most since its start", parts[1], parts[2])
	change := ""
	if most > p.cfg.ZooKeeper.Session/3 {
		change = "give ZooKeeper's log a disk of its own, and look at its garbage collection: a renewal that waits " +
			"half a session costs the leadership"
	}
	n.judge(Warn, "latency", found, change)
}

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

// ensemble is whether the servers are one, and how many of them may be lost.
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
	const split = "name servers of one ensemble only: instances that meet at different ones elect a leader each"
	switch {
	case given > 1 && len(alone) > 0:
		n.fail("ensemble", "standalone servers beside others in zookeeper.servers: "+shorten(alone), split)
		return
	case len(leaders) > 1:
		n.fail("ensemble", "servers of several ensembles: "+shorten(leaders)+" each lead one", split)
		return
	case len(known) > 1 && len(alone) == 0:
		n.warn("ensemble", "some of the servers know the namespace and others do not",
			split+"; or one of them lags far behind")
		return
	}
	if voters == 0 {
		voters = given // they do not say, or there is no list as they stand alone
	}
	found := plural(voters, "voting server")
	switch {
	case voters == 1:
		n.warn("ensemble", found, "run three servers: while the only one is away nothing is delivered")
	case voters%2 == 0:
		n.warn("ensemble", found, fmt.Sprintf("run %d: an even number survives no more losses than one less", voters+1))
	case down > 0:
		n.warn("ensemble", fmt.Sprintf("%s, %d of those named away", found, down), "bring them back")
	case given < voters:
		n.warn("ensemble", fmt.Sprintf("%s, and zookeeper.servers names %d", found, given),
			"name all of them: an instance knows no others")
	default:
		n.ok("ensemble", "%s, %d may be lost", found, (voters-1)/2)
	}
}

// namespace looks at the znodes through one server.
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
		n.untold("access", err, "")
	}
	return p.members(ctx, call, z)
}

// access is whether the ACLs let these credentials do what an election needs. A digest is always accepted; only the
// ACLs show whether it is the right one.
func (p *patient) access(ctx context.Context, n *notes, z *election.Probe) error {
	root := "/tarry/" + p.cfg.Namespace
	const parentRights = zk.PermRead | zk.PermCreate | zk.PermDelete
	var missing []string
	parent := "/" // the nearest that exists
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
			missing = append(missing, node.path+" (not even its ACL may be read)")
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
	if parent != root { // it is to be made
		list, err := z.ACL(ctx, parent)
		if err != nil {
			return err
		}
		if have, sure := p.rightsOf(list); have&zk.PermCreate == 0 && sure {
			missing = append(missing, parent+" (create "+root+" under it)")
		}
	}
	if len(missing) > 0 {
		n.fail("access", "the ACLs do not let these credentials in at "+strings.Join(missing, ", "),
			"correct zookeeper.username and zookeeper.password, or give them the znodes (setAcl); after a change of "+
				"credentials the znodes keep the old ones")
		return nil
	}
	switch {
	case !exists[root]:
		n.ok("access", "%s does not exist yet and may be made", root)
	case p.cfg.ZooKeeper.Username == "":
		n.ok("access", "%s may be written by anybody who reaches ZooKeeper: without zookeeper.username it has no "+
			"guard but the network", root)
	default:
		n.ok("access", "%s may be written with these credentials", root)
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
			a.Scheme == "digest" && user != "" && a.ID == user+":x": // how it is shown to those without ADMIN
			rights |= a.Perms
		case a.Scheme != "digest":
			sure = false
		}
	}
	return rights, sure
}

// members looks at the instances that are registered, and at how this one would stand among them.
func (p *patient) members(ctx, call context.Context, z *election.Probe) []Check {
	n := p.notes("machine", "")
	root := "/tarry/" + p.cfg.Namespace + "/instances"
	names, err := z.Children(call, root)
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
		n.ok("instances", "none is registered")
		p.advertise(n, 0)
		return n.checks
	}
	if err != nil {
		n.untold("instances", err, "")
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
				"look who writes under /tarry")
			continue
		}
		if m.Instance == p.cfg.Instance {
			self = append(self, m)
		} else {
			others = append(others, m)
		}
	}
	p.instanceName(n, self)
	p.advertise(n, len(others))
	all := slices.Concat(self, others)
	redis := p.sameRedis(ctx, call, z, all) // before the others are dialled, which may take as long as a call may
	p.reachable(ctx, n, all)
	return append(n.checks, redis...)
}

// sameRedis compares the Redis of these settings with that of the leader.
func (p *patient) sameRedis(ctx, call context.Context, z *election.Probe, members []election.Member) []Check {
	var leader struct{ Instance string }
	data, err := z.Get(call, "/tarry/"+p.cfg.Namespace+"/leader")
	if err != nil || json.Unmarshal(data, &leader) != nil {
		return nil // nobody leads
	}
	i := slices.IndexFunc(members, func(m election.Member) bool { return m.Instance == leader.Instance })
	if i < 0 || members[i].Store == "" {
		return nil
	}
	rdb := p.dialRedis("")
	defer rdb.Close()
	ask, cancel := p.within(ctx)
	defer cancel()
	mine, err := rdb.HGet(ask, "{"+p.cfg.Namespace+"}:meta", "id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil // said by Redis's own checks
	}
	n := p.notes("redis", "")
	if mine != members[i].Store {
		n.fail("same redis", "the Redis of these settings is not that of "+leader.Instance+
			", which leads: nobody would deliver what is kept there",
			"compare redis.addrs, redis.master and redis.db with those of "+leader.Instance)
	} else {
		n.ok("same redis", "it is that of %s, which leads", leader.Instance)
	}
	return n.checks
}

func (p *patient) instanceName(n *notes, self []election.Member) {
	mine := p.advertised()
	switch {
	case len(self) == 0:
		n.ok("instance", "%s is nobody else's name", p.cfg.Instance)
	case mine == "" || self[0].Address == mine:
		n.ok("instance", "%s runs now, at %s", p.cfg.Instance, self[0].Address)
	default:
		n.fail("instance", fmt.Sprintf("%s is registered by a process at %s, and this one would be at %s",
			p.cfg.Instance, self[0].Address, mine),
			"give each process an instance name of its own; a second one does not start under a name that lives "+
				"(nothing is wrong where this is the same process before a change of its address)")
	}
}

// advertise is about the address that others are shown.
func (p *patient) advertise(n *notes, others int) {
	mine := p.advertised()
	if mine == "" {
		n.ok("peer.advertise", "not set, and http.listen has any free port")
		return
	}
	if others > 0 && local(mine) {
		n.warn("peer.advertise", fmt.Sprintf("others are shown %s, which leads them to themselves; %s registered", mine,
			plural(others, "other instance")),
			"set peer.advertise to an address by which this machine is reached, and http.listen to one that it serves")
		return
	}
	n.ok("peer.advertise", "others are shown %s", mine)
}

// reachable tries the registered addresses.
func (p *patient) reachable(ctx context.Context, n *notes, members []election.Member) {
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
		case !m.Healthy:
			sick = append(sick, m.Instance)
		}
	}
	switch {
	case len(closed) > 0:
		n.warn("instances", "registered and not reached from here: "+shorten(closed),
			"set their peer.advertise to addresses that all machines reach, or open the port")
	case len(sick) > 0:
		n.warn("instances", plural(len(members), "instance")+" registered, not ready: "+shorten(sick),
			"ask them why: tarry health --server …")
	default:
		n.ok("instances", "%s registered and reached", plural(len(members), "instance"))
	}
}
