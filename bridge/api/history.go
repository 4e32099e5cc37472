package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// historyAnswer is everything that happened to a message.
type historyAnswer struct {
	ID      string         `json:"id"`
	UID     string         `json:"uid"`
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
	Reason   string `json:"reason,omitempty"`
	Stream   string `json:"stream,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// history tells what happened to a message, by version.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	var (
		record  scheduler.Record
		changes []scheduler.Change
	)
	err = s.ask(r, func(ctx context.Context) (err error) {
		record, changes, err = s.cfg.Journal.History(ctx, ref)
		return err
	})
	if err != nil {
		return err
	}
	a := historyAnswer{ID: record.ID, UID: string(record.UID), History: make([]changeAnswer, len(changes))}
	if a.ID == "" {
		a.ID = a.UID
	}
	for i := range changes {
		c := &changes[i]
		a.History[i] = changeAnswer{
			Version: c.Version, State: c.State.String(), At: wire.FormatTime(int64(c.At)), Due: wire.FormatTime(int64(c.Due)), Bucket: c.Bucket,
			Instance: c.Instance, Address: c.Address, Term: c.Term, Attempt: c.Attempt, Claimed: wire.FormatTime(int64(c.Claimed)),
			Reason: c.Reason, Stream: c.Stream, Sequence: c.Sequence,
		}
	}
	return s.respondValue(w, http.StatusOK, a)
}
