package ops

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// An Operation is one thing that a caller may ask for, by HTTP and on NATS. What a request of it may have are the
// fields of a struct, its In: each has its name in a tag, and reader.go says for all requests how a field of that name
// is read. Over HTTP a field stands in the path if the route has it in braces; in the query if the method is GET or
// DELETE, or its tag says query; in a header if its tag names one; and else in the body. On NATS all fields stand in
// one JSON object.
type Operation struct {
	// Name is the last token of its subject on NATS, in each of the Groups.
	Name   string
	Groups []Group
	Route  string // as http.ServeMux has it
	Right  Right
	// Long: it may take as long as it needs, and tells its progress.
	Long bool

	as     string // what errors call the request, as in "a reschedule"
	fields fieldList
	body   fieldList // those that stand in the body over HTTP
	// ready returns an error while the operation cannot be done at all; it is asked before the request is read.
	ready func() error
	in    func() any
	do    func(ctx context.Context, by *Caller, in any) (any, error)
}

// Group is a group of subjects on NATS, which permissions distinguish.
type Group string

// The groups.
const (
	GroupAPI   Group = "api"   // for producers
	GroupRead  Group = "read"  // changes nothing
	GroupAdmin Group = "admin" // for operators
)

// checked is an In with a rule about several of its fields.
type checked interface{ check() error }

// op returns an operation.
func op[In, Out any](name, groups, route string, needs Right, as string,
	do func(ctx context.Context, by *Caller, in *In) (Out, error)) *Operation {
	o := &Operation{Name: name, Route: route, Right: needs, as: as,
		in: func() any { return new(In) },
		do: func(ctx context.Context, by *Caller, in any) (any, error) {
			asked, _ := in.(*In)
			return do(ctx, by, asked)
		}}
	for group := range strings.FieldsSeq(groups) {
		o.Groups = append(o.Groups, Group(group))
	}
	fields := fieldsOf(reflect.TypeFor[In](), route)
	for i := range fields {
		if f := &fields[i]; f.place == inPath || f.place == inQuery {
			f.json = f.plain(!slices.Contains(o.Groups, GroupAPI))
		}
	}
	return o.with(fields)
}

func (o *Operation) with(fields []field) *Operation {
	o.fields = listOf(fields)
	o.body = listOf(slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.place != inBody }))
	return o
}

// long marks an operation that works through as much as there is.
func (o *Operation) long() *Operation {
	o.Long = true
	return o
}

// only keeps the fields of these names.
func (o *Operation) only(names ...string) *Operation {
	return o.with(slices.DeleteFunc(o.fields.fields, func(f field) bool { return !slices.Contains(names, f.name) }))
}

// needs adds what has to be there for the operation.
func (o *Operation) needs(ready func() error) *Operation {
	o.ready = ready
	return o
}

// asks marks an operation that only asks whom, the store or the journal: if that gives no answer, nothing is unknown.
func (o *Operation) asks(whom string) *Operation {
	do := o.do
	o.do = func(ctx context.Context, by *Caller, in any) (any, error) {
		out, err := do(ctx, by, in)
		return out, Unanswered(whom, err)
	}
	return o
}

// Unanswered returns the error of a query that ended with its time. A query changes nothing, so its failure is not an
// unknown outcome.
func Unanswered(whom string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Refuse(http.StatusServiceUnavailable, WordUnavailable, "the %s gave no answer in time", whom)
	}
	return err
}

// Ready returns an error while the operation cannot be done at all.
func (o *Operation) Ready() error {
	if o.ready == nil {
		return nil
	}
	return o.ready()
}

// Source is a request over HTTP: its texts by place and name, each of which may be missing, and its body.
type Source struct {
	Path   func(name string) string
	Query  map[string][]string
	Header func(name string) []string
	Body   func() ([]byte, error)
}

// Query returns the names of the fields that stand in the query.
func (o *Operation) Query() (names []string) {
	for _, f := range o.fields.fields {
		if f.place == inQuery {
			names = append(names, f.name)
		}
	}
	return names
}

// Parameters returns the fields outside the body over HTTP, each behind its place, as in "path id".
func (o *Operation) Parameters() (all []string) {
	for _, f := range o.fields.fields {
		switch f.place {
		case inPath:
			all = append(all, "path "+f.name)
		case inQuery:
			all = append(all, "query "+f.name)
		case inHeader:
			all = append(all, "header "+f.header)
		case inBody:
		}
	}
	return all
}

