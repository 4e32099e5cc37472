package webhook

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const patience = 10 * time.Second

func TestJudge_ReadsTheStatus(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		status int
		header string
		verb   scheduler.Verb
		after  time.Duration
	}{
		{status: 200, verb: scheduler.Ack},
		{status: 204, header: "60", verb: scheduler.Ack},
		{status: 299, verb: scheduler.Ack},
		{status: 301, verb: scheduler.Nack},
		{status: 400, verb: scheduler.Nack},
		{status: 410, header: "60", verb: scheduler.Bury},
		{status: 429, header: "60", verb: scheduler.Nack, after: time.Minute},
		{status: 503, header: now.Add(time.Hour).UTC().Format(http.TimeFormat), verb: scheduler.Nack, after: time.Hour},
		{status: 503, header: now.Add(-time.Hour).UTC().Format(http.TimeFormat), verb: scheduler.Nack},
		{status: 503, header: "1000000", verb: scheduler.Nack, after: 24 * time.Hour},
		{status: 503, header: "-5", verb: scheduler.Nack},
		{status: 503, header: "9999999999", verb: scheduler.Nack, after: 24 * time.Hour},
		{status: 503, header: "99999999999999999999", verb: scheduler.Nack, after: 24 * time.Hour},
		{status: 503, header: "soon", verb: scheduler.Nack},
	} {
		v := judge(&http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}}}, now)
		if v.verb != c.verb || (v.after-c.after).Abs() > time.Second || !strings.Contains(v.reason, fmt.Sprint(c.status)) {
			t.Errorf("%d, Retry-After %q: %+v", c.status, c.header, v)
		}
	}
}

func TestGuard_RefusesWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	own, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	_, port, _ := net.SplitHostPort(own.Addr().String())
	mine := "192.0.2.1"
	if all, err := net.InterfaceAddrs(); err == nil {
		for _, a := range all {
			if n := a.(*net.IPNet); n.IP.To4() != nil && !n.IP.IsLoopback() {
				mine = n.IP.String()
			}
		}
	}
	for allowed, addresses := range map[string]map[string]bool{
		"": {"93.184.216.34:443": true, "[2606:2800:220:1::1]:80": true, "[::ffff:93.184.216.34]:80": true,
			"127.0.0.1:80": false, "127.9.9.9:80": false, "[::1]:80": false, "0.0.0.0:80": false, "[::]:80": false,
			"10.1.2.3:80": false, "172.16.0.1:80": false, "192.168.1.1:80": false, "169.254.169.254:80": false,
			"100.64.0.1:80": false, "224.0.0.1:80": false, "255.255.255.255:80": false, "198.18.0.1:80": false,
			"[::ffff:10.0.0.1]:80": false, "[64:ff9b::7f00:1]:80": false, "[64:ff9b:1::1]:80": false,
			"[fe80::1]:80": false, "[fe80::1%lo]:80": false, "[fc00::1]:80": false, "[ff02::1]:80": false,
			"[2002:7f00:1::]:80": false, "[2001::1]:80": false, "nonsense": false},
		"10.0.0.0/8,::1/128,127.0.0.0/8": {"10.1.2.3:80": true, "[::1]:80": true, "[::ffff:10.0.0.1]:80": true,
			"192.168.1.1:80": false, "127.0.0.1:80": true,
			"127.0.0.1:" + port: false, "[::1]:" + port: false, "0.0.0.0:" + port: false, "[::]:" + port: false},
		"0.0.0.0/0": {mine + ":" + port: false, mine + ":1": true, "8.8.8.8:" + port: true},
	} {
		var allow []netip.Prefix
		for text := range strings.SplitSeq(allowed, ",") {
			if text != "" {
				allow = append(allow, netip.MustParsePrefix(text))
			}
		}
		g := newGuard(allow, []net.Addr{own.Addr()})
		for address, want := range addresses {
			if err := g.control("tcp", address, nil); (err == nil) != want {
				t.Errorf("allow %q: %s: %v, want %t", allowed, address, err, want)
			}
		}
	}
}

