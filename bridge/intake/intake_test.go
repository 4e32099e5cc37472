package intake_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestIntake_MakesAMessageOfATaggedOneAndAcknowledgesItThen(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		in := bridgetest.Taking(t,
			intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: bridgetest.Scheduling(t, nc, timeline)})
		before := time.Now()
		seq := bridgetest.Publish(t, nc, "delayed.orders.created", "body", "Tarry-Delay", "20m", "Tarry-Id", "order-7131",
			"traceparent", "00-1-2-01", "tarry-priority", "7")
		info := bridgetest.MustFind(t, timeline, scheduler.Ref{ID: "order-7131"})
		if info.Topic != "orders.created" || string(info.Body) != "body" || info.Priority != 7 ||
			info.State != message.StateWaiting ||
			len(info.Headers) != 1 || info.Headers[0] != (message.Header{Name: "traceparent", Value: "00-1-2-01"}) {
			t.Errorf("got %+v", info)
		}
		if due := info.Due.Time(); due.Before(before.Add(20*time.Minute)) ||
			due.After(time.Now().Add(20*time.Minute+time.Second)) {
			t.Errorf("due at %s", due)
		}
		bridgetest.Emptied(t, nc, ns)
		if last, _, err := in.Backlog(t.Context()); err != nil || last != seq {
			t.Errorf("backlog %d, %v, want %d", last, err, seq)
		}
		// The same push again is a retry; other content under the name is not, and goes to the rejects.
		bridgetest.Publish(t, nc, "delayed.orders.created", "body", "Tarry-Delay", "20m", "Tarry-Id", "order-7131",
			"traceparent",
			"00-1-2-01", "Tarry-Priority", "7")
		bridgetest.Publish(t, nc, "delayed.orders.created", "other", "Tarry-Delay", "20m", "Tarry-Id", "order-7131")
		bridgetest.Emptied(t, nc, ns)
		if n := bridgetest.Waiting(t, timeline); n != 1 {
			t.Errorf("%d messages wait", n)
		}
		reject := rejects(t, nc, ns, 1)[0]
		if got := reject.Header.Get("Tarry-Reason"); !strings.HasPrefix(got, "duplicate_id: ") ||
			string(reject.Data) != "other" || reject.Header.Get("Tarry-Id") != "order-7131" {
			t.Errorf("got reject %q %q", got, reject.Data)
		}
	})
}

// A consumer that sends a message back to the subject where it read it, a partition, means the message of the topic.
func TestIntake_ARetryToAPartitionGoesByTheTopic(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	prefix := "in" + ns
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: prefix, Accept: bridgetest.Scheduling(t, nc,
		timeline),
		Topics: bridgetest.SettingsOf(&scheduler.Topic{Pattern: "orders", Partitions: 4})})
	subject := func(n uint32) string { return fmt.Sprint("orders.", (crc32.ChecksumIEEE([]byte("k"))+n)%4) }
	for i, c := range []struct {
		subject string
		attempt int
		said    string // in Tarry-Subject
		want    string
	}{
		{subject(0), 2, "orders", "orders"},
		// A message on another subject stays what its subject says.
		{subject(1), 2, "orders", subject(1)}, {subject(0), 1, "orders", subject(0)},
		{subject(0), 2, "mail", subject(0)},
		{"mail.3", 2, "orders", "mail.3"}, {subject(0), 2, "", subject(0)},
	} {
		id := fmt.Sprint("order-", i)
		bridgetest.Publish(t, nc, prefix+"."+c.subject, "body", "Tarry-Delay", "20m", "Tarry-Id", id, "Tarry-Key", "k",
			"Tarry-Attempt", fmt.Sprint(c.attempt), "Tarry-Subject", c.said)
		if info := bridgetest.MustFind(t, timeline, scheduler.Ref{ID: id}); info.Topic != c.want {
			t.Errorf("%+v: the topic is %s", c, info.Topic)
		}
	}

	// So does one that is refused: a reject has no header for the topic, so its subject names it.
	bridgetest.Publish(t, nc, prefix+"."+subject(0), "body", "Tarry-At", "2099-01-31T08:00:00Z", "Tarry-Id", "order-far",
		"Tarry-Key",
		"k", "Tarry-Attempt", "2", "Tarry-Subject", "orders")
	if got := rejects(t, nc, ns, 1)[0].Header.Get("Tarry-Subject"); got != prefix+".orders" {
		t.Errorf("the reject is of %s", got)
	}
}

