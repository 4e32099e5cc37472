package steer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Get finds one message, live or remembered. Of several messages with the id it returns the live one, else the latest.
// While nothing live has the id, a push of it may be in the intake: Get then waits until the intake has been read.
func (s *Scheduler) Get(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	info, err := s.look(ctx, ref, forReading)
	if err == nil {
		err = s.View(ctx, &info)
	}
	return info, err
}

// Resolve finds the one message, live or remembered, that a change by ref means. An id that is known under two topics
// or keys is ErrAmbiguousID, whether its messages live or have ended. Resolve waits as Get does.
func (s *Scheduler) Resolve(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return s.look(ctx, ref, forChange)
}

func (s *Scheduler) look(ctx context.Context, ref scheduler.Ref, why purpose) (message.Info, error) {
	found, err := s.known(ctx, ref, why)
	unsure := false
	if err == nil {
		found, unsure, err = s.arrived(ctx, ref, found, why)
	}
	if err != nil {
		return message.Info{}, err
	}
	if len(found) == 0 && unsure {
		return message.Info{}, scheduler.ErrInIntake
	}
	if why == forReading {
		if err := s.rejected(ctx, ref, found); err != nil {
			return message.Info{}, err
		}
	}
	attempts, err := choose(found, why)
	if err != nil {
		return message.Info{}, err
	}
	info := attempts.meant()
	info.IntakeUnknown = unsure
	return info, nil
}

// rejected returns a RejectedError if nothing found lives, and the last push of the name was rejected.
func (s *Scheduler) rejected(ctx context.Context, ref scheduler.Ref, found []message.Info) error {
	if slices.ContainsFunc(found, func(i message.Info) bool { return !i.State.Ended() }) {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	rejects, err := s.cfg.Journal.Rejects(ctx, ref, 1)
	switch {
	case err != nil && len(found) == 0:
		return fmt.Errorf("look up rejects: %w", err)
	case err == nil && len(rejects) > 0 && !slices.ContainsFunc(found, func(i message.Info) bool {
		return i.UID.Compare(rejects[0].UID) >= 0
	}):
		return &scheduler.RejectedError{Rejected: rejects[0]}
	}
	return nil
}

// Reject records in the journal, as its mode promises, a push that is not accepted although its producer was told that
// it is stored.
func (s *Scheduler) Reject(ctx context.Context, r *scheduler.Rejected) error {
	record := func(ctx context.Context, _ message.Bucket, now message.Milli) (scheduler.Effect, error) {
		return s.cfg.Timeline.Reject(ctx, r, now)
	}
	if _, err := s.change(ctx, s.cfg.Of(r.UID), record); err != nil {
		return fmt.Errorf("record a reject: %w", err)
	}
	return nil
}

// known asks the timeline, and asks the journal for messages that the timeline has forgotten.
func (s *Scheduler) known(ctx context.Context, ref scheduler.Ref, why purpose) ([]message.Info, error) {
	found, err := s.find(ctx, ref, why)
	if err == nil && len(found) == 0 {
		found, err = s.recall(ctx, ref)
	}
	return found, err
}

// arrived looks again once the intake has been read, unless something live was found. It reports whether a push may
// still be in the intake. A caller cannot know the uid of such a push.
func (s *Scheduler) arrived(ctx context.Context, ref scheduler.Ref, found []message.Info,
	why purpose) (now []message.Info, unsure bool, err error) {
	lives := func(i message.Info) bool { return !i.State.Ended() }
	if ref.UID != "" || slices.ContainsFunc(found, lives) {
		return found, false, nil
	}
	passed := s.cfg.Passed(ctx)
	if passed.Again() {
		again, err := s.find(ctx, ref, why)
		if err != nil {
			return nil, false, err
		}
		if len(again) > 0 {
			found = again
		} else if len(found) == 0 {
			found, err = s.recall(ctx, ref)
		}
		if err != nil || slices.ContainsFunc(found, lives) {
			return found, false, err
		}
	}
	return found, passed.Unsure(), nil
}

// Cancel ends a waiting message and reports what really happened (P4). A name may lead to a consumer's retry and to
// earlier attempts that may still be published again. All of them end, and the answer is OK only if all were certain.
// While nothing live has the id, a push of it may be in the intake: Cancel waits until the intake has been read that
// far. An id and topic that name nothing leave a tombstone first: a push of that id that is still in the intake stream
// will be accepted as canceled. If the push has not arrived by then, the answer stays CancelUnknown, which promises
// nothing. Without a topic Cancel leaves no tombstone, because it would hit whichever message of any topic came first;
// and none for a name whose message has ended, because the answer is about that message.
//
// A requeued dead message lives on under another uid. Cancel ends that life too, and the answer is about it. The answer
// carries the uncertainty of the earlier lives.
func (s *Scheduler) Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	for range maxLives {
		result, err := s.cancelLife(ctx, ref)
		if err != nil {
			return scheduler.CancelResult{}, err
		}
		next := result.Info.Other
		if result.Info.Kind != message.KindRequeued || !result.Info.State.Ended() {
			s.cancels.WithLabelValues(result.Code.String()).Inc()
			return result, nil
		}
		ref = scheduler.Ref{UID: next}
	}
	return scheduler.CancelResult{}, fmt.Errorf("cancel %s: %w: it was requeued more than %d times; cancel its last uid",
		ref.UID,
		scheduler.ErrUnavailable, maxLives)
}

