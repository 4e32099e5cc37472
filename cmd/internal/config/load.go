package config

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// loader is one reading of the settings of one command.
type loader struct {
	command  command
	rows     []setting         // that its settings have; what the command itself does not have stays at the default
	layers   []layer           // lowest first
	merged   map[string]any    // the defaults and all layers, by name
	text     map[string]string // what won, by name, where it is one text
	refused  map[string]bool
	problems []error
	hostname func() (string, error)
}

// layer holds the values from one source, by name, and how that source spells a name.
type layer struct {
	values map[string]any
	spelt  func(name string) string
}

func newLoader(of command) *loader {
	l := &loader{command: of, merged: map[string]any{}, text: map[string]string{}, refused: map[string]bool{},
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
	l.layers = []layer{l.environ(environ), flagsGiven(flags)}
	var path string
	for _, layer := range l.layers {
		if text, ok := layer.values[configName].(string); ok {
			path = text
		}
	}
	if path != "" {
		values, err := l.file(path)
		if err != nil {
			l.add(&Problem{Name: configName, Value: shown(path), Wrong: err.Error(), Source: l.source(configName)})
			return false
		}
		l.layers = slices.Insert(l.layers, 0, layer{values, func(string) string { return path }})
	}
	for _, s := range l.rows {
		l.merged[s.name] = s.fallback
	}
	for _, layer := range l.layers {
		maps.Copy(l.merged, layer.values)
	}
	return true
}

// source returns the source of a setting's value; empty for a default.
func (l *loader) source(name string) string {
	for _, layer := range slices.Backward(l.layers) {
		if _, ok := layer.values[name]; ok {
			return layer.spelt(name)
		}
	}
	return ""
}

// fill reads the effective values into the struct that target points to.
func (l *loader) fill(target any) {
	values := map[string]any{}
	for _, s := range l.rows {
		text, value, err := s.read(l.merged[s.name])
		if l.text[s.name] = text; err != nil {
			l.refuse(s.name, err.Error())
		} else if value != nil {
			values[s.name] = value
		}
	}
	for _, q := range sequences() {
		if q.of&l.command != 0 {
			items := l.items(q, q.name, l.merged[q.name], l.source(q.name))
			if mounted, is := values["http.tokens_file"].(string); is && q.name == "http.tokens" {
				items = append(items, l.mountedTokens(mounted)...)
			}
			values[q.name] = items
		}
	}
	assign(reflect.ValueOf(target).Elem(), values)
}

// assign puts into a field what a limit has read, or what a list has.
func assign(field reflect.Value, value any) {
	switch given := reflect.ValueOf(value); field.Kind() {
	case reflect.Struct:
		values := value.(map[string]any)
		eachField(field, "", func(name string, field reflect.Value) {
			if value := values[name]; value != nil {
				assign(field, value)
			}
		})
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), given.Len(), given.Len()))
		for i := range given.Len() {
			assign(field.Index(i), given.Index(i).Interface())
		}
	default:
		field.Set(given.Convert(field.Type()))
	}
}

// eachField visits the fields of settings by name, whose parts are their tags.
func eachField(of reflect.Value, prefix string, visit func(name string, field reflect.Value)) {
	for i := range of.NumField() {
		name, field := prefix+of.Type().Field(i).Tag.Get("setting"), of.Field(i)
		if field.Kind() == reflect.Struct {
			eachField(field, name+".", visit)
		} else {
			visit(name, field)
		}
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

// environ returns the layer of the environment. An empty variable counts as absent: compose files pass absent values
// that way.
func (l *loader) environ(environ []string) layer {
	names := byVariable()
	var known []string
	for key, s := range names {
		if s.of&l.command != 0 {
			known = append(known, key)
		}
	}
	slices.Sort(known)
	values := map[string]any{}
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		switch s, ok := names[key]; {
		case ok && value != "" && l.wants(s):
			values[s.name] = value
		case value != "" && isList(key):
			l.add(&Problem{Name: key, Wrong: "is a list of sections, which only a file can hold"})
		}
	}
	// A name that is near to a setting's stops an instance. Others may be somebody else's, and stop nobody.
	l.unknown(slices.DeleteFunc(Strangers(environ), func(key string) bool {
		return l.command == client || !near(key, known)
	}), known, "")
	return layer{values, envName}
}

// byVariable returns the settings by the names of their variables.
func byVariable() map[string]setting {
	names := map[string]setting{}
	for _, s := range append([]setting{configFile()}, settings()...) {
		names[s.env()] = s
	}
	return names
}

// Strangers returns the variables of the environment, sorted, that look like tarry's and are no settings.
func Strangers(environ []string) (strangers []string) {
	names := byVariable()
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		if _, ok := names[key]; !ok && strings.HasPrefix(key, envPrefix) && !isList(key) && !fromKubernetes(key, value) {
			strangers = append(strangers, key)
		}
	}
	slices.Sort(strangers)
	return slices.Compact(strangers)
}