// The limit of a push counts the headers that tarry keeps. A push padded by one that it drops could not be put aside,
// and would wait in the intake as long as its bucket is away.
func TestIntake_RejectsWhatCouldNotBePutAside(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig("max_payload: 100KB"))
	nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	prefix := "in" + ns
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: prefix, Accept: bridgetest.Scheduling(t, nc,
		timeline)})
	body := strings.Repeat("x", 100<<10-wire.HeadRoom)
	for id, dropped := range map[string]int{"fits": 3000, "not": 3800} {
		bridgetest.Publish(t, nc, prefix+".orders", body, "Tarry-Delay", "20m", "Tarry-Id", id,
			"Nats-Msg-Id", strings.Repeat("n", dropped))
	}
	if got := rejects(t, nc, ns, 1)[0].Header; got.Get("Tarry-Id") != "not" ||
		!strings.HasPrefix(got.Get("Tarry-Reason"), "too_large: headers and body take ") {
		t.Errorf("the reject is %v", got)
	}
	bridgetest.MustFind(t, timeline, scheduler.Ref{ID: "fits"})
}

// rejects reads the stream of rejects.
func rejects(t testing.TB, nc *nats.Conn, ns string, want int) []*jetstream.RawStreamMsg {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), link.RejectsName(ns))
	if err != nil {
		t.Fatal(err)
	}
	var got []*jetstream.RawStreamMsg
	for i := range want {
		lab.Eventually(t, 10*time.Second, func() error {
			msg, err := s.GetMsg(t.Context(), uint64(i+1))
			if err == nil {
				got = append(got, msg)
			}
			return err
		})
	}
	return got
}

