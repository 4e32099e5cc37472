package api

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

// Probes serves only /livez and /readyz, for a separate listener: a prober then needs no client certificate and no
// access to the address of the API.
func (s *Server) Probes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /livez": s.livez, "GET /readyz": s.readyz,
		unrouted: func(http.ResponseWriter, *http.Request) error {
			return refusal(http.StatusNotFound, WordUnknownRoute, "this listener serves only /livez and /readyz")
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