// source is a scheduler with a few messages.
type source struct {
	t       *testing.T
	mu      sync.Mutex
	ready   []scheduler.PulledMessage
	settled []scheduler.Settlement
	answers []func(orders []scheduler.Settlement) ([]scheduler.Settled, []error) // of the next calls of Settle
	polls   []scheduler.Poll
	since   time.Time // of failing
	noted   []bool
	paused  []string
	slow    chan struct{} // Upcoming waits for it
}

func (s *source) Upcoming(_ context.Context, _ time.Duration, tell func(string)) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow != nil {
		<-slow
	}
	tell("a.b")
	return nil
}

func (s *source) Await(ctx context.Context, _ string, _ time.Duration) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := len(s.ready)
		s.mu.Unlock()
		if n > 0 {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return false
}

func (s *source) Pull(_ context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = append(s.polls, p)
	n := min(p.Max, len(s.ready))
	found := s.ready[:n]
	s.ready = s.ready[n:]
	return found, nil
}

func (s *source) Settle(_ context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) > 0 {
		answer := s.answers[0]
		if s.answers = s.answers[1:]; answer != nil {
			return answer(orders)
		}
	}
	s.settled = append(s.settled, orders...)
	results := make([]scheduler.Settled, len(orders))
	for i, o := range orders {
		results[i] = scheduler.Settled{Code: scheduler.SettleDone, Until: message.CeilMilli(time.Now().Add(o.Lease))}
	}
	return results, make([]error, len(orders))
}

func (s *source) Failing(_ context.Context, _ string, failed bool, _ time.Duration) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noted = append(s.noted, failed); !failed {
		s.since = time.Time{}
	} else if s.since.IsZero() {
		s.since = time.Now()
	}
	return s.since, nil
}

func (s *source) Pause(_ context.Context, pattern, by string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = append(s.paused, pattern+" by "+by)
	return true, nil
}

// give makes messages ready; a body with "again" was tried before.
func (s *source) give(lease time.Duration, bodies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, body := range bodies {
		m := &message.Message{UID: message.UID(fmt.Sprintf("t-%016d", i)), Topic: "a.b", Body: []byte(body), Attempt: 1}
		if strings.Contains(body, "again") {
			m.Mark.Refusals = 1
		}
		s.ready = append(s.ready, scheduler.PulledMessage{Nonce: 7,
			LeasedMessage: scheduler.LeasedMessage{Message: m, Until: message.CeilMilli(time.Now().Add(lease))}})
	}
}

// verbs waits for n settlements, and returns them in brief.
func (s *source) verbs(n int) (all []string) {
	s.t.Helper()
	lab.Eventually(s.t, patience, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.settled) < n {
			return fmt.Errorf("%d of %d settlements", len(s.settled), n)
		}
		all = nil
		for _, o := range s.settled {
			all = append(all, fmt.Sprint(o.Verb, " ", strings.TrimLeft(string(o.UID), "t-0"), " ",
				*cmp.Or(o.Delay, new(time.Duration))))
		}
		return nil
	})
	slices.Sort(all)
	return all
}

// trial is a service with a target that answers by answer, 204 without.
type trial struct {
	*source
	*Service
	mu     sync.Mutex
	bodies []string
}

func (r *trial) posted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

