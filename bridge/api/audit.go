package api

import (
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// audit collects an operator's action for the log: one line for each request with a known token to a route whose right
// is audited, regardless of the outcome. The line is written after the answer, since it holds the outcome. It contains
// the parameters and, for an operation on many messages, the number of changed messages, but never a body.
type audit struct {
	what string // "restore"; empty where the request was refused before it was understood
	dry  bool
	word string // of the problem that was answered
	add  []func(*zerolog.Event)
}

// audit names the operation that a request asks for. Parameters added to the result appear in the line.
func (s *Server) audit(r *http.Request, what string, dry bool) *audit {
	a := visitOf(r).audit
	if a == nil {
		a = &audit{} // never logged: the request is not an operator's action
	}
	a.what, a.dry = what, dry
	return a
}

func (a *audit) with(add func(*zerolog.Event)) *audit {
	a.add = append(a.add, add)
	return a
}

// Str adds a parameter.
func (a *audit) Str(name, value string) *audit {
	return a.with(func(e *zerolog.Event) { e.Str(name, value) })
}

// Int adds a parameter.
func (a *audit) Int(name string, value int) *audit {
	return a.with(func(e *zerolog.Event) { e.Int(name, value) })
}

// Bool adds a parameter.
func (a *audit) Bool(name string, value bool) *audit {
	return a.with(func(e *zerolog.Event) { e.Bool(name, value) })
}

// audited writes the log line of a request that is an operator's action.
func (o *observed) audited(took time.Duration) {
	if o.visit == nil {
		return
	}
	a := o.visit.audit
	line := o.s.log.Info().Str("who", o.visit.name()).Str("remote", o.r.RemoteAddr).Str("route", o.r.Pattern)
	if a.what != "" {
		line.Str("operation", a.what).Bool("dry_run", a.dry)
	}
	for _, add := range a.add {
		add(line)
	}
	if a.word != "" {
		line.Str("problem", a.word)
	}
	line.Int("status", o.status).Dur("took", took).Msg("operator action")
}
