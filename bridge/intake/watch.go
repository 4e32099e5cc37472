package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	watchEvery = 10 * time.Second // between two looks at the consumer
	removeLook = time.Second      // between two looks at acknowledged messages
	removeLate = 3                // a message seen in this many looks is not about to be removed
)

// errOutrun reports that the consumer was ahead of the stream and has been deleted.
var errOutrun = errors.New("the consumer was ahead of the stream and is recreated")

// watch checks whether the consumer skips pushes: at once, when the link comes back, and every few seconds. If it does,
// watch deletes the consumer and returns errOutrun; otherwise watch returns when ctx ends.
//
// A nats-server that was killed (2.9), or whose files were restored from a backup, may return with a stream that ends
// before the last message that its consumer delivered. The next pushes get sequences that the consumer counts as
// delivered, or even as acknowledged, and would never be delivered, although NATS acknowledged them to their producers.
//
// A new consumer delivers everything in the stream. That is safe. Acknowledged messages leave a work queue, so the
// stream holds few pushes that were accepted before. Such a push has the same place and therefore the same uid, which
// the store recognizes for ended.keep and the journal for names.keep: it is acknowledged as repeated. After an outage
// of NATS, the leader keeps ended messages in the store for a while longer. A new push has another stored time and
// therefore another uid, even if its sequence was used before.
func (in *Intake) watch(ctx context.Context) error {
	status := in.nc.StatusChanged(nats.CONNECTED)
	defer in.nc.RemoveStatusListener(status)
	tick := time.Tick(watchEvery)
	for {
		why, err := Outrun(ctx, in.nc, in.cfg.Namespace)
		if why != "" {
			err = in.renew(ctx, why)
		}
		if errors.Is(err, errOutrun) {
			return err
		} else if err != nil && ctx.Err() == nil && in.nc.IsConnected() {
			in.log.Debug().Err(err).Msg("the state of the intake's consumer is not known")
		}
		select {
		case <-tick:
		case <-status:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Outrun returns the reason why the consumer of a namespace's intake skips pushes, or "" if it does not or if there is
// no consumer. It reads the consumer first: the stream only grows, and messages up to the acknowledged floor are
// removed at once, or a moment later.
func Outrun(ctx context.Context, nc *nats.Conn, namespace string) (string, error) {
	stream := link.StreamName(namespace)
	consumer, there, err := askConsumer(ctx, nc, stream)
	if err != nil || !there {
		return "", err
	}
	delivered, floor := consumer.Delivered.Stream, consumer.Floor.Stream
	first := uint64(0)
	for looks := range removeLate {
		if looks > 0 {
			if err := scheduler.Sleep(ctx, removeLook); err != nil {
				return "", err
			}
		}
		var info link.StreamInfo
		if err := link.AskBriefly(ctx, nc, link.APIStreamInfo+stream, nil, &info); err != nil {
			return "", err
		}
		at := info.State
		if at.LastSeq < delivered {
			return fmt.Sprintf("it has handed out up to sequence %d, and the last of %s is %d", delivered, stream,
				at.LastSeq), nil
		}
		if at.Messages == 0 || at.FirstSeq > floor || looks > 0 && at.FirstSeq != first {
			return "", nil
		}
		first = at.FirstSeq
	}
	return fmt.Sprintf("%s holds messages up to sequence %d, which it counts as acknowledged", stream, floor), nil
}

// renew deletes the consumer. The consuming instances recreate it, starting with the first push. If two instances
// delete it one after the other, the pushes are delivered once more.
func (in *Intake) renew(ctx context.Context, why string) error {
	ctx, stop := context.WithTimeout(ctx, link.APITimeout)
	defer stop()
	err := in.js.DeleteConsumer(ctx, in.stream, consumerName)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		in.log.Error().Err(err).Str("stream", in.stream).Str("why", why).
			Msg("the intake's consumer skips pushes and cannot be deleted; they wait")
		return err
	}
	in.metrics.renewed.Inc()
	in.log.Warn().Str("stream", in.stream).Str("why", why).
		Msg("nats came back with a stream that is older than the intake's consumer; " +
			"the consumer is recreated, and delivers everything that the stream holds")
	return errOutrun
}

// consumerInfo is the part of a consumer's state that matters here.
type consumerInfo struct {
	Floor struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"ack_floor"` // all up to it are acknowledged
	Delivered struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"delivered"` // all up to it were handed out
	Undelivered    uint64 `json:"num_pending"`
	Unacknowledged uint64 `json:"num_ack_pending"`
}

// askConsumer returns the consumer of an intake stream and reports whether there is one.
func askConsumer(ctx context.Context, nc *nats.Conn, stream string) (info consumerInfo, there bool, err error) {
	var refused *link.StreamError
	err = link.AskBriefly(ctx, nc, link.APIConsumerInfo+stream+"."+consumerName, nil, &info)
	if errors.As(err, &refused) && refused.ErrCode == link.CodeConsumerNotFound {
		return info, false, nil
	}
	return info, err == nil, err
}