func start(t *testing.T, target Target, answer func(body string, w http.ResponseWriter)) (*trial, func()) {
	t.Helper()
	r := &trial{source: &source{t: t}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.bodies = append(r.bodies, string(body))
		r.mu.Unlock()
		if answer != nil {
			answer(string(body), w)
		}
	}))
	t.Cleanup(server.Close)
	topics := &scheduler.Topics{}
	topics.Set([]*scheduler.Topic{{Pattern: "a.*", Webhook: true, Deliver: scheduler.DeliverPull,
		Retry: message.Retry{Delays: []time.Duration{time.Minute, time.Minute}}}}, message.Retry{})
	r.Service = New(Config{Source: r.source, Topics: topics, Clock: scheduler.NewClock(scheduler.System()),
		Instance: "me", Drain: 100 * time.Millisecond,
		Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	target.Pattern = "a.*"
	if target.URL == "" {
		target.URL = server.URL
	}
	if err := r.Use([]Target{target}, loopback()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return r, stop
}

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestRun_SettlesByTheAnswer(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{}, func(body string, w http.ResponseWriter) {
		switch body {
		case "gone":
			w.WriteHeader(http.StatusGone)
		case "bad":
			w.WriteHeader(http.StatusInternalServerError)
		case "early": // before the schedule
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "late":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "cut":
			panic(http.ErrAbortHandler)
		}
	})
	r.give(time.Minute, "", "fine", "gone", "bad", "early", "late", "cut")
	ack, nack, bury := scheduler.Ack, scheduler.Nack, scheduler.Bury
	expect := []string{fmt.Sprint(ack, "  0s"), fmt.Sprint(ack, " 1 0s"), fmt.Sprint(bury, " 2 0s"),
		fmt.Sprint(nack, " 3 0s"), fmt.Sprint(nack, " 4 0s"), fmt.Sprint(nack, " 5 2m0s"), fmt.Sprint(nack, " 6 0s")}
	slices.Sort(expect)
	want(t, "settled", r.verbs(7), expect)
}

func TestRun_PullsNoMoreThanItCanPost(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	r, _ := start(t, Target{Concurrency: 2}, func(string, http.ResponseWriter) { <-hold })
	r.give(time.Minute, "a", "b", "c")
	lab.Eventually(t, patience, func() error {
		if n := len(r.posted()); n < 2 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	r.source.mu.Lock()
	want(t, "left in the store", len(r.ready), 1)
	want(t, "wanted", []any{r.polls[0].Max, r.polls[0].Webhook, r.polls[0].Consumer, r.polls[0].Lease},
		[]any{2, true, "webhook@me", 30 * time.Second})
	r.source.mu.Unlock()
	close(hold)
	r.verbs(3)
}

func TestRun_PostsTheMessagesOfAFailedBatchAlone(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{Batch: 10, Concurrency: 1}, func(body string, w http.ResponseWriter) {
		if strings.Contains(body, "poison") {
			w.WriteHeader(http.StatusGone)
		}
	})
	r.give(time.Minute, "x", "poison", "again")
	r.verbs(3)
	var sizes []int
	for _, body := range r.posted() {
		var all []struct{ Body string }
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		sizes = append(sizes, len(all))
	}
	want(t, "messages of each request", sizes, []int{2, 1, 1, 1})
	want(t, "settled", r.verbs(3), []string{fmt.Sprint(scheduler.Ack, "  0s"), fmt.Sprint(scheduler.Ack, " 2 0s"),
		fmt.Sprint(scheduler.Bury, " 1 0s")})
}

// A target that is asked to take less, or to be left alone, is not asked at once for each message of the batch.
func TestRun_LeavesATargetAloneThatFailsAsAWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status   int
		wait     string
		requests int
		settled  string
	}{
		"asked to wait":          {429, "60", 1, fmt.Sprint(scheduler.Nack, " %s 0s")},
		"asked to wait for long": {500, "3600", 1, fmt.Sprint(scheduler.Nack, " %s 1h0m0s")},
		"overloaded":             {503, "", 1, fmt.Sprint(scheduler.Nack, " %s 0s")},
		"no answer behind it":    {504, "", 1, fmt.Sprint(scheduler.Nack, " %s 0s")},
		"silent":                 {0, "", 1, fmt.Sprint(scheduler.Nack, " %s 0s")},
		"refused":                {400, "", 4, fmt.Sprint(scheduler.Nack, " %s 0s")},
		"failed":                 {500, "", 4, fmt.Sprint(scheduler.Nack, " %s 0s")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, Target{Batch: 20, Concurrency: 1, Timeout: 200 * time.Millisecond},
				func(_ string, w http.ResponseWriter) {
					if c.status == 0 {
						time.Sleep(time.Second)
						return
					}
					w.Header().Set("Retry-After", c.wait)
					w.WriteHeader(c.status)
				})
			r.give(time.Minute, "x", "y", "z")
			want(t, "settled", r.verbs(3), []string{strings.ReplaceAll(c.settled, "%s", ""),
				strings.ReplaceAll(c.settled, "%s", "1"), strings.ReplaceAll(c.settled, "%s", "2")})
			want(t, "requests", len(r.posted()), c.requests)
		})
	}
}

