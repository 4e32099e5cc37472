package ops

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// The fields of the requests that change waiting and dead messages.
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

// The stable words of the refusals of these requests. The word for a field that is not listed here is "invalid_"
// followed by its name.
const (
	WordShift      = "invalid_shift"
	WordNoChange   = "missing_change"
	WordIfMatch    = "invalid_if_match"
	WordBadVersion = "invalid_version"
	WordSelection  = "empty_selection"
	WordDueFrom    = "invalid_due_from"
	WordDueTo      = "invalid_due_to"
)

// MaxIDs is the maximum number of messages that one order names.
const MaxIDs = 1000

// DecodeEmpty reads the body of a request that has no fields: it must be empty or {}. Errors call the request what,
// such as "a pause".
func DecodeEmpty(data []byte, what string) error { return decodeFields(data, what, nil) }

// Named identifies the message that a request names, as DecodeRef reads it.
type Named struct {
	ID    string
	Topic string // empty: any
	Key   string
	Keyed bool // a key is given; it may be empty
}

// DecodeRef reads {"id":"...","topic":"...","key":"..."}: the message that a cancel or a look-up refers to.
func DecodeRef(data []byte) (Named, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Named{}, &wire.Error{Word: WordJSON, Field: "request", Detail: "is empty"}
	}
	return decode(data, "a look-up", (*Named).fields, (*Named).check)
}

func (n *Named) fields() []field {
	return []field{
		{wire.FieldID, func(f *fields) { n.ID, _ = f.string() }},
		{wire.FieldTopic, func(f *fields) { n.Topic = f.checked(wire.CheckSubject) }},
		{wire.FieldKey, func(f *fields) { n.Key, n.Keyed = f.string() }},
	}
}

func (n *Named) check() error {
	if n.ID == "" {
		return &wire.Error{Word: wire.WordID, Field: wire.FieldID, Detail: "is missing"}
	}
	return nil
}

// Edit is the change that a reschedule makes; absent fields stay unchanged.
type Edit struct {
	// At most one of the three.
	At       time.Time
	HasAt    bool
	Delay    time.Duration
	HasDelay bool
	Shift    time.Duration // from the current due time; may be negative
	HasShift bool

	Priority    uint8
	HasPriority bool
	Headers     []wire.Header // replace the user's headers; none if only HasHeaders is set
	HasHeaders  bool
	Body        []byte
	HasBody     bool

	// Version is the version that the message must have, or 0 for any.
	Version uint64
}

// DecodeEdit reads the change of one message:
//
//	{"delay":"20m" | "at":"2030-01-31T08:00:00Z" | "shift":"-10m", "priority":7,
//	 "body" | "body_base64":"..." | "body_json":{...}, "headers":{"name":"value"}}
//
// with at least one of them. Durations and times are as in a push.
func DecodeEdit(data []byte) (Edit, error) {
	return decode(data, "a reschedule", (*Edit).fields, (*Edit).check)
}

// DecodeReschedule reads an edit that also names its message: {"id", "topic", "key", "version", and the fields of
// DecodeEdit}.
func DecodeReschedule(data []byte) (Named, Edit, error) {
	type both struct {
		Named
		Edit
	}
	b, err := decode(data, "a reschedule", func(b *both) []field {
		return slices.Concat(b.Named.fields(), b.Edit.fields(), []field{{FieldVersion, func(f *fields) {
			if text, ok := f.number(); ok {
				if b.Version, ok = version(text); !ok {
					f.invalid("is not a whole number from 1 up")
				}
			}
		}}})
	}, func(b *both) error {
		if err := b.Named.check(); err != nil {
			return err
		}
		return b.Edit.check()
	})
	return b.Named, b.Edit, err
}

// fields returns the fields of an edit without its version.
func (e *Edit) fields() []field {
	return slices.Concat(e.whenFields(), []field{
		{wire.FieldPriority, func(f *fields) { e.Priority, e.HasPriority = parsed(f, f.number, wire.ParsePriority), true }},
	}, content(&e.Headers, &e.HasHeaders, &e.Body, &e.HasBody))
}

func (e *Edit) whenFields() []field {
	return append(delayed(func(d time.Duration) { e.Delay, e.HasDelay = d, true }), []field{
		{wire.FieldAt, func(f *fields) { e.At, e.HasAt = parsed(f, f.span, wire.ParseAt), true }},
		{FieldShift, func(f *fields) { e.Shift, e.HasShift = parsed(f, f.span, ParseShift), true }},
	}...)
}

// check checks the rules that span fields.
func (e *Edit) check() error {
	if err := e.checkWhen(); err != nil {
		return err
	}
	if !e.HasAt && !e.HasDelay && !e.HasShift && !e.HasPriority && !e.HasHeaders && !e.HasBody {
		return &wire.Error{Word: WordNoChange, Field: "reschedule",
			Detail: "changes nothing; want at least one of delay, at, shift, priority, body and headers"}
	}
	return nil
}

