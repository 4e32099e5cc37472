package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// history answers with the last changes of a message, by version, and of every other message of its name.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	var a wire.History
	return s.show(w, r, "journal", &a, func(ctx context.Context) error {
		lives, err := s.cfg.Journal.History(ctx, ref)
		if err != nil {
			return err
		}
		if a.More = len(lives) > record.MaxLives; a.More {
			lives = lives[:record.MaxLives]
		}
		for i := range lives {
			l := &lives[i]
			one := wire.Life{UID: string(l.UID), State: l.State.String(), Due: wire.FormatTime(int64(l.Due)),
				Kind: l.Kind.String(), Other: string(l.Other), Reason: l.Reason,
				History: changeAnswers(l, mayRead(r), message.CeilMilli(s.cfg.Now())), Earlier: l.Earlier}
			if i > 0 {
				a.Others = append(a.Others, one)
				continue
			}
			a.ID, a.UID, a.History, a.Earlier = cmp.Or(l.ID, one.UID), one.UID, one.History, one.Earlier
		}
		if ref.ID == "" {
			return nil
		}
		rejects, err := s.cfg.Journal.Rejects(ctx, ref, record.MaxLives)
		a.Rejected = rejected(rejects)
		return err
	})
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
// and the time, but not where tarry runs, nor who else changed it. That a message which consumers pull became ready is
// no change: it shows between those before and after.
func changeAnswers(l *record.Life, whole bool, now message.Milli) []wire.Change {
	all := make([]wire.Change, 0, len(l.Changes))
	for i := range l.Changes {
		c := &l.Changes[i]
		one := wire.Change{
			Version: c.Version, State: c.State.String(), At: wire.FormatTime(int64(c.At)),
			Due: wire.FormatTime(int64(c.Due)), Bucket: int(c.Bucket),
			Attempt: c.Attempt, Claimed: wire.FormatTime(int64(c.Claimed)), Kind: c.Kind.String(),
			Other: string(c.Other),
		}
		one.Reason, _, _ = strings.Cut(c.Reason, "; content ") // a digest could confirm a guess
		if whole {
			one.Reason = c.Reason
			one.Instance, one.Address, one.Term, one.By = c.Instance, c.Address, c.Term, c.By
			one.Stream, one.Sequence = c.Stream, c.Sequence
		}
		all = append(all, one)
		until := now
		if i+1 < len(l.Changes) {
			until = l.Changes[i+1].At
		}
		if ready := max(c.Due, c.At); l.Pull && c.State == message.StateWaiting && ready <= until {
			all = append(all, wire.Change{Version: c.Version, State: message.StateReady.String(),
				At: wire.FormatTime(int64(ready)), Due: one.Due, Bucket: one.Bucket})
		}
	}
	return all
}
