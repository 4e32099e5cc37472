package wire

import (
	"strconv"
	"strings"
	"time"
)

// Edit is what a reschedule changes; what is not given stays.
type Edit struct {
	// At most one of the three.
	At       time.Time
	HasAt    bool
	Delay    time.Duration
	HasDelay bool
	Shift    time.Duration // from the present due time; may be negative
	HasShift bool

	Priority    uint8
	HasPriority bool
	Headers     []Header // replace the user's; none where HasHeaders alone
	HasHeaders  bool
	Body        []byte
	HasBody     bool

	// Version is the version that the message must have, 0 for any.
	Version uint64
}

// DecodeEdit reads the change of one message:
//
//	{"delay":"20m" | "at":"2030-01-31T08:00:00Z" | "shift":"-10m", "priority":7,
//	 "body" | "body_base64":"..." | "body_json":{...}, "headers":{"name":"value"}}
//
// with at least one of them. Durations and times are text or whole milliseconds, as in a push.
func DecodeEdit(data []byte) (Edit, error) {
	var e Edit
	err := decode(data, "a reschedule", editFields, e.read)
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return Edit{}, err
	}
	return e, nil
}

// Named is the message that a request names, as DecodeRef reads it.
type Named struct {
	ID    string
	Topic string // empty: any
	Key   string
	Keyed bool // a key is given, be it empty
}

func (n *Named) read(f *fields, field string) {
	switch field {
	case FieldID:
		n.ID, _ = f.string(field)
	case FieldTopic:
		var ok bool
		if n.Topic, ok = f.string(field); ok {
			f.refuseErr(CheckSubject(n.Topic))
		}
	case FieldKey:
		n.Key, n.Keyed = f.string(field)
	}
}

func (n *Named) check() error {
	if n.ID == "" {
		return &Error{Word: WordID, Field: FieldID, Detail: "is missing"}
	}
	return nil
}

// DecodeReschedule reads an edit that names its message too: {"id", "topic", "key", "version", and the fields of
// DecodeEdit}.
func DecodeReschedule(data []byte) (n Named, e Edit, err error) {
	err = decode(data, "a reschedule", join(nameFields, []string{FieldVersion}, editFields),
		func(f *fields, field string) {
			n.read(f, field)
			e.read(f, field)
		})
	if err == nil {
		err = n.check()
	}
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return Named{}, Edit{}, err
	}
	return n, e, nil
}

// ParseIfMatch reads the version of an If-Match header: 3, "3" with its quotes, or * (and none at all) for any, which
// is 0.
func ParseIfMatch(s string) (uint64, error) {
	text := strings.Trim(s, " \t")
	if text == "" || text == "*" {
		return 0, nil
	}
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	v, ok := version(text)
	if !ok {
		return 0, &Error{Word: WordIfMatch, Field: "If-Match",
			Detail: quote(s) + ` is not a version; want one from 1 up such as "3", or *`}
	}
	return v, nil
}

func version(text string) (uint64, bool) {
	v, err := strconv.ParseUint(text, 10, 64)
	return v, err == nil && v > 0 && allDigits(text)
}

// read reads one field of an edit.
func (e *Edit) read(f *fields, field string) {
	switch field {
	case FieldDelay, FieldAt, FieldShift:
		text, ok := f.span(field)
		if !ok {
			return
		}
		var err error
		switch field {
		case FieldDelay:
			e.Delay, err = ParseDelay(text)
			e.HasDelay = true
		case FieldAt:
			e.At, err = ParseAt(text)
			e.HasAt = true
		case FieldShift:
			e.Shift, err = ParseShift(text)
			e.HasShift = true
		}
		f.refuseErr(err)
	case FieldPriority:
		if text, ok := f.number(field); ok {
			var err error
			e.Priority, err = ParsePriority(text)
			e.HasPriority = true
			f.refuseErr(err)
		}
	case FieldVersion:
		if text, ok := f.number(field); ok {
			if e.Version, ok = version(text); !ok {
				f.refuse(invalid(field, "is not a whole number from 1 up"))
			}
		}
	case FieldBody, fieldBase64, fieldJSON:
		e.Body, e.HasBody = f.body(field), true
	case FieldHeaders:
		e.Headers, e.HasHeaders = f.headers(), true
	}
}

// number reads a number field as text.
func (f *fields) number(field string) (string, bool) {
	if c := f.s.next(); c != '-' && !isDigit(c) {
		f.s.skip(1)
		f.refuse(invalid(field, "is not a number"))
		return "", false
	}
	return string(f.s.number()), f.s.bad == nil
}

func (f *fields) refuseErr(err error) {
	if e, ok := err.(*Error); ok && f.s.bad == nil {
		f.refuse(e)
	}
}

// check holds what single fields cannot.
func (e *Edit) check() error {
	if err := e.checkWhen(); err != nil {
		return err
	}
	if !e.HasAt && !e.HasDelay && !e.HasShift && !e.HasPriority && !e.HasHeaders && !e.HasBody {
		return &Error{Word: WordNoChange, Field: "reschedule",
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
		return &Error{Word: WordDelayAndAt, Field: FieldDelay,
			Detail: "and at and shift exclude each other; want one of them"}
	}
	return nil
}

// ParseShift reads by how much a message moves: a delay with a sign. What is finer than a millisecond rounds to the
// later.
func ParseShift(s string) (time.Duration, error) {
	text, back := strings.CutPrefix(s, "-")
	if back && strings.HasPrefix(text, "+") {
		text = "" // as a delay it would do
	}
	d, problem := span(text)
	if problem != "" {
		return 0, &Error{Word: WordShift, Field: FieldShift, Detail: problem}
	}
	if back {
		d = -d
	}
	return d, nil
}
