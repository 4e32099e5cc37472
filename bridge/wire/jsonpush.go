package wire

import (
	"cmp"
	"strconv"
	"time"
)

// jsonFields are the fields of a push, by their position in fields.seen.
var jsonFields = [...]string{FieldTopic, FieldBody, fieldBase64, fieldJSON, FieldHeaders, FieldDelay,
	fieldDelayMS, FieldAt, FieldID, FieldKey,
	FieldOnDuplicate, FieldDeliver, FieldPriority, FieldTTL, FieldAttempt, FieldRetry, FieldMaxWait, FieldReason, FieldUID,
	FieldLease}

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
		return PushItem{Err: &Error{Word: WordJSON, Field: "push", Detail: "is not a JSON object"}}
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
	case FieldTopic:
		item.Push.Topic, _ = f.string()
	case FieldBody, fieldBase64, fieldJSON:
		item.Body = f.body()
	case FieldHeaders:
		item.Push.Headers = f.headers()
	case FieldRetry:
		f.retry(&item.Push)
	case FieldDelay, fieldDelayMS:
		if text, ok := f.delay(); ok {
			f.refuse(item.Push.Set(FieldDelay, text))
		}
	case FieldAt, FieldTTL, FieldMaxWait, FieldLease:
		f.set(&item.Push, f.span)
	case FieldPriority, FieldAttempt:
		f.set(&item.Push, f.number)
	default:
		f.set(&item.Push, f.string)
	}
}

// set reads a value and sets the field's option from it, by the rules of the header of the same meaning.
func (f *fields) set(p *Push, read func() (string, bool)) {
	if value, ok := read(); ok {
		f.refuse(p.Set(f.name, value))
	}
}

// retry reads a schedule: its text, or a list of delays.
func (f *fields) retry(p *Push) {
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
		if c := f.s.next(); c != '"' && c != '-' && !isDigit(c) {
			f.s.skip(2)
			f.invalid("holds what is no delay")
			return
		}
		text, _ := f.span()
		if len(delays) > MaxRetries || f.s.bad != nil { // more delays are refused, so they need not be collected
			return
		}
		d, problem := span(text)
		if problem != "" {
			f.invalid("has a bad delay: " + problem)
		}
		delays = append(delays, d)
	})
	r, err := RetryOf(delays)
	f.refuse(err)
	p.Retry = r
}

// Options returns the part of a push's content that is neither topic, headers nor body, in one fixed form. Two pushes
// with one name are the same push only if their options are equal. A delay is compared as text, because its due time
// moves each time the push is repeated; a time is compared as a moment. The id, the key and the attempt make up the
// name itself, and the reason of a consumer's failure is not part of the request.
func (p *Push) Options() string {
	b := make([]byte, 0, 64)
	switch {
	case p.HasAt:
		b = strconv.AppendInt(append(b, "at="...), p.At.UnixMilli(), 10)
	case p.DelayText == "":
		b = append(b, "by_retry"...)
	default:
		b = append(append(b, "delay="...), p.DelayText...)
	}
	if p.Priority > 0 {
		b = strconv.AppendUint(append(b, " priority="...), uint64(p.Priority), 10)
	}
	if p.TTL > 0 {
		b = strconv.AppendInt(append(b, " ttl="...), int64(p.TTL/time.Millisecond), 10)
	}
	if p.OnDuplicate != "" && p.OnDuplicate != Reject {
		b = append(append(b, " on_duplicate="...), p.OnDuplicate...)
	}
	if p.Deliver != "" {
		b = append(append(b, " deliver="...), p.Deliver...)
	}
	if p.Lease > 0 {
		b = strconv.AppendInt(append(b, " lease="...), int64(p.Lease/time.Millisecond), 10)
	}
	if p.MaxWait > 0 {
		b = strconv.AppendInt(append(b, " max_wait="...), int64(p.MaxWait/time.Millisecond), 10)
	}
	if !p.Retry.Empty() {
		b = append(append(b, " retry="...), p.Retry.String()...)
	}
	return string(b)
}
