package config

import (
	"errors"

	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

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

// flags returns the layer of the command line.
func (l *loader) flags(fs *pflag.FlagSet) layer {
	if fs == nil {
		return layer{koanf.New("."), flagName}
	}
	return layer{l.layer(posflag.ProviderWithFlag(fs, ".", nil, func(flag *pflag.Flag) (string, any) {
		if v, ok := flag.Value.(*flagValue); ok {
			return v.name, v.text
		}
		return "", nil // a command's own
	}), nil), flagName}
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
