package bridge_test

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

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// publish stores a tagged message in the intake, acknowledged, and returns its sequence.
func publish(t testing.TB, nc *nats.Conn, subject, body string, headers ...string) uint64 {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	msg := nats.NewMsg(subject)
	msg.Data = []byte(body)
	for i := 0; i < len(headers); i += 2 {
		msg.Header[headers[i]] = append(msg.Header[headers[i]], headers[i+1])
	}
	ack, err := js.PublishMsg(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// emptied waits until the intake stream holds nothing more.
func emptied(t testing.TB, nc *nats.Conn, ns string) {
	t.Helper()
	lab.Eventually(t, 20*time.Second, func() error {
		if n := streamState(t, nc, bridge.StreamName(ns)).Msgs; n > 0 {
			return fmt.Errorf("%d messages are in the intake", n)
		}
		return nil
	})
}

func streamState(t testing.TB, nc *nats.Conn, name string) jetstream.StreamState {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State
}

func TestIntake_MakesAMessageOfATaggedOneAndAcknowledgesItThen(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := connect(t, server.URL()), newNamespace(), newTimeline(t)
		in := taking(t,
			bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: scheduling(t, nc, timeline)})
		before := time.Now()
		seq := publish(t, nc, "delayed.orders.created", "body", "Tarry-Delay", "20m", "Tarry-Id", "order-7131",
			"traceparent", "00-1-2-01", "tarry-priority", "7")
		info := mustFind(t, timeline, scheduler.Ref{ID: "order-7131"})
		if info.Topic != "orders.created" || string(info.Body) != "body" || info.Priority != 7 ||
			info.State != message.StateWaiting ||
			len(info.Headers) != 1 || info.Headers[0] != (message.Header{Name: "traceparent", Value: "00-1-2-01"}) {
			t.Errorf("got %+v", info)
		}
		if due := info.Due.Time(); due.Before(before.Add(20*time.Minute)) ||
			due.After(time.Now().Add(20*time.Minute+time.Second)) {
			t.Errorf("due at %s", due)
		}
		emptied(t, nc, ns)
		if last, err := in.Backlog(t.Context()); err != nil || last != seq {
			t.Errorf("backlog %d, %v, want %d", last, err, seq)
		}
		// The same push again is a retry; other content under the name is not, and goes to the rejects.
		publish(t, nc, "delayed.orders.created", "body", "Tarry-Delay", "20m", "Tarry-Id", "order-7131", "traceparent",
			"00-1-2-01", "Tarry-Priority", "7")
		publish(t, nc, "delayed.orders.created", "other", "Tarry-Delay", "20m", "Tarry-Id", "order-7131")
		emptied(t, nc, ns)
		if n := waiting(t, timeline); n != 1 {
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
	nc, ns, timeline := connect(t, lab.SharedNATS(t).URL()), newNamespace(), newTimeline(t)
	prefix := "in" + ns
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: prefix, Accept: scheduling(t, nc, timeline),
		Topics: settingsOf(&scheduler.Topic{Pattern: "orders", Partitions: 4})})
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
		publish(t, nc, prefix+"."+c.subject, "body", "Tarry-Delay", "20m", "Tarry-Id", id, "Tarry-Key", "k",
			"Tarry-Attempt", fmt.Sprint(c.attempt), "Tarry-Subject", c.said)
		if info := mustFind(t, timeline, scheduler.Ref{ID: id}); info.Topic != c.want {
			t.Errorf("%+v: the topic is %s", c, info.Topic)
		}
	}

	// So does one that is refused: a reject has no header for the topic, so its subject names it.
	publish(t, nc, prefix+"."+subject(0), "body", "Tarry-At", "2099-01-31T08:00:00Z", "Tarry-Id", "order-far", "Tarry-Key",
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
	nc, ns, timeline := connect(t, server.URL()), newNamespace(), newTimeline(t)
	prefix := "in" + ns
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: prefix, Accept: scheduling(t, nc, timeline)})
	body := strings.Repeat("x", 100<<10-wire.HeadRoom)
	for id, dropped := range map[string]int{"fits": 3000, "not": 3800} {
		publish(t, nc, prefix+".orders", body, "Tarry-Delay", "20m", "Tarry-Id", id,
			"Nats-Msg-Id", strings.Repeat("n", dropped))
	}
	if got := rejects(t, nc, ns, 1)[0].Header; got.Get("Tarry-Id") != "not" ||
		!strings.HasPrefix(got.Get("Tarry-Reason"), "too_large: headers and body take ") {
		t.Errorf("the reject is %v", got)
	}
	mustFind(t, timeline, scheduler.Ref{ID: "fits"})
}

