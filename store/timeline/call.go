package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// call is one call of a script in one bucket, with its arguments. Its keys are those that the script's head names.
type call struct {
	bucket message.Bucket
	script string
	args   []any
	entry  []byte // context of the outbox entry, nil if the script writes none
	number uint64 // the certification that the script ran under, set by run
	pinned bool   // the caller set number: the script runs under no other certification
}

// full returns a call's script, keys and arguments, including those that certified.lua reads.
func (t *Redis) full(c *call) (*script, []string, []any) {
	s := t.scripts[c.script]
	keys, args := s.keys[c.bucket], c.args
	if !s.certified {
		return s, keys, args
	}
	if t.home != nil {
		keys = append(keys[:len(keys):len(keys)], t.keys[c.bucket].of("term"))
	}
	token, number := t.token(c)
	c.number = number
	return s, keys, append(args[:len(args):len(args)], c.entry, token)
}

// run runs one script by its hash, or by its text if Redis has lost it. If the script refuses and answers with a newer
// certification, run learns that certification and sends the script, which has done nothing, once more: unless the
// namespace has another number of buckets by then.
func (t *Redis) run(ctx context.Context, c *call) *answer {
	if err := t.has(c.bucket); err != nil {
		return &answer{err: &err}
	}
	for {
		s, keys, args := t.full(c)
		v, err := s.Run(ctx, t.rdb, keys, args...).Result()
		if s.certified && redis.HasErrorPrefix(err, "UNCERTIFIED") {
			if t.certs[c.bucket].moved(err) {
				t.Renew()
			}
			cert := &t.certs[c.bucket]
			if number := cert.news(err); number > 0 {
				if err := t.fits(ctx, c.bucket); err != nil {
					return &answer{script: c.script, err: &err}
				}
				cert.rise(number)
			}
			if c.pinned {
				return newAnswer(c.script, nil, err)
			} else if cert.forced == "" && cert.number.Load() > c.number { // another call may have learned it meanwhile
				continue
			}
		}
		return newAnswer(c.script, v, err)
	}
}

// ask runs a script that changes nothing in several buckets, in one pipeline. It stops at the first error.
func (t *Redis) ask(ctx context.Context, buckets []message.Bucket, script string, args []any,
	read func(bucket message.Bucket, a *answer) error) error {
	return cmp.Or(t.askEach(ctx, buckets, script, args, read, true)...)
}

// askEach runs a repeatable script that writes no entry in several buckets, and returns an error for each: an
// unreachable node does not affect the answers of the others. If stop is set, it reads nothing after the first failure.
func (t *Redis) askEach(ctx context.Context, buckets []message.Bucket, script string, args []any,
	read func(bucket message.Bucket, a *answer) error, stop bool) []error {
	calls := make([]call, len(buckets))
	for i, b := range buckets {
		calls[i] = call{bucket: b, script: script, args: args}
	}
	return t.askAll(ctx, calls, func(i int, a *answer) error { return read(buckets[i], a) }, stop)
}

// askAll makes calls in one pipeline and returns an error for each. A pipeline cannot fall back to the script's text
// and does not learn a new certification, so a call that needs either is made again by itself.
func (t *Redis) askAll(ctx context.Context, calls []call, read func(i int, a *answer) error, stop bool) []error {
	failed := make([]error, len(calls))
	var asked []*redis.Cmd
	var execErr error
	if len(calls) > 1 {
		pipe := t.rdb.Pipeline()
		for i := range calls {
			s, keys, args := t.full(&calls[i])
			asked = append(asked, s.EvalSha(ctx, pipe, keys, args...))
		}
		_, execErr = pipe.Exec(ctx)
	}
	for i := range calls {
		c := &calls[i]
		var v any
		var err error
		if asked != nil {
			v, err = asked[i].Result()
		}
		var a *answer
		switch {
		case asked == nil, redis.HasErrorPrefix(err, "NOSCRIPT"), redis.HasErrorPrefix(err, "UNCERTIFIED"):
			a = t.run(ctx, c)
		case err == nil && v == nil:
			a = newAnswer(c.script, nil, execErr)
		default:
			a = newAnswer(c.script, v, err)
		}
		if err = *a.err; err == nil {
			err = read(i, a)
		}
		if failed[i] = err; err != nil && stop {
			break
		}
	}
	return failed
}

