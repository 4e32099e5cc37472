package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
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

// redisRights asks Redis what this user may do. A server before 7.0 cannot be asked.
func (p *patient) redisRights(ctx context.Context, n *notes, rdb redis.UniversalClient) {
	ns := p.cfg.Namespace
	key, user := "{"+ns+":0}:doctor", cmp.Or(p.cfg.Redis.Username, "default")
	missing, err := p.dryRun(ctx, rdb, user, key)
	switch {
	case err != nil:
		n.unchecked("rights", err, "the user needs: "+rightsChange(user, ns))
	case len(missing) > 0:
		n.fail("rights", fmt.Sprintf("user %s may not call %s on keys like %s", user, shorten(missing), key),
			rightsChange(user, ns))
	default:
		n.ok("rights", "user %s may call everything that tarry needs", user)
	}
}

// dryRun asks Redis which commands it would refuse, without calling them.
func (p *patient) dryRun(ctx context.Context, rdb redis.UniversalClient, user, key string) (missing []string,
	err error) {
	call, cancel := p.within(ctx)
	defer cancel()
	for _, command := range needed() {
		command = slices.Clone(command)
		for i := range command {
			if command[i] == "KEY" {
				command[i] = key
			}
		}
		answer, err := rdb.Do(call, append([]any{"ACL", "DRYRUN", user}, command...)...).Text()
		if err != nil {
			return nil, fmt.Errorf("this Redis cannot be asked (ACL DRYRUN): %w", err)
		}
		if answer != "OK" {
			missing = append(missing, fmt.Sprint(command[0]))
		}
	}
	return missing, nil
}
