// Code generated from bridge/wire by go generate; DO NOT EDIT.

package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// HeaderBatch says how many messages a request to the direct door carries, if it carries several.
const HeaderBatch = "Tarry-Batch"

// MaxBatchDoor bounds the messages of a request to the direct door.
const MaxBatchDoor = 500

// BatchPart is one message of a request to the direct door: its header block, as NATS writes it, and its body.
type BatchPart struct{ Header, Body []byte }

// AppendBatchPart appends a message to the body of a request to the direct door. A batch is, for each message, the
// length of its header block in four bytes, big-endian, the header block, the length of its body likewise, and the
// body.
func AppendBatchPart(b []byte, p BatchPart) []byte {
	for _, part := range [][]byte{p.Header, p.Body} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return b
}

// DecodeBatchParts reads the body of a request to the direct door; count is its HeaderBatch. The parts share b's
// memory.
func DecodeBatchParts(count string, b []byte) ([]BatchPart, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > MaxBatchDoor {
		return nil, &Error{Word: WordTooLarge, Field: HeaderBatch,
			Detail: fmt.Sprintf("is %s; want 1 to %d messages", Quote(count), MaxBatchDoor)}
	}
	parts := make([]BatchPart, n)
	for i := range parts {
		for _, part := range []*[]byte{&parts[i].Header, &parts[i].Body} {
			if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
				return nil, &Error{Word: WordBatch, Field: FieldBody,
					Detail: fmt.Sprintf("ends within message %d of %d", i+1, n)}
			}
			end := 4 + int(binary.BigEndian.Uint32(b))
			*part, b = b[4:end:end], b[end:]
		}
	}
	if len(b) > 0 {
		return nil, &Error{Word: WordBatch, Field: FieldBody,
			Detail: fmt.Sprintf("has %d bytes behind message %d, the last", len(b), n)}
	}
	return parts, nil
}
