package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
)

// Token is a caller, known by the hash of its token. Operate includes read.
type Token struct {
	Name string // for the log
	Hash [sha256.Size]byte
	// Push are the topics, as patterns, that the token may push to. It may cancel, reschedule and run single messages
	// that wait for them. Pull are the topics that it may pull from.
	Push, Pull    []string
	Read, Operate bool
}

// right is the right that a route requires.
type right uint8

const (
	// rightNone requires only a known token.
	rightNone right = iota
	// rightRead allows reading messages, topics and the cluster.
	rightRead
	// rightPush requires the right to push to some topic. The handler checks the topic, see mayPush.
	rightPush
	// rightChange requires the right to push to some topic, or to operate. The handler checks the message's topic, see
	// permitted.
	rightChange
	// rightLook requires the right to push to some topic, or to read. The handler shows only the topics that the caller
	// may push to, see sight.
	rightLook
	// rightRequeue allows pushing refused pushes again: it is rightChange, with a log line as for rightOperate.
	rightRequeue
	// rightOperate allows the operators' actions.
	rightOperate
	// rightPull requires the right to pull from some topic. The handler checks the topic, see mayPull.
	rightPull
)

var rightWords = [...]string{"none", "read", "push", "push or operate", "read or push", "push or operate", "operate",
	"pull"}

func (r right) String() string { return rightWords[r] }

// audited reports whether every request that needs the right is logged, see audit.go.
func (r right) audited() bool { return r == rightOperate || r == rightRequeue }

// has reports whether a token has a right for any topic.
func (t *Token) has(r right) bool {
	switch r {
	case rightRead:
		return t.Read || t.Operate
	case rightPush:
		return len(t.Push) > 0
	case rightLook:
		return len(t.Push) > 0 || t.has(rightRead)
	case rightChange, rightRequeue:
		return len(t.Push) > 0 || t.Operate
	case rightOperate:
		return t.Operate
	case rightPull:
		return len(t.Pull) > 0
	}
	return r == rightNone
}

// pushes reports whether the token may push to a topic.
func (t *Token) pushes(topic string) bool {
	return slices.ContainsFunc(t.Push, func(pattern string) bool { return scheduler.Matches(pattern, topic) })
}

// pulls reports whether the token may pull from a topic.
func (t *Token) pulls(topic string) bool {
	return slices.ContainsFunc(t.Pull, func(pattern string) bool { return scheduler.Matches(pattern, topic) })
}

// everywhere reports whether the token may push to every topic.
func (t *Token) everywhere() bool { return slices.Contains(t.Push, ">") }

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

// visit is an admitted request.
type visit struct {
	token *Token // nil if no token is needed
	audit *audit // nil if the request is no operator's action
}

type visitKey struct{}

// visitOf returns the request's visit, or the zero visit if none was recorded.
func visitOf(r *http.Request) visit {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return *v
	}
	return visit{}
}

// name returns the caller's name for logs.
func (v visit) name() string {
	if v.token == nil {
		return "anonymous"
	}
	return v.token.Name
}

func lacks(right, detail string) error {
	return refusal(http.StatusForbidden, WordForbidden, "this needs the right %s%s, which the token does not have",
		right, detail)
}

// mayPush refuses a push to a topic that the caller may not push to.
func mayPush(r *http.Request, topic string) error {
	if t := visitOf(r).token; t != nil && !t.pushes(topic) {
		return lacks("push", fmt.Sprintf(" on the topic %.300q", topic))
	}
	return nil
}

// mayChange refuses a change of a message on a topic that the caller may not push to.
func mayChange(r *http.Request, topic string) error {
	if t := visitOf(r).token; t != nil && !t.Operate && !t.pushes(topic) {
		return lacks("push on the message's topic, or operate", "")
	}
	return nil
}

// limited reports whether what the caller may change depends on the topic.
func limited(r *http.Request) bool {
	t := visitOf(r).token
	return t != nil && !t.Operate && !t.everywhere()
}

// viewer returns the caller, or nil if it may see every message. The rights to read and to operate cover all topics;
// the right to push lets the caller see only the topics that it covers.
func viewer(r *http.Request) *scheduler.Viewer {
	t := visitOf(r).token
	if t == nil || t.has(rightRead) || t.everywhere() {
		return nil
	}
	return &scheduler.Viewer{Topics: t.Push}
}

// mayRead reports whether the caller may see the content of messages, and where tarry runs.
func mayRead(r *http.Request) bool {
	t := visitOf(r).token
	return t == nil || t.has(rightRead)
}

// permitted returns the message that a request may change. If the caller's rights are limited by topic, it looks the
// message up first, unless the request names the topic. The change is then bound to the topic that was checked, since
// in between the name may pass to another message.
func (s *Server) permitted(ctx context.Context, r *http.Request, ref scheduler.Ref) (scheduler.Ref, error) {
	switch {
	case !limited(r):
		return ref, nil
	case ref.UID == "" && ref.Topic != "":
		return ref, mayChange(r, ref.Topic)
	}
	info, err := s.cfg.Service.Resolve(ctx, ref)
	if err == nil {
		err = mayChange(r, info.Topic)
	}
	if err != nil {
		return scheduler.Ref{}, err
	}
	if ref.Topic = info.Topic; ref.UID == "" {
		ref.Key, ref.Keyed = info.Key, true
	}
	return ref, nil
}
