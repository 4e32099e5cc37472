package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Answers is the journal as the answers of an instance need it. It is a scheduler.Journal.
type Answers struct {
	*Writer
	*Reconciler
	// During bounds a question to the journal, until stop is called: it ends with ctx, or when nobody should wait for it
	// any longer.
	During func(ctx context.Context) (bound context.Context, stop func())
	Log    zerolog.Logger
}

var _ scheduler.Journal = Answers{}

// findLimit is the maximum number of messages of one name that are read from the journal.
const findLimit = 20

// Find looks up messages that the timeline does not know.
func (j Answers) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	ctx, stop := j.During(ctx)
	defer stop()
	records, err := j.Store.Find(ctx, ref, findLimit)
	var all [][]message.Info
	if err == nil {
		all, err = j.known(ctx, [][]record.Record{records})
	}
	if err != nil {
		j.Log.Warn().Err(err).Msg("the journal does not answer")
		return nil, ErrNoDatabase
	}
	return all[0], nil
}

// known returns the messages of records that the journal knows. Of one that lives, and whose acceptance it does not
// have, only the timeline knows, or it was lost with it.
func (j Answers) known(ctx context.Context, records [][]record.Record) ([][]message.Info, error) {
	bare := func(r record.Record) bool { return r.Content == 0 && !r.State.Ended() }
	var unsure []message.UID
	for _, list := range records {
		for _, r := range list {
			if bare(r) {
				unsure = append(unsure, r.UID)
			}
		}
	}
	accepted := map[message.UID][]uint64{} // without content, since the database refused it
	if len(unsure) > 0 {
		var err error
		if accepted, err = j.Store.Bare(ctx, unsure); err != nil {
			return nil, err
		}
	}
	all := make([][]message.Info, len(records))
	for i, list := range records {
		for _, r := range list {
			if !bare(r) || len(accepted[r.UID]) > 0 {
				all[i] = append(all[i], r.Info)
			}
		}
	}
	return all, nil
}

// Rejects looks up rejected pushes.
func (j Answers) Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error) {
	ctx, stop := j.During(ctx)
	defer stop()
	found, err := j.Store.Rejects(ctx, ref, limit)
	if err != nil {
		j.Log.Warn().Err(err).Msg("the journal does not answer")
		return nil, ErrNoDatabase
	}
	return found, nil
}

// Restore restores one message.
func (j Answers) Restore(ctx context.Context, uid message.UID) error {
	r, err := j.Reconciler.Restore(ctx, record.RestoreRequest{UID: uid}, nil)
	if err == nil && r.Added+r.Raised+r.Same+r.InFlight == 0 { // its content is on its way, or its state is not known
		err = fmt.Errorf("%w: the journal cannot restore %s yet", scheduler.ErrUnavailable, uid)
	}
	return err
}

// Remembered returns the messages that have the uids and names of pushes.
func (j Answers) Remembered(ctx context.Context, pushes []*message.Message) ([][]message.Info, error) {
	records, err := j.Store.Names(ctx, pushes)
	var all [][]message.Info
	if err == nil {
		all, err = j.known(ctx, records)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDatabase, err)
	}
	return all, nil
}

// WritePause records a change of pauses.
func (j Answers) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	if err := j.Store.WritePause(ctx, c); err != nil {
		j.Log.Warn().Err(err).Str("pattern", c.Pattern).Bool("paused", !c.Resumed).Msg(
			"the journal does not take a pause")
		return errors.New("the journal does not answer") // the log has the reason, which may name hosts
	}
	return nil
}
