package api

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
)

// admitted lets h see only requests that may be made.
func (s *Server) admitted(needs right, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, err := s.admit(r)
		if err != nil {
			return err
		}
		if token == nil && !needs.audited() {
			return h(w, r) // nothing to remember
		}
		v := &visit{token: token}
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		if needs.audited() {
			v.audit = &audit{}
			if o, ok := w.(*observed); ok {
				o.visit = v
			}
		}
		if token != nil && !token.has(needs) {
			return lacks(needs.String(), "")
		}
		return h(w, r)
	}
}

// admit returns the token that a request carries, nil where no token is needed.
func (s *Server) admit(r *http.Request) (*Token, error) {
	if err := s.origin.Check(r); err != nil {
		return nil, refusal(http.StatusForbidden, WordCrossOrigin, "a browser sent this from a page of another origin")
	}
	if !s.guard.shut.Load() {
		return nil, nil
	}
	given, found := bearer(r)
	if !found {
		return nil, refusal(http.StatusUnauthorized, WordUnauthorized,
			"a token is needed: Authorization: Bearer <token>")
	}
	hash := sha256.Sum256([]byte(given))
	token := s.guard.find(&hash)
	if token == nil {
		return nil, refusal(http.StatusUnauthorized, WordUnauthorized, "unknown token")
	}
	return token, nil
}

// bearer is the token that a request carries. The scheme's name matches without case (RFC 9110).
func bearer(r *http.Request) (string, bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}
