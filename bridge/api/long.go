package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// A long operation may read the whole journal. It has no time-out: it ends when it is done, when its client goes away
// or when the instance stops. A client that accepts linesType gets a line of progress from time to time, so that
// proxies see a live connection, and a last line with the report or the error. Any other client gets only the report.

const linesType = "application/x-ndjson"

// exclusive lets few operations of a kind run at a time.
type exclusive struct {
	what  string
	turns chan struct{}
}

func newExclusive(what string, most int) exclusive { return exclusive{what, make(chan struct{}, most)} }

// manyAtOnce is how many operations on many messages of a kind may run at a time. Each makes a few dozen changes in the
// store at once.
const manyAtOnce = 4

// long runs an operation, unless as many as may of its kind are running, and answers with its report, converted by the
// given function. The operation is over before its report is complete: a client that has read it may start the next.
func long[R any](s *Server, w http.ResponseWriter, r *http.Request, kind exclusive, form func(*R) any,
	do func(ctx context.Context, progress func(R)) (R, error)) error {
	select {
	case kind.turns <- struct{}{}:
	default:
		return refusal(http.StatusConflict, WordAlreadyRunning,
			"a %s is running on this instance already, and no more than %d may at a time; wait for its end", kind.what,
			cap(kind.turns))
	}
	ctx, stop := s.unhurried(w, r)
	defer stop(nil)
	l := &lines{to: w, control: http.NewResponseController(w), within: s.cfg.Timeout}
	var progress func(R)
	quiet, inLines := func() {}, acceptsLines(r)
	if inLines {
		progress, quiet = writeProgress(l, s.cfg.ProgressEvery, form, stop)
	}
	report, err := func() (R, error) {
		defer quiet() // also when it panics: nobody may write once the handler has returned
		defer func() { <-kind.turns }()
		return do(ctx, progress)
	}()
	var known *problem
	if !errors.As(err, &known) {
		err = s.why(ctx, err)
	}
	l.hurry()
	switch {
	case err == nil && !inLines:
		return s.respondValue(w, http.StatusOK, form(&report))
	case err == nil:
		return l.value("report", form(&report))
	case l.begun: // the status has been sent: the problem is the last line
		known := s.judged(r, err)
		if a := visitOf(r).audit; a != nil {
			a.word = known.Word
		}
		_ = l.line(ops.AppendProblem(nil, &known.Problem))
		return nil
	}
	return err
}

// why returns the cause of an operation's end. If its context ended, that is the cause, even if the operation returned
// another error.
func (s *Server) why(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case s.stopping.Err() != nil || errors.Is(context.Cause(ctx), scheduler.ErrStopping):
		return scheduler.ErrStopping
	}
	return context.Canceled
}

// unhurried removes the server's time-outs from a request that has been read. The context ends when the client goes
// away or the instance stops.
func (s *Server) unhurried(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelCauseFunc) {
	control := http.NewResponseController(w)
	// The read deadline is removed as well: net/http would take its passing for a disconnected client. A writer that
	// does not support deadlines has none.
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancelCause(r.Context())
	release := context.AfterFunc(s.stopping, func() { cancel(scheduler.ErrStopping) })
	return ctx, func(cause error) {
		release()
		cancel(cause)
	}
}

// acceptsLines reports whether the client wants lines.
func acceptsLines(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(value, ",") {
			if media, _, err := mime.ParseMediaType(one); err == nil && media == linesType {
				return true
			}
		}
	}
	return false
}

// writeProgress writes the progress of an operation at this interval until quiet is called. A client that stops
// reading stops the operation.
func writeProgress[R any](l *lines, every time.Duration, form func(*R) any,
	stop context.CancelCauseFunc) (progress func(R), quiet func()) {
	var (
		latest atomic.Pointer[json.RawMessage]
		last   time.Time
	)
	// A report may share memory with the one that the operation keeps updating. It is encoded here, while the operation
	// waits.
	progress = func(report R) {
		if now := time.Now(); now.Sub(last) >= every/2 {
			text, err := json.Marshal(form(&report))
			if words := json.RawMessage(text); err == nil {
				latest.Store(&words)
			}
			last = now
		}
	}
	var none R
	progress(none)
	last = time.Time{}
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() { // until quiet
		defer close(ended)
		tick := time.Tick(every)
		for {
			select {
			case <-enough:
				return
			case <-tick:
			}
			l.hurry()
			if err := l.value("progress", *latest.Load()); err != nil {
				stop(fmt.Errorf("write progress: %w", err))
				return
			}
		}
	}()
	return progress, func() {
		close(enough)
		<-ended
	}
}

