package wire

// Rescheduled answers a change of a waiting message: what it is now.
type Rescheduled struct {
	ID       string `json:"id"`
	UID      string `json:"uid"`
	State    string `json:"state"`
	Due      string `json:"due"`
	Version  uint64 `json:"version"`
	Priority uint8  `json:"priority"`
	Topic    string `json:"topic"`
}

// Report answers an operation on many: what it did, or in a dry run would do. Matches not counted elsewhere were not
// attempted because the operation stopped early.
type Report struct {
	DryRun  bool `json:"dry_run,omitempty"`
	Looked  int  `json:"looked"`
	Matched int  `json:"matched"`
	Done    int  `json:"done"`
	// InFlight, Maybe and Ended were not changed as asked: they were being delivered, may have been delivered, or had
	// ended. Failed could not be asked; only beside outcome_unknown may some of them have been changed.
	InFlight int `json:"in_flight"`
	Maybe    int `json:"maybe_delivered"`
	Ended    int `json:"ended"`
	Failed   int `json:"failed"`
}
