package ops

import (
	"cmp"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// jsonFields are the fields of a push, by their position in fields.seen.
var jsonFields = [...]string{wire.FieldTopic, wire.FieldBody, fieldBase64, fieldJSON, wire.FieldHeaders,
	wire.FieldDelay, fieldDelayMS, wire.FieldAt, wire.FieldID, wire.FieldKey,
	wire.FieldOnDuplicate, wire.FieldDeliver, wire.FieldPriority, wire.FieldTTL, wire.FieldAttempt, wire.FieldRetry,
	wire.FieldMaxWait, wire.FieldReason, wire.FieldUID, wire.FieldLease}

// The two other forms of a body, and that of a delay for programs: a number of milliseconds.
const (
	fieldDelayMS = "delay_ms"

	fieldBase64 = "body_base64"
	fieldJSON   = "body_json"
)

// push reads one object. An error in a field refuses the push, and reading continues; an error in the JSON ends the
// reading.
func (s *scanner) push(prefix string) PushItem {
	var (
		item PushItem
		f    = fields{s: s}
		p    = &item.Push
	)
	if s.next() != '{' {
		s.skip(1)
		return PushItem{Err: &wire.Error{Word: WordJSON, Field: "push", Detail: "is not a JSON object"}}
	}
	s.object(func(name []byte) { f.push(name, &item) })
	if f.bad != nil {
		return PushItem{Err: f.bad}
	}
	if err := cmp.Or(p.CheckStatus(len(item.Body)), p.Check(prefix)); err != nil {
		return PushItem{Err: err}
	}
	return item
}

// push reads one field of a push.
func (f *fields) push(name []byte, item *PushItem) {
	if _, ok := f.known(name, jsonFields[:], "is not a field of a push"); !ok {
		return
	}
	switch f.name {
	case wire.FieldTopic:
		item.Push.Topic, _ = f.string()
	case wire.FieldBody, fieldBase64, fieldJSON:
		item.Body = f.body()
	case wire.FieldHeaders:
		item.Push.Headers = f.headers()
	case wire.FieldRetry:
		f.retry(&item.Push)
	case wire.FieldDelay, fieldDelayMS:
		if text, ok := f.delay(); ok {
			f.refuse(item.Push.Set(wire.FieldDelay, text))
		}
	case wire.FieldAt, wire.FieldTTL, wire.FieldMaxWait, wire.FieldLease:
		f.set(&item.Push, f.span)
	case wire.FieldPriority, wire.FieldAttempt:
		f.set(&item.Push, f.number)
	default:
		f.set(&item.Push, f.string)
	}
}

// set reads a value and sets the field's option from it, by the rules of the header of the same meaning.
func (f *fields) set(p *wire.Push, read func() (string, bool)) {
	if value, ok := read(); ok {
		f.refuse(p.Set(f.name, value))
	}
}

// retry reads a schedule: its text, or a list of delays.
func (f *fields) retry(p *wire.Push) {
	switch f.s.next() {
	case '"':
		f.set(p, f.string)
		return
	case '[':
	default:
		f.s.skip(1)
		f.invalid("is neither text nor a list of delays")
		return
	}
	var delays []time.Duration
	f.s.array(func() {
		if c := f.s.next(); c != '"' && c != '-' && !wire.IsDigit(c) {
			f.s.skip(2)
			f.invalid("holds what is no delay")
			return
		}
		text, _ := f.span()
		if len(delays) > wire.MaxRetries || f.s.bad != nil { // more delays are refused, so they need not be collected
			return
		}
		d, problem := wire.Span(text)
		if problem != "" {
			f.invalid("has a bad delay: " + problem)
		}
		delays = append(delays, d)
	})
	r, err := wire.RetryOf(delays)
	f.refuse(err)
	p.Retry = r
}
