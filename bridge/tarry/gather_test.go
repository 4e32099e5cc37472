package tarry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// gatherPushes pushes from many callers at once, and listens to what goes to the instance.
func gatherPushes(t *testing.T, d *dev) {
	c := d.client(t, append(patient(), WithRoute(ByRequest))...)
	var mu sync.Mutex
	var carried []int
	spy := connect(t, d.nats)
	if _, err := spy.Subscribe("tarry.shop.push.gathered", func(m *nats.Msg) {
		n, _ := strconv.Atoi(m.Header.Get("Tarry-Batch"))
		mu.Lock()
		defer mu.Unlock()
		carried = append(carried, n)
	}); err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	const callers, each = 64, 10
	uids := map[string]bool{}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range each {
				m := Tag(message("gathered", fmt.Sprint(caller)), In(time.Hour))
				if n == 5 {
					Tag(m, As("the same")) // one of them is stored, the others are refused
				}
				s, err := c.Tarry().Push(t.Context(), m)
				mu.Lock()
				if err == nil {
					uids[s.UID] = true
				} else if n != 5 || !errors.Is(err, ErrDuplicateID) {
					t.Errorf("%d of %d: %v", n, caller, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if want := callers*(each-1) + 1; len(uids) != want {
		t.Errorf("%d messages are stored, want %d", len(uids), want)
	}
	sum := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, many := range carried {
			n += max(many, 1)
		}
		return n
	}
	eventually(t, func() error {
		if n := sum(); n != callers*each {
			return fmt.Errorf("%d pushes went to the instance", n)
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if len(carried) > callers*each/4 || carried[0] != 0 {
		t.Errorf("they took %d requests: %v", len(carried), carried)
	}
}

// What a batch is refused for, its pushes are not: each then goes by itself. An instance of before knows no batch,
// which is learned once; the server of another may take only smaller ones.
func TestGather_SendsByItselfWhatABatchIsRefusedFor(t *testing.T) {
	t.Parallel()
	for word, batches := range map[string]string{"unknown_header": "1", "too_large": "more"} {
		nc := off(t)
		in := newInstance(t, nc, func(n int, data string) string {
			switch {
			case strings.Contains(data, "Tarry-Batch"):
				return fmt.Sprintf(`{"error":%q,"detail":"it says"}`, word)
			case n == 0:
				return "" // so that others gather
			}
			return fmt.Sprintf(`{"id":"%d","uid":"0uid%d","due":"2030-01-31T08:00:00Z","state":"waiting"}`, n, n)
		})
		client, err := NewClient(nc, WithAckWait(500*time.Millisecond), WithTimeout(time.Minute), WithRoute(ByRequest))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if s, err := client.Push(t.Context(), Tag(message("a", "x"), In(time.Hour))); err != nil || s.UID == "" {
						t.Errorf("%s: got %+v, %v", word, s, err)
					}
				})
			}
			all.Wait()
		}
		many := 0
		for _, asked := range in.all() {
			if strings.Contains(asked, "Tarry-Batch") {
				many++
			}
		}
		if n := len(in.all()) - many; n < 40 || many == 0 || batches == "1" && many > 3 {
			t.Errorf("%s: it was asked %d times for one push, %d for many", word, n, many)
		}
		idle(t, client)
	}
}

// An answer that takes long holds up nobody else.
func TestGather_DoesNotWaitForAnAnswerThatTakesLong(t *testing.T) {
	t.Parallel()
	nc := off(t)
	in := newInstance(t, nc, func(n int, _ string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(`{"id":"%d","uid":"0uid%d","due":"2030-01-31T08:00:00Z","state":"waiting"}`, n, n)
	})
	client, err := NewClient(nc, WithAckWait(time.Minute), WithTimeout(time.Minute), WithRoute(ByRequest))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mute sync.WaitGroup
	mute.Go(func() { _, _ = client.Push(ctx, Tag(message("a", "x"), In(time.Hour))) })
	eventually(t, func() error {
		if len(in.all()) == 0 {
			return errors.New("it is not on its way")
		}
		return nil
	})
	for range 3 {
		limited, stop := context.WithTimeout(t.Context(), 20*time.Second)
		if s, err := client.Push(limited, Tag(message("a", "y"), In(time.Hour))); err != nil || s.UID == "" {
			t.Errorf("got %+v, %v", s, err)
		}
		stop()
	}
	cancel()
	mute.Wait()
	idle(t, client)
}

// idle waits until no push is on its way.
func idle(t *testing.T, c *Client) {
	t.Helper()
	eventually(t, func() error {
		c.pushes.mu.Lock()
		defer c.pushes.mu.Unlock()
		if n := len(c.pushes.waiting); n != 0 {
			return fmt.Errorf("%d subjects are still busy", n)
		}
		return nil
	})
}

// A caller whose time is over waits no more, and is left out of what has not gone yet.
func TestGather_LeavesOutWhomNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	nc := off(t)
	first := make(chan struct{})
	in := newInstance(t, nc, func(n int, _ string) string {
		<-first
		return fmt.Sprintf(`{"id":"%d","uid":"0uid%d","due":"2030-01-31T08:00:00Z","state":"waiting"}`, n, n)
	})
	client, err := NewClient(nc, WithAckWait(time.Minute), WithTimeout(30*time.Second), WithRoute(ByRequest))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := client.Push(t.Context(), Tag(message("a", "x"), In(time.Hour))); err != nil {
			t.Error(err)
		}
	})
	eventually(t, func() error {
		if len(in.all()) == 0 {
			return errors.New("it is not on its way")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), holdMost/4)
	defer cancel()
	if _, err := client.Push(ctx, Tag(message("a", "y"), In(time.Hour))); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	close(first)
	all.Wait()
	idle(t, client)
	if asked := in.all(); len(asked) != 1 {
		t.Errorf("it was asked %q", asked)
	}
}

