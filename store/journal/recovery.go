package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
)

// RecoveryConfig is what a Recovery is made of.
type RecoveryConfig struct {
	// Store is nil with the journal off: then what is found is certified.
	Store    Store
	Timeline scheduler.Recoverable
	Mode     Mode
	// Window is how far back a store that kept its messages may have lost changes.
	Window time.Duration
	// EndedKeep is how long the timeline remembers ends: a push that the intake
	// sends again, or a client repeats, must find the end of its first.
	EndedKeep time.Duration
	Clock     *scheduler.Clock
	Timeout   time.Duration // of one call
	Log       zerolog.Logger
	// At, which may be nil, is told where a test may want to break off: after each
	// page of a restore, and before each bucket is certified.
	At func(point string)
}

// Recovery makes the timeline whole after its server changed, in the hands of
// the leader: it says what a server run that is not certified must hold, brings
// that there, and certifies it.
//
//	not certified ──▶ fence the journal ──▶ give claims back ──▶ pauses ──▶ drain the outbox ──▶
//	    empty (no certification): restore what lives or is dead, and ends  ─┐
//	    another run: compare what changed within the window                ─┴▶ certify
//
// In async mode an empty store accepts while it is filled (certified, filling);
// in sync mode it does not, so that no name is taken twice. Every step may be
// repeated: whoever finishes it, the result is the same.
type Recovery struct {
	cfg RecoveryConfig
	log zerolog.Logger
	// last is the number that this instance gave last: a store that was emptied
	// since knows nothing of it. Only the leader's goroutine uses it.
	last uint64
}

const (
	reclaimBatch = 500
	restorePage  = 1000
	restoreBytes = 4 << 20
	// lostBefore is how much earlier than its last entry a store may have lost
	// something, and clocks may differ.
	lostBefore = 30 * time.Second
	// numberBits leaves room for certifications within one term.
	numberBits = 20
)

// NewRecovery builds a Recovery.
func NewRecovery(cfg RecoveryConfig) *Recovery { return &Recovery{cfg: cfg, log: cfg.Log} }

// Result says what a Recovery did.
type Result struct {
	// Buckets is how many were not whole; nothing was done where it is 0.
	Buckets int
	// Restored counts what was brought back.
	Restored scheduler.RestoreReport
}

// Run returns when every bucket is whole, or with the error that stopped it. It
// is called under a valid lease; ctx ends with the leadership.
func (r *Recovery) Run(ctx context.Context, term uint64) (Result, error) {
	standings, err := r.standings(ctx)
	if err != nil {
		return Result{}, err
	}
	fenced, answers := r.fenced(ctx, standings)
	if fenced { // this server was replaced, or is the replacement that never heard of it
		r.cfg.Timeline.Renew()
		if standings, err = r.standings(ctx); err != nil {
			return Result{}, err
		}
		if fenced, _ = r.fenced(ctx, standings); fenced {
			for bucket := range standings {
				standings[bucket].Run = "" // nothing on it is whole
			}
		}
	}
	w := &work{Recovery: r, term: term, standings: standings, tl: r.cfg.Timeline.Recovering(standings), need: map[int]bool{}}
	for bucket, s := range standings {
		if !s.Whole() || s.Number < r.last {
			w.need[bucket] = true
			event := w.log.Warn()
			if s.Number == 0 {
				event = w.log.Info() // it is new, or empty: the line at the end tells
			}
			event.Int("bucket", bucket).Str("run", s.Now).Str("certified", s.Run).Bool("filling", s.Filling).Msg("the store is not certified")
		}
	}
	if len(w.need) == 0 {
		if answers {
			r.tellPauses(ctx, w.tl)
		}
		return Result{}, nil
	}
	started := time.Now()
	if err := w.run(ctx); err != nil {
		return Result{}, err
	}
	w.log.Info().Int("buckets", len(w.need)).Str("journal", r.cfg.Mode.String()).Int("read", w.report.Read).Int("added", w.report.Added).
		Int("raised", w.report.Raised).Int("newer", w.report.Newer).Dur("took", time.Since(started)).Msg("the store is certified")
	return Result{Buckets: len(w.need), Restored: w.report}, nil
}

