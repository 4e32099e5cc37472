package api

import (
	"context"
	"net/http"
	"time"
)

// Check is one thing that an instance needs, and whether it is there.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
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
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// readyz tells whether the instance can do its part, and what is missing when it cannot. A healthy standby is ready.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), readyWithin)
	defer stop()
	a := readyAnswer{Ready: true, Checks: append([]Check{}, s.cfg.Ready(ctx)...)}
	for _, c := range a.Checks {
		a.Ready = a.Ready && c.OK
	}
	status := http.StatusOK
	if !a.Ready {
		status = http.StatusServiceUnavailable
	}
	return s.respondValue(w, status, a)
}
