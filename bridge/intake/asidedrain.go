package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	drainMost   = 4000            // the maximum number of pushes read at once
	drainBytes  = 16 << 20        // the approximate size of a read, estimated by the last pushes
	drainGrowth = 8               // the growth of a read while all pushes are accepted
	drainLonger = 2 * time.Second // the longest that newer pushes are held
)

// drain passes the pushes put aside for one bucket to the scheduler until none is left and the bucket is open again, or
// ctx ends. While the bucket does not answer, drain tries one push from time to time.
func (a *aside) drain(ctx context.Context, bucket message.Bucket) {
	n, away := 1, trouble{}
	if closing, _, _ := a.closing(bucket); !closing {
		_ = scheduler.Sleep(ctx, away.failed(time.Now()))
	}
	for ctx.Err() == nil {
		closing, since, quiet := a.closing(bucket)
		if closing && !quiet { // pushes on their way soon reach the stream
			_ = scheduler.Sleep(ctx, 5*time.Millisecond)
			continue
		}
		batch, all, err := a.read(ctx, bucket, n)
		if err == nil && len(batch) > 0 {
			if err = a.accept(ctx, batch); err == nil {
				err = a.remove(ctx, bucket, batch[len(batch)-1].at)
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.back(bucket)
			if a.in.trouble.loud(time.Now()) {
				a.in.log.Warn().Err(err).Int("bucket", int(bucket)).
					Msg("pushes put aside cannot be accepted yet")
			}
			n = 1
			_ = scheduler.Sleep(ctx, away.failed(time.Now()))
		case !all:
			away.worked()
			n = a.more(batch, n)
			if closing && time.Since(since) > drainLonger {
				a.back(bucket)
			}
		case len(batch) == 0 && !quiet: // the first pushes have not reached the stream yet
			_ = scheduler.Sleep(ctx, 5*time.Millisecond)
		case !closing:
			away.worked()
			a.close(bucket)
		case a.open(bucket):
			return
		}
	}
}

// more returns how many pushes to read after a batch of at most n.
func (a *aside) more(batch []standing, n int) int {
	size := 0
	for i := range batch {
		size += batch[i].size
	}
	return max(min(n*drainGrowth, drainMost, drainBytes/(size/max(len(batch), 1)+1)), 1)
}

// closing reports whether the bucket is about to be opened, since when, and whether no push is on its way to the
// stream.
func (a *aside) closing(bucket message.Bucket) (closing bool, since time.Time, quiet bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.by[bucket]
	return t.closing, t.since, t.under == 0
}

func (a *aside) close(bucket message.Bucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[bucket].closing, a.by[bucket].since = true, time.Now()
}

func (a *aside) back(bucket message.Bucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.backLocked(a.by[bucket])
}

// open hands over the held pushes, in order, and opens the bucket. It reports false if a push failed meanwhile, and
// then leaves the bucket closed.
func (a *aside) open(bucket message.Bucket) bool {
	for {
		a.mu.Lock()
		t := a.by[bucket]
		if !t.closing || t.under > 0 {
			a.mu.Unlock()
			return false
		}
		held := t.held
		t.held, t.bytes = nil, 0
		if len(held) == 0 {
			delete(a.by, bucket)
			a.some.Store(len(a.by) > 0)
			a.mu.Unlock()
			return true
		}
		a.mu.Unlock()
		for _, s := range held {
			a.in.accept(s.arrival, func(*scheduler.Push, arrival) bool { return false })
		}
	}
}

// standing is a push in the stream of pushes put aside; at is its sequence there.
type standing struct {
	arrival
	at uint64
}

// read reads the first pushes of a bucket, at most n, and reports whether those were all. Another instance may remove
// them meanwhile.
func (a *aside) read(ctx context.Context, bucket message.Bucket, n int) (batch []standing, all bool, err error) {
	ctx, stop := context.WithTimeout(ctx, 2*link.APITimeout)
	defer stop()
	c, err := a.in.js.CreateConsumer(ctx, a.stream, jetstream.ConsumerConfig{
		FilterSubject: a.subject(bucket), AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 4 * link.APITimeout,
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the pushes put aside for bucket %d: %w", bucket, err)
	}
	defer func() { _ = a.in.js.DeleteConsumer(ctx, a.stream, c.CachedInfo().Name) }() // otherwise it expires soon
	pending := c.CachedInfo().NumPending
	if pending == 0 {
		return nil, true, nil
	}
	fetched, err := c.FetchNoWait(int(min(pending, uint64(n))))
	if err != nil {
		return nil, false, fmt.Errorf("read the pushes put aside for bucket %d: %w", bucket, err)
	}
	whole := true
	for m := range fetched.Messages() {
		about, err := m.Metadata()
		if whole = whole && err == nil && about.Sequence.Consumer == uint64(len(batch)+1); !whole {
			continue // a message before this one was lost on the way
		}
		msg, place, err := decodeAside(m.Data())
		size := len(m.Data()) + messageWeight
		batch = append(batch, standing{arrival{msg: msg, place: place, size: size, err: err}, about.Sequence.Stream})
	}
	if err := fetched.Error(); err != nil && len(batch) == 0 {
		return nil, false, fmt.Errorf("read the pushes put aside for bucket %d: %w", bucket, err)
	}
	return batch, uint64(len(batch)) == pending, nil
}

// accept hands pushes to the scheduler, with their place in the intake, and waits for all answers. It returns an error
// if any must be tried again. Refused pushes go to the rejects.
func (a *aside) accept(ctx context.Context, batch []standing) error {
	in := a.in
	ordered := slices.Clone(batch)
	slices.SortStableFunc(ordered, func(x, y standing) int { return cmp.Compare(x.place.Sequence, y.place.Sequence) })
	type answered struct {
		push arrival
		scheduler.Accepted
	}
	var refused []arrival
	var again error
	answers, open := make(chan answered, len(ordered)), 0
	for _, s := range ordered {
		if s.err != nil { // only an instance may publish there
			in.log.Warn().Err(s.err).Uint64("sequence", s.at).Str("stream", a.stream).
				Msg("dropped a message that no instance put aside")
			continue
		}
		p, err := in.push(s.msg, s.place)
		if errors.Is(err, errNoClock) {
			again = err
			break // the remaining pushes need the clock too
		} else if err != nil {
			s.arrival.err = err
			refused = append(refused, s.arrival)
			continue
		}
		open++
		s.arrival.uid = p.UID
		in.cfg.Accept.Accept(p, func(got scheduler.Accepted) { answers <- answered{s.arrival, got} })
	}
	for ; open > 0; open-- {
		select {
		case got := <-answers:
			switch {
			case got.Err == nil:
				in.metrics.count(got.Accepted)
			case isRefusal(got.Err):
				got.push.err = got.Err
				refused = append(refused, got.push)
			default:
				again = got.Err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if again != nil {
		return again
	}
	for _, r := range refused {
		if err := in.keep(ctx, &r); err != nil {
			return fmt.Errorf("keep a reject: %w", err)
		}
	}
	return nil
}

// remove removes a bucket's pushes up to a sequence. Any others before it were accepted through another instance.
func (a *aside) remove(ctx context.Context, bucket message.Bucket, last uint64) error {
	var purged struct{}
	order := link.Purge{Filter: a.subject(bucket), Below: last + 1}
	return link.AskBriefly(ctx, a.in.nc, "$JS.API.STREAM.PURGE."+a.stream, order, &purged)
}
