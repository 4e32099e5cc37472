package timeline

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the Lua scripts by name; lua/ documents each. lib.lua stands
// before every one of them, certified.lua before that where messages are seen, and
// server.lua first where it matters which data set answers.
type scripts struct {
	add, claim, finish, giveBack, sweep, held, begin, cancel, find, bury, trim, lanes, heads *redis.Script
	amend, browse, requeue, purge, counts, inflight, totals, pauses, pause, resume, mirror   *redis.Script
	refused, spoiled, unwritten, written, lag, quarantine, quarantined, restore, versions    *redis.Script
	certify, standing, machine, time                                                         *redis.Script // on any run
}

func loadScripts() (*scripts, error) {
	lib, err := sources.ReadFile("lua/lib.lua")
	if err != nil {
		return nil, fmt.Errorf("read lib.lua: %w", err)
	}
	certified, err := sources.ReadFile("lua/certified.lua")
	if err != nil {
		return nil, fmt.Errorf("read certified.lua: %w", err)
	}
	server, err := sources.ReadFile("lua/server.lua")
	if err != nil {
		return nil, fmt.Errorf("read server.lua: %w", err)
	}
	lib = append([]byte(kindsInLua()), lib...)
	var s scripts
	for name, to := range map[string]**redis.Script{
		"add":         &s.add,
		"claim":       &s.claim,
		"finish":      &s.finish,
		"return":      &s.giveBack,
		"sweep":       &s.sweep,
		"held":        &s.held,
		"begin":       &s.begin,
		"cancel":      &s.cancel,
		"find":        &s.find,
		"bury":        &s.bury,
		"trim":        &s.trim,
		"lanes":       &s.lanes,
		"heads":       &s.heads,
		"refused":     &s.refused,
		"spoiled":     &s.spoiled,
		"unwritten":   &s.unwritten,
		"written":     &s.written,
		"lag":         &s.lag,
		"quarantine":  &s.quarantine,
		"quarantined": &s.quarantined,
		"restore":     &s.restore,
		"versions":    &s.versions,
		"amend":       &s.amend,
		"browse":      &s.browse,
		"requeue":     &s.requeue,
		"purge":       &s.purge,
		"counts":      &s.counts,
		"inflight":    &s.inflight,
		"totals":      &s.totals,
		"certify":     &s.certify,
		"standing":    &s.standing,
		"machine":     &s.machine,
		"time":        &s.time,
		"pauses":      &s.pauses,
		"pause":       &s.pause,
		"resume":      &s.resume,
		"mirror":      &s.mirror,
	} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", name, err)
		}
		switch name {
		case "machine", "time":
			*to = redis.NewScript(string(lib) + string(text))
		case "certify", "standing":
			*to = redis.NewScript(string(server) + string(lib) + string(text))
		default:
			*to = redis.NewScript(string(server) + string(certified) + string(lib) + string(text))
		}
	}
	return &s, nil
}

// kindsInLua names the kinds of changes for the scripts, in capitals, and gives them
// the table of transitions.
func kindsInLua() string {
	var names, numbers []string
	for k := scheduler.KindPlain; k.Valid(); k++ {
		name := strings.ToUpper(k.String())
		if k == scheduler.KindPlain {
			name = "PLAIN"
		}
		names, numbers = append(names, name), append(numbers, strconv.Itoa(int(k)))
	}
	moves := "|"
	for _, t := range scheduler.Transitions() {
		moves += fmt.Sprintf("%d:%d:%d|", t.From, t.To, t.Kind)
	}
	return "local " + strings.Join(names, ", ") + " = " + strings.Join(numbers, ", ") +
		"\nlocal MOVES = '" + moves + "'\n"
}
