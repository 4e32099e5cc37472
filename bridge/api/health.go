package api

import (
	"context"
	"net/http"
	"time"
)

// Check is one thing that an instance needs, and what is wrong with it.
type Check struct {
	Name string
	// Needed: while it fails no push is accepted. Where another check fails some are.
	Needed bool
	// Buckets are those that it fails in; none where it concerns all or no bucket.
	Buckets []int
	// Err is what is wrong, nil where nothing is. It may name hosts.
	Err error
}

// checkAnswer is a check as everybody may see it. Detail is for the right read.
type checkAnswer struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Buckets []int  `json:"buckets,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// readyWithin bounds the look at what an instance needs: who asks gives up soon, too.
const readyWithin = 3 * time.Second

// livez answers as long as the process serves at all. What it needs is none of its business: restarting tarry brings no
// Redis back.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	s.respond(w, http.StatusOK, func(b []byte) []byte { return append(b, `{"live":true}`...) })
	return nil
}

type readyAnswer struct {
	Ready    bool          `json:"ready"`
	Degraded []string      `json:"degraded,omitempty"`
	Checks   []checkAnswer `json:"checks"`
}

// readyz reports whether the instance can accept a push, and what is missing when it cannot. Where it can accept some,
// or forwards nothing, it is ready and says what it lacks. A healthy standby is ready. Anybody may ask, so it names no
// hosts and no errors: those are in the log, and at /v1/cluster.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), readyWithin)
	defer stop()
	a := readyAnswer{Ready: true, Checks: []checkAnswer{}}
	for _, c := range s.cfg.Ready(ctx) {
		a.Checks = append(a.Checks, checkAnswer{Name: c.Name, OK: c.Err == nil, Buckets: c.Buckets})
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

// ownChecks are the checks of this instance with what is wrong.
func (s *Server) ownChecks(ctx context.Context) []checkAnswer {
	var all []checkAnswer
	for _, c := range s.cfg.Ready(ctx) {
		a := checkAnswer{Name: c.Name, OK: c.Err == nil, Buckets: c.Buckets}
		if c.Err != nil {
			a.Detail = c.Err.Error()
		}
		all = append(all, a)
	}
	return all
}
