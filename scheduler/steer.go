package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Get finds one message, live or remembered. Of several messages with the id it
// returns the live one, else the latest. If the id names nothing, the push may still
// stand in the intake; Get then waits until it is read.
func (s *Scheduler) Get(ctx context.Context, ref Ref) (Info, error) {
	return s.look(ctx, ref, forReading)
}

// Resolve finds the one message that a change by ref means, live or remembered: an
// id that is known under two topics or keys is ErrAmbiguousID, whatever became of
// the messages. It waits as Get does.
func (s *Scheduler) Resolve(ctx context.Context, ref Ref) (Info, error) {
	return s.look(ctx, ref, forChange)
}

func (s *Scheduler) look(ctx context.Context, ref Ref, why purpose) (Info, error) {
	found, err := s.known(ctx, ref, why)
	if err == nil && len(found) == 0 && s.arrived(ctx, ref) {
		found, err = s.known(ctx, ref, why)
	}
	if err != nil {
		return Info{}, err
	}
	attempts, err := choose(found, why)
	if err != nil {
		return Info{}, err
	}
	info := attempts.meant()
	if lane := info.Mark.Lane; lane != "" {
		info.ParkedWhy = s.parkedWhy(lane, info.Topic)
	}
	return info, nil
}

// known asks the timeline, and the journal for what that has forgotten.
func (s *Scheduler) known(ctx context.Context, ref Ref, why purpose) ([]Info, error) {
	found, err := s.find(ctx, ref, why)
	if err == nil && len(found) == 0 {
		found, err = s.recall(ctx, ref)
	}
	return found, err
}

// arrived waits for the pushes in the intake and reports whether a message that
// was not found may be there now. No push in the intake has a uid that a caller
// could know.
func (s *Scheduler) arrived(ctx context.Context, ref Ref) bool {
	return ref.UID == "" && s.cfg.Passed(ctx)
}

// Cancel ends a waiting message and answers what really happened (P4). A name
// may lead to a consumer's retry and to earlier attempts that may still be
// published again: all of them end, and the answer is OK only if all were
// certain. An id on a topic that names nothing leaves a tombstone, so that a push
// of it which still stands in the intake stream will be accepted as canceled. Cancel
// waits until the intake has been read that far; if the push is not there by then,
// the answer stays CancelUnknown, which promises nothing. Without a topic Cancel
// leaves no tombstone: it would hit whichever message of any topic comes first.
//
// A dead message that was requeued lives on under another uid: that life ends
// too, and the answer is about it. It bears the doubt of the lives before it.
func (s *Scheduler) Cancel(ctx context.Context, ref Ref) (CancelResult, error) {
	for life := range maxLives {
		result, err := s.cancelLife(ctx, ref)
		if err == nil && result.Code == CancelUnknown && life == 0 && s.arrived(ctx, ref) {
			result, err = s.cancelLife(ctx, ref)
		}
		if err != nil {
			return CancelResult{}, err
		}
		next := result.Info.Other
		if result.Info.Kind != KindRequeued || !result.Info.State.Ended() {
			s.metrics.cancels.WithLabelValues(result.Code.String()).Inc()
			return result, nil
		}
		ref = Ref{UID: next}
	}
	return CancelResult{}, fmt.Errorf("cancel %s: %w: it was requeued more than %d times; cancel its last uid", ref.UID,
		ErrUnavailable, maxLives)
}

// maxLives bounds how often a cancel follows a message that was requeued.
const maxLives = 16

// cancelLife ends the messages that a reference leads to by itself.
func (s *Scheduler) cancelLife(ctx context.Context, ref Ref) (CancelResult, error) {
	found, err := s.find(ctx, ref, forChange)
	if err != nil {
		return CancelResult{}, err
	}
	buried := ref.UID == "" && ref.Topic != "" && ref.Viewer.Sees(ref.Topic)
	if len(found) == 0 {
		recalled, err := s.recall(ctx, ref) // first: it may fail, and a tombstone is a change
		if err != nil {
			return CancelResult{}, err
		}
		if buried {
			found, err = s.bury(ctx, ref)
			if err != nil && (len(recalled) == 0 || !errors.Is(err, ErrManyTombstones)) {
				return CancelResult{}, err
			}
		}
		if len(found) == 0 {
			found = recalled
		}
	}
	if len(found) == 0 {
		return CancelResult{Code: CancelUnknown, Buried: buried}, nil
	}
	attempts, err := choose(found, forChange)
	if err != nil {
		return CancelResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	return s.cancelAll(ctx, attempts)
}

// cancelAll ends every attempt, the oldest first. It stops at an attempt that is in
// flight: its outcome is open, and the caller asks again. (An attempt that goes in
// flight after the look-up leaves earlier ones canceled; asking again is right then,
// too.)
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
			result, err = s.cancel(ctx, a.UID)
		}
		if err == nil && (result.Code == CancelDone || result.Code == CancelMaybe) {
			if err = s.cfg.Journal.Await(ctx, []Recorded{
				{a.UID, result.Info.Version, a.UID.Bucket(s.cfg.Timeline.Buckets()), result.Number}}); err != nil {
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
			return CancelResult{}, fmt.Errorf("cancel %s: %w: the journal has it and the store does not, yet", a.UID,
				ErrUnavailable)
		}
		maybe = maybe || result.Code == CancelMaybe
	}
	if result.Code == CancelDone && maybe {
		result.Code = CancelMaybe
		result.Info.Mark.Uncertain = true
	}
	return result, nil
}

