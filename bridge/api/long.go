package api

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// A long operation has no time-out here: it ends when it is done, when its client goes away or when the instance stops.
// A client that accepts linesType gets a line of progress from time to time, so that proxies see a live connection, and
// a last line with the report or the error. Any other client gets only the report.

const linesType = "application/x-ndjson"

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

// begin begins a long operation, whose progress it writes at intervals, if the client wants lines, until end is called.
// A client that stops reading stops the operation.
func (l *lines) begin(s *Server, w http.ResponseWriter, r *http.Request) (work context.Context,
	progress func(report any), end func()) {
	work, stop := s.unhurried(w, r)
	l.to, l.control, l.within = w, http.NewResponseController(w), s.cfg.Timeout
	if !l.wanted {
		return work, nil, func() { stop(nil) }
	}
	var (
		latest atomic.Pointer[json.RawMessage]
		last   time.Time
	)
	// A report may share memory with the one that the operation keeps updating. It is encoded here, while the operation
	// waits.
	progress = func(report any) {
		if now := time.Now(); now.Sub(last) >= s.cfg.ProgressEvery/2 {
			text, err := json.Marshal(report)
			words := json.RawMessage(text)
			if err == nil && latest.Swap(&words) != nil { // the first report is of nothing yet
				last = now
			}
		}
	}
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() { // until end
		defer close(ended)
		tick := time.Tick(s.cfg.ProgressEvery)
		for {
			select {
			case <-enough:
				return
			case <-tick:
			}
			words := latest.Load()
			if words == nil {
				continue
			}
			l.hurry()
			if err := l.value("progress", *words); err != nil {
				stop(fmt.Errorf("write progress: %w", err))
				return
			}
		}
	}()
	return work, progress, func() {
		close(enough)
		<-ended
		stop(nil)
	}
}

// lines is an answer that is written line by line. Only one goroutine writes at a time.
type lines struct {
	to      http.ResponseWriter
	control *http.ResponseController
	within  time.Duration // the time that the client has to read a line
	wanted  bool
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
