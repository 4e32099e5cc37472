package publish_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const mapped = `mappings { "orders.*": "stored.orders.$1", "listed.>": "stored.listed.>" }`

// A subject that the list of streams does not show may lead into a stream all the same. Such a stream takes three
// messages and refuses the rest; beside it listens somebody, so that nothing lacks a listener.
func TestPublisher_BelievesAStreamThatTheListDoesNotShow(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"current", "2.9"} {
		t.Run("mapping/"+version, func(t *testing.T) {
			t.Parallel()
			options := []lab.NATSOption{lab.NATSConfig(mapped)}
			if version == "2.9" {
				options = append(options, lab.NATS29())
			}
			nc := bridgetest.Connect(t, lab.NewNATS(t, options...).URL())
			full := bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "STORED", Subjects: []string{"stored.orders.*"},
				MaxMsgs: 3, Discard: jetstream.DiscardNew})
			deliversWhatIsStored(t, nc, full, func(i int) string { return fmt.Sprintf("orders.%d", i) })
			deliversWhatIsStored(t, nc, full, func(int) string { return "orders.one" })
		})
		t.Run("mapping of a subject that another stream lists/"+version, func(t *testing.T) {
			t.Parallel()
			options := []lab.NATSOption{lab.NATSConfig(mapped)}
			if version == "2.9" {
				options = append(options, lab.NATS29())
			}
			nc := bridgetest.Connect(t, lab.NewNATS(t, options...).URL())
			bridgetest.Stream(t, nc, "LISTED", "listed.>")
			full := bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "STORED", Subjects: []string{"stored.>"}, MaxMsgs: 3,
				Discard: jetstream.DiscardNew})
			deliversWhatIsStored(t, nc, full, func(int) string { return "listed.one" })
		})
	}
	t.Run("another domain behind a leaf node", func(t *testing.T) {
		t.Parallel()
		leaves := freeAddr(t)
		hub := lab.NewNATS(t, lab.NoJetStream(), lab.NATSConfig(
			fmt.Sprintf("jetstream { domain: hub, store_dir: %q }\nleafnodes { listen: %q }", t.TempDir(), leaves)))
		leaf := lab.NewNATS(t, lab.NoJetStream(), lab.NATSConfig(fmt.Sprintf("jetstream { domain: leaf, store_dir: "+
			"%q }\nleafnodes { remotes [ { url: \"nats-leaf://%s\" } ] }", t.TempDir(), leaves)))
		far := bridgetest.StreamOf(t, bridgetest.Connect(t, hub.URL()),
			jetstream.StreamConfig{Name: "FAR", Subjects: []string{"far.*"}, MaxMsgs: 3, Discard: jetstream.DiscardNew})
		nc := bridgetest.Connect(t, leaf.URL())
		lab.Eventually(t, 10*time.Second, func() error {
			_, err := nc.Request("far.first", nil, time.Second)
			return err
		})
		deliversWhatIsStored(t, nc, far, func(int) string { return "far.one" })
		deliversWhatIsStored(t, nc, far, func(i int) string { return fmt.Sprintf("far.%d", i) })
	})
}

func freeAddr(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
}

// deliversWhatIsStored sends ten messages again and again, as a scheduler does with what is not delivered, and takes
// out of the stream what it has: each must have been in it when it is called delivered.
func deliversWhatIsStored(t *testing.T, nc *nats.Conn, s jetstream.Stream, subject func(int) string) {
	t.Helper()
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync(">"); err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	p := bridgetest.Running(t, publish.Config{Conn: nc, Timeout: time.Second})
	left := map[*message.Message]bool{}
	for i := range 10 {
		left[newMessage(subject(i), "x")] = true
	}
	stored := map[string]bool{}
	lab.Eventually(t, 30*time.Second, func() error {
		var batch []*message.Message
		for m := range left {
			batch = append(batch, m)
		}
		outcomes := send(t, p, batch...)
		lab.Eventually(t, 10*time.Second, func() error { // to list them all at once needs a consumer
			info, err := s.Info(t.Context())
			if err != nil {
				return err
			}
			for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
				if msg, err := s.GetMsg(t.Context(), seq); err == nil {
					stored[msg.Header.Get(nats.MsgIdHdr)] = true
				}
			}
			return s.Purge(t.Context())
		})
		for i, out := range outcomes {
			switch {
			case out.Kind != scheduler.Delivered:
			case !stored[string(batch[i].UID)]:
				t.Errorf("%s to %s was called delivered, and is not in the stream", batch[i].UID, batch[i].Topic)
				delete(left, batch[i])
			default:
				delete(left, batch[i])
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%d of 10 messages are not delivered", len(left))
		}
		return nil
	})
}

