package wire

import "time"

// The limits of what a producer may ask for. Each stands in the error that refuses the excess.
const (
	MaxSubject  = 255                   // bytes of a topic, the intake prefix not counted
	MaxPrefix   = 64                    // bytes of the intake prefix
	MaxID       = 128                   // bytes of a client id
	MaxKey      = 128                   // bytes of a business key
	MaxHeaders  = 32 << 10              // bytes of all user headers as they stand on the wire
	MaxAttempt  = 65535                 // the highest number of a consumer's retry
	MaxPriority = 255                   // high first
	MaxDelay    = 3653 * 24 * time.Hour // ten years, leap days included; also the longest TTL and max_wait
	maxTimeText = 64                    // bytes of a delay, a time or a TTL as text
	maxUIDText  = 64                    // no uid is longer; used to reserve room in a delivered message

	// SecondsBelow is the number under which an integer time is taken for seconds and refused: as milliseconds it would
	// lie before March 1973, as seconds it reaches the year 5138.
	SecondsBelow = 100_000_000_000
)

// The headers that carry tags. Names match without case; these are the spellings tarry writes.
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
	HeaderAttempt     = "Tarry-Attempt"

	// Written by tarry on what it delivers or rejects; dropped from a push.
	HeaderDue     = "Tarry-Due"
	HeaderSubject = "Tarry-Subject" // the topic, on what left elsewhere

	// HeaderReason says why. Tarry writes it on what it rejects; on a consumer's retry the consumer does, and it is
	// delivered with the retry. From any other push it is dropped.
	HeaderReason = "Tarry-Reason"
	// HeaderIncomplete stands, as true, on a reject that lacks a part of what was sent.
	HeaderIncomplete = "Tarry-Incomplete"

	// HeaderMsgID is the deduplication header of NATS. On the intake it names one publish of the client, on a delivered
	// message it is the uid.
	HeaderMsgID = "Nats-Msg-Id"

	// headerStatus is what the server's own words carry in place of a body.
	headerStatus = "Status"
)

// The fields of a push by their JSON names, as errors call them when no header is involved.
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
	FieldAttempt     = "attempt"
	FieldReason      = "reason"
)

// DefaultPrefix is the first part of every intake subject unless the settings name another.
const DefaultPrefix = "delayed"

// options lists every field that a tag can set, in the order in which they are judged, so that a push with two mistakes
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
	{FieldPriority, HeaderPriority},
	{FieldTTL, HeaderTTL},
	{FieldAttempt, HeaderAttempt},
}
