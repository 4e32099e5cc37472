package ops

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Token is a caller, known by the hash of its token. Operate includes read.
type Token struct {
	Name string // for the log
	Hash [sha256.Size]byte
	// Push are the topics, as patterns, that the token may push to. It may cancel, reschedule and run single messages
	// that wait for them. Pull are the topics that it may pull from.
	Push, Pull    []string
	Read, Operate bool
	// Blind hides headers and bodies from the rights to read and to operate, and lets neither change them.
	Blind bool
}

// Right is the right that an operation requires.
type Right uint8

const (
	// RightNone requires only a known token.
	RightNone Right = iota
	// RightRead allows reading messages, topics and the cluster.
	RightRead
	// RightPush requires the right to push to some topic. The operation checks the topic, see MayPush.
	RightPush
	// RightChange requires the right to push to some topic, or to operate. The operation checks the message's topic, see
	// Permitted.
	RightChange
	// RightLook requires the right to push to some topic, or to read. The operation shows only the topics that the caller
	// may push to, see sight.
	RightLook
	// RightRequeue allows pushing refused pushes again: it is RightChange, with a log line as for RightOperate.
	RightRequeue
	// RightOperate allows the operators' actions.
	RightOperate
	// RightPull requires the right to pull from some topic. The operation checks the topic, see MayPull.
	RightPull
)

var rightWords = [...]string{"none", "read", "push", "push or operate", "read or push", "push or operate", "operate",
	"pull"}

func (r Right) String() string { return rightWords[r] }

// Audited reports whether every request that needs the right is logged, see Audit.
func (r Right) Audited() bool { return r == RightOperate || r == RightRequeue }

// Has reports whether a token has a right for any topic.
func (t *Token) Has(r Right) bool {
	switch r {
	case RightRead:
		return t.Read || t.Operate
	case RightPush:
		return len(t.Push) > 0
	case RightLook:
		return len(t.Push) > 0 || t.Has(RightRead)
	case RightChange, RightRequeue:
		return len(t.Push) > 0 || t.Operate
	case RightOperate:
		return t.Operate
	case RightPull:
		return len(t.Pull) > 0
	}
	return r == RightNone
}

// pushes reports whether the token may push to a topic.
func (t *Token) pushes(topic string) bool {
	return slices.ContainsFunc(t.Push, func(pattern string) bool { return scheduler.Matches(pattern, topic) })
}

// Pulls reports whether the token may pull from a topic.
func (t *Token) Pulls(topic string) bool {
	return slices.ContainsFunc(t.Pull, func(pattern string) bool { return scheduler.Matches(pattern, topic) })
}

// everywhere reports whether the token may push to every topic.
func (t *Token) everywhere() bool { return slices.Contains(t.Push, ">") }

// Caller makes one request.
type Caller struct {
	Token   *Token // nil: it may do everything
	Address string // for the log, and for the record of a pause where there is no token
	Route   string // of the operation, for the log
	// Long begins an operation that takes as long as it needs: it returns the context of the work, what is told how far it
	// has come, or nil, and what ends it. If Long is nil, the context stays.
	Long   func(ctx context.Context) (work context.Context, progress func(report any), end func())
	Holder string // whose bodies those are that the request holds, see Config.Hold
	// Version is set by an operation on one message: the version that the message has.
	Version uint64

	audit Audit
}

// Lacks returns the error for a caller without a right.
func Lacks(right, detail string) error {
	return Refuse(http.StatusForbidden, WordForbidden, "this needs the right %s%s, which the token does not have",
		right, detail)
}

// Name returns the caller's name for logs.
func (by *Caller) Name() string {
	if by.Token == nil {
		return "anonymous"
	}
	return by.Token.Name
}

// who returns the caller as a pause records it: its name, or else its address.
func (by *Caller) who() string {
	if by.Token != nil {
		return by.Token.Name
	}
	host, _, err := net.SplitHostPort(by.Address)
	if err != nil {
		return by.Address
	}
	return host
}

// MayPush refuses a push to a topic that the caller may not push to.
func (by *Caller) MayPush(topic string) error {
	if by.Token != nil && !by.Token.pushes(topic) {
		return Lacks("push", fmt.Sprintf(" on the topic %.300q", topic))
	}
	return nil
}

// MayPull refuses a topic that the caller may not pull from.
func (by *Caller) MayPull(topic string) error {
	if by.Token != nil && !by.Token.Pulls(topic) {
		return Lacks("pull", " on this topic")
	}
	return nil
}

// mayChange refuses a change of a message on a topic that the caller may not push to.
func (by *Caller) mayChange(topic string) error {
	if t := by.Token; t != nil && !t.Operate && !t.pushes(topic) {
		return Lacks("push on the message's topic, or operate", "")
	}
	return nil
}

// limited reports whether what the caller may change depends on the topic.
func (by *Caller) limited() bool {
	return by.Token != nil && !by.Token.Operate && !by.Token.everywhere()
}

// MayRead reports whether the caller may see messages of all topics, and where tarry runs.
func (by *Caller) MayRead() bool { return by.Token == nil || by.Token.Has(RightRead) }

// MaySee reports whether the caller may see headers and bodies of messages.
func (by *Caller) MaySee() bool { return by.MayRead() && (by.Token == nil || !by.Token.Blind) }

