package timeline

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// certificate is what this instance knows of a bucket's certification. Its
// scripts name that number and run only under it. A number only rises: a server
// that was replaced and still answers on an old connection has a lower one, and
// is refused.
type certificate struct {
	number atomic.Uint64
	run    atomic.Pointer[string] // of the server that told of itself last
	// forced is the token of the leader that is about to certify, '!' and the run;
	// set in views made by Recovering and never changed.
	forced string
}

// token is what a script goes by, and the certification that its entry names.
func (t *Redis) token(c *call) (token string, number uint64) {
	cert := &t.certs[c.bucket]
	switch number = cert.number.Load(); {
	case cert.forced != "":
		token, number = cert.forced, t.giving
	case c.pinned:
		number = c.number
		token = text(number)
	default:
		token = text(number)
	}
	if t.home != nil {
		token += " " + text(t.term)
	}
	return token, number
}

// learn takes a certification that a server reported, and reports whether it is new:
// the server's own, and higher than what was known.
func (c *certificate) learn(answer error) bool {
	if c.forced != "" || answer == nil {
		return false
	}
	f := strings.Fields(answer.Error()) // UNCERTIFIED number certified run
	if len(f) != 4 || f[2] != f[3] {
		return false
	}
	number, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return false
	}
	return c.rise(number)
}

// rise takes a number that is higher than what was known, and reports whether it is.
func (c *certificate) rise(number uint64) bool {
	for known := c.number.Load(); known < number; known = c.number.Load() {
		if c.number.CompareAndSwap(known, number) {
			return true
		}
	}
	return false
}

// gave takes a certification that this process itself made.
func (c *certificate) gave(number uint64, run string) {
	c.run.Store(&run)
	c.rise(number)
}

// moved reports whether a refusal is of another server run than the one before:
// there may be connections to both.
func (c *certificate) moved(answer error) bool {
	f := strings.Fields(answer.Error())
	if len(f) != 4 {
		return false
	}
	if c.forced != "" {
		return c.forced != "!"+f[3]
	}
	before := c.run.Swap(&f[3])
	return before != nil && *before != f[3]
}

// call is one script in one bucket, with what every script is given.
type call struct {
	bucket int
	script *redis.Script
	keys   []string
	args   []any
	entry  []byte // context of an entry, nil where the script writes none
	number uint64 // of the certification that the script ran under, set by run
	pinned bool   // number is given: the script runs under no other
}

// full are a call's keys and arguments with those that certified.lua takes.
func (t *Redis) full(c *call) ([]string, []any) {
	k := &t.keys[c.bucket]
	keys := append(c.keys[:len(c.keys):len(c.keys)], k.outbox, k.outboxed, k.gen)
	if t.home != nil {
		keys = append(keys, k.term)
	}
	token, number := t.token(c)
	c.number = number
	args := append(c.args[:len(c.args):len(c.args)], c.entry, token)
	return keys, args
}

// run runs one script by its hash, or by its text where Redis has lost it. If the
// script refuses and answers with a newer certification, run learns that and sends
// the script, which has done nothing, once more.
func (t *Redis) run(ctx context.Context, c *call) (any, error) {
	for {
		keys, args := t.full(c)
		v, err := c.script.Run(ctx, t.rdb, keys, args...).Result()
		if redis.HasErrorPrefix(err, "UNCERTIFIED") {
			if t.certs[c.bucket].moved(err) {
				t.Renew()
			}
			cert := &t.certs[c.bucket]
			if learned := cert.learn(err); c.pinned {
				return nil, translate(err)
			} else if learned || (cert.forced == "" && cert.number.Load() > c.number) {
				// another call may have learned of it meanwhile
				continue
			}
		}
		return v, translate(err)
	}
}

// Renew closes the connections that are open: they may lead to a server that was
// replaced and still answers.
func (t *Redis) Renew() {
	if client, can := t.rdb.(*renewing); can {
		client.renew()
	}
}

// Standings asks every bucket's server.
func (t *Redis) Standings(ctx context.Context) ([]scheduler.Standing, error) {
	standings, failed := make([]scheduler.Standing, len(t.keys)), make([]error, len(t.keys))
	pipe := t.rdb.Pipeline()
	asked := make([]*redis.Cmd, len(t.keys))
	keysOf := func(bucket int) []string { return []string{t.keys[bucket].gen, t.keys[bucket].outbox} }
	for bucket := range asked {
		asked[bucket] = t.scripts.standing.EvalSha(ctx, pipe, keysOf(bucket))
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	for bucket, cmd := range asked {
		v, err := cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			v, err = t.scripts.standing.Eval(ctx, t.rdb, keysOf(bucket)).Result()
		}
		if err = translate(err); err == nil {
			standings[bucket], err = readStanding(v)
		}
		failed[bucket], standings[bucket].Err = err, err
	}
	return standings, nobody(failed)
}

func readStanding(v any) (s scheduler.Standing, err error) {
	f, err := texts(v)
	if err != nil || len(f) != 4 {
		return s, errAnswer("standing", len(f), err)
	}
	s.Now = f[0]
	if ms, _, ok := strings.Cut(f[2], "-"); ok {
		last, err1 := strconv.ParseInt(ms, 10, 64)
		clock, err2 := strconv.ParseInt(f[3], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return s, errAnswer("standing", len(f), err)
		}
		s.Last, s.Clock = scheduler.Milli(last), scheduler.Milli(clock)
	}
	if f[1] != "" {
		s.Certification, err = readCertification(f[1])
	}
	return s, err
}

func readCertification(s string) (scheduler.Certification, error) {
	f := strings.Fields(s)
	if len(f) != 4 {
		return scheduler.Certification{}, errAnswer("certification", len(f), nil)
	}
	number, err1 := strconv.ParseUint(f[0], 10, 64)
	doubt, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return scheduler.Certification{}, errAnswer("certification", len(f), nil)
	}
	return scheduler.Certification{
		Number: number, Run: f[1], DoubtUntil: scheduler.Milli(doubt), Filling: f[3] == "filling"}, nil
}
