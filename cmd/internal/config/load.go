package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// loader is one reading of the settings of one command.
type loader struct {
	command  command
	rows     []setting         // of this command
	text     map[string]string // what won, by name
	source   map[string]string // the place it came from; absent for a default
	refused  map[string]bool
	problems []error
	lists    map[string]listed // what the file has for settings that are lists
	read     func(string) ([]byte, error)
	hostname func() (string, error)
	nearby   nearby // what a client command learns of an instance on this machine
}

func newLoader(of command) *loader {
	l := &loader{
		command: of, text: map[string]string{}, source: map[string]string{}, refused: map[string]bool{},
		hostname: os.Hostname,
		lists:    map[string]listed{}, read: readFile,
	}
	for _, s := range settings() {
		if s.of&of != 0 {
			l.rows = append(l.rows, s)
		}
	}
	return l
}

// layer is what one place gives: text by name, and how that place spells a name.
type layer struct {
	text  map[string]string
	spelt func(setting) string
}

// given collects and merges all layers. It is false where the file could not be read at all: what it should have
// said is then unknown, and complaints about its absence would mislead.
func (l *loader) given(flags *pflag.FlagSet, environ []string, read func(string) ([]byte, error)) bool {
	l.read = read
	env := layer{l.environ(environ), setting.env}
	set := layer{l.flags(flags), setting.flag}
	path, found := set.text[configName]
	source := configFile().flag()
	if !found {
		path, source = env.text[configName], configFile().env()
	}
	if path == "" {
		return l.merge(env, set)
	}
	if _, err := configFile().limit.read(path); err != nil {
		l.add(&Problem{Name: configName, Value: shown(path), Wrong: err.Error(), Source: source})
		return false
	}
	content, err := read(path)
	if err != nil {
		l.add(&Problem{Name: configName, Value: shown(path), Wrong: err.Error(), Source: source})
		return false
	}
	values, ok := l.file(content, path)
	return ok && l.merge(layer{values, func(setting) string { return path }}, env, set)
}

// merge puts the layers over the defaults, lowest first.
func (l *loader) merge(layers ...layer) bool {
	k := koanf.New(".")
	defaults := map[string]string{}
	for _, s := range l.rows {
		defaults[s.name] = s.fallback
	}
	for i, given := range append([]layer{{text: defaults}}, layers...) {
		values := map[string]any{}
		for _, s := range l.rows {
			text, ok := given.text[s.name]
			if !ok {
				continue
			}
			values[s.name] = text
			if i > 0 {
				l.source[s.name] = given.spelt(s)
			}
		}
		if err := k.Load(confmap.Provider(values, "."), nil); err != nil {
			l.problems = append(l.problems, fmt.Errorf("merge settings: %w", err))
			return false
		}
	}
	for _, s := range l.rows {
		l.text[s.name] = k.String(s.name)
	}
	return true
}

// fill reads the text of every setting into the struct that target points to.
func (l *loader) fill(target any) {
	at := fields(target)
	for _, s := range l.rows {
		text := l.text[s.name]
		if l.refused[s.name] || text == "" && s.fallback == "" {
			continue
		}
		value, err := s.limit.read(text)
		if err != nil {
			l.refuse(s.name, err.Error())
			continue
		}
		assign(at[s.name], value)
	}
}

func (l *loader) row(name string) setting {
	i := slices.IndexFunc(l.rows, func(s setting) bool { return s.name == name })
	return l.rows[i]
}

// good reports whether none of the names was refused.
func (l *loader) good(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return l.refused[name] })
}

// refuse adds a problem with the text that won. The limit is the setting's own unless another is given.
func (l *loader) refuse(name, wrong string, limit ...string) {
	s := l.row(name)
	p := &Problem{Name: name, Value: s.quote(l.text[name]), Wrong: wrong, Limit: s.limit.words(),
		Source: l.source[name]}
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

// quote is how messages show a value of this setting.
func (s setting) quote(text string) string {
	if s.secret {
		text = Secret(text).String()
	}
	return shown(text)
}

func (l *loader) add(p *Problem) { l.problems = append(l.problems, p) }

func (l *loader) err() error { return errors.Join(l.problems...) }

const maxFile = 1 << 20

// readFile reads a file of settings, which is never large; its errors are phrases.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.New("cannot be read: " + reason(err))
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, errors.New("cannot be read: " + reason(err))
	}
	if len(content) > maxFile {
		return nil, errors.New("is larger than " + showSize(maxFile))
	}
	return content, nil
}
