package tarry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// scripted is a source whose messages a test gives, and which notes what is done with them.
type scripted struct {
	queue  chan *held
	errs   chan error // of the next fetches
	extend func(h *held) error
	settle func(h *held, v verdict) error

	mu       sync.Mutex
	asked    []int
	extended []time.Time
	settled  []string
	released []string
}

func newScripted() *scripted {
	return &scripted{queue: make(chan *held, 100), errs: make(chan error, 10),
		extend: func(*held) error { return nil }, settle: func(*held, verdict) error { return nil }}
}

// source hides the methods of the interface behind the functions of a test.
type source struct{ *scripted }

func (s source) feeds() ([]feed, error) {
	return []feed{func(ctx context.Context, most int, take func(...*held)) error {
		s.mu.Lock()
		s.asked = append(s.asked, most)
		s.mu.Unlock()
		select {
		case err := <-s.errs:
			return err
		case h := <-s.queue:
			all := []*held{h}
			for len(all) < most && len(s.queue) > 0 {
				all = append(all, <-s.queue)
			}
			take(all...)
		case <-ctx.Done():
			time.Sleep(time.Millisecond)
			select { // an answer that was on its way
			case h := <-s.queue:
				take(h)
			default:
			}
		}
		return nil
	}}, nil
}

func (s source) extend(_ context.Context, all []*held) map[*held]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extended = append(s.extended, time.Now())
	failed := map[*held]error{}
	for _, h := range all {
		if err := s.scripted.extend(h); err != nil {
			failed[h] = err
		}
	}
	return failed
}

func (s source) settle(_ context.Context, h *held, v verdict) error {
	err := s.scripted.settle(h, v)
	word := "ack"
	switch {
	case err != nil:
		word = "failed"
	case v.dead:
		word = "dead: " + v.err.Error()
	case v.delayed:
		word = fmt.Sprintf("in %s: %v", v.delay, v.err)
	case v.err != nil:
		word = "retry: " + v.err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, h.ID+" "+word)
	return err
}

func (s source) release(_ context.Context, all []*held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range all {
		s.released = append(s.released, h.ID)
	}
	return nil
}

// give makes messages ready, with leases of 30 seconds.
func (s *scripted) give(ids ...string) {
	for _, id := range ids {
		s.queue <- &held{Delivery: Delivery{ID: id}, lease: 30 * time.Second}
	}
}

// begin runs a consumer in the bubble; stop ends it and returns its error.
func (s *scripted) begin(t *testing.T, handler Handler, opts ...ConsumeOption) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Consume(ctx, source{s}, handler, opts...) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func (s *scripted) wants(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Sort(s.settled); !slices.Equal(s.settled, want) {
		t.Errorf("settled %q, want %q", s.settled, want)
	}
}

func TestConsume_SettlesByWhatTheHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		var ends []string
		var mu sync.Mutex
		stop := s.begin(t, func(_ context.Context, d Delivery) error {
			switch d.ID {
			case "a":
				return nil
			case "b":
				return errors.New("no")
			case "c":
				return fmt.Errorf("of c: %w", Dead(errors.New("never")))
			case "d":
				return RetryIn(time.Minute, errors.New("later"))
			case "e":
				return Dead(nil)
			}
			panic("oops")
		}, WithHooks(Hooks{End: func(d Delivery, _ time.Duration, failed, unsettled error) {
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, fmt.Sprint(d.ID, " ", failed != nil, " ", unsettled))
		}}))
		s.give("a", "b", "c", "d", "e", "f")
		s.wants(t, "a ack", "b retry: no", "c dead: never", "d in 1m0s: later", "e dead: failed", "f retry: panic: oops")
		if err := stop(); err != nil {
			t.Error(err)
		}
		slices.Sort(ends)
		if want := []string{"a false <nil>", "b true <nil>", "c true <nil>", "d true <nil>", "e true <nil>",
			"f true <nil>"}; !slices.Equal(ends, want) {
			t.Errorf("hooks saw %q", ends)
		}
	})
}

