package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/rs/zerolog"
)

// RunSeeds is Run for clients that cannot send a header: it serves the routes of other systems alone, with the rights
// of Config.SeedsToken.
func (s *Server) RunSeeds(ctx context.Context, listener net.Listener) error {
	return s.run(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), seedsKey{}, true)))
	}))
}

type seedsKey struct{}

// forSeeds reports whether a request came to the listener of RunSeeds.
func forSeeds(r *http.Request) bool { return r.Context().Value(seedsKey{}) != nil }

// Run serves the listener, which it owns, until ctx ends. Then it accepts no new connections, waits up to StopTimeout
// for the requests in progress and aborts the rest; long operations, which could take hours, end at once. Run returns
// nil once ctx has ended, even if it aborted requests, and an error if it cannot serve.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	return s.run(ctx, listener, s)
}

func (s *Server) run(ctx context.Context, listener net.Listener, handler http.Handler) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx)) // requests in progress outlive ctx
	defer cut()
	table := newConnections(s.cfg.Connections, s.log)
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.ReadTimeout + 2*s.cfg.Timeout, // from the headers on: to read, to work, to answer
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.HeaderLimit,
		ConnState:         table.changed,
		ConnContext:       table.context,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          log.New(serverLog{s.log}, "", 0),
	}
	if s.cfg.TLS != nil { // the header time-out also bounds the handshake
		listener = tls.NewListener(listener, s.cfg.TLS)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // waited for below
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve http on %s: %w", listener.Addr(), err), server.Close())
	case <-ctx.Done():
	}
	s.stopLong()
	stopping, stop := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer stop()
	err := server.Shutdown(stopping)
	if err != nil {
		cut()
		err = errors.Join(err, server.Close())
		s.log.Warn().Err(err).Msg("http stopped with requests under way")
	}
	<-served
	return nil
}

// serverLog logs net/http's errors, like broken handshakes, which clients cause.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	l.log.Debug().Str("cause", string(line)).Msg("http connection failed")
	return len(line), nil
}