// An instance that was suspended after its pull does not post what another may have posted meanwhile.
func TestRun_PostsNoBatchWhoseLeasesAreOver(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{Batch: 20, Concurrency: 1}, nil)
	r.source.mu.Lock()
	r.answers = append(r.answers, func(orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
		results := make([]scheduler.Settled, len(orders))
		for i := range results[2:] {
			results[2+i] = scheduler.Settled{Code: scheduler.SettleDone,
				Until: message.CeilMilli(time.Now().Add(orders[i].Lease))}
		}
		return results, make([]error, len(orders))
	})
	r.source.mu.Unlock()
	r.give(time.Second, "lost", "lost too", "mine", "mine too")
	r.verbs(2)
	for _, body := range r.posted() {
		if strings.Contains(body, "lost") || !strings.Contains(body, "mine too") {
			t.Errorf("posted %s", body)
		}
	}
}

// What was posted is settled as often as it takes, since it would be posted again.
func TestRun_SettlesAgainUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{}, nil)
	away := func(orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
		return make([]scheduler.Settled, len(orders)), []error{scheduler.ErrUnavailable}
	}
	r.source.mu.Lock()
	r.answers = append(r.answers, away, away)
	r.source.mu.Unlock()
	r.give(time.Minute, "x")
	r.verbs(1)
	want(t, "posted", r.posted(), []string{"x"})
}

// No header of a producer passes for one of tarry's, of a proxy's or of the connection's.
func TestRun_PostsNoWordOfAProducerAsOfSomebodyElse(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got <- q.Header }))
	t.Cleanup(server.Close)
	r, _ := start(t, Target{URL: server.URL, Headers: []string{"x-Real-IP"}}, nil)
	var headers []message.Header
	for _, name := range []string{"Tarry_Subject", "tarry_key", "TARRY-ID", "Tarry-Else", "Webhook_Id", "Authorization",
		"cookie", "X_Forwarded_For", "X-Forwarded-Host", "Forwarded", "X-Http-Method-Override", "User-Agent", "Proxy",
		"Connection", "Remote_User", "X-Auth-Request-User", "SSL_CLIENT_VERIFY", "X-Api-Key",
		"X-Own", "X-Real-Ip", "Tarry-Reason", "Content-Type"} {
		headers = append(headers, message.Header{Name: name, Value: "forged"})
	}
	r.source.mu.Lock()
	r.ready = append(r.ready, scheduler.PulledMessage{Nonce: 7, LeasedMessage: scheduler.LeasedMessage{
		Message: &message.Message{UID: "t-0000000000000001", Topic: "a.b", Attempt: 1, Headers: headers},
		Until:   message.CeilMilli(time.Now().Add(time.Hour))}})
	r.source.mu.Unlock()
	var forged []string
	for name, values := range <-got {
		if slices.Contains(values, "forged") {
			forged = append(forged, name)
		}
	}
	slices.Sort(forged)
	want(t, "what the producer said", forged, []string{"Content-Type", "Tarry-Reason", "X-Own", "X-Real-Ip"})
	if err := r.Use([]Target{{Pattern: "a.*", URL: server.URL, Headers: []string{"tarry_Id"}}}, nil); err == nil {
		t.Error("a target may let producers speak for tarry")
	}
}

// What is settled and not in the journal yet is settled: it holds no slot, and is not posted again.
func TestRun_DoesNotWaitForTheJournal(t *testing.T) {
	r, _ := start(t, Target{Concurrency: 1}, nil)
	late := func(orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
		r.settled = append(r.settled, orders...)
		return []scheduler.Settled{{Code: scheduler.SettleDone, Unjournaled: true}}, make([]error, 1)
	}
	r.source.mu.Lock()
	r.answers = []func([]scheduler.Settlement) ([]scheduler.Settled, []error){late, late, late}
	r.source.mu.Unlock()
	r.give(time.Hour, "a", "b", "c")
	want(t, "settled", len(r.verbs(3)), 3)
	want(t, "posted", len(r.posted()), 3)
}