// rejects reads the stream of rejects.
func rejects(t testing.TB, nc *nats.Conn, ns string, want int) []*jetstream.RawStreamMsg {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), bridge.RejectsName(ns))
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
	servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := connect(t, server.URL()), newNamespace(), newTimeline(t)
		var logged logBuffer
		taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "delayed",
			Accept: scheduling(t, nc, timeline), Log: logged.logger().Level(zerolog.WarnLevel)})
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
			{subject: "delayed.a", body: "b8", word: "unsupported_yet",
				headers: []string{"Tarry-Delay", "1s", "Tarry-Deliver", "pull"}},
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
			publish(t, nc, c.subject, c.body, append(c.headers, "Nats-Msg-Id", "mine-"+c.body[:2])...)
		}
		emptied(t, nc, ns)
		if n := waiting(t, timeline); n != 0 {
			t.Errorf("%d messages wait", n)
		}
		if n := logged.count("push rejected"); n == 0 || n > len(cases) || strings.Contains(logged.String(), `"b1"`) {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
		byBody := map[string]*jetstream.RawStreamMsg{}
		for _, r := range rejects(t, nc, ns, len(cases)) {
			first, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Tarry-Subject"), "delayed."), ".")
			if r.Subject != bridge.RejectsSubject(ns)+"."+first {
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
	bridge.Acceptor
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
			nc, ns, timeline := connect(t, lab.SharedNATS(t).URL()), newNamespace(), newTimeline(t)
			log := &logBuffer{}
			away := &failing{Acceptor: scheduling(t, nc, timeline), well: make(chan struct{}), err: cause}
			taking(t,
				bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: away, Log: log.logger()})
			for i := range 100 {
				publish(t, nc, "later."+ns+".a", fmt.Sprint(i), "Tarry-Delay", "1h")
			}
			lab.Eventually(t, 20*time.Second, func() error {
				if n := away.refused.Load(); n < 4 {
					return fmt.Errorf("%d tries", n)
				}
				return nil
			})
			if n := streamState(t, nc, bridge.StreamName(ns)).Msgs; n != 100 {
				t.Errorf("%d pushes are in the intake, want 100", n)
			}
			close(away.well)
			emptied(t, nc, ns)
			if n := waiting(t, timeline); n != 100 {
				t.Errorf("%d messages wait, want 100", n)
			}
			if n := log.count("cannot be accepted now"); n < 1 || n > 3 {
				t.Errorf("the log says it %d times", n)
			}
			if n := streamState(t, nc, bridge.RejectsName(ns)).Msgs; n > 0 {
				t.Errorf("%d rejects", n)
			}
		})
	}
}

