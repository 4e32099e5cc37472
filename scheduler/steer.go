package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Get finds one message, live or remembered. Of several messages that have the
// id it is the one that is live, else the latest.
func (s *Scheduler) Get(ctx context.Context, ref Ref) (Info, error) {
	found, err := s.find(ctx, ref)
	if err == nil && len(found) == 0 {
		found, err = s.recall(ctx, ref)
	}
	if err != nil {
		return Info{}, err
	}
	attempts, err := choose(found)
	if err != nil {
		return Info{}, err
	}
	return attempts.meant(), nil
}

// Cancel ends a waiting message and answers what really happened (P4). A name
// may lead to a consumer's retry and to earlier attempts that may still be
// published again: all of them end, and the answer is OK only if all were
// certain. An id that names nothing leaves a tombstone, so that a push of it
// which still stands in the intake stream will be accepted as canceled; the
// answer stays CancelUnknown, which promises nothing.
//
// A dead message that was requeued lives on under another uid: that life ends
// too, and the answer is about it. It bears the doubt of the lives before it.
func (s *Scheduler) Cancel(ctx context.Context, ref Ref) (CancelResult, error) {
	for range maxLives {
		result, err := s.cancelLife(ctx, ref)
		if err != nil {
			return CancelResult{}, err
		}
		next, requeued := strings.CutPrefix(result.Info.Reason, RequeuedAs)
		if !requeued || !IsUID(next) || !result.Info.State.Ended() {
			s.metrics.cancels.WithLabelValues(result.Code.String()).Inc()
			return result, nil
		}
		ref = Ref{UID: UID(next)}
	}
	return CancelResult{}, fmt.Errorf("cancel %s: %w: it was requeued more than %d times; cancel its last uid", ref.UID, ErrUnavailable, maxLives)
}

// maxLives bounds how often a cancel follows a message that was requeued.
const maxLives = 16

