package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// browsePage is how many messages one step of an operation on many looks at.
	browsePage = 500
	// manyAtOnce is how many of these messages are changed at once.
	manyAtOnce = 32
)

// CancelMany cancels the selected waiting messages in bounded steps. It ends when it has looked at everything, or when
// ctx ends; changes made until then stay, and are counted.
func (s *Scheduler) CancelMany(ctx context.Context, sel Selection, progress func(Report)) (Report, error) {
	return s.many(ctx, sel, false, progress, func(ctx context.Context, i *message.Info) (verdict, error) {
		r, err := s.Cancel(ctx, Ref{UID: i.UID})
		switch {
		case err != nil:
			return failed, err
		case r.Code == CancelDone,
			r.Code == CancelEnded && r.Info.State == message.StateCanceled && !r.Info.Mark.Uncertain:
			return done, nil
		case r.Code == CancelInFlight:
			return inFlight, nil
		case r.Code == CancelMaybe:
			return maybe, nil
		}
		return ended, nil
	})
}

// RescheduleMany changes the selected waiting messages in the same way. It may meet a message again after moving it. A
// delay is therefore one point in time for all messages, and a message already there counts as done; a shift remembers
// the messages it moved, and moves each once (doc.go, Many at once).
func (s *Scheduler) RescheduleMany(ctx context.Context, sel Selection, e Edit, progress func(Report)) (Report, error) {
	now := s.cfg.Clock.Latest()
	switch {
	case e.Run:
		e = Edit{At: message.Milli(now.UnixMilli()), HasAt: true}
	case e.HasDelay:
		e.At, e.HasAt, e.HasDelay = message.CeilMilli(now.Add(e.Delay)), true, false
	}
	if e.HasAt {
		e.At, e.exact = max(e.At, message.Milli(now.UnixMilli())), true
	}
	var again func(*message.Info) bool
	switch {
	case e.HasShift && !sel.DryRun:
		// An array needs half the memory of a string in a map, and the garbage collector does not have to scan it.
		moved := map[[message.UIDLen]byte]struct{}{}
		again = func(m *message.Info) bool {
			var uid [message.UIDLen]byte
			copy(uid[:], m.UID)
			_, was := moved[uid]
			moved[uid] = struct{}{}
			return was
		}
	case e.HasAt:
		again = func(m *message.Info) bool { return m.Due == e.At && m.Version > 1 }
	}
	return s.manyOnce(ctx, sel, false, again, progress, func(ctx context.Context, i *message.Info) (verdict, error) {
		r, err := s.Reschedule(ctx, Ref{UID: i.UID}, e)
		switch {
		case err != nil:
			return failed, err
		case r.Code == AmendDone:
			return done, nil
		case r.Code == AmendInFlight:
			return inFlight, nil
		case r.Code == AmendMaybe:
			return maybe, nil
		case r.Code == AmendVersion: // others change it all the time
			return failed, nil
		}
		return ended, nil
	})
}

// verdict is the outcome for one message of many.
type verdict uint8

const (
	done verdict = iota
	inFlight
	maybe
	ended
	failed
)

func (r *Report) count(v verdict) {
	switch v {
	case done:
		r.Done++
	case inFlight:
		r.InFlight++
	case maybe:
		r.Maybe++
	case ended:
		r.Ended++
	case failed:
		r.Failed++
	}
}

func (s *Scheduler) many(ctx context.Context, sel Selection, dead bool, progress func(Report),
	do func(context.Context, *message.Info) (verdict, error)) (Report, error) {
	return s.manyOnce(ctx, sel, dead, nil, progress, do)
}

// manyOnce walks through all buckets. Failures of single messages are counted. If a store is unavailable or ctx ends,
// the walk ends with the report so far.
func (s *Scheduler) manyOnce(ctx context.Context, sel Selection, dead bool, again func(*message.Info) bool,
	progress func(Report),
	do func(context.Context, *message.Info) (verdict, error)) (Report, error) {
	var r Report
	for bucket := range s.cfg.Timeline.Buckets() {
		for after := ""; ; {
			page, err := s.browse(ctx, bucket,
				Browse{Dead: dead, From: sel.From, To: sel.To, After: after, Limit: browsePage})
			if err != nil {
				return r, err
			}
			r.Looked += len(page.Messages)
			chosen := page.Messages[:0:0]
			for i := range page.Messages {
				if m := &page.Messages[i]; sel.takes(m) && (again == nil || !again(m)) {
					chosen = append(chosen, *m)
				}
			}
			r.Matched += len(chosen)
			if !sel.DryRun {
				if err := r.doAll(ctx, chosen, do); err != nil {
					return r, err
				}
			}
			if progress != nil {
				progress(r)
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	return r, nil
}

// doAll applies do to a page of messages, several at once. An unavailable store, or the end of ctx, stops it: it begins
// no more messages and finishes those that were begun, so that the report is true.
func (r *Report) doAll(ctx context.Context, page []message.Info,
	do func(context.Context, *message.Info) (verdict, error)) error {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		away  error
		slots = make(chan struct{}, manyAtOnce)
	)
	gone := func() error {
		mu.Lock()
		defer mu.Unlock()
		return away
	}
	whole := context.WithoutCancel(ctx)
	for i := range page {
		slots <- struct{}{}
		if gone() != nil || ctx.Err() != nil {
			break
		}
		all.Go(func() { // ends with its calls, which are bounded
			defer func() { <-slots }()
			v, err := do(whole, &page[i])
			mu.Lock()
			defer mu.Unlock()
			r.count(v)
			switch {
			case errors.Is(err, ErrOutcomeUnknown),
				away == nil && (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull) || errors.Is(err, ErrBehind)):
				away = err // an unknown outcome is reported before what was not done
			}
		})
	}
	all.Wait()
	if away == nil && ctx.Err() != nil {
		away = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	return away
}

// takes reports whether a message is selected. Its time has already been compared with the selection.
func (sel *Selection) takes(m *message.Info) bool {
	return (sel.Topic == "" || Matches(sel.Topic, m.Topic)) && (!sel.HasKey || sel.Key == m.Key)
}

func (s *Scheduler) browse(ctx context.Context, bucket message.Bucket, q Browse) (Browsed, error) {
	if err := s.cfg.Admit(); err != nil {
		return Browsed{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	page, err := s.cfg.Timeline.Browse(ctx, bucket, q)
	return page, Looked(fmt.Sprintf("browse bucket %d", bucket), err)
}
