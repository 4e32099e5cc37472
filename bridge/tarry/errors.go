package tarry

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// ErrNoIntake: no stream holds the intake subjects and no instance answers, so nothing was stored. If the error names
// another stream that stored the message, tarry does not see that message.
var ErrNoIntake = errors.New("tarry: nothing takes delayed messages here")

// ErrNoInstance: no instance answers a request, which did nothing. What was published by tag is stored all the same.
var ErrNoInstance = errors.New("tarry: no instance answers")

// ErrOutcomeUnknown: no answer arrived in time, and the operation may or may not have taken effect. Publishing a
// message again is safe if it has a Tarry-Id, since the same content under the same id is stored once. One that merges
// (Tarry-On-Duplicate) may be delivered meanwhile, and would then be a new message: set the UID of the *Error, if there
// is one, as Tarry-Uid.
var ErrOutcomeUnknown = errors.New("tarry: outcome unknown, no answer in time")

// ErrCopy: the message is a copy of a dead or expired message, and copies are not retried.
var ErrCopy = errors.New("tarry: the message is a copy of one that ended")

// The errors that a program distinguishes with errors.Is. For a cancel or a change they mean:
var (
	// ErrUnknownID: no such message is known. The answer promises nothing.
	ErrUnknownID = &Error{Word: "unknown_id", Detail: "no message with this id is known"}
	// ErrInIntake: no such message is known by now, and tarry's intake may hold a push of it. Call again.
	ErrInIntake = &Error{Word: "in_intake", Detail: "no message with this id is known by now; it may be on its way"}
	// ErrAmbiguousID: messages of several topics or keys have this id. Set Topic and Key too.
	ErrAmbiguousID = &Error{Word: "ambiguous_id", Detail: "several messages have this id"}
	// ErrVersionMismatch: the message does not have the given version; Error.Version is the version that it has.
	ErrVersionMismatch = &Error{Word: "version_mismatch", Detail: "the message has another version"}
	// ErrInFlight: the message is being delivered at this moment. Call again to learn the outcome.
	ErrInFlight = &Error{Word: "in_flight", Detail: "the message is being delivered"}
	// ErrAlreadyDelivered: the message was delivered at Error.At.
	ErrAlreadyDelivered = &Error{Word: "already_delivered", Detail: "the message was delivered"}
	// ErrAlreadyExpired: the message expired at Error.At because its TTL had ended.
	ErrAlreadyExpired = &Error{Word: "already_expired", Detail: "the message expired"}
	// ErrAlreadyDead: the message could not be delivered and is dead since Error.At.
	ErrAlreadyDead = &Error{Word: "already_dead", Detail: "the message was given up"}
	// ErrAlreadyCanceled: the message was canceled at Error.At.
	ErrAlreadyCanceled = &Error{Word: "already_canceled", Detail: "the message was canceled"}
	// ErrNotDead: only a dead message can be requeued.
	ErrNotDead = &Error{Word: "not_dead", Detail: "the message is not dead"}
	// ErrMaybeDelivered: an earlier attempt may have reached consumers. After a cancel the message is not tried again;
	// a change or a replacement changed nothing.
	ErrMaybeDelivered = &Error{Word: "maybe_delivered", Detail: "the message may have been delivered"}
	// ErrNotJournaled: a message that was pulled is settled, and the journal, for which answers wait, does not have that
	// yet. The same again, a while later, says whether it has.
	ErrNotJournaled = &Error{Word: "not_journaled", Detail: "it is settled, and the journal does not have that yet"}
	// ErrDuplicateID: the id belongs to a message with other content, which is topic, data, headers, options, and the
	// delay or time as given. Use another id, [OnDuplicate], or [Client.Reschedule].
	ErrDuplicateID = &Error{Word: "duplicate_id", Detail: "another message has this id"}
)

// WordRequest refuses a tag on a request, WordReply a tag with a reply subject, WordOptions a tag with publish options,
// and WordRetry a name or a key for a retry. The other words that this package uses are those of the daemon, see
// [Error].
const (
	WordRequest = "tag_on_request"
	WordReply   = "tag_with_reply"
	WordOptions = "tag_with_options"
	WordRetry   = "tag_on_retry"
)

// Error is the refusal of a message or a request. Word is stable and meant for programs. The words
//
//	missing_delay delay_and_at invalid_delay invalid_at invalid_topic invalid_id invalid_key invalid_priority
//	invalid_ttl invalid_attempt invalid_on_duplicate invalid_max_wait invalid_retry invalid_deliver invalid_header
//	unknown_header repeated_header too_large unsupported_yet tag_on_request tag_with_reply tag_with_options
//	tag_on_retry
//
// are set by this package, others (see the variables above) by the instance that answered.
type Error struct {
	Word   string `json:"error"`
	Field  string `json:"-"` // the header at fault; empty where an instance answered
	Detail string // for people, with the limit

	// The message that prevents the operation, as an instance describes it; zero values if the answer describes none.
	ID, UID string
	State   State
	At      time.Time
	Version uint64
	// Intake is "unknown" if the message has ended, and tarry's intake may hold a later push of its name. Buried means
	// that a cancel of an unknown id is remembered: a push of it that was in the intake by then is accepted as canceled.
	Intake string
	Buried bool
	// Bucket is the bucket that does not answer while others do; nil for any other problem.
	Bucket *int
	// Report is what an operation on many had done before it failed.
	Report *Report
	// Candidates are the messages that an ambiguous id may refer to.
	Candidates []Candidate
}

// Candidate is a message that an ambiguous id may refer to.
type Candidate struct {
	Topic string `json:"topic"`
	Key   string `json:"key"`
	UID   string `json:"uid"`
	State State  `json:"state"`
}

// Error returns one line that names the field and the limit.
func (e *Error) Error() string {
	if e.Field == "" {
		return "tarry: " + e.Detail
	}
	return "tarry: " + e.Field + " " + e.Detail
}

// Is reports whether target has the same word, for errors.Is.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Field == "" && t.Word == e.Word
}

// Unwrap lets errors.Is still find nats.ErrMaxPayload.
func (e *Error) Unwrap() error {
	if e.Word == wire.WordTooLarge && e.Field == wire.FieldBody {
		return nats.ErrMaxPayload
	}
	return nil
}

// refusal converts an error of the shared rules, which all have one type, into an error of this package.
func refusal(err error) *Error {
	var e *wire.Error
	if !errors.As(err, &e) {
		return &Error{Word: wire.WordHeader, Detail: err.Error()}
	}
	return &Error{Word: e.Word, Field: e.Field, Detail: e.Detail}
}