// What is handled holds up no fetch while it is settled, up to as many messages as are handled at a time.
func TestConsume_FetchesWhileItSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		away := make(chan struct{})
		s.settle = func(*held, verdict) error { <-away; return nil }
		stop := s.begin(t, func(context.Context, Delivery) error { return nil }, Concurrency(3))
		s.give("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		if synctest.Wait(); len(s.queue) != 4 {
			t.Errorf("%d wait at the source, want 4: three slots, and as many that are settled", len(s.queue))
		}
		close(away)
		s.wants(t, "0 ack", "1 ack", "2 ack", "3 ack", "4 ack", "5 ack", "6 ack", "7 ack", "8 ack", "9 ack")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// What is fetched begins at once: nothing waits in a buffer while its lease runs.
func TestConsume_FetchesNoMoreThanItHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		running, most := 0, 0
		var mu sync.Mutex
		add := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		stop := s.begin(t, func(context.Context, Delivery) error {
			add(1)
			defer add(-1)
			time.Sleep(time.Second)
			return nil
		}, Concurrency(3))
		for i := range 10 {
			s.give(fmt.Sprint(i))
		}
		time.Sleep(500 * time.Millisecond)
		if synctest.Wait(); len(s.queue) != 7 {
			t.Errorf("%d wait at the source, want 7", len(s.queue))
		}
		time.Sleep(10 * time.Second)
		if err := stop(); err != nil || len(s.settled) != 10 || most != 3 || slices.Max(s.asked) > 3 {
			t.Errorf("%v, %d settled, %d at a time, asked for %v", err, len(s.settled), most, s.asked)
		}
	})
}

func TestConsume_ExtendsFromReceiptUntilTheSettleIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.settle = func(*held, verdict) error { time.Sleep(25 * time.Second); return nil }
		began := time.Now()
		stop := s.begin(t, func(context.Context, Delivery) error { time.Sleep(45 * time.Second); return nil },
			WithHooks(Hooks{Begin: func(Delivery) { time.Sleep(15 * time.Second) }}))
		s.give("a")
		time.Sleep(3 * time.Minute) // 15 s of the hook, 45 s of the handler, 25 s of the settle
		_ = stop()
		var at []int
		for _, x := range s.extended {
			at = append(at, int(x.Sub(began).Round(time.Second)/time.Second))
		}
		if want := []int{10, 20, 30, 40, 50, 60, 70, 80}; !slices.Equal(at, want) {
			t.Errorf("extended at %v s, want %v", at, want)
		}
		s.wants(t, "a ack")
	})
}

func TestConsume_TellsTheHandlerThatTheLeaseIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		err error
		at  time.Duration
	}{
		"by its answer": {ErrLeaseLost, 10 * time.Second},
		"by the clock":  {errors.New("no instance answers"), 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScripted()
				s.extend = func(*held) error { return c.err }
				began := time.Now()
				var told time.Duration
				var cause, unsettled error
				stop := s.begin(t, func(ctx context.Context, _ Delivery) error {
					<-ctx.Done()
					told, cause = time.Since(began), context.Cause(ctx)
					return nil
				}, WithHooks(Hooks{End: func(_ Delivery, _ time.Duration, _, err error) { unsettled = err }}))
				s.give("a")
				time.Sleep(time.Hour)
				_ = stop()
				if told.Round(time.Second) != c.at || !errors.Is(cause, ErrLeaseLost) || !errors.Is(unsettled, ErrLeaseLost) {
					t.Errorf("told after %s: %v; settled: %v", told, cause, unsettled)
				}
				s.wants(t) // its settle would be another's
			})
		})
	}
}

func TestConsume_LimitsTheTimeOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		stop := s.begin(t, func(ctx context.Context, d Delivery) error {
			if d.ID == "hangs" {
				time.Sleep(time.Hour)
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, Timeout(15*time.Second))
		s.give("heeds", "hangs")
		time.Sleep(20 * time.Second)
		s.wants(t, "heeds retry: tarry: not handled within 15s: context deadline exceeded")
		time.Sleep(2 * time.Hour)
		_ = stop()
		if n := len(s.extended); n != 1 { // at 10 s; the one that hangs lapses, and is tried elsewhere
			t.Errorf("extended %d times", n)
		}
		s.wants(t, "heeds retry: tarry: not handled within 15s: context deadline exceeded")
	})
}

