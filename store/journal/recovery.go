package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// RecoveryConfig configures a Recovery.
type RecoveryConfig struct {
	// Store is nil with the journal off: then the timeline is certified as found.
	Store    Store
	Timeline record.Recoverable
	Mode     Mode
	// Judged: names of pushes are judged by the journal, or are refused, so that in sync mode too an empty store may
	// accept messages while it is filled.
	Judged bool
	// Window is how far back a store that kept its messages may have lost changes.
	Window time.Duration
	// EndedKeep is how long the timeline remembers ends: a push that the intake sends again, or a client repeats, must
	// find the end of the first.
	EndedKeep time.Duration
	Clock     *scheduler.Clock
	Timeout   time.Duration // of one call
	Log       zerolog.Logger
	// At, which may be nil, is called at points where a test may stop the recovery: after each page of a restore, and
	// before each bucket is certified.
	At func(point string)
}

// Recovery makes the timeline whole after its server changed. The leader runs it. It determines what a server run that
// is not certified must hold, restores that, and certifies the run.
//
//	not certified ──▶ fence the journal ──▶ begin the term ──▶ pauses ──▶ drain the outbox ──▶
//	    empty (no certification): restore live and dead messages, and ends        ─┐
//	    another run: compare what is claimed and what changed within the window  ─┴▶ give claims back ──▶ certify
//
// Claims are released last: a release is a change, and its version may be that of a change which the store has lost and
// the journal knows.
//
// An empty store accepts messages while it is filled (certified, filling). In sync mode that needs the journal's
// judgment of their names, which it has of all that was answered, so that no name is used twice; and recent ends are
// restored before, by which a repeated push is recognized. Every step may be repeated: the result is the same
// whichever leader finishes it.
type Recovery struct {
	cfg RecoveryConfig
	log zerolog.Logger
	// last is the number that this instance last set for each bucket; a store that was emptied since has lost it. Only
	// the leader's goroutine uses it.
	last map[message.Bucket]uint64
	// on is the data set for which it set that number.
	on map[message.Bucket]string
	// seen is the latest change that each bucket's data set was seen with.
	seen map[message.Bucket]seen
}

// seen is the last change that a data set knew.
type seen struct {
	run  string
	last message.Milli
}

// wentBack reports whether a data set knows less than it did: a server that was set back to a snapshot of its memory
// keeps its run.
func (r *Recovery) wentBack(bucket message.Bucket, s *record.Standing) bool {
	was := r.seen[bucket]
	if was.run == s.Now && s.Last > 0 && s.Last < was.last {
		return true
	}
	r.seen[bucket] = seen{s.Now, s.Last}
	return false
}

const (
	reclaimBatch = 500
	restorePage  = 1000
	certifyTries = 3
	restoreBytes = 4 << 20
	// lostBefore is how much earlier than its last entry a store may have lost changes, with an allowance for clocks.
	lostBefore = 30 * time.Second
	// numberBits leaves room for certifications within one term.
	numberBits = 20
)

// NewRecovery builds a Recovery.
func NewRecovery(cfg RecoveryConfig) *Recovery {
	return &Recovery{cfg: cfg, log: cfg.Log, last: map[message.Bucket]uint64{}, on: map[message.Bucket]string{},
		seen: map[message.Bucket]seen{}}
}

// Result reports what a Recovery did.
type Result struct {
	// Buckets is how many buckets were not whole; if it is 0, nothing was done.
	Buckets int
	// Away lists the buckets that do not answer: nothing was done with them.
	Away []message.Bucket
	// Restored counts what was restored.
	Restored record.RestoreReport
}

// Run makes every bucket that answers whole, or returns the error that stopped it. The caller holds a valid lease; ctx
// ends with the leadership.
func (r *Recovery) Run(ctx context.Context, term uint64) (Result, error) {
	return r.Mend(ctx, term, nil, func(message.Bucket) {})
}