// nobody returns the first bucket's error if no bucket answered.
func nobody(failed []error) error {
	for _, err := range failed {
		if err == nil {
			return nil
		}
	}
	return failed[0]
}

// answer reads the values that a script returned, one after the other. It keeps the first error, which names the script
// and the field; every value after an error is empty.
type answer struct {
	script string
	values []any
	err    *error // shared with nested lists
}

// newAnswer returns a reader of a script's result, or of the error that the script ended with.
func newAnswer(script string, v any, err error) *answer {
	err = translate(err)
	list, is := v.([]any)
	if !is {
		list = []any{v}
	}
	return &answer{script: script, values: list, err: &err}
}

// more reports whether values follow.
func (a *answer) more() bool { return *a.err == nil && len(a.values) > 0 }

// done returns the first error, or an error if values are left unread.
func (a *answer) done() error {
	if a.more() {
		a.fail("end", fmt.Errorf("%d more values", len(a.values)))
	}
	return *a.err
}

func (a *answer) fail(field string, err error) {
	if *a.err == nil && err != nil {
		*a.err = fmt.Errorf("%s: answer: %s: %w", a.script, field, err)
	}
}

func (a *answer) next(field string) any {
	if !a.more() {
		a.fail(field, errors.New("missing"))
		return nil
	}
	v := a.values[0]
	a.values = a.values[1:]
	return v
}

func (a *answer) text(field string) string {
	v := a.next(field)
	s, is := v.(string)
	if !is {
		a.fail(field, fmt.Errorf("%T, want text", v))
	}
	return s
}

// number reads a whole number that is not negative, sent as text or as an integer.
func (a *answer) number(field string) uint64 {
	v := a.next(field)
	if n, is := v.(int64); is && n >= 0 {
		return uint64(n)
	}
	s, _ := v.(string)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		a.fail(field, fmt.Errorf("%.40v: want a number", v))
	}
	return n
}

// optional reads a number; an empty text is 0.
func (a *answer) optional(field string) uint64 {
	if a.more() && a.values[0] == "" {
		a.next(field)
		return 0
	}
	return a.number(field)
}

// code reads a number that is at most highest.
func (a *answer) code(field string, highest int) int {
	n := a.number(field)
	if n > uint64(highest) {
		a.fail(field, fmt.Errorf("%d, want at most %d", n, highest))
		return 0
	}
	return int(n)
}

func (a *answer) count(field string) int { return a.code(field, math.MaxInt) }

// counter reads a count that Redis keeps up to date by adding and subtracting; an empty text is 0. So is a count below
// 0: damage to one record can make a counter wrong, and must not hide the others.
func (a *answer) counter(field string) int {
	n, err := strconv.ParseInt(cmp.Or(a.text(field), "0"), 10, 64)
	a.fail(field, err)
	return int(max(n, 0))
}

func (a *answer) milli(field string) message.Milli { return message.Milli(a.count(field)) }

// due reads a score and returns its due time, or 0 if the text is empty.
func (a *answer) due(field string) message.Milli {
	score := a.text(field)
	if score == "" {
		return 0
	}
	f, err := strconv.ParseFloat(score, 64)
	if err != nil {
		a.fail(field, err)
	}
	return max(message.ScoreDue(int64(f)), 1)
}

// earlier reads which orders begin earlier.
func (a *answer) earlier() (all []scheduler.Earlier) {
	list := a.list("earlier")
	for list.more() {
		all = append(all, scheduler.Earlier{Topic: list.text("topic"), Due: max(list.milli("due"), 1)})
	}
	return all
}

// list reads a nested answer.
func (a *answer) list(field string) *answer {
	v := a.next(field)
	list, is := v.([]any)
	if !is {
		a.fail(field, fmt.Errorf("%T, want a list", v))
	}
	return &answer{script: a.script + ": " + field, values: list, err: a.err}
}

