package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Pulling is the part of the scheduler that serves consumers that pull.
type Pulling interface {
	// Pull leases ready messages, or waits for some.
	Pull(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error)
	// GiveBack undoes the leases of messages that cannot be handed out.
	GiveBack(ctx context.Context, found []scheduler.PulledMessage)
	// Settle settles leases, each with an outcome or an error.
	Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error)
	// SettleHeld settles the lease in force of a message. Errors: ErrUnknownID, ErrNotLeased.
	SettleHeld(ctx context.Context, ref scheduler.Ref, verb scheduler.Verb) (scheduler.Settled, error)
	// LeaseOf returns the lease in force of a message. Errors: ErrUnknownID, ErrNotLeased.
	LeaseOf(ctx context.Context, ref scheduler.Ref) (scheduler.LeaseInfo, error)
	// Release frees a leased message on behalf of an operator. Error: ErrNotLeased.
	Release(ctx context.Context, ref scheduler.Ref, reason string) (message.Info, error)
	// View completes messages of the journal: which are ready, and who holds those that are leased.
	View(ctx context.Context, infos ...*message.Info) error
	// PullCounts counts the messages for pull of topics: the leased ones, and those due within each of the times.
	PullCounts(ctx context.Context, topics []string, within []time.Duration) ([]scheduler.PullCount, error)
	// LeasesOf lists a page of the leases of a topic.
	LeasesOf(ctx context.Context, topic, after string, limit int) ([]scheduler.LeaseInfo, string, error)
}

func (s *Server) pullRoutes(closed func(pattern string, needs right, h handler)) {
	closed("POST /v1/topics/{topic}/pull", rightPull, plain(s.pull))
	closed("POST /v1/pull", rightPull, plain(s.pullAny))
	closed("GET /v1/topics/{topic}/leases", rightRead, s.leases)
	closed("POST /v1/messages/{id}/release", rightOperate, s.release)
	for _, verb := range ops.Verbs() {
		for path, many := range map[string]bool{"/v1/leases/{receipt}/": false, "/v1/leases/": true} {
			closed("POST "+path+verb, rightPull,
				plain(func(w http.ResponseWriter, r *http.Request) error { return s.settle(w, r, verb, many) }))
		}
	}
}

// mayPull refuses a topic that the caller may not pull from.
func mayPull(r *http.Request, topic string) error {
	if t := visitOf(r).token; t != nil && !t.pulls(topic) {
		return lacks("pull", " on this topic")
	}
	return nil
}

// stillPulls refuses a poll that began under tokens that have changed.
func (s *Server) stillPulls(r *http.Request, topics ...string) error {
	t := visitOf(r).token
	if t == nil && !s.guard.shut.Load() {
		return nil
	}
	if t != nil {
		t = s.guard.find(&t.Hash)
	}
	switch {
	case t == nil:
		return refusal(http.StatusUnauthorized, WordUnauthorized, "the token that began this poll is not valid any more")
	case slices.ContainsFunc(topics, func(topic string) bool { return !t.pulls(topic) }):
		return lacks("pull", " on this topic")
	}
	return nil
}

// pull leases ready messages of a topic, or waits for some. No time-out of the server cuts the wait; the answer has one
// of its own. What cannot be written, because its client has gone, is given back at once.
func (s *Server) pull(w http.ResponseWriter, r *http.Request) error {
	topic := r.PathValue("topic")
	if err := wire.CheckOneTopic(topic); err != nil {
		return err
	}
	asked, err := decoded(s, w, r, ops.DecodePull)
	if err == nil {
		err = mayPull(r, topic)
	}
	if err != nil {
		return err
	}
	return s.answerPull(w, r, &asked, scheduler.Poll{Topic: topic}, topic)
}

// pullAny is pull for several topics.
func (s *Server) pullAny(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodePullAny)
	for _, topic := range asked.Topics {
		err = cmp.Or(err, mayPull(r, topic))
	}
	if err != nil {
		return err
	}
	of := strings.Join(slices.Sorted(slices.Values(asked.Topics)), " ") // no topic has a blank
	return s.answerPull(w, r, &asked, scheduler.Poll{Topics: asked.Topics}, of)
}

func (s *Server) answerPull(w http.ResponseWriter, r *http.Request, asked *ops.Pull, poll scheduler.Poll,
	of string) error {
	poll.Max, poll.Bytes, poll.Lease = asked.Max, asked.MaxBytes, asked.Lease
	poll.Consumer, poll.Wait = asked.Consumer, asked.Wait
	if asked.Attempt != "" {
		poll.Attempt = attemptNonce(scheduler.Caller(r.Context()), of, asked.Attempt)
		poll.Sending = asked.Sending
	}
	_, err := s.handOut(w, r, poll, func(found []scheduler.PulledMessage) error {
		now := message.CeilMilli(s.cfg.Now())
		messages := make([]ops.Pulled, len(found))
		for i := range found {
			messages[i] = ops.PulledOf(&found[i], now)
		}
		s.respond(w, http.StatusOK, func(b []byte) []byte { return ops.AppendPulled(b, messages) })
		return nil
	})
	return err
}

// answersAtOnce is how many bytes polls may hold together. A quarter, for one caller, has room for the repeat of a poll
// whose answer is still being written to nobody.
const answersAtOnce = 8 * ops.MaxPullBytes

