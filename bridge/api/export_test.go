package api

import (
	"net/http"
)

// Patterns are all routes, for tests that must know each of them.
func (s *Server) Patterns() []string { return s.patterns }

// Pattern is the route that a request takes.
func (s *Server) Pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// Hold counts bytes as if bodies were being read.
func (s *Server) Hold(bytes int64) { s.reading.give("", -bytes) }

// Held returns what bodies take.
func (s *Server) Held() int64 {
	s.reading.mu.Lock()
	defer s.reading.mu.Unlock()
	return s.reading.all
}

// MaxBodies is how many bytes of bodies may be held at once.
func (s *Server) MaxBodies() int64 { return bodiesAtOnce * s.cfg.MaxBody }
