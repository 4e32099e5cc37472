package intake

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// moving are two servers, the first of which holds an intake that nobody reads.
type moving struct {
	*testing.T
	from, to     *nats.Conn
	source, into jetstream.JetStream
	cfg          CarryConfig
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{T: t}
	for conn, js := range map[**nats.Conn]*jetstream.JetStream{&m.from: &m.source, &m.to: &m.into} {
		nc, err := nats.Connect(lab.NewNATS(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		*conn = nc
		if *js, err = jetstream.New(nc); err != nil {
			t.Fatal(err)
		}
	}
	m.cfg = CarryConfig{From: m.from, To: m.to, Namespace: "moved", Prefix: "delayed", RejectBytes: 1 << 20,
		RejectsPerSubject: 10, Log: zerolog.New(zerolog.NewTestWriter(t)),
		Known: func(context.Context, message.UID) (bool, error) { return false, nil }}
	in := &Intake{cfg: Config{Namespace: "moved", Prefix: "delayed", Replicas: 1, MaxBytes: -1,
		RejectBytes: 1 << 20, RejectsPerSubject: 10}, js: m.source,
		Contents: NewContents(m.from, "moved"), log: m.cfg.Log}
	if err := in.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *moving) publish(subject string, header ...string) *jetstream.PubAck {
	m.Helper()
	msg := nats.NewMsg(subject)
	for i := 0; i < len(header); i += 2 {
		msg.Header[header[i]] = append(msg.Header[header[i]], header[i+1])
	}
	msg.Data = []byte("body of " + subject)
	ack, err := m.source.PublishMsg(m.Context(), msg)
	if err != nil {
		m.Fatal(err)
	}
	return ack
}

// stored are the messages of a stream, by subject.
func (m *moving) stored(js jetstream.JetStream, name string) map[string]*jetstream.RawStreamMsg {
	m.Helper()
	s, err := js.Stream(m.Context(), name)
	if err != nil {
		m.Fatal(err)
	}
	found := map[string]*jetstream.RawStreamMsg{}
	info := s.CachedInfo().State
	for seq := info.FirstSeq; seq <= info.LastSeq; seq++ {
		raw, err := s.GetMsg(m.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		} else if err != nil {
			m.Fatal(err)
		}
		found[raw.Subject] = raw
	}
	if len(found) != int(info.Msgs) {
		m.Fatalf("%d messages in %s, on %d subjects", info.Msgs, name, len(found))
	}
	return found
}

// reasons returns the reasons of the target's rejects, by intake subject.
func (m *moving) reasons() map[string]string {
	m.Helper()
	s, err := m.into.Stream(m.Context(), link.RejectsName("moved"))
	if err != nil {
		m.Fatal(err)
	}
	found := map[string]string{}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		raw, err := s.GetMsg(m.Context(), seq)
		if err != nil {
			m.Fatal(err)
		}
		found[raw.Header.Get("Tarry-Subject")] = raw.Header.Get("Tarry-Reason")
	}
	return found
}

func TestCarry_MovesWhatNoInstanceAccepted(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	m.publish("delayed.a.delay", "Tarry-Delay", "20m", "Tarry-Id", "one", "X", "1", "X", "2")
	m.publish("delayed.a.folded", "tarry-delay", "1500ms", "Nats-Msg-Id", "mine")
	m.publish("delayed.a.at", "Tarry-At", "1900000000000")
	m.publish("delayed.a.broken", "Tarry-Delay", "tomorrow")
	m.publish("delayed.a.expects", "Tarry-Delay", "1m", "Nats-Expected-Last-Sequence", "4")
	accepted := m.publish("delayed.a.accepted", "Tarry-Delay", "1s")
	large := nats.NewMsg("delayed.a.large")
	large.Header.Set("Tarry-Delay", "1m")
	large.Data = make([]byte, int(m.from.MaxPayload())-large.Size()+len(large.Subject))
	if _, err := m.source.PublishMsg(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	merging := m.publish("delayed.a.merging", "Tarry-Delay", "1s", "Tarry-On-Duplicate", "keep")
	m.publish(link.RejectsSubject("moved")+".b", "Tarry-Reason", "invalid_delay: why", "Tarry-Subject", "delayed.b")
	before := m.stored(m.source, link.StreamName("moved"))
	known := before["delayed.a.accepted"]
	uid, err := message.IntakeUID(accepted.Sequence, known.Time, "", "")
	if err != nil {
		t.Fatal(err)
	}
	merged := before["delayed.a.merging"]
	other, err := message.IntakeUID(merging.Sequence, merged.Time, message.ContentName("a.merging", merged.Data), "")
	if err != nil {
		t.Fatal(err)
	}
	m.cfg.Known = func(_ context.Context, u message.UID) (bool, error) { return u == uid || u == other, nil }
	recorded := map[string]bool{}
	m.cfg.Reject = func(_ context.Context, r *scheduler.Rejected) error {
		recorded[r.Topic] = true
		return nil
	}
	if left, err := Leftover(t.Context(), m.from, "moved"); err != nil || left != (Left{Intake: 8, Rejects: 1}) {
		t.Fatalf("it holds %+v, %v", left, err)
	}
	done, err := Carry(t.Context(), m.cfg)
	if err != nil || done != (Carried{Pushes: 3, Known: 2, Rejects: 4}) {
		t.Fatalf("carried %+v, %v", done, err)
	}
	if left, err := Leftover(t.Context(), m.from, "moved"); err != nil || left != (Left{}) {
		t.Errorf("it still holds %+v, %v", left, err)
	}
	if left, err := Leftover(t.Context(), m.from, "nobody"); err != nil || left != (Left{}) {
		t.Errorf("nobody's streams hold %+v, %v", left, err)
	}

	after := m.stored(m.into, link.StreamName("moved"))
	ends := func(subject string, delay time.Duration) string {
		return strconv.FormatInt(int64(message.CeilMilli(before[subject].Time.Add(delay))), 10)
	}
	for subject, want := range map[string]map[string]string{
		"delayed.a.delay":  {"Tarry-At": ends("delayed.a.delay", 20*time.Minute), "Tarry-Delay": "", "Tarry-Id": "one"},
		"delayed.a.folded": {"Tarry-At": ends("delayed.a.folded", 1500*time.Millisecond), "tarry-delay": ""},
		"delayed.a.at":     {"Tarry-At": "1900000000000"},
	} {
		raw := after[subject]
		if raw == nil {
			t.Errorf("%s was not carried", subject)
			continue
		}
		if string(raw.Data) != "body of "+subject {
			t.Errorf("%s has the body %q", subject, raw.Data)
		}
		for name, value := range want {
			if got := nats.Header(raw.Header)[name]; value == "" && got != nil ||
				value != "" && (len(got) != 1 || got[0] != value) {
				t.Errorf("%s has %s %q, want %q", subject, name, got, value)
			}
		}
	}
	if x := after["delayed.a.delay"].Header["X"]; len(x) != 2 {
		t.Errorf("its repeated header came as %q", x)
	}
	if len(after) != 3 {
		t.Errorf("%d pushes came", len(after))
	}
	reasons := m.reasons()
	if want := map[string]bool{"a.broken": true, "a.expects": true, "a.large": true}; !maps.Equal(recorded, want) {
		t.Errorf("recorded are %v", recorded)
	}
	if len(reasons) != 4 || !strings.HasPrefix(reasons["delayed.a.large"], "too_large: ") ||
		!strings.HasPrefix(reasons["delayed.a.broken"], "invalid_delay: ") ||
		!strings.HasPrefix(reasons["delayed.a.expects"], "invalid_header: ") {
		t.Errorf("rejects: %q", reasons)
	}
}

// A message leaves the source after it has come, and one that came unheard is not there twice.
func TestCarry_GoesOnWhereItBrokeOff(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	for i := range 5 {
		m.publish("delayed.a."+strconv.Itoa(i), "Tarry-Delay", "20m")
	}
	broken := errors.New("the journal is away")
	calls := 0
	m.cfg.Known = func(context.Context, message.UID) (bool, error) {
		if calls++; calls == 3 {
			return false, broken
		}
		return false, nil
	}
	if _, err := Carry(t.Context(), m.cfg); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if left, err := Leftover(t.Context(), m.from, "moved"); err != nil || left.Intake != 3 {
		t.Fatalf("it holds %+v, %v", left, err)
	}
	// The third came, and its removal did not happen.
	third := m.stored(m.source, link.StreamName("moved"))["delayed.a.2"]
	unheard := &Intake{js: m.into}
	msg, place := unpacked(third)
	if err := unheard.put(t.Context(), msg, place); err != nil {
		t.Fatal(err)
	}
	m.cfg.Known = func(context.Context, message.UID) (bool, error) { return false, nil }
	if done, err := Carry(t.Context(), m.cfg); err != nil || done.Pushes != 3 {
		t.Fatalf("carried %+v, %v", done, err)
	}
	if n := len(m.stored(m.into, link.StreamName("moved"))); n != 5 {
		t.Errorf("%d of 5 messages came", n)
	}
}
