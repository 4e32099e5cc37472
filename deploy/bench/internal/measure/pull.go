package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
	"github.com/tarry-mq/tarry/deploy/lab"
)

const (
	pullSize   = 100 // messages a pull, and receipts an acknowledgement
	waitPolls  = 5000
	waitTopics = 200
	wakeRate   = 1000 // messages a second
)

// pullTests are what consumers that pull get, beside those of beanstalkd, asynq and River.
func (b bench) pullTests() []Test {
	return []Test{
		{Name: report.PullMany, Systems: []System{
			{report.Tarry, b.pullDrain(producers, pullSize, b.plan.Messages)},
			{report.Beanstalkd, b.beanstalkd(producers, b.plan.Messages)}}},
		{Name: report.PullOne, Systems: []System{
			{report.Tarry, b.pullDrain(1, 1, b.plan.Calls)}, {report.Beanstalkd, b.beanstalkd(1, b.plan.Calls)}}},
		{Name: report.Pull32, Systems: []System{
			{report.Tarry, b.pullDrain(producers, 1, b.plan.Calls)},
			{report.Consume, b.consume}, {report.Asynq, b.asynq}, {report.River, b.river}}},
		{Name: report.PullWake, Systems: []System{{report.Tarry, b.pullWake}}, Alone: true},
		{Name: report.PullWait, Systems: []System{{report.Tarry, b.pullWait}}, Alone: true},
	}
}

func forPull(to []byte, _ int) []byte { return append(to, `,"deliver":"pull"`...) }

// pullDrain pulls and acknowledges messages that are all due.
func (b bench) pullDrain(consumers, size, want int) run {
	return b.drainBy(want, func(ctx context.Context, url string) (load.Sent, error) {
		return load.Pulls{URL: url, Consumers: consumers, Size: size, Topics: []string{dueSubject}}.Run(ctx, want)
	})
}

// consume is pullDrain by the library's Consume with 32 workers.
func (b bench) consume(ctx context.Context, s *stage.Scope) (Outcome, error) {
	want := b.plan.Calls
	return b.drainBy(want, func(ctx context.Context, url string) (load.Sent, error) {
		return load.Consume(ctx, url, dueSubject, producers, want)
	})(ctx, s)
}

func (b bench) drainBy(want int, drain func(ctx context.Context, url string) (load.Sent, error)) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t := s.Tarry(b.program)
		due := time.Now()
		batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
			return b.item(to, n, dueSubject, due, forPull)
		}}
		if sent, err := batches.Send(ctx, want, time.Minute); err != nil || sent.Count < want {
			return Outcome{}, errors.Join(err, fmt.Errorf("%d of %d messages were pushed", sent.Count, want))
		}
		scripts, err := t.Redis.Scripts(ctx)
		if err != nil {
			return Outcome{}, err
		}
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return Outcome{}, err
		}
		sent, err := drain(ctx, t.URL)
		if err != nil {
			return Outcome{}, err
		}
		after, err := t.Redis.Scripts(ctx)
		if err != nil {
			return Outcome{}, err
		}
		values := pushed(sent)
		values[report.ScriptsEach] = float64(after-scripts) / float64(want)
		return Outcome{Values: values}, micros(values, cost, want)
	}
}

// beanstalkd reserves and deletes jobs that are all ready. Its log is flushed once a second, as Redis's.
func (b bench) beanstalkd(consumers, want int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(s)))
		_, port, _ := net.SplitHostPort(addr)
		p := lab.Start(s, "beanstalkd", nil, "/usr/bin/beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", s.TempDir(),
			"-f", "1000")
		var all []*load.Beanstalk
		lab.Eventually(s, 10*time.Second, func() error {
			c, err := load.DialBeanstalk(addr)
			if err == nil {
				all = append(all, c)
			}
			return err
		})
		for len(all) < consumers {
			c, err := load.DialBeanstalk(addr)
			if err != nil {
				return Outcome{}, err
			}
			all = append(all, c)
		}
		defer func() {
			for _, c := range all {
				c.Close()
			}
		}()
		if err := all[0].Put(want, pullSize, b.body); err != nil {
			return Outcome{}, err
		}
		cost, err := stage.Watch(stage.Process{Name: "beanstalkd", Pid: p.Pid()}, stage.This())
		if err != nil {
			return Outcome{}, err
		}
		sent, err := load.ReserveAndDelete(ctx, all, want)
		if err != nil {
			return Outcome{}, err
		}
		values := pushed(sent)
		return Outcome{Values: values}, micros(values, cost, want)
	}
}

