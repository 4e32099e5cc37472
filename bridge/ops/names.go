package ops

import "time"

// The fields of requests that are none of a push.
const (
	FieldShift     = "shift"
	FieldVersion   = "version"
	FieldDueFrom   = "due_from"
	FieldDueTo     = "due_to"
	FieldAccepted  = "accepted_to"
	FieldAll       = "all"
	FieldIDs       = "ids"
	FieldFrom      = "from"
	FieldTo        = "to"
	FieldOlder     = "older"
	FieldOverdue   = "overdue"
	FieldDetail    = "detail"
	FieldDryRun    = "dry_run"
	FieldRate      = "rate"
	FieldRepair    = "repair"
	FieldRevive    = "revive"
	FieldSince     = "since"
	FieldUntil     = "until"
	FieldStep      = "step"
	FieldBy        = "by"
	FieldTop       = "top"
	FieldState     = "state"
	FieldHeld      = "held"
	FieldKind      = "kind"
	FieldWho       = "who"
	FieldWhat      = "what"
	FieldCause     = "cause"
	FieldSpread    = "spread"
	FieldName      = "name"
	FieldLimit     = "limit"
	FieldCursor    = "cursor"
	FieldInstance  = "instance"
	FieldSequence  = "sequence"
	FieldSequences = "sequences"
	FieldSet       = "set"
	FieldDrop      = "drop"
	FieldMax       = "max"
	FieldWait      = "wait"
	FieldConsumer  = "consumer"
	FieldMaxBytes  = "max_bytes"
	FieldTopics    = "topics"
	FieldToken     = "attempt"
	FieldSending   = "sending"
	FieldReceipt   = "receipt"
	FieldReceipts  = "receipts"
)

// The stable words of their refusals. The word for an invalid field that is not listed is "invalid_" followed by its
// name.
const (
	WordNoChange         = "missing_change"
	WordIfMatch          = "invalid_if_match"
	WordSelection        = "empty_selection"
	WordDueFrom          = "invalid_due_from"
	WordCursor           = "invalid_cursor"
	WordStep             = "invalid_step"
	WordUntil            = "invalid_until"
	WordQuery            = "invalid_query"
	WordUnknownParameter = "unknown_parameter"
	WordReceipt          = "unknown_receipt" // with 404
)

// The limits of requests.
const (
	MaxIDs       = 1000 // messages that one order names
	MaxRate      = 1_000_000
	MaxPull      = 1000 // messages of one pull, and receipts of one settlement
	MaxTopics    = 32   // of one pull
	MaxConsumer  = 64   // bytes
	MaxSendings  = 10   // of one attempt
	MaxWait      = time.Minute
	PullBytes    = 4 << 20 // max_bytes by default
	MaxPullBytes = 64 << 20
)
