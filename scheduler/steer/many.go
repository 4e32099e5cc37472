package steer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// browsePage is how many messages one step of an operation on many looks at.
	browsePage = 500
	// manyAtOnce is how many of these messages are changed at once. 256 made 1.3 times as many changes a second where each
	// waits for the journal, and 0.9 times as many without one.
	manyAtOnce = 32
)

// CancelMany cancels the selected waiting messages in bounded steps. It ends when it has looked at everything, or when
// ctx ends; changes made until then stay, and are counted.
func (s *Scheduler) CancelMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return s.many(ctx, sel, false, progress, func(ctx context.Context, i *message.Info) (verdict, error) {
		r, err := s.Cancel(ctx, scheduler.Ref{UID: i.UID})
		switch {
		case err != nil:
			return failed, err
		case r.Code == scheduler.CancelDone,
			r.Code == scheduler.CancelEnded && r.Info.State == message.StateCanceled && !r.Info.Mark.Uncertain:
			return done, nil
		case r.Code == scheduler.CancelInFlight:
			return inFlight, nil
		case r.Code == scheduler.CancelMaybe:
			return maybe, nil
		}
		return ended, nil
	})
}

// RescheduleMany changes the selected waiting messages in the same way. It may meet a message again after moving it. A
// delay is therefore one point in time for all messages, and a message already there counts as done; a shift remembers
// the messages it moved, and moves each once (doc.go, Many at once).
func (s *Scheduler) RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	now := s.cfg.Clock.Latest()
	switch {
	case e.Run:
		e = scheduler.Edit{At: new(message.Milli(now.UnixMilli()))}
	case e.Delay != nil:
		e.At, e.Delay = new(message.CeilMilli(now.Add(*e.Delay))), nil
	}
	if e.At != nil {
		e.At, e.Exact = new(max(*e.At, message.Milli(now.UnixMilli()))), true
	}
	var again func(*message.Info) bool
	switch {
	case e.Shift != nil && !sel.DryRun:
		// An array needs half the memory of a string in a map, and the garbage collector does not have to scan it.
		moved := map[[message.UIDLen]byte]struct{}{}
		again = func(m *message.Info) bool {
			var uid [message.UIDLen]byte
			copy(uid[:], m.UID)
			_, was := moved[uid]
			moved[uid] = struct{}{}
			return was
		}
	case e.At != nil:
		again = func(m *message.Info) bool { return m.Due == *e.At && m.Version > 1 }
	}
	return s.manyOnce(ctx, sel, false, again, progress, func(ctx context.Context, i *message.Info) (verdict, error) {
		r, err := s.Reschedule(ctx, scheduler.Ref{UID: i.UID}, e)
		switch {
		case err != nil:
			return failed, err
		case r.Code == scheduler.AmendDone:
			return done, nil
		case r.Code == scheduler.AmendInFlight:
			return inFlight, nil
		case r.Code == scheduler.AmendMaybe:
			return maybe, nil
		case r.Code == scheduler.AmendVersion: // others change it all the time
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

func count(r *scheduler.Report, v verdict) {
	switch v {
	case done:
		r.Done++
	case maybe:
		r.Maybe++
	case ended:
		r.Ended++
	case failed:
		r.Failed++
	}
}

func (s *Scheduler) many(ctx context.Context, sel scheduler.Selection, dead bool, progress func(scheduler.Report),
	do func(context.Context, *message.Info) (verdict, error)) (scheduler.Report, error) {
	return s.manyOnce(ctx, sel, dead, nil, progress, do)
}

// manyOnce walks through all buckets. Failures of single messages are counted. If a store is unavailable or ctx ends,
// the walk ends with the report so far. What the intake held at the call comes first, for as long as Passed waits; what
// is in flight during the walk comes last.
func (s *Scheduler) manyOnce(ctx context.Context, sel scheduler.Selection, dead bool, again func(*message.Info) bool,
	progress func(scheduler.Report),
	do func(context.Context, *message.Info) (verdict, error)) (scheduler.Report, error) {
	w := &walk{s: s, sel: sel, again: again, do: do, flying: map[message.UID]bool{}}
	if !dead {
		w.IntakeUnknown = s.cfg.Passed(ctx).Unsure()
	}
	for bucket := range s.cfg.Timeline.Buckets() {
		for after := ""; ; {
			var err error
			if after == "" && !dead {
				err = w.claimed(ctx, bucket)
			}
			var page scheduler.Browsed
			if err == nil {
				page, err = s.browse(ctx, bucket,
					scheduler.Browse{Dead: dead, From: sel.From, To: sel.To, After: after, Limit: browsePage})
			}
			if err == nil {
				err = w.page(ctx, page.Messages)
			}
			if err == nil && page.Next == "" && !dead {
				err = w.claimed(ctx, bucket)
			}
			if err != nil {
				return w.report(), err
			}
			if progress != nil {
				progress(w.report())
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	err := w.land(ctx)
	if err == nil && !dead && sel.Topic != "" && !strings.ContainsAny(sel.Topic, "*>") {
		counts := []scheduler.TopicCount{{Topic: sel.Topic}}
		err = scheduler.Looked("count what is leased", s.CountPulled(ctx, counts))
		w.Leased = counts[0].Leased
	}
	return w.report(), err
}

// walk is an operation on many under way.
type walk struct {
	scheduler.Report
	s     *Scheduler
	sel   scheduler.Selection
	again func(*message.Info) bool
	do    func(context.Context, *message.Info) (verdict, error)
	// flying are the messages that were in flight before or after the walk through their bucket. One that comes back may
	// wait where the walk has been already. The value says whether it counts as matched.
	flying map[message.UID]bool
}

const (
	// landWithin is how long the end of a walk waits for what is in flight. landPause is between two looks.
	landWithin = 2 * time.Second
	landPause  = 50 * time.Millisecond
)

// report counts the matches that are still in flight too.
func (w *walk) report() scheduler.Report {
	r := w.Report
	for _, matched := range w.flying {
		if matched {
			r.InFlight++
		}
	}
	return r
}

// page changes the selected messages of a page.
func (w *walk) page(ctx context.Context, page []message.Info) error {
	w.Looked += len(page)
	chosen := page[:0:0]
	for i := range page {
		m := &page[i]
		if !takes(&w.sel, m) || w.again != nil && w.again(m) {
			continue
		}
		if !w.flying[m.UID] {
			w.Matched++
		}
		delete(w.flying, m.UID)
		chosen = append(chosen, *m)
	}
	if w.sel.DryRun {
		return nil
	}
	return w.doAll(ctx, chosen)
}

// claimed notes what is in flight in a bucket.
func (w *walk) claimed(ctx context.Context, bucket message.Bucket) error {
	if err := w.s.cfg.Admit(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, w.s.cfg.CallTimeout)
	defer stop()
	for after := message.UID(""); ; {
		uids, err := w.s.cfg.Timeline.Claims(ctx, bucket, after, browsePage)
		if err != nil {
			return scheduler.Looked(fmt.Sprintf("list what is in flight in bucket %d", bucket), err)
		}
		for _, uid := range uids {
			if after = uid; !w.flying[uid] {
				w.flying[uid] = false
			}
		}
		if len(uids) < browsePage {
			return nil
		}
	}
}

// land looks at what was in flight, until all has come back or ended.
func (w *walk) land(ctx context.Context) error {
	for until := time.Now().Add(landWithin); len(w.flying) > 0; {
		var back []message.Info
		for uid, matched := range w.flying {
			if time.Now().After(until) {
				break
			}
			info, err := w.s.Get(ctx, scheduler.Ref{UID: uid})
			if err != nil && !errors.Is(err, scheduler.ErrUnknownID) {
				return err
			}
			m := &info
			if err != nil || m.UID != uid || !matched && (!takes(&w.sel, m) || !covers(&w.sel, m.Due) ||
				w.again != nil && w.again(m)) {
				if delete(w.flying, uid); matched {
					w.Ended++ // and is forgotten
				}
				continue
			}
			if !matched {
				w.Matched++
			}
			w.flying[uid] = true
			switch {
			case m.State == message.StateWaiting:
				back = append(back, info)
				delete(w.flying, uid)
			case m.State.Ended():
				w.Ended++
				delete(w.flying, uid)
			}
		}
		if !w.sel.DryRun {
			if err := w.doAll(ctx, back); err != nil {
				return err
			}
		}
		if w.sel.DryRun || time.Now().After(until) {
			break
		}
		_ = scheduler.Sleep(ctx, landPause)
	}
	return nil
}

// doAll applies do to a page of messages, several at once. An unavailable store, or the end of ctx, stops it: it begins
// no more messages and finishes those that were begun, so that the report is true. A message that went in flight is
// left to land.
func (w *walk) doAll(ctx context.Context, page []message.Info) error {
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
			v, err := w.do(whole, &page[i])
			mu.Lock()
			defer mu.Unlock()
			if v == inFlight {
				w.flying[page[i].UID] = true
			} else {
				count(&w.Report, v)
			}
			switch {
			case errors.Is(err, scheduler.ErrOutcomeUnknown),
				away == nil && (errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrFull) || errors.Is(err,
					scheduler.ErrBehind)):
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

// covers reports whether the selection's bounds contain a time.
func covers(sel *scheduler.Selection, at message.Milli) bool {
	return at >= sel.From && (sel.To == 0 || at <= sel.To)
}

// takes reports whether a message is selected. Its time has already been compared with the selection.
func takes(sel *scheduler.Selection, m *message.Info) bool {
	if sel.Topic != "" && !scheduler.Matches(sel.Topic, m.Topic) || sel.HasKey && sel.Key != m.Key {
		return false
	}
	if sel.AcceptedTo != 0 && m.UID.Time().UnixMilli() > int64(sel.AcceptedTo) {
		return false
	}
	if sel.Cause == "" {
		return true
	}
	cause, _ := m.Cause()
	return cause == sel.Cause
}

func (s *Scheduler) browse(ctx context.Context, bucket message.Bucket, q scheduler.Browse) (scheduler.Browsed, error) {
	if err := s.cfg.Admit(); err != nil {
		return scheduler.Browsed{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	page, err := s.cfg.Timeline.Browse(ctx, bucket, q)
	return page, scheduler.Looked(fmt.Sprintf("browse bucket %d", bucket), err)
}
