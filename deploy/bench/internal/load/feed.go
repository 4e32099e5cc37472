package load

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Feed pushes over HTTP, one message a request, from producers that each wait for their answer. Unlike a push it
// continues after a refusal, as the producers of a running system do.
type Feed struct {
	URL       string // of the API
	Producers int
	Rate      float64                       // messages a second; 0: as fast as the answers arrive
	First     int                           // number of the first message
	Item      func(to []byte, n int) []byte // appends message n as JSON
}

// Feeding is a feed that runs until Stop.
type Feeding struct {
	feed      Feed
	transport *http.Transport
	cancel    context.CancelFunc
	group     sync.WaitGroup
	next      atomic.Int64

	mu     sync.Mutex
	pushed []attempt
	refuse string // what the first refusal said
}

// attempt is one push and how it ended.
type attempt struct {
	began, answered time.Time
	outcome         outcome
}

type outcome int

const (
	accepted outcome = iota
	refused          // for certain
	unknown          // it may have been accepted
)

// Start begins to push.
func (f Feed) Start(ctx context.Context) *Feeding {
	ctx, cancel := context.WithCancel(ctx)
	r := &Feeding{feed: f, cancel: cancel,
		transport: &http.Transport{MaxIdleConnsPerHost: f.Producers, MaxConnsPerHost: f.Producers}}
	r.next.Store(int64(f.First))
	client := &http.Client{Transport: r.transport, Timeout: 3 * patience}
	began := time.Now()
	for i := range f.Producers {
		r.group.Go(func() { r.produce(ctx, client, began, i) })
	}
	return r
}

// produce is one producer. Each has its share of the rate, and moments of its own between those of the others. One that
// comes too late for its next moment goes on from there: what a stand-still kept from being pushed is not made up for.
func (r *Feeding) produce(ctx context.Context, client *http.Client, began time.Time, producer int) {
	var (
		x      exchange
		period time.Duration
	)
	if r.feed.Rate > 0 {
		period = time.Duration(float64(r.feed.Producers) / r.feed.Rate * float64(time.Second))
	}
	moment := began.Add(period * time.Duration(producer) / time.Duration(r.feed.Producers))
	for {
		if SleepUntil(ctx, moment) != nil || ctx.Err() != nil {
			return
		}
		x.request = r.feed.Item(x.request[:0], int(r.next.Add(1))-1)
		a := attempt{began: time.Now()}
		// Not ctx: a push under way is waited for, so that its outcome is known.
		a.outcome = r.push(context.WithoutCancel(ctx), client, &x)
		a.answered = time.Now()
		r.mu.Lock()
		r.pushed = append(r.pushed, a)
		r.mu.Unlock()
		if moment = moment.Add(period); moment.Before(a.answered) {
			moment = a.answered
		}
		if period == 0 && a.outcome != accepted {
			moment = a.answered.Add(refusedPause)
		}
	}
}

// refusedPause keeps a feed without a rate from doing nothing but being refused.
const refusedPause = 5 * time.Millisecond

func (r *Feeding) push(ctx context.Context, client *http.Client, x *exchange) outcome {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.feed.URL+"/v1/messages",
		bytes.NewReader(x.request))
	if err != nil {
		return r.not(refused, err.Error())
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return r.not(unknown, err.Error())
	}
	defer response.Body.Close()
	x.answer.Reset()
	if _, err := x.answer.ReadFrom(response.Body); err != nil {
		return r.not(unknown, err.Error())
	}
	switch {
	case response.StatusCode == http.StatusCreated:
		return accepted
	case response.StatusCode == http.StatusGatewayTimeout || response.StatusCode == http.StatusInternalServerError:
		return r.not(unknown, fmt.Sprintf("%s: %s", response.Status, short(x.answer.Bytes())))
	}
	return r.not(refused, fmt.Sprintf("%s: %s", response.Status, short(x.answer.Bytes())))
}

func (r *Feeding) not(o outcome, reason string) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse == "" {
		r.refuse = reason
	}
	return o
}

// Stop ends the feed and waits for its last answers. It may be called twice.
func (r *Feeding) Stop() {
	r.cancel()
	r.group.Wait()
	r.transport.CloseIdleConnections()
}

// Next is the number of the next message.
func (r *Feeding) Next() int { return int(r.next.Load()) }

// Refusal is the answer to the first push that was not accepted, or nothing.
func (r *Feeding) Refusal() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse
}

// Accepted is how many pushes were accepted and answered before a moment.
func (r *Feeding) Accepted(before time.Time) int {
	return r.count(func(a attempt) bool { return a.outcome == accepted && a.answered.Before(before) })
}

// Refused is how many pushes were refused for certain.
func (r *Feeding) Refused() int { return r.count(func(a attempt) bool { return a.outcome == refused }) }

// Unknown is how many pushes may or may not have been accepted.
func (r *Feeding) Unknown() int { return r.count(func(a attempt) bool { return a.outcome == unknown }) }

// RateOver is accepted messages a second, from one moment to another.
func (r *Feeding) RateOver(from, to time.Time) float64 {
	return float64(r.count(within(from, to))) / to.Sub(from).Seconds()
}

func within(from, to time.Time) func(attempt) bool {
	return func(a attempt) bool {
		return a.outcome == accepted && !a.answered.Before(from) && a.answered.Before(to)
	}
}

func (r *Feeding) count(which func(attempt) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.pushed {
		if which(a) {
			n++
		}
	}
	return n
}

// P99 is the time that 99 of 100 accepted pushes waited for their answer at most, from one moment to another; 0 without
// any.
func (r *Feeding) P99(from, to time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var waits []time.Duration
	in := within(from, to)
	for _, a := range r.pushed {
		if in(a) {
			waits = append(waits, a.answered.Sub(a.began))
		}
	}
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	return waits[(len(waits)*99+99)/100-1]
}

// Resumed is when the first push that began after a moment was accepted, and whether there was one.
func (r *Feeding) Resumed(after time.Time) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.pushed {
		if a.outcome == accepted && a.began.After(after) && (!ok || a.answered.Before(at)) {
			at, ok = a.answered, true
		}
	}
	return at, ok
}
