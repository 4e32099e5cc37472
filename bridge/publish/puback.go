package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

// pubAck is a stream's answer to a publish.
type pubAck struct {
	stream    []byte // shares the answer's memory
	sequence  uint64
	duplicate bool
	err       *link.StreamError // nil if the stream has the message
}

// parsePubAck reads an acknowledgement, the common form without encoding/json. ok is false for data that is no
// acknowledgement, like a consumer's reply.
func parsePubAck(data []byte) (ack pubAck, ok bool) {
	if ack, ok = quickPubAck(data); ok {
		return ack, true
	}
	if len(data) == 0 || data[0] != '{' || len(data) > maxPubAck {
		return pubAck{}, false
	}
	var full struct {
		Stream    string            `json:"stream"`
		Seq       uint64            `json:"seq"`
		Duplicate bool              `json:"duplicate"`
		Error     *link.StreamError `json:"error"`
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

// maxPubAck is the maximum size of an acknowledgement: a stream's name has at most 255 bytes, and an error's
// description is one line.
const maxPubAck = 4096

// quickPubAck reads {"stream":"NAME","seq":12} and the same with a domain or duplicate, as every server version writes
// it, where the names are plain ASCII. On the inputs that it accepts, encoding/json gives the same result.
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

// cutPlain cuts a string's content and its closing quote; found is false if the string is empty, has an escape or is
// not printable ASCII.
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

// The server's codes whose class does not follow from the HTTP-like code.
const (
	codeDuplicateInProcess = 10158 // an earlier publish of the same id is still under way
	codeAccountResources   = 10002 // 400, but an operator can raise the limit
	codeStreamMismatch     = 10060 // 400: another stream holds the subject now
	codeStoreFailed        = 10077 // the stream's store refused: it is full, or it could not write
)

// fullStore are the errors by which a store reports that a message does not fit. It does so before anything is written,
// on every replica.
var fullStore = [...]string{
	"maximum messages exceeded", "maximum bytes exceeded", "maximum messages per subject exceeded", "message too large",
}

// classify turns a stream's refusal into an outcome. Errors that time or an operator can resolve are retried; errors of
// the message itself refuse it. Nothing was stored, unless a write failed: the server reports that after the replicas
// agreed on the message, and another replica may have written it. surprise means that the routes should be read again.
func classify(e *link.StreamError) (kind scheduler.OutcomeKind, surprise bool) {
	switch e.ErrCode {
	case codeDuplicateInProcess:
		return scheduler.Unknown, false
	case codeStoreFailed:
		if !slices.Contains(fullStore[:], e.Description) {
			return scheduler.Unknown, false
		}
	case codeAccountResources:
		return scheduler.Unanswered, false
	case link.CodeStreamNotFound, codeStreamMismatch:
		return scheduler.Unanswered, true
	}
	if e.Code == http.StatusTooManyRequests || e.Code >= http.StatusInternalServerError {
		return scheduler.Unanswered, false
	}
	return scheduler.Refused, false
}

// classifySend turns an error of the client's publish into an outcome. Only a failed write is of unknown outcome: a
// part may have reached the server.
func classifySend(err error) scheduler.OutcomeKind {
	for _, permanent := range [...]error{nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg,
		nats.ErrHeadersNotSupported} {
		if errors.Is(err, permanent) {
			return scheduler.Refused
		}
	}
	for _, before := range [...]error{nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		nats.ErrReconnectBufExceeded, nats.ErrInvalidConnection} {
		if errors.Is(err, before) {
			return scheduler.NotSent
		}
	}
	return scheduler.Unknown
}

// denied is a permission violation: the subject, and the denied operation.
type denied struct {
	subject string
	verb    string // "Publish", "Publish with Reply" or "Subscription"
}

// parseDenied reads nats.go's text of a permission violation, which quotes the server's: Permissions Violation for
// Publish to "orders.created".
func parseDenied(err error) (denied, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return denied{}, false
	}
	_, rest, found := strings.Cut(err.Error(), "Permissions Violation for ")
	if !found {
		return denied{}, false
	}
	for verb, between := range map[string]string{"Publish": " to ", "Publish with Reply": " of ",
		"Subscription": " to "} {
		text, found := strings.CutPrefix(rest, verb+between)
		if !found {
			continue
		}
		if quoted, err := strconv.QuotedPrefix(text); err == nil {
			if subject, err := strconv.Unquote(quoted); err == nil {
				return denied{subject: subject, verb: verb}, true
			}
		}
	}
	return denied{}, false
}
