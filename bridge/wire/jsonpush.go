package wire

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"time"
)

// jsonFields are the fields of a push, by their place in fields.seen.
var jsonFields = [...]string{FieldTopic, FieldBody, fieldBase64, fieldJSON, FieldHeaders, FieldDelay, FieldAt,
	FieldID, FieldKey,
	FieldOnDuplicate, FieldDeliver, FieldPriority, FieldTTL, FieldAttempt, FieldRetry, FieldMaxWait, FieldReason}

// The two other forms of a body.
const (
	fieldBase64 = "body_base64"
	fieldJSON   = "body_json"
)

// wordOf is the stable word of a field that holds the wrong kind of value. All words are made this way.
func wordOf(field string) string { return "invalid_" + field }

// push reads one object. A mistake in a field refuses the push and reading goes on; a mistake in the JSON stops it all.
func (s *scanner) push(prefix string) PushItem {
	var (
		item PushItem
		f    = fields{s: s}
		p    = &item.Push
	)
	if s.next() != '{' {
		s.skip(1)
		return PushItem{Err: &Error{Word: WordJSON, Field: "push", Detail: "is not a JSON object"}}
	}
	s.object(func(name []byte) { f.field(name, &item) })
	if f.bad != nil {
		return PushItem{Err: f.bad}
	}
	if err := cmp.Or(p.CheckStatus(len(item.Body)), p.Check(prefix)); err != nil {
		return PushItem{Err: err}
	}
	return item
}

// fields reads the values of one object and keeps the first mistake.
type fields struct {
	s    *scanner
	seen uint32
	bad  *Error

	hasBody bool // in one of its forms
}

func (f *fields) refuse(e *Error) {
	if f.bad == nil {
		f.bad = e
	}
}

// known finds a field by its name and skips the value of one that is unknown, repeated or null. A body may be the JSON
// value null.
func (f *fields) known(name []byte, names []string, complaint string) (string, bool) {
	for i, field := range names {
		if string(name) != field {
			continue
		}
		if f.seen&(1<<i) != 0 {
			f.refuse(&Error{Word: WordRepeatedField, Field: field, Detail: "is given more than once"})
			f.s.skip(1)
			return "", false
		}
		f.seen |= 1 << i
		if field != fieldJSON && f.s.null() {
			return "", false
		}
		return field, true
	}
	f.refuse(&Error{Word: WordUnknownField, Field: quote(string(name)), Detail: complaint})
	f.s.skip(1)
	return "", false
}

// field reads one field of a push.
func (f *fields) field(name []byte, item *PushItem) {
	field, ok := f.known(name, jsonFields[:], "is not a field of a push")
	if !ok {
		return
	}
	switch field {
	case FieldTopic:
		item.Push.Topic, _ = f.string(field)
	case FieldBody, fieldBase64, fieldJSON:
		item.Body = f.body(field)
	case FieldHeaders:
		item.Push.Headers = f.headers()
	case FieldRetry:
		f.retry(&item.Push)
	case FieldDelay, FieldAt, FieldTTL, FieldMaxWait:
		f.textOrNumber(&item.Push, field)
	case FieldPriority, FieldAttempt:
		if v, ok := f.number(field); ok {
			f.set(&item.Push, field, v)
		}
	default:
		if v, ok := f.string(field); ok {
			f.set(&item.Push, field, v)
		}
	}
}

// set has the option judged by the rules of the header of the same meaning.
func (f *fields) set(p *Push, field, value string) {
	if f.s.bad != nil {
		return
	}
	if err := p.Set(field, value); err != nil {
		if e, ok := err.(*Error); ok {
			f.refuse(e)
		}
	}
}

// string reads a string field; any other kind of value refuses the push.
func (f *fields) string(field string) (string, bool) {
	if f.s.next() != '"' {
		f.s.skip(1)
		f.refuse(&Error{Word: wordOf(field), Field: field, Detail: "is not a string"})
		return "", false
	}
	v, _ := f.s.text()
	return string(v), f.s.bad == nil
}

// textOrNumber reads a duration or a time: text, or whole milliseconds as a number.
func (f *fields) textOrNumber(p *Push, field string) {
	if text, ok := f.span(field); ok {
		f.set(p, field, text)
	}
}

