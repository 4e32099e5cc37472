package api

import (
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tarry-mq/tarry/bridge/ops"
)

// A Handler serves one route: it writes its successful answer itself and returns everything else as an error.
type Handler func(w http.ResponseWriter, r *http.Request) error

// plain returns h for requests without a query.
func plain(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := Query(r); err != nil {
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
	closed := func(pattern string, needs ops.Right, h Handler) { s.handle(pattern, s.admitted(needs, false, h)) }
	closed("POST /v1/messages", ops.RightPush, plain(s.push))
	closed("POST /v1/messages/batch", ops.RightPush, plain(s.batch))
	for _, op := range s.ops.Table() {
		closed(op.Route, op.Right, s.operation(op))
		s.named[op.Name] = op
	}
	s.documentRoutes()
	s.handle("GET /livez", s.livez)
	s.handle("GET /readyz", s.readyz)
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

func (s *Server) handle(pattern string, h Handler) {
	s.mux.Handle(pattern, s.serve(h))
	s.patterns = append(s.patterns, pattern)
}

// A Route is a route of another system, for its clients, which the API does not describe. It has the limits, rights,
// metrics and log lines of the others.
type Route struct {
	Pattern string // as http.ServeMux has it
	Right   ops.Right
	Serve   Handler
	// Changes marks a GET that changes something: a page of another origin must not make a browser send it, and HEAD is
	// refused.
	Changes bool
	// Late is how long the error that Serve returns, or a refusal of the caller, waits: for clients that repeat at once.
	Late time.Duration
}

// Mount adds routes of other systems. It must be called before the server serves.
func (s *Server) Mount(routes ...Route) {
	for _, one := range routes {
		h := s.admitted(one.Right, one.Changes, func(w http.ResponseWriter, r *http.Request) error {
			if one.Changes && r.Method == http.MethodHead {
				w.Header().Set("Allow", http.MethodGet)
				return ops.Refuse(http.StatusMethodNotAllowed, WordMethod, "this path takes GET")
			}
			return one.Serve(w, r)
		})
		s.mounted[one.Pattern] = one.Late
		s.handle(one.Pattern, func(w http.ResponseWriter, r *http.Request) error {
			err := h(w, r)
			if err != nil {
				s.Later(r, one.Late)
			}
			return err
		})
	}
}

// Later waits before a refusal, unless the client goes or the instance stops.
func (s *Server) Later(r *http.Request, wait time.Duration) {
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-r.Context().Done():
	case <-s.stopping.Done():
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o := s.observe(w, r)
	defer o.done()
	_, pattern := s.mux.Handler(r)
	if err := s.ownHost(r); err != nil {
		s.Later(r, s.mounted[pattern])
		s.refuse(o, r, err)
		return
	}
	if !s.offers(r, pattern) {
		// The mux would redirect to the clean path, in HTML. An API should not redirect.
		s.serve(s.admitted(ops.RightNone, false, s.unknown)).ServeHTTP(o, r)
		return
	}
	s.mux.ServeHTTP(o, r)
}

// offers reports whether the listener of the request has the route, and its path is written as in the route.
func (s *Server) offers(r *http.Request, pattern string) bool {
	_, mounted := s.mounted[pattern]
	return tidy(r) && (mounted || !forSeeds(r))
}

// tidy reports whether the path has no empty, "." or ".." segment and no trailing slash.
func tidy(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	return path.Clean(escaped) == escaped
}

// serve writes the error that a handler returns.
func (s *Server) serve(h Handler) http.Handler {
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
		pages := "/docs"
		if s.cfg.Console {
			pages = "/console for operators, /docs"
		}
		return ops.Refuse(http.StatusNotFound, WordUnknownRoute,
			"there is nothing at this path; see /v1/messages, /v1/cluster, %s for all", pages)
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return ops.Refuse(http.StatusMethodNotAllowed, WordMethod, "this path takes %s", list)
}