// maxLives limits how many requeues of a message a cancel follows.
const maxLives = 16

// cancelLife ends the messages that a reference leads to directly.
func (s *Scheduler) cancelLife(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	if bucket, can := s.inOneStep(&ref); can {
		var result scheduler.CancelResult
		_, err := s.change(ctx, bucket,
			func(ctx context.Context, bucket message.Bucket, now message.Milli) (made scheduler.Effect, err error) {
				result, err = s.cfg.Timeline.Cancel(ctx, ref, now)
				return result.Effect(bucket), err
			})
		if err != nil {
			return scheduler.CancelResult{}, fmt.Errorf("cancel %q: %w", ref.ID, err)
		}
		if result.Code == scheduler.CancelDone {
			return result, nil
		}
	}
	found, err := s.find(ctx, ref, forChange)
	if err != nil {
		return scheduler.CancelResult{}, err
	}
	if len(found) == 0 {
		if found, err = s.recall(ctx, ref); err != nil { // first, because a tombstone is a change
			return scheduler.CancelResult{}, err
		}
		if len(found) == 0 && ref.UID == "" && ref.Topic != "" && ref.Viewer.Sees(ref.Topic) {
			uids, err := s.bury(ctx, ref)
			if err != nil {
				return scheduler.CancelResult{}, err
			}
			result, err := s.cancelMet(ctx, ref, uids)
			if len(uids) > 0 && ref.Keyed { // its one bucket has a message, and so no tombstone
				return result, err
			}
			result.Buried = result.Code == scheduler.CancelUnknown
			return result, scheduler.Unsure("a tombstone is left", err)
		}
	}
	return s.cancelFound(ctx, ref, found)
}

// cancelMet ends the messages that bury met, or those whose pushes arrive now.
func (s *Scheduler) cancelMet(ctx context.Context, ref scheduler.Ref, uids []message.UID) (scheduler.CancelResult,
	error) {
	var found []message.Info
	for _, uid := range uids {
		more, err := s.find(ctx, scheduler.Ref{UID: uid}, forChange)
		if err != nil {
			return scheduler.CancelResult{}, err
		}
		found = append(found, more...)
	}
	return s.cancelFound(ctx, ref, found)
}

