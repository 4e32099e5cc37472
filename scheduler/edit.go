package scheduler

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Edit describes how a reschedule changes a waiting message. Fields that are not set leave the message's values.
type Edit struct {
	// At most one of the three is set: At, Delay from now, or Shift from the present due time.
	At       message.Milli
	HasAt    bool
	Delay    time.Duration
	HasDelay bool
	Shift    time.Duration
	HasShift bool

	Priority    uint8
	HasPriority bool
	Headers     []message.Header
	HasHeaders  bool
	Body        []byte
	HasBody     bool

	// Version is the version that the message must have (If-Match), or 0 for any.
	Version uint64
	// Run makes the message due now, whatever the other fields say. The reason of the change records that.
	Run bool

	// Fit checks the message as edited; nil means no limit.
	Fit Fit

	// exact keeps At as it is even if that time has passed.
	exact bool
}

// Fit is an API's limit on a complete message. A change that replaces a part is checked here, because only the store
// knows the other parts.
type Fit interface {
	// Fits returns an error for a message that the API would refuse as a push.
	Fits(m *message.Message) error
}

// Selection picks messages for an operation on many.
type Selection struct {
	// Topic is a pattern of NATS subjects, or empty for all.
	Topic string
	// Key must match exactly if HasKey is set.
	Key    string
	HasKey bool
	// From and To bound the due time, or the time of death of dead messages. Both are inclusive; 0 is no bound.
	From, To message.Milli
	// DryRun only counts.
	DryRun bool
}

// Report counts what an operation on many did, or in a dry run would do. Matches not counted here were not
// attempted because the operation stopped early.
type Report struct {
	// Looked is how many messages were looked at, Matched how many of them the selection matched.
	Looked, Matched int
	// Done is how many were changed as requested.
	Done int
	// InFlight, Maybe and Ended were not changed as requested: they were being delivered, may have been delivered, or
	// had ended. For Failed the call failed; some of them may have been changed only if the error is ErrOutcomeUnknown.
	InFlight, Maybe, Ended, Failed int
}

// Requeue describes the new message that a requeue makes of a dead one.
type Requeue struct {
	Delay      time.Duration
	Headers    []message.Header
	HasHeaders bool
	Body       []byte
	HasBody    bool
	// Fit checks the message with the replaced parts; nil means no limit.
	Fit Fit
}

// fits checks a message whose content changes against the API's limit.
func fits(limit Fit, m *message.Message) error {
	if limit == nil {
		return nil
	}
	return limit.Fits(m)
}