// Mend is Run for some buckets, or for all if buckets is nil. It calls whole with each bucket as soon as the bucket may
// be used. If it answers, the bucket that keeps the pauses is always included: the pauses must be restored before any
// other bucket may be claimed from, whichever bucket first noticed that its server changed.
func (r *Recovery) Mend(ctx context.Context, term uint64, buckets []message.Bucket,
	whole func(bucket message.Bucket)) (Result, error) {
	standings, err := r.standings(ctx)
	if err != nil {
		return Result{}, err
	}
	fenced, answers := r.fenced(ctx, standings)
	if len(fenced) > 0 { // their server was replaced, or is a replacement that lacks their certification
		r.cfg.Timeline.Renew()
		if standings, err = r.standings(ctx); err != nil {
			return Result{}, err
		}
		fenced, _ = r.fenced(ctx, standings)
		replaced := map[string]bool{}
		for _, bucket := range fenced {
			replaced[standings[bucket].Now] = true
		}
		for i := range standings {
			// On such a server no bucket is whole, unless this leader has since certified the bucket on that very data
			// set. That bucket is already in use: under a new number the journal would refuse the changes made under
			// the present one.
			s, bucket := &standings[i], message.Bucket(i)
			if replaced[s.Now] && (s.Number != r.last[bucket] || s.Now != r.on[bucket]) {
				s.Run = ""
			}
		}
	}
	w := &work{Recovery: r, term: term, standings: standings, need: map[message.Bucket]bool{}}
	var result Result
	for i, s := range standings {
		bucket := message.Bucket(i)
		switch {
		case buckets != nil && !slices.Contains(buckets, bucket) && (bucket != scheduler.PausesBucket || s.Err != nil):
		case s.Err != nil:
			result.Away = append(result.Away, bucket)
		case s.Whole() && s.Number >= r.last[bucket] && !r.wentBack(bucket, &s):
			whole(bucket)
		default:
			w.need[bucket] = true
			event := w.log.Warn()
			if s.Number == 0 {
				event = w.log.Debug() // new or empty: the message at the end suffices
			}
			event.Int("bucket", int(bucket)).Str("run", s.Now).Str("certified", s.Run).Bool("filling", s.Filling).Msg(
				"the store is not certified")
		}
	}
	if len(w.need) == 0 {
		if answers {
			r.writePauses(ctx, r.cfg.Timeline.Recovering(standings, term, 0))
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
	report := w.restoring.report
	w.log.Info().Int("buckets", len(w.need)).Str("journal", r.cfg.Mode.String()).Int("read", report.Read).
		Int("added", report.Added).Int("raised", report.Raised).Int("newer", report.Newer).
		Dur("took", time.Since(started)).Msg("the store is certified")
	result.Buckets, result.Restored = len(w.need), report
	return result, nil
}

// fencesWithin bounds the reading of the fences of a store that seems whole: an unreachable journal must not delay a
// leader.
const fencesWithin = time.Second

// fenced returns the buckets for which the journal knows a later certification than their server; answers reports
// whether the journal answered. Without an answer nothing is fenced.
func (r *Recovery) fenced(ctx context.Context, standings []record.Standing) (fenced []message.Bucket, answers bool) {
	if r.cfg.Store == nil {
		return nil, false
	}
	call, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, fencesWithin))
	defer cancel()
	fences, err := r.cfg.Store.Fences(call)
	if err != nil {
		return nil, false
	}
	for i, s := range standings {
		if bucket := message.Bucket(i); s.Number > 0 && s.Number < fences[bucket] {
			fenced = append(fenced, bucket)
		}
	}
	return fenced, true
}

func (r *Recovery) standings(ctx context.Context) ([]record.Standing, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	standings, err := r.cfg.Timeline.Standings(call)
	return standings, wrap(err, "ask how the store stands")
}

// work is one run of a Recovery.
type work struct {
	*Recovery
	term      uint64
	standings []record.Standing
	tl        record.Recovering
	need      map[message.Bucket]bool
	number    uint64
	filled    map[message.Bucket]message.Milli // buckets that were empty: since when their ends are restored
	restoring restoring
}

