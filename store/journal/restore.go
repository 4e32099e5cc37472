package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// Restorer brings what waits in the journal and what is dead there to the timeline,
// while traffic goes on: what is there in the same or a higher version stays as it
// is.
type Restorer struct {
	Store    Store
	Timeline scheduler.Mending
	Buckets  int
	Clock    *scheduler.Clock
	Timeout  time.Duration
	Log      zerolog.Logger
	// At, which may be nil, is told of each page restored.
	At func(point string)

	only map[int]bool // buckets, nil for all
}

// tellPause is how often progress is told.
const tellPause = time.Second

// Run restores what the request names; progress, which may be nil, is told now
// and then.
func (r *Restorer) Run(ctx context.Context, req scheduler.RestoreRequest, progress func(scheduler.RestoreReport)) (scheduler.RestoreReport, error) {
	if req.UID != "" {
		return r.one(ctx, req)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages, failed := r.read(ctx, req)
	var (
		report scheduler.RestoreReport
		told   = time.Now()
		begun  = time.Now()
	)
	for page := range pages {
		got, err := r.apply(ctx, page, req.DryRun)
		report = sumReports(report, got)
		if err != nil {
			return report, err
		}
		at(r.At, MidRestore)
		if progress != nil && time.Since(told) >= tellPause {
			progress(report)
			told = time.Now()
		}
		if req.Rate > 0 {
			pause(ctx, time.Until(begun.Add(time.Duration(float64(report.Read)/float64(req.Rate)*float64(time.Second)))))
		}
	}
	if err := <-failed; err != nil {
		return report, err
	}
	return report, ctx.Err()
}

// one restores a message by uid.
func (r *Restorer) one(ctx context.Context, req scheduler.RestoreRequest) (scheduler.RestoreReport, error) {
	call, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	records, err := r.Store.Records(call, []scheduler.UID{req.UID})
	if err != nil {
		return scheduler.RestoreReport{}, fmt.Errorf("read the record: %w: %w", scheduler.ErrUnavailable, err)
	}
	if len(records) == 0 || !stays(records[0].State) {
		return scheduler.RestoreReport{}, fmt.Errorf("%w: the journal has no live or dead message of this uid", scheduler.ErrUnknownID)
	}
	return r.apply(ctx, records, req.DryRun)
}

// staying are the states of a message, as the journal tells them, that must be found
// in the timeline: it waits, or is dead and waits for somebody to deal with it.
func staying() []scheduler.State {
	return []scheduler.State{scheduler.StateWaiting, scheduler.StateDead}
}

func stays(s scheduler.State) bool { return slices.Contains(staying(), s) }

// read pages through what stays, one page ahead of whoever takes them.
func (r *Restorer) read(ctx context.Context, req scheduler.RestoreRequest) (<-chan []scheduler.Record, <-chan error) {
	pages, failed := make(chan []scheduler.Record, 1), make(chan error, 1)
	q := scheduler.RecordQuery{Topic: req.Topic, States: staying(), Limit: restorePage, Bytes: restoreBytes, Whole: !req.DryRun}
	if !req.Overdue {
		q.DueFrom = r.Clock.Milli() + 1
	}
	if req.Rate > 0 { // a page must not wait for long: what it tells grows old
		q.Limit = max(min(restorePage, 2*req.Rate), 1)
	}
	begun := r.Clock.Now().Add(time.Minute) // clocks may differ
	go func() {                             // ends with ctx, which Run cancels
		defer close(failed)
		defer close(pages)
		for {
			call, cancel := context.WithTimeout(ctx, r.Timeout)
			page, err := r.Store.List(call, q)
			cancel()
			if err != nil {
				failed <- fmt.Errorf("read the journal: %w: %w", scheduler.ErrUnavailable, err)
				return
			}
			if !slices.ContainsFunc(page, func(r scheduler.Record) bool { return r.UID.Time().Before(begun) }) {
				return // the end, or what was accepted since by the store as it is
			}
			last := page[len(page)-1]
			q.AfterDue, q.AfterUID = last.Due, last.UID
			select {
			case pages <- page:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pages, failed
}

// apply restores a page, or tells what that would do.
func (r *Restorer) apply(ctx context.Context, page []scheduler.Record, dry bool) (report scheduler.RestoreReport, err error) {
	if r.only != nil {
		kept := make([]scheduler.Record, 0, len(page))
		for _, rec := range page {
			if r.only[rec.UID.Bucket(r.Buckets)] {
				kept = append(kept, rec)
			}
		}
		page = kept
	}
	if !dry {
		return restoreRecords(ctx, r.Timeline, r.Buckets, page, r.Clock, r.Timeout)
	}
	byBucket := make([][]scheduler.UID, r.Buckets)
	for i := range page {
		b := page[i].UID.Bucket(r.Buckets)
		byBucket[b] = append(byBucket[b], page[i].UID)
	}
	stands := map[scheduler.UID]scheduler.Stand{}
	for bucket, uids := range byBucket {
		if len(uids) == 0 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, r.Timeout)
		got, err := r.Timeline.Versions(call, bucket, uids)
		cancel()
		if err != nil {
			return report, fmt.Errorf("ask for versions in bucket %d: %w", bucket, err)
		}
		for uid, s := range got {
			stands[uid] = s
		}
	}
	for i := range page {
		report.Read++
		countCode(&report, wouldBe(&page[i], stands[page[i].UID]))
	}
	return report, nil
}

// wouldBe is what a restore would make of a record.
func wouldBe(r *scheduler.Record, s scheduler.Stand) scheduler.RestoreCode {
	switch {
	case s.Version == 0:
		return scheduler.RestoreAdded
	case s.Version == r.Version:
		return scheduler.RestoreSame
	case s.Version > r.Version || s.State.Ended():
		return scheduler.RestoreNewer
	case s.State == scheduler.StateInFlight:
		return scheduler.RestoreBusy
	}
	return scheduler.RestoreRaised
}