// words reads a text of n words.
func (a *answer) words(field string, n int) *answer {
	f := strings.Fields(a.text(field))
	if len(f) != n {
		a.fail(field, fmt.Errorf("%d words, want %d", len(f), n))
	}
	w := &answer{script: a.script + ": " + field, err: a.err}
	for _, s := range f {
		w.values = append(w.values, s)
	}
	return w
}

// info reads a message: uid, record, '1' if claimed, and mark.
func (a *answer) info() (message.Info, error) {
	uid, record, claimed, mark := a.text("uid"), a.text("record"), a.text("claimed") != "", a.text("mark")
	if *a.err != nil {
		return message.Info{}, *a.err
	}
	info, err := unpackInfo(message.UID(uid), record, claimed, mark)
	info.UID = message.UID(uid)
	return info, err
}

// found reads what find.lua says of a message.
func (a *answer) found() (message.Info, error) {
	info, err := a.info()
	info.Expires = message.Milli(a.optional("expires"))
	return info, err
}

// texts reads all remaining values.
func (a *answer) texts() []string {
	all := make([]string, 0, len(a.values))
	for a.more() {
		all = append(all, a.text("value"))
	}
	return all
}

// pairs reads all remaining values, in pairs.
func (a *answer) pairs() []string {
	if len(a.values)%2 != 0 {
		a.fail("pairs", fmt.Errorf("%d values", len(a.values)))
	}
	return a.texts()
}

// changes reads all remaining values as changes; see readPair.
func (a *answer) changes() []record.Change {
	changes := make([]record.Change, 0, len(a.values)/2)
	for a.more() {
		change, err := readPair(message.UID(a.text("uid")), a.text("change"))
		a.fail("change", err)
		changes = append(changes, change)
	}
	return changes
}

func (a *answer) uids() []message.UID {
	uids := make([]message.UID, 0, len(a.values))
	for a.more() {
		uids = append(uids, message.UID(a.text("uid")))
	}
	return uids
}

// answers are the errors that the scripts answer with, by their first words.
var answers = map[string]error{"UNCERTIFIED": scheduler.ErrUncertified, "BEHIND": scheduler.ErrBehind,
	"OUTDATED": scheduler.ErrOutdated, "QUARANTINED": record.ErrQuarantineFull, "UNREADABLE": scheduler.ErrUnreadable,
	"NEWER": scheduler.ErrNewer, "PAUSED": scheduler.ErrPausesChanged, "STALE": scheduler.ErrStaleTerm}

// refusals are the first words of Redis's errors which mean that the command did not run at all.
var refusals = []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOAUTH", "NOPERM",
	"BUSY", "NOREPLICAS", "MOVED", "ASK", "WRONGPASS", "NOSCRIPT", "UNBLOCKED"}

// translate turns go-redis's errors into the scheduler's. If a connection broke or timed out, the outcome is unknown.
// Any other error of Redis is a bug in tarry and is returned unchanged.
func translate(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		text := answer.Error()
		word, _, _ := strings.Cut(text, " ")
		switch {
		case answers[word] != nil:
			return fmt.Errorf("%w (%s)", answers[word], text)
		case word == "PAUSES":
			return scheduler.ErrTooManyPauses
		case word == "OOM" || strings.Contains(text, "OOM command not allowed"):
			return fmt.Errorf("%w: Redis is at maxmemory", scheduler.ErrFull)
		case word == "MISCONF" && strings.Contains(text, "No space left on device"):
			return fmt.Errorf("%w: redis: %s", scheduler.ErrDiskFull, text)
		case slices.Contains(refusals, word):
			return fmt.Errorf("%w: redis: %s", scheduler.ErrUnavailable, text)
		}
		return fmt.Errorf("redis: %w", err)
	}
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial",
		errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: redis: %w", scheduler.ErrUnavailable, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: redis did not answer: %w", scheduler.ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("%w: redis: %w", scheduler.ErrOutcomeUnknown, err)
}

// anyOf returns uids as arguments.
func anyOf[S ~string](uids []S) []any {
	args := make([]any, len(uids))
	for i, uid := range uids {
		args[i] = string(uid)
	}
	return args
}