func (e *Edit) checkWhen() error {
	n := 0
	for _, has := range [...]bool{e.HasAt, e.HasDelay, e.HasShift} {
		if has {
			n++
		}
	}
	if n > 1 {
		return &wire.Error{Word: wire.WordDelayAndAt, Field: wire.FieldDelay,
			Detail: "and at and shift exclude each other; want one of them"}
	}
	return nil
}

// ParseShift reads the duration by which a message moves: a delay with a sign. Fractions of a millisecond round toward
// the later time.
func ParseShift(s string) (time.Duration, error) {
	text, back := strings.CutPrefix(s, "-")
	if back && strings.HasPrefix(text, "+") {
		text = "" // span would accept the second sign
	}
	d, err := wire.ParseSpan(text, FieldShift)
	if back {
		d = -d
	}
	if e := (*wire.Error)(nil); back && errors.As(err, &e) {
		e.Detail = strings.Replace(e.Detail, wire.Quote(text), wire.Quote(s), 1) // as it was written
	}
	return d, err
}

// ParseIfMatch reads the version of an If-Match header: 3, "3" with its quotes, or * for any version, which is 0. An
// empty one is refused: its sender meant to name a version.
func ParseIfMatch(s string) (uint64, error) {
	text := strings.Trim(s, " \t")
	if text == "*" {
		return 0, nil
	}
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	v, ok := version(text)
	if !ok {
		return 0, &wire.Error{Word: WordIfMatch, Field: "If-Match",
			Detail: wire.Quote(s) + ` is not a version; want one from 1 up such as "3", or *`}
	}
	return v, nil
}

func version(text string) (uint64, bool) {
	v, err := strconv.ParseUint(text, 10, 64)
	return v, err == nil && v > 0 && wire.AllDigits(text)
}

// Selection selects waiting messages for an operation on many.
type Selection struct {
	Topic    string // a pattern; empty: all
	Key      string
	HasKey   bool
	From, To When // bounds of due, both inclusive; a duration counts from now on
	HasFrom  bool
	HasTo    bool
	DryRun   bool
	All      bool // explicit, since no other field is set
}

// DecodeSelection reads which messages a cancel of many refers to:
//
//	{"topic":"orders.>", "key":"customer-9", "due_from":"2030-01-31T08:00:00Z", "due_to":"2h", "dry_run":true}
//
// A selection without topic, key and due bound is refused unless it has "all":true. Bounds are times, or durations from
// now.
func DecodeSelection(data []byte) (Selection, error) {
	return decode(data, "a selection", (*Selection).fields, (*Selection).check)
}

// DecodeRescheduleMany reads a selection and one of delay, at and shift.
func DecodeRescheduleMany(data []byte) (Selection, Edit, error) {
	type both struct {
		Selection
		Edit
	}
	b, err := decode(data, "a reschedule of many", func(b *both) []field {
		return slices.Concat(b.Selection.fields(), b.Edit.whenFields())
	}, func(b *both) error {
		if err := b.Selection.check(); err != nil {
			return err
		}
		if err := b.Edit.checkWhen(); err != nil {
			return err
		}
		if !b.HasAt && !b.HasDelay && !b.HasShift {
			return &wire.Error{Word: WordNoChange, Field: "reschedule",
				Detail: "changes nothing; want one of delay, at and shift"}
		}
		return nil
	})
	return b.Selection, b.Edit, err
}

func (s *Selection) fields() []field {
	return []field{
		{wire.FieldTopic, func(f *fields) { s.Topic = f.checked(wire.CheckPattern) }},
		{wire.FieldKey, func(f *fields) { s.Key, s.HasKey = f.key() }},
		{FieldDueFrom, func(f *fields) { s.From, s.HasFrom = f.when(), true }},
		{FieldDueTo, func(f *fields) { s.To, s.HasTo = f.when(), true }},
		{FieldAll, func(f *fields) { s.All = f.bool() }},
		{FieldDryRun, func(f *fields) { s.DryRun = f.bool() }},
	}
}

func (s *Selection) check() error {
	if s.Topic == "" && !s.HasKey && !s.HasFrom && !s.HasTo && !s.All {
		return &wire.Error{Word: WordSelection, Field: "selection",
			Detail: `is empty; want a topic, a key or a bound of due, or "all":true for every message`}
	}
	return checkRange(s.From, s.To, s.HasFrom && s.HasTo, FieldDueFrom, FieldDueTo)
}

// checkRange refuses bounds with nothing between them, where that can be decided without a clock.
func checkRange(from, to When, both bool, fieldFrom, fieldTo string) error {
	if both && from.Relative == to.Relative && (from.Span > to.Span || from.At.After(to.At)) {
		return wire.Invalid(fieldFrom, "lies after "+fieldTo)
	}
	return nil
}
