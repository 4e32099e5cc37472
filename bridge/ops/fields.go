package ops

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// decode reads one object with these fields, or an empty body, into an In. The reader refuses input that
// encoding/json would let pass, naming the field and a stable word: an unknown or repeated field, a name in another
// case, bytes that are not UTF-8, a number that is not exact.
func (all *fieldList) decode(in reflect.Value, data []byte, what string) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	s := scanner{b: data}
	f := fields{s: &s}
	s.object(func(name []byte) {
		if i, ok := f.known(name, all.names, "is not a field of "+what); ok {
			all.fields[i].set(in, all.fields[i].json(&f))
		}
	})
	if s.end(); s.bad != nil {
		return s.bad
	}
	if f.bad != nil {
		return f.bad
	}
	return nil
}

// fieldList are fields of a request, and their names.
type fieldList struct {
	fields []field
	names  []string
}

func listOf(fields []field) (all fieldList) {
	all.fields = fields
	for i := range fields {
		all.names = append(all.names, fields[i].name)
	}
	return all
}

// fields reads the values of one object and keeps the first error.
type fields struct {
	s    *scanner
	name string // of the field that is read
	seen uint32
	bad  *wire.Error

	hasBody, hasDelay bool // in one of its forms
}

// refuse keeps the first error. An error in the JSON itself takes precedence.
func (f *fields) refuse(err error) {
	e, ok := err.(*wire.Error)
	if err != nil && !ok { // no check returns another
		e = &wire.Error{Word: WordJSON, Field: f.name, Detail: err.Error()}
	}
	if err != nil && f.bad == nil && f.s.bad == nil {
		f.bad = e
	}
}

// invalid refuses the value of the field.
func (f *fields) invalid(problem string) { f.refuse(wire.Invalid(f.name, problem)) }

// known finds a field by its name. It skips the value of an unknown, repeated or null field. A body may be the JSON
// value null.
func (f *fields) known(name []byte, names []string, complaint string) (place int, ok bool) {
	for i, field := range names {
		if string(name) != field {
			continue
		}
		if f.seen&(1<<i) != 0 {
			f.refuse(&wire.Error{Word: WordRepeatedField, Field: field, Detail: "is given more than once"})
			f.s.skip(1)
			return 0, false
		}
		f.seen |= 1 << i
		f.name = field
		return i, field == fieldJSON || !f.s.null()
	}
	f.refuse(&wire.Error{Word: WordUnknownField, Field: wire.Quote(string(name)), Detail: complaint})
	f.s.skip(1)
	return 0, false
}

// string reads a string; any other kind of value refuses the request.
func (f *fields) string() (string, bool) {
	if f.s.next() != '"' {
		f.s.skip(1)
		f.invalid("is not a string")
		return "", false
	}
	v, _ := f.s.text()
	return string(v), f.s.bad == nil
}

// number reads a number as text.
func (f *fields) number() (string, bool) {
	if c := f.s.next(); c != '-' && !wire.IsDigit(c) {
		f.s.skip(1)
		f.invalid("is not a number")
		return "", false
	}
	return string(f.s.number()), f.s.bad == nil
}

// span reads a duration or a time, which may be text or a number, and returns its text.
func (f *fields) span() (text string, ok bool) {
	switch c := f.s.next(); {
	case c == '"':
		v, _ := f.s.text()
		return string(v), f.s.bad == nil
	case c == '-' || wire.IsDigit(c):
		return string(f.s.number()), f.s.bad == nil
	}
	f.s.skip(1)
	f.invalid("is neither text nor a number")
	return "", false
}

// delay reads a delay in one of its two forms, and returns its text.
func (f *fields) delay() (text string, ok bool) {
	if f.hasDelay {
		f.s.skip(1)
		f.refuse(&wire.Error{Word: WordRepeatedField, Field: wire.FieldDelay, Detail: "and delay_ms exclude each other"})
		return "", false
	}
	f.hasDelay = true
	if f.name == wire.FieldDelay {
		return f.span()
	}
	f.name = wire.FieldDelay // also in the word of an error
	text, ok = f.number()
	return text + "ms", ok
}

