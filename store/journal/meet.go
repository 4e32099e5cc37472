package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// tellPauses writes to the journal the pauses that it lacks of a store that is whole:
// what was paused while the journal was off or did not answer. A journal that is away
// does not hold up a leader.
func (r *Recovery) tellPauses(ctx context.Context, tl scheduler.Recovering) {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, fencesWithin))
	defer cancel()
	if err := r.meetPauses(ctx, tl, false); err != nil {
		r.log.Warn().Err(err).Msg("the journal is not told of the pauses")
	}
}

// meetPauses brings the timeline and the journal together: of each pattern the
// later change stands in both. If the timeline has lost nothing, only the journal
// is written.
func (r *Recovery) meetPauses(ctx context.Context, tl scheduler.Recovering, lost bool) error {
	var known []scheduler.PauseChange
	var list []scheduler.Pause
	if err := r.within(ctx, func(ctx context.Context) (err error) {
		if known, err = r.cfg.Store.Pauses(ctx); err == nil {
			list, err = tl.Pauses(ctx)
		}
		return err
	}); err != nil {
		return fmt.Errorf("read the pauses: %w", err)
	}
	told, stands := map[string]scheduler.Milli{}, map[string]scheduler.Milli{}
	for _, c := range known {
		told[c.Pattern] = c.At
	}
	for _, p := range list {
		stands[p.Pattern] = p.At
		if at, is := told[p.Pattern]; !is || at < p.At {
			if err := r.tellPause(ctx, scheduler.PauseChange{Pause: p}); err != nil {
				return err
			}
		}
	}
	if !lost {
		return nil
	}
	for _, resumed := range []bool{true, false} { // first what makes room
		for _, c := range known { // in the order of time, so that an empty timeline keeps the times
			if at, is := stands[c.Pattern]; c.Resumed != resumed || is && at >= c.At || resumed && !is {
				continue
			}
			if err := r.bringPause(ctx, tl, c); err != nil {
				return err
			}
		}
	}
	if len(known) == 0 {
		return nil
	}
	// What comes now is later than all that was, whatever the clock says by then.
	if last := known[len(known)-1]; last.Resumed && stands[last.Pattern] == 0 {
		return r.within(ctx, func(ctx context.Context) error {
			_, _, err := tl.Resume(ctx, last.Pattern, last.At)
			return err
		})
	}
	return nil
}

// bringPause makes a change of the journal in the timeline.
func (r *Recovery) bringPause(ctx context.Context, tl scheduler.Recovering, c scheduler.PauseChange) error {
	made := c
	err := r.within(ctx, func(ctx context.Context) (err error) {
		if c.Resumed {
			_, made, err = tl.Resume(ctx, c.Pattern, c.At)
		} else {
			made, err = tl.Pause(ctx, c.Pause)
		}
		return err
	})
	switch {
	case errors.Is(err, scheduler.ErrTooManyPauses):
		r.log.Error().Err(err).Str("pattern", c.Pattern).Msg("a pause of the journal is not restored")
		return nil
	case err != nil:
		return fmt.Errorf("restore the pause of %s: %w", c.Pattern, err)
	}
	r.log.Info().Str("pattern", c.Pattern).Bool("paused", !c.Resumed).Msg("pause restored")
	if made.At == c.At {
		return nil
	}
	return r.tellPause(ctx, made)
}

func (r *Recovery) tellPause(ctx context.Context, c scheduler.PauseChange) error {
	c.Number = 0 // it is the leader's, whatever certification it follows from
	return r.within(ctx, func(ctx context.Context) error { return r.cfg.Store.WritePause(ctx, c) })
}

// within bounds one step.
func (r *Recovery) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return do(ctx)
}