// A lease that may end before the answer is extended first; one that is lost belongs to somebody else.
func TestRun_HoldsWhatItPosts(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{Concurrency: 1}, nil)
	r.give(time.Second, "x")
	want(t, "settled", r.verbs(2), []string{fmt.Sprint(scheduler.Ack, "  0s"), fmt.Sprint(scheduler.Extend, "  0s")})

	r.source.mu.Lock()
	r.answers = append(r.answers, func(orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
		return []scheduler.Settled{{Code: scheduler.SettleLost}}, []error{nil}
	}, func([]scheduler.Settlement) ([]scheduler.Settled, []error) {
		return make([]scheduler.Settled, 1), []error{errors.New("away")}
	})
	r.source.mu.Unlock()
	r.give(time.Second, "lost") // extending it says so
	r.give(-time.Second, "over")
	r.give(time.Minute, "last")
	r.verbs(3)
	want(t, "posted", r.posted(), []string{"x", "last"})
}

func TestRun_StopsWithoutLosingAnything(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	defer close(hold)
	r, stop := start(t, Target{Batch: 3, Concurrency: 1}, func(string, http.ResponseWriter) { <-hold })
	r.give(time.Minute, "again 1", "again 2")
	lab.Eventually(t, patience, func() error {
		if len(r.posted()) == 0 {
			return errors.New("nothing posted")
		}
		return nil
	})
	stop() // 1 is not answered within the drain, which is not its fault, and 2 was not begun: neither counts as a try
	want(t, "settled", r.verbs(2), []string{fmt.Sprint(scheduler.Release, "  0s"),
		fmt.Sprint(scheduler.Release, " 1 0s")})
}

// raw answers each connection with the next of the texts, and keeps it open.
func raw(t *testing.T, answers ...string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, answers[i%len(answers)])
		}
	}()
	return "http://" + l.Addr().String()
}

// After 101 the connection is the target's, without an end: neither a slot nor the stop may wait for it.
func TestRun_WaitsForNoAnswerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	url := raw(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
	r, stop := start(t, Target{URL: url, Timeout: 200 * time.Millisecond, Concurrency: 1}, nil)
	r.give(time.Minute, "x", "y")
	want(t, "settled", r.verbs(2), []string{fmt.Sprint(scheduler.Ack, " 1 0s"), fmt.Sprint(scheduler.Nack, "  0s")})
	stop()
}

// What the target says stays out of the history and the log, but for the status.
func TestRun_KeepsNothingThatTheTargetSaid(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{Concurrency: 1, URL: raw(t, "SSH-2.0 secret\r\n\r\n",
		"HTTP/1.1 secret\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://[secret\r\nContent-Length: 0\r\n\r\n")}, nil)
	r.give(time.Minute, "x", "y", "z")
	r.verbs(3)
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	for _, o := range r.settled {
		if o.Verb != scheduler.Nack || strings.Contains(o.Reason, "secret") {
			t.Errorf("%d: %q", o.Verb, o.Reason)
		}
	}
}

// What waited for a slot of the old target goes to the new one.
func TestRun_PostsNothingToATargetThatWasReplaced(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	r, _ := start(t, Target{Concurrency: 1}, func(string, http.ResponseWriter) { <-hold })
	var news atomic.Int32
	next := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { news.Add(1) }))
	t.Cleanup(next.Close)
	r.give(time.Minute, "first", "second")
	lab.Eventually(t, patience, func() error {
		if len(r.posted()) == 0 {
			return errors.New("nothing posted")
		}
		return nil
	})
	if err := r.Use([]Target{{Pattern: "a.*", URL: next.URL}}, loopback()); err != nil {
		t.Fatal(err)
	}
	close(hold)
	r.verbs(2)
	want(t, "posted to the old target", r.posted(), []string{"first"})
	want(t, "posted to the new one", news.Load(), 1)
}

