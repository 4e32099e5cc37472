package ops

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// ByNATS is the caller's name in requests over NATS. They name no callers: NATS permissions decide who may call.
const ByNATS = scheduler.ByNATS

// Push converts a checked push into the scheduler's form. A uid means that the push is repeated because its outcome
// stayed unknown, and so does an id in the form of one. With an attempt, the id is the name of the message that a
// consumer sends back. The body is shared, not copied.
func Push(p *wire.Push, body []byte) *scheduler.Push {
	s := &scheduler.Push{
		ID: p.ID, Key: p.Key, Topic: p.Topic, Body: body,
		Priority: p.Priority, TTL: p.TTL, Attempt: uint32(p.Attempt), // wire bounds it
		Retry: message.Retry(p.Retry), Merge: merges[p.OnDuplicate], MaxWait: p.MaxWait,
		HasAt: p.HasAt, Delay: p.Delay, ByRetry: p.ByRetry(), Deliver: Delivers(p.Deliver), Lease: p.Lease,
	}
	if p.HasAt {
		s.At = message.CeilMilli(p.At)
	}
	s.UID = message.UID(p.UID)
	if message.IsUID(p.ID) && p.Attempt == 0 {
		s.UID, s.ID = message.UID(p.ID), ""
	}
	if p.Merges() && s.ID == "" { // merging pushes with equal content get the same name
		s.ID = message.ContentName(p.Topic, body)
	}
	s.Headers = headers(p.Headers)
	if p.Reason != "" { // delivered with the retry
		s.Headers = append(s.Headers, message.Header{Name: wire.HeaderReason, Value: p.Reason})
	}
	if p.ID != "" || p.Merges() {
		s.Options = p.Options()
	}
	return s
}

var merges = map[string]message.Merge{wire.Keep: message.MergeKeep, wire.Replace: message.MergeReplace,
	wire.Debounce: message.MergeDebounce}

// Delivers returns how a push or a topic's settings want messages to reach their consumers.
func Delivers(word string) scheduler.Deliver {
	return map[string]scheduler.Deliver{wire.MQ: scheduler.DeliverMQ, wire.PullWord: scheduler.DeliverPull}[word]
}

func headers(list []wire.Header) []message.Header {
	if len(list) == 0 {
		return nil
	}
	out := make([]message.Header, len(list), len(list)+1)
	for i, h := range list {
		out[i] = message.Header(h)
	}
	return out
}

// Ref returns a reference to the message that a caller names: by uid, or by its own id, alone or on a topic and within
// a key.
func Ref(n Named) (scheduler.Ref, error) {
	if n.Topic != "" {
		if err := wire.CheckSubject(n.Topic); err != nil {
			return scheduler.Ref{}, err
		}
	}
	if message.IsUID(n.ID) {
		return scheduler.Ref{UID: message.UID(n.ID), Topic: n.Topic}, nil
	}
	if err := wire.CheckID(n.ID); err != nil {
		return scheduler.Ref{}, err
	}
	ref := scheduler.Ref{ID: n.ID, Topic: n.Topic}
	if n.Key != nil {
		ref.Key, ref.Keyed = *n.Key, true
	}
	if ref.Key != "" {
		return ref, wire.CheckKey(ref.Key)
	}
	return ref, nil
}

// Accepted returns the answer to a push, or a problem if it was not stored. Duplicate and Merged in the answer say
// whether the push made a new message, which HTTP answers with 201, or none, answered with 200. durable is what an
// answer promises unless the journal refused the content; empty means Redis.
func Accepted(a scheduler.Accepted, durable string) Result {
	if a.Bare || durable == "" {
		durable = DurableRedis
	}
	r := Result{Answer: Answer{
		ID: a.ID, UID: string(a.UID), Due: int64(a.Due), State: a.State.String(), Version: a.Version,
		Durable: durable, Duplicate: a.Duplicate, Merged: a.Merged, NameUnchecked: a.Unjudged,
	}}
	if a.Err == nil {
		return r
	}
	p := ProblemOf(a.Err)
	switch p.Word {
	case WordOutcomeUnknown: // the id with which the caller repeats this push
		p.ID, p.UID = cmp.Or(a.ID, string(a.UID)), string(a.UID)
	case WordDuplicateID, WordMaybeDelivered:
		p.ID, p.UID = a.ID, string(a.UID)
		p.State, p.Due = a.State.String(), FormatTime(int64(a.Due))
	}
	r.Problem = &p
	return r
}

