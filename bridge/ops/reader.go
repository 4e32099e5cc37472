package ops

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// field is one field of an In, and where it stands in a request over HTTP.
type field struct {
	name   string
	index  []int
	place  place
	header string
	reader
}

type place uint8

const (
	inBody place = iota
	inPath
	inQuery
	inHeader
)

// reader reads the value of a field: from JSON, and from the text that a path, a query or a header has. A request with
// a bad value is refused, so what is returned then does not matter.
type reader struct {
	json func(f *fields) any
	text func(name, text string) (any, error)
}

// fieldsOf returns the fields of an In for a route: those with a tag json, in their order, embedded ones too.
func fieldsOf(in reflect.Type, route string) (all []field) {
	known := readers()
	for _, f := range reflect.VisibleFields(in) {
		name := f.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		r, found := known[cmp.Or(f.Tag.Get("as"), name)]
		if !found {
			panic("ops: nothing reads the field " + name)
		}
		one := field{name: name, index: f.Index, reader: r}
		where, header, _ := strings.Cut(f.Tag.Get("in"), " ")
		switch {
		case strings.Contains(route, "{"+name+"}"):
			one.place = inPath
		case where == "header":
			one.place, one.header = inHeader, header
		case where == "query", !hasBody(route):
			one.place = inQuery
		}
		all = append(all, one)
		for _, form := range forms[name] {
			one.name = form
			all = append(all, one)
		}
	}
	return all
}

// set puts a value into an In.
func (f *field) set(in reflect.Value, value any) {
	if value == nil {
		return
	}
	to, v := in.FieldByIndex(f.index), reflect.ValueOf(value)
	if to.Kind() == reflect.Pointer && v.Kind() != reflect.Pointer {
		p := reflect.New(to.Type().Elem())
		p.Elem().Set(v.Convert(p.Elem().Type()))
		v = p
	}
	to.Set(v.Convert(to.Type()))
}

func (f *field) setText(in reflect.Value, text string) error {
	value, err := f.text(f.name, text)
	if err == nil {
		f.set(in, value)
	}
	return err
}

// plain returns how JSON is read for a field that is text over HTTP. Numbers are taken too if so asked: a call of the
// groups read and admin may have 12 for "12".
func (r reader) plain(numbers bool) func(f *fields) any {
	if !numbers {
		return r.json
	}
	return of((*fields).span, func(name, text string) (any, error) { return r.text(name, text) }).json
}

// of returns a reader of what take takes from JSON and parse makes of it.
func of[T any](take func(*fields) (string, bool), parse func(name, text string) (T, error)) reader {
	return reader{
		func(f *fields) any {
			text, ok := take(f)
			if !ok {
				return nil
			}
			v, err := parse(f.name, text)
			f.refuse(err)
			return v
		},
		func(name, text string) (any, error) { return parse(name, text) },
	}
}

// own makes a parser that knows the name of its field into one for of.
func own[T any](parse func(text string) (T, error)) func(name, text string) (T, error) {
	return func(_, text string) (T, error) { return parse(text) }
}

// passing returns a parser for text that passes a check.
func passing(check func(text string) error) func(name, text string) (string, error) {
	return func(_, text string) (string, error) { return text, check(text) }
}