// near reports whether a variable was probably meant as one of the known: mistyped, or in one of their sections.
func near(key string, known []string) bool {
	return mistyped(key, known) != "" || slices.ContainsFunc(known, func(k string) bool {
		section, _, is := strings.Cut(strings.TrimPrefix(k, envPrefix), "_")
		return is && strings.HasPrefix(key, envPrefix+section+"_")
	})
}

// wants reports whether the command reads a setting. A client command also reads the settings that locate an instance
// on this machine.
func (l *loader) wants(s setting) bool { return s.of&l.command != 0 || l.command == client }

// isList reports whether key has the form of a list's name.
func isList(key string) bool {
	return slices.ContainsFunc(sequences(), func(q sequence) bool { return envName(q.name) == key })
}

// fromKubernetes recognizes the variables that Kubernetes (and Docker's links) set for a service called tarry or
// tarry-x. The user did not set them, so refusing them would stop a start for no fault of the user's. Their values have
// a form of their own, as their names do, so a misspelt setting is not mistaken for one.
func fromKubernetes(key, value string) bool {
	return regexp.MustCompile(`^TARRY(_\w+)?_(SERVICE_HOST=[0-9a-f.:]+|SERVICE_PORT(_\w+)?=\d+` +
		`|PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://\S+:\d+` +
		`|PORT_\d+_(TCP|UDP|SCTP)_(PROTO=(tcp|udp|sctp)|PORT=\d+|ADDR=\S+))$`).MatchString(key + "=" + value)
}

// flagValue keeps the value of a flag as text. It accepts anything: a bad value is refused at load, together with all
// other errors.
type flagValue struct {
	setting
	text string
	set  bool
}

// Set keeps the last text, and for a list all of them.
func (v *flagValue) Set(text string) error {
	if _, ok := v.limit.(several); ok && v.set {
		text = v.text + "," + text
	}
	v.text, v.set = text, true
	return nil
}

func (v *flagValue) Type() string { return v.limit.noun() }

// String is for help and logs, so it masks.
func (v *flagValue) String() string {
	if v.secret {
		return Secret(v.text).String()
	}
	return v.text
}

// Choices returns the values of a setting's flag if they are a fixed set of words, else none.
func Choices(flag *pflag.Flag) []string {
	v, ok := flag.Value.(*flagValue)
	if !ok {
		return nil
	}
	switch limit := v.limit.(type) {
	case choice:
		return limit
	case toggle:
		return []string{"true", "false"}
	}
	return nil
}

func addFlags(fs *pflag.FlagSet, of command) {
	fs.SortFlags = false
	for _, s := range append([]setting{configFile()}, settings()...) {
		if s.of&of == 0 {
			continue
		}
		usage := s.help
		if _, few := s.limit.(choice); few || counted(s.limit) {
			usage += "; " + s.limit.words()
		}
		if s.secret {
			usage += "; better in the file or the environment, since all users see flags"
		}
		if s.computed != "" {
			usage += " (default " + s.computed + ")"
		}
		flag := fs.VarPF(&flagValue{setting: s, text: s.fallback}, s.name, "", usage)
		if _, ok := s.limit.(toggle); ok {
			flag.NoOptDefVal = "true"
		}
	}
}

// flagsGiven returns the layer of the command line; fs may be nil.
func flagsGiven(fs *pflag.FlagSet) layer {
	values := map[string]any{}
	if fs != nil {
		fs.Visit(func(flag *pflag.Flag) {
			if v, ok := flag.Value.(*flagValue); ok { // else it is a command's own
				values[v.name] = v.text
			}
		})
	}
	return layer{values, flagName}
}

// FlagError adds the nearest flag of fs to pflag's error about an unknown one; the text of other errors stays
// unchanged. It is meant for cobra's SetFlagErrorFunc. errors.Is(err, ErrRefused) holds for all.
func FlagError(fs *pflag.FlagSet, err error) error {
	refused := flagError{cause: err}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		fs.VisitAll(func(flag *pflag.Flag) { known = append(known, flag.Name) })
		if near := nearest(unknown.GetSpecifiedName(), known); near != "" {
			refused.hint = " (did you mean --" + near + "?)"
		}
	}
	return refused
}

// flagError reads like pflag's error and counts as a refusal.
type flagError struct {
	cause error
	hint  string
}

func (e flagError) Error() string   { return e.cause.Error() + e.hint }
func (e flagError) Unwrap() []error { return []error{e.cause, ErrRefused} }