// cancel ends one message in the timeline. A reply that is lost is asked for again:
// the second answer stays what the first one was.
func (s *Scheduler) cancel(ctx context.Context, uid UID) (CancelResult, error) {
	result, err := s.cfg.Timeline.Cancel(ctx, uid, s.cfg.Clock.Milli())
	if !errors.Is(err, ErrOutcomeUnknown) {
		return result, err
	}
	if result, err = s.cfg.Timeline.Cancel(ctx, uid, s.cfg.Clock.Milli()); errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %v", ErrOutcomeUnknown, err)
	}
	return result, err
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
		more, err := s.find(ctx, Ref{UID: uid}, forChange)
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
func (s *Scheduler) find(ctx context.Context, ref Ref, why purpose) ([]Info, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	if !ref.Viewer.Sees(ref.Topic) && ref.Topic != "" {
		return nil, nil
	}
	found, err := s.cfg.Timeline.Find(ctx, ref)
	if err == nil && ref.UID != "" {
		found, err = s.beyond(ctx, ref, found, why)
	}
	switch {
	case errors.Is(err, ErrUnreadable) && why == forReading && ref.UID == "" && ref.Topic == "" && len(found) > 0:
		return found, nil // those of other topics; a change would have to know which is meant
	case errors.Is(err, ErrAmbiguousID):
		return nil, ambiguous(group(found), ref.UID == "")
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
//
// Anybody may push under a uid as a name. Only what stands on the topic and under the
// key of the uid's own message is its retry. The journal is asked for these where the
// timeline has forgotten the message. Where it does not know either, or the caller may
// not see the message, one who reads is shown what has the name, and one who makes a
// change must name the topic.
func (s *Scheduler) beyond(ctx context.Context, ref Ref, found []Info, why purpose) ([]Info, error) {
	if len(found) == 1 && found[0].Kind == KindMerged {
		whole, err := s.cfg.Timeline.Find(ctx, Ref{UID: found[0].Other})
		if err != nil || len(whole) > 0 {
			return seen(ref, whole), err
		}
	}
	found = seen(ref, found)
	if len(found) > 0 && found[0].State != StateDelivered {
		return found, nil
	}
	retry := Ref{ID: string(ref.UID), Topic: ref.Topic, Viewer: ref.Viewer}
	if len(found) > 0 {
		retry.Topic, retry.Key, retry.Keyed = found[0].Topic, found[0].Key, true
	}
	retries, err := s.cfg.Timeline.Find(ctx, retry)
	if err != nil || len(retries) == 0 || len(found) > 0 {
		return append(found, retries...), err
	}
	own, err := s.cfg.Journal.Find(ctx, Ref{UID: ref.UID})
	own = seen(ref, own)
	switch {
	case err != nil && why == forChange:
		return nil, fmt.Errorf("look up in the journal: %w", err)
	case err == nil && len(own) > 0:
		return slices.DeleteFunc(
			retries, func(i Info) bool { return i.Topic != own[0].Topic || i.Key != own[0].Key }), nil
	case why == forChange && ref.Topic == "":
		return retries, ErrAmbiguousID
	}
	return retries, nil
}

// seen are the messages found by a uid that lie on the topic that was named, and on
// one that the viewer may see.
func seen(ref Ref, found []Info) []Info {
	return slices.DeleteFunc(found, func(i Info) bool {
		return ref.Topic != "" && i.Topic != ref.Topic || !ref.Viewer.Sees(i.Topic)
	})
}

// attempts are the messages that one name leads to, by attempt: mostly one.
type attempts []Info

// meant returns the message that a look-up answers with: the last that lives, else the last.
func (a attempts) meant() Info {
	for i := len(a) - 1; i >= 0; i-- {
		if !a[i].State.Ended() {
			return a[i]
		}
	}
	return a[len(a)-1]
}

// purpose is what a message is looked up for.
type purpose uint8

const (
	// forReading prefers the one message that lives, else takes the latest to have ended.
	forReading purpose = iota
	// forChange takes nothing where there is a choice.
	forChange
)

// choose picks the messages of the one topic and key that a reference means.
func choose(found []Info, why purpose) (attempts, error) {
	all := group(found)
	switch {
	case len(all) == 0:
		return nil, ErrUnknownID
	case len(all) > 1 && (why == forChange || !all[1].meant().State.Ended()):
		return nil, ambiguous(all, false)
	}
	return all[0], nil
}

// group sorts messages by topic and key: first those that have a message which
// lives, then by which ended last.
func group(found []Info) []attempts {
	type name struct{ topic, key string }
	byName := map[name]attempts{}
	for _, f := range found {
		byName[name{f.Topic, f.Key}] = append(byName[name{f.Topic, f.Key}], f)
	}
	all := slices.Collect(maps.Values(byName))
	for _, a := range all {
		slices.SortFunc(a, func(x, y Info) int {
			return cmp.Or(cmp.Compare(x.Attempt, y.Attempt), cmp.Compare(x.UID, y.UID))
		})
	}
	slices.SortFunc(all, func(a, b attempts) int {
		x, y := a.meant(), b.meant()
		switch {
		case x.State.Ended() && !y.State.Ended():
			return 1
		case !x.State.Ended() && y.State.Ended():
			return -1
		}
		return cmp.Or(cmp.Compare(y.EndedAt, x.EndedAt), cmp.Compare(y.UID, x.UID))
	})
	return all
}

// ambiguous names the message that is meant under each topic and key, up to a bound.
func ambiguous(all []attempts, more bool) error {
	e := &AmbiguousError{More: more || len(all) > MaxNamesOfID}
	for _, a := range all[:min(len(all), MaxNamesOfID)] {
		e.Candidates = append(e.Candidates, a.meant())
	}
	return e
}

var cancelWords = [...]string{"unknown_id", "canceled", "in_flight", "maybe_delivered", "already_ended"}

// String is the code's word in metrics and logs.
func (c CancelCode) String() string {
	if int(c) < len(cancelWords) {
		return cancelWords[c]
	}
	return "invalid"
}
