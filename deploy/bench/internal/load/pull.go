package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/tarry"
)

// Pulls are consumers of tarry that pull over HTTP: each leases up to Size messages, acknowledges them together, and
// goes on.
type Pulls struct {
	URL       string // of the API
	Consumers int
	Size      int // messages a pull
	Topics    []string
	Wait      time.Duration
	// Came is called with each message as it comes; nil for nothing.
	Came func(due time.Time)
}

// Run pulls until want messages have been acknowledged, and checks that none came twice or early.
func (p Pulls) Run(ctx context.Context, want int) (Sent, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: p.Consumers, MaxConnsPerHost: p.Consumers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 2*time.Minute + patience}
	var (
		mu   sync.Mutex
		seen = make(map[string]bool, want)
	)
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	began := time.Now()
	_, err := together(ctx, p.Consumers, want, began, func(ctx context.Context, next func() int) error {
		var x exchange
		topic := p.Topics[next()%len(p.Topics)]
		for {
			x.request = fmt.Appendf(x.request[:0], `{"max":%d,"wait":"%dms","lease":"10m"}`, p.Size, p.Wait.Milliseconds())
			err := x.send(ctx, client, http.MethodPost, p.URL+"/v1/topics/"+topic+"/pull")
			now := time.Now()
			if errors.Is(context.Cause(ctx), errAll) {
				return nil
			} else if err != nil {
				return fmt.Errorf("pull: %w", err)
			}
			messages, err := pulledOf(x.answer.Bytes())
			if err != nil {
				return err
			}
			if len(messages) == 0 {
				continue
			}
			x.request = append(x.request[:0], `{"receipts":[`...)
			for i, m := range messages {
				if i > 0 {
					x.request = append(x.request, ',')
				}
				x.request = append(append(append(x.request, '"'), m.receipt...), '"')
				if now.Before(m.due) {
					return fmt.Errorf("a message came %s early", m.due.Sub(now))
				}
				if p.Came != nil {
					p.Came(m.due)
				}
			}
			x.request = append(x.request, "]}"...)
			if err := x.send(ctx, client, http.MethodPost, p.URL+"/v1/leases/ack"); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
			if !bytes.HasPrefix(x.answer.Bytes(), []byte(`{"failed":0,`)) {
				return fmt.Errorf("acknowledge: %s", short(x.answer.Bytes()))
			}
			mu.Lock()
			for _, m := range messages {
				if seen[m.receipt[:16]] {
					mu.Unlock()
					return errors.New("a message came twice")
				}
				seen[m.receipt[:16]] = true
			}
			all := len(seen) >= want
			mu.Unlock()
			if all {
				done(errAll)
				return nil
			}
		}
	})
	if errors.Is(context.Cause(ctx), errAll) {
		err = nil
	}
	return Sent{Count: len(seen), Began: began, Elapsed: time.Since(began)}, err
}

var errAll = errors.New("all have come")

// Consume handles want messages with the library's Consume, and checks that none came twice or early.
func Consume(ctx context.Context, url, topic string, workers, want int) (Sent, error) {
	var mu sync.Mutex
	seen := make(map[string]bool, want)
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	began := time.Now()
	var all time.Duration
	handle := func(_ context.Context, d tarry.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[d.UID] || time.Now().Before(d.Due) {
			done(fmt.Errorf("message %s came twice or early", d.UID))
		}
		seen[d.UID] = true
		return nil
	}
	ended := 0
	settled := func(_ tarry.Delivery, _ time.Duration, failed, unsettled error) {
		mu.Lock()
		defer mu.Unlock()
		if ended++; failed != nil || unsettled != nil {
			done(fmt.Errorf("consume: %w", errors.Join(failed, unsettled)))
		} else if ended == want {
			all = time.Since(began)
			done(errAll)
		}
	}
	err := tarry.Consume(ctx, tarry.FromPull(&tarry.Puller{URL: url}, topic), handle, tarry.Concurrency(workers),
		tarry.WithHooks(tarry.Hooks{End: settled}))
	if cause := context.Cause(ctx); err == nil && cause != errAll {
		err = cause
	}
	return Sent{Count: len(seen), Began: began, Elapsed: all}, err
}

