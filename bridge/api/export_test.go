package api

import "net/http"

// Patterns are all routes, for tests that must know each of them.
func (s *Server) Patterns() []string { return s.patterns }

// Pattern is the route that a request takes.
func (s *Server) Pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}
