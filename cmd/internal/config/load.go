package config

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// loader is one reading of the settings of one command.
type loader struct {
	command  command
	rows     []setting         // that its settings have; what the command itself does not have stays at the default
	layers   []layer           // lowest first
	merged   *koanf.Koanf      // the defaults and all layers
	text     map[string]string // what won, by name, where it is one text
	refused  map[string]bool
	problems []error
	hostname func() (string, error)
}

// layer holds the values from one source, by name, and how that source spells a name.
type layer struct {
	*koanf.Koanf
	spelt func(name string) string
}

func newLoader(of command) *loader {
	l := &loader{command: of, merged: koanf.New("."), text: map[string]string{}, refused: map[string]bool{},
		hostname: os.Hostname}
	for _, s := range settings() {
		if (s.of&client != 0) == (of == client) {
			l.rows = append(l.rows, s)
		}
	}
	return l
}

// given collects and merges all layers. It returns false if the file could not be read at all: its values are then
// unknown, and errors about missing settings would mislead.
func (l *loader) given(flags *pflag.FlagSet, environ []string) bool {
	env, set := l.environ(environ), l.flags(flags)
	path, source := env.String(configName), env.spelt(configName)
	if set.Exists(configName) {
		path, source = set.String(configName), set.spelt(configName)
	}
	if path != "" {
		file, err := l.file(path)
		if err != nil {
			l.add(&Problem{Name: configName, Value: shown(path), Wrong: err.Error(), Source: source})
			return false
		}
		l.layers = append(l.layers, file)
	}
	l.layers = append(l.layers, env, set)
	defaults := map[string]any{}
	for _, s := range l.rows {
		defaults[s.name] = s.fallback
	}
	errs := []error{l.merged.Load(confmap.Provider(defaults, "."), nil)}
	for _, layer := range l.layers {
		errs = append(errs, l.merged.Merge(layer.Koanf))
	}
	if err := errors.Join(errs...); err != nil {
		l.problems = append(l.problems, fmt.Errorf("merge settings: %w", err))
		return false
	}
	return true
}

// layer adds one source.
func (l *loader) layer(from koanf.Provider, parser koanf.Parser) *koanf.Koanf {
	k := koanf.New(".")
	if err := k.Load(from, parser); err != nil {
		l.problems = append(l.problems, err)
	}
	return k
}

// source returns the source of a setting's value; empty for a default.
func (l *loader) source(name string) string {
	for _, layer := range slices.Backward(l.layers) {
		if layer.Exists(name) {
			return layer.spelt(name)
		}
	}
	return ""
}

// fill reads the effective values into the struct that target points to.
func (l *loader) fill(target any) {
	values := map[string]any{}
	for _, s := range l.rows {
		text, value, err := s.read(l.merged.Get(s.name))
		if l.text[s.name] = text; err != nil {
			l.refuse(s.name, err.Error())
		} else if value != nil {
			values[s.name] = value
		}
	}
	for _, q := range sequences() {
		if q.of&l.command != 0 {
			items := l.items(q, q.name, l.merged.Get(q.name), l.source(q.name))
			if mounted, is := values["http.tokens_file"].(string); is && q.name == "http.tokens" {
				items = append(items, l.mountedTokens(mounted)...)
			}
			values[q.name] = items
		}
	}
	k := koanf.New(".")
	if err := errors.Join(k.Load(confmap.Provider(values, "."), nil), k.Unmarshal("", target)); err != nil {
		l.problems = append(l.problems, fmt.Errorf("fill in settings: %w", err))
	}
}

// read checks the value that a place has, nil for none. It returns its text, and what the settings hold: nil where a
// setting that may be empty is.
func (s setting) read(given any) (text string, value any, err error) {
	items, _ := given.([]any)
	list, isList := s.limit.(several)
	if given == nil {
		text = s.fallback
	} else if text, err = scalar(s.limit, given); err != nil {
		return text, nil, err
	}
	switch {
	case text == "" && s.fallback == "":
		return text, nil, nil
	case isList && len(items) > 0: // as they stand: one of them may hold a comma
		value, err = list.items(texts(items))
	default:
		value, err = s.limit.read(text)
	}
	return text, value, err
}

func (l *loader) row(name string) setting {
	i := slices.IndexFunc(l.rows, func(s setting) bool { return s.name == name })
	return l.rows[i]
}

// good reports whether none of the names was refused.
func (l *loader) good(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return l.refused[name] })
}

// refuse adds a problem with the effective text. The limit is the setting's own unless another is passed.
func (l *loader) refuse(name, wrong string, limit ...string) {
	s := l.row(name)
	p := &Problem{Name: name, Value: s.quote(l.text[name]), Wrong: wrong, Limit: s.limit.words(),
		Source: l.source(name)}
	if len(limit) > 0 {
		p.Limit = limit[0]
	}
	l.refused[name] = true
	l.add(p)
}

// refuseAt adds a problem with one place in a list.
func (l *loader) refuseAt(list string, p Problem) {
	l.refused[list] = true
	l.add(&p)
}

// quote returns a value of this setting as messages show it.
func (s setting) quote(text string) string {
	if s.secret {
		text = Secret(text).String()
	}
	return shown(text)
}

func (l *loader) add(p *Problem) { l.problems = append(l.problems, p) }

func (l *loader) err() error { return errors.Join(l.problems...) }