// fencesWithin bounds the look at the fences of a store that seems whole: a
// journal that is away holds no leader up.
const fencesWithin = time.Second

// fenced tells whether the journal knows of a later certification of some bucket
// than its server does, and whether it answers: where it does not it knows nothing.
func (r *Recovery) fenced(ctx context.Context, standings []scheduler.Standing) (fenced, answers bool) {
	if r.cfg.Store == nil {
		return false, false
	}
	call, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, fencesWithin))
	defer cancel()
	fences, err := r.cfg.Store.Fences(call)
	if err != nil {
		return false, false
	}
	for bucket, s := range standings {
		if s.Number > 0 && s.Number < fences[bucket] {
			return true, true
		}
	}
	return false, true
}

func (r *Recovery) standings(ctx context.Context) ([]scheduler.Standing, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	standings, err := r.cfg.Timeline.Standings(call)
	if err != nil {
		return nil, fmt.Errorf("ask how the store stands: %w", err)
	}
	return standings, nil
}

// work is one run of a Recovery.
type work struct {
	*Recovery
	term      uint64
	standings []scheduler.Standing
	tl        scheduler.Recovering
	need      map[int]bool
	number    uint64
	report    scheduler.RestoreReport
}

func (w *work) run(ctx context.Context) error {
	if err := w.choose(ctx); err != nil {
		return err
	}
	empty, moved := map[int]bool{}, map[int]bool{}
	for bucket := range w.need {
		if s := w.standings[bucket]; s.Number == 0 || s.Filling {
			empty[bucket] = true
		} else {
			moved[bucket] = true
		}
		if err := w.reclaim(ctx, bucket); err != nil {
			return err
		}
	}
	if w.cfg.Store == nil {
		return w.certify(ctx, w.need, false)
	}
	if err := w.meetPauses(ctx, w.tl, w.need[scheduler.PausesBucket]); err != nil {
		return err
	}
	for bucket := range w.need {
		drained, refused, err := Drain(ctx, w.cfg.Store, w.tl, bucket, 0, w.cfg.Timeout)
		if err != nil {
			return fmt.Errorf("bucket %d: %w", bucket, err)
		}
		w.log.Info().Int("bucket", bucket).Int("changes", drained).Int("refused", refused).Msg("outbox drained before the comparison")
	}
	if w.cfg.Mode == Async {
		if err := w.certify(ctx, empty, true); err != nil {
			return err
		}
	}
	if len(empty) > 0 {
		if err := w.fill(ctx, empty); err != nil {
			return err
		}
	}
	if len(moved) > 0 {
		if err := w.reconcile(ctx, moved, w.since(moved), false); err != nil {
			return err
		}
	}
	return w.certify(ctx, w.need, false)
}

// since is how far back buckets that kept their messages may lack changes: the
// window, or longer where their last change is older than that.
func (w *work) since(buckets map[int]bool) scheduler.Milli {
	since := w.cfg.Clock.Milli().Add(-w.cfg.Window)
	for bucket := range buckets {
		if last := w.standings[bucket].Last; last > 0 {
			since = min(since, last.Add(-lostBefore))
		}
	}
	return since
}

// choose takes a number above all that stand, and raises the journal's fences to
// it: what was answered on the run before is in the journal now, or never will
// be.
func (w *work) choose(ctx context.Context) error {
	w.number = w.term << numberBits
	for _, s := range w.standings {
		w.number = max(w.number, s.Number+1)
	}
	w.number = max(w.number, w.last+1)
	w.Recovery.last = w.number
	if w.cfg.Store == nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	fences, err := w.cfg.Store.Fences(call)
	if err != nil {
		return fmt.Errorf("read the journal's fences: %w", err)
	}
	for _, n := range fences {
		w.number = max(w.number, n+1)
	}
	for bucket := range w.need {
		if err := w.cfg.Store.Fence(call, bucket, w.number); err != nil {
			return fmt.Errorf("fence bucket %d of the journal: %w", bucket, err)
		}
	}
	return nil
}

