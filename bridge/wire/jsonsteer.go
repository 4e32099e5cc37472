package wire

// The fields of the requests that change what waits and what is dead.
const (
	FieldShift   = "shift"
	FieldVersion = "version"
	FieldDueFrom = "due_from"
	FieldDueTo   = "due_to"
	FieldAll     = "all"
	FieldIDs     = "ids"
	FieldFrom    = "from"
	FieldTo      = "to"
	FieldOlder   = "older"
)

// The stable words of refusals of these requests. The word of a field that has none here is "invalid_" and its name.
const (
	WordShift     = "invalid_shift"
	WordNoChange  = "missing_change"
	WordIfMatch   = "invalid_if_match"
	WordVersion   = "invalid_version"
	WordSelection = "empty_selection"
	WordDueFrom   = "invalid_due_from"
	WordDueTo     = "invalid_due_to"
	WordAll       = "invalid_all"
	WordIDs       = "invalid_ids"
	WordFrom      = "invalid_from"
	WordTo        = "invalid_to"
	WordOlder     = "invalid_older"
)

// MaxIDs is how many messages one order names at most.
const MaxIDs = 1000

var (
	whenFields = []string{FieldDelay, FieldAt, FieldShift}
	editFields = append([]string{FieldPriority, FieldBody, fieldBase64, fieldJSON, FieldHeaders}, whenFields...)
	nameFields = []string{FieldID, FieldTopic, FieldKey}
	pickFields = []string{FieldTopic, FieldKey, FieldDueFrom, FieldDueTo, FieldAll, FieldDryRun}
)

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// DecodePause reads the body of a pause or a resume, which says nothing: no text at all, or {}.
func DecodePause(data []byte) error {
	return decode(data, "a pause", nil, func(*fields, string) {})
}
