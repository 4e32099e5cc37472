package site

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

// Message is one push, in the words of both doors.
type Message struct {
	Sent
	priority int
	delay    time.Duration // from the push; where there is no at
	text     string        // the delay as it is written
	At       time.Time     // whole milliseconds
	Cancel   bool
}

// Maker makes the messages of a load: every size, every form of a due time, with and without id, key, priority and
// headers. The same seed makes the same messages.
type Maker struct {
	Seed   uint64
	Spread time.Duration // due times lie up to this far ahead
	Core   bool          // no stream
	Burst  time.Duration // every eighth message is due at a multiple of this, many at one instant; 0 for none
}

// Make returns message seq; the due times count from now.
func (k Maker) Make(seq int, now time.Time) *Message {
	rnd := rand.New(rand.NewPCG(k.Seed, uint64(seq)))
	m := &Message{Sent: Sent{Seq: seq, Body: body(rnd, seq), header: headers(seq)}}
	if m.stream = seq%3 != 0 && !k.Core; m.stream {
		m.subject = fmt.Sprintf("%srow%d.%d", StreamSubject, seq%7, seq%50)
	} else {
		m.subject = fmt.Sprintf("%srow%d.%d", CoreSubject, seq%7, seq%50)
	}
	if seq%4 != 3 {
		m.Id = fmt.Sprintf("order-%d/%d ü", k.Seed, seq)
	}
	if seq%5 == 0 {
		m.Key = fmt.Sprintf("customer %d", seq%11)
	}
	if seq%3 == 1 {
		m.priority = seq % 256
	}
	m.Cancel = rnd.IntN(20) == 0
	m.delay = 50*time.Millisecond + rand.N(k.Spread)
	switch {
	case k.Burst > 0 && seq%8 == 0:
		m.At = now.Add(m.delay).Truncate(k.Burst).Add(k.Burst)
	case seq%7 == 3:
		m.At = now.Add(m.delay).Truncate(time.Millisecond)
	}
	if m.At.IsZero() {
		m.delay = m.delay.Truncate(time.Millisecond)
		ms := m.delay.Milliseconds()
		m.text = [...]string{m.delay.String(), fmt.Sprintf("%dms", ms), fmt.Sprintf("%d.%03ds", ms/1000, ms%1000)}[seq%3]
		m.NotBefore = now.Add(m.delay)
	} else {
		m.NotBefore = m.At
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
		return fmt.Appendf(nil, "%s grüße \"%d\"\r\n\x00 %s", BodyMarker, rnd.Uint64(),
			strings.Repeat("text ", rnd.IntN(200)))
	}
	b := []byte(BodyMarker)
	for range size {
		b = append(b, byte(rnd.Uint32()))
	}
	return b
}

func headers(seq int) nats.Header {
	h := nats.Header{SeqHeader: {strconv.Itoa(seq)}}
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
func (m *Message) tagged(prefix string) *nats.Msg {
	h := maps.Clone(m.header)
	if m.At.IsZero() {
		h["Tarry-Delay"] = []string{m.text}
	} else if m.Seq%2 == 0 {
		h["tarry-at"] = []string{strconv.FormatInt(m.At.UnixMilli(), 10)}
	} else {
		h["Tarry-At"] = []string{m.At.Format(time.RFC3339Nano)}
	}
	if m.Id != "" {
		h["Tarry-Id"] = []string{m.Id}
	}
	if m.Key != "" {
		h["Tarry-Key"] = []string{m.Key}
	}
	if m.priority > 0 {
		h["TARRY-PRIORITY"] = []string{strconv.Itoa(m.priority)}
	}
	return &nats.Msg{Subject: prefix + "." + m.subject, Header: h, Data: m.Body}
}

// Json is the message as HTTP takes it.
func (m *Message) Json() map[string]any {
	fields := map[string]any{"topic": m.subject}
	list := map[string]any{}
	for name, values := range m.header {
		if list[name] = values; len(values) == 1 {
			list[name] = values[0]
		}
	}
	fields["headers"] = list
	switch {
	case len(m.Body) == 0:
	case utf8.Valid(m.Body):
		fields["body"] = string(m.Body)
	default:
		fields["body_base64"] = base64.StdEncoding.EncodeToString(m.Body)
	}
	switch {
	case m.At.IsZero() && m.Seq%3 == 0:
		fields["delay_ms"] = m.delay.Milliseconds()
	case m.At.IsZero():
		fields["delay"] = m.text
	case m.Seq%2 == 0:
		fields["at"] = m.At.UnixMilli()
	default:
		fields["at"] = m.At.Format(time.RFC3339Nano)
	}
	if m.Id != "" {
		fields["id"] = m.Id
	}
	if m.Key != "" {
		fields["key"] = m.Key
	}
	if m.priority > 0 {
		fields["priority"] = m.priority
	}
	return fields
}
