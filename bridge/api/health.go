package api

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
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

// fullDisk is the one reason that anybody may be told: it names nothing.
const fullDisk = "the disk is full"

// answer returns the check as an answer shows it, without its reason.
func (c *Check) answer() ops.Check {
	a := ops.Check{Name: c.Name, OK: c.Err == nil}
	if errors.Is(c.Err, scheduler.ErrDiskFull) {
		a.Detail = fullDisk
	}
	for _, bucket := range c.Buckets {
		a.Buckets = append(a.Buckets, int(bucket))
	}
	return a
}

// Amiss returns the names of the checks that fail, and whether pushes are accepted all the same.
func Amiss(checks []Check) (names []string, ready bool) {
	ready = true
	for i := range checks {
		if c := &checks[i]; c.Err != nil {
			names, ready = append(names, c.Name), ready && !c.Needed
		}
	}
	return names, ready
}

// readyWithin bounds the checks, because probers soon give up too.
const readyWithin = 3 * time.Second

// Accepts reports whether the instance accepts pushes now.
func (s *Server) Accepts(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, readyWithin)
	defer stop()
	_, ready := Amiss(s.cfg.Ready(ctx))
	return ready
}

// livez answers as long as the process serves requests. It does not check dependencies: restarting tarry does not bring
// Redis back.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	s.Respond(w, http.StatusOK, func(b []byte) []byte { return append(b, `{"live":true}`...) })
	return nil
}

// readyz reports whether the instance can accept a push and, if not, what is missing. An instance that can accept only
// some pushes, or delivers nothing, is ready and reports what is missing. A healthy standby is ready. Anybody may call
// it, so it names neither hosts nor errors: those are in the log and at /v1/cluster.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), readyWithin)
	defer stop()
	checks := s.cfg.Ready(ctx)
	a := ops.Ready{Checks: []ops.Check{}}
	a.Degraded, a.Ready = Amiss(checks)
	for i := range checks {
		a.Checks = append(a.Checks, checks[i].answer())
	}
	status := http.StatusOK
	if !a.Ready {
		a.Degraded, status = nil, http.StatusServiceUnavailable
	}
	return s.RespondValue(w, status, a)
}

// ownChecks returns checks with the reasons of failures.
func ownChecks(checks []Check) []ops.Check {
	var all []ops.Check
	for _, c := range checks {
		a := c.answer()
		if c.Err != nil {
			a.Detail = c.Err.Error()
		}
		all = append(all, a)
	}
	return all
}

// Probes serves only /livez and /readyz, for a separate listener: a prober then needs no client certificate and no
// access to the address of the API.
func (s *Server) Probes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]Handler{
		"GET /livez": s.livez, "GET /readyz": s.readyz,
		unrouted: func(http.ResponseWriter, *http.Request) error {
			return ops.Refuse(http.StatusNotFound, WordUnknownRoute, "this listener serves only /livez and /readyz")
		},
	} {
		mux.Handle(pattern, s.serve(h))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := s.observe(w, r)
		defer o.done()
		mux.ServeHTTP(o, r)
	})
}

// probeConnections bounds the connections of probers.
const probeConnections = 100

// RunProbes serves Probes on the listener, which it owns, until ctx ends.
func (s *Server) RunProbes(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Probes(),
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		ReadTimeout:       s.cfg.HeaderTimeout,
		WriteTimeout:      s.cfg.HeaderTimeout + 2*readyWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    s.cfg.HeaderLimit,
		ConnState:         newConnections(probeConnections, s.log).changed,
		ErrorLog:          log.New(serverLog{s.log}, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // waited for below
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve probes on %s: %w", listener.Addr(), err), server.Close())
	case <-ctx.Done():
	}
	if err := server.Close(); err != nil {
		s.log.Debug().Err(err).Msg("http connection failed")
	}
	<-served
	return nil
}
