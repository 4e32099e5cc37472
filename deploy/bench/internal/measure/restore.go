package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// restore is one run of the test: a tarry, what it was sent, and what it answered.
type restore struct {
	bench
	t      *stage.Tarry
	due    func(n int) time.Time
	values report.Values
	faults []string

	next     int // number of the next message of a feed
	accepted int
	unknown  int
}

// restored loads messages that are due in an hour, and makes Redis lose them while a feed continues. In sync mode it
// looks before at what an ordered restore over a full store costs a feed.
func (b bench) restored(mode string) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, _, err := b.journaled(ctx, s, mode)
		if err != nil {
			return Outcome{}, err
		}
		began := time.Now()
		r := &restore{bench: b, t: t, values: report.Values{}, due: func(n int) time.Time {
			return began.Add(time.Hour + time.Duration(load.Spread(n)*float64(time.Hour))).Truncate(time.Millisecond)
		}}
		if err := r.load(ctx); err != nil {
			return Outcome{}, err
		}
		if mode == stage.JournalSync {
			if err := r.slowed(ctx); err != nil {
				return Outcome{}, err
			}
		}
		if err := r.lose(ctx, mode); err != nil {
			return Outcome{}, err
		}
		return Outcome{Values: r.values, Faults: r.faults}, nil
	}
}

// loadStep is how many messages are pushed before the journal may catch up: in async mode it is slower than the pushes,
// and with too much of a backlog they would be refused.
const loadStep = 100_000

// load pushes what is to be restored.
func (r *restore) load(ctx context.Context) error {
	empty, err := r.t.Redis.UsedMemory(ctx)
	if err != nil {
		return err
	}
	want, began := r.plan.Restored, time.Now()
	var loaded time.Time
	for from := 0; from < want; from += loadStep {
		batches := r.batches(r.t, r.due)
		item := batches.Item
		batches.Item = func(to []byte, n int) []byte { return item(to, from+n) }
		if _, err := batches.Send(ctx, min(loadStep, want-from), time.Hour); err != nil {
			return err
		}
		if loaded, err = r.t.CaughtUp(ctx); err != nil {
			return err
		}
	}
	if err := r.t.Audited(ctx, time.Now()); err != nil {
		return err
	}
	full, err := r.t.Redis.UsedMemory(ctx)
	if err != nil {
		return err
	}
	r.next, r.accepted = want, want
	r.values[report.Messages] = float64(want)
	r.values[report.LoadRate] = float64(want) / loaded.Sub(began).Seconds()
	r.values[report.UsedMemory] = float64(full-empty) / float64(want)
	return journalBytes(r.values, r.t, want)
}

// feed begins to push single messages, at a rate or flat out.
func (r *restore) feed(ctx context.Context, rate float64) *load.Feeding {
	return load.Feed{URL: r.t.URL, Producers: producers, Rate: rate, First: r.next,
		Item: r.batches(r.t, r.due).Item}.Start(ctx)
}

// stop ends a feed and counts what it pushed.
func (r *restore) stop(f *load.Feeding) {
	f.Stop()
	r.next = f.Next()
	r.accepted += f.Accepted(time.Now())
	r.unknown += f.Unknown()
}

// slowed pushes with and without an ordered restore of everything: at the feed's rate, and as fast as the answers
// arrive.
func (r *restore) slowed(ctx context.Context) error {
	for _, of := range []struct {
		rate  float64
		names beside
	}{
		{float64(r.plan.Feed),
			beside{report.FeedBefore, report.FeedDuring, report.FeedP99Before, report.FeedP99During, report.FeedOrder}},
		{0, beside{report.FlatBefore, report.FlatDuring, report.FlatP99Before, report.FlatP99During, report.FlatOrder}},
	} {
		f := r.feed(ctx, of.rate)
		err := r.compare(ctx, f, of.names)
		r.stop(f)
		if err != nil {
			return err
		}
		if refused := f.Refused() + f.Unknown(); refused > 0 {
			r.faults = append(r.faults, fmt.Sprintf(
				"%d pushes of a feed were not accepted beside a restore, the first: %s", refused, f.Refusal()))
		}
	}
	_, err := r.t.CaughtUp(ctx)
	return err
}

// beside are the names of a feed's figures, alone and beside a restore, and of the rate of that restore.
type beside struct{ before, during, p99Before, p99During, order string }

