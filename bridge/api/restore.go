package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// restoreAnswer counts what became of the messages that the journal has. After a dry run it is what would become of
// them.
type restoreAnswer struct {
	DryRun   bool `json:"dry_run,omitempty"`
	Read     int  `json:"read"`
	Added    int  `json:"added"`
	Raised   int  `json:"raised"`
	Same     int  `json:"same"`
	InFlight int  `json:"in_flight"`
	Newer    int  `json:"newer"`
}

func restored(dry bool) func(*scheduler.RestoreReport) any {
	return func(r *scheduler.RestoreReport) any {
		return restoreAnswer{DryRun: dry, Read: r.Read, Added: r.Added, Raised: r.Raised, Same: r.Same,
			InFlight: r.InFlight, Newer: r.Newer}
	}
}

// restore puts what the journal has and the store lacks back into the store.
func (s *Server) restore(w http.ResponseWriter, r *http.Request) error {
	var asked wire.Restore
	err := s.order(w, r, func(body []byte) (err error) { asked, err = wire.DecodeRestore(body); return err })
	if err != nil {
		return err
	}
	end, err := s.restoring.begin("restore")
	if err != nil {
		return err
	}
	defer end()
	s.audit(r, "restore", asked.DryRun).Bool("overdue", asked.Overdue).Str("topic", asked.Topic).Int("rate", asked.Rate)
	return long(s, w, r, restored(asked.DryRun),
		func(ctx context.Context, progress func(scheduler.RestoreReport)) (scheduler.RestoreReport, error) {
			defer end()
			return s.cfg.Journal.Restore(ctx, scheduler.RestoreRequest{
				Topic: asked.Topic, Overdue: asked.Overdue, DryRun: asked.DryRun, Rate: asked.Rate,
			}, progress)
		})
}

// restoreOne does it for one message, due already or not.
func (s *Server) restoreOne(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	var dry bool
	err = s.body(w, r, func(body []byte) (err error) { dry, err = wire.DecodeRestoreOne(body); return err })
	if err != nil {
		return err
	}
	s.audit(r, "restore", dry).Str("id", r.PathValue("id"))
	if ref.UID == "" || ref.Topic != "" {
		err := s.ask(r, func(ctx context.Context) (err error) {
			ref.UID, err = s.cfg.Journal.Resolve(ctx, ref)
			return err
		})
		if err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	report, err := s.cfg.Journal.Restore(ctx, scheduler.RestoreRequest{UID: ref.UID, Overdue: true, DryRun: dry}, nil)
	switch {
	case err != nil:
		return err
	case report.Read == 0:
		return scheduler.ErrUnknownID
	}
	return s.respondValue(w, http.StatusOK, restored(dry)(&report))
}
