package journal_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// counted counts the entries that are listed as quarantined.
type counted struct {
	line
	n *atomic.Int64
}

func (c counted) Quarantined(ctx context.Context, bucket message.Bucket,
	after string) ([]record.Quarantined, string, error) {
	list, next, err := c.line.Quarantined(ctx, bucket, after)
	c.n.Add(int64(len(list)))
	return list, next, err
}

// A restore of many pages reads what is quarantined once, and what comes to it meanwhile.
func TestRestore_ReadsTheQuarantineOnce(t *testing.T) {
	onBoth(t, func(a *apart) {
		later := schedulertest.DueIn(3 * time.Hour)
		var n atomic.Int64
		a.line = counted{a.line, &n}
		apart := func(m *message.Message) { // its end is what the journal lacks, and the store has forgotten
			a.push(m)
			if _, err := a.drain(); err != nil {
				a.Fatal(err)
			}
			a.store.refuse(m, errValue)
			a.cancel(m)
			if _, err := a.drain(); err != nil {
				a.Fatal(err)
			}
		}
		const first = record.QuarantinedPage + 2
		for i := range first {
			apart(schedulertest.Message(i, later))
		}
		var changes []record.Change
		for i := range 2500 {
			m := schedulertest.Message(1000+i, later)
			changes = append(changes,
				record.Change{UID: m.UID, Version: 2, State: message.StateWaiting, Due: m.Due + 1,
					At: a.now, Message: m})
		}
		for some := range slices.Chunk(changes, 500) {
			a.must("write", a.store.Write(a.Context(), nil, some))
		}
		last := schedulertest.Message(5000, schedulertest.DueIn(4*time.Hour))
		a.push(last)
		if _, err := a.drain(); err != nil {
			a.Fatal(err)
		}
		pages := 0
		r := &journal.Reconciler{Store: a.store.Store, Timeline: a.line, Buckets: crashBuckets, Clock: a.clock,
			Timeout: time.Minute,
			Log:     zerolog.Nop(), At: func(string) {
				if pages++; pages > 1 {
					return
				}
				a.store.refuse(last, errValue) // after the first page
				a.cancel(last)
				if _, err := a.drain(); err != nil {
					a.Fatal(err)
				}
			}}
		report, err := r.Restore(a.Context(), record.RestoreRequest{Overdue: true}, nil)
		a.must("restore", err)
		if pages < 3 || n.Load() != first+1 || report.Added != len(changes) {
			a.Errorf("%d pages, %d entries were read, %+v", pages, n.Load(), report)
		}
	})
}