// compare takes a feed's figures over two spans, and has everything restored over the second.
func (r *restore) compare(ctx context.Context, f *load.Feeding, names beside) error {
	if err := load.SleepUntil(ctx, time.Now().Add(r.plan.FeedFor/4)); err != nil { // its connections are made
		return err
	}
	from := time.Now()
	if err := load.SleepUntil(ctx, from.Add(r.plan.FeedFor)); err != nil {
		return err
	}
	middle := time.Now()
	order, cancel := context.WithDeadline(ctx, middle.Add(r.plan.FeedFor))
	defer cancel()
	read, took, err := r.t.Restore(order)
	if err != nil {
		return err
	}
	to := time.Now()
	r.values[names.before], r.values[names.during] = f.RateOver(from, middle), f.RateOver(middle, to)
	r.values[names.p99Before], r.values[names.p99During] = millis(f.P99(from, middle)), millis(f.P99(middle, to))
	if took > 0 {
		r.values[names.order] = float64(read) / took.Seconds()
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lose empties Redis under a feed and waits until everything is back.
func (r *restore) lose(ctx context.Context, mode string) error {
	certificates, err := r.t.Redis.Certificates(ctx)
	if err != nil {
		return err
	}
	before := r.accepted // by earlier feeds and loading
	f := r.feed(ctx, float64(r.plan.Feed))
	defer f.Stop()
	from := time.Now()
	if err := load.SleepUntil(ctx, from.Add(r.plan.FeedFor)); err != nil {
		return err
	}
	lost, err := r.t.Redis.Lose(ctx)
	if err != nil {
		return err
	}
	whole, err := r.t.Restored(ctx, certificates)
	if err != nil {
		return err
	}
	waiting, err := r.t.Redis.Waiting(ctx)
	if err != nil {
		return err
	}
	resumed, err := feedsAgain(ctx, f, lost)
	if err != nil {
		return err
	}
	if err := load.SleepUntil(ctx, time.Now().Add(r.plan.FeedFor/2)); err != nil {
		return err
	}
	r.stop(f)
	end := later(whole, resumed)
	r.values[report.Seconds] = end.Sub(lost).Seconds()
	r.values[report.RestoreRate] = float64(waiting) / whole.Sub(lost).Seconds()
	r.values[report.Outage] = resumed.Sub(lost).Seconds()
	r.values[report.FillBefore], r.values[report.FillDuring] = f.RateOver(from, lost), f.RateOver(lost, end)
	return r.count(ctx, mode, waiting, before+f.Accepted(lost))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// feedsAgain waits for the first push that began after a moment and was accepted.
func feedsAgain(ctx context.Context, f *load.Feeding, after time.Time) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedPatience)
	defer cancel()
	err = stage.Until(ctx, feedEvery, func(context.Context) error {
		var ok bool
		if at, ok = f.Resumed(after); !ok {
			return fmt.Errorf("no push was accepted after the restore: %s", f.Refusal())
		}
		return nil
	})
	return at, err
}

const (
	feedEvery    = 20 * time.Millisecond
	feedPatience = 30 * time.Second
)

// count holds what waits against what was accepted. waiting is how many did when everything was certified, before how
// many had been accepted when Redis was lost. In async mode an answer does not promise that the journal has it: what is
// missing is a figure, and no fault.
func (r *restore) count(ctx context.Context, mode string, waiting, before int) error {
	if _, err := r.t.CaughtUp(ctx); err != nil {
		return err
	}
	now, err := r.t.Redis.Waiting(ctx)
	if err != nil {
		return err
	}
	used, err := r.t.Redis.UsedMemory(ctx)
	if err != nil {
		return err
	}
	r.values[report.UsedAgain] = float64(used) / float64(now)
	r.values[report.Missing] = float64(max(0, r.accepted-now))
	switch {
	case mode == stage.JournalSync && waiting < before:
		r.faults = append(r.faults, fmt.Sprintf("Redis was certified with %d of %d messages", waiting, before))
	case mode == stage.JournalSync && now < r.accepted:
		r.faults = append(r.faults, fmt.Sprintf("%d of %d messages lost with Redis", r.accepted-now, r.accepted))
	case now > r.accepted+r.unknown:
		r.faults = append(r.faults,
			fmt.Sprintf("%d messages wait, and %d were accepted (%d perhaps)", now, r.accepted, r.unknown))
	}
	return nil
}
