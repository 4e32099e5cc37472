package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry"
)

// LibrarySync pushes messages 0 to want-1 through the direct door as the Go library does, from producers that each wait
// for one push at a time. It stops early at the limit.
func (c *Client) LibrarySync(ctx context.Context, producers, want int, limit time.Duration,
	message Message) (Sent, error) {
	client, err := tarry.NewClient(c.conn, tarry.WithRoute(tarry.ByRequest))
	if err != nil {
		return Sent{}, err
	}
	return oneByOne(ctx, producers, want, limit, func(ctx context.Context, n int) error {
		_, err := client.Push(ctx, message(n))
		return err
	})
}

// DoorSync sends requests 0 to want-1 from producers that each wait for one answer at a time. It stops early at the
// limit. Any refusal is an error.
func (c *Client) DoorSync(ctx context.Context, producers, want int, limit time.Duration,
	message Message) (Sent, error) {
	return oneByOne(ctx, producers, want, limit, func(ctx context.Context, n int) error {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		answer, err := c.conn.RequestMsgWithContext(ctx, message(n))
		if err != nil {
			return err
		}
		return refusal(answer)
	})
}

// DoorAsync sends requests 0 to want-1 from one producer with as many in flight, as PublishMsgAsync of nats.go does:
// one subscription takes all answers.
func (c *Client) DoorAsync(ctx context.Context, inFlight, want int, limit time.Duration,
	message Message) (Sent, error) {
	var (
		inbox  = nats.NewInbox()
		slots  = make(chan struct{}, inFlight)
		mu     sync.Mutex
		failed error
	)
	sub, err := c.conn.Subscribe(inbox, func(m *nats.Msg) {
		if err := refusal(m); err != nil {
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		}
		<-slots
	})
	if err != nil {
		return Sent{}, fmt.Errorf("listen for answers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	late := time.NewTimer(limit + patience)
	defer late.Stop()
	take := func() error {
		select {
		case slots <- struct{}{}:
			return nil
		case <-late.C:
			return errors.New("the answers do not come")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	sent := Sent{Began: time.Now()}
	for ; sent.Count < want && time.Since(sent.Began) < limit; sent.Count++ {
		if err := take(); err != nil {
			return sent, err
		}
		m := message(sent.Count)
		m.Reply = inbox
		if err := c.conn.PublishMsg(m); err != nil {
			return sent, fmt.Errorf("request %d: %w", sent.Count, err)
		}
	}
	for range inFlight { // all are answered
		if err := take(); err != nil {
			return sent, err
		}
	}
	sent.Elapsed = time.Since(sent.Began)
	mu.Lock()
	defer mu.Unlock()
	return sent, failed
}

// refusal is the error that an answer says.
func refusal(answer *nats.Msg) error {
	if word := answer.Header.Get("Nats-Service-Error"); word != "" {
		return fmt.Errorf("%s: %s", word, answer.Data)
	}
	if status := answer.Header.Get("Status"); status != "" {
		return fmt.Errorf("nats says %s", status)
	}
	return nil
}

// Answer answers requests until the connection is closed, all that have come together, once write has them.
func (c *Client) Answer(subject string, most int, answer []byte,
	write func(ctx context.Context, all []*nats.Msg) error) error {
	came := make(chan *nats.Msg, 8*most)
	sub, err := c.conn.ChanSubscribe(subject, came)
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	sub.SetClosedHandler(func(string) { close(came) })
	go func() {
		for m := range came {
			all := []*nats.Msg{m}
			for len(all) < most && len(came) > 0 {
				if m, open := <-came; open {
					all = append(all, m)
				}
			}
			if write(context.Background(), all) != nil {
				return // the requests get no answer
			}
			for _, m := range all {
				_ = m.Respond(answer)
			}
		}
	}()
	return c.conn.Flush()
}
