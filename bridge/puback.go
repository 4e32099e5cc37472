package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// pubAck is a stream's answer to a publish.
type pubAck struct {
	stream    []byte // shares the answer's memory
	sequence  uint64
	duplicate bool
	err       *streamError // nil where the stream has the message
}

// streamError is a stream's refusal.
type streamError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// Error names the server's own code, for the operator who looks it up.
func (e *streamError) Error() string {
	return fmt.Sprintf("stream: %s (%d, %d)", e.Description, e.Code, e.ErrCode)
}

// parsePubAck reads an acknowledgement; the common form by hand. ok is false
// for what is no acknowledgement at all: a consumer's reply.
func parsePubAck(data []byte) (ack pubAck, ok bool) {
	if ack, ok = quickPubAck(data); ok {
		return ack, true
	}
	if len(data) == 0 || data[0] != '{' || len(data) > maxPubAck {
		return pubAck{}, false
	}
	var full struct {
		Stream    string       `json:"stream"`
		Seq       uint64       `json:"seq"`
		Duplicate bool         `json:"duplicate"`
		Error     *streamError `json:"error"`
	}
	if err := json.Unmarshal(data, &full); err != nil {
		return pubAck{}, false
	}
	if full.Error != nil {
		return pubAck{stream: []byte(full.Stream), err: full.Error}, full.Error.Code != 0 && full.Error.ErrCode != 0
	}
	return pubAck{stream: []byte(full.Stream), sequence: full.Seq, duplicate: full.Duplicate},
		full.Stream != "" && full.Seq > 0
}

// maxPubAck bounds what may be an acknowledgement: a stream's name has at most
// 255 bytes, the description of an error is a line.
const maxPubAck = 4096

// quickPubAck reads {"stream":"NAME","seq":12} and the same with a domain or
// duplicate, as every server version writes it, where the names are plain
// ASCII. Whatever it reads, encoding/json reads the same way.
func quickPubAck(data []byte) (ack pubAck, ok bool) {
	rest, found := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !found {
		return pubAck{}, false
	}
	if ack.stream, rest, found = cutPlain(rest); !found {
		return pubAck{}, false
	}
	if domain, has := bytes.CutPrefix(rest, []byte(`,"domain":"`)); has {
		if _, rest, found = cutPlain(domain); !found {
			return pubAck{}, false
		}
	}
	if rest, found = cutField(rest, `"seq":`); !found {
		return pubAck{}, false
	}
	i := 0
	for ; i < len(rest) && '0' <= rest[i] && rest[i] <= '9' && i < 19; i++ {
		ack.sequence = ack.sequence*10 + uint64(rest[i]-'0')
	}
	if i == 0 || rest[0] == '0' {
		return pubAck{}, false
	}
	switch rest = rest[i:]; {
	case string(rest) == "}":
		return ack, true
	case string(rest) == `,"duplicate": true}`, string(rest) == `,"duplicate":true}`:
		ack.duplicate = true
		return ack, true
	}
	return pubAck{}, false
}

// cutPlain cuts a string's content and its closing quote; found is false for
// an empty one and for one that is not printable ASCII or has an escape.
func cutPlain(b []byte) (text, rest []byte, found bool) {
	for i, c := range b {
		switch {
		case c == '"':
			return b[:i:i], b[i+1:], i > 0
		case c < ' ' || c > '~' || c == '\\':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// cutField cuts a comma, blanks and the field's name.
func cutField(b []byte, name string) ([]byte, bool) {
	b, found := bytes.CutPrefix(b, []byte(","))
	if !found {
		return nil, false
	}
	b, found = bytes.CutPrefix(bytes.TrimLeft(b, " "), []byte(name))
	return bytes.TrimLeft(b, " "), found
}