func (w *work) run(ctx context.Context) error {
	if err := w.choose(ctx); err != nil {
		return err
	}
	w.tl = w.cfg.Timeline.Recovering(w.standings, w.term, w.number)
	w.restoring = restoring{doubts: make([]doubt, len(w.standings)), Reconciler: &Reconciler{
		Store: w.cfg.Store, Timeline: w.tl, Buckets: message.Bucket(len(w.standings)), Clock: w.cfg.Clock,
		Timeout: w.cfg.Timeout, Log: w.log, At: w.cfg.At,
	}}
	empty, moved := map[message.Bucket]bool{}, map[message.Bucket]bool{}
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
		drained, refused, err := w.restoring.Drain(ctx, bucket, 0)
		if errors.Is(err, record.ErrQuarantineFull) || errors.Is(err, scheduler.ErrNewer) {
			// The remaining entries stay in the outbox, and the drainer reports them again.
			w.log.Error().Err(err).Int("bucket", int(bucket)).
				Msg("a bucket is certified although its outbox is not drained")
		} else if err != nil {
			return fmt.Errorf("bucket %d: %w", bucket, err)
		}
		if err := w.apart(ctx, bucket); err != nil {
			return err
		}
		w.log.Info().Int("bucket", int(bucket)).Int("changes", drained).Int("refused", refused).Msg(
			"outbox drained before the comparison")
	}
	w.filled = make(map[message.Bucket]message.Milli, len(empty))
	for bucket := range empty {
		w.filled[bucket] = w.cfg.Clock.Milli().Add(-w.cfg.EndedKeep)
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

// apart logs which messages the journal lacks changes of. The bucket has their current states, so it may be used, but a
// store that is emptied later restores them as the journal has them.
func (w *work) apart(ctx context.Context, bucket message.Bucket) error {
	for entries, err := range w.restoring.quarantined(ctx, bucket, new(string)) {
		if err != nil {
			return err
		}
		for _, q := range entries {
			if !q.Known {
				w.log.Error().Int("bucket", int(bucket)).Str("entry", q.ID).Str("why", q.Reason).
					Strs("uids", words(q.UIDs)).
					Msg("a bucket is certified although the journal lacks changes of it")
			}
		}
	}
	return nil
}

// since returns how far back buckets that kept their messages may lack changes: the window, or longer if their last
// change is older. The server's clock is used only to measure how long ago that change was.
func (w *work) since(buckets map[message.Bucket]bool) message.Milli {
	now := w.cfg.Clock.Milli()
	since := now.Add(-w.cfg.Window)
	for bucket := range buckets {
		if s := &w.standings[bucket]; s.Last > 0 {
			since = min(since, (now - (s.Clock - s.Last)).Add(-lostBefore))
		}
	}
	return since
}

// choose picks a number above all existing ones, and raises the journal's fences to it. From then on the journal
// refuses the previous run's sync changes: those that were answered are already in it.
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

// given remembers the number that the buckets are about to receive.
func (w *work) given() {
	for bucket := range w.need {
		w.last[bucket], w.on[bucket] = w.number, w.standings[bucket].Now
	}
}

func (w *work) begin(ctx context.Context, bucket message.Bucket) error {
	err := within(ctx, w.cfg.Timeout, func(ctx context.Context) error { return w.tl.Begin(ctx, bucket, w.term) })
	return wrap(err, "begin the term in bucket %d", bucket)
}

// reclaim releases the messages in flight.
func (w *work) reclaim(ctx context.Context, buckets map[message.Bucket]bool) error {
	for bucket := range buckets {
		for n := reclaimBatch; n == reclaimBatch; {
			err := within(ctx, w.cfg.Timeout, func(ctx context.Context) (err error) {
				n, err = w.tl.Reclaim(ctx, bucket, w.term, reclaimBatch, w.cfg.Clock.Milli())
				return err
			})
			if err != nil {
				return fmt.Errorf("give back the claims of bucket %d: %w", bucket, err)
			}
		}
	}
	return nil
}

// reconcileClaims restores in buckets what the journal knows of the messages in flight and the leased ones there,
// however old it is.
func (w *work) reconcileClaims(ctx context.Context, buckets map[message.Bucket]bool) error {
	for bucket := range buckets {
		after := message.UID("")
		claims := pages(ctx, w.cfg.Timeout, func(ctx context.Context) ([]message.UID, error) {
			return w.tl.Claims(ctx, bucket, after, reclaimBatch)
		})
		for uids, err := range claims {
			if err != nil {
				return fmt.Errorf("list the claims of bucket %d: %w", bucket, err)
			}
			after = uids[len(uids)-1]
			if err := w.bring(ctx, uids, false); err != nil {
				return err
			}
		}
		for cursor, first := "", true; first || cursor != ""; first = false {
			var leased []message.UID
			err := within(ctx, w.cfg.Timeout, func(ctx context.Context) (err error) {
				leased, cursor, err = w.tl.Leased(ctx, bucket, cursor, reclaimBatch)
				return err
			})
			if err != nil {
				return fmt.Errorf("list the leases of bucket %d: %w", bucket, err)
			}
			if err := w.bring(ctx, leased, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// certify declares that buckets may be used.
func (w *work) certify(ctx context.Context, buckets map[message.Bucket]bool, filling bool) error {
	for bucket := range buckets {
		c := record.Certification{Number: w.number, Run: w.standings[bucket].Now, DoubtUntil: w.cfg.Clock.Milli(),
			Filling: filling}
		if w.standings[bucket].Number == 0 && w.restoring.report.Added == 0 {
			c.DoubtUntil = 0 // a new store: the bucket was never certified, and nothing was restored
		}
		if w.filled[bucket] > 0 {
			c.Forgotten = w.filled[bucket]
		}
		if !filling {
			at(w.cfg.At, BeforeCertify)
		}
		var err error
		// An instance that learns of a certification renews its connections, and so may cut off the next one. One without
		// an answer may stand, and a later run would then find nothing to do and tell nobody.
		for range certifyTries {
			err = within(ctx, w.cfg.Timeout, func(ctx context.Context) error {
				return w.tl.Certify(ctx, bucket, w.term, c)
			})
			if !errors.Is(err, scheduler.ErrOutcomeUnknown) {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("certify bucket %d: %w", bucket, err)
		}
	}
	return nil
}

// fill restores recent ends, and all live and dead messages, the earliest due first. The buckets accept messages as
// soon as the mode allows.
func (w *work) fill(ctx context.Context, buckets map[message.Bucket]bool) error {
	since := w.cfg.Clock.Milli()
	for bucket := range buckets {
		since = min(since, w.filled[bucket])
	}
	if w.cfg.Mode == Async {
		if err := w.certify(ctx, buckets, true); err != nil {
			return err
		}
	}
	if err := w.reconcile(ctx, buckets, since, true); err != nil {
		return err
	}
	if w.cfg.Mode == Sync && w.cfg.Judged {
		if err := w.certify(ctx, buckets, true); err != nil {
			return err
		}
	}
	w.restoring.only = buckets
	if err := w.restoring.all(ctx, record.RestoreRequest{Overdue: true}, nil); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	w.restoring.only = nil
	return nil
}

// reconcile restores in the buckets what changed since a time. With endsOnly it leaves live messages to fill, and reads
// the changes to each end alone: those of a million acceptances would hold up the pushes.
func (w *work) reconcile(ctx context.Context, buckets map[message.Bucket]bool, since message.Milli,
	endsOnly bool) error {
	states := []message.State{message.StateNone} // all
	if endsOnly {
		states = slices.DeleteFunc(message.States(), func(s message.State) bool { return !s.Ended() })
	}
	for _, state := range states {
		q := record.ChangeQuery{Since: since, State: state, Limit: restorePage}
		for changes, err := range w.restoring.changes(ctx, q) {
			if err != nil {
				return err
			}
			seen := map[message.UID]bool{}
			var uids []message.UID
			for _, c := range changes {
				if !seen[c.UID] && buckets[c.UID.Bucket(w.restoring.Buckets)] {
					seen[c.UID] = true
					uids = append(uids, c.UID)
				}
			}
			if err := w.bring(ctx, uids, endsOnly); err != nil {
				return err
			}
			if len(changes) < restorePage {
				break // later changes are made in the store itself
			}
		}
	}
	return nil
}

// bring restores messages by uid.
func (w *work) bring(ctx context.Context, uids []message.UID, endsOnly bool) error {
	for part := range slices.Chunk(uids, 200) { // whole messages, with their bodies
		read := w.cfg.Clock.Milli()
		records, err := w.restoring.records(ctx, part)
		if err != nil {
			return err
		}
		records = slices.DeleteFunc(records, func(r record.Record) bool { return endsOnly && !r.State.Ended() })
		if err := w.restoring.bring(ctx, records, read); err != nil {
			return err
		}
	}
	return nil
}
