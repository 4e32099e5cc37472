package timeline

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// certificate is what this instance knows of a bucket's certification. Its scripts name that number and run only under
// it. The number only rises: a server that was replaced and still answers on an old connection has a lower one, and its
// answers are refused.
type certificate struct {
	number atomic.Uint64
	run    atomic.Pointer[string] // the server that last reported its run
	// forced is the token of the leader that is about to certify: '!' and the run. It is set in views made by
	// Recovering and never changes.
	forced string
}

// token returns the token that a script checks, and the certification that its entry names.
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

// news returns the certification that a server reported if it is new, else 0: it must certify that very server, and be
// higher than the known one.
func (c *certificate) news(answer error) uint64 {
	if c.forced != "" || answer == nil {
		return 0
	}
	f := strings.Fields(answer.Error()) // UNCERTIFIED number certified run
	if len(f) != 4 || f[2] != f[3] {
		return 0
	}
	number, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil || number <= c.number.Load() {
		return 0
	}
	return number
}

// rise raises the number if the new one is higher.
func (c *certificate) rise(number uint64) {
	for known := c.number.Load(); known < number && !c.number.CompareAndSwap(known, number); known = c.number.Load() {
	}
}

// adopt adopts a certification that this process itself made.
func (c *certificate) adopt(number uint64, run string) {
	c.run.Store(&run)
	c.rise(number)
}

// moved reports whether a refusal comes from another server run than the last one known here, or, in a view, than the
// run that is about to be certified: the open connections may lead to both servers.
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

// Renew closes the open connections: they may lead to a server that was replaced and still answers.
func (t *Redis) Renew() {
	if client, can := t.rdb.(*renewing); can {
		client.renew()
	}
}

// Audited notes the end of a full audit.
func (t *Redis) Audited(ctx context.Context, bucket message.Bucket, number uint64) error {
	a := t.run(ctx, &call{bucket: bucket, script: "audited", number: number, pinned: true})
	a.text("noted")
	return a.done()
}

// Standings asks every bucket's server.
func (t *Redis) Standings(ctx context.Context) ([]record.Standing, error) {
	standings := make([]record.Standing, len(t.keys))
	failed := t.askEach(ctx, t.allBuckets(), "standing", nil, func(bucket message.Bucket, a *answer) error {
		s := &standings[bucket]
		s.Now = a.text("data set")
		certified := a.text("certification")
		last, entries, _ := strings.Cut(a.text("last entry"), "-")
		clock := a.milli("clock")
		if entries != "" {
			n := newAnswer("standing", []any{last}, nil)
			s.Last, s.Clock = n.milli("last entry"), clock
			a.fail("last entry", n.done())
		}
		if certified != "" {
			if strings.Count(certified, " ") == 3 {
				certified += " 0" // of layout 6, which had no messages for pull
			}
			c := newAnswer("standing", []any{certified}, nil).words("certification", 5)
			s.Certification = record.Certification{Number: c.number("number"), Run: c.text("data set"),
				DoubtUntil: c.milli("doubt")}
			phase := c.text("phase")
			s.Filling, s.Audited = phase == "filling", phase == "audited"
			c.milli("doubt of what consumers pull")
			a.fail("certification", c.done())
		}
		return a.done()
	}, false)
	for bucket, err := range failed {
		standings[bucket].Err = err
	}
	return standings, nobody(failed)
}
