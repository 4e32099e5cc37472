package config

import (
	"reflect"

	"github.com/spf13/pflag"
)

// Reloaded is what a running instance takes over without a restart.
type Reloaded struct {
	Tokens []Token
	Retry  string
	Topics []Topic
	// Restart names the other settings that differ by now from those the instance runs with.
	Restart []string
}

// Reload reads all layers again, as LoadDev does, while tarry dev runs with d. Where anything is wrong nothing of it is
// to be used.
func (d Dev) Reload(flags *pflag.FlagSet, environ []string) (Reloaded, error) {
	next, err := LoadDev(flags, environ)
	if err != nil {
		return Reloaded{}, err
	}
	return Reloaded{Tokens: next.HTTP.Tokens, Retry: next.Retry, Topics: next.Topics,
		Restart: differing(&d, &next, dev)}, nil
}

// Reload reads all layers again, as LoadServe does, while an instance runs with s. Where anything is wrong nothing of
// it is to be used.
func (s Serve) Reload(flags *pflag.FlagSet, environ []string) (Reloaded, error) {
	next, err := LoadServe(flags, environ)
	if err != nil {
		return Reloaded{}, err
	}
	return Reloaded{Tokens: next.HTTP.Tokens, Retry: next.Retry, Topics: next.Topics,
		Restart: differing(&s, &next, serve)}, nil
}

// differing names the settings that are not the same in both, without those that are taken over.
func differing(old, next any, of command) (names []string) {
	before, now := fields(old), fields(next)
	for _, s := range settings() {
		if s.of&of == 0 || s.name == "retry" || s.name == "http.tokens_file" {
			continue
		}
		if !reflect.DeepEqual(before[s.name].Interface(), now[s.name].Interface()) {
			names = append(names, s.name)
		}
	}
	return names
}
