package e2e_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// message is one push, in the words of both doors.
type message struct {
	sent
	priority int
	delay    time.Duration // from the push; where there is no at
	text     string        // the delay as it is written
	at       time.Time     // whole milliseconds
	cancel   bool
}

// maker makes the messages of a load: every size, every form of a due time, with and without id, key, priority and
// headers. The same seed makes the same messages.
type maker struct {
	seed   uint64
	spread time.Duration // due times lie up to this far ahead
	core   bool          // no stream
	burst  time.Duration // every eighth message is due at a multiple of this, many at one instant; 0 for none
}

// make returns message seq; the due times count from now.
func (k maker) make(seq int, now time.Time) *message {
	rnd := rand.New(rand.NewPCG(k.seed, uint64(seq)))
	m := &message{sent: sent{seq: seq, body: body(rnd, seq), header: headers(seq)}}
	if m.stream = seq%3 != 0 && !k.core; m.stream {
		m.subject = fmt.Sprintf("%srow%d.%d", streamSubject, seq%7, seq%50)
	} else {
		m.subject = fmt.Sprintf("%srow%d.%d", coreSubject, seq%7, seq%50)
	}
	if seq%4 != 3 {
		m.id = fmt.Sprintf("order-%d/%d ü", k.seed, seq)
	}
	if seq%5 == 0 {
		m.key = fmt.Sprintf("customer %d", seq%11)
	}
	if seq%3 == 1 {
		m.priority = seq % 256
	}
	m.cancel = rnd.IntN(20) == 0
	m.delay = 50*time.Millisecond + rand.N(k.spread)
	switch {
	case k.burst > 0 && seq%8 == 0:
		m.at = now.Add(m.delay).Truncate(k.burst).Add(k.burst)
	case seq%7 == 3:
		m.at = now.Add(m.delay).Truncate(time.Millisecond)
	}
	if m.at.IsZero() {
		m.delay = m.delay.Truncate(time.Millisecond)
		ms := m.delay.Milliseconds()
		m.text = [...]string{strconv.FormatInt(ms, 10), fmt.Sprintf("%dms", ms),
			fmt.Sprintf("%d.%03ds", ms/1000, ms%1000)}[seq%3]
		m.notBefore = now.Add(m.delay)
	} else {
		m.notBefore = m.at
	}
	return m
}

// body is empty, binary, text or large.
func body(rnd *rand.Rand, seq int) []byte {
	size := 1 + rnd.IntN(1500)
	switch {
	case seq%97 == 5:
		return nil
	case seq%501 == 7:
		size = 100 << 10
	case seq%2 == 0:
		return fmt.Appendf(nil, "%s grüße \"%d\"\r\n\x00 %s", bodyMarker, rnd.Uint64(),
			strings.Repeat("text ", rnd.IntN(200)))
	}
	b := []byte(bodyMarker)
	for range size {
		b = append(b, byte(rnd.Uint32()))
	}
	return b
}

func headers(seq int) nats.Header {
	h := nats.Header{seqHeader: {strconv.Itoa(seq)}}
	if seq%3 == 0 {
		h["traceparent"] = []string{fmt.Sprintf("00-%032x-%016x-01", seq+1, seq+1)}
	}
	if seq%4 == 1 {
		h["x-Many-VALUES"] = []string{"b", "a = 1, c", "", "grüße"}
	}
	if seq%10 == 9 {
		h["X-Long"] = []string{strings.Repeat("v", 2000)}
	}
	return h
}

// tagged is the message as a producer publishes it: to the intake, with tags beside its headers.
func (m *message) tagged(prefix string) *nats.Msg {
	h := maps.Clone(m.header)
	if m.at.IsZero() {
		h["Tarry-Delay"] = []string{m.text}
	} else if m.seq%2 == 0 {
		h["tarry-at"] = []string{strconv.FormatInt(m.at.UnixMilli(), 10)}
	} else {
		h["Tarry-At"] = []string{m.at.Format(time.RFC3339Nano)}
	}
	if m.id != "" {
		h["Tarry-Id"] = []string{m.id}
	}
	if m.key != "" {
		h["Tarry-Key"] = []string{m.key}
	}
	if m.priority > 0 {
		h["TARRY-PRIORITY"] = []string{strconv.Itoa(m.priority)}
	}
	return &nats.Msg{Subject: prefix + "." + m.subject, Header: h, Data: m.body}
}

// json is the message as HTTP takes it.
func (m *message) json() map[string]any {
	fields := map[string]any{"topic": m.subject}
	list := map[string]any{}
	for name, values := range m.header {
		if list[name] = values; len(values) == 1 {
			list[name] = values[0]
		}
	}
	fields["headers"] = list
	switch {
	case len(m.body) == 0:
	case utf8.Valid(m.body):
		fields["body"] = string(m.body)
	default:
		fields["body_base64"] = base64.StdEncoding.EncodeToString(m.body)
	}
	switch {
	case m.at.IsZero() && m.seq%3 == 0:
		fields["delay"] = m.delay.Milliseconds()
	case m.at.IsZero():
		fields["delay"] = m.text
	case m.seq%2 == 0:
		fields["at"] = m.at.UnixMilli()
	default:
		fields["at"] = m.at.Format(time.RFC3339Nano)
	}
	if m.id != "" {
		fields["id"] = m.id
	}
	if m.key != "" {
		fields["key"] = m.key
	}
	if m.priority > 0 {
		fields["priority"] = m.priority
	}
	return fields
}
