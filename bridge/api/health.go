package api

import (
	"context"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Check is one requirement of an instance, and the reason if it is not met.
type Check struct {
	Name string
	// Needed reports that no push is accepted while the check fails. While any other check fails, some pushes are
	// accepted.
	Needed bool
	// Buckets are the buckets in which the check fails; empty if it concerns all buckets or none.
	Buckets []message.Bucket
	// Err is the reason of the failure, nil if there is none. It may name hosts.
	Err error
}

// answer returns the check as an answer shows it, without its reason.
func (c *Check) answer() wire.Check {
	a := wire.Check{Name: c.Name, OK: c.Err == nil}
	for _, bucket := range c.Buckets {
		a.Buckets = append(a.Buckets, int(bucket))
	}
	return a
}

// readyWithin bounds the checks, because probers soon give up too.
const readyWithin = 3 * time.Second

// livez answers as long as the process serves requests. It does not check dependencies: restarting tarry does not bring
// Redis back.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	s.respond(w, http.StatusOK, func(b []byte) []byte { return append(b, `{"live":true}`...) })
	return nil
}

// readyz reports whether the instance can accept a push and, if not, what is missing. An instance that can accept only
// some pushes, or delivers nothing, is ready and reports what is missing. A healthy standby is ready. Anybody may call
// it, so it names neither hosts nor errors: those are in the log and at /v1/cluster.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), readyWithin)
	defer stop()
	a := wire.Ready{Ready: true, Checks: []wire.Check{}}
	for _, c := range s.cfg.Ready(ctx) {
		a.Checks = append(a.Checks, c.answer())
		if c.Err != nil {
			a.Ready = a.Ready && !c.Needed
			a.Degraded = append(a.Degraded, c.Name)
		}
	}
	status := http.StatusOK
	if !a.Ready {
		a.Degraded, status = nil, http.StatusServiceUnavailable
	}
	return s.respondValue(w, status, a)
}

// ownChecks returns the checks of this instance with the reasons of failures.
func (s *Server) ownChecks(ctx context.Context) []wire.Check {
	var all []wire.Check
	for _, c := range s.cfg.Ready(ctx) {
		a := c.answer()
		if c.Err != nil {
			a.Detail = c.Err.Error()
		}
		all = append(all, a)
	}
	return all
}