func TestIntake_RejectsWithTheReasonAndTheBody(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		var logged bridgetest.LogBuffer
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed",
			Accept: bridgetest.Scheduling(t, nc, timeline), Log: logged.Logger().Level(zerolog.WarnLevel)})
		large := strings.Repeat("x", int(nc.MaxPayload())-200)
		cases := []struct {
			subject, body, word string
			headers             []string
			dropped             bool
		}{
			{subject: "delayed.a", body: "b1", word: "missing_delay"},
			{subject: "delayed.a", body: "b2", word: "invalid_delay", headers: []string{"Tarry-Delay", "-5"}},
			{subject: "delayed.a", body: "b3", word: "invalid_at", headers: []string{"Tarry-At", "1896076800"}},
			{subject: "delayed.a", body: "b4", word: "unknown_header",
				headers: []string{"Tarry-Delay", "1s", "Tarry-Dealy", "2s"}},
			{subject: "delayed.tarry.x", body: "b5", word: "invalid_topic", headers: []string{"Tarry-Delay", "1s"}},
			{subject: "delayed.delayed.x", body: "b6", word: "invalid_topic", headers: []string{"Tarry-Delay", "1s"}},
			{subject: "delayed._INBOX.x", body: "b7", word: "invalid_topic", headers: []string{"Tarry-Delay", "1s"}},
			{subject: "delayed.a", body: "b8", word: "invalid_deliver",
				headers: []string{"Tarry-Delay", "1s", "Tarry-Lease", "5s"}},
			{subject: "delayed.a", body: "d1", word: "invalid_retry",
				headers: []string{"Tarry-Delay", "1s", "Tarry-Retry", "1,,2"}},
			{subject: "delayed.a", body: "d2", word: "invalid_on_duplicate",
				headers: []string{"Tarry-Id", "a", "Tarry-Attempt", "2", "Tarry-On-Duplicate", "keep"}},
			{subject: "delayed.a", body: "b9", word: "invalid_id",
				headers: []string{"Tarry-Delay", "1s", "Tarry-Id", "t-0123456789abcdef"}},
			{subject: "delayed.a", body: "c1", word: "too_far", headers: []string{"Tarry-At", "2600-01-01T00:00:00Z"}},
			{subject: "delayed.a", body: "c2", word: "invalid_header",
				headers: []string{"Tarry-Delay", "1s", "Nats-Future", "1"}},
			{subject: "delayed.a", body: "c3", word: "too_large",
				headers: []string{"Tarry-Delay", "1s", "X", strings.Repeat("v", 40<<10)}},
			{subject: "delayed.a", body: "c4", word: "too_large",
				headers: []string{"Tarry-Delay", "1s", "X", strings.Repeat("v", 62<<10)}, dropped: true},
			{subject: "delayed.a", body: large, word: "too_large", headers: []string{"Tarry-Delay", "1s"},
				dropped: true},
		}
		for _, c := range cases {
			bridgetest.Publish(t, nc, c.subject, c.body, append(c.headers, "Nats-Msg-Id", "mine-"+c.body[:2])...)
		}
		bridgetest.Emptied(t, nc, ns)
		if n := bridgetest.Waiting(t, timeline); n != 0 {
			t.Errorf("%d messages wait", n)
		}
		if n := logged.Count("push rejected"); n == 0 || n > len(cases) || strings.Contains(logged.String(), `"b1"`) {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
		byBody := map[string]*jetstream.RawStreamMsg{}
		for _, r := range rejects(t, nc, ns, len(cases)) {
			first, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Tarry-Subject"), "delayed."), ".")
			if r.Subject != link.RejectsSubject(ns)+"."+first {
				t.Errorf("on %s", r.Subject)
			}
			byBody[string(r.Data)] = r
		}
		for _, c := range cases {
			body := c.body
			if len(body) > 2 {
				body = "" // does not fit
			}
			r := byBody[body]
			if r == nil {
				t.Errorf("%s: no reject with the body %q", c.word, body)
				continue
			}
			reason := r.Header.Get("Tarry-Reason")
			if !strings.HasPrefix(reason, c.word+": ") || r.Header.Get("Tarry-Subject") != c.subject ||
				len(reason) > 500 {
				t.Errorf("want %s of %s, got %q of %q", c.word, c.subject, reason, r.Header.Get("Tarry-Subject"))
			}
			if strings.Contains(reason, "not all of it fits") != c.dropped {
				t.Errorf("%s: got %q", c.word, reason)
			}
			for i := 0; i+1 < len(c.headers); i += 2 {
				kept := r.Header.Get(c.headers[i]) == c.headers[i+1]
				if want := !strings.HasPrefix(c.headers[i], "Nats-") && len(c.headers[i+1]) < 60<<10; kept != want {
					t.Errorf("%s: header %s kept %v, want %v", c.word, c.headers[i], kept, want)
				}
			}
			if id := r.Header.Get(wire.HeaderMsgID); strings.HasPrefix(id, "mine") {
				t.Errorf("the producer's %s came along", wire.HeaderMsgID)
			}
		}
	})
}

// failing refuses until well is closed, as a scheduler does whose store is away.
type failing struct {
	intake.Acceptor
	well    chan struct{}
	refused atomic.Int64
	err     error
}

func (f *failing) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	select {
	case <-f.well:
		f.Acceptor.Accept(p, done)
	default:
		f.refused.Add(1)
		go done(scheduler.Accepted{UID: p.UID, Err: fmt.Errorf("add: %w", f.err)})
	}
}

func TestIntake_HoldsPushesWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{scheduler.ErrUnavailable, scheduler.ErrFull, scheduler.ErrBusy,
		scheduler.ErrOutcomeUnknown, scheduler.ErrStopping} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			nc, ns, timeline := bridgetest.Connect(t,
				lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
			log := &bridgetest.LogBuffer{}
			away := &failing{Acceptor: bridgetest.Scheduling(t, nc, timeline), well: make(chan struct{}), err: cause}
			bridgetest.Taking(t,
				intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: away, Log: log.Logger()})
			for i := range 100 {
				bridgetest.Publish(t, nc, "later."+ns+".a", fmt.Sprint(i), "Tarry-Delay", "1h")
			}
			lab.Eventually(t, 20*time.Second, func() error {
				if n := away.refused.Load(); n < 4 {
					return fmt.Errorf("%d tries", n)
				}
				return nil
			})
			if n := bridgetest.StreamState(t, nc, link.StreamName(ns)).Msgs; n != 100 {
				t.Errorf("%d pushes are in the intake, want 100", n)
			}
			close(away.well)
			bridgetest.Emptied(t, nc, ns)
			if n := bridgetest.Waiting(t, timeline); n != 100 {
				t.Errorf("%d messages wait, want 100", n)
			}
			if n := log.Count("cannot be accepted now"); n < 1 || n > 3 {
				t.Errorf("the log says it %d times", n)
			}
			if n := bridgetest.StreamState(t, nc, link.RejectsName(ns)).Msgs; n > 0 {
				t.Errorf("%d rejects", n)
			}
		})
	}
}

