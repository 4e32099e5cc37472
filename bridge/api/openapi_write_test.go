package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
)

var update = flag.Bool("update", false, "write openapi.json")

// What openapi.json says of an operation is written from the table of operations and from the answers that the tests
// bring about: its parameters, the fields of its body, its right, and the words of its problems. What is said in
// sentences, and the shapes of answers, are kept as they stand; a new operation gets empty ones, which fails until they
// are written.

// object is a JSON object whose members keep their order.
type object struct {
	names  []string
	values map[string]any
}

func (o *object) get(name string) any {
	if o == nil {
		return nil
	}
	return o.values[name]
}

// in returns an object within; nil where there is none.
func (o *object) in(names ...string) *object {
	for _, name := range names {
		o, _ = o.get(name).(*object)
	}
	return o
}

func (o *object) set(name string, value any) {
	if _, has := o.values[name]; !has {
		o.names = append(o.names, name)
	}
	if o.values == nil {
		o.values = map[string]any{}
	}
	o.values[name] = value
}

func (o *object) remove(name string) {
	delete(o.values, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
}

func of(members ...any) *object {
	o := &object{}
	for i := 0; i < len(members); i += 2 {
		o.set(members[i].(string), members[i+1])
	}
	return o
}

// ordered reads a value with the order of its members.
func ordered(t testing.TB, d *json.Decoder) any {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch token {
	case json.Delim('{'):
		o := of()
		for d.More() {
			name, _ := ordered(t, d).(string)
			o.set(name, ordered(t, d))
		}
		_, _ = d.Token()
		return o
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, ordered(t, d))
		}
		_, _ = d.Token()
		return list
	}
	return token
}

// columns is how long a line may be that holds a value whole.
const columns = 118

// written writes a value, on one line if it fits.
func written(t testing.TB, value any, indent int, before int) string {
	t.Helper()
	if text := inLine(t, value); before+len(text) <= columns {
		return text
	}
	var lines []string
	open, end := "{", "}"
	inner := strings.Repeat(" ", indent+2)
	switch v := value.(type) {
	case *object:
		if len(v.names) == 1 { // what has one member adds no line of its own
			label := "{" + inLine(t, v.names[0]) + ": "
			return label + written(t, v.values[v.names[0]], indent, before+len(label)+1) + "}"
		}
		for _, name := range v.names {
			label := inner + inLine(t, name) + ": "
			lines = append(lines, label+written(t, v.values[name], indent+2, len(label)+1))
		}
	case []any:
		open, end = "[", "]"
		for _, one := range v {
			text := inLine(t, one)
			if last := len(lines) - 1; last >= 0 && len(lines[last])+len(text) < columns && len(text) < 60 {
				lines[last] += ", " + text // short ones share lines
				continue
			}
			lines = append(lines, inner+written(t, one, indent+2, indent+3))
		}
	default:
		return inLine(t, value)
	}
	return open + "\n" + strings.Join(lines, ",\n") + "\n" + strings.Repeat(" ", indent) + end
}