type pulled struct {
	receipt string
	due     time.Time
}

// pulledOf reads what it needs of an answer to a pull. It does not decode the bodies, which would cost more than the
// pull.
func pulledOf(answer []byte) (all []pulled, err error) {
	for {
		_, rest, found := bytes.Cut(answer, []byte(`,"due":"`))
		if !found {
			return all, nil
		}
		due, rest, _ := bytes.Cut(rest, []byte(`"`))
		_, rest, found = bytes.Cut(rest, []byte(`"receipt":"`))
		receipt, rest, _ := bytes.Cut(rest, []byte(`"`))
		m := pulled{receipt: string(receipt)}
		if m.due, err = time.Parse(time.RFC3339, string(due)); err != nil || !found || len(receipt) < 32 {
			return nil, fmt.Errorf("read a pull: %s", short(answer))
		}
		all, answer = append(all, m), rest
	}
}

// Waiting keeps polls of tarry open, on connections of their own, until ctx ends.
func Waiting(ctx context.Context, url string, polls, topics int) {
	transport := &http.Transport{MaxIdleConnsPerHost: polls, MaxConnsPerHost: polls}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	for i := range polls {
		group.Go(func() {
			var x exchange
			for ctx.Err() == nil {
				x.request = append(x.request[:0], `{"wait":"30s"}`...)
				_ = x.send(ctx, client, http.MethodPost, fmt.Sprintf("%s/v1/topics/waiting.%d/pull", url, i%topics))
			}
		})
	}
	group.Wait()
}

// Beanstalk is one connection to a beanstalkd.
type Beanstalk struct {
	conn net.Conn
	in   *bufio.Reader
}

// DialBeanstalk connects.
func DialBeanstalk(addr string) (*Beanstalk, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to beanstalkd: %w", err)
	}
	return &Beanstalk{conn, bufio.NewReader(conn)}, nil
}

// Close ends the connection.
func (b *Beanstalk) Close() { _ = b.conn.Close() }

// ask sends commands and reads an answer of one line.
func (b *Beanstalk) ask(command []byte, want string) (string, error) {
	if _, err := b.conn.Write(command); err != nil {
		return "", fmt.Errorf("beanstalkd: %w", err)
	}
	return b.line(want)
}

func (b *Beanstalk) line(want string) (string, error) {
	line, err := b.in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("beanstalkd: %w", err)
	}
	rest, is := strings.CutPrefix(line, want)
	if !is {
		return "", fmt.Errorf("beanstalkd answers %q, not %s", line, want)
	}
	return strings.TrimSpace(rest), nil
}

// Put stores jobs, and sends size of them before it reads the answers.
func (b *Beanstalk) Put(want, size int, body func(n int) []byte) error {
	for from := 0; from < want; from += size {
		var text []byte
		to := min(from+size, want)
		for n := from; n < to; n++ {
			job := body(n)
			text = fmt.Appendf(text, "put 1024 0 600 %d\r\n%s\r\n", len(job), job)
		}
		if _, err := b.conn.Write(text); err != nil {
			return fmt.Errorf("beanstalkd: %w", err)
		}
		for range to - from {
			if _, err := b.line("INSERTED"); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReserveAndDelete takes want jobs, one after the other, from as many connections as there are.
func ReserveAndDelete(ctx context.Context, connections []*Beanstalk, want int) (Sent, error) {
	began := time.Now()
	var turn sync.Mutex
	left := connections
	return together(ctx, len(connections), want, began, func(_ context.Context, next func() int) error {
		turn.Lock()
		b := left[0]
		left = left[1:]
		turn.Unlock()
		for next() < want {
			head, err := b.ask([]byte("reserve-with-timeout 10\r\n"), "RESERVED")
			if err != nil {
				return err
			}
			var id, size int
			if _, err := fmt.Sscan(head, &id, &size); err != nil {
				return fmt.Errorf("beanstalkd reserves %q: %w", head, err)
			}
			if _, err := b.in.Discard(size + 2); err != nil {
				return fmt.Errorf("beanstalkd: %w", err)
			}
			if _, err := b.ask(fmt.Appendf(nil, "delete %d\r\n", id), "DELETED"); err != nil {
				return err
			}
		}
		return nil
	})
}
