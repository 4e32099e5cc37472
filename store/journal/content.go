package journal

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// How values fit into columns. No row may be refused for its data, which would block all rows after it. So texts are
// made valid and truncated to their columns, numbers have columns that hold all their values, and ttl rounds up.
const (
	nameBytes   = 255  // topic, id, key, stream, instance, address: VARCHAR(255)
	reasonBytes = 1024 // VARCHAR(1024)
)

// text returns s as valid UTF-8 of at most limit bytes. The API and the intake have checked user input: topics, ids and
// keys are unchanged.
func text(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

func name(s string) string { return text(s, nameBytes) }

// number converts an unsigned number for a signed column. The scheduler's counts stay far below 2^63; larger numbers
// would still be read back unchanged.
func number(n uint64) int64 { return int64(n) }

// bit returns a bool as a column holds it.
func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// unlessZero returns a number, or NULL for 0, which takes no room in a row.
func unlessZero(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// unlessEmpty returns a text, or NULL for an empty one.
func unlessEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob returns b, but never nil, which would be NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// millis returns a duration in whole milliseconds, rounded up: 0 would mean for ever.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// endedAt returns when a change ended its message, or nil if it did not.
func endedAt(c *record.Change) any {
	if !c.State.Ended() {
		return nil
	}
	return int64(c.At)
}

// headersForm is the first byte of packed headers. A message without headers has an empty blob.
const headersForm = 1

var errHeaders = errors.New("packed headers are damaged")

// packHeaders packs headers into one blob: the form, then for each name and each value its length (uvarint) and its
// bytes, of any values.
func packHeaders(headers []message.Header) []byte {
	if len(headers) == 0 {
		return []byte{}
	}
	packed := make([]byte, 1, packedBytes(headers))
	packed[0] = headersForm
	for _, h := range headers {
		for _, text := range [...]string{h.Name, h.Value} {
			packed = binary.AppendUvarint(packed, uint64(len(text)))
			packed = append(packed, text...)
		}
	}
	return packed
}

// unpackHeaders is the inverse of packHeaders.
func unpackHeaders(packed []byte) ([]message.Header, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	if packed[0] != headersForm {
		return nil, errHeaders
	}
	var headers []message.Header
	for rest := packed[1:]; len(rest) > 0; {
		var texts [2]string
		for i := range texts {
			length, n := binary.Uvarint(rest)
			if n <= 0 || length > uint64(len(rest)-n) {
				return nil, errHeaders
			}
			texts[i] = string(rest[n : n+int(length)])
			rest = rest[n+int(length):]
		}
		headers = append(headers, message.Header{Name: texts[0], Value: texts[1]})
	}
	return headers, nil
}

// packedBytes returns an upper bound of the size of packed headers.
func packedBytes(headers []message.Header) int {
	return 1 + headersSize(headers) + 2*binary.MaxVarintLen32*len(headers)
}

// headersSize returns the total bytes of names and values.
func headersSize(headers []message.Header) int {
	n := 0
	for _, h := range headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

// riderForm is the first byte of headers that carry further fields: rare fields have no columns of their own. After the
// form come the origin (uvarint length and text), the jitter of the retry schedule (a byte, noRetry for no retry), its
// delays (uvarint count, then uvarint ms each), and the headers as in headersForm.
const (
	riderForm = 2
	noRetry   = 255
)

// packContent packs a message's headers, with its origin and retry schedule if it has any.
func packContent(m *message.Message) []byte {
	if m.Origin == "" && m.Retry.Empty() {
		return packHeaders(m.Headers)
	}
	packed := []byte{riderForm}
	packed = binary.AppendUvarint(packed, uint64(len(m.Origin)))
	packed = append(packed, m.Origin...)
	jitter := m.Retry.Jitter
	if m.Retry.None {
		jitter = noRetry
	}
	packed = append(packed, jitter)
	packed = binary.AppendUvarint(packed, uint64(len(m.Retry.Delays)))
	for _, d := range m.Retry.Delays {
		packed = binary.AppendUvarint(packed, uint64(d/time.Millisecond))
	}
	if len(m.Headers) > 0 {
		packed = append(packed, packHeaders(m.Headers)[1:]...)
	}
	return packed
}

// unpackContent is the inverse of packContent.
func unpackContent(packed []byte, m *message.Message) (err error) {
	if len(packed) == 0 || packed[0] != riderForm {
		m.Headers, err = unpackHeaders(packed)
		return err
	}
	rest, bad := packed[1:], false
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			bad = true
			return 0
		}
		rest = rest[n:]
		return v
	}
	if n := number(); bad || n > uint64(len(rest)) {
		return errHeaders
	} else if n > 0 {
		m.Origin, rest = message.UID(rest[:n]), rest[n:]
	}
	if len(rest) == 0 {
		return errHeaders
	}
	if m.Retry.Jitter, rest = rest[0], rest[1:]; m.Retry.Jitter == noRetry {
		m.Retry = message.Retry{None: true}
	}
	for range min(number(), uint64(len(packed))) {
		ms := number()
		if bad || ms > uint64(1<<62/time.Millisecond) {
			return errHeaders
		}
		m.Retry.Delays = append(m.Retry.Delays, time.Duration(ms)*time.Millisecond)
	}
	if bad {
		return errHeaders
	}
	if len(rest) > 0 {
		m.Headers, err = unpackHeaders(append([]byte{headersForm}, rest...))
	}
	return err
}