// A stream that comes to be on a subject with a listener counts from its announcement on, also before the list of
// streams has it, and is asked for nothing twice.
func TestPublisher_BelievesAStreamMadeAMomentAgo(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		js, err := jetstream.New(bridgetest.Connect(t, server.URL()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.SubscribeSync("fresh.>"); err != nil {
			t.Fatal(err)
		}
		_ = nc.Flush()
		p := bridgetest.Running(t, publish.Config{Conn: nc, Refresh: time.Hour})
		for round := range 20 {
			subject := fmt.Sprintf("fresh.%d", round)
			wantKind(t, send(t, p, newMessage(subject, "before"))[0], scheduler.Delivered, "")
			cfg := jetstream.StreamConfig{Name: fmt.Sprintf("FRESH%d", round), Subjects: []string{subject}, MaxMsgs: 1,
				Discard: jetstream.DiscardNew}
			s, err := js.CreateStream(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			// others come and go
			if _, err := js.CreateStream(
				t.Context(), jetstream.StreamConfig{Name: fmt.Sprintf("OTHER%d", round)}); err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, 10*time.Second, func() error {
				if publish.CountsAsCore(p, subject) {
					return errors.New("the stream's announcement has not arrived")
				}
				return nil
			})
			batch := []*message.Message{newMessage(subject, "1"), newMessage(subject, "2"), newMessage(subject, "3")}
			delivered := 0
			for _, out := range send(t, p, batch...) {
				if out.Kind == scheduler.Delivered {
					delivered++
				}
			}
			if info, err := s.Info(t.Context()); err != nil || int(info.State.Msgs) != delivered {
				t.Errorf("round %d: %d were called delivered, the stream has %+v, %v", round, delivered,
					info.State.Msgs, err)
			}
		}
	})
}

