package config

import (
	"reflect"
	"strings"
)

// command is a set of the commands that read a setting.
type command uint8

const (
	serve command = 1 << iota
	dev
	client
	migrate
)

func (c command) String() string {
	var names []string
	for _, known := range []struct {
		command
		name string
	}{{serve, "tarry serve"}, {dev, "tarry dev"}, {client, "the client commands"}, {migrate, "tarry migrate"}} {
		if c&known.command != 0 {
			names = append(names, known.name)
		}
	}
	return list(names, "and")
}

// setting is one row of the table.
type setting struct {
	name     string // the YAML path, from which the other spellings follow
	fallback string // the default as text; "" if the setting may be empty
	computed string // what replaces an empty value, in words
	limit    limit
	help     string // begins in lower case, no full stop
	secret   bool
	of       command
}

const envPrefix = "TARRY_"

func (s setting) env() string { return envName(s.name) }

func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}
func flagName(name string) string { return "--" + name }

// configName names the file. It is the only setting that a file cannot contain.
const configName = "config"

func configFile() setting {
	return setting{name: configName, limit: readableFile(), help: "YAML file with settings",
		of: serve | dev | client | migrate}
}

// settings returns the table, in the order of the documents: the fields of Serve and of Client. A field's tags have its
// name, its default, its limit (limitOf) and the commands that read it; the comment above it is its help.
func settings() []setting {
	return append(rowsOf(reflect.TypeFor[Serve](), "", serve), rowsOf(reflect.TypeFor[Client](), "", client)...)
}

// rowsOf returns the rows of a struct's fields and of their own, but not those of lists of sections. of is the command
// that reads a field which does not say it.
func rowsOf(section reflect.Type, prefix string, of command) (rows []setting) {
	words := helps()
	for i := range section.NumField() {
		field := section.Field(i)
		name, kind := prefix+field.Tag.Get("setting"), field.Type.Kind()
		switch {
		case kind == reflect.Struct:
			rows = append(rows, rowsOf(field.Type, name+".", of)...)
			continue
		case kind == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			continue
		}
		help := words[section.Name()+"."+field.Name]
		row := setting{name: name, fallback: field.Tag.Get("default"), computed: help.computed, limit: limitOf(field),
			help: help.text, secret: isSecret(field.Type), of: of}
		if commands := field.Tag.Get("of"); commands != "" {
			row.of = 0
			for word := range strings.FieldsSeq(commands) {
				row.of |= map[string]command{"serve": serve, "dev": dev, "client": client, "migrate": migrate}[word]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func isSecret(of reflect.Type) bool {
	return of == reflect.TypeFor[Secret]() || of == reflect.TypeFor[[]Secret]()
}

// help is what documents say of a setting: helps has those of all fields.
//
//go:generate go test -vet=off -run ^TestHelps_ -update .
type help struct {
	text     string // begins in lower case, no full stop
	computed string // what replaces an empty value, in words
}
