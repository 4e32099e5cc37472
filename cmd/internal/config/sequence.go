package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// sequence is a setting that is a list of sections, such as topics. Only a file can hold one: it has no spelling for
// the environment or a flag. Its rows are the fields of an item, named as within the item.
type sequence struct {
	name     string
	one      string // what an item is called: "a topic"
	max      int
	help     string
	example  string // of the sample file, as YAML
	before   string // the setting that it stands before there
	of       command
	required []string
	rows     []setting
}

func (q sequence) words() string { return fmt.Sprintf("a list of up to %d sections", q.max) }

func sequences() []sequence { return []sequence{tokenList(), topicList()} }

// listed is a list as a file has it, and which file.
type listed struct {
	value  any
	source string
}

// maxItemProblems is how many mistakes in one list are reported one by one.
const maxItemProblems = 20

// reading is one list while it is read.
type reading struct {
	*loader
	list   sequence
	at     string // how messages call the list
	source string
	wrong  int
}

func (r *reading) refuse(name string, p Problem) {
	r.refused[r.list.name] = true
	if r.wrong++; r.wrong > maxItemProblems {
		return
	}
	p.Name, p.Source = name, r.source
	r.add(&p)
}

// end reports how many mistakes were left out.
func (r *reading) end() {
	if more := r.wrong - maxItemProblems; more > 0 {
		r.add(&Problem{Name: r.at, Wrong: fmt.Sprintf("has %d further mistakes", more), Source: r.source})
	}
}

// items reads a list into structs whose `setting` tags are the names of the rows. at is how messages call the list:
// one that stands in a file of its own has another name there.
func items[T any](l *loader, q sequence, at string, from listed) []T {
	r := reading{loader: l, list: q, at: at, source: from.source}
	defer r.end()
	if from.value == nil {
		return nil
	}
	list, ok := from.value.([]any)
	switch {
	case !ok:
		r.refuse(at, Problem{Wrong: "is not a list", Limit: q.words()})
		return nil
	case len(list) > q.max:
		r.refuse(at, Problem{Wrong: fmt.Sprintf("has %d items", len(list)), Limit: q.words()})
		return nil
	}
	var found []T
	for i, value := range list {
		var item T
		r.item(fmt.Sprintf("%s[%d]", at, i), value, fields(&item))
		found = append(found, item)
	}
	return found
}

func (r *reading) item(at string, value any, fields map[string]reflect.Value) {
	tree, ok := stringKeys(value)
	if !ok {
		r.refuse(at, Problem{Wrong: "is not " + r.list.one + ", which is a section"})
		return
	}
	var names []string
	for _, row := range r.list.rows {
		names = append(names, row.name)
		r.field(at+"."+row.name, row, tree[row.name], fields[row.name])
	}
	var unknown []string
	for key := range tree {
		if !slices.Contains(names, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	for _, key := range unknown {
		wrong := "is not a setting of " + r.list.one
		if near := nearest(key, names); near != "" {
			wrong += fmt.Sprintf(" (did you mean %s?)", near)
		}
		r.refuse(at+"."+shownName(key), Problem{Wrong: wrong})
	}
}

// field reads one field of an item.
func (r *reading) field(at string, row setting, value any, field reflect.Value) {
	several, isList := row.limit.(several)
	given, many := value.([]any)
	text, wrong := row.fallback, ""
	switch {
	case many && isList && len(given) == 0, value == nil && row.fallback == "":
		if slices.Contains(r.list.required, row.name) {
			r.refuse(at, Problem{Wrong: "is not set", Limit: row.limit.words()})
		}
		return
	case value != nil:
		text, wrong = scalar(row.limit, value)
	}
	if wrong == "" {
		var got any
		var err error
		if many { // as they stand: one of them may hold a comma
			got, err = several.items(texts(given))
		} else {
			got, err = row.limit.read(text)
		}
		if err == nil {
			assign(field, got)
			return
		}
		wrong = err.Error()
	}
	r.refuse(at, Problem{Value: row.quote(text), Wrong: wrong, Limit: row.limit.words()})
}

// texts are the items of a list that scalar has let through.
func texts(list []any) []string {
	all := make([]string, len(list))
	for i, item := range list {
		all[i], _ = item.(string)
	}
	return all
}

// encoded is a list as a person would write it in YAML; nil for an empty one.
func (q sequence) encoded(list reflect.Value, reveal bool) []any {
	var all []any
	for i := range list.Len() {
		if f, ok := list.Index(i).Addr().Interface().(interface{ elsewhere() bool }); ok && f.elsewhere() {
			continue // it stands in a file of its own
		}
		at := fields(list.Index(i).Addr().Interface())
		item := map[string]any{}
		for _, row := range q.rows {
			if value, ok := row.encoded(at[row.name], reveal); ok {
				item[row.name] = value
			}
		}
		all = append(all, item)
	}
	return all
}

// lists finds the Go slice behind each name, as fields finds the fields.
func lists(target any) map[string]reflect.Value {
	found := make(map[string]reflect.Value)
	collectLists(reflect.ValueOf(target).Elem(), "", found)
	return found
}

func collectLists(v reflect.Value, path string, found map[string]reflect.Value) {
	for i := range v.NumField() {
		name, field := path+v.Type().Field(i).Tag.Get("setting"), v.Field(i)
		switch {
		case field.Kind() == reflect.Struct:
			collectLists(field, name+".", found)
		case isSequence(field.Type()):
			found[name] = field
		}
	}
}

// isSequence distinguishes a list of sections from a list of texts.
func isSequence(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// commented is an example for the sample file.
func commented(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + "## " + line)
	}
	return b.String()
}
