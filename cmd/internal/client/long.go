package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// leastSilence is the minimum time that an instance may be silent: it sends a line every second.
	leastSilence = 3 * time.Second
	// maxLine bounds one line of a long operation.
	maxLine = 16 << 20
)

// line is one line of a long operation's answer: its progress, the report or the error.
type line struct {
	Progress json.RawMessage `json:"progress"`
	Report   json.RawMessage `json:"report"`
	Problem
}

var errSilent = errors.New("silent")

// Long makes a request that may take hours; progress may be nil. It returns an error if the instance sends nothing for
// the time-out of a call, or for leastSilence if that is longer; this ends the operation, too. raw is only the report.
// With a problem, the report is what was done until then, if the answer contains it. With another error it is the last
// progress received, which may be less than was done.
func Long[R any](ctx context.Context, c *Client, path string, request any,
	progress func(R)) (report R, raw []byte, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := max(c.cfg.Timeout, leastSilence)
	watchdog := time.AfterFunc(silence, func() { stop(errSilent) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errSilent) {
			err = fmt.Errorf("call %s: no answer within %s", c.cfg.Server, silence)
		}
	}()
	answer, err := c.send(ctx, http.MethodPost, path, request, map[string]string{"Accept": "application/x-ndjson"})
	if err != nil {
		return report, nil, err
	}
	if answer.StatusCode != http.StatusOK {
		if raw, err = c.read(answer); err == nil {
			raw, err = c.refused(answer, raw)
			var l line
			if json.Unmarshal(raw, &l) == nil && l.Report != nil {
				_ = json.Unmarshal(l.Report, &report) // what was done until then, if the problem says
			}
		}
		return report, raw, err
	}
	defer answer.Body.Close() // read to its end, or abandoned
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		watchdog.Reset(silence)
		l := line{Problem: Problem{Raw: lines.Bytes()}}
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case err == nil && l.Word != "": // checked before the report: a problem may contain one
			if l.Report != nil {
				_ = json.Unmarshal(l.Report, &report)
			}
			return report, lines.Bytes(), &l.Problem
		case err == nil && l.Report != nil && json.Unmarshal(l.Report, &report) == nil:
			return report, l.Report, nil
		case err != nil || l.Progress == nil:
			return report, nil, c.stranger(answer)
		}
		var now R
		if json.Unmarshal(l.Progress, &now) != nil {
			continue
		}
		if report = now; progress != nil {
			progress(now)
		}
	}
	if err := lines.Err(); err != nil {
		return report, nil, fmt.Errorf("read the answer of %s: %w", c.cfg.Server, c.plain(err))
	}
	return report, nil, fmt.Errorf("the answer of %s broke off before its report", c.cfg.Server)
}