func (w *work) reclaim(ctx context.Context, bucket int) error {
	for {
		call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		n, err := w.tl.Reclaim(call, bucket, w.term, reclaimBatch, w.cfg.Clock.Milli())
		cancel()
		if err != nil {
			return fmt.Errorf("give back the claims of bucket %d: %w", bucket, err)
		}
		if n < reclaimBatch {
			return nil
		}
	}
}

// certify says of buckets that they may be used.
func (w *work) certify(ctx context.Context, buckets map[int]bool, filling bool) error {
	for bucket := range buckets {
		c := scheduler.Certification{Number: w.number, Run: w.standings[bucket].Now, DoubtUntil: w.cfg.Clock.Milli(), Filling: filling}
		if w.standings[bucket].Number == 0 && w.report.Added == 0 {
			c.DoubtUntil = 0 // nothing was there and nothing came: it is new
		}
		at(w.cfg.At, BeforeCertify)
		call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		err := w.tl.Certify(call, bucket, w.term, c)
		cancel()
		if err != nil {
			return fmt.Errorf("certify bucket %d: %w", bucket, err)
		}
	}
	return nil
}

// fill restores recent ends, and everything that lives or is dead, the earliest due
// first.
func (w *work) fill(ctx context.Context, buckets map[int]bool) error {
	if err := w.reconcile(ctx, buckets, w.cfg.Clock.Milli().Add(-w.cfg.EndedKeep), true); err != nil {
		return err
	}
	r := &Restorer{Store: w.cfg.Store, Timeline: w.tl, Buckets: len(w.standings), Clock: w.cfg.Clock, Timeout: w.cfg.Timeout, only: buckets, Log: w.log, At: w.cfg.At}
	report, err := r.Run(ctx, scheduler.RestoreRequest{Overdue: true}, nil)
	w.report = sumReports(w.report, report)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// reconcile brings to the buckets what changed since a time; endsOnly leaves what
// lives to fill.
func (w *work) reconcile(ctx context.Context, buckets map[int]bool, since scheduler.Milli, endsOnly bool) error {
	q := scheduler.ChangeQuery{Since: since, Limit: restorePage}
	for {
		call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		changes, err := w.cfg.Store.Changes(call, q)
		cancel()
		if err != nil {
			return fmt.Errorf("read what changed: %w", err)
		}
		if len(changes) == 0 {
			return nil
		}
		last := changes[len(changes)-1]
		q.AfterAt, q.AfterUID, q.AfterVersion = last.At, last.UID, last.Version
		seen := map[scheduler.UID]bool{}
		var uids []scheduler.UID
		for _, c := range changes {
			if !seen[c.UID] && buckets[c.UID.Bucket(len(w.standings))] && (!endsOnly || c.State.Ended()) {
				seen[c.UID] = true
				uids = append(uids, c.UID)
			}
		}
		if err := w.bring(ctx, uids, endsOnly); err != nil {
			return err
		}
		if len(changes) < restorePage {
			return nil // what comes later is made by the store as it is
		}
	}
}

// bring restores messages by uid.
func (w *work) bring(ctx context.Context, uids []scheduler.UID, endsOnly bool) error {
	for len(uids) > 0 {
		n := min(len(uids), 200) // they come whole
		call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		records, err := w.cfg.Store.Records(call, uids[:n])
		cancel()
		if err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		kept := records[:0]
		for _, r := range records {
			if !endsOnly || r.State.Ended() {
				kept = append(kept, r)
			}
		}
		report, err := restoreRecords(ctx, w.tl, len(w.standings), kept, w.cfg.Clock, w.cfg.Timeout)
		w.report = sumReports(w.report, report)
		if err != nil {
			return err
		}
		uids = uids[n:]
	}
	return nil
}

// restoreRecords brings records to their buckets, all at once.
func restoreRecords(ctx context.Context, tl scheduler.Mending, buckets int, records []scheduler.Record, clock *scheduler.Clock, timeout time.Duration) (report scheduler.RestoreReport, err error) {
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
			for len(mine) > 0 {
				n := fitting(mine)
				call, cancel := context.WithTimeout(ctx, timeout)
				got, err := tl.Restore(call, bucket, mine[:n], clock.Milli())
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