// InfoOf returns the answer to a look-up.
func InfoOf(i *message.Info) Info {
	w := Info{
		ID: name(i), UID: string(i.UID), Key: i.Key, Topic: i.Topic, State: i.State.String(), Version: i.Version,
		Due: FormatTime(int64(i.Due)), Priority: i.Priority, Attempt: i.Tries(),
		Uncertain: i.Mark.Uncertain, Refusals: i.Mark.Refusals, Parked: string(i.Mark.Lane), Why: i.Why,
		EndedAt: FormatTime(int64(i.EndedAt)), Kind: i.Kind.String(), Other: string(i.Other), Reason: i.Reason,
		Intake: intake(i.IntakeUnknown),
	}
	if i.Pull { // the mark counts its tries; NATS refused none
		w.Deliver, w.Refusals = wire.PullWord, 0
	}
	if !i.State.Ended() && i.State != message.StateInFlight {
		w.Attempt++ // the one that comes
	}
	w.LastTry = lastTry(i)
	if i.Held != nil {
		w.Consumer, w.LeasedAt = i.Held.Consumer, FormatTime(int64(i.Held.Since))
		w.LeaseUntil = FormatTime(int64(i.Held.Until))
	}
	if i.Bare {
		w.Durable = DurableRedis
	}
	if i.TTL > 0 {
		w.TTL = i.TTL.String()
	}
	w.Retry = wire.Retry(i.Retry).String()
	for _, h := range i.Headers {
		if w.Headers == nil {
			w.Headers = make(map[string][]string, len(i.Headers))
		}
		w.Headers[h.Name] = append(w.Headers[h.Name], h.Value)
	}
	if i.Body != nil {
		w.SetBody(i.Body)
	}
	return w
}

// lastTry returns how the last try of a message ended, while another is to come, or nil.
func lastTry(i *message.Info) *Try {
	if i.State.Ended() {
		return nil
	}
	if t := i.Mark.Try; t != (message.Try{}) {
		return &Try{At: FormatTime(int64(t.At)), By: t.Consumer, Outcome: strings.ToValidUTF8(t.How, "")}
	}
	for _, h := range i.Headers { // a consumer of NATS pushed it again, with its reason
		if h.Name == scheduler.ReasonHeader && i.Attempt > 1 {
			return &Try{At: wire.FormatAt(i.UID.Time()), Outcome: h.Value}
		}
	}
	return nil
}

func name(i *message.Info) string {
	return cmp.Or(i.ID, string(i.UID))
}

// Cancel returns the answer to a cancel of the message named id. Canceled means that this delivery will not happen;
// every other outcome is a problem that says what happened instead.
func Cancel(id string, r *scheduler.CancelResult) (Canceled, *Problem) {
	i := &r.Info
	refuse := func(word, detail string) *Problem { return conflict(id, i, word, detail) }
	maybe := func() *Problem {
		return refuse(WordMaybeDelivered,
			"an attempt with an unknown outcome may have reached a consumer; it is not tried again")
	}
	switch r.Code {
	case scheduler.CancelDone:
		return canceled(i), nil
	case scheduler.CancelInFlight:
		return Canceled{}, inFlight(id, i)
	case scheduler.CancelMaybe:
		return Canceled{}, maybe()
	case scheduler.CancelUnknown:
		p := unknown(id, i)
		p.Buried = r.Buried
		switch {
		case r.Buried:
			p.Detail += "; if its push is already in the intake, it will be accepted as canceled"
		case !message.IsUID(id):
			p.Detail += "; only a cancel with its topic is remembered, for a push of it that is still on its way"
		}
		return Canceled{}, &p
	}
	if i.State == message.StateCanceled { // it was canceled before
		if i.Mark.Uncertain {
			return Canceled{}, maybe()
		}
		return canceled(i), nil
	}
	return Canceled{}, ended(id, i)
}

// unknown returns the problem for an id that no message has.
func unknown(id string, i *message.Info) Problem {
	err := scheduler.ErrUnknownID
	if i.IntakeUnknown {
		err = scheduler.ErrInIntake
	}
	p := ProblemOf(err)
	p.ID = id
	return p
}

