package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const pipelineDepth = 100

// answered starts what no door can be faster than: a loop that takes the requests which have come, writes them into
// Redis as rawRedis does, and answers them.
func (b bench) answered(s *stage.Scope) (*load.Client, error) {
	server, r := s.NATS(), s.Redis()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	s.Cleanup(func() { _ = client.Close() })
	loop, err := dial(s, server.URL(), inFlight)
	if err != nil {
		return nil, err
	}
	err = loop.Answer(doorSubject, pipelineDepth, []byte(`{"id":"t-0123456789abcdef","uid":"t-0123456789abcdef",`+
		`"due":"2030-01-31T08:00:00.000Z","state":"waiting","version":1,"durable":"redis"}`),
		func(ctx context.Context, all []*nats.Msg) error {
			pipe := client.Pipeline()
			for _, m := range all {
				id := m.Header.Get(nats.MsgIdHdr)
				pipe.HSet(ctx, "bench:msg", id, m.Data)
				pipe.ZAdd(ctx, "bench:due", redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
			}
			_, err := pipe.Exec(ctx)
			return err
		})
	if err != nil {
		return nil, err
	}
	return dial(s, server.URL(), inFlight)
}

func (b bench) answeredSync(producers int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		c, err := b.answered(s)
		if err != nil {
			return Outcome{}, err
		}
		sent, err := c.DoorSync(ctx, producers, b.plan.Messages, b.plan.Limit, b.doorPush)
		return Outcome{Values: pushed(sent)}, err
	}
}

func (b bench) answeredAsync(ctx context.Context, s *stage.Scope) (Outcome, error) {
	c, err := b.answered(s)
	if err != nil {
		return Outcome{}, err
	}
	sent, err := c.DoorAsync(ctx, inFlight, b.plan.Messages, b.plan.Limit, b.doorPush)
	return Outcome{Values: pushed(sent)}, err
}

// rawRedis is what Redis alone accepts, without tarry: one HSET and one ZADD a message, in pipelines.
func (b bench) rawRedis(ctx context.Context, s *stage.Scope) (Outcome, error) {
	r := s.Redis()
	client := redis.NewClient(
		&redis.Options{Addr: r.Addr, PoolSize: connections, MinIdleConns: connections, MaxRetries: -1})
	s.Cleanup(func() { _ = client.Close() })
	began := time.Now()
	sent, err := load.Chunks(ctx, connections, pipelineDepth, b.plan.Messages, b.plan.Limit,
		func(ctx context.Context, from, to int) error {
			pipe := client.Pipeline()
			for n := from; n < to; n++ {
				id := messageID(n)
				pipe.HSet(ctx, "bench:msg", id, b.body(n))
				pipe.ZAdd(ctx, "bench:due", redis.Z{Score: float64(began.Add(farOff(n)).UnixMilli()), Member: id})
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return fmt.Errorf("pipeline messages %d to %d: %w", from, to-1, err)
			}
			return nil
		})
	return Outcome{Values: pushed(sent)}, err
}
