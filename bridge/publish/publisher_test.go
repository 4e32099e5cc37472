package publish_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var uidsInUse sync.Mutex
var lastUID int

// newMessage is due on the topic and has a uid of its own.
func newMessage(topic, body string) *message.Message {
	uidsInUse.Lock()
	defer uidsInUse.Unlock()
	lastUID++
	return &message.Message{UID: message.UID(fmt.Sprintf("t-%016d", lastUID)), Topic: topic, Body: []byte(body),
		Due: 1896076800000, Attempt: 1}
}

// outcomes collects what becomes of messages, and fails the test when one ends twice.
type outcomes struct {
	t  testing.TB
	mu sync.Mutex

	got  map[*message.Message]scheduler.Outcome
	when map[*message.Message]time.Time
}

func newOutcomes(t testing.TB) *outcomes {
	return &outcomes{t: t, got: map[*message.Message]scheduler.Outcome{}, when: map[*message.Message]time.Time{}}
}

func (o *outcomes) done(m *message.Message, out scheduler.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.got[m]; ok {
		o.t.Errorf("message %s to %s ended twice: %+v, then %+v", m.UID, m.Topic, before, out)
	}
	o.got[m], o.when[m] = out, time.Now()
}

func (o *outcomes) of(m *message.Message) (scheduler.Outcome, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, ok := o.got[m]
	return out, ok
}

func (o *outcomes) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.got)
}

// send publishes the messages and waits for all their outcomes.
func send(t testing.TB, p *publish.Publisher, messages ...*message.Message) []scheduler.Outcome {
	t.Helper()
	o := newOutcomes(t)
	p.Send(t.Context(), messages, o.done)
	lab.Eventually(t, 10*time.Second, func() error {
		if n := o.len(); n < len(messages) {
			return fmt.Errorf("%d of %d messages have an outcome", n, len(messages))
		}
		return nil
	})
	results := make([]scheduler.Outcome, len(messages))
	for i, m := range messages {
		results[i], _ = o.of(m)
	}
	return results
}

func wantKind(t testing.TB, got scheduler.Outcome, want scheduler.OutcomeKind, text string) {
	t.Helper()
	if got.Kind != want || want != scheduler.Delivered && got.Err == nil {
		t.Fatalf("got outcome %d (%v), want %d", got.Kind, got.Err, want)
	}
	if text != "" && !strings.Contains(got.Err.Error(), text) {
		t.Fatalf("got %q, want it to say %q", got.Err, text)
	}
}

func TestPublisher_DeliversToAStreamAndTellsDuplicates(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		s := bridgetest.Stream(t, nc, "ORDERS", "orders.>")
		p := bridgetest.Running(t, publish.Config{Conn: nc})
		m := newMessage("orders.created", "body \x00\xff")
		m.ID, m.Key = "order-7131", "customer"
		m.Headers = []message.Header{{Name: "traceparent", Value: "00-1-2-01"}, {Name: "X-List", Value: "b"},
			{Name: "X-List", Value: "a"}}
		out := send(t, p, m)[0]
		wantKind(t, out, scheduler.Delivered, "")
		if out.Stream != "ORDERS" || out.Sequence != 1 || out.Duplicate {
			t.Errorf("got %+v", out)
		}
		out = send(t, p, m)[0]
		wantKind(t, out, scheduler.Delivered, "")
		if out.Sequence != 1 || !out.Duplicate {
			t.Errorf("the second time: got %+v", out)
		}
		stored, err := s.GetMsg(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		want := bridgetest.WantHeaders(m, stored.Header)
		if stored.Subject != m.Topic || !bytes.Equal(stored.Data, m.Body) ||
			!reflect.DeepEqual(map[string][]string(stored.Header), want) {
			t.Errorf("stored %s %q %v\nwant %v", stored.Subject, stored.Data, stored.Header, want)
		}
		if p.Lane(newMessage("orders.anything", "")) != "js:ORDERS" || p.Lane(newMessage("other", "")) != "core:other" {
			t.Errorf("lanes %q and %q", p.Lane(newMessage("orders.anything", "")), p.Lane(newMessage("other", "")))
		}
	})
}

