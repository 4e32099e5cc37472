package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// historyAnswer is everything that happened to a message, and to the others that have or had its name, the latest
// first.
type historyAnswer struct {
	ID      string         `json:"id"`
	UID     string         `json:"uid"`
	History []changeAnswer `json:"history"`
	Others  []lifeAnswer   `json:"others,omitempty"`
	// More: there are others yet.
	More bool `json:"more,omitempty"`
}

// lifeAnswer is one of the others.
type lifeAnswer struct {
	UID     string         `json:"uid"`
	State   string         `json:"state"`
	Due     string         `json:"due"`
	Kind    string         `json:"kind,omitempty"`
	Other   string         `json:"other,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	History []changeAnswer `json:"history"`
}

// changeAnswer is one change; what does not apply to it is left out.
type changeAnswer struct {
	Version  uint64 `json:"version"`
	State    string `json:"state"`
	At       string `json:"at"`
	Due      string `json:"due,omitempty"`
	Bucket   int    `json:"bucket"`
	Instance string `json:"instance,omitempty"`
	Address  string `json:"address,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	Attempt  uint32 `json:"attempt,omitempty"`
	Claimed  string `json:"claimed,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Other    string `json:"other,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Stream   string `json:"stream,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// history returns the changes of a message, by version, and of every other message of its name.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	var lives []scheduler.Life
	err = s.ask(r, func(ctx context.Context) (err error) {
		lives, err = s.cfg.Journal.History(ctx, ref)
		return err
	})
	if err != nil {
		return err
	}
	whole := mayRead(r)
	one := lives[0]
	a := historyAnswer{ID: one.ID, UID: string(one.UID), History: changeAnswers(one.Changes, whole)}
	if a.ID == "" {
		a.ID = a.UID
	}
	if a.More = len(lives) > scheduler.MaxLives; a.More {
		lives = lives[:scheduler.MaxLives]
	}
	for _, l := range lives[1:] {
		a.Others = append(a.Others, lifeAnswer{
			UID: string(l.UID), State: l.State.String(), Due: wire.FormatTime(int64(l.Due)), Kind: l.Kind.String(),
			Other: string(l.Other), Reason: l.Reason,
			History: changeAnswers(l.Changes, whole),
		})
	}
	return s.respondValue(w, http.StatusOK, a)
}

// changeAnswers are changes as a caller may see them. Who may only push learns what became of his message and when, and
// not where tarry runs.
func changeAnswers(changes []scheduler.Change, whole bool) []changeAnswer {
	all := make([]changeAnswer, len(changes))
	for i := range changes {
		c := &changes[i]
		all[i] = changeAnswer{
			Version: c.Version, State: c.State.String(), At: wire.FormatTime(int64(c.At)),
			Due: wire.FormatTime(int64(c.Due)), Bucket: c.Bucket,
			Attempt: c.Attempt, Claimed: wire.FormatTime(int64(c.Claimed)), Kind: c.Kind.String(),
			Other: string(c.Other), Reason: c.Reason,
		}
		if whole {
			all[i].Instance, all[i].Address, all[i].Term = c.Instance, c.Address, c.Term
			all[i].Stream, all[i].Sequence = c.Stream, c.Sequence
		}
	}
	return all
}