// ackRequests counts the requests that acknowledge.
type ackRequests struct{ n atomic.Int64 }

func (c *ackRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/leases/ack") {
		c.n.Add(1)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// gatherAcks has many messages handled at a time: what ends at the same time is acknowledged together.
func gatherAcks(t *testing.T, d *dev) {
	c := d.client(t, patient()...)
	const n = 300
	msgs := make([]*nats.Msg, n)
	for i := range msgs {
		msgs[i] = Tag(message("acked", fmt.Sprint(i), "Tarry-Deliver", "pull"), In(0), As(fmt.Sprint("acked-", i)))
	}
	outcomes, err := c.Tarry().PushBatch(t.Context(), msgs)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	asked, ended := &ackRequests{}, atomic.Int64{}
	err = Consume(ctx, FromPull(&Puller{URL: d.http, Client: &http.Client{Transport: asked}}, "acked"),
		func(context.Context, Delivery) error { return nil }, Concurrency(50),
		WithHooks(Hooks{End: func(m Delivery, _ time.Duration, failed, unsettled error) {
			if failed != nil || unsettled != nil {
				t.Errorf("%s: %v, %v", m.ID, failed, unsettled)
			}
			if ended.Add(1) == n {
				stop()
			}
		}}))
	if requests := asked.n.Load(); err != nil || ended.Load() != n || requests > n/2 {
		t.Errorf("%v: %d messages were acknowledged by %d requests", err, ended.Load(), requests)
	}
	for _, id := range []string{"acked-0", "acked-299"} {
		if got, err := c.Tarry().Get(t.Context(), Ref{ID: id}); err != nil || got.State != StateDelivered {
			t.Errorf("%s is %s, %v", id, got.State, err)
		}
	}
}

// Once the connection is closed nobody waits, and nothing goes on.
func TestGather_LeavesNothingBehindAtClose(t *testing.T) {
	t.Parallel()
	nc := off(t)
	client, err := NewClient(nc, WithAckWait(time.Minute), WithTimeout(30*time.Second), WithRoute(ByRequest))
	if err != nil {
		t.Fatal(err)
	}
	in := newInstance(t, nc, func(int, string) string { return "" }) // it never answers
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := client.Push(t.Context(), Tag(message("a", "x"), In(time.Hour))); err == nil {
				t.Error("a push without an answer is stored")
			}
		})
	}
	eventually(t, func() error {
		if n := len(in.all()); n < 2 {
			return fmt.Errorf("%d requests are on their way", n)
		}
		return nil
	})
	nc.Close()
	all.Wait()
	idle(t, client)
}

// A message is the same alone and with others, to the last blank of a header: else its repeat would be another one.
func TestGather_ChangesNoMessage(t *testing.T) {
	t.Parallel()
	want := nats.Header{"X-Blanks": {"a  ", ""}, "x-case": {"b: c", "ä"}, HeaderDelay: {"1h"}}
	body := appendPart(nil, &nats.Msg{Header: want, Data: []byte(" x ")})
	parts, err := wire.DecodeBatchParts("1", body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := nats.DecodeHeadersMsg(parts[0].Header)
	if err != nil || !reflect.DeepEqual(got, want) || string(parts[0].Body) != " x " {
		t.Errorf("got %q %q, %v", got, parts[0].Body, err)
	}
	if size := partSize(&nats.Msg{Header: want, Data: []byte(" x ")}); size != len(body) {
		t.Errorf("%d bytes, counted as %d", len(body), size)
	}
}