func TestPublisher_DeliversToCoreSubscribersAndTellsWhenNobodyListens(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		p := bridgetest.Running(t, publish.Config{Conn: nc})
		consumer := bridgetest.Connect(t, server.URL())
		got := make(chan *nats.Msg, 100)
		sub, err := consumer.QueueSubscribe("core.heard.*", "workers", func(m *nats.Msg) {
			_ = m.Respond([]byte("an answer nobody asked for"))
			_ = m.Respond(nil)
			got <- m
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := consumer.Flush(); err != nil {
			t.Fatal(err)
		}
		var batch []*message.Message
		for i := range 100 {
			batch = append(batch, newMessage(fmt.Sprintf("core.heard.%d", i), "x"),
				newMessage(fmt.Sprintf("core.alone.%d", i), "y"))
		}
		for i, out := range send(t, p, batch...) {
			if i%2 == 0 {
				wantKind(t, out, scheduler.Delivered, "")
			} else {
				wantKind(t, out, scheduler.NoListener, batch[i].Topic)
			}
		}
		for range 100 {
			m := <-got
			if m.Header.Get(wire.HeaderMsgID) == "" || string(m.Data) != "x" {
				t.Fatalf("got %q %v", m.Data, m.Header)
			}
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		if err := consumer.Flush(); err != nil {
			t.Fatal(err)
		}
		wantKind(t, send(t, p, newMessage("core.heard.1", "z"))[0], scheduler.NoListener, "")
	})
}

func TestPublisher_WorksWhereJetStreamIsOff(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]lab.NATSOption{"current": {lab.NoJetStream()},
		"2.9": {lab.NoJetStream(), lab.NATS29()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := lab.NewNATS(t, options...)
			nc := bridgetest.Connect(t, server.URL())
			p := bridgetest.Running(t, publish.Config{Conn: nc})
			if _, err := nc.SubscribeSync("a.b"); err != nil {
				t.Fatal(err)
			}
			out := send(t, p, newMessage("a.b", "1"), newMessage("a.c", "2"))
			wantKind(t, out[0], scheduler.Delivered, "")
			wantKind(t, out[1], scheduler.NoListener, "")
		})
	}
}

func TestPublisher_TellsPermanentRefusalsFromTransientOnes(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small"}, MaxMsgSize: 200})
		bridgetest.StreamOf(t, nc,
			jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
		sealed := bridgetest.Stream(t, nc, "SEALED", "sealed")
		cfg := sealed.CachedInfo().Config
		cfg.Sealed = true
		js, _ := jetstream.New(nc)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		p := bridgetest.Running(t, publish.Config{Conn: nc})
		out := send(t, p,
			newMessage("small", "fits"), newMessage("small", strings.Repeat("x", 200)),
			newMessage("full", "1"), newMessage("full", "2"), newMessage("sealed", "3"),
			newMessage("big", strings.Repeat("x", int(nc.MaxPayload())+1)), newMessage("bad subject", "4"))
		wantKind(t, out[0], scheduler.Delivered, "")
		wantKind(t, out[1], scheduler.Refused, "10054")
		wantKind(t, out[2], scheduler.Delivered, "")
		wantKind(t, out[3], scheduler.Unanswered, "maximum messages")
		wantKind(t, out[4], scheduler.Refused, "sealed")
		wantKind(t, out[5], scheduler.Refused, "maximum payload")
		wantKind(t, out[6], scheduler.Refused, "invalid subject")
		for i, o := range out { // real refusals name their stream, those of 2.9 too
			if o.Unvouched {
				t.Errorf("%d: nobody vouches for %+v", i, o)
			}
		}
	})
}

