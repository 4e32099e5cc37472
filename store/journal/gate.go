package journal

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
)

// Gate keeps a store closed until it is prepared: nothing may be written to, or read
// from, a database that may belong to somebody else. Its answers are those of the
// store, and ErrUnavailable where the store could not be asked.
type Gate struct {
	store Store
	open  atomic.Bool
}

var _ Store = (*Gate)(nil)

// NewGate makes a closed gate.
func NewGate(store Store) *Gate { return &Gate{store: store} }

// Open lets calls through from now on.
func (g *Gate) Open() { g.open.Store(true) }

func (g *Gate) check() error {
	if g.open.Load() {
		return nil
	}
	return fmt.Errorf("%w: the journal is not prepared yet", scheduler.ErrUnavailable)
}

// ask runs one call of the store.
func ask[T any](g *Gate, do func() (T, error)) (T, error) {
	if err := g.check(); err != nil {
		var none T
		return none, err
	}
	return do()
}

// Write records changes.
func (g *Gate) Write(ctx context.Context, fences map[int]uint64, changes []scheduler.Change) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.store.Write(ctx, fences, changes)
}

// Fence raises a bucket's certification.
func (g *Gate) Fence(ctx context.Context, bucket int, number uint64) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.store.Fence(ctx, bucket, number)
}

// Fences are the certifications that stand.
func (g *Gate) Fences(ctx context.Context) (map[int]uint64, error) {
	return ask(g, func() (map[int]uint64, error) { return g.store.Fences(ctx) })
}

// Versions returns the versions of messages.
func (g *Gate) Versions(ctx context.Context, uids []scheduler.UID) (map[scheduler.UID]scheduler.Stand, error) {
	return ask(g, func() (map[scheduler.UID]scheduler.Stand, error) { return g.store.Versions(ctx, uids) })
}

// Records returns messages whole.
func (g *Gate) Records(ctx context.Context, uids []scheduler.UID) ([]scheduler.Record, error) {
	return ask(g, func() ([]scheduler.Record, error) { return g.store.Records(ctx, uids) })
}

// Find returns what a reference names.
func (g *Gate) Find(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Record, error) {
	return ask(g, func() ([]scheduler.Record, error) { return g.store.Find(ctx, ref, limit) })
}

// Names returns the messages that have the uids and names of pushes.
func (g *Gate) Names(ctx context.Context, pushes []*scheduler.Message) ([][]scheduler.Record, error) {
	return ask(g, func() ([][]scheduler.Record, error) { return g.store.Names(ctx, pushes) })
}

// History is every change of a message.
func (g *Gate) History(ctx context.Context, uid scheduler.UID) ([]scheduler.Change, error) {
	return ask(g, func() ([]scheduler.Change, error) { return g.store.History(ctx, uid) })
}

// List returns a page of records.
func (g *Gate) List(ctx context.Context, q scheduler.RecordQuery) ([]scheduler.Record, error) {
	return ask(g, func() ([]scheduler.Record, error) { return g.store.List(ctx, q) })
}

// Changes returns a page of changes.
func (g *Gate) Changes(ctx context.Context, q scheduler.ChangeQuery) ([]scheduler.Change, error) {
	return ask(g, func() ([]scheduler.Change, error) { return g.store.Changes(ctx, q) })
}

// Forecast counts what falls due when.
func (g *Gate) Forecast(ctx context.Context, q scheduler.ForecastQuery) ([]scheduler.Forecast, error) {
	return ask(g, func() ([]scheduler.Forecast, error) { return g.store.Forecast(ctx, q) })
}

// WritePause keeps a change of pauses.
func (g *Gate) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.store.WritePause(ctx, c)
}

// Pauses are the last changes of all patterns.
func (g *Gate) Pauses(ctx context.Context) ([]scheduler.PauseChange, error) {
	return ask(g, func() ([]scheduler.PauseChange, error) { return g.store.Pauses(ctx) })
}

// MaxTerm is the highest term that any change carries.
func (g *Gate) MaxTerm(ctx context.Context) (uint64, error) {
	return ask(g, func() (uint64, error) { return g.store.MaxTerm(ctx) })
}

// Prune deletes what ended long ago.
func (g *Gate) Prune(ctx context.Context, before scheduler.Milli, limit int) (int, error) {
	return ask(g, func() (int, error) { return g.store.Prune(ctx, before, limit) })
}

// Ping reports whether the journal answers.
func (g *Gate) Ping(ctx context.Context) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.store.Ping(ctx)
}