// handOut answers a request with what a poll gets, and returns what was written whole, as far as this side can tell.
// It gives back what it could not write whole. A client that reads its answer and closes the connection looks like one
// that has gone: what it got stays leased, and it may settle that.
func (s *Server) handOut(w http.ResponseWriter, r *http.Request, poll scheduler.Poll,
	write func([]scheduler.PulledMessage) error) ([]scheduler.PulledMessage, error) {
	ctx, stop := s.unhurried(w, r)
	defer stop(nil)
	by, held := s.holder(r, visitOf(r).token), new(atomic.Int64)
	poll.Room = func(bytes int) int {
		held.Add(int64(bytes))
		return int(s.answering.hold(by, int64(bytes), answersAtOnce, answersAtOnce/holderShare))
	}
	defer func() { s.answering.give(by, held.Load()) }()
	var revoked atomic.Pointer[error]
	changed := func() {
		if err := s.stillPulls(r, poll.Names()...); err != nil {
			revoked.Store(&err)
			stop(scheduler.ErrStopping)
		}
	}
	defer s.guard.watch(changed)()
	changed() // while the body came
	found, err := s.cfg.Service.Pull(ctx, poll)
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.cfg.Timeout))
	if why := revoked.Load(); why != nil && err == nil { // nobody may repeat it either
		s.cfg.Service.GiveBack(r.Context(), found)
		err = *why
	}
	if err != nil {
		return nil, err
	}
	if r.Context().Err() == nil {
		if err = write(found); err == nil && control.Flush() == nil {
			if r.Context().Err() == nil {
				return found, nil
			}
			return nil, nil
		}
		if poll.Attempt != 0 { // it may be there whole, and else its client asks again
			return nil, err
		}
	}
	s.cfg.Service.GiveBack(r.Context(), found)
	return nil, err
}

// attemptNonce returns the nonce of a poll that its client may repeat. To ask for it takes the token and the caller's
// name.
func attemptNonce(caller, topic, token string) scheduler.Nonce {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", caller, topic, token))
	return max(scheduler.Nonce(binary.BigEndian.Uint64(sum[:])), 1)
}

// leases lists the leased messages of a topic, by the end of their leases, without headers and bodies.
func (s *Server) leases(w http.ResponseWriter, r *http.Request) error {
	topic, after, limit := r.PathValue("topic"), "", defaultList
	values, err := query(r, "limit", "cursor")
	p := params{values, cmp.Or(err, wire.CheckOneTopic(topic))}
	p.read("limit", func(text string) (err error) { limit, err = pageLimit(text); return err })
	p.read("cursor", func(text string) (err error) { after, err = openCursor(listLeases, topic, text); return err })
	if p.err != nil {
		return p.err
	}
	a := ops.MessageList{Messages: []ops.Info{}}
	return s.show(w, r, "store", &a, func(ctx context.Context) error {
		all, next, err := s.cfg.Service.LeasesOf(ctx, topic, after, limit)
		for i := range all {
			all[i].Message.Held = &all[i].Holding
			a.Messages = append(a.Messages, ops.InfoOf(&all[i].Message))
		}
		if next != "" {
			a.Cursor = sealCursor(listLeases, topic, next)
		}
		return err
	})
}

// release frees a message that a consumer holds, and answers with the message as it is now and who held it.
func (s *Server) release(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	asked, err := decoded(s, w, r, func(body []byte) (ops.Settlement, error) {
		return ops.DecodeSettlement(body, ops.VerbDead, false) // it has a reason alone
	})
	if err != nil {
		return err
	}
	s.audit(r, "release", false).Str("id", r.PathValue("id"))
	return s.done(w, r, func(ctx context.Context) (any, error) {
		ref, err := s.permitted(ctx, r, ref)
		if err != nil {
			return nil, err
		}
		info, err := s.cfg.Service.Release(ctx, ref, asked.Reason)
		info.Headers, info.Body = nil, nil
		return ops.InfoOf(&info), err
	})
}

// settle settles the lease of one receipt, or of many, each with an outcome of its own.
func (s *Server) settle(w http.ResponseWriter, r *http.Request, verb string, many bool) error {
	asked, err := decoded(s, w, r, func(body []byte) (ops.Settlement, error) {
		return ops.DecodeSettlement(body, verb, many)
	})
	if err != nil {
		return err
	}
	if !many {
		asked.Receipts = []string{r.PathValue("receipt")}
	}
	done := s.settled(r, verb, &asked)
	if !many {
		if refused, ok := done[0].(*problem); ok {
			return refused
		}
		return s.respondValue(w, http.StatusOK, done[0])
	}
	a := ops.SettledMany{Results: done}
	for i := range done {
		if refused, ok := done[i].(*problem); ok {
			a.Failed++
			a.Results[i] = &refused.Problem
		}
	}
	return s.respondValue(w, http.StatusOK, a)
}

// settled settles leases, and returns a ops.Settled or a problem for each receipt.
func (s *Server) settled(r *http.Request, verb string, asked *ops.Settlement) []any {
	var (
		done   = make([]any, len(asked.Receipts))
		orders []scheduler.Settlement
		places []int // of orders among the receipts
	)
	for i, text := range asked.Receipts {
		receipt, err := ops.ParseReceipt(text)
		if err == nil {
			err = mayPull(r, receipt.Topic)
		}
		if err != nil {
			done[i] = s.judged(r, err)
			continue
		}
		orders, places = append(orders, ops.SettlementOf(verb, receipt, asked)), append(places, i)
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	results, errs := s.cfg.Service.Settle(ctx, orders)
	for at, i := range places {
		if errs[at] != nil {
			done[i] = s.judged(r, errs[at])
			continue
		}
		a, refused := ops.SettledOf(string(orders[at].UID), &results[at])
		if done[i] = a; refused != nil {
			done[i] = &problem{*refused}
		}
	}
	return done
}