// cancelLife ends the messages that a reference leads to by itself.
func (s *Scheduler) cancelLife(ctx context.Context, ref Ref) (CancelResult, error) {
	found, err := s.find(ctx, ref)
	if err != nil {
		return CancelResult{}, err
	}
	if len(found) == 0 {
		recalled, err := s.recall(ctx, ref) // first: it may fail, and a tombstone is a change
		if err != nil {
			return CancelResult{}, err
		}
		if ref.UID == "" {
			if found, err = s.bury(ctx, ref); err != nil {
				return CancelResult{}, err
			}
		}
		if len(found) == 0 {
			found = recalled
		}
	}
	if len(found) == 0 {
		return CancelResult{Code: CancelUnknown}, nil
	}
	attempts, err := choose(found)
	if err != nil {
		return CancelResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	return s.cancelAll(ctx, attempts)
}

// cancelAll ends every attempt, the oldest first. One that is in flight stops
// it: nothing is known of that one yet, and the caller asks again. (One that
// goes in flight after the look-up leaves earlier ones canceled; to ask again
// is right then too.)
func (s *Scheduler) cancelAll(ctx context.Context, all attempts) (CancelResult, error) {
	for _, a := range all {
		if a.State == StateInFlight {
			return CancelResult{Code: CancelInFlight, Info: a}, nil
		}
	}
	var result CancelResult
	maybe, made := false, false
	for i, a := range all {
		if a.State.Ended() && a.State != StateCanceled && i < len(all)-1 {
			continue // its end was known when the next attempt came, or has become so since
		}
		var err error
		if err = s.cfg.Journal.Ready(); err == nil {
			result, err = s.cfg.Timeline.Cancel(ctx, a.UID, s.cfg.Clock.Milli())
		}
		if err == nil && (result.Code == CancelDone || result.Code == CancelMaybe) {
			if err = s.cfg.Journal.Await(ctx, []Recorded{{a.UID, result.Info.Version, a.UID.Bucket(s.cfg.Timeline.Buckets()), result.Number}}); err != nil {
				err = fmt.Errorf("wait for the journal: %w: %w", ErrOutcomeUnknown, err)
			}
		}
		if err != nil && made && errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: an earlier attempt is canceled: %v", ErrOutcomeUnknown, err)
		}
		if err != nil {
			return CancelResult{}, fmt.Errorf("cancel %s: %w", a.UID, err)
		}
		made = made || result.Code == CancelDone || result.Code == CancelMaybe
		switch {
		case result.Code == CancelInFlight:
			return result, nil
		case result.Code == CancelUnknown && a.State.Ended(): // only the journal remembers it
			result = CancelResult{Code: CancelEnded, Info: a}
		case result.Code == CancelUnknown:
			return CancelResult{}, fmt.Errorf("cancel %s: %w: the journal has it and the store does not, yet", a.UID, ErrUnavailable)
		}
		maybe = maybe || result.Code == CancelMaybe
	}
	if result.Code == CancelDone && maybe {
		result.Code = CancelMaybe
		result.Info.Mark.Uncertain = true
	}
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

// recall asks the journal for what the timeline has forgotten.
func (s *Scheduler) recall(ctx context.Context, ref Ref) ([]Info, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	found, err := s.cfg.Journal.Find(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("look up in the journal: %w", err)
	}
	return found, nil
}

// find asks the timeline.
func (s *Scheduler) find(ctx context.Context, ref Ref) ([]Info, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	found, err := s.cfg.Timeline.Find(ctx, ref)
	if err == nil && ref.UID != "" {
		found, err = s.beyond(ctx, ref.UID, found)
	}
	switch {
	case errors.Is(err, ErrOutcomeUnknown): // a look-up has none
		return nil, fmt.Errorf("find: %w: %v", ErrUnavailable, err)
	case err != nil:
		return nil, fmt.Errorf("find: %w", err)
	}
	return found, nil
}

// beyond adds what a uid means besides its own message. A push that was merged
// means the message that it went into. A message without a name is sent back by
// its consumer under its uid: where its own delivery has ended, that retry is
// meant too.
func (s *Scheduler) beyond(ctx context.Context, uid UID, found []Info) ([]Info, error) {
	if len(found) == 1 {
		if into, merged := strings.CutPrefix(found[0].Reason, MergedInto); merged && IsUID(into) {
			whole, err := s.cfg.Timeline.Find(ctx, Ref{UID: UID(into)})
			if err != nil || len(whole) > 0 {
				return whole, err
			}
		}
	}
	if len(found) > 0 && found[0].State != StateDelivered {
		return found, nil
	}
	retries, err := s.cfg.Timeline.Find(ctx, Ref{ID: string(uid)})
	if len(found) > 0 && len(retries) > 0 {
		found[0].Key = retries[0].Key // the record of an end has no key where it has no name
	}
	return append(found, retries...), err
}

// attempts are the messages that one name leads to, by attempt: mostly one.
type attempts []Info

// meant is the one that a look-up tells: the last that lives, else the last.
func (a attempts) meant() Info {
	for i := len(a) - 1; i >= 0; i-- {
		if !a[i].State.Ended() {
			return a[i]
		}
	}
	return a[len(a)-1]
}

// choose picks the messages of the one key that a reference means: the key with
// a live message, else the one whose message ended last.
func choose(found []Info) (attempts, error) {
	byKey := map[string]attempts{}
	for _, f := range found {
		byKey[f.Key] = append(byKey[f.Key], f)
	}
	var best attempts
	live := 0
	for _, a := range byKey {
		slices.SortFunc(a, func(x, y Info) int { return cmp.Or(cmp.Compare(x.Attempt, y.Attempt), cmp.Compare(x.UID, y.UID)) })
		this := a.meant()
		if !this.State.Ended() {
			live++
		}
		if best == nil {
			best = a
		} else if b := best.meant(); b.State.Ended() && (!this.State.Ended() || cmp.Or(cmp.Compare(this.EndedAt, b.EndedAt), cmp.Compare(this.UID, b.UID)) > 0) {
			best = a
		}
	}
	switch {
	case best == nil:
		return nil, ErrUnknownID
	case live > 1:
		return nil, fmt.Errorf("%w: %d live messages of different keys have it; name the key, or use the uid", ErrAmbiguousID, live)
	}
	return best, nil
}

var cancelWords = [...]string{"unknown_id", "canceled", "in_flight", "maybe_delivered", "already_ended"}

// String is the code's word in metrics and logs.
func (c CancelCode) String() string {
	if int(c) < len(cancelWords) {
		return cancelWords[c]
	}
	return "invalid"
}
