package bridge

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/scheduler"
)

// The server's codes whose class its HTTP-like code does not tell.
const (
	codeDuplicateInProcess = 10158 // an earlier publish of the same id is still under way
	codeAccountResources   = 10002 // 400, but an operator can raise it
	codeStreamNotFound     = 10059
	codeConsumerNotFound   = 10014
	codeStreamMismatch     = 10060 // 400: the stream that holds the subject is another one now
	codeStoreFailed        = 10077 // the stream's store said no: full, or it could not write
)

// fullStore is how a store says that a message does not fit. It says so before
// anything is written, on every replica.
var fullStore = [...]string{
	"maximum messages exceeded", "maximum bytes exceeded", "maximum messages per subject exceeded", "message too large",
}

// classify turns a stream's refusal into an outcome. What time or an operator
// can heal is tried again; what is wrong with the message itself is refused.
// Nothing was stored, but where a write failed: the server says so after the
// replicas agreed on the message, and another one may have written it. surprise
// asks for a new look at the routes.
func classify(e *streamError) (kind scheduler.OutcomeKind, surprise bool) {
	switch e.ErrCode {
	case codeDuplicateInProcess:
		return scheduler.Unknown, false
	case codeStoreFailed:
		if !slices.Contains(fullStore[:], e.Description) {
			return scheduler.Unknown, false
		}
	case codeAccountResources:
		return scheduler.Unanswered, false
	case codeStreamNotFound, codeStreamMismatch:
		return scheduler.Unanswered, true
	}
	if e.Code == http.StatusTooManyRequests || e.Code >= http.StatusInternalServerError {
		return scheduler.Unanswered, false
	}
	return scheduler.Refused, false
}

// classifySend turns an error of the client's publish into an outcome. Only a
// failed write leaves a doubt: a part may have reached the server.
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

// denied reads a permission violation: the subject, and what was asked of it.
type denied struct {
	subject string
	verb    string // "Publish", "Publish with Reply" or "Subscription"
}

// parseDenied reads nats.go's text of a permission violation, which quotes the
// server's: Permissions Violation for Publish to "orders.created".
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
