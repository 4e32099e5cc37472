package intake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// nothing accepts nothing: for tests that only open the intake.
func nothing() *failing { return &failing{err: errors.New("down"), well: make(chan struct{})} }

func TestIntake_RefusesAPrefixThatAnotherStreamHoldsByName(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: "shop", Prefix: "delayed", Accept: nothing()})
		// two live side by side
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: "billing", Prefix: "later", Accept: nothing()})
		bridgetest.Stream(t, nc, "USERS", "mine.*.x", "yours.>")
		for prefix, names := range map[string][]string{
			"delayed":    {"TARRY_shop", "namespace shop", "delayed.>"},
			"delayed.eu": {"TARRY_shop", "namespace shop"},
			"later":      {"TARRY_billing", "namespace billing"},
			"mine":       {"USERS", "mine.*.x"},
			"yours.x.y":  {"USERS", "yours.>"},
		} {
			in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: "third", Prefix: prefix, Accept: nothing()})
			err := in.Run(t.Context())
			if !errors.Is(err, intake.ErrRefused) {
				t.Fatalf("%s: got %v", prefix, err)
			}
			for _, name := range append(names, "nats.prefix") {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %q does not name %q", prefix, err, name)
				}
			}
		}
	})
}

func TestIntake_AdaptsAnExistingStreamWhereNothingIsLost(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		old := bridgetest.StreamOf(t, nc, jetstream.StreamConfig{
			Name: link.StreamName("ns"), Subjects: []string{"old.>"}, Retention: jetstream.WorkQueuePolicy,
			Discard: jetstream.DiscardOld,
			MaxAge:  time.Hour, MaxMsgs: 10, MaxBytes: 1 << 20, MaxMsgsPerSubject: 5, MaxMsgSize: 100,
			Duplicates: time.Second, NoAck: true,
			AllowRollup: true,
		})
		bridgetest.Taking(t,
			intake.Config{Conn: nc, Namespace: "ns", Prefix: "delayed", MaxBytes: 2 << 20, Accept: nothing()})
		info, err := old.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := info.Config
		if !slices.Equal(c.Subjects, []string{"delayed.>"}) || c.Discard != jetstream.DiscardNew || c.MaxAge != 0 ||
			c.MaxMsgs != -1 || c.MaxBytes != 2<<20 ||
			c.MaxMsgsPerSubject != -1 || c.MaxMsgSize != -1 || c.Duplicates != 2*time.Minute || c.NoAck ||
			c.AllowRollup {
			t.Errorf("got %+v", c)
		}
	})
}

func TestIntake_TakesLimitsOfOthersOffItsStream(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	s := bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: link.StreamName(ns),
		Subjects:  []string{"limits." + ns + ".>"},
		Retention: jetstream.WorkQueuePolicy,
		Discard:   jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1,
		ConsumerLimits: jetstream.StreamConsumerLimits{MaxAckPending: 10},
		RePublish:      &jetstream.RePublish{Source: ">", Destination: "again." + ns + ".>"}})
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "limits." + ns, Accept: nothing()})
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := info.Config; c.DiscardNewPerSubject || c.MaxMsgsPerSubject != -1 ||
		c.ConsumerLimits != (jetstream.StreamConsumerLimits{}) || c.RePublish != nil {
		t.Errorf("got %+v", c)
	}
}

func TestIntake_NeverShrinksAStreamBelowWhatItHolds(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	prefix := "shrink." + ns
	s := bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: link.StreamName(ns), Subjects: []string{prefix + ".>"},
		Retention: jetstream.WorkQueuePolicy,
		Discard:   jetstream.DiscardNew, MaxBytes: 10 << 20})
	for range 20 {
		bridgetest.Publish(t, nc, prefix+".a", strings.Repeat("x", 100<<10), "Tarry-Delay", "1h")
	}
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: prefix, MaxBytes: 1 << 20, Accept: nothing()})
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 20 || info.Config.MaxBytes != 10<<20 {
		t.Errorf("%d messages are left, the limit is %d", info.State.Msgs, info.Config.MaxBytes)
	}
}