// span reads what stands for a duration or a time, text or a number, as text.
func (f *fields) span(field string) (text string, ok bool) {
	switch c := f.s.next(); {
	case c == '"':
		v, _ := f.s.text()
		return string(v), f.s.bad == nil
	case c == '-' || isDigit(c):
		return string(f.s.number()), f.s.bad == nil
	}
	f.s.skip(1)
	f.refuse(&Error{Word: wordOf(field), Field: field, Detail: "is neither text nor a number of milliseconds"})
	return "", false
}

// retry reads a schedule: its text, or a list of delays.
func (f *fields) retry(p *Push) {
	switch f.s.next() {
	case '"':
		v, _ := f.s.text()
		f.set(p, FieldRetry, string(v))
		return
	case '[':
	default:
		f.s.skip(1)
		f.refuse(badRetry("is neither text nor a list of delays"))
		return
	}
	var delays []time.Duration
	f.s.array(func() {
		if c := f.s.next(); c != '"' && c != '-' && !isDigit(c) {
			f.s.skip(2)
			f.refuse(badRetry("holds what is neither text nor a number of milliseconds"))
			return
		}
		text, _ := f.span(FieldRetry)
		if len(delays) > MaxRetries || f.s.bad != nil { // beyond it they are refused: do not gather them
			return
		}
		d, problem := span(text)
		if problem != "" {
			f.refuse(badRetry("has a bad delay: " + problem))
		}
		delays = append(delays, d)
	})
	r, err := RetryOf(delays)
	if e, ok := err.(*Error); ok {
		f.refuse(e)
	}
	p.Retry = r
}

// body reads a body in one of its forms: text, base64, or any JSON value, which becomes the body as it stands in the
// request, blanks within it included. An empty one is not nil.
func (f *fields) body(field string) []byte {
	var (
		v      []byte
		shared bool
	)
	switch c := f.s.next(); {
	case field == fieldJSON:
		start := f.s.i
		f.s.skip(1)
		v = f.s.b[start:f.s.i:f.s.i]
	case c == '"':
		v, shared = f.s.text()
	default:
		f.s.skip(1)
		f.refuse(&Error{Word: WordBody, Field: field,
			Detail: "is not a string; other JSON goes into body_json, bytes into body_base64"})
		return nil
	}
	if f.hasBody {
		f.refuse(&Error{Word: WordBody, Field: FieldBody,
			Detail: "and body_base64 or body_json are both given; want one of them"})
		return nil
	}
	f.hasBody = true
	if field == fieldJSON {
		return v
	}
	if field == FieldBody {
		return v
	}
	// Decoding never writes ahead of where it reads, but the request belongs to the caller.
	out := v
	if shared {
		out = make([]byte, base64.StdEncoding.DecodedLen(len(v)))
	}
	n, err := base64.StdEncoding.Strict().Decode(out, v)
	if err != nil {
		f.refuse(&Error{Word: WordBody, Field: field, Detail: "is not base64 (RFC 4648, padded)"})
		return nil
	}
	return out[:n:n]
}

// headers reads user headers.
func (f *fields) headers() []Header {
	if f.s.next() != '{' {
		f.s.skip(1)
		f.refuse(
			&Error{Word: WordHeader, Field: FieldHeaders, Detail: "are not an object of strings or lists of strings"})
		return nil
	}
	var (
		l     headerList
		names map[string]bool
		size  int // of the names, those without a value among them
		one   [1]string
	)
	f.s.object(func(raw []byte) {
		name := string(raw)
		switch {
		case hasPrefixFold(name, "tarry-"):
			l.refuse(name,
				&Error{Word: WordHeader, Field: quoteName(name), Detail: "is a tag; it has a field of its own here"})
		case names[name]:
			l.refuse(name, &Error{Word: WordRepeatedField, Field: quoteName(name),
				Detail: "is given more than once; use a list for several values"})
		}
		if size += len(name) + headerLine; size > MaxHeaders { // more than a message can have: do not gather them
			l.refuse("", &Error{Word: WordTooLarge, Field: FieldHeaders,
				Detail: fmt.Sprintf("have names of more than %d bytes", MaxHeaders)})
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
				l.refuse(name, &Error{Word: WordHeader, Field: quoteName(name),
					Detail: "is neither a string nor a list of strings"})
				return
			}
			v, _ := f.s.text()
			if l.size <= MaxHeaders { // beyond it they are refused: do not gather them
				one[0] = string(v)
				l.add(name, one[:])
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
	list, err := l.finish()
	if e, ok := err.(*Error); ok {
		f.refuse(e)
	}
	return list
}
