package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

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
	// At, which may be nil, is called where a test may want to break off: after each
	// page of a restore, and before each bucket is certified.
	At func(point string)
}

// Recovery makes the timeline whole after its server changed, in the hands of
// the leader: it says what a server run that is not certified must hold, brings
// that there, and certifies it.
//
//	not certified ──▶ fence the journal ──▶ begin the term ──▶ pauses ──▶ drain the outbox ──▶
//	    empty (no certification): restore what lives or is dead, and ends        ─┐
//	    another run: compare what is claimed and what changed within the window  ─┴▶ give claims back ──▶ certify
//
// Claims are given back last: that is a change, and its version may be the one of
// a change that the store has lost and the journal knows.
//
// In async mode an empty store accepts while it is filled (certified, filling);
// in sync mode it does not, so that no name is taken twice. Every step may be
// repeated: whoever finishes it, the result is the same.
type Recovery struct {
	cfg RecoveryConfig
	log zerolog.Logger
	// last is the number that this instance gave each bucket last; a store that was emptied
	// since has lost it. Only the leader's goroutine uses it.
	last map[int]uint64
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
func NewRecovery(cfg RecoveryConfig) *Recovery {
	return &Recovery{cfg: cfg, log: cfg.Log, last: map[int]uint64{}}
}

// Result says what a Recovery did.
type Result struct {
	// Buckets is how many were not whole; nothing was done where it is 0.
	Buckets int
	// Away are those that do not answer: nothing was done with them.
	Away []int
	// Restored counts what was brought back.
	Restored scheduler.RestoreReport
}

// Run makes every bucket whole that answers, or returns the error that stopped it.
// It is called under a valid lease; ctx ends with the leadership.
func (r *Recovery) Run(ctx context.Context, term uint64) (Result, error) {
	return r.Mend(ctx, term, nil, func(int) {})
}

// Mend is Run for some buckets, all where they are nil. It calls whole with each as
// soon as that may be used. The bucket that keeps the pauses is always among them, if
// it answers: what is paused must stand before any other may be claimed from, whichever
// of them noticed first that their server changed.
func (r *Recovery) Mend(ctx context.Context, term uint64, buckets []int, whole func(bucket int)) (Result, error) {
	standings, err := r.standings(ctx)
	if err != nil {
		return Result{}, err
	}
	fenced, answers := r.fenced(ctx, standings)
	if len(fenced) > 0 { // their server was replaced, or is the replacement that never heard of it
		r.cfg.Timeline.Renew()
		if standings, err = r.standings(ctx); err != nil {
			return Result{}, err
		}
		fenced, _ = r.fenced(ctx, standings)
		replaced := map[string]bool{}
		for _, bucket := range fenced {
			replaced[standings[bucket].Now] = true
		}
		for bucket := range standings {
			if s := &standings[bucket]; replaced[s.Now] {
				s.Run = "" // nothing on it is whole
			}
		}
	}
	w := &work{Recovery: r, term: term, standings: standings, need: map[int]bool{}}
	var result Result
	for bucket, s := range standings {
		switch {
		case buckets != nil && !slices.Contains(buckets, bucket) && (bucket != scheduler.PausesBucket || s.Err != nil):
		case s.Err != nil:
			result.Away = append(result.Away, bucket)
		case s.Whole() && s.Number >= r.last[bucket]:
			whole(bucket)
		default:
			w.need[bucket] = true
			event := w.log.Warn()
			if s.Number == 0 {
				event = w.log.Debug() // it is new, or empty: the line at the end tells
			}
			event.Int("bucket", bucket).Str("run", s.Now).Str("certified", s.Run).Bool("filling", s.Filling).Msg(
				"the store is not certified")
		}
	}
	if len(w.need) == 0 {
		if answers {
			r.tellPauses(ctx, r.cfg.Timeline.Recovering(standings, term, 0))
		}
		return result, nil
	}
	started := time.Now()
	if err := w.run(ctx); err != nil {
		return Result{}, err
	}
	for bucket := range w.need {
		whole(bucket)
	}
	w.log.Info().Int("buckets", len(w.need)).Str("journal", r.cfg.Mode.String()).Int("read", w.report.Read).Int(
		"added", w.report.Added).
		Int("raised", w.report.Raised).Int("newer", w.report.Newer).Dur("took", time.Since(started)).Msg(
		"the store is certified")
	result.Buckets, result.Restored = len(w.need), w.report
	return result, nil
}

// fencesWithin bounds the look at the fences of a store that seems whole: a
// journal that is away holds no leader up.
const fencesWithin = time.Second

// fenced are the buckets of whose certification the journal knows a later one than
// their server does; answers reports whether it answers: where it does not it knows
// nothing.
func (r *Recovery) fenced(ctx context.Context, standings []scheduler.Standing) (fenced []int, answers bool) {
	if r.cfg.Store == nil {
		return nil, false
	}
	call, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, fencesWithin))
	defer cancel()
	fences, err := r.cfg.Store.Fences(call)
	if err != nil {
		return nil, false
	}
	for bucket, s := range standings {
		if s.Number > 0 && s.Number < fences[bucket] {
			fenced = append(fenced, bucket)
		}
	}
	return fenced, true
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
	doubts    *doubts
	need      map[int]bool
	number    uint64
	filled    map[int]scheduler.Milli // buckets that were empty: since when their ends are brought back
	report    scheduler.RestoreReport
}

