package wire

import (
	"bytes"
	"fmt"
	"strconv"
)

// The fields of the requests that work on the journal. What is wrong with one has the word "invalid_" and its name.
const (
	FieldOverdue = "overdue"
	FieldDryRun  = "dry_run"
	FieldRate    = "rate"
	FieldRepair  = "repair"
	FieldSince   = "since"
)

// The stable words of refusals of these fields.
const (
	WordOverdue = "invalid_overdue"
	WordDryRun  = "invalid_dry_run"
	WordRate    = "invalid_rate"
	WordRepair  = "invalid_repair"
	WordSince   = "invalid_since"
)

// MaxRate bounds the rate of a restore, in messages a second.
const MaxRate = 1_000_000

// Restore asks for what the journal has and the store lacks.
type Restore struct {
	Overdue bool   // what is due already, too
	Topic   string // or a pattern of topics; empty: all
	DryRun  bool
	Rate    int // messages a second, 0 for no bound
}

// DecodeRestore reads {"overdue":true, "topic":"orders.created", "dry_run":false, "rate":1000}. No text at all is the
// same as {}; overdue is true unless it is given.
func DecodeRestore(data []byte) (Restore, error) {
	r := Restore{Overdue: true}
	err := decode(data, "a restore", []string{FieldOverdue, FieldTopic, FieldDryRun, FieldRate},
		func(f *fields, field string) {
			switch field {
			case FieldOverdue:
				r.Overdue = f.bool(field)
			case FieldTopic:
				r.Topic = f.pattern()
			case FieldDryRun:
				r.DryRun = f.bool(field)
			case FieldRate:
				r.Rate = f.count(field, MaxRate)
			}
		})
	if err != nil {
		return Restore{}, err
	}
	return r, nil
}

// DecodeRestoreOne reads {"dry_run":false}, the restore of one message; no text at all is the same as {}.
func DecodeRestoreOne(data []byte) (dryRun bool, err error) {
	err = decode(data, "the restore of one message", []string{FieldDryRun}, func(f *fields, field string) {
		dryRun = f.bool(field)
	})
	return dryRun && err == nil, err
}

// DecodeVerify reads {"repair":false}; no text at all is the same as {}.
func DecodeVerify(data []byte) (repair bool, err error) {
	err = decode(data, "a verify", []string{FieldRepair}, func(f *fields, field string) { repair = f.bool(field) })
	return repair && err == nil, err
}

// Redeliver asks to publish again what a broker lost.
type Redeliver struct {
	Since  When   // a duration counts back from now
	Topic  string // or a pattern of topics; empty: all
	DryRun bool
}

// DecodeRedeliver reads {"since":"2h", "topic":"orders.created", "dry_run":false}; since is required.
func DecodeRedeliver(data []byte) (Redeliver, error) {
	var r Redeliver
	var given bool
	err := decode(data, "a redeliver", []string{FieldSince, FieldTopic, FieldDryRun}, func(f *fields, field string) {
		switch field {
		case FieldSince:
			r.Since, given = f.when(field), true
		case FieldTopic:
			r.Topic = f.pattern()
		case FieldDryRun:
			r.DryRun = f.bool(field)
		}
	})
	switch {
	case err != nil:
		return Redeliver{}, err
	case !given:
		return Redeliver{}, invalid(FieldSince, "is missing; "+wantWhen)
	}
	return r, nil
}

// decode reads one object with these fields, or nothing at all.
func decode(data []byte, what string, names []string, read func(f *fields, field string)) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	s := scanner{b: data}
	f := fields{s: &s}
	complaint := "is not a field of " + what
	s.object(func(name []byte) {
		if field, ok := f.known(name, names, complaint); ok {
			read(&f, field)
		}
	})
	if s.end(); s.bad != nil {
		return s.bad
	}
	if f.bad != nil {
		return f.bad
	}
	return nil
}

// bool reads true or false.
func (f *fields) bool(field string) bool {
	c := f.s.next()
	if c != 't' && c != 'f' {
		f.s.skip(1)
		f.refuse(invalid(field, "is neither true nor false"))
		return false
	}
	f.s.word()
	return c == 't'
}

// count reads a whole number from 0 to limit.
func (f *fields) count(field string, limit int) int {
	text := ""
	if c := f.s.next(); c == '-' || isDigit(c) {
		text = string(f.s.number())
	} else {
		f.s.skip(1)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > limit {
		f.refuse(invalid(field, fmt.Sprintf("is not a whole number from 0 to %d", limit)))
		return 0
	}
	return n
}

// when reads a time or a duration: text, or unix milliseconds as a number.
func (f *fields) when(field string) When {
	var text []byte
	switch c := f.s.next(); {
	case c == '"':
		text, _ = f.s.text()
	case c == '-' || isDigit(c):
		if text = f.s.number(); !allDigits(string(text)) {
			f.refuse(invalid(field, "is not a whole number of unix milliseconds"))
			return When{}
		}
	default:
		f.s.skip(1)
		f.refuse(invalid(field, "is neither text nor unix milliseconds"))
		return When{}
	}
	w, err := ParseWhen(string(text), field)
	if e, ok := err.(*Error); ok {
		f.refuse(e)
	}
	return w
}