// lines is an answer that is written line by line. Only one goroutine writes at a time.
type lines struct {
	to      http.ResponseWriter
	control *http.ResponseController
	within  time.Duration // the time that the client has to read a line
	begun   bool
}

// hurry sets the deadline of the next write.
func (l *lines) hurry() { _ = l.control.SetWriteDeadline(time.Now().Add(l.within)) }

// value writes {"name":value}.
func (l *lines) value(name string, value any) error {
	text, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return l.line(text)
}

func (l *lines) line(text []byte) error {
	if !l.begun {
		h := l.to.Header()
		h.Set("Content-Type", linesType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the lines
		l.to.WriteHeader(http.StatusOK)
		l.begun = true
	}
	if _, err := l.to.Write(append(text, '\n')); err != nil {
		return err
	}
	return l.control.Flush()
}

// An operation on many messages works in bounded steps and is long: see long.go. However it ends, its answer reports
// its progress, and so does its audit line, which remains even if the client has gone. An operation on everything by
// mistake is worse than a refusal, so it has to be requested explicitly: {"all":true}.

// cancelMany cancels the waiting messages that are selected.
func (s *Server) cancelMany(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodeSelection)
	if err != nil {
		return err
	}
	selected, err := ops.SelectionOf(&asked, s.cfg.Now())
	if err != nil {
		return err
	}
	return s.many(w, r, s.canceling, "cancel", selected,
		func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
			return s.cfg.Service.CancelMany(ctx, selected, progress)
		})
}

// rescheduleMany moves the waiting messages that are selected.
func (s *Server) rescheduleMany(w http.ResponseWriter, r *http.Request) error {
	var change ops.Edit
	asked, err := decoded(s, w, r, func(body []byte) (asked ops.Selection, err error) {
		asked, change, err = ops.DecodeRescheduleMany(body)
		return asked, err
	})
	if err != nil {
		return err
	}
	selected, err := ops.SelectionOf(&asked, s.cfg.Now())
	if err != nil {
		return err
	}
	edit := ops.EditOf(&change)
	return s.many(w, r, s.rescheduling, "reschedule", selected,
		func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
			return s.cfg.Service.RescheduleMany(ctx, selected, edit, progress)
		})
}

// many runs an operation on the selected messages.
func (s *Server) many(w http.ResponseWriter, r *http.Request, kind exclusive, what string, selected scheduler.Selection,
	do func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error)) error {
	line := s.auditMany(r, what, &selected)
	form := func(r *scheduler.Report) any { return ops.ReportOf(*r, selected.DryRun) }
	return long(s, w, r, kind, form, func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
		report, err := do(ctx, progress)
		// logged too, because the caller may have gone
		line.Int("matched", report.Matched).Int("done", report.Done).Int("failed", report.Failed)
		if !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			err = s.why(ctx, err)
		}
		if err != nil { // the caller should learn how much was done
			err = fmt.Errorf("%w: %w", err, &problem{ops.Stopped(report, selected.DryRun, err)})
		}
		return report, err
	})
}

// auditMany is audit for an operation on a selection.
func (s *Server) auditMany(r *http.Request, what string, selected *scheduler.Selection) *audit {
	line := s.audit(r, what, selected.DryRun).Str("topic", selected.Topic)
	if selected.HasKey {
		line.Str("key", selected.Key)
	}
	if selected.From != 0 {
		line.Str("from", ops.FormatTime(int64(selected.From)))
	}
	if selected.To != 0 {
		line.Str("to", ops.FormatTime(int64(selected.To)))
	}
	return line
}
