package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
)

// Token is somebody who may call, known by the hash of what is sent. Operate comes with read.
type Token struct {
	Name string // for the log
	Hash [sha256.Size]byte
	// Push are the topics, as patterns, that it may push to. Of what waits for them it may cancel, reschedule and run
	// single messages. Pull are those that it may pull from.
	Push, Pull    []string
	Read, Operate bool
}

// right is what a route asks of whoever calls.
type right uint8

const (
	// rightNone: to be known is enough.
	rightNone right = iota
	// rightRead: to look at messages, topics and the cluster.
	rightRead
	// rightPush: to push to some topic. The handler holds it against the topic, see mayPush.
	rightPush
	// rightChange: to push to some topic, or to operate. The handler holds it against the message's topic, see
	// permitted.
	rightChange
	// rightLook: to push to some topic, or to read. The handler shows the topics that the caller may push to, see
	// sight.
	rightLook
	// rightRequeue: to push refused pushes again: rightChange, with a line in the log as for rightOperate.
	rightRequeue
	// rightOperate: to do what operators do.
	rightOperate
)

var rightWords = [...]string{"none", "read", "push", "push or operate", "read or push", "push or operate", "operate"}

func (r right) String() string { return rightWords[r] }

// audited reports whether every request that needs the right leaves a line in the log, see audit.go.
func (r right) audited() bool { return r == rightOperate || r == rightRequeue }

// has reports whether a token has a right at all.
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
	}
	return r == rightNone
}

// pushes reports whether it may push to a topic.
func (t *Token) pushes(topic string) bool {
	return slices.ContainsFunc(t.Push, func(pattern string) bool { return scheduler.Matches(pattern, topic) })
}

// everywhere reports whether it may push to every topic.
func (t *Token) everywhere() bool { return slices.Contains(t.Push, ">") }

// guard knows who may call. The zero value lets everybody do everything.
type guard struct {
	list atomic.Pointer[[]Token]
	// shut stays once there was a token: tokens that are all taken away must not open the door.
	shut atomic.Bool
}

func (g *guard) set(all []Token) {
	if len(all) > 0 {
		g.shut.Store(true)
	}
	g.list.Store(&all)
}

// find is the token with this hash, nil for none. All are looked at, each byte of each: neither how much of a hash is
// right nor which one it is shows in the time it takes.
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

// ownToken is the name of the one token that Config has in the clear.
const ownToken = "token"

// tokens are those of the list, and the token that has all rights.
func (c *Config) tokens(list []Token) []Token {
	if c.Token == "" {
		return list
	}
	all := []string{">"}
	return append([]Token{{Name: ownToken, Hash: sha256.Sum256([]byte(c.Token)), Push: all, Pull: all, Read: true,
		Operate: true}}, list...)
}

// SetTokens replaces Config's list of tokens while the server runs; Config.Token stays. Where nobody is left who may
// call, nobody may; a server that began without any is open as long as none was set.
func (s *Server) SetTokens(list []Token) { s.guard.set(s.cfg.tokens(slices.Clone(list))) }

// visit is one request that was let in.
type visit struct {
	token *Token // nil where nobody is asked for one
	audit *audit // nil where the request is no operator's action
}

type visitKey struct{}

// visitOf is the request's visit, the zero one where none was noted.
func visitOf(r *http.Request) visit {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return *v
	}
	return visit{}
}

// name is who calls, as logs have it.
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

// mayPush refuses a push to a topic that is none of the caller's.
func mayPush(r *http.Request, topic string) error {
	if t := visitOf(r).token; t != nil && !t.pushes(topic) {
		return lacks("push", fmt.Sprintf(" on the topic %.300q", topic))
	}
	return nil
}

// mayChange refuses a change of a message on a topic that is none of the caller's.
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

// viewer is who asks, nil where every message is his to see: the rights to read and to operate are for all topics, that
// to push shows those that it is for.
func viewer(r *http.Request) *scheduler.Viewer {
	t := visitOf(r).token
	if t == nil || t.has(rightRead) || t.everywhere() {
		return nil
	}
	return &scheduler.Viewer{Topics: t.Push}
}

// mayRead reports whether the caller may see what is in messages, and where tarry runs.
func mayRead(r *http.Request) bool {
	t := visitOf(r).token
	return t == nil || t.has(rightRead)
}

// permitted returns the message that a request may change. If the caller's rights are limited by topic, it looks the
// message up first, unless the request names the topic. The change is then bound to the topic that was judged, since a
// name may come to mean another message in between.
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
