package wire

import "encoding/base64"

// jsonFields are the fields of a push, by their place in fields.seen.
var jsonFields = [...]string{FieldTopic, FieldBody, fieldBase64, FieldHeaders, FieldDelay, FieldAt, FieldID, FieldKey,
	FieldOnDuplicate, FieldDeliver, FieldPriority, FieldTTL, FieldAttempt, FieldRetry, FieldMaxWait}

const fieldBase64 = "body_base64"

var refFields = [...]string{FieldID, FieldKey}

// wordOf is the stable word of a field that holds the wrong kind of value.
func wordOf(field string) string {
	switch field {
	case FieldTopic:
		return WordTopic
	case FieldDelay:
		return WordDelay
	case FieldAt:
		return WordAt
	case FieldID:
		return WordID
	case FieldKey:
		return WordKey
	case FieldOnDuplicate:
		return WordOnDuplicate
	case FieldDeliver:
		return WordDeliver
	case FieldPriority:
		return WordPriority
	case FieldTTL:
		return WordTTL
	case FieldAttempt:
		return WordAttempt
	}
	return WordJSON
}

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
	if f.bad == nil {
		if err := p.Check(prefix); err != nil {
			return PushItem{Err: err}
		}
		return item
	}
	return PushItem{Err: f.bad}
}

// fields reads the values of one object and keeps the first mistake.
type fields struct {
	s    *scanner
	seen uint32
	bad  *Error

	hasBody bool // in either of its two forms
}

func (f *fields) refuse(e *Error) {
	if f.bad == nil {
		f.bad = e
	}
}

// known finds a field by its name and skips the value of one that is unknown, repeated or null.
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
		if f.s.null() {
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
	case FieldBody, fieldBase64:
		f.body(field, item)
	case FieldHeaders:
		f.headers(&item.Push)
	case FieldRetry, FieldMaxWait:
		f.s.skip(1)
		f.set(&item.Push, field, "")
	case FieldDelay, FieldAt, FieldTTL:
		f.textOrNumber(&item.Push, field)
	case FieldPriority, FieldAttempt:
		if c := f.s.next(); c != '-' && !isDigit(c) {
			f.s.skip(1)
			f.refuse(&Error{Word: wordOf(field), Field: field, Detail: "is not a number"})
			return
		}
		f.set(&item.Push, field, string(f.s.number()))
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
	switch c := f.s.next(); {
	case c == '"':
		v, _ := f.s.text()
		f.set(p, field, string(v))
	case c == '-' || isDigit(c):
		f.set(p, field, string(f.s.number()))
	default:
		f.s.skip(1)
		f.refuse(&Error{Word: wordOf(field), Field: field, Detail: "is neither text nor a number of milliseconds"})
	}
}

func (f *fields) body(field string, item *PushItem) {
	if f.s.next() != '"' {
		f.s.skip(1)
		f.refuse(&Error{Word: WordBody, Field: field, Detail: "is not a string; send other JSON as text or as body_base64"})
		return
	}
	v, shared := f.s.text()
	if f.hasBody {
		f.refuse(&Error{Word: WordBody, Field: FieldBody, Detail: "and body_base64 are both given; a push takes one of them"})
		return
	}
	f.hasBody = true
	if field == FieldBody {
		item.Body = v
		return
	}
	// Decoding never writes ahead of where it reads, but the request belongs to the caller.
	out := v
	if shared {
		out = make([]byte, base64.StdEncoding.DecodedLen(len(v)))
	}
	n, err := base64.StdEncoding.Strict().Decode(out, v)
	if err != nil {
		f.refuse(&Error{Word: WordBody, Field: field, Detail: "is not base64 (RFC 4648, padded)"})
		return
	}
	item.Body = out[:n:n]
}

func (f *fields) headers(p *Push) {
	if f.s.next() != '{' {
		f.s.skip(1)
		f.refuse(&Error{Word: WordHeader, Field: FieldHeaders, Detail: "are not an object of strings or lists of strings"})
		return
	}
	var (
		l     headerList
		names map[string]bool
		one   [1]string
	)
	f.s.object(func(raw []byte) {
		name := string(raw)
		switch {
		case hasPrefixFold(name, "tarry-"):
			l.refuse(name, &Error{Word: WordHeader, Field: quoteName(name), Detail: "is a tag; it has a field of its own here"})
		case names[name]:
			l.refuse(name, &Error{Word: WordRepeatedField, Field: quoteName(name), Detail: "is given more than once; use a list for several values"})
		}
		if names == nil {
			names = make(map[string]bool, 4)
		}
		names[name] = true
		value := func() {
			if f.s.next() != '"' {
				f.s.skip(2)
				l.refuse(name, &Error{Word: WordHeader, Field: quoteName(name), Detail: "is neither a string nor a list of strings"})
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
		return
	}
	list, err := l.finish()
	if e, ok := err.(*Error); ok {
		f.refuse(e)
	}
	p.Headers = list
}
