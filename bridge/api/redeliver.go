package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// redeliverAnswer counts what became of the deliveries that were checked. After a dry run none is redelivered.
type redeliverAnswer struct {
	DryRun      bool `json:"dry_run,omitempty"`
	Checked     int  `json:"checked"`
	Present     int  `json:"present"`
	Gone        int  `json:"gone"`
	Redelivered int  `json:"redelivered"`
	Unknown     int  `json:"unknown"`
	Failed      int  `json:"failed"`
}

// redeliver publishes again what NATS had stored since a moment and has lost.
func (s *Server) redeliver(w http.ResponseWriter, r *http.Request) error {
	var asked wire.Redeliver
	err := s.order(w, r, func(body []byte) (err error) { asked, err = wire.DecodeRedeliver(body); return err })
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	since := asked.Since.Ago(now)
	if since.After(now) {
		return &wire.Error{Word: wire.WordSince, Field: wire.FieldSince,
			Detail: "lies in the future; it is the time of the first delivery to check"}
	}
	end, err := s.redelivering.begin("redeliver")
	if err != nil {
		return err
	}
	defer end()
	// rounded down: it begins there
	request := scheduler.RedeliverRequest{Since: scheduler.Milli(since.UnixMilli()), Topic: asked.Topic,
		DryRun: asked.DryRun}
	s.audit(r, "redeliver", asked.DryRun).Str("since", wire.FormatTime(int64(request.Since))).Str("topic", asked.Topic)
	form := func(r *scheduler.RedeliverReport) any {
		return redeliverAnswer{
			DryRun: asked.DryRun, Checked: r.Checked, Present: r.Present, Gone: r.Gone, Redelivered: r.Redelivered,
			Unknown: r.Unknown, Failed: r.Failed,
		}
	}
	return long(s, w, r, form,
		func(ctx context.Context, progress func(scheduler.RedeliverReport)) (scheduler.RedeliverReport, error) {
			defer end()
			return s.cfg.Journal.Redeliver(ctx, request, progress)
		})
}
