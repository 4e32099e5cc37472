package config

import (
	"fmt"
	"strings"
)

// checkServe holds what no limit of a single setting can. A rule is skipped when one of its settings was refused
// already: a second message about the same mistake helps nobody.
func (l *loader) checkServe(s Serve) {
	l.guarded("http.listen", s.HTTP)
	l.both("http.tls.cert", "http.tls.key")
	l.both("http.tls.key", "http.tls.cert")
	l.both("http.tls.ca", "http.tls.cert")
	if s.HTTP.ReadTimeout < s.HTTP.HeaderTimeout && l.good("http.read_timeout", "http.header_timeout") {
		l.refuse("http.read_timeout", "is below http.header_timeout", showSpan(s.HTTP.HeaderTimeout)+" at least there")
	}
	l.checkNATS()
	l.both("redis.username", "redis.password")
	l.both("zookeeper.username", "zookeeper.password")
	l.both("zookeeper.password", "zookeeper.username")
	if s.InMemory() {
		l.checkMemory(s)
	} else {
		for _, name := range []string{"data", "nats.listen"} {
			if l.source[name] != l.row(name).env() { // tarry dev may share the environment
				l.unused("stands without store: memory", name)
			}
		}
	}
	if s.Journal.Mode != "off" && s.Journal.DSN == "" && l.good("journal.mode", "journal.dsn") {
		l.refuse("journal.mode", "stands without journal.dsn", "off there")
	}
	if s.Journal.DSN != "" && l.source["journal.mode"] == "" && l.good("journal.mode", "journal.dsn") {
		l.refuse("journal.mode", "is only its default, and journal.dsn is set", "sync or async there, or off by name")
	}

	if s.Names.Keep > s.Journal.Keep && l.text["names.keep"] != l.row("names.keep").fallback &&
		l.good("names.keep", "journal.keep") {
		l.refuse("names.keep", "is above journal.keep, past which nothing is known",
			showSpan(s.Journal.Keep)+" at most there")
	}

	if cluster := len(s.Redis.Addrs) > 1 && s.Redis.Master == ""; cluster && s.Redis.DB != 0 &&
		l.good("redis.addrs", "redis.master", "redis.db") {
		l.refuse("redis.db", "with several redis.addrs and no redis.master, which means a Cluster", "0 there")
	}
	// The trust in a leadership ends half a session after the last renewal; a publish must be settled within it.
	if half := s.ZooKeeper.Session / 2; s.Publish.Timeout > half && l.good("zookeeper.session", "publish.timeout") {
		l.refuse("publish.timeout", "is above half of zookeeper.session", showSpan(half)+" at most there")
	}
	if s.Publish.Pending < s.Buckets && l.good("buckets", "publish.pending") {
		l.refuse("publish.pending", "is below buckets: each needs room for one message in flight",
			fmt.Sprintf("%d at least there", s.Buckets))
	}
	if s.Stop.Timeout < s.Publish.Timeout && l.good("stop.timeout", "publish.timeout") {
		l.refuse("stop.timeout", "is below publish.timeout", showSpan(s.Publish.Timeout)+" at least there")
	}
}

// checkNATS holds how to reach NATS together.
func (l *loader) checkNATS() {
	l.both("nats.user", "nats.password")
	l.both("nats.password", "nats.user")
	l.both("nats.tls.cert", "nats.tls.key")
	l.both("nats.tls.key", "nats.tls.cert")
	l.oneOf("nats.user", "nats.token", "nats.creds")
}

// checkMemory holds what one machine without Redis and ZooKeeper needs. Each setting that it cannot follow is refused:
// who set it expects something else of this instance.
func (l *loader) checkMemory(s Serve) {
	if s.Data == "" && l.good("data") {
		l.refuse("data", "is not set, and store: memory needs it")
	}
	if s.Journal.Mode != "sync" && l.good("journal.mode") {
		l.refuse("journal.mode",
			"stands beside store: memory, which keeps nothing but what the journal has", "sync there")
	}
	if dsn := s.Journal.DSN.Reveal(); dsn != "" && !strings.HasPrefix(dsn, "sqlite:") && l.good("journal.dsn") {
		l.refuse("journal.dsn", "stands beside store: memory",
			"sqlite: and a file there; a database server is for instances that share a Redis")
	}
	for _, row := range l.rows {
		if strings.HasPrefix(row.name, "redis.") || strings.HasPrefix(row.name, "zookeeper.") {
			l.unused("stands beside store: memory, which uses no Redis and no ZooKeeper", row.name)
		}
	}
	if !s.Embedded() {
		l.unused("stands beside nats.url", "nats.listen")
		return
	}
	l.unused("is for a NATS of your own, which nats.url names", "nats.creds", "nats.tls.ca", "nats.tls.cert",
		"nats.tls.key")
	if s.NATS.Intake.Replicas != 1 && l.good("nats.intake.replicas") {
		l.refuse("nats.intake.replicas", "is for a NATS of your own, which nats.url names", "1 there")
	}
	if s.NATS.User == "" && s.NATS.Token == "" && l.good("nats.user", "nats.token") {
		l.guarded("nats.listen", HTTP{Listen: s.OwnNATS.Listen, Insecure: s.HTTP.Insecure})
	}
}

// unused refuses those of the settings that somebody changed.
func (l *loader) unused(wrong string, names ...string) {
	for _, name := range names {
		if l.text[name] != l.row(name).fallback && l.good(name) {
			l.refuse(name, wrong, "leave it out")
		}
	}
}

func (l *loader) checkDev(d Dev) {
	l.guarded("http.listen",
		HTTP{Listen: d.HTTP.Listen, Token: d.HTTP.Token, Tokens: d.HTTP.Tokens, Insecure: d.HTTP.Insecure})
	l.guarded("nats.listen", HTTP{Listen: d.NATS.Listen, Insecure: d.HTTP.Insecure})
}

// guarded refuses to serve other machines without a token unless that was asked for by name.
func (l *loader) guarded(name string, h HTTP) {
	if h.Token != "" || len(h.Tokens) > 0 || h.Insecure || loopback(h.Listen) ||
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
	l.refuse(name, "lets other machines in unasked", limit)
}

// both wants the second name where the first is set.
func (l *loader) both(name, other string) {
	if l.text[name] != "" && l.text[other] == "" && l.good(name, other) {
		l.refuse(name, fmt.Sprintf("stands without %s", other), "both or neither")
	}
}

// oneOf allows one of the names to be set.
func (l *loader) oneOf(names ...string) {
	taken := ""
	for _, name := range names {
		switch {
		case l.text[name] == "":
		case taken == "":
			taken = name
		default:
			l.refuse(name, fmt.Sprintf("stands beside %s", taken), "one of "+list(names, "and"))
		}
	}
}
