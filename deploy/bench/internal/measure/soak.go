package measure

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const (
	soakLooks   = 480             // every half minute of four hours
	soakKeeps   = 5 * time.Minute // all that came would fill the disk
	soakWarming = time.Minute
)

// Soak pushes at a rate for hours to a tarry with a journal in sync mode, receives, and looks now and then at what all
// of it takes. The journal keeps what has ended for an hour. Only a tarry that is told to (SIGQUIT) says how many
// goroutines it has, so the first is loaded for a minute, and a second one for hours.
func Soak(ctx context.Context, s *stage.Scope, program string, length time.Duration, rate int,
	log io.Writer) (report.Soak, error) {
	b := newBench(Full(), program)
	soak := report.Soak{For: length, Rate: rate}
	t := s.Journaled(program, stage.JournalSync, "TARRY_JOURNAL_KEEP=1h", "TARRY_NAMES_KEEP=1h")
	c, err := dial(s, t.NATS.URL(), inFlight)
	if err != nil {
		return soak, err
	}
	stream, err := c.JS.CreateStream(ctx, jetstream.StreamConfig{Name: dueStream, Subjects: []string{b.arrives},
		Storage: jetstream.FileStorage, MaxAge: soakKeeps})
	if err != nil {
		return soak, fmt.Errorf("make the stream that messages are due on: %w", err)
	}
	if _, _, err := b.steady(ctx, s, c, t, min(length, soakWarming), rate); err != nil {
		return soak, err
	}
	if soak.Goroutines[0], err = t.Goroutines(ctx); err != nil {
		return soak, err
	}
	if _, err := t.Again(ctx, time.Minute); err != nil {
		return soak, err
	}
	if err := stream.Purge(ctx); err != nil {
		return soak, fmt.Errorf("empty the stream that messages are due on: %w", err)
	}
	looking, enough := context.WithCancel(ctx)
	defer enough()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		soak.Looks = looks(looking, t, length, log)
	}()
	soak.Values, soak.Faults, err = b.steady(ctx, s, c, t, length, rate)
	enough()
	<-looked
	if err == nil {
		soak.Goroutines[1], err = t.Goroutines(ctx)
	}
	return soak, err
}

// steady pushes at a rate, and receives, for as long as it is told.
func (b bench) steady(ctx context.Context, s *stage.Scope, c *load.Client, t *stage.Tarry, length time.Duration,
	rate int) (report.Values, []string, error) {
	want := int(length.Seconds() * float64(rate))
	dues := make([]atomic.Int64, want)
	ledger := load.NewLedger(b.bodies, want, func(n int) time.Time { return time.UnixMilli(dues[n].Load()) })
	stop, err := b.receive(ctx, s, c, ledger)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	cost, err := stage.Watch(t.Processes()...)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.Paced(ctx, producers, want, float64(rate), func(n int) *nats.Msg {
		due := time.UnixMilli(time.Now().Add(b.delay(n)).UnixMilli())
		dues[n].Store(due.UnixMilli())
		return b.tagged(n, due)
	}); err != nil {
		return nil, nil, err
	}
	if err := ledger.Wait(ctx, time.Now().Add(b.plan.Longest)); err != nil {
		return nil, nil, err
	}
	values := report.Values{report.Messages: float64(want)}
	lateness(values, ledger.Lateness())
	return values, ledger.Faults(), percents(values, cost)
}

// looks looks while messages are pushed. A look that fails tells nothing.
func looks(ctx context.Context, t *stage.Tarry, length time.Duration, log io.Writer) (all []report.Look) {
	began := time.Now()
	for time.Since(began) < length && load.SleepUntil(ctx, time.Now().Add(length/soakLooks)) == nil {
		l, err := look(ctx, t)
		l.After = time.Since(began)
		if err != nil {
			fmt.Fprintf(log, "%8s  %v\n", l.After.Round(time.Second), err)
			continue
		}
		all = append(all, l)
		fmt.Fprintf(log, "%8s  tarry %.1f MiB, Redis %.1f MiB, %.0f live, journal %.0f rows\n", l.After.Round(time.Second),
			l.RSS/(1<<20), l.RedisRSS/(1<<20), l.Live, l.Rows)
	}
	return all
}

func look(ctx context.Context, t *stage.Tarry) (l report.Look, err error) {
	number := func(n int64, failed error) float64 {
		if err == nil {
			err = failed
		}
		return float64(n)
	}
	l.RSS = number(stage.RSS(t.Pid()))
	l.RedisRSS = number(stage.RSS(t.Redis.Pid()))
	l.Files = number(stage.Files(t.Pid()))
	l.Redis = number(t.Redis.UsedMemory(ctx))
	l.SQL = number(t.MariaDB.Bytes())
	l.Rows = number(t.MariaDB.Messages())
	if err == nil {
		l.Live, err = t.Metric(ctx, stage.MessagesMetric)
	}
	return l, err
}