func (w *work) run(ctx context.Context) error {
	if err := w.choose(ctx); err != nil {
		return err
	}
	w.tl = w.cfg.Timeline.Recovering(w.standings, w.term, w.number)
	w.doubts = newDoubts(w.tl, len(w.standings), w.cfg.Timeout)
	empty, moved := map[int]bool{}, map[int]bool{}
	for bucket := range w.need {
		if s := w.standings[bucket]; s.Number == 0 || s.Filling {
			empty[bucket] = true
		} else {
			moved[bucket] = true
		}
		if err := w.begin(ctx, bucket); err != nil {
			return err
		}
	}
	if w.cfg.Store == nil {
		if err := w.reclaim(ctx, w.need); err != nil {
			return err
		}
		return w.certify(ctx, w.need, false)
	}
	if err := w.meetPauses(ctx, w.tl, w.need[scheduler.PausesBucket]); err != nil {
		return err
	}
	for bucket := range w.need {
		drained, refused, err := Drain(ctx, w.cfg.Store, w.tl, bucket, 0, w.cfg.Timeout, w.log)
		if errors.Is(err, scheduler.ErrQuarantineFull) || errors.Is(err, scheduler.ErrNewer) {
			// What stays is here, and the drainer says so again.
			w.log.Error().Err(err).Int("bucket", bucket).Msg("a bucket is certified although its outbox is not drained")
		} else if err != nil {
			return fmt.Errorf("bucket %d: %w", bucket, err)
		}
		if err := w.apart(ctx, bucket); err != nil {
			return err
		}
		w.log.Info().Int("bucket", bucket).Int("changes", drained).Int("refused", refused).Msg(
			"outbox drained before the comparison")
	}
	w.filled = make(map[int]scheduler.Milli, len(empty))
	for bucket := range empty {
		w.filled[bucket] = w.cfg.Clock.Milli().Add(-w.cfg.EndedKeep)
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
		if err := w.reconcileClaims(ctx, moved); err != nil {
			return err
		}
		if err := w.reconcile(ctx, moved, w.since(moved), false); err != nil {
			return err
		}
		if err := w.reclaim(ctx, moved); err != nil {
			return err
		}
	}
	return w.certify(ctx, w.need, false)
}

// apart says which messages the journal lacks changes of: the bucket has what became
// of them, so that it may be used, but a store that is emptied later gets them back as
// the journal has them.
func (w *work) apart(ctx context.Context, bucket int) error {
	for q, err := range quarantined(ctx, w.tl, bucket, new(string), w.cfg.Timeout) {
		if err != nil {
			return err
		}
		if !q.Known {
			w.log.Error().Int("bucket", bucket).Str("entry", q.ID).Str("why", q.Reason).Strs("uids", words(q.UIDs)).
				Msg("a bucket is certified although the journal lacks changes of it")
		}
	}
	return nil
}

