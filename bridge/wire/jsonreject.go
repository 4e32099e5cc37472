package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Rejected is a push by tag that NATS acknowledged and tarry refused.
type Rejected struct {
	Sequence uint64 `json:"sequence"` // in the stream of rejects
	At       string `json:"at"`
	Topic    string `json:"topic"`
	ID       string `json:"id,omitempty"`
	Key      string `json:"key,omitempty"`
	Word     string `json:"reason"` // the word of the problem
	Detail   string `json:"detail"`
	Size     int    `json:"size"` // of the body
	// Incomplete reports that a part of the original message is missing, so that it cannot be pushed again.
	Incomplete bool                `json:"incomplete,omitempty"`
	Headers    map[string][]string `json:"headers,omitempty"` // as sent; not in lists, and neither is the body
	Body       *string             `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"`
}

// SetBody stores a body in the field that preserves all its bytes.
func (r *Rejected) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		r.Body = &text
		return
	}
	r.BodyBase64 = body
}

// RejectOrder selects the rejects to push again, and says with what changes.
type RejectOrder struct {
	Sequence  uint64   // one, or
	Sequences []uint64 // several
	Topic     string   // replaces the topic that was sent; empty: unchanged
	Set       []Header // replace the headers of the same name
	Drop      []string // removed headers
}

// The fields of a RejectOrder.
const (
	FieldSequence  = "sequence"
	FieldSequences = "sequences"
	FieldSet       = "set"
	FieldDrop      = "drop"

	WordSequence = "invalid_sequence"
)

// maxChanges is the maximum number of headers that an order changes.
const maxChanges = 100

// DecodeRejectOrder reads which rejects to push again, and with what changes:
//
//	{"sequence":12 | "sequences":[12, ...] (at most MaxIDs), "topic":"orders.remind",
//	 "set":{"Tarry-Delay":"20m"}, "drop":["Tarry-Dealy"]}
func DecodeRejectOrder(data []byte, prefix string) (RejectOrder, error) {
	return decode(data, "a requeue of rejects", func(o *RejectOrder) []field {
		return []field{
			{FieldSequence, func(f *fields) { o.Sequence = f.sequence() }},
			{FieldSequences, func(f *fields) {
				o.Sequences = []uint64{}
				f.list(MaxIDs, func() { o.Sequences = append(o.Sequences, f.sequence()) })
			}},
			{FieldTopic, func(f *fields) {
				o.Topic = f.checked(func(topic string) error { return CheckTarget(topic, prefix) })
			}},
			{FieldSet, func(f *fields) { o.Set = f.replaced() }},
			{FieldDrop, func(f *fields) {
				f.list(maxChanges, func() {
					if name, ok := f.string(); ok {
						o.Drop = append(o.Drop, name)
					}
				})
			}},
		}
	}, (*RejectOrder).check)
}

// sequence reads a stream sequence.
func (f *fields) sequence() uint64 {
	return parsed(f, f.number, func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return 0, invalid(f.name, quote(text)+" is not a whole number from 1")
		}
		return n, nil
	})
}

// replaced reads the headers that replace others; each value is a string.
func (f *fields) replaced() (set []Header) {
	if f.s.next() != '{' {
		f.s.skip(1)
		f.invalid("is not an object of strings")
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

// Change returns headers with the order's changes applied; names match without case.
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
