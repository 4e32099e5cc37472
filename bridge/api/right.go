package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarry-mq/tarry/bridge/ops"
)

// Token is a caller, known by the hash of its token.
type Token = ops.Token

// guard holds the tokens of the callers. The zero value allows everybody everything.
type guard struct {
	list atomic.Pointer[[]Token]
	// shut stays set once there was a token: removing all tokens must not open the API to everybody.
	shut atomic.Bool

	mu    sync.Mutex
	polls map[*func()]struct{} // what they do when the tokens change
}

func (g *guard) set(all []Token) {
	if len(all) > 0 {
		g.shut.Store(true)
	}
	g.list.Store(&all)
	g.mu.Lock()
	defer g.mu.Unlock()
	for changed := range g.polls {
		(*changed)()
	}
}

// watch calls changed whenever the tokens change, until stop is called.
func (g *guard) watch(changed func()) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.polls == nil {
		g.polls = map[*func()]struct{}{}
	}
	g.polls[&changed] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.polls, &changed)
	}
}

// find returns the token with this hash, or nil. It compares every byte with every token, so the time it takes reveals
// neither how much of a hash matches nor which token it is.
func (g *guard) find(hash *[sha256.Size]byte) *Token {
	list := g.list.Load()
	if list == nil {
		return nil
	}
	at := -1
	for i := range *list {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare((*list)[i].Hash[:], hash[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return &(*list)[at]
}

// named returns the token with this name, or nil.
func (g *guard) named(name string) *Token {
	if list := g.list.Load(); list != nil {
		if at := slices.IndexFunc(*list, func(t Token) bool { return t.Name == name }); at >= 0 {
			return &(*list)[at]
		}
	}
	return nil
}

// ownToken is the name of the one token that Config holds in clear text.
const ownToken = "token"

// tokens returns the list, after Config.Token if that is set. Config.Token has all rights.
func (c *Config) tokens(list []Token) []Token {
	if c.Token == "" {
		return list
	}
	all := []string{">"}
	return append([]Token{{Name: ownToken, Hash: sha256.Sum256([]byte(c.Token)), Push: all, Pull: all, Read: true,
		Operate: true}}, list...)
}

// SetTokens replaces Config's list of tokens while the server runs; Config.Token stays. If no token is left, nobody may
// call. A server that started without tokens is open until one is set.
func (s *Server) SetTokens(list []Token) { s.guard.set(s.cfg.tokens(slices.Clone(list))) }

type callerKey struct{}

// CallerOf returns who makes the request.
func CallerOf(r *http.Request) *ops.Caller {
	if by, ok := r.Context().Value(callerKey{}).(*ops.Caller); ok {
		return by
	}
	return &ops.Caller{Address: r.RemoteAddr, Route: r.Pattern}
}
