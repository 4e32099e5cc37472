package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const pipelineDepth = 100

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
