package bridge

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// errNotAside: a message in the stream of pushes that stepped aside is none.
var errNotAside = errors.New("it is not a push that an instance put aside")

// asideForm is the first byte; it distinguishes this form from a later one.
const asideForm = 1

// encodeAside packs a push and its place in the intake into one body. Its headers
// are packed too: as headers they would act on the stream that keeps it, and a
// Nats-Expected-Last-Sequence that once passed would refuse it here.
//
//	form, sequence, nanoseconds, subject, number of header values, then name and value of each, body
//
// Texts have their length in front; numbers are varints.
func encodeAside(msg *nats.Msg, place stored) []byte {
	b := make([]byte, 0, len(msg.Data)+len(msg.Subject)+256)
	b = binary.AppendUvarint(append(b, asideForm), place.sequence)
	b = binary.AppendVarint(b, place.at.UnixNano())
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(msg.Subject)
	n := 0
	for _, values := range msg.Header {
		n += len(values)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for name, values := range msg.Header {
		for _, v := range values {
			text(name)
			text(v)
		}
	}
	return append(b, msg.Data...)
}

// decodeAside reads what encodeAside packed.
func decodeAside(b []byte) (msg *nats.Msg, place stored, err error) {
	if len(b) == 0 || b[0] != asideForm {
		return nil, stored{}, errNotAside
	}
	b = b[1:]
	good := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			good = false
			return 0
		}
		b = b[n:]
		return v
	}
	text := func() string {
		n := number()
		if !good || n > uint64(len(b)) {
			good = false
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	place.sequence = number()
	nanos, n := binary.Varint(b)
	if n <= 0 {
		return nil, stored{}, errNotAside
	}
	b = b[n:]
	place.at = time.Unix(0, nanos)
	msg = nats.NewMsg(text())
	for left := number(); good && left > 0; left-- {
		name, value := text(), text()
		msg.Header[name] = append(msg.Header[name], value)
	}
	if !good || place.sequence == 0 {
		return nil, stored{}, errNotAside
	}
	msg.Data = slices.Clone(b)
	return msg, place, nil
}
