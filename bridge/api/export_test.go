package api

import (
	"cmp"
	"net/http"
)

// Patterns are all routes, for tests that must know each of them.
func (s *Server) Patterns() []string { return s.patterns }

// Pattern is the route that a request takes.
func (s *Server) Pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// CallPattern is the route that a call stands for.
func CallPattern(name string) string {
	return cmp.Or(reads[name].pattern, changes[name].pattern, admins[name].pattern)
}

// CallPatterns are the routes that calls stand for.
func CallPatterns() (all []string) {
	for _, list := range []map[string]route{reads, changes, admins} {
		for name := range list {
			all = append(all, CallPattern(name))
		}
	}
	return all
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