func TestIntake_ARedeliveryChangesNothing(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		proxy := lab.NewProxy(t, server.Addr)
		// The first instance takes everything in and loses its link before it can acknowledge.
		first := &cutting{Acceptor: bridgetest.Scheduling(t, nc, timeline), cut: proxy.Cut}
		bridgetest.Taking(t, intake.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr), Namespace: ns,
			Prefix: "delayed",
			Accept: first, AckWait: time.Second})
		for i := range 50 {
			bridgetest.Publish(t, nc, "delayed.a", fmt.Sprint(i), "Tarry-Delay", "1h")
		}
		lab.Eventually(t, 10*time.Second, func() error {
			if bridgetest.Waiting(t, timeline) == 0 {
				return errors.New("no message waits")
			}
			return nil
		})
		if n := bridgetest.StreamState(t, nc, link.StreamName(ns)).Msgs; n != 50 {
			t.Fatalf("%d pushes are in the intake, though none was acknowledged", n)
		}
		second := &counting{Acceptor: bridgetest.Scheduling(t, nc, timeline)}
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: second, AckWait: time.Second})
		bridgetest.Emptied(t, nc, ns)
		if n := bridgetest.Waiting(t, timeline); n != 50 {
			t.Errorf("%d messages wait, want 50", n)
		}
		second.mu.Lock()
		defer second.mu.Unlock()
		if second.duplicates == 0 || second.duplicates+second.fresh < 50 {
			t.Errorf("the second instance saw %d new ones and %d again", second.fresh, second.duplicates)
		}
	})
}

// cutting cuts the link once a push was accepted, before it can be acknowledged.
type cutting struct {
	intake.Acceptor
	once sync.Once
	cut  func()
}

func (c *cutting) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	c.Acceptor.Accept(p, func(a scheduler.Accepted) {
		c.once.Do(c.cut)
		done(a)
	})
}

// counting distinguishes new pushes from those seen before.
type counting struct {
	intake.Acceptor
	mu                sync.Mutex
	fresh, duplicates int
}

func (c *counting) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	c.Acceptor.Accept(p, func(a scheduler.Accepted) {
		c.mu.Lock()
		if a.Duplicate {
			c.duplicates++
		} else {
			c.fresh++
		}
		c.mu.Unlock()
		done(a)
	})
}

func TestIntake_TwoInstancesShareTheWork(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	var both [2]*counting
	for i := range both {
		own := bridgetest.Connect(t, lab.SharedNATS(t).URL())
		both[i] = &counting{Acceptor: bridgetest.Scheduling(t, own, timeline)}
		bridgetest.Taking(t, intake.Config{Conn: own, Namespace: ns, Prefix: "shared." + ns, Accept: both[i]})
	}
	const n = 5000
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		msg := nats.NewMsg("shared." + ns + ".a")
		msg.Header["Tarry-Delay"] = []string{"1h"}
		msg.Data = []byte(fmt.Sprint(i))
		// the machine may be busy
		if _, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	bridgetest.Emptied(t, nc, ns)
	if got := bridgetest.Waiting(t, timeline); got != n {
		t.Errorf("%d messages wait, want %d", got, n)
	}
	for i, c := range both {
		c.mu.Lock()
		if c.fresh == 0 || c.duplicates > 0 {
			t.Errorf("instance %d saw %d new ones and %d again", i, c.fresh, c.duplicates)
		}
		c.mu.Unlock()
	}
}