// readers returns what reads a field, by its name: a field means the same in every request. Where a name has several
// meanings, a tag "as" of the In names one.
func readers() map[string]reader {
	text, number, span := (*fields).string, (*fields).number, (*fields).span
	plain := of(text, func(_, text string) (string, error) { return text, nil })
	flag := reader{func(f *fields) any { return f.bool() }, func(name, text string) (any, error) {
		if text != "true" && text != "false" {
			return nil, wire.Invalid(name, wire.Quote(text)+" is neither true nor false")
		}
		return text == "true", nil
	}}
	when := reader{func(f *fields) any { return f.when() },
		func(name, text string) (any, error) { return ParseWhen(text, name) }}
	sequence := of(number, parseSequence)
	whole := func(least, most int) reader {
		return reader{json: func(f *fields) any { return f.whole(least, most) }}
	}
	return map[string]reader{
		// what is meant
		wire.FieldID:    plain,
		wire.FieldKey:   plain,
		"given id":      of(text, passing(wire.CheckID)),
		"given key":     of(text, passing(wire.CheckKey)),
		wire.FieldTopic: of(text, passing(wire.CheckSubject)),
		"pattern":       of(text, passing(wire.CheckPattern)),
		"one topic":     of(text, passing(wire.CheckOneTopic)),
		FieldVersion: {func(f *fields) any { return f.version() },
			func(_, text string) (any, error) { return ParseIfMatch(text) }},
		FieldAll:      flag,
		FieldDetail:   flag,
		FieldDryRun:   flag,
		FieldIDs:      {json: func(f *fields) any { return f.ids() }},
		FieldDueFrom:  when,
		FieldDueTo:    when,
		FieldAccepted: when,
		FieldFrom:     when,
		FieldTo:       when,
		FieldSince:    when,
		FieldUntil:    when,
		FieldOlder:    of(span, func(name, text string) (time.Duration, error) { return wire.ParseSpan(text, name) }),
		FieldStep:     of(span, func(name, text string) (time.Duration, error) { return wire.ParseSpan(text, name) }),
		FieldBy:       of(text, own(parseBy)),
		FieldTop:      of(number, own(parseCount(FieldTop, MaxTop))),
		FieldState:    of(text, own(parseStates)),
		FieldHeld:     of(text, own(parseHeld)),
		FieldName:     plain,
		FieldKind:     of(text, own(parseKind)),
		FieldWho:      plain,
		FieldWhat:     plain,
		FieldCause:    of(text, own(parseCause)),
		FieldSpread:   of(span, own(parseSpread)),
		FieldLimit:    of(number, own(parseCount(FieldLimit, MaxList))),
		FieldCursor:   plain,
		FieldInstance: plain,
		// what changes
		wire.FieldDelay:    of((*fields).delay, own(wire.ParseDelay)),
		wire.FieldAt:       of(span, own(parseDue)),
		FieldShift:         of(span, own(ParseShift)),
		wire.FieldPriority: of(number, own(wire.ParsePriority)),
		wire.FieldBody:     {json: func(f *fields) any { return f.body() }},
		wire.FieldHeaders:  {json: func(f *fields) any { return append([]message.Header{}, headers(f.headers())...) }},
		wire.FieldReason:   of(text, func(_, text string) (string, error) { return wire.CleanReason(text), nil }),
		"word":             plain,
		FieldRepair:        flag,
		FieldRevive:        flag,
		FieldOverdue:       flag,
		FieldRate:          whole(0, MaxRate),
		// pull
		FieldMax:        whole(1, MaxPull),
		FieldMaxBytes:   whole(1, MaxPullBytes),
		FieldSending:    whole(1, MaxSendings),
		FieldWait:       of(span, own(ParseWait)),
		wire.FieldLease: of(span, own(wire.ParseLease)),
		FieldConsumer:   of(text, checkWord),
		FieldToken:      of(text, checkWord),
		FieldTopics:     {json: func(f *fields) any { return f.topics() }},
		FieldReceipt:    plain,
		FieldReceipts:   {json: func(f *fields) any { return f.texts(MaxPull) }},
		// rejects
		FieldSequence:  sequence,
		FieldSequences: {json: func(f *fields) any { return f.sequences() }},
		FieldSet:       {json: func(f *fields) any { return f.replaced() }},
		FieldDrop:      {json: func(f *fields) any { return f.texts(maxChanges) }},
	}
}

// forms are the further names of fields that have several forms.
var forms = map[string][]string{
	wire.FieldDelay: {fieldDelayMS},
	wire.FieldBody:  {fieldBase64, fieldJSON},
}

// parseDue reads the moment at which a message is due.
func parseDue(text string) (message.Milli, error) {
	at, err := wire.ParseAt(text)
	return message.CeilMilli(at), err
}
