package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// admitted lets h see only requests that may be made.
func (s *Server) admitted(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.admit(r); err != nil {
			return err
		}
		return h(w, r)
	}
}

func (s *Server) admit(r *http.Request) error {
	if err := s.origin.Check(r); err != nil {
		return refusal(http.StatusForbidden, WordCrossOrigin, "a browser sent this from a page of another origin")
	}
	if s.cfg.Token == "" {
		return nil
	}
	given, found := bearer(r)
	// Digests are compared, so that neither content nor length of the token shows in the time it takes.
	digest := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(digest[:], s.token[:]) != 1 || !found {
		if !found {
			return refusal(http.StatusUnauthorized, WordUnauthorized, "a token is needed: Authorization: Bearer <token>")
		}
		return refusal(http.StatusUnauthorized, WordUnauthorized, "this is not the token")
	}
	return nil
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
