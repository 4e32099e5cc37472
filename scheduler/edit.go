package scheduler

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Edit is what a reschedule changes of a waiting message; what is not given stays.
type Edit struct {
	// At most one of the three: At, Delay from now, or Shift from its present due time.
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

	// Version is the version that the message must have (If-Match), 0 for any.
	Version uint64
	// Run is due now, whatever else is asked: the change's reason says so.
	Run bool

	// Fit is the limit on what the edit makes of the message; nil for none.
	Fit Fit

	// exact: At stays as it is even where it has passed meanwhile.
	exact bool
}

// Fit is a door's limit on a message as a whole. A change that replaces a part needs it here: what stays is known to
// the store alone.
type Fit interface {
	// Fits refuses what the door would not take as a push.
	Fits(m *message.Message) error
}

// Selection picks messages for an operation on many.
type Selection struct {
	// Topic is a pattern of NATS subjects, empty for all.
	Topic string
	// Key is exact where HasKey.
	Key    string
	HasKey bool
	// From and To bound due, or for dead messages when they died; both inclusive, 0 for no bound.
	From, To message.Milli
	// DryRun only counts.
	DryRun bool
}

// Report counts what an operation on many did, or in a dry run would do. Matches not counted here were not
// attempted because the operation stopped early.
type Report struct {
	// Looked at, and matched by the selection.
	Looked, Matched int
	// Done is how many were changed as asked.
	Done int
	// InFlight, Maybe and Ended were not changed as asked: they were being delivered, may have been delivered, or had
	// ended meanwhile. Failed could not be asked; only beside ErrOutcomeUnknown may some of them have been changed.
	InFlight, Maybe, Ended, Failed int
}

// Requeue is how a dead message gets another life.
type Requeue struct {
	Delay      time.Duration
	Headers    []message.Header
	HasHeaders bool
	Body       []byte
	HasBody    bool
	// Fit is the limit on the message with what is replaced; nil for none.
	Fit Fit
}

// fits holds a message whose content changes to the limit of the door.
func fits(limit Fit, m *message.Message) error {
	if limit == nil {
		return nil
	}
	return limit.Fits(m)
}
