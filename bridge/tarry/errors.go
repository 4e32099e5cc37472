package tarry

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// ErrNoIntake: no stream holds the intake subjects and no instance answers, so nothing was stored. Where the error
// names another stream that stored the message, tarry will not see it either.
var ErrNoIntake = errors.New("tarry: nothing takes delayed messages here")

// ErrOutcomeUnknown: no answer came in time, and what was asked for may have been done or not. Publishing a message
// again is safe where it has a Tarry-Id, since the same content under the same id is stored once.
var ErrOutcomeUnknown = errors.New("tarry: outcome unknown, no answer in time")

// ErrCopy: the message is a copy of one that is dead or expired, and a copy is not tried again.
var ErrCopy = errors.New("tarry: the message is a copy of one that ended")

// The answers of tarry that a program distinguishes, with errors.Is. What they mean for a cancel or a change:
var (
	// ErrUnknownID: no such message is known. No promise is made about it.
	ErrUnknownID = &Error{Word: "unknown_id", Detail: "no message with this id is known"}
	// ErrAmbiguousID: two live messages have this id, under different keys. Give the key too.
	ErrAmbiguousID = &Error{Word: "ambiguous_id", Detail: "several messages have this id"}
	// ErrVersionMismatch: the message has changed since the version that was named; Error.Version is the one it has.
	ErrVersionMismatch = &Error{Word: "version_mismatch", Detail: "the message has another version"}
	// ErrInFlight: it is leaving at this moment. Ask again to learn how that ended.
	ErrInFlight = &Error{Word: "in_flight", Detail: "the message is being delivered"}
	// ErrAlreadyDelivered: consumers have it, since Error.At.
	ErrAlreadyDelivered = &Error{Word: "already_delivered", Detail: "the message was delivered"}
	// ErrAlreadyExpired: its TTL ended it at Error.At.
	ErrAlreadyExpired = &Error{Word: "already_expired", Detail: "the message expired"}
	// ErrAlreadyDead: it could not be delivered and was given up at Error.At.
	ErrAlreadyDead = &Error{Word: "already_dead", Detail: "the message was given up"}
	// ErrAlreadyCanceled: it was canceled at Error.At.
	ErrAlreadyCanceled = &Error{Word: "already_canceled", Detail: "the message was canceled"}
	// ErrNotDead: only a dead message can be requeued.
	ErrNotDead = &Error{Word: "not_dead", Detail: "the message is not dead"}
	// ErrMaybeDelivered: an earlier attempt may have reached consumers. A canceled message will not be tried again; of
	// a change or a replacement nothing was done.
	ErrMaybeDelivered = &Error{Word: "maybe_delivered", Detail: "the message may have been delivered"}
	// ErrDuplicateID: the id belongs to a message with other content, which is topic, data, headers, options, and the
	// delay or time as given. Another id helps, [OnDuplicate], or [Client.Reschedule].
	ErrDuplicateID = &Error{Word: "duplicate_id", Detail: "another message has this id"}
)

// WordRequest refuses a tag on a request, WordReply one beside a reply subject, WordOptions one beside publish options,
// and WordRetry a name or a key for a retry. The other words of refusals that come from this package are those of the
// daemon, see [Error].
const (
	WordRequest = "tag_on_request"
	WordReply   = "tag_with_reply"
	WordOptions = "tag_with_options"
	WordRetry   = "tag_on_retry"
)

// Error refuses a message or a request, before anything was stored. Word is stable and for programs:
//
//	missing_delay delay_and_at invalid_delay invalid_at invalid_topic invalid_id invalid_key invalid_priority
//	invalid_ttl invalid_attempt invalid_on_duplicate invalid_max_wait invalid_retry invalid_deliver invalid_header
//	unknown_header repeated_header too_large unsupported_yet tag_on_request tag_with_reply tag_with_options
//	tag_on_retry
//
// come from this package, further ones (see the variables above) from an instance that was asked.
type Error struct {
	Word   string `json:"error"`
	Field  string `json:"-"` // the header at fault; empty where an instance answered
	Detail string // for people, with the limit

	// What an instance answers about the message in the way; the zero value where it does not.
	ID, UID string
	State   State
	At      time.Time
	Version uint64
	// Bucket is the bucket that does not answer while others do; nil of any other problem.
	Bucket *int
	// Report is what an operation on many had done before it failed.
	Report *Report
	// Candidates are the messages that an ambiguous id may mean.
	Candidates []Candidate
}

// Candidate is a message that an ambiguous id may mean.
type Candidate struct {
	Topic string `json:"topic"`
	Key   string `json:"key"`
	UID   string `json:"uid"`
	State State  `json:"state"`
}

// Error is one line that names the field and the limit.
func (e *Error) Error() string {
	if e.Field == "" {
		return "tarry: " + e.Detail
	}
	return "tarry: " + e.Field + " " + e.Detail
}

// Is makes errors.Is compare by word.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Field == "" && t.Word == e.Word
}

// Unwrap lets a producer that looks for nats.ErrMaxPayload go on doing so.
func (e *Error) Unwrap() error {
	if e.Word == wire.WordTooLarge && e.Field == wire.FieldBody {
		return nats.ErrMaxPayload
	}
	return nil
}

// refusal turns an error of the shared rules, which are all of one kind, into one of this package.
func refusal(err error) *Error {
	var e *wire.Error
	if !errors.As(err, &e) {
		return &Error{Word: wire.WordHeader, Detail: err.Error()}
	}
	return &Error{Word: e.Word, Field: e.Field, Detail: e.Detail}
}
