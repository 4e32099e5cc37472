package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file returns the values of a YAML file by name. Its error is a phrase, if the file cannot be read at all; single bad
// keys are refused and skipped.
func (l *loader) file(path string) (map[string]any, error) {
	w := walk{loader: l, path: path, found: map[string]any{}, rows: map[string]setting{}, lists: map[string]bool{},
		sections: map[string]bool{}}
	for _, s := range settings() {
		w.rows[s.name] = s
		for i, c := range s.name {
			if c == '.' {
				w.sections[s.name[:i]] = true
			}
		}
		if s.of&l.command != 0 {
			w.known = append(w.known, s.name)
		}
	}
	for _, q := range sequences() {
		w.lists[q.name] = true
		if q.of&l.command != 0 {
			w.known = append(w.known, q.name)
		}
	}
	tree, err := readYAML(path)
	if err != nil {
		return nil, err
	}
	w.section("", tree)
	slices.Sort(w.unknown)
	l.unknown(w.unknown, w.known, path)
	return w.found, nil
}

// readYAML reads a file of settings, which is never large. Its errors are phrases.
func readYAML(path string) (map[string]any, error) {
	if phrase := readableFile().check(path); phrase != "" {
		return nil, errors.New(phrase)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxFile {
		return nil, errors.New("is larger than " + showSize(maxFile))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("cannot be read: " + reason(err))
	}
	return parse(content)
}

const maxFile = 1 << 20

// walk goes down a YAML tree beside the table.
type walk struct {
	*loader
	path     string
	rows     map[string]setting // of all commands
	lists    map[string]bool    // likewise
	sections map[string]bool
	known    []string // of this command, for suggestions
	found    map[string]any
	unknown  []string
}

func (w *walk) section(prefix string, tree map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		name, value := prefix+key, tree[key]
		if strings.Contains(key, ".") {
			w.dotted(name)
			continue
		}
		if s, ok := w.rows[name]; ok {
			w.leaf(s, value)
			continue
		}
		inner, nested := value.(map[string]any)
		switch {
		case w.lists[name]:
			if value != nil {
				w.found[name] = value
			}
		case nested && (w.sections[name] || len(inner) > 0):
			w.section(name+".", inner)
		case w.sections[name] && value != nil:
			w.refuseKey(name, "is a section, with settings below it, and takes no value")
		case !w.sections[name]:
			w.unknown = append(w.unknown, name)
		}
	}
}

// dotted refuses the flat spelling, because two places for one setting in one file could disagree.
func (w *walk) dotted(name string) {
	if _, ok := w.rows[name]; !ok && !w.lists[name] {
		w.unknown = append(w.unknown, name)
		return
	}
	parts := strings.Split(name, ".")
	w.refuseKey(name, "is to be nested: "+strings.Join(parts, ": {")+": ..."+strings.Repeat("}", len(parts)-1))
}

func (w *walk) leaf(s setting, value any) {
	daemons := serve | dev
	switch {
	case w.wants(s):
		if value != nil {
			w.found[s.name] = value
		}
	case w.command&daemons != 0 && s.of&daemons != 0:
		w.refuseKey(s.name, fmt.Sprintf("is a setting of %s, not of %s", s.of, w.command))
	}
}

func (w *walk) refuseKey(name, wrong string) {
	w.refused[name] = true
	w.add(&Problem{Name: shownName(name), Wrong: wrong, Source: w.path})
}

// scalar returns the text of a YAML value if the setting's kind allows that type, else a text that shows the value.
// YAML turns a password of 0123 into the number 83, so a number is never accepted as text.
func scalar(l limit, value any) (text string, err error) {
	_, isList := l.(several)
	switch v := value.(type) {
	case string:
		return v, nil
	case []any:
		items := texts(v)
		switch {
		case len(items) < len(v):
			return "[...]", errors.New("has an item that is not text (quotes make it text)")
		case !isList:
			return "[...]", errors.New("is a list, not one value")
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "{...}", errors.New("is a section, not a value")
	case bool:
		if _, ok := l.(toggle); ok {
			return strconv.FormatBool(v), nil
		}
	case int, int64, uint64:
		if counted(l) { // a span then says that the unit is missing
			return fmt.Sprint(v), nil
		}
	case float64:
		if _, ok := l.(ranged[float64]); ok {
			return showAmount(v), nil
		}
	}
	if _, ok := l.(toggle); ok || counted(l) {
		return fmt.Sprint(value), errors.New("is of another kind")
	}
	return fmt.Sprint(value), errors.New("is not text to YAML: put it in quotes")
}

// texts returns the items of a list that are text.
func texts(list []any) (all []string) {
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// parse reads the one document of a file, and checks it before YAML discards the spelling of values. Its errors are
// phrases and quote nothing from the file but line numbers.
func parse(content []byte) (tree map[string]any, err error) {
	var node yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(content))
	switch err := documents.Decode(&node); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, plainYAML(err)
	}
	if err := unquoted(&node); err != nil {
		return nil, err
	}
	if err := node.Decode(&tree); err != nil {
		return nil, plainYAML(err)
	}
	switch err := documents.Decode(&node); {
	case err == nil:
		return nil, errors.New("has more than one YAML document")
	case !errors.Is(err, io.EOF):
		return nil, plainYAML(err)
	}
	return tree, nil
}

// unquoted refuses values that YAML would silently drop: of "password: &x!" it keeps nothing but an anchor, and of
// "password: !x" nothing but a tag. It makes every name text, also one that looks like a number.
func unquoted(node *yaml.Node) error {
	if node.Anchor != "" && node.Kind == yaml.ScalarNode && node.Value == "" && node.Style == 0 {
		return fmt.Errorf(
			"has an anchor without a value at line %d (a value that begins with & needs quotes)", node.Line)
	}
	if node.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(node.ShortTag(), "!!") {
		return fmt.Errorf("has a tag at line %d (a value that begins with ! needs quotes)", node.Line)
	}
	for i, inner := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && inner.Kind == yaml.ScalarNode && inner.ShortTag() != "!!merge" {
			inner.Tag = "!!str"
		}
		if err := unquoted(inner); err != nil {
			return err
		}
	}
	return nil
}

// plainYAML keeps only the fixed text of a YAML error. The rest may quote a value, which may be a password.
func plainYAML(err error) error {
	message := err.Error()
	line := regexp.MustCompile(`line (\d+): `).FindString(message)
	_, rest, found := strings.Cut(message, line)
	if line == "" || !found {
		rest = strings.TrimPrefix(message, "yaml: ")
	}
	where := strings.TrimSuffix(line, ": ")
	if where != "" {
		where = " at " + where
	}
	switch {
	case strings.Contains(message, "already defined at line"):
		return errors.New("has a key twice" + where)
	case strings.Contains(message, "anchor '"):
		return errors.New("is not YAML" + where + ": unknown anchor (a value that begins with * or & needs quotes)")
	case strings.Contains(message, "cannot unmarshal"):
		return errors.New("is not a YAML mapping of names to values" + where)
	}
	for _, fixed := range []string{"did not find ", "found ", "could not find ", "mapping ", "block ",
		"control characters", "document contains",
		"invalid leading UTF-8", "invalid trailing UTF-8"} {
		if strings.HasPrefix(rest, fixed) {
			return errors.New("is not YAML" + where + ": " + rest)
		}
	}
	return errors.New("is not YAML" + where)
}

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
	return item
}
