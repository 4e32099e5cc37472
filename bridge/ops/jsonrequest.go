package ops

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// A request is a list of fields: each has a name and a function that reads its value. Only a push has a reader of its
// own, for speed. This reader refuses input that encoding/json would let pass, naming the field and a stable word: an
// unknown or repeated field, a name in another case, bytes that are not UTF-8, a number that is not exact.

// field is one field of a request.
type field struct {
	name string
	read func(f *fields)
}

// decode reads one object with these fields, or an empty body, into v and then checks the whole.
func decode[T any](data []byte, what string, all func(v *T) []field, check func(v *T) error) (v T, err error) {
	if err = decodeFields(data, what, all(&v)); err == nil {
		err = check(&v)
	}
	if err != nil {
		v = *new(T)
	}
	return v, err
}

func decodeFields(data []byte, what string, all []field) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	s := scanner{b: data}
	f := fields{s: &s}
	s.object(func(name []byte) {
		if i, ok := f.known(name, names, "is not a field of "+what); ok {
			all[i].read(&f)
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
	if e, ok := err.(*wire.Error); ok && f.bad == nil && f.s.bad == nil {
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

// checked reads a string that must pass check.
func (f *fields) checked(check func(string) error) string {
	v, ok := f.string()
	if ok {
		f.refuse(check(v))
	}
	return v
}

// key reads a key to compare with a message's own, which may be empty.
func (f *fields) key() (string, bool) {
	key, ok := f.string()
	if ok && key != "" {
		f.refuse(wire.CheckKey(key))
	}
	return key, ok
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

// delayed returns the fields of a delay.
func delayed(set func(time.Duration)) []field {
	read := func(f *fields) { set(parsed(f, f.delay, wire.ParseDelay)) }
	return []field{{wire.FieldDelay, read}, {fieldDelayMS, read}}
}

// parsed reads a value as text and parses it with read.
func parsed[T any](f *fields, read func() (string, bool), parse func(text string) (T, error)) (v T) {
	if text, ok := read(); ok {
		var err error
		v, err = parse(text)
		f.refuse(err)
	}
	return v
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

// count reads a whole number from 0 to limit.
func (f *fields) count(limit int) int { return f.whole(0, limit) }

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

// content returns the fields with which an edit or a requeue replaces a message's content.
func content(headers *[]wire.Header, hasHeaders *bool, body *[]byte, hasBody *bool) []field {
	readBody := func(f *fields) { *body, *hasBody = f.body(), true }
	return []field{
		{wire.FieldBody, readBody}, {fieldBase64, readBody}, {fieldJSON, readBody},
		{wire.FieldHeaders, func(f *fields) { *headers, *hasHeaders = f.headers(), true }},
	}
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
