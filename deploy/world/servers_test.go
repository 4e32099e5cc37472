package world_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// server is what processes reach over the network, so that each call may be refused, lost, or late.
type server struct {
	*world
	name string
	rate int       // of so many calls one fails, each way; 0: none
	away time.Time // until then none is answered
}

// redis is the store that the processes share. It may lose everything.
type redis struct {
	server
	*memory.Timeline
	caller  *process // whose call it executes
	mode    journal.Mode
	emptied atomic.Int32
}

func newRedis(w *world, mode journal.Mode) *redis {
	r := &redis{server: server{world: w, name: "redis"}, mode: mode}
	r.empty()
	return r
}

// empty makes it lose everything.
func (r *redis) empty() {
	var recording *record.Recording
	if r.mode != journal.Off {
		recording = &record.Recording{Instance: "any", Sync: r.mode == journal.Sync, Limit: 64 << 20,
			Wrote: func(e record.Entry) {
				if r.caller != nil && r.caller.writer != nil && !r.caller.isDead() {
					r.caller.writer.Wrote(e)
				}
			}}
	}
	line, err := memory.New(memory.Config{Buckets: buckets, Record: recording})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Timeline = line
	r.emptied.Add(1)
}

// access is how one process reaches a server.
type access struct {
	*server
	p *process
	// unsent is the error of a call that did not reach the server, unsure that of a change of which this is not known.
	unsent, unsure error
	executes       func(p *process) // called before a call is executed
}

// fate is what becomes of a call.
type fate int

const (
	done    fate = iota
	refused      // it does not reach the server, and its caller learns that at once
	silent       // it does not reach it, and nobody answers
	lost         // it is executed, and nobody answers
	late         // it is executed after its caller has stopped waiting
)

func (a *access) fate(t *turn) fate {
	switch {
	case a.over:
		return done
	case time.Now().Before(a.away):
		return refused + fate(t.roll.IntN(2))
	case a.rate == 0:
		return done
	}
	f := fate(t.roll.IntN(4 * a.rate))
	if f > late {
		return done
	}
	return f
}

// patience is how long a caller without a time-out of its own waits.
const patience = 5 * time.Second

// call makes a call of a server as the seed decides.
func call[T any](ctx context.Context, a *access, what string, change bool,
	do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, fmt.Errorf("%w: %w", a.unsent, context.Cause(ctx))
	}
	unsure := a.unsent
	if change {
		unsure = a.unsure
	}
	what = a.name + " " + what
	t := a.bus.enter(a.p, what)
	if t.dead {
		return none, a.unsent
	}
	own := context.WithoutCancel(ctx)
	execute := func() (T, error) {
		a.executes(a.p)
		return do(own)
	}
	f := a.fate(t)
	if f != done {
		fates := [...]string{"", "refused", "not answered", "executed without an answer", "late"}
		a.met(a.name + ": a call is " + fates[f])
		a.bus.note(fates[f])
	}
	switch f {
	case refused:
		return none, a.unsent
	case lost:
		_, _ = execute()
	case late:
		after := time.Duration(t.roll.Int64N(int64(3 * time.Second)))
		a.background.Go(func() {
			time.Sleep(after)
			if !a.bus.enter(nil, what+" late").dead {
				_, _ = execute()
			}
		})
	case done:
		v, err := execute()
		if took := a.took(t); took > 0 {
			if wait(ctx, took) != nil {
				return none, unsure
			}
			if a.bus.enter(a.p, what+" answered").dead {
				return none, unsure
			}
		}
		return v, err
	}
	_ = wait(ctx, patience)
	return none, unsure
}

// took is how long an answer takes.
func (a *access) took(t *turn) time.Duration {
	switch n := t.roll.IntN(40); {
	case a.rate == 0 || n > 10 || a.over:
		return 0
	case n > 0:
		return time.Duration(t.roll.IntN(5000)) * time.Microsecond
	default:
		return time.Duration(t.roll.IntN(900)) * time.Millisecond
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type both[A, B any] struct {
	a A
	b B
}

func call2[A, B any](ctx context.Context, a *access, what string, change bool,
	do func(ctx context.Context) (A, B, error)) (A, B, error) {
	v, err := call(ctx, a, what, change, func(ctx context.Context) (v both[A, B], err error) {
		v.a, v.b, err = do(ctx)
		return v, err
	})
	return v.a, v.b, err
}

func call0(ctx context.Context, a *access, what string, do func(ctx context.Context) error) error {
	_, err := call(ctx, a, what, true, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// zooKeeper has one znode. Who has it, renews it.
type zooKeeper struct {
	owner   *process
	term    uint64
	expires time.Time
}

// session is how long the znode stays without being renewed. Its owner leads for half of it.
const session = 6 * time.Second

func (z *zooKeeper) free() bool { return z.owner == nil || !time.Now().Before(z.expires) }

func (z *zooKeeper) take(p *process) (term uint64, ok bool) {
	if p.isCut() || !z.free() {
		return 0, false
	}
	z.owner, z.expires = p, time.Now().Add(session)
	z.term++
	return z.term, true
}

func (z *zooKeeper) renew(p *process, term uint64) bool {
	if z.owner != p || z.term != term || !time.Now().Before(z.expires) {
		return false
	}
	z.expires = time.Now().Add(session)
	return true
}

func (z *zooKeeper) leave(p *process) {
	if z.owner == p {
		z.owner = nil
	}
}

// consumers take messages, where no nats-server does.
type consumers struct {
	*world
	p *process
}

var errNATS = errors.New("nats does not answer")

func (n *consumers) Ready() bool { return true }

func (n *consumers) Lane(m *message.Message) message.Lane { return message.LaneCore.Lane(m.Topic) }

func (n *consumers) Send(_ context.Context, batch []*message.Message, done func(*message.Message, scheduler.Outcome)) {
	for _, m := range batch {
		t := n.bus.enter(n.p, "nats publish "+string(m.UID))
		if t.dead {
			return
		}
		o, comes := n.outcome(t)
		if comes {
			n.tell(history.Event{Kind: history.Deliver, Message: nameOf(m.Body), UID: string(m.UID), Attempt: int(m.Attempt),
				Body: string(m.Body)})
		}
		if n.over || n.natsRate == 0 {
			done(m, o)
			continue
		}
		takes := time.Duration(t.roll.IntN(20_000)) * time.Microsecond
		if n.storm && t.roll.IntN(3) == 0 {
			takes = time.Duration(t.roll.Int64N(int64(7 * time.Second)))
		}
		n.background.Go(func() {
			time.Sleep(takes)
			if !n.bus.enter(n.p, "nats answered "+string(m.UID)).dead {
				done(m, o)
			}
		})
	}
}

// outcome is what NATS makes of a message, and whether its consumers get it.
func (n *consumers) outcome(t *turn) (o scheduler.Outcome, comes bool) {
	if n.over || n.natsRate == 0 {
		return o, true
	}
	kinds := []scheduler.OutcomeKind{scheduler.Unknown, scheduler.Unknown, scheduler.Unanswered, scheduler.NoListener}
	i := t.roll.IntN(n.natsRate)
	if n.storm && i > 6 {
		i = 0
	}
	if i >= len(kinds) {
		return o, true
	}
	o = scheduler.Outcome{Kind: kinds[i], Err: errNATS}
	n.met("nats: " + o.Kind.String())
	return o, i == 0 // of two of unknown outcome one comes
}
