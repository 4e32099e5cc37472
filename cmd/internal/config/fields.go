package config

import (
	"fmt"
	"reflect"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

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

// assign puts a value that a limit has read into its field. Table and structs are written by hand in two places; a
// test holds them together, so a mismatch never reaches a user.
func assign(field reflect.Value, value any) {
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
}

// encode writes settings as YAML that loads to the same settings; without reveal, secrets are masked and it does not.
func encode(target any, of command, reveal bool) ([]byte, error) {
	at := fields(target)
	values := make(map[string]any)
	for _, s := range settings() {
		field := at[s.name]
		if s.of&of == 0 {
			continue
		}
		if value, ok := s.encoded(field, reveal); ok {
			values[s.name] = value
		}
	}
	at = lists(target)
	for _, q := range sequences() {
		if q.of&of != 0 {
			if list := q.encoded(at[q.name], reveal); list != nil {
				values[q.name] = list
			}
		}
	}
	k := koanf.New(".")
	if err := k.Load(confmap.Provider(values, "."), nil); err != nil {
		return nil, fmt.Errorf("nest settings: %w", err)
	}
	text, err := k.Marshal(yaml.Parser())
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return text, nil
}

// encoded is a setting's value as YAML has it; false where it is not set.
func (s setting) encoded(field reflect.Value, reveal bool) (any, bool) {
	switch {
	case s.fallback == "" && field.IsZero():
		return nil, false
	case s.secret && !reveal:
		return mask, true
	case s.secret:
		return field.String(), true
	}
	return plain(s.limit, field.Interface()), true
}

// plain is what a person would write in YAML: numbers, booleans and lists as such, the rest as text.
func plain(l limit, value any) any {
	switch l.(type) {
	case integer, amount, toggle, several:
		return value
	}
	return l.show(value)
}

// describe is the String of all structs of settings.
func describe(target any, of command) string {
	text, err := encode(target, of, false)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
