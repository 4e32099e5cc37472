package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

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
	// At, which may be nil, is called after each page restored.
	At func(point string)

	only map[int]bool // buckets, nil for all
}

// tellPause is how often progress is reported.
const tellPause = time.Second

// Run restores what the request names; progress, which may be nil, is called now
// and then.
func (r *Restorer) Run(ctx context.Context, req scheduler.RestoreRequest,
	progress func(scheduler.RestoreReport)) (scheduler.RestoreReport, error) {
	if req.UID != "" {
		return r.one(ctx, req)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages, failed := r.read(ctx, req)
	doubts := newDoubts(r.Timeline, r.Buckets, r.Timeout)
	var (
		report scheduler.RestoreReport
		told   = time.Now()
		begun  = time.Now()
	)
	for page := range pages {
		got, err := r.apply(ctx, doubts, page.records, page.read, req.DryRun)
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
			pause(ctx,
				time.Until(begun.Add(time.Duration(float64(report.Read)/float64(req.Rate)*float64(time.Second)))))
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
	read := r.Clock.Milli()
	records, err := r.Store.Records(call, []scheduler.UID{req.UID})
	if err != nil {
		return scheduler.RestoreReport{}, fmt.Errorf("read the record: %w: %w", ErrNoDatabase, err)
	}
	if len(records) == 0 || !stays(records[0].State) {
		return scheduler.RestoreReport{}, fmt.Errorf("%w: the journal has no live or dead message of this uid",
			scheduler.ErrUnknownID)
	}
	return r.apply(ctx, newDoubts(r.Timeline, r.Buckets, r.Timeout), records, read, req.DryRun)
}

// staying are the states, as the journal has them, of a message that must be found in
// the timeline: it waits, or is dead and waits for an operator.
func staying() []scheduler.State {
	return []scheduler.State{scheduler.StateWaiting, scheduler.StateDead}
}

func stays(s scheduler.State) bool { return slices.Contains(staying(), s) }

// page is a part of what stays, and when it began to be read.
type page struct {
	records []scheduler.Record
	read    scheduler.Milli
}

// read pages through what stays, one page ahead of its reader.
func (r *Restorer) read(ctx context.Context, req scheduler.RestoreRequest) (<-chan page, <-chan error) {
	pages, failed := make(chan page, 1), make(chan error, 1)
	q := scheduler.RecordQuery{Topic: req.Topic, States: staying(), Limit: restorePage, Bytes: restoreBytes,
		Whole: !req.DryRun}
	pattern := wildcard(req.Topic)
	if pattern { // no index knows it: all are read, page by page, and those that match are kept
		q.Topic = ""
	}
	if !req.Overdue {
		q.DueFrom = r.Clock.Milli() + 1
	}
	if req.Rate > 0 { // a page must not wait for long: what it tells grows old
		q.Limit = max(min(restorePage, 2*req.Rate), 1)
	}
	go func() { // ends with ctx, which Run cancels
		defer close(failed)
		defer close(pages)
		// What is accepted from now on the store has itself, so the restore ends here.
		// The end is a place, not a time: no clock shows what was accepted before, and
		// under traffic there is always more.
		final := q
		final.Latest, final.Limit, final.Whole = true, 1, false
		end, err := r.list(ctx, final)
		if err != nil {
			failed <- err
			return
		}
		if len(end) == 0 {
			return
		}
		q.DueTo = end[0].Due
		for {
			began := r.Clock.Milli()
			records, err := r.list(ctx, q)
			if err != nil {
				failed <- err
				return
			}
			if len(records) == 0 {
				return
			}
			last := records[len(records)-1]
			q.AfterDue, q.AfterUID = last.Due, last.UID
			if pattern {
				records = slices.DeleteFunc(records, func(rec scheduler.Record) bool {
					return !scheduler.Matches(req.Topic, rec.Topic)
				})
			}
			select {
			case pages <- page{records, began}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pages, failed
}

// wildcard reports whether a topic is a pattern that may match several.
func wildcard(topic string) bool {
	tokens := strings.Split(topic, ".")
	return slices.Contains(tokens, "*") || tokens[len(tokens)-1] == ">"
}

// list reads one page.
func (r *Restorer) list(ctx context.Context, q scheduler.RecordQuery) ([]scheduler.Record, error) {
	call, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	page, err := r.Store.List(call, q)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w: %w", ErrNoDatabase, err)
	}
	return page, nil
}

// apply restores a page, or in a dry run counts what that would do.
func (r *Restorer) apply(ctx context.Context, doubts *doubts, page []scheduler.Record, read scheduler.Milli,
	dry bool) (report scheduler.RestoreReport, err error) {
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
		return restoreRecords(ctx, doubts, page, read, r.Clock)
	}
	byBucket := make([][]scheduler.Record, r.Buckets)
	for i := range page {
		b := page[i].UID.Bucket(r.Buckets)
		byBucket[b] = append(byBucket[b], page[i])
	}
	for bucket, mine := range byBucket {
		if len(mine) == 0 {
			continue
		}
		kept, left, err := doubts.sure(ctx, bucket, mine)
		if err != nil {
			return report, err
		}
		report.Read, report.Newer = report.Read+len(mine), report.Newer+left
		uids := make([]scheduler.UID, len(kept))
		for i := range kept {
			uids[i] = kept[i].UID
		}
		call, cancel := context.WithTimeout(ctx, r.Timeout)
		stands, err := r.Timeline.Versions(call, bucket, uids)
		cancel()
		if err != nil {
			return report, fmt.Errorf("ask for versions in bucket %d: %w", bucket, err)
		}
		for i := range kept {
			countCode(&report, wouldBe(&kept[i], stands[kept[i].UID]))
		}
	}
	return report, nil
}

// wouldBe is what a restore would make of a record.
func wouldBe(r *scheduler.Record, s scheduler.Stand) scheduler.RestoreCode {
	switch {
	case s.Version == 0:
		return scheduler.RestoreAdded
	case s.Version == r.Version && r.State.Ended() && !s.State.Ended(): // of one version an end wins
		if s.State == scheduler.StateInFlight {
			return scheduler.RestoreBusy
		}
		return scheduler.RestoreRaised
	case s.Version == r.Version:
		return scheduler.RestoreSame
	case s.Version > r.Version || s.State.Ended():
		return scheduler.RestoreNewer
	case s.State == scheduler.StateInFlight:
		return scheduler.RestoreBusy
	}
	return scheduler.RestoreRaised
}

// restoreRecords brings records, which began to be read at that time, to their
// buckets, all at once.
func restoreRecords(ctx context.Context, doubts *doubts, records []scheduler.Record, read scheduler.Milli,
	clock *scheduler.Clock) (report scheduler.RestoreReport, err error) {
	buckets := len(doubts.buckets)
	byBucket := make([][]scheduler.Record, buckets)
	for _, r := range records {
		report.Read++
		if r.Content == 0 { // what it was is not known yet: the entry that tells is on its way
			continue
		}
		b := r.UID.Bucket(buckets)
		byBucket[b] = append(byBucket[b], r)
	}
	group, ctx := errgroup.WithContext(ctx)
	codes := make([][]scheduler.RestoreCode, buckets)
	for bucket, mine := range byBucket {
		if len(mine) == 0 {
			continue
		}
		group.Go(func() error {
			mine, left, err := doubts.sure(ctx, bucket, mine)
			if err != nil {
				return err
			}
			codes[bucket] = slices.Repeat([]scheduler.RestoreCode{scheduler.RestoreNewer}, left)
			for len(mine) > 0 {
				n := fitting(mine)
				call, cancel := context.WithTimeout(ctx, doubts.timeout)
				got, err := doubts.tl.Restore(call, bucket, mine[:n], read, clock.Milli())
				cancel()
				if errors.Is(err, scheduler.ErrOutcomeUnknown) && ctx.Err() == nil {
					continue // to send it again is safe
				}
				if err != nil {
					return fmt.Errorf("restore %d to bucket %d: %w", n, bucket, err)
				}
				codes[bucket] = append(codes[bucket], got...)
				mine = mine[n:]
			}
			return nil
		})
	}
	err = group.Wait()
	for _, list := range codes {
		for _, code := range list {
			countCode(&report, code)
		}
	}
	return report, err
}

// fitting is how many records go into one script.
func fitting(records []scheduler.Record) int {
	n, bytes := 0, 0
	for n < min(len(records), 250) && (n == 0 || bytes < restoreBytes/4) {
		bytes += len(records[n].Body)
		n++
	}
	return n
}

func countCode(r *scheduler.RestoreReport, code scheduler.RestoreCode) {
	switch code {
	case scheduler.RestoreSame:
		r.Same++
	case scheduler.RestoreAdded:
		r.Added++
	case scheduler.RestoreRaised:
		r.Raised++
	case scheduler.RestoreBusy:
		r.InFlight++
	case scheduler.RestoreNewer:
		r.Newer++
	}
}

func sumReports(a, b scheduler.RestoreReport) scheduler.RestoreReport {
	return scheduler.RestoreReport{Read: a.Read + b.Read, Added: a.Added + b.Added, Raised: a.Raised + b.Raised,
		Same: a.Same + b.Same, InFlight: a.InFlight + b.InFlight, Newer: a.Newer + b.Newer}
}
