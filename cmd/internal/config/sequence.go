package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	flat "github.com/knadh/koanf/maps"
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

// maxItemProblems is the maximum number of errors in one list that are reported one by one.
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

// end reports the number of omitted errors.
func (r *reading) end() {
	if more := r.wrong - maxItemProblems; more > 0 {
		r.add(&Problem{Name: r.at, Wrong: fmt.Sprintf("has %d further mistakes", more), Source: r.source})
	}
}

// items reads a list into maps by the names of its rows. at is how messages call the list: one that stands in a file of
// its own has another name there.
func (l *loader) items(q sequence, at string, value any, source string) (found []any) {
	r := reading{loader: l, list: q, at: at, source: source}
	defer r.end()
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	switch {
	case !ok:
		r.refuse(at, Problem{Wrong: "is not a list", Limit: q.words()})
		return nil
	case len(list) > q.max:
		r.refuse(at, Problem{Wrong: fmt.Sprintf("has %d items", len(list)), Limit: q.words()})
		return nil
	}
	for i, value := range list {
		found = append(found, r.item(fmt.Sprintf("%s[%d]", at, i), value))
	}
	return found
}

// flatten names the parts of a section within an item as the rows do.
func (q sequence) flatten(item map[string]any) map[string]any {
	all := make(map[string]any, len(item))
	for name, value := range item {
		part, is := value.(map[string]any)
		if !is || !slices.ContainsFunc(q.rows, func(s setting) bool { return strings.HasPrefix(s.name, name+".") }) {
			all[name] = value
			continue
		}
		for inner, value := range part {
			all[name+"."+inner] = value
		}
	}
	return all
}

func (r *reading) item(at string, value any) map[string]any {
	tree, ok := value.(map[string]any)
	if !ok {
		r.refuse(at, Problem{Wrong: "is not " + r.list.one + ", which is a section"})
		return nil
	}
	tree = r.list.flatten(tree)
	item := map[string]any{}
	var names []string
	for _, row := range r.list.rows {
		names = append(names, row.name)
		given := tree[row.name]
		text, value, err := row.read(given)
		if given == "" && err == nil {
			err = errors.New("is empty")
		}
		switch {
		case err != nil:
			r.refuse(at+"."+row.name, Problem{Value: row.quote(text), Wrong: err.Error(), Limit: row.limit.words()})
		case value != nil:
			item[row.name] = value
		case slices.Contains(r.list.required, row.name):
			r.refuse(at+"."+row.name, Problem{Wrong: "is not set", Limit: row.limit.words()})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		if slices.Contains(names, key) {
			continue
		}
		wrong := "is not a setting of " + r.list.one
		if near := nearest(key, names); near != "" {
			wrong += fmt.Sprintf(" (did you mean %s?)", near)
		}
		r.refuse(at+"."+shownName(key), Problem{Wrong: wrong})
	}
	return flat.Unflatten(item, ".")
}