// bool reads true or false.
func (f *fields) bool() bool {
	c := f.s.next()
	if c != 't' && c != 'f' {
		f.s.skip(1)
		f.invalid("is neither true nor false")
		return false
	}
	f.s.word()
	return c == 't'
}

// whole reads a whole number from least to most.
func (f *fields) whole(least, most int) int {
	text := ""
	if c := f.s.next(); c == '-' || wire.IsDigit(c) {
		text = string(f.s.number())
	} else {
		f.s.skip(1)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		f.invalid(fmt.Sprintf("is not a whole number from %d to %d", least, most))
		return 0
	}
	return n
}

// when reads a time or a duration: text, or unix milliseconds as a number.
func (f *fields) when() When {
	var text []byte
	switch c := f.s.next(); {
	case c == '"':
		text, _ = f.s.text()
	case c == '-' || wire.IsDigit(c):
		if text = f.s.number(); !wire.AllDigits(string(text)) {
			f.invalid("is not a whole number of unix milliseconds")
			return When{}
		}
	default:
		f.s.skip(1)
		f.invalid("is neither text nor unix milliseconds")
		return When{}
	}
	w, err := ParseWhen(string(text), f.name)
	f.refuse(err)
	return w
}

// list reads a list of at most limit elements; element reads one.
func (f *fields) list(limit int, element func()) {
	if f.s.next() != '[' {
		f.s.skip(1)
		f.invalid("are not a list")
		return
	}
	n := 0
	f.s.array(func() {
		if n++; n > limit {
			f.s.skip(2)
			f.refuse(&wire.Error{Word: wire.WordTooLarge, Field: f.name,
				Detail: fmt.Sprintf("are more than the limit of %d", limit)})
			return
		}
		element()
	})
}

// body reads a body in one of its forms: text, base64, or any JSON value. A JSON value becomes the body exactly as it
// appears in the request, including blanks. An empty body is not nil.
func (f *fields) body() []byte {
	var (
		v      []byte
		shared bool
	)
	switch c := f.s.next(); {
	case f.name == fieldJSON:
		start := f.s.i
		f.s.skip(1)
		v = f.s.b[start:f.s.i:f.s.i]
	case c == '"':
		v, shared = f.s.text()
	default:
		f.s.skip(1)
		f.refuse(&wire.Error{Word: WordBody, Field: f.name,
			Detail: "is not a string; other JSON goes into body_json, bytes into body_base64"})
		return nil
	}
	if f.hasBody {
		f.refuse(wire.Invalid(wire.FieldBody, "and body_base64 or body_json are both given; want one of them"))
		return nil
	}
	f.hasBody = true
	if f.name != fieldBase64 {
		return v
	}
	// Decoding in place would be safe, as it never writes ahead of the reader, but the request belongs to the caller.
	out := v
	if shared {
		out = make([]byte, base64.StdEncoding.DecodedLen(len(v)))
	}
	n, err := base64.StdEncoding.Strict().Decode(out, v)
	if err != nil {
		f.refuse(&wire.Error{Word: WordBody, Field: f.name, Detail: "is not base64 (RFC 4648, padded)"})
		return nil
	}
	return out[:n:n]
}