// asynq handles tasks that are all ready with 32 workers, in this process.
func (b bench) asynq(ctx context.Context, s *stage.Scope) (Outcome, error) {
	r := s.Redis()
	opt := asynq.RedisClientOpt{Addr: r.Addr}
	client := asynq.NewClient(opt)
	defer client.Close()
	want := b.plan.Calls
	var group sync.WaitGroup
	var next atomic.Int64
	failed := make([]error, producers)
	for i := range producers {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < want && failed[i] == nil; n = int(next.Add(1)) - 1 {
				_, failed[i] = client.EnqueueContext(ctx, asynq.NewTask("bench", b.body(n)))
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return Outcome{}, fmt.Errorf("enqueue: %w", err)
	}
	cost, err := stage.Watch(stage.Process{Name: "redis", Pid: r.Pid()}, stage.This())
	if err != nil {
		return Outcome{}, err
	}
	server := asynq.NewServer(opt, asynq.Config{Concurrency: producers, LogLevel: asynq.FatalLevel})
	var handled atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	err = server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if handled.Add(1) == int64(want) {
			close(all)
		}
		return nil
	}))
	if err != nil {
		return Outcome{}, fmt.Errorf("start asynq: %w", err)
	}
	select {
	case <-all:
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
	values := pushed(load.Sent{Count: want, Began: began, Elapsed: time.Since(began)})
	err = micros(values, cost, want)
	server.Shutdown()
	return Outcome{Values: values}, err
}

// pullWake has consumers wait for messages that fall due one after the other.
func (b bench) pullWake(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t := s.Tarry(b.program)
	want := wakeRate * int(b.plan.For/time.Second)
	first := time.Now().Add(b.plan.Longest)
	batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
		return b.item(to, n, dueSubject, first.Add(time.Duration(n)*time.Second/wakeRate), forPull)
	}}
	if _, err := batches.Send(ctx, want, time.Minute); err != nil {
		return Outcome{}, err
	}
	var mu sync.Mutex
	late := make([]time.Duration, 0, want)
	cost, err := stage.Watch(t.Processes()...)
	if err != nil {
		return Outcome{}, err
	}
	_, err = load.Pulls{URL: t.URL, Consumers: producers, Size: 10, Topics: []string{dueSubject}, Wait: 30 * time.Second,
		Came: func(due time.Time) {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, time.Since(due))
		}}.Run(ctx, want)
	if err != nil {
		return Outcome{}, err
	}
	slices.Sort(late)
	values := report.Values{report.Messages: float64(len(late))}
	lateness(values, load.Lateness(late))
	return Outcome{Values: values}, micros(values, cost, want)
}

// pullWait keeps polls waiting while nothing is due.
func (b bench) pullWait(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t := s.Tarry(b.program)
	polls := min(waitPolls, b.plan.Messages/10)
	waiting, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.Waiting(waiting, t.URL, polls, waitTopics)
	}()
	defer func() {
		stop()
		<-done
	}()
	err := stage.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		n, err := t.Metric(ctx, "tarry_polls")
		if err == nil && int(n) < polls {
			err = fmt.Errorf("%d polls wait", int(n))
		}
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	if err := load.SleepUntil(ctx, time.Now().Add(b.plan.Calm)); err != nil {
		return Outcome{}, err
	}
	cost, err := stage.Watch(t.Processes()...)
	if err != nil {
		return Outcome{}, err
	}
	if err := load.SleepUntil(ctx, time.Now().Add(2*b.plan.Idle)); err != nil {
		return Outcome{}, err
	}
	values := report.Values{report.Messages: float64(polls)}
	return Outcome{Values: values}, percents(values, cost)
}