func TestConsume_StopsWithoutLosingATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		began := time.Now()
		stop := s.begin(t, func(ctx context.Context, d Delivery) error {
			if d.ID == "quick" {
				time.Sleep(10 * time.Second)
				return nil
			}
			time.Sleep(time.Hour) // whatever its context says
			return nil
		}, Concurrency(3))
		s.give("quick", "hangs")
		synctest.Wait()
		over := make(chan error, 1)
		go func() { over <- stop() }()
		synctest.Wait()
		s.queue <- &held{Delivery: Delivery{ID: "late"}, lease: time.Minute}
		if err := <-over; err != nil {
			t.Error(err)
		}
		if took := time.Since(began).Round(time.Second); took != 20*time.Second {
			t.Errorf("stopped after %s", took)
		}
		if len(s.released) != 1 || s.released[0] != "late" {
			t.Errorf("given back: %q", s.released)
		}
		want := []string{"hangs retry: tarry: the consumer stops", "quick ack"}
		s.wants(t, want...)
		time.Sleep(2 * time.Hour)
		s.wants(t, want...)
	})
}

func TestConsume_TriesAgainWhatMaySucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		tries := 0
		s.settle = func(*held, verdict) error {
			if tries++; tries < 3 {
				return &Error{Word: "unavailable"}
			}
			return nil
		}
		var troubles []string
		stop := s.begin(t, func(context.Context, Delivery) error { return nil },
			WithHooks(Hooks{Trouble: func(err error) { troubles = append(troubles, err.Error()) }}))
		s.errs <- errors.New("connection refused")
		s.errs <- &Error{Word: "busy"}
		time.Sleep(time.Second)
		s.give("a")
		time.Sleep(10 * time.Second)
		s.wants(t, "a ack", "a failed", "a failed")
		if len(troubles) != 4 {
			t.Errorf("troubles %q", troubles)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		refused := newScripted()
		refused.errs <- &Error{Word: "forbidden", Detail: "the token has no right"}
		err := Consume(t.Context(), source{refused}, func(context.Context, Delivery) error { return nil })
		if e := (*Error)(nil); !errors.As(err, &e) || e.Word != "forbidden" {
			t.Errorf("refused: %v", err)
		}
	})
}