// headers reads user headers.
func (f *fields) headers() []wire.Header {
	if f.s.next() != '{' {
		f.s.skip(1)
		f.refuse(
			&wire.Error{Word: wire.WordHeader, Field: wire.FieldHeaders,
				Detail: "are not an object of strings or lists of strings"})
		return nil
	}
	var (
		l     wire.HeaderList
		names map[string]bool
		size  int // of the names, including those without a value
		one   [1]string
	)
	f.s.object(func(raw []byte) {
		name := string(raw)
		switch {
		case wire.HasPrefixFold(name, "tarry-"):
			l.Refuse(name,
				&wire.Error{Word: wire.WordHeader, Field: wire.QuoteName(name), Detail: "is a tag; it has a field of its own here"})
		case names[name]:
			l.Refuse(name, &wire.Error{Word: WordRepeatedField, Field: wire.QuoteName(name),
				Detail: "is given more than once; use a list for several values"})
		}
		// More than a message can have need not be collected.
		if size += len(name) + wire.HeaderLine; size > wire.MaxHeaders {
			l.Refuse("", &wire.Error{Word: wire.WordTooLarge, Field: wire.FieldHeaders,
				Detail: fmt.Sprintf("have names of more than %d bytes", wire.MaxHeaders)})
			f.s.skip(2)
			return
		}
		if names == nil {
			names = make(map[string]bool, 4)
		}
		names[name] = true
		value := func() {
			if f.s.next() != '"' {
				f.s.skip(2)
				l.Refuse(name, &wire.Error{Word: wire.WordHeader, Field: wire.QuoteName(name),
					Detail: "is neither a string nor a list of strings"})
				return
			}
			v, _ := f.s.text()
			if l.Size <= wire.MaxHeaders { // more headers are refused, so they need not be collected
				one[0] = string(v)
				l.Add(name, one[:])
			}
		}
		if f.s.next() == '[' {
			f.s.array(value)
		} else if !f.s.null() {
			value()
		}
	})
	if f.s.bad != nil {
		return nil
	}
	list, err := l.Finish()
	f.refuse(err)
	return list
}

// ids reads a list of names.
func (f *fields) ids() []string {
	list := []string{}
	f.list(MaxIDs, func() {
		if f.s.next() != '"' {
			f.s.skip(2)
			f.invalid("hold what is not a string")
			return
		}
		id, ok := f.string()
		if ok && id == "" {
			f.invalid("hold an empty string")
		}
		list = append(list, id)
	})
	return list
}

// replaced reads the headers that replace others; each value is a string.
func (f *fields) replaced() (set []wire.Header) {
	if f.s.next() != '{' {
		f.s.skip(1)
		f.invalid("is not an object of strings")
		return nil
	}
	f.s.object(func(raw []byte) {
		name := string(raw)
		switch {
		case !wire.IsHeaderName(name):
			f.refuse(&wire.Error{Word: wire.WordHeader, Field: FieldSet,
				Detail: "contains the name " + wire.Quote(name) + ", which no header can have"})
		case len(set) >= maxChanges:
			f.refuse(&wire.Error{Word: wire.WordTooLarge, Field: FieldSet,
				Detail: fmt.Sprintf("has more than %d headers", maxChanges)})
		}
		if f.s.next() != '"' {
			f.s.skip(2)
			f.refuse(&wire.Error{Word: wire.WordHeader, Field: wire.QuoteName(name),
				Detail: "is not a string; to leave a header out name it in " + FieldDrop})
			return
		}
		text, _ := f.s.text()
		value := string(text)
		if p := wire.ValueProblem(value); p != "" {
			f.refuse(&wire.Error{Word: wire.WordHeader, Field: wire.QuoteName(name), Detail: p})
		}
		if f.bad == nil {
			set = append(set, wire.Header{Name: name, Value: value})
		}
	})
	return set
}

// texts reads a list of at most so many strings.
func (f *fields) texts(most int) (list []string) {
	f.list(most, func() {
		if text, ok := f.string(); ok {
			list = append(list, text)
		}
	})
	return list
}

// topics reads the topics of a pull.
func (f *fields) topics() (list []string) {
	f.list(MaxTopics, func() {
		topic, ok := f.string()
		switch err := wire.CheckOneTopic(topic); {
		case ok && err != nil:
			f.refuse(err)
		case slices.Contains(list, topic):
			f.invalid("have " + wire.Quote(topic) + " twice")
		}
		list = append(list, topic)
	})
	return list
}

// sequences reads the sequences of rejects.
func (f *fields) sequences() []uint64 {
	list := []uint64{}
	f.list(MaxIDs, func() {
		if text, ok := f.number(); ok {
			n, err := parseSequence(f.name, text)
			f.refuse(err)
			list = append(list, n)
		}
	})
	return list
}

// version reads the version that a message must have.
func (f *fields) version() (v uint64) {
	if text, ok := f.number(); ok {
		if v, ok = version(text); !ok {
			f.invalid("is not a whole number from 1 up")
		}
	}
	return v
}
