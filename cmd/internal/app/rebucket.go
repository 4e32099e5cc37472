package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/timeline"
)

// Rebucket changes the number of buckets of the namespace, and returns the number before. It leads meanwhile, so that
// no instance can, and fails if one is registered. If it fails after it has begun, no instance starts until it has been
// run again, to this number or another.
func Rebucket(ctx context.Context, cfg config.Serve, to int, options Options, progress func(int)) (was int, err error) {
	if cfg.InMemory() {
		return 0, errors.New("store: memory divides its messages anew at each start: set buckets")
	}
	cfg.Instance += "-rebucket"
	r := &rebucket{to: message.Bucket(to), progress: progress, opened: &opened{cfg: cfg, options: options,
		registry: prometheus.NewRegistry(), address: "none", log: options.Log.With().Str("ns", cfg.Namespace).Logger()}}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.rdb = r.dialRedis(10 * time.Second) // a page may have big bodies
	from, unfinished, err := timeline.ReadBuckets(ctx, r.rdb, cfg.Namespace)
	r.from, r.fresh, r.cfg.Buckets = from, unfinished == 0, int(from)
	switch {
	case err == nil && from == 0:
		err = fmt.Errorf("namespace %q has nothing in this Redis: set buckets", cfg.Namespace)
	case err == nil && (from != r.to || !r.fresh):
		for _, step := range []func(context.Context) error{r.openJournal, r.openRedis, r.connectNATS, r.run} {
			if err == nil {
				err = step(ctx)
			}
		}
	}
	return int(from), err
}

// rebucket is a change of the number of buckets.
type rebucket struct {
	*opened
	rdb      timeline.Client
	from, to message.Bucket
	fresh    bool // it does not go on with an unfinished one
	progress func(int)
	node     *election.Node
	race     *election.Race
}

// errDone ends the election.
var errDone = errors.New("done")

// run leads, does the work and gives the leadership up.
func (r *rebucket) run(ctx context.Context) (err error) {
	if err := connected(ctx, r.conn); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var decided atomic.Bool // whether it begins or gives up, which a process that stood still may find at once
	r.node, r.race, err = r.stand(func(ctx context.Context, term uint64) error {
		if !decided.CompareAndSwap(false, true) {
			return nil
		}
		if err := r.work(ctx, term); err != nil {
			stop(err)
		}
		stop(errDone)
		return nil
	}, nil, nil, nil)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error {
		stop(r.node.Run(ctx))
		return nil
	})
	wait, since := 4*r.cfg.ZooKeeper.Session, time.Now()
	for !decided.Load() && scheduler.Sleep(ctx, recoverPause) == nil {
		err := r.alone(ctx)
		late := time.Since(since) > wait
		if err == nil && late {
			err = fmt.Errorf("%s have passed", wait)
		}
		if (late || errors.Is(err, errRegistered)) && decided.CompareAndSwap(false, true) {
			stop(fmt.Errorf("cannot lead: %w", err))
		}
	}
	_ = group.Wait()
	if err = context.Cause(ctx); errors.Is(err, errDone) {
		return nil
	}
	return err
}

var errRegistered = errors.New("stop every instance first")

// alone returns an error while an instance leads or is registered.
func (r *rebucket) alone(ctx context.Context) error {
	members, err := r.node.Members(ctx)
	leader, led, failed := r.race.Leader(ctx)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if led {
		members = append(members, election.Member{Instance: leader.Instance})
	}
	for _, m := range members {
		if m.Instance != r.cfg.Instance {
			return fmt.Errorf("%w: %s is registered", errRegistered, m.Instance)
		}
	}
	return nil
}

// work does it all under a leadership.
func (r *rebucket) work(ctx context.Context, term uint64) error {
	if err := r.alone(ctx); err != nil {
		return err
	}
	if err := r.empty(ctx); err != nil {
		return err
	}
	move, err := timeline.NewRebucket(r.rdb, r.cfg.Namespace, r.from, r.to, term, r.progress)
	if err != nil {
		return err
	}
	aside := func(ctx context.Context) error {
		return intake.Rebucket(ctx, r.conn, r.cfg.Namespace, r.cfg.NATS.Prefix, r.to)
	}
	for _, step := range []func(context.Context) error{move.Hold, move.Move, aside, r.calm, move.Finish} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("unfinished: run it again, until then no instance may start: %v", err)
		}
	}
	return nil
}

// empty writes what the outboxes hold to the journal. Buckets that an unfinished change holds are empty, and so are
// those that it had certified by its end: no instance has used them since, as none starts.
func (r *rebucket) empty(ctx context.Context) (err error) {
	if r.journal.prepare != nil {
		err = r.journal.prepare(ctx)
	}
	reconciler := &journal.Reconciler{Store: r.journal.store, Timeline: r.store, Buckets: r.from,
		Clock: scheduler.NewClock(scheduler.System()), Instance: r.cfg.Instance, Timeout: journalTimeout, Log: r.log}
	for bucket := message.Bucket(0); err == nil && bucket < r.from; bucket++ {
		if r.writer != nil {
			_, _, err = reconciler.Drain(ctx, bucket, 0)
		}
		left, failed := r.store.Unwritten(ctx, bucket, "", 0, 1, 1)
		apart, _, again := r.store.Quarantined(ctx, bucket, "")
		if err = errors.Join(err, failed, again); err == nil && len(left)+len(apart) > 0 {
			err = errors.New("it has changes that are not in the journal (docs/journal.md)")
		}
		if !r.fresh && (errors.Is(err, scheduler.ErrUncertified) || errors.Is(err, errUnfit)) {
			err = nil
		} else if err != nil {
			return fmt.Errorf("outbox of bucket %d: %w", bucket, err)
		}
	}
	return err
}

// calm waits until no instance is registered. One that is restarted again and again is gone from time to time; one that
// stays may have seen the old number before the work began.
func (r *rebucket) calm(ctx context.Context) (err error) {
	until := time.Now().Add(10 * r.cfg.ZooKeeper.Session)
	for err = r.alone(ctx); err != nil && time.Now().Before(until) && scheduler.Sleep(ctx, recoverPause) == nil; {
		err = r.alone(ctx)
	}
	return err
}
