package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// pollFor is how long one fetch waits for a message.
const pollFor = 30 * time.Second

// lastSent is how long a fetch goes on when its consumer stops: for what NATS has sent, which is then given back.
const lastSent = 250 * time.Millisecond

// topicsAtOnce is how many topics one poll may have, and receiptsMost how many receipts one settlement.
const (
	topicsAtOnce = 32
	receiptsMost = 1000
)

// FromPull is the source of a consumer that pulls topics over HTTP, up to 32 by one poll, which [Concurrency] bounds.
func FromPull(p *Puller, topics ...string) Source {
	s := &pullSource{p: p, topics: topics}
	s.settling.send = s.settleAll
	s.settling.fits = func(all []*call[settlement, struct{}]) int { return min(len(all), receiptsMost) }
	return s
}

type pullSource struct {
	p        *Puller
	topics   []string
	settling gatherer[settlement, struct{}]
}

// settlement is what becomes of one lease.
type settlement struct {
	verb    string
	body    map[string]any
	receipt string
}

func (s *pullSource) feeds() (all []feed, err error) {
	if s.p == nil || len(s.topics) == 0 {
		return nil, errors.New("tarry: consume: a puller and a topic are needed")
	}
	host, _ := os.Hostname()
	name := fmt.Sprintf("%.50s:%d", host, os.Getpid())
	sorted := slices.Clone(s.topics)
	slices.Sort(sorted)
	for topics := range slices.Chunk(slices.Compact(sorted), topicsAtOnce) {
		turn, old := 0, len(topics) == 1
		pull := func(ctx context.Context, o PullOptions) (found []Pulled, err error) {
			if !old {
				found, err = s.p.PullAny(ctx, topics, o)
				var refused *Error
				old = errors.As(err, &refused) && refused.Word == "unknown_route" // an instance that knows one topic alone
			}
			if old {
				if turn++; len(topics) > 1 {
					o.Wait, old = time.Second, turn%60 != 0 // it may have been upgraded
				}
				return s.p.Pull(ctx, topics[turn%len(topics)], o)
			}
			return found, err
		}
		all = append(all, func(ctx context.Context, most int, take func(...*held)) error {
			found, err := pull(ctx, PullOptions{Max: most, Wait: pollFor, Consumer: name})
			got := make([]*held, len(found))
			for i, m := range found {
				got[i] = &held{Delivery: Delivery{Topic: m.Topic, ID: m.ID, UID: m.UID, Key: m.Key, Header: m.Header,
					Data: m.Data, Due: m.Due, Attempt: m.Attempt}, lease: m.Lease, place: m.Receipt}
			}
			take(got...)
			return err
		})
	}
	return all, nil
}

func receipts(all []*held) []string {
	texts := make([]string, len(all))
	for i, h := range all {
		texts[i] = h.place.(string)
	}
	return texts
}

func (s *pullSource) extend(ctx context.Context, all []*held) map[*held]error {
	err := s.p.Extend(ctx, all[0].lease, receipts(all)...)
	if err == nil {
		return nil
	}
	failed, some := map[*held]error{}, Unsettled(nil)
	partly := errors.As(err, &some)
	for _, h := range all {
		if one := some[h.place.(string)]; one != nil {
			failed[h] = one
		} else if !partly {
			failed[h] = err
		}
	}
	return failed
}

func (s *pullSource) settle(ctx context.Context, h *held, v verdict) error {
	one := settlement{verb: "ack", body: map[string]any{}, receipt: h.place.(string)}
	if v.err != nil {
		one.verb, one.body["reason"] = "nack", wire.CleanReason(v.err.Error())
	}
	if v.dead {
		one.verb = "dead"
	} else if v.delayed {
		one.body["delay"] = fmt.Sprintf("%dms", v.delay.Milliseconds())
	}
	kind, err := json.Marshal([]any{one.verb, one.body})
	if err != nil {
		return fmt.Errorf("tarry: encode the request: %w", err)
	}
	_, err = s.settling.do(ctx, string(kind), one)
	return err
}

// settleAll settles leases of one kind by one request.
func (s *pullSource) settleAll(_ string, all []*call[settlement, struct{}]) {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.ask.receipt
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(all[0].ctx), settleMost)
	defer stop()
	err := s.p.settle(ctx, all[0].ask.verb, all[0].ask.body, texts)
	some := Unsettled(nil)
	partly := errors.As(err, &some)
	for i, one := range all {
		if partly {
			err = some[texts[i]]
		}
		one.tell(struct{}{}, err)
	}
}