// conflict returns the problem for a change that the state of the message forbids.
func conflict(id string, i *message.Info, word, detail string) *Problem {
	return &Problem{
		Status: http.StatusConflict, Word: word, Detail: detail, ID: id, UID: string(i.UID), State: i.State.String(),
		Due: FormatTime(int64(i.Due)), At: FormatTime(int64(i.EndedAt)), Intake: intake(i.IntakeUnknown),
	}
}

// intake returns what is known of the pushes that the intake may hold.
func intake(unknown bool) string {
	if unknown {
		return IntakeUnknown
	}
	return ""
}

func inFlight(id string, i *message.Info) *Problem {
	return conflict(id, i, "in_flight", "the message is being delivered now; ask again in a moment")
}

// ended returns the problem for a message that has ended, with how and when it ended.
func ended(id string, i *message.Info) *Problem {
	if i.State == message.StateDelivered {
		return conflict(id, i, "already_delivered", "the message was delivered at "+FormatTime(int64(i.EndedAt)))
	}
	detail := fmt.Sprintf("the message ended as %s at %s", i.State, FormatTime(int64(i.EndedAt)))
	if i.Reason != "" {
		detail += " (" + i.Reason + ")"
	}
	if i.Mark.Uncertain {
		detail += "; an attempt before that may have reached a consumer"
	}
	return conflict(id, i, "already_"+i.State.String(), detail)
}

func canceled(i *message.Info) Canceled {
	return Canceled{
		ID: name(i), UID: string(i.UID), State: message.StateCanceled.String(), Topic: i.Topic,
		Due: FormatTime(int64(i.Due)), At: FormatTime(int64(i.EndedAt)), Version: i.Version,
		Attempt: i.Tries(), Intake: intake(i.IntakeUnknown),
	}
}

// Limits are the maximum sizes of a message that an API accepts, in bytes; 0 is no limit. They also apply to a message
// that was partly changed: it must not become a message that could not have been pushed.
type Limits struct {
	Content int   // body and user headers together
	Payload int64 // the complete delivered message, as max_payload of NATS counts
}

// Fits refuses a message that is too large, or whose headers do not fit its body, with the word that a push would get.
func (l Limits) Fits(m *message.Message) error {
	p := wire.Push{ID: m.ID, Key: m.Key, Topic: m.Topic, Retry: wire.Retry(m.Retry),
		Headers: make([]wire.Header, len(m.Headers))}
	for i, h := range m.Headers {
		p.Headers[i] = wire.Header(h)
	}
	if err := p.CheckStatus(len(m.Body)); err != nil {
		return err
	}
	return l.Check(&p, len(m.Body))
}

// Check refuses a push with a body of so many bytes that is too large.
func (l Limits) Check(p *wire.Push, body int) error {
	if l.Content > 0 {
		if err := p.CheckLimit(body, l.Content); err != nil {
			return err
		}
	}
	return p.CheckSize(body, l.Payload)
}

// The errors of orders about rejects.
var (
	// ErrNoRejects reports that there is no JetStream, hence neither an intake nor rejects.
	ErrNoRejects = errors.New("nats runs without jetstream: pushes by tag are not kept there, and none can be rejected")
	// ErrUnknownReject reports that no rejected push has this sequence: it was requeued, or the limits of the stream of
	// rejects removed it.
	ErrUnknownReject = errors.New("no rejected push has this sequence")
	// ErrIncompleteReject reports that the reject lacks a part of the original message.
	ErrIncompleteReject = errors.New("the reject lacks a part of what was sent")
)

// RejectQuery selects rejects.
type RejectQuery struct {
	Topic string // a pattern; empty: all
	ID    string // as the push named it; empty: all
	Word  string // of the problem; empty: all
	From  uint64 // the lowest sequence
	Limit int
	// See reports whether the caller may see the messages of a topic; nil: of every topic.
	See func(topic string) bool
}

// Selects reports whether the query selects a reject.
func (q *RejectQuery) Selects(r *Rejected) bool {
	return (q.Topic == "" || scheduler.Matches(q.Topic, r.Topic)) &&
		(q.ID == "" || q.ID == r.ID) &&
		(q.Word == "" || q.Word == r.Word) &&
		(q.See == nil || q.See(r.Topic))
}