// While the journal is away, what is settled is done: Consume says so, holds nothing for it, and goes on.
func TestConsume_GoesOnWithoutTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.settle = func(*held, verdict) error { return ErrNotJournaled }
		var unsettled, troubles []error
		stop := s.begin(t, func(context.Context, Delivery) error { return nil }, Concurrency(1), WithHooks(Hooks{
			End:     func(_ Delivery, _ time.Duration, _, err error) { unsettled = append(unsettled, err) },
			Trouble: func(err error) { troubles = append(troubles, err) }}))
		s.give("a", "b")
		s.wants(t, "a failed", "b failed") // once each, and at once
		if !slices.Equal(unsettled, []error{nil, nil}) || !slices.Equal(troubles, []error{ErrNotJournaled, ErrNotJournaled}) {
			t.Errorf("ended %v, troubles %v", unsettled, troubles)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestConsume_RefusesWhatCannotWork(t *testing.T) {
	none := func(context.Context, Delivery) error { return nil }
	for name, err := range map[string]error{
		"no source":      Consume(t.Context(), nil, none),
		"no handler":     Consume(t.Context(), source{newScripted()}, nil),
		"no topic":       Consume(t.Context(), FromPull(&Puller{}), none),
		"no puller":      Consume(t.Context(), FromPull(nil, "a"), none),
		"no consumer":    Consume(t.Context(), FromJetStream(nil, nil), none),
		"no concurrency": Consume(t.Context(), source{newScripted()}, none, Concurrency(0)),
		"too much of it": Consume(t.Context(), source{newScripted()}, none, Concurrency(1001)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "tarry: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no repeat cures ends a consumer: an address that is none, and a server that is not tarry or wants a token.
func TestConsume_EndsOnWhatNoRepeatCures(t *testing.T) {
	t.Parallel()
	status := func(code int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<p>no</p>", code)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	none := func(context.Context, Delivery) error { return nil }
	for address, want := range map[string]string{
		"127.0.0.1:7070": "want http://host:port", "localhost:7070": "want http://host:port", "": "want http://host:port",
		"http:///x": "want http://host:port", status(401): "answers 401", status(404): "answers 404",
	} {
		err := Consume(t.Context(), FromPull(&Puller{URL: address}, "a"), none, WithLogger(nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", address, err, want)
		}
	}
}

// A consumer without hooks is not silent, and does not flood.
func TestConsume_Logs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mute := range []bool{false, true} {
			var text bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&text, nil))
			if mute {
				logger = nil
			}
			s := newScripted()
			stop := s.begin(t, func(_ context.Context, d Delivery) error {
				if d.ID == "b" {
					panic("oops")
				}
				return errors.New("no till")
			}, WithLogger(logger))
			s.give("a", "b")
			for range 4 { // within 10 s
				s.errs <- errors.New("no answer")
			}
			time.Sleep(9 * time.Second)
			s.errs <- errors.New("no answer")
			time.Sleep(9 * time.Second)
			if err := stop(); err != nil {
				t.Error(err)
			}
			said := text.String()
			if mute {
				if said != "" {
					t.Errorf("muted, it says %s", said)
				}
				continue
			}
			if n := strings.Count(said, `error="no answer"`); n < 1 || n > 2 || strings.Count(said, "level=ERROR") != 1 ||
				!strings.Contains(said, "consume_test.go") || !strings.Contains(said, `id=a attempt=0 failed="no till"`) {
				t.Errorf("it says %s", said)
			}
		}
	})
}

// While NATS is away, nats.go keeps what is published and reports no error. No lease is extended by that.
func TestFromJetStream_ExtendsNoLeaseWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	s := newServer(t, "jetstream { store_dir: \""+t.TempDir()+"\" }")
	nc := connect(t, s.url)
	js, stream := streamOf(t, nc, "A", "a", jetstream.ConsumerConfig{})
	if _, err := js.Publish(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	from := FromJetStream(wrap(t, nc).client, stream)
	feeds, err := from.feeds()
	if err != nil {
		t.Fatal(err)
	}
	var got []*held
	if err := feeds[0](t.Context(), 1, func(h ...*held) { got = append(got, h...) }); err != nil || len(got) != 1 {
		t.Fatalf("fetched %d, %v", len(got), err)
	}
	extend := func() map[*held]error {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		return from.extend(ctx, got)
	}
	if failed := extend(); len(failed) > 0 {
		t.Fatal(failed)
	}
	s.stop()
	eventually(t, func() error {
		if nc.IsConnected() {
			return errors.New("still connected")
		}
		return nil
	})
	if failed := extend(); failed[got[0]] == nil {
		t.Error("a lease is extended by what waits in the client")
	}
}

// The instance that both consumers read from is killed, and comes back: all is handled, and nobody does anything.
func TestConsume_GoesOnThroughAKill(t *testing.T) {
	t.Parallel()
	settings, data := "namespace: shop\ntopics:\n  - {pattern: kill.pull, deliver: pull, lease: 2s}\n", t.TempDir()
	d := startDev(t, settings, "--data", data)
	conn := d.client(t)
	_, stream := streamOf(t, conn.Conn, "KILL", "kill.jetstream", jetstream.ConsumerConfig{Durable: "all",
		AckWait: 2 * time.Second})
	const each = 40
	for i := range each {
		for _, name := range []string{"pull", "jetstream"} {
			m := Tag(message("kill."+name, "x"), In(time.Duration(i)*100*time.Millisecond), As(fmt.Sprint(name, i)))
			if err := conn.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	handled, ended := map[string]bool{}, make(chan error, 2)
	some, all := make(chan struct{}), make(chan struct{})
	for _, s := range []Source{FromPull(&Puller{URL: d.http}, "kill.pull"), FromJetStream(conn.client, stream)} {
		go func() {
			ended <- Consume(ctx, s, func(_ context.Context, d Delivery) error {
				time.Sleep(100 * time.Millisecond) // so that the kill meets some in work
				mu.Lock()
				defer mu.Unlock()
				if handled[d.ID] {
					return nil
				}
				switch handled[d.ID] = true; len(handled) {
				case each / 2:
					close(some)
				case 2 * each:
					close(all)
				}
				return nil
			})
		}()
	}
	await := func(some <-chan struct{}) {
		t.Helper()
		select {
		case <-some:
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Minute):
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("%d of %d are handled", len(handled), 2*each)
		}
	}
	await(some)
	d.kill()
	startDev(t, settings, "--data", data, "--http.listen", strings.TrimPrefix(d.http, "http://"), "--nats.listen",
		strings.TrimPrefix(d.nats, "nats://"))
	await(all)
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// What is not taken back, as the copy of a dead message, does not hold up the next message.
func TestFromJetStream_LetsGoWhatNoRepeatCures(t *testing.T) {
	t.Parallel()
	s := newServer(t, "jetstream { store_dir: \""+t.TempDir()+"\" }")
	nc := connect(t, s.url)
	js, stream := streamOf(t, nc, "A", "graves.>", jetstream.ConsumerConfig{})
	for _, name := range []string{"failed", "dead"} {
		m := message("graves."+name, name, HeaderSubject, "orders", HeaderID, "a", HeaderDue, "1", HeaderAttempt, "3")
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "graves.next", []byte("next")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var handled, ends []string
	err := Consume(ctx, FromJetStream(wrap(t, nc).client, stream), func(_ context.Context, d Delivery) error {
		switch handled = append(handled, string(d.Data)); string(d.Data) {
		case "failed":
			return errors.New("cannot be handled")
		case "dead":
			return Dead(errors.New("cannot be handled"))
		}
		return nil
	}, Concurrency(1), WithHooks(Hooks{End: func(d Delivery, _ time.Duration, _, unsettled error) {
		ends = append(ends, fmt.Sprint(string(d.Data), " ", errors.Is(unsettled, ErrCopy)))
		if len(ends) == 4 {
			stop()
		}
	}}))
	// NATS delivers the one again that failed.
	want := []string{"failed true", "dead true", "next false", "failed true"}
	if err != nil || !slices.Equal(ends, want) {
		t.Errorf("%v; handled %q, ended %q", err, handled, ends)
	}
}

// While tarry is away, nothing takes a retry. That is no verdict on the message, and costs none of its deliveries.
func TestFromJetStream_HoldsWhatFailedWhileTarryIsAway(t *testing.T) {
	t.Parallel()
	s := newServer(t, "jetstream { store_dir: \""+t.TempDir()+"\" }")
	nc := connect(t, s.url)
	js, stream := streamOf(t, nc, "ORDERS", "orders", jetstream.ConsumerConfig{MaxDeliver: 1})
	if _, err := js.Publish(t.Context(), "orders", []byte("order")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var mu sync.Mutex
	var refused, ends []error
	err := Consume(ctx, FromJetStream(wrap(t, nc).client, stream),
		func(context.Context, Delivery) error { return errors.New("not yet") },
		WithHooks(Hooks{
			Trouble: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if refused = append(refused, err); len(refused) == 3 {
					streamOf(t, nc, "TARRY_default", "delayed.>", jetstream.ConsumerConfig{}) // tarry is back
				}
			},
			End: func(_ Delivery, _ time.Duration, _, unsettled error) {
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, unsettled)
				stop()
			},
		}))
	if err != nil || len(refused) != 3 || !errors.Is(refused[0], ErrNoIntake) || len(ends) != 1 || ends[0] != nil {
		t.Errorf("%v; refused %v, ended %v", err, refused, ends)
	}
}

// streamOf creates a stream of one subject and a consumer of it, with explicit acknowledgement.
func streamOf(t *testing.T, nc *nats.Conn, name, subject string,
	config jetstream.ConsumerConfig) (jetstream.JetStream, jetstream.Consumer) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
	if err != nil {
		t.Fatal(err)
	}
	config.AckPolicy = jetstream.AckExplicitPolicy
	consumer, err := js.CreateConsumer(t.Context(), name, config)
	if err != nil {
		t.Fatal(err)
	}
	return js, consumer
}

// stopInOrder stops consumers again and again while there is work: nothing stays with them, and no try is lost.
func stopInOrder(t *testing.T, d *dev) {
	conn := d.client(t)
	_, stream := streamOf(t, conn.Conn, "STOP", "stop.jetstream",
		jetstream.ConsumerConfig{AckWait: time.Hour, InactiveThreshold: time.Hour})
	const n, each = 600, 25
	for name, c := range map[string]struct {
		source  Source
		headers []string
	}{
		"pull":      {FromPull(&Puller{URL: d.http}, "stop.pull"), []string{"Tarry-Deliver", "pull", "Tarry-Lease", "1h"}},
		"jetstream": {FromJetStream(conn.client, stream), nil},
	} {
		var batch []*nats.Msg
		for i := range n {
			batch = append(batch, Tag(message("stop."+name, "x", c.headers...), In(0), As(fmt.Sprint(name, i)), Retries("none")))
		}
		if outcomes, err := conn.client.PushBatch(t.Context(), batch); err != nil || outcomes[n-1].Err != nil {
			t.Fatal(err, outcomes)
		}
		var mu sync.Mutex
		handled := map[string]int{}
		for left := true; left; {
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			seen := 0
			err := Consume(ctx, c.source, func(_ context.Context, d Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				if handled[d.ID]++; d.Attempt > 1 || handled[d.ID] > 1 {
					t.Errorf("%s is handled %d times, attempt %d", d.ID, handled[d.ID], d.Attempt)
				}
				if seen++; seen == each || len(handled) == n {
					stop()
				}
				return nil
			})
			left = len(handled) < n
			if err != nil || left && seen < each {
				t.Errorf("%s: %v; %d of %d handled: the others stay with a consumer that has stopped", name, err,
					len(handled), n)
				left = false
			}
			stop()
		}
	}
}

// consume has messages handled from both sources, with each outcome.
func consume(t *testing.T, d *dev) {
	conn := d.client(t)
	// 5 s else, and what pulls may go first and last longer
	js, stream := streamOf(t, conn.Conn, "HELP", "help.>", jetstream.ConsumerConfig{AckWait: 2 * time.Second,
		InactiveThreshold: time.Hour})
	for name, c := range map[string]struct {
		source  Source
		headers []string
	}{
		"pull":      {FromPull(&Puller{URL: d.http}, "help.pull"), []string{"Tarry-Deliver", "pull", "Tarry-Lease", "2s"}},
		"jetstream": {FromJetStream(conn.client, stream), nil},
	} {
		for _, id := range []string{"fine", "again", "soon", "dead", "slow"} {
			m := message("help."+name, id+"-"+name, c.headers...)
			if err := conn.PublishMsg(Tag(m, In(0), As(id+"-"+name), Retries("10ms,10ms"))); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var mu sync.Mutex
		tries, ended := map[string]int{}, 0
		err := Consume(ctx, c.source, func(_ context.Context, d Delivery) error {
			id, _, _ := strings.Cut(d.ID, "-")
			mu.Lock()
			tries[id]++
			mu.Unlock()
			switch {
			case id == "again" && d.Attempt < 3:
				return errors.New("not yet")
			case id == "soon" && d.Attempt < 2:
				return RetryIn(time.Millisecond, errors.New("soon"))
			case id == "dead":
				return Dead(errors.Join(errors.New("never"), errors.New(strings.Repeat("really ", 200))))
			case id == "slow":
				time.Sleep(5 * time.Second) // its lease is 2 seconds
			}
			return nil
		}, WithHooks(Hooks{End: func(_ Delivery, _ time.Duration, _, unsettled error) {
			mu.Lock()
			defer mu.Unlock()
			if unsettled != nil {
				t.Errorf("%s: %v", name, unsettled)
			}
			if ended++; ended == 8 {
				stop()
			}
		}}))
		if err != nil || ended != 8 || tries["fine"] != 1 || tries["again"] != 3 || tries["soon"] != 2 ||
			tries["dead"] != 1 || tries["slow"] != 1 {
			t.Errorf("%s: %v after %d, tries %v", name, err, ended, tries)
		}
		for id := range tries {
			want := StateDelivered
			if id == "dead" {
				want = StateDead
			}
			got, err := conn.client.Get(t.Context(), Ref{ID: id + "-" + name, Topic: "help." + name})
			if err != nil || got.State != want {
				t.Errorf("%s is %s, %v; want %s", id+"-"+name, got.State, err, want)
			}
		}
	}
	over := make(chan error, 1)
	consume := func() {
		over <- Consume(t.Context(), FromJetStream(conn.client, stream), func(context.Context, Delivery) error { return nil })
	}
	go consume()
	eventually(t, func() error {
		info, err := stream.Info(t.Context())
		if err == nil && info.NumWaiting == 0 {
			err = errors.New("it does not fetch yet")
		}
		return err
	})
	if err := js.DeleteConsumer(t.Context(), "HELP", stream.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, jetstream.ErrConsumerDeleted) {
		t.Errorf("without its JetStream consumer: %v", err)
	}
	go consume()
	if err := <-over; !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("without its JetStream consumer from the start: %v", err)
	}
}
