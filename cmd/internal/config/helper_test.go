package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// load is the Load of a command; it gives a pointer to the settings.
func load(of command, flags *pflag.FlagSet, environ []string) (any, error) {
	switch of {
	case serve:
		s, err := LoadServe(flags, environ)
		return &s, err
	case dev:
		s, err := LoadDev(flags, environ)
		return &s, err
	case migrate:
		s, err := LoadMigrate(flags, environ)
		return &s, err
	}
	c, err := LoadClient(flags, environ)
	return &c, err
}

// flagsOf parses a command line.
func flagsOf(t *testing.T, of command, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("tarry", pflag.ContinueOnError)
	switch of {
	case serve:
		AddServeFlags(fs)
	case dev:
		AddDevFlags(fs)
	case migrate:
		AddMigrateFlags(fs)
	default:
		AddClientFlags(fs)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parse %q: %v", args, err)
	}
	return fs
}

// write puts text into a file of the test and gives its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nested is settings by name as a YAML file.
func nested(t *testing.T, values map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(nest(values))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nest makes the parts of names sections.
func nest(values map[string]any) map[string]any {
	tree := map[string]any{}
	for name, value := range values {
		parts, at := strings.Split(name, "."), tree
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			at = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = value
	}
	return tree
}

// value is what the settings hold under a name, as text.
func value(t *testing.T, target any, s setting) string {
	t.Helper()
	field, ok := fields(target)[s.name]
	if !ok {
		t.Fatalf("%T has no field for %s", target, s.name)
	}
	if field.Kind() == reflect.String {
		return field.String()
	}
	return show(s.limit, field.Interface())
}

func everyCommand() []command { return []command{serve, dev, client, migrate} }

// required reports whether a command refuses to run without a setting.
func required(of command, name string) bool { return of == migrate && name == "journal.dsn" }

// needs is an environment without which a command refuses to run whatever else is set; it leaves out the setting that
// is under test.
func needs(of command, tested string) []string {
	var environ []string
	for _, s := range settings() {
		if required(of, s.name) && s.name != tested {
			environ = append(environ, s.env()+"=sqlite:needed.db")
		}
	}
	if of == serve && tested == "journal.dsn" {
		environ = append(environ, setting{name: "journal.mode"}.env()+"=off")
	}
	if of == serve && slices.Contains([]string{"store", "data", "nats.listen"}, tested) {
		for name, value := range map[string]string{"store": "memory", "data": os.TempDir(), "journal.mode": "sync",
			"journal.dsn": "sqlite:needed.db"} {
			if name != tested {
				environ = append(environ, setting{name: name}.env()+"="+value)
			}
		}
	}
	return environ
}

// commands are those that a setting belongs to.
func (s setting) commands() []command {
	var all []command
	for _, of := range everyCommand() {
		if s.of&of != 0 {
			all = append(all, of)
		}
	}
	return all
}

func mustHave(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q:\n%v", part, err)
		}
	}
}

// encode writes settings as YAML that loads to the same settings.
func encode(target any, of command) ([]byte, error) {
	at := fields(target)
	values := make(map[string]any)
	for _, s := range settings() {
		field := at[s.name]
		if s.of&of == 0 {
			continue
		}
		if value, ok := s.encoded(field); ok {
			values[s.name] = value
		}
	}
	at = lists(target)
	for _, q := range sequences() {
		if q.of&of != 0 {
			if list := q.encoded(at[q.name]); list != nil {
				values[q.name] = list
			}
		}
	}
	text, err := yaml.Marshal(nest(values))
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return text, nil
}

// encoded is a setting's value as YAML has it; false where it is not set.
func (s setting) encoded(field reflect.Value) (any, bool) {
	switch {
	case s.fallback == "" && field.IsZero():
		return nil, false
	case s.secret:
		return field.String(), true
	}
	return plain(s.limit, field.Interface()), true
}

// plain is what a person would write in YAML: numbers, booleans and lists as such, the rest as text.
func plain(l limit, value any) any {
	switch l.(type) {
	case ranged[int], ranged[float64], toggle, several:
		return value
	}
	return show(l, value)
}

// encoded is a list as a person would write it in YAML; nil for an empty one.
func (q sequence) encoded(list reflect.Value) []any {
	var all []any
	for i := range list.Len() {
		at := fields(list.Index(i).Addr().Interface())
		item := map[string]any{}
		for _, row := range q.rows {
			if value, ok := row.encoded(at[row.name]); ok {
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

// fields finds the Go field behind each name: target points to a struct whose `setting` tags spell the YAML path.
func fields(target any) map[string]reflect.Value {
	found := make(map[string]reflect.Value)
	collect(reflect.ValueOf(target).Elem(), "", found)
	return found
}

func collect(v reflect.Value, path string, found map[string]reflect.Value) {
	for i := range v.NumField() {
		name := path + v.Type().Field(i).Tag.Get("setting")
		if v.Field(i).Kind() == reflect.Struct {
			collect(v.Field(i), name+".", found)
			continue
		}
		if isSequence(v.Field(i).Type()) || !v.Type().Field(i).IsExported() {
			continue
		}
		found[name] = v.Field(i)
	}
}

// isSequence distinguishes a list of sections from a list of texts.
func isSequence(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func (s setting) flag() string { return flagName(s.name) }

// show is the inverse of read.
func show(l limit, value any) string { return l.(interface{ show(any) string }).show(value) }

func (l ranged[N]) show(v any) string {
	var zero N
	if n := v.(N); n != zero || l.zero == "" {
		return l.print(n)
	}
	return "0"
}

func (toggle) show(v any) string { return strconv.FormatBool(v.(bool)) }

func (l choice) show(v any) string { return v.(string) }

func (l text) show(v any) string { return v.(string) }

func (l several) show(v any) string { return strings.Join(v.([]string), ",") }
