package journal

import (
	"encoding/binary"
	"errors"

	"github.com/tarry-mq/tarry/scheduler"
)

// headersForm is the first byte of packed headers. Without headers nothing is
// packed at all.
const headersForm = 1

var errHeaders = errors.New("packed headers are damaged")

// packHeaders writes headers as one blob: the form, then for each name and each
// value its length (uvarint) and its bytes, whatever they are.
func packHeaders(headers []scheduler.Header) []byte {
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
func unpackHeaders(packed []byte) ([]scheduler.Header, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	if packed[0] != headersForm {
		return nil, errHeaders
	}
	var headers []scheduler.Header
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
		headers = append(headers, scheduler.Header{Name: texts[0], Value: texts[1]})
	}
	return headers, nil
}

// packedBytes is how many bytes packed headers have, at most.
func packedBytes(headers []scheduler.Header) int {
	return 1 + headersSize(headers) + 2*binary.MaxVarintLen32*len(headers)
}

// headersSize is how many bytes names and values have together.
func headersSize(headers []scheduler.Header) int {
	n := 0
	for _, h := range headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}
