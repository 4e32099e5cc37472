package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler serves one route: it writes its successful answer itself and returns everything else as an error.
type handler func(w http.ResponseWriter, r *http.Request) error

// guarded is a handler and the right that it needs.
type guarded struct {
	needs  right
	handle handler
}

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
	closed := func(pattern string, needs right, h handler) {
		s.handlers[pattern] = guarded{needs, h}
		handle(pattern, s.admitted(needs, h))
	}
	open := handle

	closed("POST /v1/messages", rightPush, plain(s.push))
	closed("POST /v1/messages/batch", rightPush, plain(s.batch))
	closed("GET /v1/messages/{id}", rightLook, s.get)
	closed("DELETE /v1/messages/{id}", rightChange, s.cancel)
	closed("PATCH /v1/messages/{id}", rightChange, s.reschedule)
	closed("POST /v1/messages/{id}/run", rightChange, s.runNow)
	closed("POST /v1/messages/cancel", rightOperate, plain(s.cancelMany))
	closed("POST /v1/messages/reschedule", rightOperate, plain(s.rescheduleMany))
	closed("GET /v1/dead", rightRead, s.dead)
	closed("POST /v1/dead/requeue", rightOperate, plain(s.requeue))
	closed("POST /v1/dead/purge", rightOperate, plain(s.purge))
	closed("GET /v1/topics", rightRead, s.topics)
	closed("GET /v1/topics/{topic}", rightRead, plain(s.topic))
	closed("POST /v1/topics/{topic}/pause", rightOperate, plain(s.pause))
	closed("POST /v1/topics/{topic}/resume", rightOperate, plain(s.resume))
	s.pullRoutes(closed)
	own := len(s.patterns)
	s.camelliaRoutes(closed)
	s.sdmqRoutes(closed)
	s.seeds = slices.Clone(s.patterns[own:])
	s.journalRoutes(closed)
	s.rejectRoutes(closed)
	s.documentRoutes()
	closed("GET /v1/why", rightLook, s.whyList)
	closed("GET /v1/cluster", rightRead, plain(s.cluster))
	closed("POST /v1/cluster/resign", rightOperate, plain(s.resign))
	closed("DELETE /v1/cluster/instances/{instance}", rightOperate, plain(s.forget))
	open("GET /livez", s.livez)
	open("GET /readyz", s.readyz)
	metrics := promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: gatherLog{s.log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4,
		Timeout: s.cfg.Timeout,
	})
	closed("GET /metrics", rightRead, func(w http.ResponseWriter, r *http.Request) error {
		metrics.ServeHTTP(w, r)
		return nil
	})
	closed(unrouted, rightNone, s.unknown)
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
		s.serve(s.admitted(rightNone, s.unknown)).ServeHTTP(o, r)
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
		return refusal(http.StatusNotFound, WordUnknownRoute,
			"there is nothing at this path; see /v1/messages, /v1/cluster, and /docs for all")
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return refusal(http.StatusMethodNotAllowed, WordMethod, "this path takes %s", list)
}
