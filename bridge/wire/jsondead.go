package wire

import (
	"fmt"
	"time"
)

// DeadOrder says which dead messages get another life, and how; or which are purged.
type DeadOrder struct {
	// One message, several, or a selection: topic, when they died, all.
	One      Named
	IDs      []string
	Topic    string // a pattern; empty: all
	From, To When   // bounds of when they died, both inclusive; a duration counts back from now
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

// Selects reports whether the order picks messages by topic and time, rather than naming them.
func (o *DeadOrder) Selects() bool { return o.One.ID == "" && o.IDs == nil }

var (
	deadFields = []string{FieldID, FieldKey, FieldIDs, FieldTopic, FieldFrom, FieldTo, FieldOlder,
		FieldAll, FieldDryRun}
	requeueFields = []string{FieldDelay, FieldBody, fieldBase64, fieldJSON, FieldHeaders}
)

// DecodeDeadOrder reads which dead messages are requeued, and how:
//
//	{"id":"order-7131", "topic":"orders.created", "key":"customer-9"} | {"ids":["...", ...]} (at most MaxIDs)
//	| {"topic":"orders.>", "from":"2h", "to":"2030-01-31T08:00:00Z"} | {"topic":"orders.>", "older":"1d"} | {"all":true}
//
// and "delay":"20m", "dry_run":true; with one id alone also "body" | "body_base64" | "body_json" and "headers". From
// and to bound when they died: times, or durations back from now.
func DecodeDeadOrder(data []byte) (DeadOrder, error) {
	return decodeDead(data, "a requeue", join(deadFields, requeueFields))
}

// DecodePurge reads which dead messages are purged: DecodeDeadOrder without what is about another life.
func DecodePurge(data []byte) (DeadOrder, error) { return decodeDead(data, "a purge", deadFields) }

func decodeDead(data []byte, what string, names []string) (DeadOrder, error) {
	var o DeadOrder
	err := decode(data, what, names, o.read)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return DeadOrder{}, err
	}
	return o, nil
}

func (o *DeadOrder) read(f *fields, field string) {
	switch field {
	case FieldID, FieldKey:
		o.One.read(f, field)
		if field == FieldID && o.One.ID == "" {
			f.refuse(&Error{Word: WordID, Field: FieldID, Detail: "is empty"})
		}
	case FieldIDs:
		o.IDs = f.ids()
	case FieldTopic: // of one message its own, else a pattern: check knows which
		o.Topic = f.pattern()
	case FieldFrom:
		o.From, o.HasFrom = f.when(field), true
	case FieldTo:
		o.To, o.HasTo = f.when(field), true
	case FieldOlder, FieldDelay:
		text, ok := f.span(field)
		if !ok {
			return
		}
		d, err := ParseSpan(text, field)
		f.refuseErr(err)
		if field == FieldDelay {
			o.Delay = d
			return
		}
		o.Older, o.HasOlder = d, true
	case FieldAll:
		o.All = f.bool(field)
	case FieldDryRun:
		o.DryRun = f.bool(field)
	case FieldBody, fieldBase64, fieldJSON:
		o.Body, o.HasBody = f.body(field), true
	case FieldHeaders:
		o.Headers, o.HasHeaders = f.headers(), true
	}
}

// ids reads a list of names.
func (f *fields) ids() []string {
	if f.s.next() != '[' {
		f.s.skip(1)
		f.refuse(invalid(FieldIDs, "are not a list of strings"))
		return nil
	}
	list := []string{}
	f.s.array(func() {
		switch {
		case f.s.next() != '"':
			f.s.skip(2)
			f.refuse(invalid(FieldIDs, "hold what is not a string"))
			return
		case len(list) >= MaxIDs:
			f.s.skip(2)
			f.refuse(&Error{Word: WordTooLarge, Field: FieldIDs,
				Detail: fmt.Sprintf("are more than the limit of %d", MaxIDs)})
			return
		}
		v, _ := f.s.text()
		if len(v) == 0 {
			f.refuse(invalid(FieldIDs, "hold an empty string"))
		}
		list = append(list, string(v))
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
			Detail: "names messages by id and picks them by topic or time too; want one of the two"}
	case o.One.Keyed && o.One.ID == "":
		return &Error{Word: WordKey, Field: FieldKey, Detail: "goes with one id alone"}
	case o.Selects() && !bounded && !o.All:
		return &Error{Word: WordSelection, Field: "order",
			Detail: `is empty; want an id, ids, a topic, from, to or older, or "all":true for every dead message`}
	case o.HasOlder && (o.HasFrom || o.HasTo):
		return invalid(FieldOlder, "and from and to exclude each other")
	case o.One.ID == "" && o.HasHeaders:
		return &Error{Word: WordHeader, Field: FieldHeaders, Detail: "go with one id alone"}
	case o.One.ID == "" && o.HasBody:
		return &Error{Word: WordBody, Field: FieldBody, Detail: "goes with one id alone"}
	}
	from, to := o.From, o.To
	if from.Relative && to.Relative { // back from now: the longer is the earlier
		from, to = to, from
	}
	return checkRange(from, to, o.HasFrom && o.HasTo, FieldFrom, FieldTo)
}
