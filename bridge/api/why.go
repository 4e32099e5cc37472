package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	// whyTime bounds one answer, whyMost what it reads of each place, and whyShown what it shows.
	whyTime  = 2 * time.Second
	whyMost  = 10_000
	whyShown = 100
)

// whyList answers where the messages of an id, a topic or a key are, and why, and how far it looked. A place that does
// not answer does not keep the others from being told.
func (s *Server) whyList(w http.ResponseWriter, r *http.Request) error {
	q := wire.WhyQuery{Prefix: s.cfg.Prefix, Most: whyMost}
	values, err := query(r, "id", "topic", "key")
	p := params{values, err}
	p.read("id", func(text string) error { q.ID = text; return wire.CheckID(text) })
	p.read("topic", func(text string) error { q.Topic = text; return wire.CheckOneTopic(text) })
	p.read("key", func(text string) error { q.Key = text; return wire.CheckKey(text) })
	if p.err == nil && q.ID+q.Topic+q.Key == "" {
		p.err = refusal(http.StatusBadRequest, WordQuery, "one of id, topic and key is needed")
	}
	if p.err != nil {
		return p.err
	}
	ctx, stop := context.WithTimeout(r.Context(), min(whyTime, s.cfg.Timeout))
	defer stop()
	select { // it makes many calls, so few are answered at a time
	case s.whys <- struct{}{}:
		defer func() { <-s.whys }()
	case <-ctx.Done():
	}
	a := wire.WhyList{Messages: []wire.Info{}}
	known := map[message.UID]bool{}
	tell := func(i *message.Info) {
		if !known[i.UID] {
			known[i.UID] = true
			i.Headers, i.Body = nil, nil
			a.Messages = append(a.Messages, answer.Info(i))
		}
	}
	a.Looked = append(a.Looked, s.whyStore(ctx, &q, tell))
	if s.cfg.Journal != nil {
		a.Looked = append(a.Looked, s.whyJournal(ctx, &q, known, tell))
	}
	if s.cfg.Rejects != nil {
		a.Looked = append(a.Looked, s.whyRejects(ctx, &q, &a.Pushes))
	}
	// The intake may take all the time that is left.
	if s.cfg.Intake != nil {
		pushes, looked := s.cfg.Intake.Look(ctx, q)
		a.Pushes, a.Looked = append(a.Pushes, pushes...), append(a.Looked, looked...)
	}
	return s.respondValue(w, http.StatusOK, a)
}

// whyStore tells the messages that the store has.
func (s *Server) whyStore(ctx context.Context, q *wire.WhyQuery, tell func(*message.Info)) wire.WhyPlace {
	p := wire.WhyPlace{Place: "store", Read: 1, Whole: true}
	var uids []message.UID
	var err error
	if q.ID == "" {
		uids, p.Read, p.Whole, err = s.cfg.Service.Held(ctx, q.Topic, q.Key, whyShown, whyMost)
	} else if ref, bad := answer.Ref(wire.Named{ID: q.ID, Topic: q.Topic, Key: q.Key, Keyed: q.Key != ""}); bad == nil {
		var info message.Info
		info, err = s.cfg.Service.Get(ctx, ref)
		if several := (*scheduler.AmbiguousError)(nil); errors.As(err, &several) {
			for i := range several.Candidates {
				uids = append(uids, several.Candidates[i].UID)
			}
			err = nil
		} else if err == nil {
			tell(&info)
		}
	}
	for _, uid := range uids {
		info, failed := s.cfg.Service.Get(ctx, scheduler.Ref{UID: uid})
		if failed == nil {
			tell(&info)
		} else if err == nil && !errors.Is(failed, scheduler.ErrUnknownID) { // else it has ended meanwhile
			err = failed
		}
	}
	if err != nil && !errors.Is(err, scheduler.ErrUnknownID) && !errors.Is(err, scheduler.ErrRejected) {
		p.Whole, p.Error = false, answer.Problem(err).Detail
	}
	return p
}

// whyJournal tells the messages that the journal has beyond those: ended ones of an id or a key, and live ones that the
// store lacks.
func (s *Server) whyJournal(ctx context.Context, q *wire.WhyQuery, known map[message.UID]bool,
	tell func(*message.Info)) wire.WhyPlace {
	p := wire.WhyPlace{Place: "journal"}
	list := record.RecordQuery{ID: q.ID, Topic: q.Topic, Key: q.Key, Limit: whyShown, Latest: true}
	if message.IsUID(q.ID) {
		list.ID = ""
	}
	if q.ID+q.Key == "" {
		list.States = []message.State{message.StateWaiting, message.StateDead}
	}
	records, err := s.cfg.Journal.List(ctx, list)
	if message.IsUID(q.ID) {
		records = nil // the store asked the journal for it
	}
	for i := range records {
		info := &records[i].Info
		if known[info.UID] {
			continue
		}
		if info.State.Ended() {
			info.Why = info.WhyEnded()
		} else if now, err := s.cfg.Service.Get(ctx, scheduler.Ref{UID: info.UID}); err == nil {
			info = &now
		} else if info.Why.Detail = "it is not known where it is"; errors.Is(err, scheduler.ErrUnknownID) {
			info.Why = message.Why{Word: message.WhyMissing,
				Detail: "the journal has it, and the store has not: see tarry verify"}
		}
		tell(info)
	}
	if p.Read, p.Whole = len(records), err == nil && len(records) < whyShown; err != nil {
		p.Error = answer.Problem(err).Detail
	}
	return p
}

// whyRejects adds the pushes that were refused although NATS had acknowledged them.
func (s *Server) whyRejects(ctx context.Context, q *wire.WhyQuery, pushes *[]wire.WhyPush) wire.WhyPlace {
	rejects, next, err := s.cfg.Rejects.List(ctx, answer.RejectQuery{ID: q.ID, Topic: q.Topic, Limit: whyShown})
	p := wire.WhyPlace{Place: "rejects", Read: len(rejects), Whole: err == nil && next == 0}
	if err != nil && !errors.Is(err, answer.ErrNoRejects) {
		p.Error = answer.Problem(err).Detail
	}
	for i := range rejects {
		if one := &rejects[i]; q.Key == "" || q.Key == one.Key {
			*pushes = append(*pushes, wire.WhyPush{ID: one.ID, Key: one.Key, Topic: one.Topic, At: one.At,
				Why: &wire.Why{Word: string(message.WhyRejected), Detail: cmp.Or(one.Detail, one.Word), Since: one.At}})
		}
	}
	return p
}