func TestIntake_RefusesAStreamThatCannotBeMadeFitAndSaysWhy(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.SharedNATS(t).URL())
	for what, cfg := range map[string]jetstream.StreamConfig{
		"retention policy": {Retention: jetstream.LimitsPolicy},
		"kept in Memory":   {Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage},
		"is sealed":        {Retention: jetstream.WorkQueuePolicy},
		"schedules":        {Retention: jetstream.WorkQueuePolicy, AllowMsgSchedules: true},
		"expire by":        {Retention: jetstream.WorkQueuePolicy, AllowMsgTTL: true},
		"has written":      {Retention: jetstream.WorkQueuePolicy, PersistMode: jetstream.AsyncPersistMode},
		"copies":           {Retention: jetstream.WorkQueuePolicy, Mirror: &jetstream.StreamSource{Name: "ANY"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ns := bridgetest.NewNamespace()
			cfg.Name = link.StreamName(ns)
			if cfg.Mirror == nil {
				cfg.Subjects = []string{"unfit." + ns + ".>"}
			}
			s := bridgetest.StreamOf(t, nc, cfg)
			if what == "is sealed" {
				js, _ := jetstream.New(nc)
				next := s.CachedInfo().Config
				next.Sealed = true
				if _, err := js.UpdateStream(t.Context(), next); err != nil {
					t.Fatal(err)
				}
			}
			in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "unfit." + ns, Accept: nothing()})
			err := in.Run(t.Context())
			if !errors.Is(err, intake.ErrRefused) || !strings.Contains(err.Error(), what) ||
				!strings.Contains(err.Error(), cfg.Name) {
				t.Errorf("got %v, want it to say %q", err, what)
			}
		})
	}
}

func TestIntake_KeepsPushesOfAnotherPrefixAndSaysWhoMayEmptyThem(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: link.StreamName(ns), Subjects: []string{"was." + ns + ".>"},
		Retention: jetstream.WorkQueuePolicy})
	bridgetest.Publish(t, nc, "was."+ns+".a", "x", "Tarry-Delay", "1h")
	in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "is." + ns, Accept: nothing()})
	err := in.Run(t.Context())
	if !errors.Is(err, intake.ErrRefused) || !strings.Contains(err.Error(), "holds 1 messages") ||
		!strings.Contains(err.Error(), "nats.prefix") {
		t.Errorf("got %v", err)
	}
}

func TestIntake_NamesTheSettingThatTheServerCannotFulfil(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t,
		lab.NATSConfig("accounts { A { jetstream { max_disk: 100MB }, users [ { user: a, password: b } ] } }"))
	nc := bridgetest.Connect(t, "nats://a:b@"+server.Addr)
	for setting, cfg := range map[string]intake.Config{
		"nats.intake.replicas is 3":             {Replicas: 3},
		"nats.intake.max_bytes is 107374182400": {MaxBytes: 100 << 30},
	} {
		cfg.Conn, cfg.Namespace, cfg.Prefix, cfg.Accept = nc, "ns", "delayed", nothing()
		in := bridgetest.IntakeOn(t, cfg)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		if err := in.Run(ctx); !errors.Is(err, intake.ErrRefused) || !strings.Contains(err.Error(), setting) {
			t.Errorf("got %v, want it to say %q", err, setting)
		}
		stop()
	}
}

func TestIntake_RefusesNewPushesWhenItIsFullAndDropsNone(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	prefix := "full." + ns
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: prefix, MaxBytes: 64 << 10, Accept: nothing()})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for i := range 100 {
		msg := &nats.Msg{Subject: prefix + ".a", Header: nats.Header{"Tarry-Delay": {"1h"}},
			Data: fmt.Append(nil, i, strings.Repeat("x", 2000))}
		if _, err := js.PublishMsg(t.Context(), msg); err == nil {
			stored++
		} else if !strings.Contains(err.Error(), "maximum bytes") {
			t.Fatal(err)
		}
	}
	if n := bridgetest.StreamState(t, nc, link.StreamName(ns)).Msgs; stored == 100 || int(n) != stored {
		t.Errorf("%d stored, %d there", stored, n)
	}
}
