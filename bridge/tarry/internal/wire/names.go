// Code generated from bridge/wire by go generate; DO NOT EDIT.

package wire

import "time"

// The limits on what a producer may ask for. Each is named in the error that refuses the excess.
const (
	MaxSubject  = 255                    // bytes of a topic, the intake prefix not counted
	MaxPrefix   = 64                     // bytes of the intake prefix
	MaxID       = 128                    // bytes of a client id
	MaxKey      = 128                    // bytes of a key
	MaxHeaders  = 32 << 10               // bytes of all user headers as sent on the wire
	MaxAttempt  = 65535                  // the highest number for a consumer's retry
	MaxPriority = 255                    // the highest leaves first
	MaxDelay    = 3653 * 24 * time.Hour  // ten years, leap days included; also the longest TTL and max_wait
	LeastLease  = 100 * time.Millisecond // how long a consumer may hold a message, at least
	MostLease   = 12 * time.Hour         // and at most
	maxTimeText = 64                     // bytes of a delay, a time or a TTL as text
	maxUIDText  = 64                     // the longest uid; reserves room in a delivered message

	// SecondsBelow is the number below which an integer time is taken for seconds and refused: as milliseconds it would
	// lie before March 1973, as seconds it reaches the year 5138.
	SecondsBelow = 100_000_000_000
)

// The headers that carry tags. Names match without case; tarry writes these spellings.
const (
	HeaderDelay       = "Tarry-Delay"
	HeaderAt          = "Tarry-At"
	HeaderID          = "Tarry-Id"
	HeaderKey         = "Tarry-Key"
	HeaderOnDuplicate = "Tarry-On-Duplicate"
	HeaderMaxWait     = "Tarry-Max-Wait"
	HeaderPriority    = "Tarry-Priority"
	HeaderTTL         = "Tarry-TTL"
	HeaderRetry       = "Tarry-Retry"
	HeaderDeliver     = "Tarry-Deliver"
	HeaderLease       = "Tarry-Lease"
	HeaderAttempt     = "Tarry-Attempt"
	// HeaderUID names a push that may have been stored, so that it can be repeated. It also stands on the answer of
	// HTTP that leaves the outcome unknown. A push that the intake stored needs none.
	HeaderUID = "Tarry-Uid"

	// tarry writes these headers on the messages it delivers or rejects, and drops them from a push.
	HeaderDue     = "Tarry-Due"
	HeaderSubject = "Tarry-Subject" // the topic, on a message published on another subject
	// HeaderOnce is a secret of one delivery: the Nats-Msg-Id of its retry is made from it. A stream judges those over
	// all of its subjects, so a client that may publish on another could take the id of a retry that can be guessed.
	HeaderOnce = "Tarry-Once"

	// HeaderReason holds a reason. tarry writes it on a reject. On a consumer's retry the consumer writes it, and it is
	// delivered with the retry. From any other push it is dropped.
	HeaderReason = "Tarry-Reason"
	// HeaderIncomplete is "true" on a reject that lacks a part of the original message.
	HeaderIncomplete = "Tarry-Incomplete"

	// HeaderMsgID is the deduplication header of NATS. On the intake it names one publish of the client; on a delivered
	// message it is the uid.
	HeaderMsgID = "Nats-Msg-Id"

	// headerStatus is the header of the server's status messages, which have no body.
	headerStatus = "Status"
)

// The fields of a push by their JSON names, which errors use when no header is involved.
const (
	FieldTopic       = "topic"
	FieldHeaders     = "headers"
	FieldBody        = "body"
	FieldDelay       = "delay"
	FieldAt          = "at"
	FieldID          = "id"
	FieldKey         = "key"
	FieldOnDuplicate = "on_duplicate"
	FieldMaxWait     = "max_wait"
	FieldPriority    = "priority"
	FieldTTL         = "ttl"
	FieldRetry       = "retry"
	FieldDeliver     = "deliver"
	FieldLease       = "lease"
	FieldAttempt     = "attempt"
	FieldUID         = "uid"
	FieldReason      = "reason"
)

// DefaultPrefix is the first part of every intake subject unless the settings name another.
const DefaultPrefix = "delayed"

// options lists every field that a tag can set, in the order in which they are checked, so that a push with two errors
// always gets the same answer.
var options = [...]struct{ field, header string }{
	{FieldRetry, HeaderRetry},
	{FieldMaxWait, HeaderMaxWait},
	{FieldDelay, HeaderDelay},
	{FieldAt, HeaderAt},
	{FieldID, HeaderID},
	{FieldKey, HeaderKey},
	{FieldOnDuplicate, HeaderOnDuplicate},
	{FieldDeliver, HeaderDeliver},
	{FieldLease, HeaderLease},
	{FieldPriority, HeaderPriority},
	{FieldTTL, HeaderTTL},
	{FieldAttempt, HeaderAttempt},
	{FieldUID, HeaderUID},
}