// A subscriber of the stream's subject who answers first can refuse in the server's words. Only the stream's name,
// which the message does not show, tells the two apart; an answer without it leaves open what the stream did.
func TestPublisher_VouchesForNoRefusalWithoutTheStreamsName(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]struct {
		nats.Msg
		kind scheduler.OutcomeKind
	}{
		"for good": {nats.Msg{Data: []byte(
			`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"seq":0}`)},
			scheduler.Refused},
		"for now": {nats.Msg{Data: []byte(
			`{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"seq":0}`)},
			scheduler.Unanswered},
		"as if nobody were there": {nats.Msg{Header: nats.Header{"Status": {"503"}}}, scheduler.Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := bridgetest.Connect(t, lab.NewNATS(t).URL())
			// Its acknowledgements leave it: the forged answer is then the only one, as when it is the first.
			bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "HELD", Subjects: []string{"held"}})
			p := bridgetest.Running(t, publish.Config{Conn: nc, Refresh: time.Hour})
			bridgetest.Silence(t, nc, "HELD")
			liar := bridgetest.Connect(t, nc.ConnectedUrl())
			if _, err := liar.Subscribe("held", func(m *nats.Msg) {
				answer := forged.Msg
				answer.Subject = m.Reply
				_ = liar.PublishMsg(&answer)
			}); err != nil {
				t.Fatal(err)
			}
			_ = liar.Flush()
			out := send(t, p, newMessage("held", "x"))[0]
			if wantKind(t, out, forged.kind, ""); !out.Unvouched {
				t.Errorf("somebody vouches for %+v", out)
			}
		})
	}
}

const permissions = `
accounts { A {
  jetstream: enabled
  users [
    { user: daemon, password: "s3cret", permissions { publish { deny: ["secret.>", "held.no.>"] } } }
    { user: admin, password: "s3cret" }
  ]
} }`

func TestPublisher_RefusesForbiddenSubjectsAtOnceAndNeverCallsThemDelivered(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, plain *lab.NATS) {
		options := []lab.NATSOption{lab.NATSConfig(permissions)}
		if strings.HasPrefix(plain.Version(), "2.9") {
			options = append(options, lab.NATS29())
		}
		server := lab.NewNATS(t, options...)
		as := func(user string) *nats.Conn { return bridgetest.Connect(t, "nats://"+user+":s3cret@"+server.Addr) }
		admin := as("admin")
		bridgetest.Stream(t, admin, "HELD", "held.>")
		if _, err := admin.SubscribeSync(">"); err != nil { // so that nothing lacks a listener
			t.Fatal(err)
		}
		if err := admin.Flush(); err != nil {
			t.Fatal(err)
		}
		// Far longer than a busy machine needs: what takes so long was settled by the time-out.
		const timeout = 30 * time.Second
		p := bridgetest.Running(t, publish.Config{Conn: as("daemon"), Timeout: timeout})
		for round := range 50 {
			var batch []*message.Message
			for i := range 20 {
				batch = append(batch, newMessage(fmt.Sprintf("secret.%d", i), "x"), newMessage("open", "x"),
					newMessage("held.yes", "x"), newMessage("held.no.1", "x"))
			}
			start := time.Now()
			for i, out := range send(t, p, batch...) {
				if strings.Contains(batch[i].Topic, "e") && (batch[i].Topic == "open" || batch[i].Topic == "held.yes") {
					wantKind(t, out, scheduler.Delivered, "")
				} else {
					wantKind(t, out, scheduler.Refused, batch[i].Topic)
				}
			}
			if took := time.Since(start); took >= timeout {
				t.Fatalf("round %d took %s: by time-out, not by the server's word", round, took)
			}
		}
	})
}

func TestPublisher_FollowsStreamsThatComeAndGo(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		p := bridgetest.Running(t, publish.Config{Conn: nc, Refresh: time.Hour}) // only what happens makes it look again
		wantKind(t, send(t, p, newMessage("late.a", "1"))[0], scheduler.NoListener, "")
		bridgetest.Stream(t, nc, "LATE", "late.*")
		lab.Eventually(t, 5*time.Second, func() error {
			if lane := p.Lane(newMessage("late.a", "")); lane != "js:LATE" {
				return errors.New("lane " + string(lane))
			}
			return nil
		})
		out := send(t, p, newMessage("late.a", "2"))[0]
		wantKind(t, out, scheduler.Delivered, "")
		if out.Stream != "LATE" {
			t.Errorf("got %+v", out)
		}
		if err := js.DeleteStream(t.Context(), "LATE"); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, 5*time.Second, func() error {
			switch out := send(t, p, newMessage("late.a", "3"))[0]; out.Kind {
			case scheduler.NoListener:
				return nil
			case scheduler.Unanswered:
				return out.Err
			default:
				t.Fatalf("got %+v", out)
			}
			return nil
		})
	})
}

