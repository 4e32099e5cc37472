package publish_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
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
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// listening subscribes to a subject and waits until the server knows.
func listening(t testing.TB, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

func next(t testing.TB, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsg(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPublisher_DividesATopicByKeyThenNameThenUID(t *testing.T) {
	t.Parallel()
	const parts = 8
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		s := bridgetest.Stream(t, nc, "PARTS", "orders.remind.*")
		core := listening(t, bridgetest.Connect(t, server.URL()), "core.>")
		topics := bridgetest.SettingsOf(&scheduler.Topic{Pattern: "orders.remind", Partitions: parts},
			&scheduler.Topic{Pattern: "core.*", Partitions: parts})
		p := bridgetest.Running(t, publish.Config{Conn: nc, Topics: topics})
		var batch []*message.Message
		by := map[*message.Message]string{}
		for i := range 60 {
			m := newMessage([]string{"orders.remind", "core.a", "core.b"}[i%3], fmt.Sprint(i))
			switch i % 4 {
			case 0:
				m.Key, m.ID = fmt.Sprint("key", i%5), fmt.Sprint("id", i)
				by[m] = m.Key
			case 1:
				m.ID = fmt.Sprint("id", i)
				by[m] = m.ID
			default:
				by[m] = string(m.UID)
			}
			batch = append(batch, m)
		}
		seen := map[string]bool{}
		for i, out := range send(t, p, batch...) {
			wantKind(t, out, scheduler.Delivered, "")
			m := batch[i]
			want := fmt.Sprintf("%s.%d", m.Topic, crc32.ChecksumIEEE([]byte(by[m]))%parts)
			seen[want] = true
			lane := message.LaneCore.Lane(want)
			if m.Topic == "orders.remind" {
				lane = "js:PARTS"
			}
			if got := p.Lane(m); got != lane {
				t.Errorf("%s by %s: parked in %s, want %s", m.Topic, by[m], got, lane)
			}
			var subject, data string
			var header nats.Header
			if m.Topic == "orders.remind" {
				if out.Stream != "PARTS" {
					t.Fatalf("got %+v", out)
				}
				stored, err := s.GetMsg(t.Context(), out.Sequence)
				if err != nil {
					t.Fatal(err)
				}
				subject, header, data = stored.Subject, stored.Header, string(stored.Data)
			} else {
				got := next(t, core)
				subject, header, data = got.Subject, got.Header, string(got.Data)
			}
			// Where it was due stands in a header: a consumer sends it back there.
			if subject != want || data != string(m.Body) || header.Get(wire.HeaderSubject) != m.Topic ||
				header.Get(wire.HeaderMsgID) != string(m.UID) {
				t.Errorf("%s by %s: came on %s with %v", m.Topic, by[m], subject, header)
			}
		}
		if len(seen) < 8 {
			t.Errorf("only %v", seen)
		}
		// Settings may change while it runs.
		topics.Set(nil, message.Retry{})
		wantKind(t, send(t, p, newMessage("core.a", "x"))[0], scheduler.Delivered, "")
		if got := next(t, core); got.Subject != "core.a" || got.Header.Get(wire.HeaderSubject) != "" {
			t.Errorf("it came on %s with %v", got.Subject, got.Header)
		}
	})
}

// instance is a scheduler and its leader.
type instance struct {
	*steer.Scheduler
	*lead.Leader
}

// leading runs a leader over the timeline until the returned function is called: its publisher and scheduler are its
// own.
func leading(t *testing.T, nc *nats.Conn, timeline scheduler.Timeline, topics *scheduler.Topics,
	term uint64) (s instance, resign func()) {
	t.Helper()
	clock := scheduler.NewClock(scheduler.System())
	leader, err := lead.New(lead.Config{
		Timeline: timeline, Publisher: bridgetest.Running(t, publish.Config{Conn: nc, Topics: topics}), Topics: topics,
		Clock: clock, EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20, Pending: 4096, Attempts: 3,
		CallTimeout: time.Second, StopTimeout: time.Second, Log: bridgetest.Logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Leader = leader
	s.Scheduler, err = steer.New(scheduler.Config{
		Timeline: timeline, Topics: topics, Clock: clock,
		IDs:      scheduler.NewIDs(bridgetest.Slot(int(term)), time.Now),
		MaxDelay: time.Hour, EndedKeep: 10 * time.Minute,
		Announce:    func(bucket message.Bucket, due message.Milli) { leader.Nudge(bucket, due) },
		CallTimeout: time.Second, StopTimeout: time.Second, Log: bridgetest.Logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.RunServe(t, s.Scheduler)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, term, func() time.Duration { return time.Minute }) }() // waited for by resign
	resign = sync.OnceFunc(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the leadership ended with %v", err)
		}
	})
	t.Cleanup(resign)
	return s, resign
}

// The partitions of a topic may lie in several streams. One that refuses holds back its own, before a takeover and
// after.
func TestPartitions_AStreamThatRefusesParksOnlyItsOwn(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	well := bridgetest.Stream(t, nc, "WELL-"+ns, ns+".0")
	full := jetstream.StreamConfig{Name: "FULL-" + ns, Subjects: []string{ns + ".1"}, MaxMsgs: 1,
		Discard: jetstream.DiscardNew}
	sick := bridgetest.StreamOf(t, nc, full)
	topics, timeline := bridgetest.SettingsOf(&scheduler.Topic{Pattern: ns, Partitions: 2}), bridgetest.NewTimeline(t)
	holds := func(s jetstream.Stream, want int) {
		t.Helper()
		lab.Eventually(t, 20*time.Second, func() error {
			info, err := s.Info(t.Context())
			if err == nil && info.State.Msgs != uint64(want) {
				err = fmt.Errorf("%s holds %d messages, want %d", info.Config.Name, info.State.Msgs, want)
			}
			return err
		})
	}
	var keys [2]string // one for each partition
	for i := 0; keys[0] == "" || keys[1] == ""; i++ {
		key := fmt.Sprint("key", i)
		keys[crc32.ChecksumIEEE([]byte(key))%2] = key
	}
	push := func(s instance, n int) (uids [2][]message.UID) {
		t.Helper()
		for range n {
			for part, key := range keys {
				a := s.AcceptAll(t.Context(), []*scheduler.Push{{Topic: ns, Key: key, Body: []byte("body")}})[0]
				if a.Err != nil {
					t.Fatal(a.Err)
				}
				uids[part] = append(uids[part], a.UID)
			}
		}
		return uids
	}
	parked := func(uids []message.UID) {
		t.Helper()
		for _, uid := range uids {
			lab.Eventually(t, 20*time.Second, func() error {
				info := bridgetest.MustFind(t, timeline, scheduler.Ref{UID: uid})
				if info.Mark.Lane != message.LaneStream.Lane(full.Name) {
					return fmt.Errorf("%s is %s in the lane %q", uid, info.State, info.Mark.Lane)
				}
				return nil
			})
		}
	}
	first, resign := leading(t, nc, timeline, topics, 1)
	uids := push(first, 20)
	holds(well, 20)
	parked(uids[1][1:]) // the stream takes one
	push(first, 20)
	holds(well, 40)
	resign()

	second, _ := leading(t, nc, timeline, topics, 2)
	uids = push(second, 20)
	holds(well, 60)
	parked(uids[1])
	full.MaxMsgs = -1
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	holds(sick, 60)
	if left := bridgetest.Waiting(t, timeline); left != 0 {
		t.Errorf("%d messages wait", left)
	}
}

func TestPublisher_APartitionThatIsRefusedOrAloneIsNamed(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig(permissions))
	nc := bridgetest.Connect(t, strings.Replace(server.URL(), "nats://", "nats://daemon:s3cret@", 1))
	p := bridgetest.Running(t, publish.Config{Conn: nc, Topics: bridgetest.SettingsOf(&scheduler.Topic{Pattern: ">",
		Partitions: 1})})
	out := send(t, p, newMessage("secret.x", "1"), newMessage("alone", "2"))
	wantKind(t, out[0], scheduler.Refused, "secret.x.0")
	wantKind(t, out[1], scheduler.NoListener, "alone.0")
}

