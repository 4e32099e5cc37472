package journal

import (
	"context"
	"errors"

	"github.com/tarry-mq/tarry/scheduler"
)

// tellPauses tells the journal what it lacks of the pauses of a store that is whole.
// A journal that is away holds no leader up.
func (r *Recovery) tellPauses(ctx context.Context, tl scheduler.Recovering) {
	if r.cfg.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, fencesWithin))
	defer cancel()
	if err := r.meetPauses(ctx, tl, false); err != nil {
		r.log.Warn().Err(err).Msg("the journal is not told of the pauses")
	}
}

// meetPauses brings the timeline and the journal together: of each pattern the
// later change stands in both. Where the timeline's server is the one that was
// certified it lacks nothing, and only the journal is told: of what was paused
// while it was off or did not answer.
func (r *Recovery) meetPauses(ctx context.Context, tl scheduler.Recovering, lost bool) error {
	known, err := r.cfg.Store.Pauses(ctx)
	if err != nil {
		return err
	}
	list, err := tl.Pauses(ctx)
	if err != nil {
		return err
	}
	told, stands := map[string]scheduler.Milli{}, map[string]scheduler.Milli{}
	for _, c := range known {
		told[c.Pattern] = c.At
	}
	for _, p := range list {
		stands[p.Pattern] = p.At
		if at, is := told[p.Pattern]; !is || at < p.At {
			if err := r.cfg.Store.WritePause(ctx, scheduler.PauseChange{Pause: p}); err != nil {
				return err
			}
		}
	}
	if !lost {
		return nil
	}
	for _, c := range known { // in the order of time, so that they keep their times
		if at, is := stands[c.Pattern]; is && at >= c.At {
			continue
		}
		if err := r.bringPause(ctx, tl, c); err != nil {
			return err
		}
	}
	return nil
}

// bringPause makes a change of the journal in the timeline.
func (r *Recovery) bringPause(ctx context.Context, tl scheduler.Recovering, c scheduler.PauseChange) error {
	var at scheduler.Milli
	var err error
	if c.Resumed {
		_, at, err = tl.Resume(ctx, c.Pattern, c.At)
	} else {
		at, err = tl.Pause(ctx, c.Pause)
	}
	switch {
	case errors.Is(err, scheduler.ErrTooManyPauses):
		r.log.Error().Err(err).Str("pattern", c.Pattern).Msg("a pause of the journal is not restored")
		return nil
	case err != nil:
		return err
	}
	r.log.Info().Str("pattern", c.Pattern).Bool("paused", !c.Resumed).Msg("pause restored")
	if at == c.At {
		return nil
	}
	c.At = at
	return r.cfg.Store.WritePause(ctx, c)
}