func TestIntake_CountsADelayFromWhenTheStreamStoredThePush(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	// Any stream of that name and prefix does: the instances are all down.
	ctx, stop := context.WithCancel(t.Context())
	in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "stored." + ns,
		Accept: &failing{err: errors.New("down"), well: make(chan struct{})}})
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	lab.Eventually(t, 10*time.Second, func() error {
		if !in.Enabled() {
			return errors.New("not open")
		}
		return nil
	})
	stop()
	<-ended
	stored := time.Now()
	bridgetest.Publish(t, nc, "stored."+ns+".a", "x", "Tarry-Delay", "1h", "Tarry-Id", "a")
	const stands = 4 * time.Second // much longer than the server's clock takes to be asked for, on a busy machine
	<-time.After(stands)
	clock := scheduler.NewClock(scheduler.System())
	stamps := intake.NewClockSampler(intake.ClockConfig{Conn: nc, Namespace: ns, Clock: clock})
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "stored." + ns,
		Accept: bridgetest.SchedulingBy(t, nc, timeline, clock, nil), Clock: clock, Stamps: stamps})
	info := bridgetest.MustFind(t, timeline, scheduler.Ref{ID: "a"})
	if late := info.Due.Time().Sub(stored.Add(time.Hour)); late < -time.Millisecond || late > stands/2 {
		t.Errorf("due %s after an hour from the publish", late)
	}
}

// Counted by another clock than the one that stamped the push, a delay might end early: the push waits until that clock
// has been read again.
func TestIntake_WaitsForTheClockThatStampedAPush(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	var ahead atomic.Int64
	local := scheduler.System()
	mono := local.Mono
	local.Mono = func() time.Duration { return mono() + time.Duration(ahead.Load()) }
	clock := scheduler.NewClock(local)
	clock.Sample(intake.ClockSource, time.Now(), clock.Mono(), clock.Mono())
	ahead.Store(int64(time.Minute)) // the sample is old now
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "clock." + ns,
		Accept: bridgetest.SchedulingBy(t, nc, timeline, clock, nil), Clock: clock})
	bridgetest.Publish(t, nc, "clock."+ns+".a", "x", "Tarry-Delay", "1h", "Tarry-Id", "relative")
	bridgetest.Publish(t, nc, "clock."+ns+".a", "x", "Tarry-At",
		strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10),
		"Tarry-Id", "absolute")
	bridgetest.MustFind(t, timeline, scheduler.Ref{ID: "absolute"}) // it needs no clock, and comes second
	if found, err := timeline.Find(t.Context(), scheduler.Ref{ID: "relative"}); err != nil || len(found) > 0 {
		t.Fatalf("a delay was counted by a clock that did not stamp it: %d, %v", len(found), err)
	}
	clock.Sample(intake.ClockSource, time.Now(), clock.Mono(), clock.Mono())
	bridgetest.MustFind(t, timeline, scheduler.Ref{ID: "relative"})
}

func TestIntake_SaysWhatIsWeakerWithoutJetStream(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	log := &bridgetest.LogBuffer{}
	in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed",
		Accept: bridgetest.Scheduling(t, nc, timeline), Log: log.Logger()})
	bridgetest.RunFor(t, in.Run)
	lab.Eventually(t, 10*time.Second, func() error {
		if log.Count("by request only") != 1 || log.Count("not kept while every instance is down") != 1 {
			return errors.New("the log does not say it: " + log.String())
		}
		return nil
	})
	if n, _, err := in.Backlog(t.Context()); n != 0 || err != nil || in.Enabled() {
		t.Errorf("backlog %d, %v, enabled %v", n, err, in.Enabled())
	}
}

func TestIntake_MakesItsStreamAgainWhenSomebodyDeletesIt(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: bridgetest.Scheduling(t, nc,
		timeline)})
	for _, name := range []string{link.StreamName(ns), link.RejectsName(ns)} {
		bridgetest.Silence(t, nc, name)
	}
	js, _ := jetstream.New(nc)
	for i, headers := range []nats.Header{{"Tarry-Delay": {"1h"}}, {"Tarry-Delay": {"nonsense"}}} {
		lab.Eventually(t, 20*time.Second, func() error {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, err := js.PublishMsg(ctx, &nats.Msg{Subject: "delayed.a", Header: headers, Data: fmt.Append(nil, i)})
			return err
		})
	}
	bridgetest.Emptied(t, nc, ns)
	if n := bridgetest.Waiting(t, timeline); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	rejects(t, nc, ns, 1)
}
