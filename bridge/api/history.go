package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// history answers with the last changes of a message, by version, and of every other message of its name.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	var lives []record.Life
	var rejects []scheduler.Rejected
	err = s.ask(r, "journal", func(ctx context.Context) (err error) {
		if lives, err = s.cfg.Journal.History(ctx, ref); err == nil && ref.ID != "" {
			rejects, err = s.cfg.Journal.Rejects(ctx, ref, record.MaxLives)
		}
		return err
	})
	if err != nil {
		return err
	}
	whole := mayRead(r)
	one := lives[0]
	a := wire.History{ID: one.ID, UID: string(one.UID), History: changeAnswers(one.Changes, whole), Earlier: one.Earlier}
	if a.ID == "" {
		a.ID = a.UID
	}
	if a.More = len(lives) > record.MaxLives; a.More {
		lives = lives[:record.MaxLives]
	}
	for _, l := range lives[1:] {
		a.Others = append(a.Others, wire.Life{
			UID: string(l.UID), State: l.State.String(), Due: wire.FormatTime(int64(l.Due)), Kind: l.Kind.String(),
			Other: string(l.Other), Reason: l.Reason,
			History: changeAnswers(l.Changes, whole), Earlier: l.Earlier,
		})
	}
	a.Rejected = rejected(rejects)
	return s.respondValue(w, http.StatusOK, a)
}

// rejected returns rejected pushes as the caller sees them.
func rejected(rejects []scheduler.Rejected) (all []wire.RejectedPush) {
	for i := range rejects {
		r := &rejects[i]
		all = append(all, wire.RejectedPush{UID: string(r.UID), Topic: r.Topic, At: wire.FormatTime(int64(r.At)),
			Reason: r.Reason, Size: r.Size})
	}
	return all
}

// changeAnswers returns changes as the caller may see them. A caller that may only push sees the outcome of its message
// and the time, but not where tarry runs, nor who else changed it.
func changeAnswers(changes []record.Change, whole bool) []wire.Change {
	all := make([]wire.Change, len(changes))
	for i := range changes {
		c := &changes[i]
		all[i] = wire.Change{
			Version: c.Version, State: c.State.String(), At: wire.FormatTime(int64(c.At)),
			Due: wire.FormatTime(int64(c.Due)), Bucket: int(c.Bucket),
			Attempt: c.Attempt, Claimed: wire.FormatTime(int64(c.Claimed)), Kind: c.Kind.String(),
			Other: string(c.Other),
		}
		all[i].Reason, _, _ = strings.Cut(c.Reason, "; content ") // a digest could confirm a guess
		if whole {
			all[i].Reason = c.Reason
			all[i].Instance, all[i].Address, all[i].Term, all[i].By = c.Instance, c.Address, c.Term, c.By
			all[i].Stream, all[i].Sequence = c.Stream, c.Sequence
		}
	}
	return all
}