// cancelFound ends the messages that were found, or those of which pushes in the intake arrive meanwhile.
func (s *Scheduler) cancelFound(ctx context.Context, ref scheduler.Ref, found []message.Info) (scheduler.CancelResult,
	error) {
	found, unsure, err := s.arrived(ctx, ref, found, forChange)
	if err != nil {
		return scheduler.CancelResult{}, err
	}
	if len(found) == 0 {
		return scheduler.CancelResult{Code: scheduler.CancelUnknown, Info: message.Info{IntakeUnknown: unsure}}, nil
	}
	attempts, err := choose(found, forChange)
	if err != nil {
		return scheduler.CancelResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	result, err := s.cancelAll(ctx, attempts)
	result.Info.IntakeUnknown = unsure
	return result, err
}

// cancelAll ends every attempt, the oldest first. It stops at an attempt in flight: its outcome is open, and the caller
// asks again. (If an attempt goes in flight after the look-up, the earlier ones stay canceled; asking again is right
// then, too.)
func (s *Scheduler) cancelAll(ctx context.Context, all attempts) (scheduler.CancelResult, error) {
	for _, a := range all {
		if a.State == message.StateInFlight {
			return scheduler.CancelResult{Code: scheduler.CancelInFlight, Info: a}, nil
		}
	}
	var result scheduler.CancelResult
	maybe, made := false, false
	for i, a := range all {
		if a.State.Ended() && a.State != message.StateCanceled && i < len(all)-1 {
			continue // its end was known when the next attempt came, or has become known since
		}
		_, err := s.change(ctx, s.cfg.Of(a.UID),
			func(ctx context.Context, bucket message.Bucket, now message.Milli) (made scheduler.Effect, err error) {
				result, err = s.cfg.Timeline.Cancel(ctx, scheduler.Ref{UID: a.UID}, now)
				return result.Effect(bucket), err
			})
		if err == nil && result.Code == scheduler.CancelUnknown && !a.State.Ended() {
			err = fmt.Errorf("%w: the journal has it and the store does not, yet", scheduler.ErrUnavailable)
		}
		if made {
			err = scheduler.Unsure("an earlier attempt is canceled", err)
		}
		if err != nil {
			return scheduler.CancelResult{}, fmt.Errorf("cancel %s: %w", a.UID, err)
		}
		made = made || result.Code == scheduler.CancelDone || result.Code == scheduler.CancelMaybe
		switch {
		case result.Code == scheduler.CancelInFlight:
			return result, nil
		case result.Code == scheduler.CancelUnknown: // only the journal remembers that it ended
			result = scheduler.CancelResult{Code: scheduler.CancelEnded, Info: a}
		}
		maybe = maybe || result.Code == scheduler.CancelMaybe
	}
	if result.Code == scheduler.CancelDone && maybe {
		result.Code = scheduler.CancelMaybe
		result.Info.Mark.Uncertain = true
	}
	return result, nil
}

// bury leaves the tombstones and returns the messages that have appeared meanwhile. No journal holds tombstones, so
// that nothing is awaited as Scheduler.change does.
func (s *Scheduler) bury(ctx context.Context, ref scheduler.Ref) ([]message.UID, error) {
	sequence, at, err := s.cfg.Backlog(ctx)
	if err != nil {
		return nil, fmt.Errorf("cancel %q: last sequence of the intake: %w: %w", ref.ID, scheduler.ErrUnavailable, err)
	}
	if !s.burials.take(ctx, &ref, s.cfg.Timeline.Buckets()) {
		return nil, fmt.Errorf("cancel %q: %w", ref.ID, scheduler.ManyTombstones(false))
	}
	call, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	uids, err := s.cfg.Timeline.Bury(call, ref, sequence, max(s.cfg.Clock.Milli(), message.CeilMilli(at)))
	if err != nil {
		return nil, fmt.Errorf("cancel %q: leave a tombstone: %w", ref.ID, err)
	}
	return uids, nil
}

// recall asks the journal for messages that the timeline has forgotten.
func (s *Scheduler) recall(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	found, err := s.cfg.Journal.Find(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("look up in the journal: %w", err)
	}
	return found, nil
}

// find asks the timeline.
func (s *Scheduler) find(ctx context.Context, ref scheduler.Ref, why purpose) ([]message.Info, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
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
	case errors.Is(err, scheduler.ErrUnreadable) && why == forReading && ref.UID == "" && ref.Topic == "" &&
		len(found) > 0:
		return found, nil // those of other topics; a change would have to know which one is meant
	case errors.Is(err, scheduler.ErrAmbiguousID):
		return nil, ambiguous(group(found), ref.UID == "")
	case errors.Is(err, scheduler.ErrOutcomeUnknown): // a look-up has no outcome
		return nil, fmt.Errorf("find: %w: %v", scheduler.ErrUnavailable, err)
	case err != nil:
		return nil, fmt.Errorf("find: %w", err)
	}
	return found, nil
}

