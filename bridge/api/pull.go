package api

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// stillPulls refuses a poll that began under tokens that have changed.
func (s *Server) stillPulls(r *http.Request, topics ...string) error {
	t := CallerOf(r).Token
	if t == nil && !s.guard.shut.Load() {
		return nil
	}
	if t != nil {
		t = s.guard.find(&t.Hash)
	}
	switch {
	case t == nil:
		return ops.Refuse(http.StatusUnauthorized, WordUnauthorized, "the token that began this poll is not valid any more")
	case slices.ContainsFunc(topics, func(topic string) bool { return !t.Pulls(topic) }):
		return ops.Lacks("pull", " on this topic")
	}
	return nil
}

// answerPull leases ready messages, or waits for some. No time-out of the server cuts the wait; the answer has one of
// its own. What cannot be written, because its client has gone, is given back at once.
func (s *Server) answerPull(w http.ResponseWriter, r *http.Request, poll *scheduler.Poll) error {
	_, err := s.HandOut(w, r, *poll, func(found []scheduler.PulledMessage) error {
		now := message.CeilMilli(s.cfg.Now())
		messages := make([]ops.Pulled, len(found))
		for i := range found {
			messages[i] = ops.PulledOf(&found[i], now)
		}
		s.Respond(w, http.StatusOK, func(b []byte) []byte { return ops.AppendPulled(b, messages) })
		return nil
	})
	return err
}

// answersAtOnce is how many bytes polls may hold together. A quarter, for one caller, has room for the repeat of a poll
// whose answer is still being written to nobody.
const answersAtOnce = 8 * ops.MaxPullBytes

// HandOut answers a request with what a poll gets, and returns what was written whole, as far as this side can tell.
// It gives back what it could not write whole. A client that reads its answer and closes the connection looks like one
// that has gone: what it got stays leased, and it may settle that.
func (s *Server) HandOut(w http.ResponseWriter, r *http.Request, poll scheduler.Poll,
	write func([]scheduler.PulledMessage) error) ([]scheduler.PulledMessage, error) {
	ctx, stop := s.unhurried(w, r)
	defer stop(nil)
	by, held := s.holder(r, CallerOf(r).Token), new(atomic.Int64)
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