func TestPublisher_DropsWhereNobodyListensIfItIsSet(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		bridgetest.Stream(t, nc, "KEPT", "lossy.kept")
		p := bridgetest.Running(t, publish.Config{Conn: nc, Topics: bridgetest.SettingsOf(&scheduler.Topic{Pattern: "lossy.>",
			Drop: true}, &scheduler.Topic{Pattern: "*.b", Partitions: 2, Drop: true})})
		heard := listening(t, bridgetest.Connect(t, server.URL()), "*.heard")
		var batch []*message.Message
		for range 50 {
			batch = append(batch, newMessage("lossy.alone", "1"), newMessage("lossy.heard", "2"),
				newMessage("other.alone", "3"), newMessage("other.heard", "4"), newMessage("lossy.kept", "5"),
				newMessage("x.b", "6"))
		}
		for i, out := range send(t, p, batch...) {
			switch batch[i].Topic {
			case "other.alone":
				wantKind(t, out, scheduler.NoListener, "other.alone")
			case "lossy.kept": // a stream answers, as ever
				if wantKind(t, out, scheduler.Delivered, ""); out.Stream != "KEPT" || out.Sequence == 0 {
					t.Fatalf("got %+v", out)
				}
			default:
				wantKind(t, out, scheduler.Delivered, "")
			}
		}
		for range 100 {
			m := next(t, heard)
			if asks := m.Reply != ""; asks != (m.Subject == "other.heard") {
				t.Fatalf("%s came with the reply subject %q", m.Subject, m.Reply)
			}
		}
	})
}

