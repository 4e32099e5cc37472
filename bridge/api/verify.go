package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// verifyAnswer is what a comparison of the store with the journal found: how many differences of each kind, and the
// first of them one by one.
type verifyAnswer struct {
	InStore     int                `json:"in_store"`
	InJournal   int                `json:"in_journal"`
	Found       map[string]int     `json:"found"`
	Repaired    int                `json:"repaired"`
	Differences []differenceAnswer `json:"differences"`
	Refused     []refusedAnswer    `json:"refused,omitempty"`
	Quarantined []quarantineAnswer `json:"quarantined,omitempty"`
}

// quarantineAnswer is an entry that the journal could not hold.
type quarantineAnswer struct {
	Bucket int      `json:"bucket"`
	Entry  string   `json:"entry"`
	At     string   `json:"at"`
	Reason string   `json:"reason"`
	Known  bool     `json:"known"`
	UIDs   []string `json:"uids"`
}

// refusedAnswer is a change that the store did not make.
type refusedAnswer struct {
	UID    string `json:"uid"`
	Bucket int    `json:"bucket"`
	From   string `json:"from"`
	To     string `json:"to"`
	Kind   string `json:"kind,omitempty"`
	At     string `json:"at"`
	// Unreadable: From is none, since nobody knows it.
	Unreadable bool `json:"unreadable,omitempty"`
}

// differenceAnswer is one message. A side that does not have it is left out.
type differenceAnswer struct {
	UID      string       `json:"uid"`
	Bucket   int          `json:"bucket"`
	Kind     string       `json:"kind"`
	Store    *standAnswer `json:"store,omitempty"`
	Journal  *standAnswer `json:"journal,omitempty"`
	Repaired bool         `json:"repaired"`
}

type standAnswer struct {
	State   string `json:"state"`
	Version uint64 `json:"version"`
}

func verified(r *scheduler.VerifyReport) any {
	a := verifyAnswer{InStore: r.InStore, InJournal: r.InJournal, Found: r.Found, Repaired: r.Repaired,
		Differences: make([]differenceAnswer, len(r.Differences))}
	if a.Found == nil {
		a.Found = map[string]int{}
	}
	for i, d := range r.Differences {
		a.Differences[i] = differenceAnswer{
			UID: string(d.UID), Bucket: d.Bucket, Kind: d.Kind, Store: stand(d.Store), Journal: stand(d.Journal),
			Repaired: d.Repaired,
		}
	}
	for _, f := range r.Refused {
		a.Refused = append(a.Refused, refusedAnswer{
			UID: string(f.UID), Bucket: f.Bucket, From: f.From.String(), To: f.To.String(), Kind: f.Kind.String(),
			At:         wire.FormatTime(int64(f.At)),
			Unreadable: f.Unreadable,
		})
	}
	for _, q := range r.Quarantined {
		uids := make([]string, len(q.UIDs))
		for i, uid := range q.UIDs {
			uids[i] = string(uid)
		}
		a.Quarantined = append(a.Quarantined, quarantineAnswer{
			Bucket: q.Bucket, Entry: q.ID, At: wire.FormatTime(int64(q.At)), Reason: q.Reason,
			Known: q.Known, UIDs: uids,
		})
	}
	return a
}

func stand(s scheduler.Stand) *standAnswer {
	if s.State == scheduler.StateNone {
		return nil
	}
	return &standAnswer{State: s.State.String(), Version: s.Version}
}

// verify compares the store with the journal, and repairs the differences if asked to.
func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	var repair bool
	err := s.order(w, r, func(body []byte) (err error) { repair, err = wire.DecodeVerify(body); return err })
	if err != nil {
		return err
	}
	end, err := s.verifying.begin("verify")
	if err != nil {
		return err
	}
	defer end()
	s.audit(r, "verify", !repair)
	return long(s, w, r, verified,
		func(ctx context.Context, progress func(scheduler.VerifyReport)) (scheduler.VerifyReport, error) {
			defer end()
			counts := progress
			if progress != nil { // the differences one by one come with the report
				counts = func(r scheduler.VerifyReport) { r.Differences = nil; progress(r) }
			}
			return s.cfg.Journal.Verify(ctx, scheduler.VerifyRequest{Repair: repair}, counts)
		})
}
