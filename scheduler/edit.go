package scheduler

import "time"

// Edit is what a reschedule changes of a waiting message; what is not given stays.
type Edit struct {
	// At most one of the three: At, Delay from now, or Shift from its present due
	// time.
	At       Milli
	HasAt    bool
	Delay    time.Duration
	HasDelay bool
	Shift    time.Duration
	HasShift bool

	Priority    uint8
	HasPriority bool
	Headers     []Header
	HasHeaders  bool
	Body        []byte
	HasBody     bool

	// Version is the one that must stand (If-Match), 0 for any.
	Version uint64
	// Run is due now, whatever else is asked: the change's reason says so.
	Run bool

	// exact: At stays as it is even where it has passed meanwhile.
	exact bool
}

// Selection picks messages for an operation on many.
type Selection struct {
	// Topic is a pattern of NATS subjects, empty for all.
	Topic string
	// Key is exact where HasKey.
	Key    string
	HasKey bool
	// From and To bound due, or for dead messages when they died; both inclusive, 0
	// for no bound.
	From, To Milli
	// DryRun only counts.
	DryRun bool
}

// Report counts what an operation on many did, or in a dry run would do. What
// matched and is counted nowhere else was not begun: the operation was ended.
type Report struct {
	// Looked at, and matched by the selection.
	Looked, Matched int
	// Done is how many were changed as asked.
	Done int
	// InFlight, Maybe and Ended were not changed as asked: they were being delivered,
	// may have been delivered, or had ended meanwhile. Failed could not be asked; only
	// beside ErrOutcomeUnknown may some of them have been changed.
	InFlight, Maybe, Ended, Failed int
}

// Requeue is how a dead message gets another life.
type Requeue struct {
	Delay      time.Duration
	Headers    []Header
	HasHeaders bool
	Body       []byte
	HasBody    bool
}
