package timeline

import (
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the Lua scripts by name; lua/ documents each. lib.lua stands
// before every one of them, and certified.lua before that where messages are
// seen.
type scripts struct {
	add, claim, finish, giveBack, sweep, held, begin, cancel, find, bury, trim, lanes, heads *redis.Script
	amend, browse, requeue, purge, counts, inflight, pauses, pause, resume                   *redis.Script
	unwritten, written, lag, restore, versions                                               *redis.Script
	certify, standing, machine                                                               *redis.Script // on any run
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
	var s scripts
	for name, to := range map[string]**redis.Script{
		"add": &s.add, "claim": &s.claim, "finish": &s.finish, "return": &s.giveBack, "sweep": &s.sweep, "held": &s.held,
		"begin": &s.begin, "cancel": &s.cancel, "find": &s.find, "bury": &s.bury, "trim": &s.trim, "lanes": &s.lanes, "heads": &s.heads,
		"unwritten": &s.unwritten, "written": &s.written, "lag": &s.lag, "restore": &s.restore, "versions": &s.versions,
		"amend": &s.amend, "browse": &s.browse, "requeue": &s.requeue, "purge": &s.purge, "counts": &s.counts, "inflight": &s.inflight,
		"certify": &s.certify, "standing": &s.standing, "machine": &s.machine, "pauses": &s.pauses, "pause": &s.pause, "resume": &s.resume,
	} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", name, err)
		}
		switch name {
		case "certify", "standing", "machine":
			*to = redis.NewScript(string(lib) + string(text))
		default:
			*to = redis.NewScript(string(certified) + string(lib) + string(text))
		}
	}
	return &s, nil
}