func (s *pullSource) release(ctx context.Context, all []*held) error {
	ctx, stop := context.WithTimeout(ctx, settleMost)
	defer stop()
	return s.p.Release(ctx, receipts(all)...)
}

// FromJetStream is the source of a consumer that reads a JetStream consumer with explicit acknowledgement, on the
// client's connection: whether NATS answers there tells whether leases were extended. A message that failed goes to
// tarry by [Client.Retry], and is then acknowledged. One that is [Dead] goes there with the schedule none, which it
// keeps if it is requeued. While tarry is away, Consume holds the message and repeats: that costs none of the
// consumer's deliveries. What tarry refuses for good, such as the copy of a dead message, NATS delivers again after 5
// seconds or the delay that was asked for; if it is Dead, never.
func FromJetStream(client *Client, consumer jetstream.Consumer) Source {
	return &streamSource{client, consumer}
}

type streamSource struct {
	client   *Client
	consumer jetstream.Consumer
}

func (s *streamSource) feeds() ([]feed, error) {
	if s.client == nil || s.consumer == nil {
		return nil, errors.New("tarry: consume: a client and a JetStream consumer are needed")
	}
	info := s.consumer.CachedInfo()
	if info == nil || info.Config.AckPolicy != jetstream.AckExplicitPolicy {
		return nil, errors.New("tarry: consume: the JetStream consumer needs explicit acknowledgement")
	}
	lease := slices.Min(append([]time.Duration{info.Config.AckWait}, info.Config.BackOff...))
	return []feed{func(ctx context.Context, most int, take func(...*held)) error {
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), pollFor)
		defer stop()
		// nats.go drops what it still holds when a fetch is broken off.
		defer context.AfterFunc(ctx, func() { time.AfterFunc(lastSent, stop) })()
		batch, err := s.consumer.Fetch(most, jetstream.FetchContext(limited))
		if err != nil {
			return lasting(err)
		}
		for m := range batch.Messages() {
			take(&held{Delivery: s.delivery(m), lease: lease, place: m})
		}
		if err = batch.Error(); limited.Err() != nil || errors.Is(err, jetstream.ErrNoMessages) {
			err = nil
		}
		if err != nil {
			// Where the consumer was gone before the fetch, the error does not say so: nobody answers.
			_, gone := s.consumer.Info(limited)
			err = errors.Join(err, gone)
		}
		return lasting(err)
	}}, nil
}

// lasting marks the errors that no repeat cures.
func lasting(err error) error {
	for _, e := range []error{jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound, jetstream.ErrStreamNotFound} {
		if errors.Is(err, e) {
			return final{err}
		}
	}
	return err
}

func (s *streamSource) delivery(m jetstream.Msg) Delivery {
	h := m.Headers()
	d := Delivery{Topic: m.Subject(), ID: find(h, HeaderID), Key: find(h, HeaderKey), Header: h, Data: m.Data(),
		Attempt: Attempt(h)}
	if due, err := strconv.ParseInt(find(h, HeaderDue), 10, 64); err == nil {
		d.Due = time.UnixMilli(due)
	}
	return d
}

func (s *streamSource) extend(ctx context.Context, all []*held) map[*held]error {
	failed := map[*held]error{}
	for _, h := range all {
		if err := h.place.(jetstream.Msg).InProgress(); err != nil {
			failed[h] = err
		}
	}
	// While NATS is away, what was said waits in the client, and nobody hears it.
	if err := s.client.nc.FlushWithContext(ctx); err != nil {
		for _, h := range all {
			failed[h] = err
		}
	}
	return failed
}

func (s *streamSource) settle(ctx context.Context, h *held, v verdict) error {
	m := h.place.(jetstream.Msg)
	if v.err != nil {
		var tags []TagOption
		switch {
		case v.dead:
			tags = []TagOption{Retries("none")}
		case v.delayed:
			tags = []TagOption{In(v.delay)}
		}
		if _, err := s.client.Retry(ctx, m, v.err.Error(), tags...); err != nil {
			if cured(err) {
				return err
			}
			let := func() error { return m.NakWithDelay(max(v.delay, pauseMost)) }
			if v.dead {
				let = m.Term
			}
			return final{errors.Join(err, let())}
		}
	}
	if err := m.DoubleAck(ctx); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return err
	}
	return nil
}

// cured reports whether a repeat may cure an error of Retry.
func cured(err error) bool {
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return later(refused)
	}
	return !errors.Is(err, ErrCopy) && !errors.Is(err, nats.ErrMaxPayload)
}

func (s *streamSource) release(_ context.Context, all []*held) (err error) {
	for _, h := range all {
		err = errors.Join(err, h.place.(jetstream.Msg).Nak())
	}
	return err
}
