package scheduler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// outlooks are the beginnings of steps.
func outlooks(from message.Milli, step time.Duration, n int) (times []message.Milli) {
	for i := range n + 1 {
		times = append(times, from.Add(time.Duration(i)*step))
	}
	return times
}

// TestOutlook_ForetellsWhatTheRateDoes compares an outlook with what then happens: the leader has the last word.
func TestOutlook_ForetellsWhatTheRateDoes(t *testing.T) {
	t.Parallel()
	for seed, rate := range []float64{0.5, 2, 7, 40, 500} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const step, steps = 5 * time.Second, 24
				random := rand.New(rand.NewPCG(1, uint64(seed))) //nolint:gosec // a test is to be the same each time
				r := rig.New(t, 2, nil)
				r.Topics(&scheduler.Topic{Pattern: "orders.>", Rate: rate}, &scheduler.Topic{Pattern: "mail.*", Rate: 1})
				if _, err := r.S.Pause(t.Context(), "mail.b", "ann"); err != nil {
					t.Fatal(err)
				}
				counts := map[string]*[steps]int{"orders.a": {}, "orders.b": {}, "mail.b": {}, "free": {}}
				topics := []string{"orders.a", "orders.b", "mail.b", "free"}
				start := message.CeilMilli(time.Now())
				for n := 0; n < 2000; {
					at := time.Duration(1+random.IntN(60_000)) * time.Millisecond
					for range min(1+random.IntN(max(int(12*rate), 2)), 100) {
						topic := topics[random.IntN(len(topics))]
						if n++; topic == "mail.b" && n%10 > 0 {
							continue
						}
						r.Push(scheduler.Push{Topic: topic, HasAt: true, At: start.Add(at)})
						counts[topic][at/step]++
					}
					if rate < 10 && n > int(rate*50) {
						break
					}
				}
				o, err := r.S.Outlook(t.Context(), scheduler.OutlookQuery{Times: outlooks(start, step, steps), By: "topic", Top: 3})
				if err != nil || o.Source != "store" || len(o.Groups) != 3 || !o.Sample.Exact {
					t.Fatalf("%+v, %v", o, err)
				}
				stop := r.Lead(r.S, 1)
				time.Sleep(10 * time.Minute)
				if err := stop(rig.ErrStop); err == nil {
					t.Fatal("it did not stop")
				}
				latest, left := [steps]time.Duration{}, [steps]int{}
				for _, a := range r.Nats.Arrived() {
					if !scheduler.Matches("orders.>", a.M.Topic) {
						continue
					}
					due := a.M.Due.Time()
					at := int(due.Sub(start.Time()) / step)
					latest[at] = max(latest[at], a.At.Sub(due))
					for i := range steps {
						if end := start.Time().Add(time.Duration(i+1) * step); due.Before(end) && !a.At.Before(end) {
							left[i]++
						}
					}
				}
				for i, s := range o.Steps {
					others := 0
					for topic, each := range counts {
						if at := slices.Index(o.Groups, topic); at < 0 {
							others += each[i]
						} else if s.Groups[at] != each[i] {
							t.Errorf("step %d has %d of %s, which are %d", i, s.Groups[at], topic, each[i])
						}
					}
					if s.Others != others {
						t.Errorf("step %d has %d others, which are %d", i, s.Others, others)
					}
					got := scheduler.Behind{}
					for _, b := range s.Behind {
						if b.Name != "orders.>" {
							t.Errorf("step %d: %+v, of what is paused", i, b)
						}
						got = b
					}
					slack := max(1.2, 2/rate+0.5) // what is not told, and what takes another one's turn
					if late := float64(got.LateMS) / 1000; math.Abs(late-latest[i].Seconds()) > slack {
						t.Errorf("step %d: %.1f s late, and it was %s", i, late, latest[i])
					}
					if math.Abs(float64(got.Left-left[i])) > max(1, rate)*slack {
						t.Errorf("step %d: %d left, and it was %d", i, got.Left, left[i])
					}
				}
			})
		})
	}
}

// TestOutlook_OfManySharesTheCountsOut: the numbers of a sample add up, and are about right.
func TestOutlook_OfManySharesTheCountsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const step, steps = 10 * time.Second, 6
		r := rig.New(t, 4, nil)
		r.Topics(&scheduler.Topic{Pattern: "bulk.*", Rate: 100})
		start := message.CeilMilli(time.Now())
		want := map[string]*[steps]int{}
		var batch []*scheduler.Push
		for n := range 15_000 { // in bursts; nothing in the last step
			topic, i := fmt.Sprint("bulk.", n/50%5), n*(steps-1)/15_000
			if n%10 == 0 {
				topic = "rare." + topic
			}
			if want[topic] == nil {
				want[topic] = new([steps]int)
			}
			want[topic][i]++
			// By their keys they lie in all buckets alike: else the buckets take them as they have time.
			batch = append(batch, &scheduler.Push{Topic: topic, HasAt: true, Key: fmt.Sprint(n),
				At: start.Add(time.Duration(i)*step + time.Duration(n/50*7919%9999)*time.Millisecond + 1)})
		}
		for _, a := range r.S.AcceptAll(t.Context(), batch) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		ask := func(q scheduler.OutlookQuery) *scheduler.Outlook {
			t.Helper()
			q.Times = outlooks(start, step, steps)
			o, err := r.S.Outlook(t.Context(), q)
			if err != nil || o.Sample == nil || o.Sample.Exact || o.Sample.Of != 15_000 || o.Sample.Read != scheduler.MaxSample {
				t.Fatalf("%+v, %v", o, err)
			}
			return o
		}
		near := func(what string, got, want int) {
			t.Helper()
			if math.Abs(float64(got-want)) > 0.06*3000 {
				t.Errorf("%s: %d, which are %d", what, got, want)
			}
		}
		o := ask(scheduler.OutlookQuery{By: "topic", Top: 5})
		for i, s := range o.Steps {
			sum, busy := s.Others, i < steps-1
			for n, part := range s.Groups {
				near(fmt.Sprint(o.Groups[n], " in ", i), part, want[o.Groups[n]][i])
				sum += part
			}
			if sum != s.Count || busy != (s.Count == 3000) || len(s.Groups) != 5 {
				t.Errorf("step %d: %+v", i, s)
			}
			// 270 a second come, and 100 leave.
			left := 0
			for _, b := range s.Behind {
				if left = b.Left; b.Name != "bulk.*" {
					t.Errorf("step %d: %+v", i, b)
				}
			}
			if ahead := min(i+1, steps-1)*2700 - (i+1)*1000; math.Abs(float64(left-ahead)) > 400 {
				t.Errorf("step %d: %d left, which are %d", i, left, ahead)
			}
		}
		// A topic is a share of each step, and its pattern is behind by all that comes.
		o = ask(scheduler.OutlookQuery{Topic: "rare.>"})
		for i, s := range o.Steps {
			near(fmt.Sprint("rare in ", i), s.Count, 300*min(1, steps-1-i))
			if len(s.Groups) > 0 || s.Others > 0 || s.Behind != nil {
				t.Errorf("step %d: %+v", i, s)
			}
		}
		if o = ask(scheduler.OutlookQuery{Topic: "bulk.1", By: "pattern", Top: 20}); len(o.Groups) != 1 ||
			o.Groups[0] != "bulk.*" || o.Overdue != nil || len(o.Steps[0].Behind) != 1 || o.Steps[0].Behind[0].Left < 1300 {
			t.Errorf("%+v", o)
		}
	})
}
