package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlparser "github.com/knadh/koanf/parsers/yaml"
	"go.yaml.in/yaml/v3"
)

// file turns YAML into text by name. It is false where the whole is not YAML; single bad keys are refused and left out.
func (l *loader) file(content []byte, path string) (map[string]string, bool) {
	tree, err := parse(content)
	if err != nil {
		l.add(&Problem{Name: configName, Value: shown(path), Wrong: err.Error()})
		return nil, false
	}
	w := walk{loader: l, path: path, text: map[string]string{}, rows: map[string]setting{}, lists: map[string]bool{},
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
	w.section("", tree)
	slices.Sort(w.unknown)
	l.unknown(w.unknown, w.known, path)
	return w.text, true
}

// walk goes down a YAML tree beside the table.
type walk struct {
	*loader
	path     string
	rows     map[string]setting // of all commands
	lists    map[string]bool    // likewise
	sections map[string]bool
	known    []string // of this command, for suggestions
	text     map[string]string
	unknown  []string
}

func (w *walk) section(prefix string, tree map[string]any) {
	keys := make([]string, 0, len(tree))
	for key := range tree {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		name := prefix + key
		if strings.Contains(key, ".") {
			w.dotted(name)
			continue
		}
		if s, ok := w.rows[name]; ok {
			w.leaf(s, tree[key])
			continue
		}
		if w.lists[name] {
			w.loader.lists[name] = listed{tree[key], w.path}
			continue
		}
		if with, ok := later()[name]; ok {
			w.refuseKey(name, "is unsupported yet: it comes with "+with)
			continue
		}
		inner, nested := stringKeys(tree[key])
		switch {
		case nested && (w.sections[name] || len(inner) > 0):
			w.section(name+".", inner)
		case w.sections[name] && tree[key] != nil:
			w.refuseKey(name, "is a section, with settings below it, and takes no value")
		case !w.sections[name]:
			w.unknown = append(w.unknown, name)
		}
	}
}

// dotted refuses the flat spelling: two places for one setting in one file could disagree.
func (w *walk) dotted(name string) {
	if _, ok := w.rows[name]; !ok && !w.lists[name] {
		w.unknown = append(w.unknown, name)
		return
	}
	parts := strings.Split(name, ".")
	w.refuseKey(name, "is to be nested: "+strings.Join(parts, ": {")+": ..."+strings.Repeat("}", len(parts)-1))
}

func (w *walk) leaf(s setting, value any) {
	if text, is := value.(string); is && w.command == client {
		w.nearby.learn(s.name, text)
	}
	if s.of&w.command == 0 {
		if daemons := serve | dev; w.command&daemons != 0 && s.of&daemons != 0 {
			w.refuseKey(s.name, fmt.Sprintf("is a setting of %s, not of %s", s.of, w.command))
		}
		return
	}
	if value == nil {
		return
	}
	text, wrong := scalar(s.limit, value)
	if wrong == "" {
		w.text[s.name] = text
		return
	}
	w.refused[s.name] = true
	w.add(&Problem{Name: s.name, Value: s.quote(text), Wrong: wrong, Limit: s.limit.words(), Source: w.path})
}

func (w *walk) refuseKey(name, wrong string) {
	w.refused[name] = true
	w.add(&Problem{Name: shownName(name), Wrong: wrong, Source: w.path})
}

// scalar is the text of a YAML value where the setting's kind may be written so, else what is wrong with it. YAML
// turns a password of 0123 into the number 83, hence no number is ever taken for text.
func scalar(l limit, value any) (text, wrong string) {
	_, isList := l.(several)
	switch v := value.(type) {
	case string:
		return v, ""
	case []any:
		var items []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return "[...]", "has an item that is not text (quotes make it text)"
			}
			items = append(items, text)
		}
		if !isList {
			return "[...]", "is a list, not one value"
		}
		return strings.Join(items, ","), ""
	case map[string]any, map[any]any:
		return "{...}", "is a section, not a value"
	case bool:
		if _, ok := l.(toggle); ok {
			return strconv.FormatBool(v), ""
		}
	case int, int64, uint64:
		switch l.(type) {
		case integer, size, span, lasting, amount: // a span then says that the unit is missing
			return fmt.Sprint(v), ""
		}
	case float64:
		if _, ok := l.(amount); ok {
			return showAmount(v), ""
		}
	}
	text = fmt.Sprint(value)
	switch l.(type) {
	case integer, size, span, lasting, amount, toggle:
		return text, "is of another kind"
	}
	return text, "is not text to YAML: put it in quotes"
}

// stringKeys is the section that a value is, if it is one. YAML has keys that are no text; here all are.
func stringKeys(value any) (map[string]any, bool) {
	switch v := value.(type) {
	case map[string]any:
		return v, true
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[fmt.Sprint(key)] = inner
		}
		return out, true
	}
	return nil, false
}

// parse reads the one document of a file. Its errors are phrases and quote nothing from the file but line numbers.
func parse(content []byte) (map[string]any, error) {
	tree, err := yamlparser.Parser().Unmarshal(content)
	if err != nil {
		return nil, plainYAML(err)
	}
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for n := 0; ; n++ {
		var document yaml.Node
		switch err := documents.Decode(&document); {
		case errors.Is(err, io.EOF):
			return tree, nil
		case err != nil:
			return nil, plainYAML(err)
		case n > 0:
			return nil, errors.New("has more than one YAML document")
		}
		if err := unquoted(&document); err != nil {
			return nil, err
		}
	}
}

// unquoted refuses what YAML would silently take away: of "password: &x!" it keeps nothing but an anchor, and of
// "password: !x" nothing but a tag.
func unquoted(node *yaml.Node) error {
	if node.Anchor != "" && node.Kind == yaml.ScalarNode && node.Value == "" && node.Style == 0 {
		return fmt.Errorf(
			"has an anchor without a value at line %d (a value that begins with & needs quotes)", node.Line)
	}
	if node.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(node.ShortTag(), "!!") {
		return fmt.Errorf("has a tag at line %d (a value that begins with ! needs quotes)", node.Line)
	}
	for _, inner := range node.Content {
		if err := unquoted(inner); err != nil {
			return err
		}
	}
	return nil
}

// plainYAML keeps of a YAML error what is fixed text. The rest may quote a value, and that value may be a password.
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