func TestPublisher_LooksUpNothingPerSubject(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	nc := bridgetest.Connect(t, server.URL())
	bridgetest.StreamOf(t, nc,
		jetstream.StreamConfig{Name: "MANY", Subjects: []string{"many.*.remind"}, Storage: jetstream.MemoryStorage})
	p := bridgetest.Running(t, publish.Config{Conn: nc, Timeout: 20 * time.Second})
	watcher := bridgetest.Connect(t, server.URL())
	asked, err := watcher.SubscribeSync("$JS.API.>")
	if err != nil {
		t.Fatal(err)
	}
	_ = watcher.Flush()
	const subjects, step = 100_000, 1000
	o := newOutcomes(t)
	for i := 0; i < subjects; i += step {
		batch := make([]*message.Message, step)
		for j := range batch {
			batch[j] = newMessage(fmt.Sprintf("many.%d.remind", i+j), "x")
		}
		p.Send(t.Context(), batch, o.done)
		lab.Eventually(t, 20*time.Second, func() error {
			if n := o.len(); n < i+step-4000 {
				return fmt.Errorf("%d outcomes after %d messages", n, i+step)
			}
			return nil
		})
	}
	lab.Eventually(t, 20*time.Second, func() error {
		if n := o.len(); n < subjects {
			return fmt.Errorf("%d outcomes", n)
		}
		return nil
	})
	o.mu.Lock()
	for m, out := range o.got {
		if out.Kind != scheduler.Delivered {
			t.Fatalf("%s: %+v", m.Topic, out)
		}
	}
	o.mu.Unlock()
	if n, _, _ := asked.Pending(); n > 20 {
		t.Errorf("%d requests to the API of JetStream for %d subjects", n, subjects)
	}
}

func TestPublisher_SendsNothingWithoutRight(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.SharedNATS(t).URL())
	left := time.Hour
	p := bridgetest.Running(t, publish.Config{Conn: nc, Lease: func(context.Context) time.Duration { return left }})
	heard, err := nc.SubscribeSync("right.>")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("lost")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(cause)
	o := newOutcomes(t)
	m := []*message.Message{newMessage("right.a", "1"), newMessage("right.b", "2")}
	p.Send(ctx, m, o.done)
	for _, m := range m {
		out, _ := o.of(m)
		if wantKind(t, out, scheduler.NotSent, ""); !errors.Is(out.Err, cause) {
			t.Errorf("got %v, want the cause", out.Err)
		}
	}
	left = 0
	wantKind(t, send(t, p, newMessage("right.c", "3"))[0], scheduler.NotSent, "no time left")
	if _, err := heard.NextMsg(50 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("something left: %v", err)
	}
}

func TestPublisher_SaysWhichPermissionItLacks(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig(`
accounts { A {
  jetstream: enabled
  users [
    { user: nolist, password: p, permissions { publish { deny: ["$JS.>"] } } }
    { user: nohear, password: p, permissions { subscribe { deny: ["_INBOX.>"] } } }
  ]
} }`))
	for user, words := range map[string]string{"nolist": `"needs_publish":"$JS.API.STREAM.LIST"`,
		"nohear": "does not let this user listen for answers"} {
		log := &bridgetest.LogBuffer{}
		p, err := publish.New(
			publish.Config{Conn: bridgetest.Connect(t, "nats://"+user+":p@"+server.Addr), Log: log.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		bridgetest.RunFor(t, p.Run)
		lab.Eventually(t, 10*time.Second, func() error {
			if log.Count(words) != 1 {
				return errors.New("the log does not say it: " + log.String())
			}
			return nil
		})
		if p.Ready() {
			t.Errorf("%s: it says it is ready", user)
		}
		wantKind(t, send(t, p, newMessage("a", "x"))[0], scheduler.NotSent, "")
	}
}