// Whoever hears a message may answer it. On the subject of a stream that counts for nothing unless it bears the
// stream's name.
func TestPublisher_BelievesNobodyInPlaceOfTheStream(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.NewNATS(t).URL())
	full := bridgetest.StreamOf(t, nc,
		jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	liar := bridgetest.Connect(t, nc.ConnectedUrl())
	if _, err := liar.Subscribe("full", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"stream":"X","seq":1}`))
		_ = m.Respond([]byte(`{"error":{"code":400,"err_code":10054,` +
			`"description":"message size exceeds maximum allowed"},"stream":"X","seq":0}`))
	}); err != nil {
		t.Fatal(err)
	}
	_ = liar.Flush()
	p := bridgetest.Running(t, publish.Config{Conn: nc})
	for range 20 {
		var batch []*message.Message
		for range 5 {
			batch = append(batch, newMessage("full", "x"))
		}
		for i, out := range send(t, p, batch...) {
			if want := scheduler.Unanswered; i > 0 {
				wantKind(t, out, want, "maximum messages")
			} else if wantKind(t, out, scheduler.Delivered, ""); out.Stream != "FULL" {
				t.Errorf("got %+v", out)
			}
		}
		if err := full.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A listener that answers as a stream does harms its own subject alone, and no longer than it does so.
func TestPublisher_GoesOnWhereAListenerPosesAsAStream(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.NewNATS(t).URL())
	if _, err := nc.SubscribeSync("honest.>"); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe(
		"posing", func(m *nats.Msg) { _ = m.Respond([]byte(`{"stream":"X","seq":1}`)) }); err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	p := bridgetest.Running(t, publish.Config{Conn: nc, Timeout: 5 * time.Second})
	for i := range 20 {
		for _, out := range send(t, p, newMessage("posing", "x"), newMessage(fmt.Sprintf("honest.%d", i), "x"),
			newMessage("honest.one", "x")) {
			wantKind(t, out, scheduler.Delivered, "")
		}
	}
}

var errLane = errors.New("another lane")

// One word of the server's that there is no JetStream does not turn the subjects of streams into core ones: a tap would
// make all that the streams should have had delivered.
func TestPublisher_KeepsItsRoutesThroughAPassingNoJetStream(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	nc := bridgetest.Connect(t, server.URL())
	if _, err := nc.SubscribeSync("orders.>"); err != nil {
		t.Fatal(err)
	}
	var say answers
	l := &lister{page: 10, streams: []string{"orders"}}
	if _, err := nc.Subscribe("$JS.API.STREAM.LIST", func(m *nats.Msg) {
		if text := say.next(); text != "" {
			_ = m.Respond([]byte(text))
			return
		}
		l.answer(m)
	}); err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	const off = `{"type":"io.nats.jetstream.api.v1.stream_list_response","error":{"code":503,"err_code":10039,` +
		`"description":"JetStream not enabled for account"}}`
	say.set(off)
	p, err := publish.New(publish.Config{Conn: nc, Refresh: 50 * time.Millisecond, Log: bridgetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.RunFor(t, p.Run)
	lab.Eventually(t, bridgetest.Rereads, func() error {
		if say.left() > 0 || !p.Ready() {
			return errors.New("not ready")
		}
		return nil
	})
	if lane := p.Lane(newMessage("orders", "")); lane != "js:orders" {
		t.Fatalf("one answer at the start made the lane %s", lane)
	}
	for range 5 {
		say.set(off, "") // the second reading is a true one
		lab.Eventually(t, bridgetest.Rereads, func() error {
			if lane := p.Lane(newMessage("orders", "")); lane != "js:orders" {
				t.Fatalf("one answer made the lane %s", lane)
			}
			if say.left() > 0 {
				return errLane
			}
			return nil
		})
	}
	// What every reading says is believed in the end.
	say.set(strings.Split(strings.Repeat(off+"\n", 1000), "\n")...)
	lab.Eventually(t, bridgetest.Rereads, func() error {
		if lane := p.Lane(newMessage("orders", "")); lane != "core:orders" {
			return errLane
		}
		return nil
	})
}

// A page of the list begins where the one before ended, by number: a stream that goes meanwhile makes the next page
// pass over another.
func TestPublisher_MissesNoStreamWhenOneGoesBetweenTwoPages(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	nc := bridgetest.Connect(t, server.URL())
	l := &lister{page: 10}
	for i := range 15 {
		l.streams = append(l.streams, fmt.Sprintf("s%02d", i))
	}
	removed := make(chan struct{})
	if _, err := nc.Subscribe("$JS.API.STREAM.LIST", func(m *nats.Msg) {
		l.answer(m)
		var ask struct{ Offset int }
		_ = json.Unmarshal(m.Data, &ask)
		l.mu.Lock()
		defer l.mu.Unlock()
		if ask.Offset == 0 && len(l.streams) > 11 { // s10 is the first of the second page
			l.streams = l.streams[1:]
		} else if len(l.streams) == 11 {
			select {
			case <-removed:
			default:
				close(removed)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("$JS.API.STREAM.INFO.*", l.info); err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	p := bridgetest.Running(t, publish.Config{Conn: nc, Refresh: 20 * time.Millisecond})
	for done := false; !done; {
		select {
		case <-removed:
			done = true
		default:
		}
		for i := 10; i < 15; i++ {
			name := fmt.Sprintf("s%02d", i)
			if lane := p.Lane(newMessage(name, "")); lane != message.LaneStream.Lane(name) {
				t.Fatalf("%s has the lane %s", name, lane)
			}
		}
	}
	lab.Eventually(t, bridgetest.Rereads, func() error { // what is gone is forgotten
		if lane := p.Lane(newMessage("s00", "")); lane != "core:s00" {
			return errLane
		}
		return nil
	})
}
