package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// load is the Load of a command; it gives a pointer to the settings.
func load(of command, flags *pflag.FlagSet, environ []string) (any, error) {
	switch of {
	case serve:
		s, err := LoadServe(flags, environ)
		return &s, err
	case dev:
		d, err := LoadDev(flags, environ)
		return &d, err
	case migrate:
		m, err := LoadMigrate(flags, environ)
		return &m, err
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
	k := koanf.New(".")
	if err := k.Load(confmap.Provider(values, "."), nil); err != nil {
		t.Fatal(err)
	}
	text, err := k.Marshal(yaml.Parser())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
	return s.limit.show(field.Interface())
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