// An unknown outcome is no delivery, even if nobody needs to listen.
func TestPublisher_WhatIsDroppedIsStillUnknownWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	proxy := lab.NewProxy(t, server.Addr)
	p := bridgetest.Running(t, publish.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr),
		Timeout: 500 * time.Millisecond,
		Topics:  bridgetest.SettingsOf(&scheduler.Topic{Pattern: ">", Drop: true})})
	wantKind(t, send(t, p, newMessage("a", "1"))[0], scheduler.Delivered, "")
	proxy.StallReplies()
	wantKind(t, send(t, p, newMessage("a", "2"))[0], scheduler.Unknown, "time-out")
}

func TestPublisher_DropNeedsTheRightToPublishAllTheSame(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig(permissions))
	p := bridgetest.Running(t,
		publish.Config{Conn: bridgetest.Connect(t, strings.Replace(server.URL(), "nats://", "nats://daemon:s3cret@", 1)),
			Topics: bridgetest.SettingsOf(&scheduler.Topic{Pattern: ">", Drop: true})})
	for range 20 {
		out := send(t, p, newMessage("fine", "1"), newMessage("secret.x", "2"), newMessage("fine", "3"))
		wantKind(t, out[0], scheduler.Delivered, "")
		wantKind(t, out[1], scheduler.Refused, "secret.x")
		wantKind(t, out[2], scheduler.Delivered, "")
	}
}

// A copy goes out under the uid of its original with something behind it, on a subject of its own.
func TestPublisher_TakesACopyUnderALongerUID(t *testing.T) {
	t.Parallel()
	server := lab.SharedNATS(t)
	nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
	s := bridgetest.Stream(t, nc, strings.ToUpper(ns), ns+".>")
	p := bridgetest.Running(t, publish.Config{Conn: nc, Namespace: ns})
	m := newMessage(ns+".orders", "body")
	m.ID, m.Key = "order-1", "k"
	dead, expired := *m, *m
	dead.Topic, dead.UID = ns+".dead", m.UID+".dead"
	expired.Topic, expired.UID = ns+".late", m.UID+".expired"
	sequences := map[uint64]bool{}
	for _, m := range []*message.Message{m, &dead, &expired} {
		for again := range 2 {
			out := send(t, p, m)[0]
			if wantKind(t, out, scheduler.Delivered, ""); out.Duplicate != (again == 1) {
				t.Errorf("%s: got %+v", m.UID, out)
			}
			stored, err := s.GetMsg(t.Context(), out.Sequence)
			if err != nil {
				t.Fatal(err)
			}
			if stored.Subject != m.Topic || stored.Header.Get(wire.HeaderMsgID) != string(m.UID)+"@"+ns ||
				stored.Header.Get(wire.HeaderID) != "order-1" || stored.Header.Get(wire.HeaderKey) != "k" {
				t.Errorf("stored on %s with %v", stored.Subject, stored.Header)
			}
			sequences[out.Sequence] = true
		}
	}
	if len(sequences) != 3 {
		t.Errorf("sequences %v", sequences)
	}
}

func TestBroker_PublishesAgainOnThePartition(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	s := bridgetest.Stream(t, nc, strings.ToUpper(ns), ns+".*.*")
	topics := bridgetest.SettingsOf(&scheduler.Topic{Pattern: ns + ".orders", Partitions: 4})
	p := bridgetest.Running(t, publish.Config{Conn: nc, Namespace: ns, Topics: topics})
	b, err := publish.NewBroker(nc, ns)
	if err != nil {
		t.Fatal(err)
	}
	b.Topics = topics
	m := newMessage(ns+".orders", "body")
	m.Key = "k"
	wantKind(t, send(t, p, m)[0], scheduler.Delivered, "")
	_, sequence, err := b.Publish(t.Context(), m)
	if err != nil || sequence != 1 { // the stream knows it: the same subject, the same Nats-Msg-Id
		t.Errorf("got %d, %v", sequence, err)
	}
	again := newMessage(ns+".orders", "body")
	again.Key = "k"
	if _, sequence, err = b.Publish(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	one, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.GetMsg(t.Context(), sequence)
	if err != nil || one.Subject != two.Subject || two.Header.Get(wire.HeaderSubject) != again.Topic {
		t.Errorf("got %v and %v, %v", one, two, err)
	}
}
