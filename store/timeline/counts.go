package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

const (
	// countsStep is how many topics or claims one script is asked about, and how many
	// fields one look at a hash returns.
	countsStep = 500
	// inFlightBytes bounds what one script reads of messages.
	inFlightBytes = 2 << 20
)

// Count returns the counts of one topic.
func (t *Redis) Count(ctx context.Context, topic string) (scheduler.TopicCount, error) {
	counts, err := t.countsOf(ctx, []string{topic})
	if err != nil {
		return scheduler.TopicCount{}, err
	}
	return counts[0], nil
}

// Counts goes through the names of all topics in small steps, then asks for the
// counts of those that the page holds.
func (t *Redis) Counts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	if limit < 1 {
		return nil, fmt.Errorf("counts: a limit of %d", limit)
	}
	page := scheduler.NewTopicPage(after, limit)
	for i := range t.keys {
		err := t.fields(ctx, t.keys[i].counts, func(topics []string) error {
			for _, topic := range topics {
				page.Meet(topic)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return t.countsOf(ctx, page.Topics())
}

// fields shows the fields of a hash in steps, but for the one without a name. What
// is there throughout is shown, and may be shown twice.
func (t *Redis) fields(ctx context.Context, key string, show func([]string) error) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		found, next, err := t.rdb.HScan(ctx, key, cursor, "", countsStep).Result()
		if err = translate(err); err != nil {
			return err
		}
		names := found[:0]
		for i := 0; i < len(found); i += 2 {
			if found[i] != "" {
				names = append(names, found[i])
			}
		}
		if err := show(names); err != nil {
			return err
		}
		cursor = next
	}
	return nil
}

// countsOf are the counts of topics, in their order: first what lives and what is
// dead, then what of the former is in flight, as far as any lives.
func (t *Redis) countsOf(ctx context.Context, topics []string) ([]scheduler.TopicCount, error) {
	counts := make([]scheduler.TopicCount, len(topics))
	flying := make(map[string]int, len(topics))
	for i, topic := range topics {
		counts[i].Topic, flying[topic] = topic, 0
	}
	holding := make([]bool, len(t.keys))                                 // buckets with messages of them that live
	for from := 0; from == 0 || from < len(topics); from += countsStep { // with none, too: is the bucket certified?
		if err := t.standing(ctx, counts[from:min(from+countsStep, len(counts))], holding); err != nil {
			return nil, err
		}
	}
	for bucket := range t.keys {
		if !holding[bucket] {
			continue
		}
		if err := t.inFlight(ctx, bucket, flying); err != nil {
			return nil, err
		}
	}
	for i := range counts {
		c := &counts[i]
		c.InFlight = min(flying[c.Topic], c.Waiting) // some may have been claimed since, or have ended
		c.Waiting -= c.InFlight
	}
	return counts, nil
}

// standing adds up what lives, as if all of it waited, and what is dead.
func (t *Redis) standing(ctx context.Context, counts []scheduler.TopicCount, holding []bool) error {
	topics := make([]any, len(counts))
	for i := range counts {
		topics[i] = counts[i].Topic
	}
	bucket := -1
	return t.ask(ctx, t.allBuckets(), t.scripts.counts,
		func(k *keys) ([]string, []any) { return []string{k.counts}, topics }, func(v any) error {
			bucket++
			f, err := texts(v)
			if err != nil || len(f) != len(counts) {
				return errAnswer("counts", len(f), err)
			}
			for i := range counts {
				live, dead, err := readCount(f[i])
				if err != nil {
					return fmt.Errorf("counts of %s: %w", counts[i].Topic, err)
				}
				counts[i].Waiting += live
				counts[i].Dead += dead
				holding[bucket] = holding[bucket] || live > 0
			}
			return nil
		})
}

// readCount reads what stands in counts: how many live, and where any are dead how
// many.
func readCount(s string) (live, dead int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	alive, rest, any := strings.Cut(s, " ")
	live, err = strconv.Atoi(alive)
	if any && err == nil {
		dead, err = strconv.Atoi(rest)
	}
	return live, dead, err
}

// inFlight adds what a bucket has in flight to the topics that flying names. What is
// claimed is bounded; the topic stands in the message, whose body is not, so that it
// is read in steps by number and bytes.
func (t *Redis) inFlight(ctx context.Context, bucket int, flying map[string]int) error {
	k := &t.keys[bucket]
	seen := map[string]bool{}
	return t.fields(ctx, k.claimed, func(uids []string) error {
		uids = slices.DeleteFunc(uids, func(uid string) bool {
			again := seen[uid]
			seen[uid] = true
			return again
		})
		for len(uids) > 0 {
			args := make([]any, 1, 1+countsStep)
			args[0] = inFlightBytes
			for _, uid := range uids[:min(len(uids), countsStep)] {
				args = append(args, uid)
			}
			v, err := t.run(ctx,
				&call{bucket: bucket, script: t.scripts.inflight, keys: []string{k.claimed, k.msg}, args: args})
			if err != nil {
				return err
			}
			looked, err := readInFlight(v, flying)
			if err != nil {
				return err
			}
			if looked < 1 || looked > len(uids) {
				return errAnswer("inflight", looked, nil)
			}
			uids = uids[looked:]
		}
		return nil
	})
}

// readInFlight adds up an answer, and returns how many claims were looked at.
func readInFlight(v any, flying map[string]int) (looked int, err error) {
	f, err := texts(v)
	if err != nil || len(f)%2 != 1 {
		return 0, errAnswer("inflight", len(f), err)
	}
	looked, err = strconv.Atoi(f[0])
	for f = f[1:]; len(f) > 0; f = f[2:] {
		n, err2 := strconv.Atoi(f[1])
		err = errors.Join(err, err2)
		if before, asked := flying[f[0]]; asked {
			flying[f[0]] = before + n
		}
	}
	if err != nil {
		return 0, fmt.Errorf("inflight: %w", err)
	}
	return looked, nil
}
