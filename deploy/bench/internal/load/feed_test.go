package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// door starts a server that answers pushes with a status that can be changed.
func door(t *testing.T) (url string, status *atomic.Int64, bodies *atomic.Int64) {
	status, bodies = new(atomic.Int64), new(atomic.Int64)
	status.Store(http.StatusCreated)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/messages" && strings.HasPrefix(string(text), "item ") {
			bodies.Add(1)
		}
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, "the answer")
	}))
	t.Cleanup(server.Close)
	return server.URL, status, bodies
}

func item(to []byte, n int) []byte { return fmt.Appendf(to, "item %d", n) }

// until waits for what another goroutine is about to bring.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

func TestAFeedGoesOnWhenItIsRefusedAndCountsHowItsPushesEnded(t *testing.T) {
	t.Parallel()
	url, status, bodies := door(t)
	f := Feed{URL: url, Producers: 4, First: 100, Item: item}.Start(t.Context())
	defer f.Stop()
	until(t, "pushes are accepted", func() bool { return f.Accepted(time.Now()) > 10 })
	status.Store(http.StatusServiceUnavailable)
	until(t, "pushes are refused", func() bool { return f.Refused() > 3 })
	status.Store(http.StatusGatewayTimeout)
	until(t, "outcomes are unknown", func() bool { return f.Unknown() > 3 })
	until(t, "no push from before is under way", func() bool {
		n := f.Unknown()
		time.Sleep(50 * time.Millisecond)
		return f.Unknown() > n
	})
	lost := time.Now()
	if at, ok := f.Resumed(lost); ok {
		t.Fatalf("it says that it was accepted again at %s", at)
	}
	status.Store(http.StatusCreated)
	until(t, "it resumes", func() bool { _, ok := f.Resumed(lost); return ok })
	f.Stop()
	if sum := f.Accepted(time.Now()) + f.Refused() + f.Unknown(); sum != int(bodies.Load()) || f.Next() != 100+sum {
		t.Errorf("%d pushes ended somehow, %d came, and the next is %d", sum, bodies.Load(), f.Next())
	}
	if got := f.Refusal(); !strings.Contains(got, "503") || !strings.Contains(got, "the answer") {
		t.Errorf("the first refusal is %q", got)
	}
	if p99 := f.P99(lost, time.Now()); p99 <= 0 {
		t.Errorf("p99 is %s", p99)
	}
}

func TestAFeedKeepsItsRateAndMakesUpForNothing(t *testing.T) {
	t.Parallel()
	url, _, _ := door(t)
	const rate = 100
	began := time.Now()
	f := Feed{URL: url, Producers: 5, Rate: rate, Item: item}.Start(t.Context())
	until(t, "it has pushed for a while", func() bool { return f.Accepted(time.Now()) >= 30 })
	f.Stop()
	if most := rate*time.Since(began).Seconds() + 5; float64(f.Accepted(time.Now())) > most {
		t.Errorf("%d pushes in %s", f.Accepted(time.Now()), time.Since(began))
	}
	if got := f.RateOver(began, time.Now()); got <= 0 || got > 2*rate {
		t.Errorf("its rate is %v", got)
	}
}

func TestAFeedKnowsTheSlowestOfAHundred(t *testing.T) {
	t.Parallel()
	from := time.Now()
	f := &Feeding{}
	for i := range 200 {
		f.pushed = append(f.pushed, attempt{began: from, answered: from.Add(time.Duration(i+1) * time.Millisecond)})
	}
	f.pushed = append(f.pushed, attempt{began: from, answered: from.Add(time.Minute), outcome: refused})
	if got, want := f.P99(from, from.Add(time.Hour)), 198*time.Millisecond; got != want {
		t.Errorf("p99 is %s, want %s", got, want)
	}
	if got := f.P99(from.Add(time.Hour), from.Add(2*time.Hour)); got != 0 {
		t.Errorf("p99 of nothing is %s", got)
	}
	if got := f.RateOver(from, from.Add(100*time.Millisecond)); got != 990 {
		t.Errorf("the rate of 99 in 100 ms is %v", got)
	}
}
