package config

import (
	"net/netip"
	"slices"
	"strings"
)

// environ picks the settings out of the environment, by name. An empty variable counts as not given: that is how
// compose files pass on what the user left out.
func (l *loader) environ(environ []string) map[string]string {
	names := map[string]string{}
	var known []string
	for _, s := range append([]setting{configFile()}, settings()...) {
		names[s.env()] = s.name
		if s.of&l.command != 0 {
			known = append(known, s.env())
		}
	}
	soon := map[string]string{}
	for name, with := range later() {
		soon[setting{name: name}.env()] = with
	}
	text := map[string]string{}
	var unknown []string
	for _, pair := range environ {
		key, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(key, envPrefix) {
			continue
		}
		switch name, ok := names[key]; {
		case ok && value != "":
			text[name] = value
			l.nearby.learn(name, value)
		case !ok && isList(key):
			if value != "" {
				l.add(&Problem{Name: key, Wrong: "is a list of sections, which only a file can hold"})
			}
		case soon[key] != "":
			l.add(&Problem{Name: key, Wrong: "is unsupported yet: it comes with " + soon[key]})
		case !ok && !fromKubernetes(key, value):
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	l.unknown(slices.Compact(unknown), known, "")
	return text
}

// isList reports whether this would be the spelling of a list.
func isList(key string) bool {
	return slices.ContainsFunc(sequences(), func(q sequence) bool { return setting{name: q.name}.env() == key })
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