func TestIntake_ARedeliveryChangesNothing(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := connect(t, server.URL()), newNamespace(), newTimeline(t)
		proxy := lab.NewProxy(t, server.Addr)
		// The first instance takes everything in and loses its link before it can acknowledge.
		first := &cutting{Acceptor: scheduling(t, nc, timeline), cut: proxy.Cut}
		taking(t, bridge.IntakeConfig{Conn: connect(t, "nats://"+proxy.Addr), Namespace: ns, Prefix: "delayed",
			Accept: first, AckWait: time.Second})
		for i := range 50 {
			publish(t, nc, "delayed.a", fmt.Sprint(i), "Tarry-Delay", "1h")
		}
		lab.Eventually(t, 10*time.Second, func() error {
			if waiting(t, timeline) == 0 {
				return errors.New("no message waits")
			}
			return nil
		})
		if n := streamState(t, nc, bridge.StreamName(ns)).Msgs; n != 50 {
			t.Fatalf("%d pushes are in the intake, though none was acknowledged", n)
		}
		second := &counting{Acceptor: scheduling(t, nc, timeline)}
		taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: second, AckWait: time.Second})
		emptied(t, nc, ns)
		if n := waiting(t, timeline); n != 50 {
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
	bridge.Acceptor
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
	bridge.Acceptor
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
	nc, ns, timeline := connect(t, lab.SharedNATS(t).URL()), newNamespace(), newTimeline(t)
	var both [2]*counting
	for i := range both {
		own := connect(t, lab.SharedNATS(t).URL())
		both[i] = &counting{Acceptor: scheduling(t, own, timeline)}
		taking(t, bridge.IntakeConfig{Conn: own, Namespace: ns, Prefix: "shared." + ns, Accept: both[i]})
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
	emptied(t, nc, ns)
	if got := waiting(t, timeline); got != n {
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
	nc, ns, timeline := connect(t, lab.SharedNATS(t).URL()), newNamespace(), newTimeline(t)
	// Any stream of that name and prefix does: the instances are all down.
	ctx, stop := context.WithCancel(t.Context())
	in := intakeOn(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "stored." + ns,
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
	publish(t, nc, "stored."+ns+".a", "x", "Tarry-Delay", "1h", "Tarry-Id", "a")
	<-time.After(300 * time.Millisecond)
	clock := scheduler.NewClock(scheduler.System())
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "stored." + ns,
		Accept: schedulingBy(t, nc, timeline, clock, nil), Clock: clock})
	info := mustFind(t, timeline, scheduler.Ref{ID: "a"})
	if late := info.Due.Time().Sub(stored.Add(time.Hour)); late < -time.Millisecond || late > 150*time.Millisecond {
		t.Errorf("due %s after an hour from the publish", late)
	}
}

// Counted by another clock than the one that stamped the push, a delay might end early: the push waits until that clock
// has been read again.
func TestIntake_WaitsForTheClockThatStampedAPush(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := connect(t, lab.SharedNATS(t).URL()), newNamespace(), newTimeline(t)
	var ahead atomic.Int64
	local := scheduler.System()
	mono := local.Mono
	local.Mono = func() time.Duration { return mono() + time.Duration(ahead.Load()) }
	clock := scheduler.NewClock(local)
	clock.Sample(bridge.ClockSource, time.Now(), clock.Mono(), clock.Mono())
	ahead.Store(int64(time.Minute)) // the sample is old now
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "clock." + ns,
		Accept: schedulingBy(t, nc, timeline, clock, nil), Clock: clock})
	publish(t, nc, "clock."+ns+".a", "x", "Tarry-Delay", "1h", "Tarry-Id", "relative")
	publish(t, nc, "clock."+ns+".a", "x", "Tarry-At", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10),
		"Tarry-Id", "absolute")
	mustFind(t, timeline, scheduler.Ref{ID: "absolute"}) // it needs no clock, and comes second
	if found, err := timeline.Find(t.Context(), scheduler.Ref{ID: "relative"}); err != nil || len(found) > 0 {
		t.Fatalf("a delay was counted by a clock that did not stamp it: %d, %v", len(found), err)
	}
	clock.Sample(bridge.ClockSource, time.Now(), clock.Mono(), clock.Mono())
	mustFind(t, timeline, scheduler.Ref{ID: "relative"})
}

func TestIntake_SaysWhatIsWeakerWithoutJetStream(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	nc, ns, timeline := connect(t, server.URL()), newNamespace(), newTimeline(t)
	log := &logBuffer{}
	in := intakeOn(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "delayed",
		Accept: scheduling(t, nc, timeline), Log: log.logger()})
	runFor(t, in.Run)
	lab.Eventually(t, 10*time.Second, func() error {
		if log.count("by request only") != 1 || log.count("not kept while every instance is down") != 1 {
			return errors.New("the log does not say it: " + log.String())
		}
		return nil
	})
	if n, err := in.Backlog(t.Context()); n != 0 || err != nil || in.Enabled() {
		t.Errorf("backlog %d, %v, enabled %v", n, err, in.Enabled())
	}
}

func TestIntake_MakesItsStreamAgainWhenSomebodyDeletesIt(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	nc, ns, timeline := connect(t, server.URL()), newNamespace(), newTimeline(t)
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: scheduling(t, nc, timeline)})
	for _, name := range []string{bridge.StreamName(ns), bridge.RejectsName(ns)} {
		silence(t, nc, name)
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
	emptied(t, nc, ns)
	if n := waiting(t, timeline); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	rejects(t, nc, ns, 1)
}
