package wire

// The fields of the requests that work on the journal. The word for an invalid field is "invalid_" followed by its
// name.
const (
	FieldOverdue = "overdue"
	FieldDryRun  = "dry_run"
	FieldRate    = "rate"
	FieldRepair  = "repair"
	FieldRevive  = "revive"
	FieldSince   = "since"
)

// Stable words of the refusals of these requests: what a field refuses is "invalid_" and its name.
const (
	WordDryRun = "invalid_dry_run"
	WordSince  = "invalid_since"
)

// MaxRate is the maximum rate of a restore, in messages a second.
const MaxRate = 1_000_000

// Restore asks to restore messages that the journal has and the store lacks.
type Restore struct {
	Overdue bool   // also the messages that are due already
	Topic   string // or a pattern of topics; empty: all
	DryRun  bool
	Rate    int // messages a second, 0 for no bound
}

// DecodeRestore reads {"overdue":true, "topic":"orders.created", "dry_run":false, "rate":1000}. An empty body is the
// same as {}; overdue defaults to true.
func DecodeRestore(data []byte) (Restore, error) {
	return decode(data, "a restore", func(r *Restore) []field {
		r.Overdue = true
		return []field{
			{FieldOverdue, func(f *fields) { r.Overdue = f.bool() }},
			{FieldTopic, func(f *fields) { r.Topic = f.checked(CheckPattern) }},
			{FieldDryRun, func(f *fields) { r.DryRun = f.bool() }},
			{FieldRate, func(f *fields) { r.Rate = f.count(MaxRate) }},
		}
	}, func(*Restore) error { return nil })
}

// DecodeRestoreOne reads {"dry_run":false}, the restore of one message; an empty body is the same as {}.
func DecodeRestoreOne(data []byte) (dryRun bool, err error) {
	return decode(data, "the restore of one message", func(v *bool) []field {
		return []field{{FieldDryRun, func(f *fields) { *v = f.bool() }}}
	}, func(*bool) error { return nil })
}

// Verify asks to compare the store with the journal.
type Verify struct {
	Repair bool `json:"repair,omitempty"` // bring both to the higher version
	Revive bool `json:"revive,omitempty"` // also bring back what ended according to the store alone
}

// DecodeVerify reads {"repair":false, "revive":false}; an empty body is the same as {}.
func DecodeVerify(data []byte) (Verify, error) {
	return decode(data, "a verify", func(v *Verify) []field {
		return []field{
			{FieldRepair, func(f *fields) { v.Repair = f.bool() }},
			{FieldRevive, func(f *fields) { v.Revive = f.bool() }},
		}
	}, func(*Verify) error { return nil })
}

// Redeliver asks to publish again the messages that a broker lost.
type Redeliver struct {
	Since  When   // a duration counts back from now
	Topic  string // or a pattern of topics; empty: all
	DryRun bool
}

// DecodeRedeliver reads {"since":"2h", "topic":"orders.created", "dry_run":false}; since is required.
func DecodeRedeliver(data []byte) (Redeliver, error) {
	given := false
	return decode(data, "a redeliver", func(r *Redeliver) []field {
		return []field{
			{FieldSince, func(f *fields) { r.Since, given = f.when(), true }},
			{FieldTopic, func(f *fields) { r.Topic = f.checked(CheckPattern) }},
			{FieldDryRun, func(f *fields) { r.DryRun = f.bool() }},
		}
	}, func(*Redeliver) error {
		if !given {
			return invalid(FieldSince, "is missing; "+wantWhen)
		}
		return nil
	})
}
