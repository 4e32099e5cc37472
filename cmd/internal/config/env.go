package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
)

// environ returns the layer of the environment. An empty variable counts as absent: compose files pass absent values
// that way.
func (l *loader) environ(environ []string) layer {
	names := map[string]setting{}
	var known, unknown []string
	for _, s := range append([]setting{configFile()}, settings()...) {
		names[s.env()] = s
		if s.of&l.command != 0 {
			known = append(known, s.env())
		}
	}
	name := func(key, value string) (string, any) {
		switch s, ok := names[key]; {
		case ok && value != "" && l.wants(s):
			return s.name, value
		case ok:
		case isList(key):
			if value != "" {
				l.add(&Problem{Name: key, Wrong: "is a list of sections, which only a file can hold"})
			}
		case !fromKubernetes(key, value):
			unknown = append(unknown, key)
		}
		return "", nil
	}
	k := l.layer(env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: name,
		EnvironFunc: func() []string { return environ }}), nil)
	slices.Sort(unknown)
	l.unknown(slices.Compact(unknown), known, "")
	return layer{k, envName}
}

// wants reports whether the command reads a setting. A client command also reads the settings that locate an instance
// on this machine.
func (l *loader) wants(s setting) bool { return s.of&l.command != 0 || l.command == client }

// isList reports whether key has the form of a list's name.
func isList(key string) bool {
	return slices.ContainsFunc(sequences(), func(q sequence) bool { return envName(q.name) == key })
}

// fromKubernetes recognizes the variables that Kubernetes (and Docker's links) set for a service called tarry or
// tarry-x. The user did not set them, so refusing them would stop a start for no fault of the user's. Their values have
// a form of their own, as their names do, so a misspelt setting is not mistaken for one.
func fromKubernetes(key, value string) bool {
	if strings.HasSuffix(key, "_SERVICE_HOST") {
		_, err := netip.ParseAddr(value)
		return err == nil
	}
	if strings.HasSuffix(key, "_SERVICE_PORT") || strings.Contains(key, "_SERVICE_PORT_") {
		return checkPort(value, 1) == ""
	}
	before, after, found := strings.Cut(key, "_PORT_")
	if !found {
		scheme, rest, found := strings.Cut(value, "://")
		return strings.HasSuffix(before, "_PORT") && found && protocol(scheme) && checkDial(rest) == ""
	}
	parts := strings.Split(after, "_")
	if len(parts) < 2 || checkPort(parts[0], 1) != "" || !protocol(strings.ToLower(parts[1])) {
		return false
	}
	return len(parts) == 2 || len(parts) == 3 && (parts[2] == "PROTO" || parts[2] == "PORT" || parts[2] == "ADDR")
}

func protocol(name string) bool { return name == "tcp" || name == "udp" || name == "sctp" }
