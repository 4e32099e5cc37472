package app

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// What NATS acknowledges on a machine without a second copy must be on its disk.
func TestEmbeddedNATS_SyncsEveryWriteWhereItIsToLast(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{true, false} {
		ns, err := startNATS(embedded{name: "synced", listen: "127.0.0.1:0", dir: t.TempDir(), durable: durable,
			log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		if got := ns.JetStreamConfig().SyncAlways; got != durable {
			t.Errorf("durable %v: every write is synced: %v", durable, got)
		}
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

// What an instance asked a token for must not stand open while its streams are moved.
func TestEmbeddedNATS_WithoutAnAddressServesThisProcessAlone(t *testing.T) {
	t.Parallel()
	var open closers
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	})
	ns, err := open.embedNATS(t.Context(), embedded{name: "alone", dir: t.TempDir(), durable: true, log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if addr := ns.Addr(); addr != nil {
		t.Errorf("it listens on %s", addr)
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "A"}); err != nil {
		t.Error(err)
	}
}