// since returns how far back buckets that kept their messages may lack changes: the
// window, or longer where their last change is older than that. The server's clock
// is used only to measure how long ago that was.
func (w *work) since(buckets map[int]bool) scheduler.Milli {
	now := w.cfg.Clock.Milli()
	since := now.Add(-w.cfg.Window)
	for bucket := range buckets {
		if s := &w.standings[bucket]; s.Last > 0 {
			since = min(since, (now - (s.Clock - s.Last)).Add(-lostBefore))
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
	for _, n := range w.last {
		w.number = max(w.number, n+1)
	}
	if w.cfg.Store == nil {
		w.given()
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
	w.given()
	for bucket := range w.need {
		if err := w.cfg.Store.Fence(call, bucket, w.number); err != nil {
			return fmt.Errorf("fence bucket %d of the journal: %w", bucket, err)
		}
	}
	return nil
}

// given remembers the number that the buckets are about to get.
func (w *work) given() {
	for bucket := range w.need {
		w.last[bucket] = w.number
	}
}

func (w *work) begin(ctx context.Context, bucket int) error {
	call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	if err := w.tl.Begin(call, bucket, w.term); err != nil {
		return fmt.Errorf("begin the term in bucket %d: %w", bucket, err)
	}
	return nil
}

// reclaim gives back what is in flight.
func (w *work) reclaim(ctx context.Context, buckets map[int]bool) error {
	for bucket := range buckets {
		for n := reclaimBatch; n == reclaimBatch; {
			var err error
			call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
			n, err = w.tl.Reclaim(call, bucket, w.term, reclaimBatch, w.cfg.Clock.Milli())
			cancel()
			if err != nil {
				return fmt.Errorf("give back the claims of bucket %d: %w", bucket, err)
			}
		}
	}
	return nil
}

// reconcileClaims brings to buckets what the journal knows of the messages in
// flight there, however long ago it happened.
func (w *work) reconcileClaims(ctx context.Context, buckets map[int]bool) error {
	for bucket := range buckets {
		for after := scheduler.UID(""); ; {
			call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
			uids, err := w.tl.Claims(call, bucket, after, reclaimBatch)
			cancel()
			if err != nil {
				return fmt.Errorf("list the claims of bucket %d: %w", bucket, err)
			}
			if len(uids) == 0 {
				break
			}
			after = uids[len(uids)-1]
			if err := w.bring(ctx, uids, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// certify says of buckets that they may be used.
func (w *work) certify(ctx context.Context, buckets map[int]bool, filling bool) error {
	for bucket := range buckets {
		c := scheduler.Certification{Number: w.number, Run: w.standings[bucket].Now, DoubtUntil: w.cfg.Clock.Milli(),
			Filling: filling}
		if w.standings[bucket].Number == 0 && w.report.Added == 0 {
			c.DoubtUntil = 0 // nothing was there and nothing came: it is new
		}
		if w.filled[bucket] > 0 {
			c.Forgotten = w.filled[bucket]
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
	since := w.cfg.Clock.Milli()
	for bucket := range buckets {
		since = min(since, w.filled[bucket])
	}
	if err := w.reconcile(ctx, buckets, since, true); err != nil {
		return err
	}
	r := &Restorer{Store: w.cfg.Store, Timeline: w.tl, Buckets: len(w.standings), Clock: w.cfg.Clock,
		Timeout: w.cfg.Timeout, only: buckets, Log: w.log, At: w.cfg.At}
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
		read := w.cfg.Clock.Milli()
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
		report, err := restoreRecords(ctx, w.doubts, kept, read, w.cfg.Clock)
		w.report = sumReports(w.report, report)
		if err != nil {
			return err
		}
		uids = uids[n:]
	}
	return nil
}
