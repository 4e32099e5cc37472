package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// needed returns the commands that tarry's scripts and its client use, each with valid arguments. KEY stands for a key
// of the namespace, of the type that the command needs.
func needed() [][]any {
	return [][]any{
		{"INFO", "everything"}, {"TIME"}, {"SELECT", "0"}, {"CLIENT", "SETNAME", "tarry"},
		{"EVAL", "return 1", "1", "KEY"}, {"EVALSHA", noScript, "1", "KEY"},
		{"GET", "KEY"}, {"SET", "KEY", "1", "XX"}, {"DEL", "KEY"}, {"EXISTS", "KEY"}, {"PEXPIRE", "KEY", "1"},
		{"PTTL", "KEY"},
		{"HGET", "KEY", "a"}, {"HMGET", "KEY", "a"}, {"HGETALL", "KEY"}, {"HSET", "KEY", "a", "1"},
		{"HSETNX", "KEY", "a", "1"}, {"HDEL", "KEY", "a"},
		{"HEXISTS", "KEY", "a"}, {"HINCRBY", "KEY", "a", "1"}, {"HLEN", "KEY"}, {"HSTRLEN", "KEY", "a"},
		{"HSCAN", "KEY", "0"},
		{"ZADD", "KEY", "XX", "1", "a"}, {"ZCARD", "KEY"}, {"ZSCORE", "KEY", "a"},
		{"ZMSCORE", "KEY", "a"}, {"ZCOUNT", "KEY", "0", "1"},
		{"ZRANGE", "KEY", "0", "1"}, {"ZRANGEBYSCORE", "KEY", "0", "1"}, {"ZRANGEBYLEX", "KEY", "[a", "[b"},
		{"ZREM", "KEY", "a"}, {"ZREMRANGEBYRANK", "KEY", "0", "1"}, {"ZSCAN", "KEY", "0"},
		{"SADD", "KEY", "a"}, {"SREM", "KEY", "a"}, {"SMEMBERS", "KEY"},
		{"LINDEX", "KEY", "0"}, {"LPOP", "KEY"}, {"LPUSH", "KEY", "a"}, {"RPUSH", "KEY", "a"},
		{"XADD", "KEY", "*", "a", "1"}, {"XDEL", "KEY", "1-1"}, {"XINFO", "STREAM", "KEY"}, {"XLEN", "KEY"},
		{"XRANGE", "KEY", "-", "+"},
	}
}

// harmless reports whether a command changes nothing if the key does not exist. HINCRBY, LPUSH and others would create
// it. A user who may call all harmless commands and none of the others is unlikely.
func harmless(command []any) bool {
	switch command[0] {
	case "EVAL", "HSET", "HSETNX", "HINCRBY", "SADD", "LPUSH", "RPUSH", "XADD":
		return false
	}
	return true
}

// noScript is the digest of no script: EVALSHA answers NOSCRIPT to users who may call it, and NOPERM to others.
const noScript = "0000000000000000000000000000000000000000"

// rightsChange returns the command that gives a user of Redis the rights that tarry needs in a namespace, and no
// others.
func rightsChange(user, ns string) string {
	var names []string
	for _, command := range needed() {
		name := fmt.Sprint(command[0])
		if name == "CLIENT" { // its other subcommands may end connections
			name += "|" + fmt.Sprint(command[1])
		}
		names = append(names, "+"+strings.ToLower(name))
	}
	slices.Sort(names)
	return fmt.Sprintf("ACL SETUSER %s ~{%s}:* ~{%s:*}:* %s", user, ns, ns, strings.Join(names, " "))
}

// rights asks Redis what this user may do. A server before 7.0 cannot be asked, so rights tries what changes nothing.
func (r *redisSeen) rights(ctx context.Context) {
	ns := r.cfg.Namespace
	keys := []string{"{" + ns + "}:meta", "{" + ns + ":0}:doctor"}
	user, missing, err := r.dryRun(ctx, keys[1])
	if err != nil {
		if missing, err = r.tryOut(ctx, keys[1]); err != nil {
			r.unchecked("rights", err, "the user needs: "+rightsChange(orDefault(r.cfg.Redis.Username), ns))
			return
		}
	}
	if user == "" {
		user = orDefault(r.cfg.Redis.Username)
	}
	if len(missing) > 0 {
		r.fail("rights", fmt.Sprintf("user %s may not call %s on keys like %s", user, shorten(missing), keys[1]),
			rightsChange(user, ns))
		return
	}
	r.ok("rights", "user %s may call everything that tarry needs", user)
}

func orDefault(user string) string {
	if user == "" {
		return "default"
	}
	return user
}

var errNoDryRun = errors.New("ACL DRYRUN is not available")

// dryRun asks Redis which commands it would refuse, without calling them. It fails if Redis does not answer that.
func (r *redisSeen) dryRun(ctx context.Context, key string) (user string, missing []string, err error) {
	call, cancel := r.within(ctx)
	defer cancel()
	if user, err = r.rdb.Do(call, "ACL", "WHOAMI").Text(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNoDryRun, err)
	}
	for _, command := range needed() {
		answer, err := r.rdb.Do(call, append([]any{"ACL", "DRYRUN", user}, withKey(command, key)...)...).Text()
		if err != nil {
			return user, nil, fmt.Errorf("%w: %w", errNoDryRun, err)
		}
		if answer != "OK" {
			missing = append(missing, fmt.Sprint(command[0]))
		}
	}
	return user, missing, nil
}

// tryOut calls the harmless commands on a key that does not exist.
func (r *redisSeen) tryOut(ctx context.Context, key string) (missing []string, err error) {
	call, cancel := r.within(ctx)
	defer cancel()
	for _, command := range needed() {
		if !harmless(command) {
			continue
		}
		err := r.rdb.Do(call, withKey(command, key)...).Err()
		switch {
		case err == nil:
		case strings.HasPrefix(err.Error(), "NOPERM"):
			missing = append(missing, fmt.Sprint(command[0]))
		case call.Err() != nil:
			return nil, err
		}
	}
	return missing, nil
}

func withKey(command []any, key string) []any {
	command = slices.Clone(command)
	for i := range command {
		if command[i] == "KEY" {
			command[i] = key
		}
	}
	return command
}
