package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	watchEvery = 10 * time.Second // from one look at the consumer to the next
	removeLook = time.Second      // from one look at what was acknowledged to the next
	removeLate = 3                // so many looks later nobody removes it any more
)

// errOutrun: the consumer was ahead of the stream, and is deleted.
var errOutrun = errors.New("the consumer was ahead of the stream and is made anew")

// watch looks whether the consumer passes over pushes: now, when the link comes back,
// and every few seconds. If so it deletes the consumer and returns errOutrun; else it
// returns when ctx ends.
//
// A nats-server that was killed (2.9), or whose files were restored from a backup, may
// come back with a stream that ends before what its consumer had handed out. The next
// pushes get sequences that the consumer counts as handed out, or even as acknowledged,
// and nobody would ever see them, although their producers were told that they are kept.
//
// A new consumer hands out all that stands in the stream. That is safe. What is
// acknowledged leaves a work queue, so little stands there that was accepted before. It
// has the same place and therefore the same uid, which the store recognizes for
// ended.keep and the journal for names.keep: it is acknowledged as repeated. The leader
// forgets no end just after NATS was away. A new push has another stored time and so
// another uid, although its sequence was used before.
func (in *Intake) watch(ctx context.Context) error {
	status := in.nc.StatusChanged(nats.CONNECTED)
	defer in.nc.RemoveStatusListener(status)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		why, err := in.outrun(ctx)
		if why != "" {
			err = in.renew(ctx, why)
		}
		if errors.Is(err, errOutrun) {
			return err
		} else if err != nil && ctx.Err() == nil && in.nc.IsConnected() {
			in.log.Debug().Err(err).Msg("the state of the intake's consumer is not known")
		}
		select {
		case <-tick.C:
		case <-status:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// outrun says why the consumer passes over pushes, and nothing where it does not. The
// consumer is asked first: the stream only grows, and what is at or before the floor is
// removed at once, or a moment later.
func (in *Intake) outrun(ctx context.Context) (string, error) {
	var consumer consumerInfo
	if err := apiAsk(ctx, in.nc, apiConsumerInfo+in.stream+"."+consumerName, nil, &consumer); err != nil {
		return "", err
	}
	delivered, floor := consumer.Delivered.Stream, consumer.Floor.Stream
	first := uint64(0)
	for looks := range removeLate {
		if looks > 0 {
			if err := sleep(ctx, removeLook); err != nil {
				return "", err
			}
		}
		var info streamInfo
		if err := apiAsk(ctx, in.nc, apiStreamInfo+in.stream, nil, &info); err != nil {
			return "", err
		}
		at := info.State
		if at.LastSeq < delivered {
			return fmt.Sprintf("it has handed out up to %d, and the last of the stream is %d", delivered,
				at.LastSeq), nil
		}
		if at.Messages == 0 || at.FirstSeq > floor || looks > 0 && at.FirstSeq != first {
			return "", nil
		}
		first = at.FirstSeq
	}
	return fmt.Sprintf("all up to %d counts as acknowledged, and %d stands in the stream", floor, first), nil
}

// renew deletes the consumer. Whoever consumes makes it anew, beginning with the first
// push. Where two instances delete one after the other, the pushes come once more.
func (in *Intake) renew(ctx context.Context, why string) error {
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	err := in.js.DeleteConsumer(ctx, in.stream, consumerName)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		in.log.Error().Err(err).Str("stream", in.stream).Str("why", why).
			Msg("the intake's consumer passes over pushes and cannot be deleted; they wait")
		return err
	}
	in.metrics.renewed.Inc()
	in.log.Warn().Str("stream", in.stream).Str("why", why).
		Msg("nats came back with a stream that is older than the intake's consumer; " +
			"the consumer is made anew, and hands out all that the stream holds")
	return errOutrun
}
