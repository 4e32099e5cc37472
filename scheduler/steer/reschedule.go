package steer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// amendTries is how often an edit without a version is tried again if the message changed between its look-up and its
// write.
const amendTries = 8

// Reschedule changes a waiting message, or returns why it did not (P4). If several messages have the name, it changes
// the last live one. If e.Version is set, the message must have that version. If not, changes made by others in the
// meantime are kept in every field that e does not set.
func (s *Scheduler) Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult,
	error) {
	result, err := s.moveNamed(ctx, ref, &e)
	if err == nil && result.Code != scheduler.AmendDone {
		result, err = s.reschedule(ctx, ref, e)
	}
	if err != nil {
		return scheduler.AmendResult{}, fmt.Errorf("reschedule: %w", err)
	}
	s.amends.WithLabelValues(result.Code.String()).Inc()
	return result, nil
}

// moveNamed makes an edit of nothing but the due time in one step, or answers AmendUnknown if it takes more.
func (s *Scheduler) moveNamed(ctx context.Context, ref scheduler.Ref, e *scheduler.Edit) (result scheduler.AmendResult,
	err error) {
	bucket, can := s.inOneStep(&ref)
	if !can || e.At == nil && e.Delay == nil || e.Priority != nil || e.Headers != nil || e.Body != nil ||
		e.Version > 0 || e.Run {
		return scheduler.AmendResult{}, nil
	}
	a, err := s.edited(&message.Info{Message: message.Message{Due: math.MinInt64}}, e)
	if err != nil {
		return scheduler.AmendResult{}, nil // the look-up has a word first
	}
	a.Named = ref
	as, err := s.change(ctx, bucket,
		func(ctx context.Context, bucket message.Bucket, now message.Milli) (made scheduler.Effect, err error) {
			result, err = s.cfg.Timeline.Amend(ctx, a, now)
			return result.Effect(bucket), err
		})
	result.Info.Bare = as.bare
	return result, err
}

func (s *Scheduler) reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (result scheduler.AmendResult,
	err error) {
	for range amendTries {
		info, err := s.Resolve(ctx, ref)
		if errors.Is(err, scheduler.ErrUnknownID) {
			result = scheduler.AmendResult{Code: scheduler.AmendUnknown}
			result.Info.IntakeUnknown = errors.Is(err, scheduler.ErrInIntake)
			break
		}
		if err != nil {
			return scheduler.AmendResult{}, err
		}
		if e.Version > 0 && info.Version != e.Version && info.Version != e.Version+1 {
			result = scheduler.AmendResult{Code: scheduler.AmendVersion, Info: info}
			if info.State.Ended() {
				result.Code = scheduler.AmendEnded
			}
			break
		}
		if result, err = s.amend(ctx, &info, &e); err != nil {
			return scheduler.AmendResult{}, fmt.Errorf("%s: %w", info.UID, err)
		}
		result.Info.IntakeUnknown = info.IntakeUnknown
		if result.Code != scheduler.AmendVersion || e.Version > 0 {
			break
		}
		ref = scheduler.Ref{UID: info.UID} // the same message again, whatever the name means by now
	}
	return result, nil
}

// amend changes one message as it was just read.
func (s *Scheduler) amend(ctx context.Context, info *message.Info, e *scheduler.Edit) (scheduler.AmendResult, error) {
	a, err := s.edited(info, e)
	if err != nil {
		return scheduler.AmendResult{}, err
	}
	var result scheduler.AmendResult
	as, err := s.change(ctx, s.cfg.Of(a.UID),
		func(ctx context.Context, bucket message.Bucket, now message.Milli) (made scheduler.Effect, err error) {
			result, err = s.cfg.Timeline.Amend(ctx, a, now)
			return result.Effect(bucket), err
		})
	switch {
	case err != nil:
		return scheduler.AmendResult{}, err
	case as.again && result.Code != scheduler.AmendDone && result.Info.Version != a.Version:
		// The first call may have taken effect, and the message may have changed since.
		return scheduler.AmendResult{}, fmt.Errorf("%w: it is %s now, version %d", scheduler.ErrOutcomeUnknown,
			result.Info.State, result.Info.Version)
	case result.Code == scheduler.AmendUnknown && info.State.Ended(): // only the journal remembers it
		return scheduler.AmendResult{Code: scheduler.AmendEnded, Info: *info}, nil
	case result.Code == scheduler.AmendUnknown:
		return scheduler.AmendResult{}, fmt.Errorf("%w: the journal has it and the store does not, yet",
			scheduler.ErrUnavailable)
	case result.Code == scheduler.AmendTried:
		return s.renew(ctx, &a)
	}
	result.Info.Bare = as.bare
	return result, nil
}