// An instance that may not post to a target leaves its messages to others, and they lose no try, until its settings
// change.
func TestRun_LeavesToOthersWhatItMayNotPost(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{0, 10} {
		r, _ := start(t, Target{Batch: batch}, nil)
		target := (*r.targets.Load())["a.*"].Target
		if err := r.Use([]Target{target}, nil); err != nil {
			t.Fatal(err)
		}
		r.give(time.Minute, "one", "two", "again three")
		release := fmt.Sprint(scheduler.Release)
		want(t, "settled", r.verbs(3), []string{release + "  0s", release + " 1 0s", release + " 2 0s"})
		r.source.mu.Lock()
		polls := len(r.polls)
		r.source.mu.Unlock()
		r.give(time.Minute, "four")
		r.source.mu.Lock()
		want(t, "polls while it may not post", len(r.polls), polls)
		want(t, "it is noted that the target fails", fmt.Sprint(r.noted), "[true]")
		r.source.mu.Unlock()
		if err := r.Use([]Target{target}, loopback()); err != nil {
			t.Fatal(err)
		}
		r.verbs(4)
		want(t, "posted", len(r.posted()), 1)
		if err := r.Use([]Target{target}, nil); err != nil { // the connection of before is not used any more
			t.Fatal(err)
		}
		r.give(time.Minute, "five")
		r.verbs(5)
		want(t, "posted", len(r.posted()), 1)
	}
}

// A store that answers slowly holds up no topic that was heard of.
func TestRun_DoesNotWaitForTheList(t *testing.T) {
	t.Parallel()
	r, _ := start(t, Target{}, nil)
	slow := make(chan struct{})
	r.source.mu.Lock()
	r.slow = slow
	r.source.mu.Unlock()
	r.Heard("", 0)
	r.give(time.Minute, "x")
	r.Heard("a.b", message.CeilMilli(time.Now()))
	r.verbs(1)
	close(slow)
}

func TestNote_PausesATargetThatFailedForFiveDays(t *testing.T) {
	t.Parallel()
	s := &source{t: t}
	clock := scheduler.NewClock(scheduler.System())
	events := scheduler.NewEvents("a", clock, prometheus.NewRegistry(), false)
	w := &Service{cfg: Config{Source: s, Clock: clock, Events: events}}
	target, err := newTarget(Target{Pattern: "a.*"})
	if err != nil {
		t.Fatal(err)
	}
	note := func(verb scheduler.Verb, later time.Duration) {
		target.noted = target.noted.Add(-later)
		w.note(t.Context(), target, verdict{verb: verb})
	}
	note(scheduler.Ack, 0)
	note(scheduler.Ack, 0)
	note(scheduler.Nack, 0) // too soon after a success
	note(scheduler.Nack, 2*time.Second)
	note(scheduler.Bury, 2*time.Second) // told already
	note(scheduler.Nack, 2*time.Minute)
	note(scheduler.Ack, 0) // a success always counts
	note(scheduler.Ack, 2*time.Minute)
	note(scheduler.Nack, 2*time.Second)
	want(t, "noted", s.noted, []bool{false, true, true, false, false, true})
	s.since = time.Now().Add(-giveUp + time.Minute)
	note(scheduler.Nack, 2*time.Minute)
	if len(s.paused) > 0 {
		t.Fatalf("paused: %q", s.paused)
	}
	s.since = time.Now().Add(-giveUp)
	note(scheduler.Nack, 2*time.Minute)
	if len(s.paused) != 1 || !strings.HasPrefix(s.paused[0], "a.* by a webhook, whose target fails since 2") ||
		!s.since.IsZero() {
		t.Fatalf("paused: %q, failing since %s", s.paused, s.since)
	}
	var told []string
	for _, e := range events.Last() {
		told = append(told, fmt.Sprint(e.Kind, " ", e.Topic, " ", e.Detail))
	}
	want(t, "told", told, []string{"webhook a.* its target has failed for five days: it is paused",
		"webhook a.* its target answers again", "webhook a.* its target fails: "})
}
