package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tarry-mq/tarry/bridge/ops"
)

// handler serves one route: it writes its successful answer itself and returns everything else as an error.
type handler func(w http.ResponseWriter, r *http.Request) error

// plain returns h for requests without a query.
func plain(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := query(r); err != nil {
			return err
		}
		return h(w, r)
	}
}

// unrouted is the pattern of every path that is not a route.
const unrouted = "/"

// methods are the methods that routes use.
var methods = [...]string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost}

func (s *Server) routes() {
	handle := func(pattern string, h handler) {
		s.mux.Handle(pattern, s.serve(h))
		s.patterns = append(s.patterns, pattern)
	}
	closed := func(pattern string, needs ops.Right, h handler) { handle(pattern, s.admitted(needs, h)) }
	open := handle

	closed("POST /v1/messages", ops.RightPush, plain(s.push))
	closed("POST /v1/messages/batch", ops.RightPush, plain(s.batch))
	for _, op := range s.ops.Table() {
		h := s.operation(op)
		closed(op.Route, op.Right, h)
		s.named[op.Name] = h
	}
	own := len(s.patterns)
	s.camelliaRoutes(closed)
	s.sdmqRoutes(closed)
	s.seeds = slices.Clone(s.patterns[own:])
	s.documentRoutes()
	open("GET /livez", s.livez)
	open("GET /readyz", s.readyz)
	metrics := promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: gatherLog{s.log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4,
		Timeout: s.cfg.Timeout,
	})
	closed("GET /metrics", ops.RightRead, func(w http.ResponseWriter, r *http.Request) error {
		metrics.ServeHTTP(w, r)
		return nil
	})
	closed(unrouted, ops.RightNone, s.unknown)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o := s.observe(w, r)
	defer o.done()
	if err := s.ownHost(r); err != nil {
		s.refuse(o, r, err)
		return
	}
	if _, pattern := s.mux.Handler(r); !s.offers(r, pattern) {
		// The mux would redirect to the clean path, in HTML. An API should not redirect.
		s.serve(s.admitted(ops.RightNone, s.unknown)).ServeHTTP(o, r)
		return
	}
	s.mux.ServeHTTP(o, r)
}

// offers reports whether the listener of the request has the route, and its path is written as in the route.
func (s *Server) offers(r *http.Request, pattern string) bool {
	return tidy(r) && (!forSeeds(r) || slices.Contains(s.seeds, pattern))
}

// tidy reports whether the path has no empty, "." or ".." segment and no trailing slash.
func tidy(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	return path.Clean(escaped) == escaped
}

// serve writes the error that a handler returns.
func (s *Server) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.refuse(w, r, err)
		}
	})
}

// unknown answers requests that match no route: 405 if the path has routes for other methods, else 404.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	probe := *r
	for _, method := range methods {
		probe.Method = method
		if _, pattern := s.mux.Handler(&probe); pattern != unrouted && s.offers(r, pattern) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return ops.Refuse(http.StatusNotFound, WordUnknownRoute,
			"there is nothing at this path; see /v1/messages, /v1/cluster, and /docs for all")
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return ops.Refuse(http.StatusMethodNotAllowed, WordMethod, "this path takes %s", list)
}
