package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// countsStep is how many topics or claims one script reads, and how many fields one HSCAN returns.
	countsStep = 500
	// inFlightBytes bounds the bytes of messages that one script reads.
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

// Counts walks the names of all topics in small steps, then asks for the counts of those in the page.
func (t *Redis) Counts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	if limit < 1 {
		return nil, fmt.Errorf("counts: a limit of %d", limit)
	}
	page := scheduler.NewTopicPage(after, limit)
	for i := range t.keys {
		err := t.fields(ctx, t.keys[i].of("counts"), func(topics []string) error {
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

// fields calls show with the fields of a hash in steps, without the nameless one. A field that exists throughout is
// shown, perhaps twice.
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

// countsOf returns the counts of topics, in their order. It first counts live and dead messages, then how many of the
// live ones are in flight, if there are any.
func (t *Redis) countsOf(ctx context.Context, topics []string) ([]scheduler.TopicCount, error) {
	counts := make([]scheduler.TopicCount, len(topics))
	flying := make(map[string]int, len(topics))
	for i, topic := range topics {
		counts[i].Topic, flying[topic] = topic, 0
	}
	holding := make([]bool, len(t.keys)) // buckets with live messages of these topics that nobody leases
	// Without topics it still asks once, to learn whether the buckets are certified.
	for from := 0; from == 0 || from < len(topics); from += countsStep {
		if err := t.standing(ctx, counts[from:min(from+countsStep, len(counts))], flying, holding); err != nil {
			return nil, err
		}
	}
	for bucket := range t.Buckets() {
		if !holding[bucket] {
			continue
		}
		if err := t.inFlight(ctx, bucket, flying); err != nil {
			return nil, err
		}
	}
	for i := range counts {
		c := &counts[i]
		c.InFlight = min(flying[c.Topic], c.Waiting) // others may have been claimed or ended since
		c.Waiting -= c.InFlight
	}
	return counts, nil
}

// standing adds up the live messages, as if all of them waited, the dead, and in flying the leased.
func (t *Redis) standing(ctx context.Context, counts []scheduler.TopicCount, flying map[string]int,
	holding []bool) error {
	topics := make([]any, len(counts))
	for i := range counts {
		topics[i] = counts[i].Topic
	}
	return t.ask(ctx, t.allBuckets(), "counts", topics, func(bucket message.Bucket, a *answer) error {
		for i := range counts {
			alive, dead, _ := strings.Cut(a.text(counts[i].Topic), " ") // dead is present only if not 0
			n := newAnswer("counts: "+counts[i].Topic, []any{alive, dead}, nil)
			live := n.counter("live")
			counts[i].Waiting += live
			counts[i].Dead += n.counter("dead")
			leased := a.count("leased")
			flying[counts[i].Topic] += leased
			holding[bucket] = holding[bucket] || live > leased
			if err := n.done(); err != nil {
				return err
			}
		}
		return a.done()
	})
}

// inFlight adds the messages that a bucket has in flight to the topics that flying names. The number of claims is
// bounded. The topic is part of the message, whose size is not, so messages are read in steps bounded by number and
// bytes.
func (t *Redis) inFlight(ctx context.Context, bucket message.Bucket, flying map[string]int) error {
	seen := map[string]bool{}
	return t.fields(ctx, t.keys[bucket].of("claimed"), func(uids []string) error {
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
			a := t.run(ctx, &call{bucket: bucket, script: "inflight", args: args})
			looked := a.code("looked", len(uids))
			for a.more() {
				topic, n := a.text("topic"), a.count("number")
				if before, asked := flying[topic]; asked {
					flying[topic] = before + n
				}
			}
			if looked == 0 {
				a.fail("looked", errors.New("nothing"))
			}
			if err := a.done(); err != nil {
				return err
			}
			uids = uids[looked:]
		}
		return nil
	})
}

// fallsStep is how many spans one script counts, each in the logarithm of what waits.
const fallsStep = 60

// Falls asks all buckets, in as many scripts as the times need.
func (t *Redis) Falls(ctx context.Context, times []message.Milli) ([]int, error) {
	counts := make([]int, max(len(times)-1, 0))
	for from := 0; from < len(counts); from += fallsStep {
		to := min(from+fallsStep, len(counts))
		args := make([]any, 0, fallsStep+1)
		for _, at := range times[from : to+1] {
			args = append(args, int64(at)<<8) // the lowest score of that time
		}
		err := t.ask(ctx, t.allBuckets(), "falls", args, func(_ message.Bucket, a *answer) error {
			for i := from; i < to; i++ {
				counts[i] += a.count("falls")
			}
			return a.done()
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// sampleRun is how many neighbours a sample reads at each place: few, since what falls due together is often alike.
// Twice as many save 7 % of a script, and see half the places. sampleRuns is at how many places one script reads, which
// takes a sixth of a millisecond, and sampleLength how long a record may be that it reads. Between two rounds of
// scripts what falls due has Redis for itself: twice as long as a round took, and at most samplePause.
const (
	sampleRun    = 4
	sampleRuns   = 8
	sampleLength = 16 << 10
	samplePause  = 2 * time.Millisecond
)

// Sample asks all buckets for as many messages each, in as many scripts as those need.
func (t *Redis) Sample(ctx context.Context, from, until message.Milli, n int) ([]scheduler.Sample, error) {
	samples := make([]scheduler.Sample, len(t.keys))
	runs := max(1, n/len(t.keys)/sampleRun)
	buckets := t.allBuckets()
	for run := 0; run < runs && len(buckets) > 0; run += sampleRuns {
		began := time.Now()
		args := []any{int64(from) << 8, int64(until) << 8, runs, sampleRun, run, min(run+sampleRuns, runs) - 1, sampleLength}
		more := buckets[:0:0]
		err := t.ask(ctx, buckets, "sample", args, func(bucket message.Bucket, a *answer) error {
			s := &samples[bucket]
			for s.Of = a.count("of"); a.more(); {
				s.Read = append(s.Read, scheduler.Sampled{Due: a.due("score"), Topic: a.text("topic")})
			}
			if len(s.Read) < s.Of {
				more = append(more, bucket)
			}
			return a.done()
		})
		if err == nil && len(more) > 0 {
			err = scheduler.Sleep(ctx, min(2*time.Since(began), samplePause))
		}
		if err != nil {
			return nil, err
		}
		buckets = more
	}
	return samples, nil
}

// Totals counts in every bucket, in one pipeline. It reads every lane that holds messages, and no message.
func (t *Redis) Totals(ctx context.Context, now message.Milli) ([]scheduler.Total, error) {
	totals := make([]scheduler.Total, len(t.keys))
	args := []any{message.ScoreNow(now)}
	for _, kind := range message.LaneKinds() {
		args = append(args, kind.Prefix(), int(kind.Hold()))
	}
	err := t.ask(ctx, t.allBuckets(), "totals", args, func(bucket message.Bucket, a *answer) error {
		total := &totals[bucket]
		claimed := a.count("claimed")
		total.Leased, total.Dead = a.count("leased"), a.count("dead")
		total.InFlight = claimed + total.Leased
		total.Falls(a.due("next"))
		for hold := range total.Waiting {
			w := &total.Waiting[hold]
			w.Count, w.Overdue, w.Oldest = a.count("waiting"), a.count("overdue"), a.due("oldest")
		}
		return a.done()
	})
	return totals, err
}