// beyond adds the messages that a uid means besides its own. The uid of a merged push means the message that it was
// merged into. A consumer sends a message without a name back under its uid: if the uid's own delivery has ended, that
// retry is meant too.
//
// Any client may push under a uid as a name. Only a message on the topic and under the key of the uid's own message is
// its retry. If the timeline has forgotten that message, beyond asks the journal for both. If the journal does not know
// them either, or the caller may not see the message, a reader gets the message that has the name, and a caller who
// makes a change must name the topic.
func (s *Scheduler) beyond(ctx context.Context, ref scheduler.Ref, found []message.Info, why purpose) ([]message.Info,
	error) {
	if len(found) == 1 && found[0].Kind == message.KindMerged {
		whole, err := s.cfg.Timeline.Find(ctx, scheduler.Ref{UID: found[0].Other})
		if err != nil || len(whole) > 0 {
			return seen(ref, whole), err
		}
	}
	found = seen(ref, found)
	if len(found) > 0 && found[0].State != message.StateDelivered {
		return found, nil
	}
	retry := scheduler.Ref{ID: string(ref.UID), Topic: ref.Topic, Viewer: ref.Viewer}
	if len(found) > 0 {
		retry.Topic, retry.Key, retry.Keyed = found[0].Topic, found[0].Key, true
	}
	retries, err := s.cfg.Timeline.Find(ctx, retry)
	if err != nil || len(retries) == 0 || len(found) > 0 {
		return append(found, retries...), err
	}
	own, err := s.cfg.Journal.Find(ctx, scheduler.Ref{UID: ref.UID})
	own = seen(ref, own)
	switch {
	case err != nil && why == forChange:
		return nil, fmt.Errorf("look up in the journal: %w", err)
	case err == nil && len(own) > 0:
		return slices.DeleteFunc(
			retries, func(i message.Info) bool { return i.Topic != own[0].Topic || i.Key != own[0].Key }), nil
	case why == forChange && ref.Topic == "":
		return retries, scheduler.ErrAmbiguousID
	}
	return retries, nil
}

// seen returns the messages found by a uid that are on the topic that ref names, and on a topic that the viewer may
// see.
func seen(ref scheduler.Ref, found []message.Info) []message.Info {
	return slices.DeleteFunc(found, func(i message.Info) bool {
		return ref.Topic != "" && i.Topic != ref.Topic || !ref.Viewer.Sees(i.Topic)
	})
}

// attempts are the messages under one name, by attempt. Usually there is one.
type attempts []message.Info

// meant returns the message that a look-up answers with: the last that is live, else the last.
func (a attempts) meant() message.Info {
	for i := len(a) - 1; i >= 0; i-- {
		if !a[i].State.Ended() {
			return a[i]
		}
	}
	return a[len(a)-1]
}

// purpose is the reason for a look-up.
type purpose uint8

const (
	// forReading prefers the one live message, else takes the latest to have ended.
	forReading purpose = iota
	// forChange takes nothing if there is a choice.
	forChange
)

// choose picks the messages of the one topic and key that a reference means.
func choose(found []message.Info, why purpose) (attempts, error) {
	all := group(found)
	switch {
	case len(all) == 0:
		return nil, scheduler.ErrUnknownID
	case len(all) > 1 && (why == forChange || !all[1].meant().State.Ended()):
		return nil, ambiguous(all, false)
	}
	return all[0], nil
}

// group sorts messages by topic and key: groups with a live message first, then the others by which ended last.
func group(found []message.Info) []attempts {
	type name struct{ topic, key string }
	byName := map[name]attempts{}
	for _, f := range found {
		byName[name{f.Topic, f.Key}] = append(byName[name{f.Topic, f.Key}], f)
	}
	all := slices.Collect(maps.Values(byName))
	for _, a := range all {
		slices.SortFunc(a, func(x, y message.Info) int {
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

// ambiguous returns an error that lists the message meant under each topic and key, up to a limit.
func ambiguous(all []attempts, more bool) error {
	e := &scheduler.AmbiguousError{More: more || len(all) > scheduler.MaxNamesOfID}
	for _, a := range all[:min(len(all), scheduler.MaxNamesOfID)] {
		e.Candidates = append(e.Candidates, a.meant())
	}
	return e
}