func inLine(t testing.TB, value any) string {
	t.Helper()
	var parts []string
	switch v := value.(type) {
	case *object:
		for _, name := range v.names {
			parts = append(parts, inLine(t, name)+": "+inLine(t, v.values[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, one := range v {
			parts = append(parts, inLine(t, one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, err := ops.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// agrees holds openapi.json against what it would be, written anew, or writes it.
func (d *description) agrees(t *testing.T, table []*ops.Operation) {
	t.Helper()
	had, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	reader := json.NewDecoder(bytes.NewReader(had))
	reader.UseNumber()
	doc, _ := ordered(t, reader).(*object)
	for _, op := range table {
		method, path, _ := strings.Cut(op.Route, " ")
		item := doc.in("paths", path)
		if item == nil {
			item = of()
			doc.in("paths").set(path, item)
		}
		one := item.in(strings.ToLower(method))
		if one == nil {
			one = of("operationId", op.Name, "tags", []any{}, "summary", "", "description", "")
			item.set(strings.ToLower(method), one)
		}
		row(doc, one, op)
	}
	for path, item := range members(doc.in("paths")) {
		for method, one := range members(item) {
			d.responses(doc, one, strings.ToUpper(method)+" "+path)
		}
	}
	text := written(t, doc, 0, columns) + "\n"
	if text == string(had) {
		return
	}
	if !*update {
		t.Error("openapi.json is not what the operations make of it: go generate ./bridge/api")
		return
	}
	if err := os.WriteFile("openapi.json", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCalls_StandOnTheirPage holds the table of docs/api.md against the operations on NATS, or writes it.
func TestCalls_StandOnTheirPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/api.md"
	had, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[ops.Group][]string{ops.GroupAPI: {"`push` (one, or a batch)"}}
	for _, op := range open(t).Ops().Table() {
		for _, group := range op.Groups {
			lists[group] = append(lists[group], "`"+op.Name+"`")
		}
	}
	lines := strings.Split(string(had), "\n")
	for group, list := range lists {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| `"+string(group)+".*`") })
		if at < 0 {
			t.Fatalf("%s has no row for %s", page, group)
		}
		cells := strings.Split(lines[at], " | ")
		cells[1] = strings.Join(list, ", ")
		lines[at] = strings.Join(cells, " | ")
	}
	text := strings.Join(lines, "\n")
	if text != string(had) && !*update {
		t.Errorf("%s lists other calls than there are: go generate ./bridge/api", page)
	} else if text != string(had) {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// members iterates over the members of an object that are objects, in order.
func members(o *object) func(yield func(string, *object) bool) {
	return func(yield func(string, *object) bool) {
		for _, name := range o.names {
			if inner := o.in(name); inner != nil && !yield(name, inner) {
				return
			}
		}
	}
}

// row writes what the table has of an operation.
func row(doc, one *object, op *ops.Operation) {
	right := op.Right.String()
	text, _ := one.get("description").(string)
	text, _, _ = strings.Cut(text, "Needs the right: ")
	one.set("description", text+"Needs the right: "+right+".")
	var security []any
	for role := range strings.SplitSeq(right, " or ") {
		security = append(security, of("token", []any{role}))
	}
	one.set("security", security)
	one.set("x-right", right)

	had, _ := one.get("parameters").([]any)
	var parameters []any
	wanted := op.Parameters()
	for _, p := range had { // in the order that they have
		o, _ := p.(*object)
		if ref, _ := o.get("$ref").(string); ref != "" {
			o = doc.in("components", "parameters", ref[strings.LastIndex(ref, "/")+1:])
		}
		name := fmt.Sprint(o.get("in"), " ", o.get("name"))
		if slices.Contains(wanted, name) {
			parameters = append(parameters, p)
			wanted = slices.DeleteFunc(wanted, func(w string) bool { return w == name })
		}
	}
	for _, w := range wanted {
		in, name, _ := strings.Cut(w, " ")
		parameters = append(parameters, of("name", name, "in", in, "required", in == "path", "description", "",
			"schema", of("type", "string")))
	}
	if one.remove("parameters"); len(parameters) > 0 {
		one.set("parameters", parameters)
	}

	if !op.HasBody() {
		one.remove("requestBody")
		return
	}
	ref, _ := one.in("requestBody", "content", "application/json", "schema").get("$ref").(string)
	if ref == "" {
		ref = "#/components/schemas/" + op.Name
		one.set("requestBody", of("required", false, "content", of("application/json", of("schema", of("$ref", ref)))))
	}
	name := ref[strings.LastIndex(ref, "/")+1:]
	schema := doc.in("components", "schemas", name)
	if schema == nil {
		schema = of("type", "object", "description", "", "properties", of(), "additionalProperties", false)
		doc.in("components", "schemas").set(name, schema)
	}
	fields := op.Fields()
	if properties := schema.in("properties"); properties != nil || len(fields) > 0 {
		for _, had := range slices.Clone(properties.names) {
			if !slices.Contains(fields, had) {
				properties.remove(had)
			}
		}
		for _, field := range fields {
			if properties.get(field) == nil {
				properties.set(field, of("type", "string", "description", ""))
			}
		}
	}
}

// responses writes the problems that an operation was answered with.
func (d *description) responses(doc, one *object, pattern string) {
	words := map[string][]string{} // by status
	for _, seen := range slices.Concat(slices.Collect(maps.Keys(d.seen)), cannotBringAbout) {
		if rest, mine := strings.CutPrefix(seen, pattern+" "); mine {
			if status, word, _ := strings.Cut(rest, " "); word != "" {
				words[status] = append(words[status], word)
			}
		}
	}
	had := one.in("responses")
	all := of()
	for status, response := range members(had) {
		if problem := problemIn(doc, response); problem == nil {
			all.set(status, response) // a success
		}
	}
	for _, status := range slices.Sorted(maps.Keys(words)) {
		list := slices.Compact(slices.Sorted(slices.Values(words[status])))
		all.set(status, response(doc, had.in(status), status, list))
	}
	one.remove("responses")
	one.set("responses", all)
}

// problemIn returns the words of a response, or nil for one that is no problem.
func problemIn(doc, response *object) (words []string) {
	if ref, _ := response.get("$ref").(string); ref != "" {
		response = doc.in("components", "responses", ref[strings.LastIndex(ref, "/")+1:])
	}
	both, _ := response.in("content", "application/json", "schema").get("allOf").([]any)
	if len(both) < 2 {
		return nil
	}
	o, _ := both[1].(*object)
	list, _ := o.in("properties", "error").get("enum").([]any)
	for _, word := range list {
		words = append(words, word.(string))
	}
	return words
}

// response describes a problem: by the words of a response that others share, or by its own.
func response(doc, had *object, status string, words []string) *object {
	if slices.Equal(problemIn(doc, had), words) && had.get("$ref") != nil {
		return had
	}
	code, _ := strconv.Atoi(status)
	var quoted, enum []any
	for _, word := range words {
		quoted, enum = append(quoted, "`"+word+"`"), append(enum, word)
	}
	text := http.StatusText(code) + ": " + strings.Join(texts(quoted), ", ") + "."
	for name, shared := range members(doc.in("components", "responses")) {
		if slices.Equal(problemIn(doc, shared), words) && shared.get("description") == text {
			return of("$ref", "#/components/responses/"+name)
		}
	}
	one := of("description", text)
	if headers := had.in("headers"); headers != nil {
		one.set("headers", headers)
	} else if code == http.StatusServiceUnavailable {
		one.set("headers", of("Retry-After", of("$ref", "#/components/headers/Retry-After")))
	}
	one.set("content", of("application/json", of("schema", of("allOf", []any{
		of("$ref", "#/components/schemas/Problem"),
		of("properties", of("error", of("enum", enum)))}))))
	return one
}

func texts(list []any) (all []string) {
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}
