package doctor

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A rule is what a check finds where its condition holds. Of the rules of one check the first that holds is its
// finding. docs/operations.md has those that are not OK, written from the tables.
type rule struct {
	check string
	// when are conditions, all of which must hold: a fact, one of = != < >, and what it is held against. With = and !=
	// several values are alternatives, separated by a bar. Values are compared as durations, numbers or versions.
	when   string
	status Status
	// found and change say what is so and what to do about it. There, and in when, {fact} stands for a fact.
	found, change string
}

// rules are tables of rules, by the group and what they look at.
type rules struct {
	group, of string
	table     []rule
}

// tables returns all tables of rules, in the order of the page.
func tables() []rules {
	return []rules{
		{"redis", "each server", redisRules}, {"redis", "a Cluster", clusterRules}, {"redis", "each Sentinel", sentinelRules},
		{"redis", "the namespace", namespaceRules},
		{"nats", "each server", natsRules}, {"nats", "the account", accountRules}, {"nats", "the intake", intakeRules},
		{"nats", "the rejects", rejectRules}, {"nats", "each stream with topics", topicRules},
		{"zookeeper", "each server", sessionRules},
		{"journal", "MySQL and MariaDB", mysqlRules}, {"journal", "all", schemaRules},
		{"machine", "this instance", slices.Concat(machineRules, advertiseRules)}, {"machine", "the instances", memberRules},
	}
}

// facts are what a server reports and what the settings say, by name.
type facts map[string]string

// with adds facts, as names and values in turn.
func (f facts) with(pairs ...string) facts {
	for i := 0; i < len(pairs); i += 2 {
		f[pairs[i]] = pairs[i+1]
	}
	return f
}

var placeholder = regexp.MustCompile(`\{[a-z][a-z_.-]*\}`)

// fill replaces {fact} by the fact.
func (f facts) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string { return f[name[1:len(name)-1]] })
}

func (f facts) hold(when string) bool {
	for term := range strings.FieldsSeq(when) {
		name, operator, value := cut(term)
		value = f.fill(value)
		holds := false
		switch operator {
		case "=":
			holds = slices.Contains(strings.Split(value, "|"), f[name])
		case "!=":
			holds = !slices.Contains(strings.Split(value, "|"), f[name])
		case "<":
			holds = less(f[name], value)
		case ">":
			holds = less(value, f[name])
		}
		if !holds {
			return false
		}
	}
	return true
}

// cut splits a condition.
func cut(term string) (name, operator, value string) {
	at := strings.IndexAny(term, "=!<>")
	rest := strings.TrimLeft(term[at:], "=!<>")
	return term[:at], term[at : len(term)-len(rest)], rest
}

// less compares durations, numbers or versions.
func less(a, b string) bool { return slices.Compare(quantity(a), quantity(b)) < 0 }

func quantity(text string) (parts []int64) {
	if d, err := time.ParseDuration(text); err == nil {
		return []int64{int64(d)}
	}
	for part := range strings.SplitSeq(text, ".") {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits >= 0 {
			part = part[:digits]
		}
		n, _ := strconv.ParseInt(part, 10, 64)
		parts = append(parts, n)
		if digits >= 0 {
			break
		}
	}
	return parts
}

// apply adds what the rules of a table find.
func (n *notes) apply(table []rule, f facts) {
	found := map[string]bool{}
	for _, r := range table {
		if !found[r.check] && f.hold(r.when) {
			found[r.check] = true
			n.add(r.status, r.check, f.fill(r.found), f.fill(r.change), nil)
		}
	}
}

// yes returns a condition of tarry's own as a fact: yes or nothing.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}
