package lab_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestNATS_KeepsItsStreamsWhenKilledAndRestarted(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]lab.NATSOption{
		"current":  nil,
		"Debian's": {lab.NATS29()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := lab.NewNATS(t, options...)
			js := natsStreams(t, natsConnect(t, srv))
			if _, err := js.CreateStream(
				t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept.>"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), "kept.a", []byte("value")); err != nil {
				t.Fatal(err)
			}
			srv.Kill()
			srv.Restart()
			js = natsStreams(t, natsConnect(t, srv))
			stream, err := js.Stream(t.Context(), "KEPT")
			if err != nil {
				t.Fatal(err)
			}
			msg, err := stream.GetMsg(t.Context(), 1)
			if err != nil || string(msg.Data) != "value" {
				t.Fatalf("after Restart: got %v and %v, want the message", msg, err)
			}
		})
	}
}

func TestNATS_IsTheVersionAskedFor(t *testing.T) {
	t.Parallel()
	if got := lab.SharedNATS(t).Version(); strings.HasPrefix(got, "2.9.") || !strings.HasPrefix(got, "2.") {
		t.Errorf("the built server is %s, want the one in go.mod", got)
	}
	if got := lab.NewNATS(t, lab.NATS29()).Version(); !strings.HasPrefix(got, "2.9.") {
		t.Errorf("Debian's server is %s, want 2.9", got)
	}
}

func TestNATS_OptionsReachTheServer(t *testing.T) {
	t.Parallel()
	srv := lab.NewNATS(t, lab.NoJetStream(), lab.NATSConfig("max_payload: 2048"),
		lab.NATSConfig("authorization { token: secret }"))
	if nc, err := nats.Connect(srv.URL()); err == nil {
		nc.Close()
		t.Fatal("a connection without the token: got none of the expected error")
	}
	nc := natsConnect(t, srv, nats.Token("secret"))
	if got := nc.MaxPayload(); got != 2048 {
		t.Errorf("max payload: got %d, want 2048", got)
	}
	if _, err := natsStreams(t, nc).AccountInfo(t.Context()); err == nil {
		t.Error("JetStream answers, want none")
	}
}

func TestNATS_SharedIsOneServerWithJetStream(t *testing.T) {
	t.Parallel()
	a, b := lab.SharedNATS(t), lab.SharedNATS(t)
	if a.Addr != b.Addr || a.Pid() != b.Pid() {
		t.Errorf("got %s (%d) and %s (%d), want one server", a.Addr, a.Pid(), b.Addr, b.Pid())
	}
	if _, err := natsStreams(t, natsConnect(t, a)).AccountInfo(t.Context()); err != nil {
		t.Error(err)
	}
}

func natsConnect(t *testing.T, srv *lab.NATS, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.URL(), append(options, nats.NoReconnect())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func natsStreams(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
