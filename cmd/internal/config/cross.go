package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkServe checks the rules that span settings.
func (l *loader) checkServe(s Serve) {
	l.guarded("http.listen", s.HTTP)
	l.checkSeeds(s)
	l.together("http.tls.cert", "http.tls.key")
	l.both("http.tls.ca", "http.tls.cert")
	l.refuseIf(s.HTTP.ReadTimeout < s.HTTP.HeaderTimeout, "http.read_timeout", "is below http.header_timeout",
		"at least "+showSpan(s.HTTP.HeaderTimeout), "http.header_timeout")
	l.checkNATS()
	l.both("redis.username", "redis.password")
	l.together("zookeeper.username", "zookeeper.password")
	if s.InMemory() {
		l.checkMemory(s)
	} else {
		for _, name := range []string{"data", "nats.listen"} {
			if l.source(name) != envName(name) { // tarry dev may share the environment
				l.unused("needs store: memory", name)
			}
		}
	}
	l.refuseIf(s.Journal.Mode != "off" && s.Journal.DSN == "", "journal.mode", "needs journal.dsn",
		"off without it", "journal.dsn")
	l.refuseIf(s.Journal.DSN != "" && l.source("journal.mode") == "", "journal.mode",
		"is only its default, and journal.dsn is set", "sync, async, or an explicit off", "journal.dsn")
	l.refuseIf(s.Names.Keep > s.Journal.Keep && l.changed("names.keep"), "names.keep",
		"is above journal.keep: the journal does not know names for longer", "at most "+showSpan(s.Journal.Keep),
		"journal.keep")
	l.refuseIf(len(s.Redis.Addrs) > 1 && s.Redis.Master == "" && s.Redis.DB != 0, "redis.db",
		"with several redis.addrs and no redis.master, which means a Cluster", "0 in a Cluster",
		"redis.addrs", "redis.master")
	// A leadership is trusted until half a session after the last renewal; a publish must be settled within it.
	half := s.ZooKeeper.Session / 2
	l.refuseIf(s.Publish.Timeout > half, "publish.timeout", "is above half of zookeeper.session",
		"at most "+showSpan(half), "zookeeper.session")
	l.refuseIf(s.Publish.Pending < s.Buckets, "publish.pending",
		"is below buckets: each needs room for one message in flight",
		fmt.Sprintf("at least %d", s.Buckets), "buckets")
	l.refuseIf(s.Stop.Timeout < s.Publish.Timeout, "stop.timeout", "is below publish.timeout",
		"at least "+showSpan(s.Publish.Timeout), "publish.timeout")
}

// checkNATS checks the combination of the settings of NATS.
func (l *loader) checkNATS() {
	l.together("nats.user", "nats.password")
	l.together("nats.tls.cert", "nats.tls.key")
	l.oneOf("nats.user", "nats.token", "nats.creds")
}

// checkMemory checks the settings of an instance on one machine, without Redis and ZooKeeper. It refuses each setting
// that has no effect there, because the user expects one.
func (l *loader) checkMemory(s Serve) {
	l.refuseIf(s.Data == "", "data", "is not set, and store: memory needs it", l.row("data").limit.words())
	l.refuseIf(s.Journal.Mode != "sync", "journal.mode",
		"conflicts with store: memory, which keeps only what the journal has", "sync")
	dsn := s.Journal.DSN.Reveal()
	l.refuseIf(dsn != "" && !strings.HasPrefix(dsn, "sqlite:"), "journal.dsn", "conflicts with store: memory",
		"sqlite: and a file; a database server is for instances that share a Redis")
	for _, row := range l.rows {
		if strings.HasPrefix(row.name, "redis.") || strings.HasPrefix(row.name, "zookeeper.") || row.name == "peer.listen" {
			l.unused("has no effect with store: memory, which uses neither Redis nor ZooKeeper", row.name)
		}
	}
	if !s.Embedded() {
		l.unused("has no effect with nats.url", "nats.listen")
		return
	}
	l.unused("is for a NATS of your own, which nats.url names", "nats.creds", "nats.tls.ca", "nats.tls.cert",
		"nats.tls.key")
	l.refuseIf(s.NATS.Intake.Replicas != 1, "nats.intake.replicas", "is for a NATS of your own, which nats.url names",
		"1")
	if s.NATS.User == "" && s.NATS.Token == "" && l.good("nats.user", "nats.token") {
		l.guarded("nats.listen", HTTP{Listen: s.NATS.Listen, Insecure: s.HTTP.Insecure})
	}
}

// refuseIf refuses a combination of settings, unless one of them was refused already: a second message about the same
// mistake is no help.
func (l *loader) refuseIf(broken bool, name, wrong, limit string, beside ...string) {
	if broken && l.good(append(beside, name)...) {
		l.refuse(name, wrong, limit)
	}
}

// changed reports whether a setting is not at its default.
func (l *loader) changed(name string) bool { return l.text[name] != l.row(name).fallback }

// unused refuses those of the settings that were changed.
func (l *loader) unused(wrong string, names ...string) {
	for _, name := range names {
		l.refuseIf(l.changed(name), name, wrong, "remove it")
	}
}

func (l *loader) checkDev(s Serve) {
	l.guarded("http.listen", s.HTTP)
	l.checkSeeds(s)
	l.guarded("nats.listen", HTTP{Listen: s.NATS.Listen, Insecure: s.HTTP.Insecure})
}

// checkSeeds checks the listener of other systems' routes.
func (l *loader) checkSeeds(s Serve) {
	l.together("seeds.listen", "seeds.token")
	named := slices.ContainsFunc(s.HTTP.Tokens, func(t Token) bool { return t.Name == s.Seeds.Token })
	l.refuseIf(s.Seeds.Token != "" && !named, "seeds.token", "is none of http.tokens", "the name of one of them",
		"http.tokens", "http.tokens_file", "seeds.listen")
	l.refuseIf(s.Seeds.Listen != "" && !s.Seeds.Insecure && !Loopback(s.Seeds.Listen), "seeds.listen",
		"lets other machines in without a token", "a loopback address, or seeds.insecure: true", "seeds.insecure")
}

// guarded refuses to serve other machines without a token unless that was requested explicitly.
func (l *loader) guarded(name string, h HTTP) {
	if h.Token != "" || len(h.Tokens) > 0 || h.Insecure || Loopback(h.Listen) ||
		!l.good(name, "http.token", "http.tokens", "http.tokens_file", "http.insecure") {
		return
	}
	limit := "a loopback address, or http.token, or http.tokens, or http.insecure: true"
	if name != "http.listen" {
		limit = "a loopback address, or http.insecure: true"
		if l.command == serve {
			limit = "a loopback address, or nats.user, or nats.token, or http.insecure: true"
		}
	}
	l.refuse(name, "lets other machines in without a token", limit)
}

// together requires both settings or neither.
func (l *loader) together(one, other string) {
	l.both(one, other)
	l.both(other, one)
}

// both requires the second setting if the first is set.
func (l *loader) both(name, other string) {
	l.refuseIf(l.text[name] != "" && l.text[other] == "", name, "needs "+other, "both or neither", other)
}

// oneOf allows at most one of the settings.
func (l *loader) oneOf(names ...string) {
	taken := ""
	for _, name := range names {
		switch {
		case l.text[name] == "":
		case taken == "":
			taken = name
		default:
			l.refuse(name, "conflicts with "+taken, "one of "+list(names, "and"))
		}
	}
}