// Fields returns the names of the fields in the body over HTTP.
func (o *Operation) Fields() []string { return o.body.names }

// Has reports whether a request may have a field.
func (o *Operation) Has(name string) bool {
	return slices.Contains(o.fields.names, name)
}

// HasBody reports whether a request over HTTP may have a body.
func (o *Operation) HasBody() bool { return hasBody(o.Route) }

func hasBody(route string) bool {
	method, _, _ := strings.Cut(route, " ")
	return method != http.MethodGet && method != http.MethodDelete
}

// UnknownParameter returns the error for a parameter, quoted, where only others are known.
func UnknownParameter(quoted string, known []string) error {
	return Refuse(http.StatusBadRequest, WordUnknownParameter, "%s is not a parameter here; there is %s", quoted,
		cmp.Or(strings.Join(known, ", "), "none"))
}

// Decode reads a request over HTTP.
func (o *Operation) Decode(from *Source) (in any, err error) {
	in = o.in()
	v := reflect.ValueOf(in).Elem()
	for i := range o.fields.fields {
		f := &o.fields.fields[i]
		var texts []string
		switch f.place {
		case inPath:
			texts = []string{from.Path(f.name)}
		case inQuery:
			texts = from.Query[f.name]
		case inHeader:
			texts = from.Header(f.header)
		case inBody:
			continue
		}
		if len(texts) > 0 {
			if err := f.setText(v, strings.Join(texts, ", ")); err != nil {
				return nil, err
			}
		}
	}
	if o.HasBody() {
		body, err := from.Body()
		if err != nil {
			return nil, err
		}
		if err := o.body.decode(v, body, o.as); err != nil {
			return nil, err
		}
	}
	return in, check(in)
}

// DecodeJSON reads a request on NATS.
func (o *Operation) DecodeJSON(data []byte) (in any, err error) {
	in = o.in()
	v := reflect.ValueOf(in).Elem()
	if err := o.fields.decode(v, data, o.as); err != nil {
		if unknown := (*wire.Error)(nil); errors.As(err, &unknown) && unknown.Word == WordUnknownField &&
			slices.Contains(o.Groups, GroupRead) {
			return nil, UnknownParameter(unknown.Field, o.Query())
		}
		return nil, err
	}
	for i := range o.fields.fields {
		if f := &o.fields.fields[i]; f.place == inPath && v.FieldByIndex(f.index).IsZero() {
			return nil, &wire.Error{Word: "invalid_" + f.name, Field: f.name, Detail: "is missing"}
		}
	}
	return in, check(in)
}

func check(in any) error {
	if c, ok := in.(checked); ok {
		return c.check()
	}
	return nil
}

// Do does what a request asks for.
func (o *Operation) Do(ctx context.Context, by *Caller, in any) (any, error) {
	return o.do(ctx, by, in)
}

// Call does what a request on NATS asks for, by a caller with the rights of a token. It logs an operator's action.
func (o *Ops) Call(ctx context.Context, op *Operation, as *Token, request []byte) (out any, p *Problem) {
	by, began := &Caller{Token: as, Address: as.Name, Route: op.Route, Holder: "token " + as.Name}, time.Now()
	defer func() {
		if failure := recover(); failure != nil {
			o.Log.Error().Str("route", op.Route).Str("panic", PanicText(failure)).Str("stack", string(debug.Stack())).Msg(
				"request panicked")
			p = new(ProblemOf(ErrPanicked))
		}
		status := http.StatusOK
		if p != nil {
			status = p.Status
			by.Refused(p.Word)
		}
		if op.Right.Audited() {
			o.Acted(ctx, by, status, time.Since(began))
		}
	}()
	if !op.Long {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, o.Timeout)
		defer stop()
	}
	if !as.Has(op.Right) {
		return nil, o.Judge(by, Lacks(op.Right.String(), ""))
	}
	var in any
	err := op.Ready()
	if err == nil {
		in, err = op.DecodeJSON(request)
	}
	if err == nil {
		out, err = op.Do(ctx, by, in)
	}
	if err != nil {
		return nil, o.Judge(by, err)
	}
	return out, nil
}
