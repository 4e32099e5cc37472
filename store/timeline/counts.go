package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tarry-mq/tarry/scheduler"
)

// Counts asks every bucket in one pipeline. Where a bucket has more topics than
// the limit, those of one page need not be those of another's: they are then asked
// for by name.
func (t *Redis) Counts(ctx context.Context, topic string, limit int) ([]scheduler.TopicCount, error) {
	if topic != "" {
		counts, _, err := t.counts(ctx, 1, []string{topic})
		return counts, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("counts: a limit of %d", limit)
	}
	counts, more, err := t.counts(ctx, limit, nil)
	if err != nil {
		return nil, err
	}
	counts = counts[:min(len(counts), limit)]
	if !more || len(counts) == 0 {
		return counts, nil
	}
	names := make([]string, len(counts))
	for i := range names {
		names[i] = counts[i].Topic
	}
	counts, _, err = t.counts(ctx, limit, names)
	return counts, err
}

// counts sums up what the buckets have of topics, of any where none is named; those
// that have none are left out.
func (t *Redis) counts(ctx context.Context, limit int, topics []string) (sums []scheduler.TopicCount, more bool, err error) {
	places := map[string]int{}
	err = t.ask(ctx, t.allBuckets(), t.scripts.counts, func(k *keys) ([]string, []any) {
		args := make([]any, 1, 1+len(topics))
		args[0] = limit
		for _, topic := range topics {
			args = append(args, topic)
		}
		return []string{k.counts}, args
	}, func(v any) error {
		f, err := texts(v)
		if err != nil || len(f)%4 != 1 {
			return errAnswer("counts", len(f), err)
		}
		more = more || f[0] != ""
		for f = f[1:]; len(f) > 0; f = f[4:] {
			place, known := places[f[0]]
			if !known {
				place = len(sums)
				places[f[0]] = place
				sums = append(sums, scheduler.TopicCount{Topic: f[0]})
			}
			if err := addCounts(&sums[place], f[1:4]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	sums = slices.DeleteFunc(sums, func(c scheduler.TopicCount) bool { return c.Waiting == 0 && c.InFlight == 0 && c.Dead == 0 })
	slices.SortFunc(sums, func(a, b scheduler.TopicCount) int { return cmp.Compare(a.Topic, b.Topic) })
	return sums, more, nil
}

func addCounts(c *scheduler.TopicCount, f []string) error {
	waiting, err1 := strconv.Atoi(f[0])
	inFlight, err2 := strconv.Atoi(f[1])
	dead, err3 := strconv.Atoi(f[2])
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("counts of %s: %w", c.Topic, err)
	}
	c.Waiting, c.InFlight, c.Dead = c.Waiting+waiting, c.InFlight+inFlight, c.Dead+dead
	return nil
}
