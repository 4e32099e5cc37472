package journal

import (
	"encoding/binary"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// riderForm is the first byte of headers that something rides on: what few
// messages have is no column. After the form come the origin (uvarint length and
// text), the jitter of the retry schedule (a byte), its delays (uvarint count, then
// uvarint ms each), and the headers as in headersForm.
const riderForm = 2

// packContent writes a message's headers, with its origin and retry schedule
// where it has any.
func packContent(m *scheduler.Message) []byte {
	if m.Origin == "" && m.Retry.Empty() {
		return packHeaders(m.Headers)
	}
	packed := []byte{riderForm}
	packed = binary.AppendUvarint(packed, uint64(len(m.Origin)))
	packed = append(packed, m.Origin...)
	packed = append(packed, m.Retry.Jitter)
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
func unpackContent(packed []byte, m *scheduler.Message) (err error) {
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
		m.Origin, rest = scheduler.UID(rest[:n]), rest[n:]
	}
	if len(rest) == 0 {
		return errHeaders
	}
	m.Retry.Jitter, rest = rest[0], rest[1:]
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