// renew makes an edit under a fresh uid. Consumers have tried the message, and may skip a uid that they know.
func (s *Scheduler) renew(ctx context.Context, a *scheduler.Amend) (scheduler.AmendResult, error) {
	m := *a.Message
	m.Attempt, m.Mark, m.Origin = 1, message.Mark{}, ""
	made, err := s.requeue(ctx, a.UID, a.Version, &m)
	if err != nil {
		return scheduler.AmendResult{}, err
	}
	result := scheduler.AmendResult{Info: made.Info}
	switch i := &made.Info; {
	case made.Code == scheduler.RequeueDone:
		result.Code = scheduler.AmendDone
	case made.Code == scheduler.RequeueNamed:
		return scheduler.AmendResult{}, named(i)
	case i.State == message.StateInFlight:
		result.Code = scheduler.AmendInFlight
	case i.State.Ended():
		result.Code = scheduler.AmendEnded
	case i.Mark.Uncertain:
		result.Code = scheduler.AmendMaybe
	case made.Code == scheduler.RequeueNotDead:
		result.Code = scheduler.AmendVersion
	}
	return result, nil
}

// edited returns the message as an edit changes it.
func (s *Scheduler) edited(info *message.Info, e *scheduler.Edit) (scheduler.Amend, error) {
	now := s.cfg.Clock.Latest()
	a := scheduler.Amend{UID: info.UID, Version: cmp.Or(e.Version, info.Version), Due: info.Due, Priority: info.Priority,
		Reason: "rescheduled"}
	switch {
	case e.Run:
		a.Due, a.Reason = message.Milli(now.UnixMilli()), "run"
	case e.At != nil:
		a.Due = *e.At
	case e.Delay != nil:
		a.Due = message.CeilMilli(now.Add(*e.Delay))
	case e.Shift != nil:
		a.Due = info.Due.Add(*e.Shift)
	}
	if err := s.cfg.CheckDue(a.Due, now); err != nil {
		return scheduler.Amend{}, err
	}
	if a.Due != info.Due && !e.Exact {
		// A time in the past becomes now: with an earlier due time the message might count as expired, or as due before
		// the store was certified.
		a.Due = max(a.Due, message.Milli(now.UnixMilli()))
	}
	if e.Priority != nil {
		a.Priority = *e.Priority
	}
	m := info.Message
	m.Due, m.Priority = a.Due, a.Priority
	if a.Priority != info.Priority {
		a.Message = &m // the journal records a priority with the content alone
	}
	if e.Headers != nil || e.Body != nil {
		if e.Headers != nil {
			m.Headers = e.Headers
		}
		if e.Body != nil {
			m.Body = e.Body
		}
		if !info.State.Ended() { // else the store says how it ended
			if err := fits(e.Fit, &m); err != nil {
				return scheduler.Amend{}, err
			}
		}
		a.Message, a.Reason = &m, "edited"
	}
	a.Reason += changes(&info.Message, &m)
	return a, nil
}

// changes tells which fields an edit changes, and digests of the content before and after.
func changes(was, is *message.Message) string {
	var fields []string
	for field, same := range map[string]bool{"due": was.Due == is.Due, "priority": was.Priority == is.Priority,
		"headers": slices.Equal(was.Headers, is.Headers), "body": bytes.Equal(was.Body, is.Body)} {
		if !same {
			fields = append(fields, field)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	slices.Sort(fields)
	text := ": " + strings.Join(fields, ", ")
	if before, after := contentDigest(was), contentDigest(is); before != after {
		text += "; content " + before + " → " + after
	}
	return text
}

// contentDigest returns the first 16 bytes of SHA-256 over a line "name: value" for each header, an empty line if there
// are any, and the body.
func contentDigest(m *message.Message) string {
	h := sha256.New()
	for _, header := range m.Headers {
		fmt.Fprintf(h, "%s: %s\n", header.Name, header.Value)
	}
	if len(m.Headers) > 0 {
		h.Write([]byte("\n"))
	}
	h.Write(m.Body)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// fits checks a message whose content changes against the API's limit.
func fits(limit scheduler.Fit, m *message.Message) error {
	if limit == nil {
		return nil
	}
	return limit.Fits(m)
}
