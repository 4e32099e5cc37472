package wire

import (
	"fmt"
	"slices"
	"time"
)

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
	Headers    []Header
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
		return slices.Concat(o.fields(), []field{
			{FieldDelay, func(f *fields) { o.Delay = parsed(f, f.span, ParseDelay) }},
		}, content(&o.Headers, &o.HasHeaders, &o.Body, &o.HasBody))
	}, (*DeadOrder).check)
}

// DecodePurge reads which dead messages to purge. It accepts the fields of DecodeDeadOrder that select messages.
func DecodePurge(data []byte) (DeadOrder, error) {
	return decode(data, "a purge", (*DeadOrder).fields, (*DeadOrder).check)
}

func (o *DeadOrder) fields() []field {
	return []field{
		{FieldID, func(f *fields) {
			if o.One.ID, _ = f.string(); o.One.ID == "" {
				f.invalid("is empty")
			}
		}},
		{FieldKey, func(f *fields) { o.One.Key, o.One.Keyed = f.string() }},
		{FieldIDs, func(f *fields) { o.IDs = f.ids() }},
		// the topic of one message, else a pattern: check distinguishes them
		{FieldTopic, func(f *fields) { o.Topic = f.checked(CheckPattern) }},
		{FieldFrom, func(f *fields) { o.From, o.HasFrom = f.when(), true }},
		{FieldTo, func(f *fields) { o.To, o.HasTo = f.when(), true }},
		{FieldOlder, func(f *fields) {
			older := func(text string) (time.Duration, error) { return ParseSpan(text, FieldOlder) }
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
		if err := CheckSubject(o.Topic); err != nil {
			return err
		}
		o.One.Topic, o.Topic = o.Topic, ""
	}
	bounded := o.Topic != "" || o.HasFrom || o.HasTo || o.HasOlder
	switch {
	case o.IDs != nil && len(o.IDs) == 0:
		return invalid(FieldIDs, fmt.Sprintf("are empty; want 1 to %d", MaxIDs))
	case o.One.ID != "" && o.IDs != nil:
		return invalid(FieldIDs, "and id are both given; want one of them")
	case !o.Selects() && (bounded || o.All):
		return &Error{Word: WordSelection, Field: "order",
			Detail: "names messages by id and also selects by topic or time; use one of the two"}
	case o.One.Keyed && o.One.ID == "":
		return &Error{Word: WordKey, Field: FieldKey, Detail: "requires exactly one id"}
	case o.Selects() && !bounded && !o.All:
		return &Error{Word: WordSelection, Field: "order",
			Detail: `is empty; want an id, ids, a topic, from, to or older, or "all":true for every dead message`}
	case o.HasOlder && (o.HasFrom || o.HasTo):
		return invalid(FieldOlder, "and from and to exclude each other")
	case o.One.ID == "" && o.HasHeaders:
		return &Error{Word: WordHeader, Field: FieldHeaders, Detail: "require exactly one id"}
	case o.One.ID == "" && o.HasBody:
		return &Error{Word: WordBody, Field: FieldBody, Detail: "requires exactly one id"}
	}
	from, to := o.From, o.To
	if from.Relative && to.Relative { // back from now: the longer is the earlier
		from, to = to, from
	}
	return checkRange(from, to, o.HasFrom && o.HasTo, FieldFrom, FieldTo)
}
