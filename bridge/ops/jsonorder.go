package ops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
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
	Sequence  uint64        // one, or
	Sequences []uint64      // several
	Topic     string        // replaces the topic that was sent; empty: unchanged
	Set       []wire.Header // replace the headers of the same name
	Drop      []string      // removed headers
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
			{wire.FieldTopic, func(f *fields) {
				o.Topic = f.checked(func(topic string) error { return wire.CheckTarget(topic, prefix) })
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
			return 0, wire.Invalid(f.name, wire.Quote(text)+" is not a whole number from 1")
		}
		return n, nil
	})
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

func (o *RejectOrder) check() error {
	switch {
	case o.Sequence == 0 && o.Sequences == nil, o.Sequences != nil && len(o.Sequences) == 0:
		return wire.Invalid(FieldSequence, "is missing; want a sequence, or sequences, as the list of rejects has them")
	case o.Sequence != 0 && o.Sequences != nil:
		return wire.Invalid(FieldSequences, "and sequence are both given; want one of them")
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

// DeadOrder selects the dead messages to requeue, and says how, or the ones to purge.
type DeadOrder struct {
	// One message, several messages, or a selection by topic and time of death, or all.
	One      Named
	IDs      []string
	Topic    string // a pattern; empty: all
	From, To When   // bounds of the time of death, both inclusive; a duration counts back from now
	HasFrom  bool
	HasTo    bool
	Older    time.Duration // died at least that long ago
	HasOlder bool
	All      bool

	Delay      time.Duration
	Headers    []wire.Header
	HasHeaders bool
	Body       []byte
	HasBody    bool
	DryRun     bool
}

// Selects reports whether the order selects messages by topic and time rather than naming them.
func (o *DeadOrder) Selects() bool { return o.One.ID == "" && o.IDs == nil }

// DecodeDeadOrder reads which dead messages to requeue, and how:
//
//	{"id":"order-7131", "topic":"orders.created", "key":"customer-9"} | {"ids":["...", ...]} (at most MaxIDs)
//	| {"topic":"orders.>", "from":"2h", "to":"2030-01-31T08:00:00Z"} | {"topic":"orders.>", "older":"1d"}
//	| {"all":true}
//
// and "delay":"20m", "dry_run":true; with a single id also "body" | "body_base64" | "body_json" and "headers". From and
// to bound the time of death: times, or durations back from now.
func DecodeDeadOrder(data []byte) (DeadOrder, error) {
	return decode(data, "a requeue", func(o *DeadOrder) []field {
		return slices.Concat(o.fields(), delayed(func(d time.Duration) { o.Delay = d }),
			content(&o.Headers, &o.HasHeaders, &o.Body, &o.HasBody))
	}, (*DeadOrder).check)
}

// DecodePurge reads which dead messages to purge. It accepts the fields of DecodeDeadOrder that select messages.
func DecodePurge(data []byte) (DeadOrder, error) {
	return decode(data, "a purge", (*DeadOrder).fields, (*DeadOrder).check)
}

func (o *DeadOrder) fields() []field {
	return []field{
		{wire.FieldID, func(f *fields) {
			if o.One.ID, _ = f.string(); o.One.ID == "" {
				f.invalid("is empty")
			}
		}},
		{wire.FieldKey, func(f *fields) { o.One.Key, o.One.Keyed = f.string() }},
		{FieldIDs, func(f *fields) { o.IDs = f.ids() }},
		// the topic of one message, else a pattern: check distinguishes them
		{wire.FieldTopic, func(f *fields) { o.Topic = f.checked(wire.CheckPattern) }},
		{FieldFrom, func(f *fields) { o.From, o.HasFrom = f.when(), true }},
		{FieldTo, func(f *fields) { o.To, o.HasTo = f.when(), true }},
		{FieldOlder, func(f *fields) {
			older := func(text string) (time.Duration, error) { return wire.ParseSpan(text, FieldOlder) }
			o.Older, o.HasOlder = parsed(f, f.span, older), true
		}},
		{FieldAll, func(f *fields) { o.All = f.bool() }},
		{FieldDryRun, func(f *fields) { o.DryRun = f.bool() }},
	}
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

func (o *DeadOrder) check() error {
	if o.One.ID != "" && o.IDs == nil && o.Topic != "" {
		if err := wire.CheckSubject(o.Topic); err != nil {
			return err
		}
		o.One.Topic, o.Topic = o.Topic, ""
	}
	bounded := o.Topic != "" || o.HasFrom || o.HasTo || o.HasOlder
	switch {
	case o.IDs != nil && len(o.IDs) == 0:
		return wire.Invalid(FieldIDs, fmt.Sprintf("are empty; want 1 to %d", MaxIDs))
	case o.One.ID != "" && o.IDs != nil:
		return wire.Invalid(FieldIDs, "and id are both given; want one of them")
	case !o.Selects() && (bounded || o.All):
		if o.IDs == nil {
			return wire.Invalid(wire.FieldID, "and a topic, a time or all are both given; want one of them")
		}
		return wire.Invalid(FieldIDs, "and a topic, a time or all are both given; want one of them")
	case o.One.Keyed && o.One.ID == "":
		return &wire.Error{Word: wire.WordKey, Field: wire.FieldKey, Detail: "requires exactly one id"}
	case o.Selects() && !bounded && !o.All:
		return &wire.Error{Word: WordSelection, Field: "order",
			Detail: `is empty; want an id, ids, a topic, from, to or older, or "all":true for every dead message`}
	case o.HasOlder && (o.HasFrom || o.HasTo):
		return wire.Invalid(FieldOlder, "and from and to exclude each other")
	case o.One.ID == "" && o.HasHeaders:
		return &wire.Error{Word: wire.WordHeader, Field: wire.FieldHeaders, Detail: "require exactly one id"}
	case o.One.ID == "" && o.HasBody:
		return &wire.Error{Word: WordBody, Field: wire.FieldBody, Detail: "requires exactly one id"}
	}
	from, to := o.From, o.To
	if from.Relative && to.Relative { // back from now: the longer is the earlier
		from, to = to, from
	}
	return checkRange(from, to, o.HasFrom && o.HasTo, FieldFrom, FieldTo)
}

// The fields of the requests that work on the journal. The word for an invalid field is "invalid_" followed by its
// name.
const (
	FieldOverdue = "overdue"
	FieldDryRun  = "dry_run"
	FieldRate    = "rate"
	FieldRepair  = "repair"
	FieldRevive  = "revive"
	FieldSince   = "since"
)

// Stable words of the refusals of these requests: what a field refuses is "invalid_" and its name.
const (
	WordDryRun = "invalid_dry_run"
	WordSince  = "invalid_since"
)

// MaxRate is the maximum rate of a restore, in messages a second.
const MaxRate = 1_000_000

// Restore asks to restore messages that the journal has and the store lacks.
type Restore struct {
	Overdue bool   // also the messages that are due already
	Topic   string // or a pattern of topics; empty: all
	DryRun  bool
	Rate    int // messages a second, 0 for no bound
}

// DecodeRestore reads {"overdue":true, "topic":"orders.created", "dry_run":false, "rate":1000}. An empty body is the
// same as {}; overdue defaults to true.
func DecodeRestore(data []byte) (Restore, error) {
	return decode(data, "a restore", func(r *Restore) []field {
		r.Overdue = true
		return []field{
			{FieldOverdue, func(f *fields) { r.Overdue = f.bool() }},
			{wire.FieldTopic, func(f *fields) { r.Topic = f.checked(wire.CheckPattern) }},
			{FieldDryRun, func(f *fields) { r.DryRun = f.bool() }},
			{FieldRate, func(f *fields) { r.Rate = f.count(MaxRate) }},
		}
	}, func(*Restore) error { return nil })
}

// DecodeRestoreOne reads {"dry_run":false}, the restore of one message; an empty body is the same as {}.
func DecodeRestoreOne(data []byte) (dryRun bool, err error) {
	return decode(data, "the restore of one message", func(v *bool) []field {
		return []field{{FieldDryRun, func(f *fields) { *v = f.bool() }}}
	}, func(*bool) error { return nil })
}

// Verify asks to compare the store with the journal.
type Verify struct {
	Repair bool `json:"repair,omitempty"` // bring both to the higher version
	Revive bool `json:"revive,omitempty"` // also bring back what ended according to the store alone
}

// DecodeVerify reads {"repair":false, "revive":false}; an empty body is the same as {}.
func DecodeVerify(data []byte) (Verify, error) {
	return decode(data, "a verify", func(v *Verify) []field {
		return []field{
			{FieldRepair, func(f *fields) { v.Repair = f.bool() }},
			{FieldRevive, func(f *fields) { v.Revive = f.bool() }},
		}
	}, func(*Verify) error { return nil })
}

// Redeliver asks to publish again the messages that a broker lost.
type Redeliver struct {
	Since  When   // a duration counts back from now
	Topic  string // or a pattern of topics; empty: all
	DryRun bool
}

// DecodeRedeliver reads {"since":"2h", "topic":"orders.created", "dry_run":false}; since is required.
func DecodeRedeliver(data []byte) (Redeliver, error) {
	given := false
	return decode(data, "a redeliver", func(r *Redeliver) []field {
		return []field{
			{FieldSince, func(f *fields) { r.Since, given = f.when(), true }},
			{wire.FieldTopic, func(f *fields) { r.Topic = f.checked(wire.CheckPattern) }},
			{FieldDryRun, func(f *fields) { r.DryRun = f.bool() }},
		}
	}, func(*Redeliver) error {
		if !given {
			return wire.Invalid(FieldSince, "is missing; "+wantWhen)
		}
		return nil
	})
}