// mayEdit refuses a change of headers or a body by a caller who may not see them.
func (by *Caller) mayEdit(headers, body bool) error {
	if by.Token != nil && by.Token.Blind && (headers || body) {
		return Lacks("to see bodies", "")
	}
	return nil
}

// Viewer returns the caller, or nil if it may see every message. The rights to read and to operate cover all topics;
// the right to push lets the caller see only the topics that it covers.
func (by *Caller) Viewer() *scheduler.Viewer {
	if by.MayRead() || by.Token.everywhere() {
		return nil
	}
	return &scheduler.Viewer{Topics: by.Token.Push}
}

// sight returns the filter of the topics that the caller may see, nil for all topics.
func (by *Caller) sight() func(topic string) bool {
	if by.MayRead() {
		return nil
	}
	return by.Token.pushes
}

// Permitted returns the message that a request may change. If the caller's rights are limited by topic, it looks the
// message up first, unless the request names the topic. The change is then bound to the topic that was checked, since
// in between the name may pass to another message.
func (o *Ops) Permitted(ctx context.Context, by *Caller, ref scheduler.Ref) (scheduler.Ref, error) {
	switch {
	case !by.limited():
		return ref, nil
	case ref.UID == "" && ref.Topic != "":
		return ref, by.mayChange(ref.Topic)
	}
	info, err := o.Service.Resolve(ctx, ref)
	if err == nil {
		err = by.mayChange(info.Topic)
	}
	if err != nil {
		return scheduler.Ref{}, err
	}
	if ref.Topic = info.Topic; ref.UID == "" {
		ref.Key, ref.Keyed = info.Key, true
	}
	return ref, nil
}

// Audit collects an operator's action for the log: one line for each request with a known token to an operation whose
// right is audited, regardless of the outcome. The line is written after the answer, since it holds the outcome. It
// contains the parameters and, for an operation on many messages, the number of changed messages, but never a body.
type Audit struct {
	record.Action
	by    *Caller
	begun bool
}

// Audit names the operation that a request asks for. Parameters added to the result appear in the line.
func (by *Caller) Audit(what string, dry bool) *Audit {
	by.audit.by, by.audit.What, by.audit.DryRun, by.audit.On = by, what, dry, map[string]any{}
	return &by.audit
}

// Refused notes the word that a request is answered with.
func (by *Caller) Refused(word string) { by.audit.Problem = word }

func (a *Audit) with(name string, value any) *Audit {
	a.On[name] = value
	return a
}

// Str adds a parameter.
func (a *Audit) Str(name, value string) *Audit { return a.with(name, value) }

// Int adds a parameter.
func (a *Audit) Int(name string, value int) *Audit { return a.with(name, value) }

// Bool adds a parameter.
func (a *Audit) Bool(name string, value bool) *Audit { return a.with(name, value) }

// time adds a bound, unless there is none.
func (a *Audit) time(name string, ms int64) {
	if ms != 0 {
		a.Str(name, FormatTime(ms))
	}
}

// actWithin bounds the record of an action, which it must not hold up.
const actWithin = time.Second

// Begin records an action before it is done. The journal then has it even if this instance dies meanwhile. An action is
// done also if the journal does not answer: the log has it.
func (o *Ops) Begin(ctx context.Context, a *Audit) {
	a.ID, a.At, a.begun = rand.Text(), message.Milli(o.Now().UnixMilli()), true
	o.act(ctx, a)
}

func (o *Ops) act(ctx context.Context, a *Audit) {
	one := a.Action
	one.Who, one.From, one.Instance = a.by.Name(), a.by.Address, o.Instance
	if one.On = maps.Clone(one.On); one.On == nil {
		one.On = map[string]any{}
	}
	if o.Act != nil {
		o.Act(one)
	}
	if o.Journal != nil && a.begun {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), actWithin)
		defer stop()
		o.Journal.Act(ctx, &one)
	}
}

// Acted writes the line of an operator's action, and keeps the action for those who ask what was done.
func (o *Ops) Acted(ctx context.Context, by *Caller, status int, took time.Duration) {
	a := &by.audit
	line := o.Log.Info().Str("who", by.Name()).Str("remote", by.Address).Str("route", by.Route)
	if a.What != "" {
		line.Str("operation", a.What).Bool("dry_run", a.DryRun)
	}
	for _, name := range slices.Sorted(maps.Keys(a.On)) {
		line.Any(name, a.On[name])
	}
	if a.Problem != "" {
		line.Str("problem", a.Problem)
	}
	line.Int("status", status).Dur("took", took).Msg("operator action")
	if !a.begun { // refused before it was understood, which only this instance keeps
		a.by, a.ID, a.At, a.What = by, rand.Text(), message.Milli(o.Now().UnixMilli()), cmp.Or(a.What, by.Route)
	}
	a.Ended, a.TookMS = true, took.Milliseconds()
	o.act(ctx, a)
}

// Ref returns the message that a request names, which it never is if the caller may not see it.
func (by *Caller) Ref(n *Named) (scheduler.Ref, error) {
	ref, err := Ref(*n)
	ref.Viewer = by.Viewer()
	return ref, err
}
