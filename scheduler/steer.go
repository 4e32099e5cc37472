package scheduler

import (
	"context"
	"errors"
	"fmt"
)

// Get finds one message, live or remembered. Of several messages that had the
// id one after the other it is the one that is live, else the latest.
func (s *Scheduler) Get(ctx context.Context, ref Ref) (Info, error) {
	found, err := s.find(ctx, ref)
	if err != nil {
		return Info{}, err
	}
	return choose(found)
}

// Cancel ends a waiting message and answers what really happened (P4). An id
// that names nothing leaves a tombstone, so that a push of it which still
// stands in the intake stream will be accepted as canceled; the answer stays
// CancelUnknown, which promises nothing.
func (s *Scheduler) Cancel(ctx context.Context, ref Ref) (CancelResult, error) {
	found, err := s.find(ctx, ref)
	if err != nil {
		return CancelResult{}, err
	}
	if len(found) == 0 && ref.UID == "" {
		if found, err = s.bury(ctx, ref); err != nil {
			return CancelResult{}, err
		}
	}
	if len(found) == 0 {
		return CancelResult{Code: CancelUnknown}, nil
	}
	info, err := choose(found)
	if err != nil {
		return CancelResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	result, err := s.cfg.Timeline.Cancel(ctx, info.UID, s.cfg.Clock.Milli())
	if err != nil {
		return CancelResult{}, fmt.Errorf("cancel %s: %w", info.UID, err)
	}
	s.metrics.cancels.WithLabelValues(result.Code.String()).Inc()
	return result, nil
}

// bury leaves the tombstones and returns what turned up meanwhile.
func (s *Scheduler) bury(ctx context.Context, ref Ref) ([]Info, error) {
	sequence, err := s.cfg.Backlog(ctx)
	if err != nil {
		return nil, fmt.Errorf("cancel %q: last sequence of the intake: %w: %w", ref.ID, ErrUnavailable, err)
	}
	call, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	uids, err := s.cfg.Timeline.Bury(call, ref, sequence, s.cfg.Clock.Milli())
	if err != nil {
		return nil, fmt.Errorf("cancel %q: leave a tombstone: %w", ref.ID, err)
	}
	var found []Info
	for _, uid := range uids {
		more, err := s.find(ctx, Ref{UID: uid})
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func (s *Scheduler) find(ctx context.Context, ref Ref) ([]Info, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	found, err := s.cfg.Timeline.Find(ctx, ref)
	switch {
	case errors.Is(err, ErrOutcomeUnknown): // a look-up has none
		return nil, fmt.Errorf("find: %w: %v", ErrUnavailable, err)
	case err != nil:
		return nil, fmt.Errorf("find: %w", err)
	}
	return found, nil
}

// choose picks the one message that a reference means.
func choose(found []Info) (Info, error) {
	var best *Info
	live := 0
	for i := range found {
		f := &found[i]
		if !f.State.Ended() {
			live++
		}
		if best == nil || (best.State.Ended() && (!f.State.Ended() || f.EndedAt > best.EndedAt)) {
			best = f
		}
	}
	switch {
	case best == nil:
		return Info{}, ErrUnknownID
	case live > 1:
		return Info{}, fmt.Errorf("%w: %d live messages of different keys have it; name the key, or use the uid", ErrAmbiguousID, live)
	}
	return *best, nil
}

var cancelWords = [...]string{"unknown_id", "canceled", "in_flight", "maybe_delivered", "already_ended"}

// String is the code's word in metrics and logs.
func (c CancelCode) String() string {
	if int(c) < len(cancelWords) {
		return cancelWords[c]
	}
	return "invalid"
}
