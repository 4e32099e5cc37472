package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Rejected is a push by tag that NATS had acknowledged and tarry refused.
type Rejected struct {
	Sequence uint64 `json:"sequence"` // in the stream of rejects
	At       string `json:"at"`
	Topic    string `json:"topic"`
	ID       string `json:"id,omitempty"`
	Key      string `json:"key,omitempty"`
	Word     string `json:"reason"` // the word of the problem
	Detail   string `json:"detail"`
	Size     int    `json:"size"` // of the body
	// Incomplete: it lacks a part of what was sent, and cannot be pushed again.
	Incomplete bool                `json:"incomplete,omitempty"`
	Headers    map[string][]string `json:"headers,omitempty"` // as sent; not in lists, and neither is the body
	Body       *string             `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"`
}

// SetBody puts a body in the field that keeps it whole.
func (r *Rejected) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		r.Body = &text
		return
	}
	r.BodyBase64 = body
}

// RejectOrder says which rejects are pushed again, and with what changes.
type RejectOrder struct {
	Sequence  uint64   // one, or
	Sequences []uint64 // several
	Topic     string   // in place of the one that was sent; empty: that one
	Set       []Header // headers in place of those of the same name
	Drop      []string // headers that are left out
}

// The fields of a RejectOrder.
const (
	FieldSequence  = "sequence"
	FieldSequences = "sequences"
	FieldSet       = "set"
	FieldDrop      = "drop"

	WordSequence  = "invalid_sequence"
	WordSequences = "invalid_sequences"
	WordSet       = "invalid_set"
	WordDrop      = "invalid_drop"
)

var rejectFields = []string{FieldSequence, FieldSequences, FieldTopic, FieldSet, FieldDrop}

// maxChanges bounds the headers that an order changes.
const maxChanges = 100

// DecodeRejectOrder reads which rejects are pushed again, and what is mended in them:
//
//	{"sequence":12 | "sequences":[12, ...] (at most MaxIDs), "topic":"orders.remind",
//	 "set":{"Tarry-Delay":"20m"}, "drop":["Tarry-Dealy"]}
func DecodeRejectOrder(data []byte, prefix string) (RejectOrder, error) {
	var o RejectOrder
	err := decode(data, "a requeue of rejects", rejectFields, func(f *fields, field string) {
		o.read(f, field, prefix)
	})
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return RejectOrder{}, err
	}
	return o, nil
}

func (o *RejectOrder) read(f *fields, field, prefix string) {
	switch field {
	case FieldSequence:
		o.Sequence = f.sequence(field)
	case FieldSequences:
		o.Sequences = []uint64{}
		f.list(field, MaxIDs, func() { o.Sequences = append(o.Sequences, f.sequence(field)) })
	case FieldTopic:
		if topic, ok := f.string(field); ok {
			f.refuseErr(CheckTarget(topic, prefix))
			o.Topic = topic
		}
	case FieldSet:
		o.Set = f.replaced()
	case FieldDrop:
		f.list(field, maxChanges, func() {
			if name, ok := f.string(field); ok {
				o.Drop = append(o.Drop, name)
			}
		})
	}
}

// sequence reads a place in a stream.
func (f *fields) sequence(field string) uint64 {
	text, ok := f.number(field)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		f.refuse(invalid(field, quote(text)+" is not a whole number from 1"))
	}
	return n
}

// list reads a list of at most limit elements.
func (f *fields) list(field string, limit int, element func()) {
	if f.s.next() != '[' {
		f.s.skip(1)
		f.refuse(invalid(field, "are not a list"))
		return
	}
	n := 0
	f.s.array(func() {
		if n++; n > limit {
			f.s.skip(2)
			f.refuse(
				&Error{Word: WordTooLarge, Field: field, Detail: fmt.Sprintf("are more than the limit of %d", limit)})
			return
		}
		element()
	})
}

// replaced reads the headers that replace others: a string each.
func (f *fields) replaced() (set []Header) {
	if f.s.next() != '{' {
		f.s.skip(1)
		f.refuse(invalid(FieldSet, "is not an object of strings"))
		return nil
	}
	f.s.object(func(raw []byte) {
		name := string(raw)
		switch {
		case !isToken(name):
			f.refuse(&Error{Word: WordHeader, Field: FieldSet,
				Detail: "contains the name " + quote(name) + ", which no header can have"})
		case len(set) >= maxChanges:
			f.refuse(&Error{Word: WordTooLarge, Field: FieldSet,
				Detail: fmt.Sprintf("has more than %d headers", maxChanges)})
		}
		if f.s.next() != '"' {
			f.s.skip(2)
			f.refuse(&Error{Word: WordHeader, Field: quoteName(name),
				Detail: "is not a string; to leave a header out name it in " + FieldDrop})
			return
		}
		text, _ := f.s.text()
		value := string(text)
		if p := valueProblem(value); p != "" {
			f.refuse(&Error{Word: WordHeader, Field: quoteName(name), Detail: p})
		}
		if f.bad == nil {
			set = append(set, Header{Name: name, Value: value})
		}
	})
	return set
}

func (o *RejectOrder) check() error {
	switch {
	case o.Sequence == 0 && o.Sequences == nil, o.Sequences != nil && len(o.Sequences) == 0:
		return invalid(FieldSequence, "is missing; want a sequence, or sequences, as the list of rejects has them")
	case o.Sequence != 0 && o.Sequences != nil:
		return invalid(FieldSequences, "and sequence are both given; want one of them")
	}
	return nil
}

// Change returns headers with what the order sets and drops; names match without case.
func (o *RejectOrder) Change(headers map[string][]string) map[string][]string {
	out := make(map[string][]string, len(headers)+len(o.Set))
	gone := func(name string) bool {
		for _, d := range o.Drop {
			if strings.EqualFold(d, name) {
				return true
			}
		}
		for _, s := range o.Set {
			if strings.EqualFold(s.Name, name) {
				return true
			}
		}
		return false
	}
	for name, values := range headers {
		if !gone(name) {
			out[name] = values
		}
	}
	for _, s := range o.Set {
		out[s.Name] = []string{s.Value}
	}
	return out
}
