package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
)

// WriterConfig is what a Writer is made of.
type WriterConfig struct {
	Store  Store
	Outbox scheduler.Outbox
	Mode   Mode
	// Timeout bounds one commit.
	Timeout    time.Duration
	Log        zerolog.Logger
	Registerer prometheus.Registerer
	// Fenced, which may be nil, is called when a fence refused a commit: the entries
	// are of a server that was replaced.
	Fenced func()
	// At, which may be nil, is called where a test may want to break off: before a
	// batch goes to the journal, and when it is there and still in the outbox.
	At func(point string)
}

// Writer commits the entries that this instance's scripts wrote, from memory, and
// removes them from the outbox. In sync mode answered changes wait for it. What
// it cannot commit in time stays in the outbox for the Drainer: nothing here
// needs to survive.
type Writer struct {
	cfg     WriterConfig
	log     zerolog.Logger
	metrics *writerMetrics
	ready   chan struct{} // capacity 1

	mu      sync.Mutex
	queue   []*commit
	bytes   int
	pending map[change]*commit    // sync only
	busy    map[*commit]time.Time // when each batch under way was taken, by its first entry
	broken  error                 // of the last commit, nil once one succeeds
}

// change names one by the version it made.
type change struct {
	uid     scheduler.UID
	version uint64
}

// commit is one entry on its way.
type commit struct {
	entry scheduler.Entry
	at    time.Time
	done  chan struct{}
	err   error // after done
}

const (
	commitRows  = 1000    // research/perf: more in a transaction gains little
	commitBytes = 4 << 20 // of bodies
	// writers is how many commits are under way at once: one is at the database while
	// the other's entries are removed from the outbox.
	writers = 2
	// lingerAsync lets changes gather when nobody waits for them.
	lingerAsync = 10 * time.Millisecond
	// lateAfter is when an entry is left to the Drainer, which reads what is older
	// than drainAge.
	lateAfter = 700 * time.Millisecond
	// maxQueuedBytes bounds what the writer holds in memory; the rest is left too.
	maxQueuedBytes = 64 << 20
	entryCost      = 256
	// stalled is how long a commit may take before sync changes are refused.
	stalled    = time.Second
	probePause = 200 * time.Millisecond
	awaitPause = 20 * time.Millisecond
)

// errLeft: an entry was left to the Drainer.
var errLeft = errors.New("left to the drainer")

// NewWriter builds a Writer; Run must run.
func NewWriter(cfg WriterConfig) *Writer {
	return &Writer{cfg: cfg, log: cfg.Log, metrics: newWriterMetrics(cfg.Registerer), ready: make(chan struct{}, 1),
		pending: map[change]*commit{}, busy: map[*commit]time.Time{}}
}

// Wrote takes an entry that stands in the outbox now. It does not block.
func (w *Writer) Wrote(e scheduler.Entry) {
	c := &commit{entry: e, at: time.Now(), done: make(chan struct{})}
	w.mu.Lock()
	if w.bytes > maxQueuedBytes {
		w.mu.Unlock()
		w.metrics.left.Inc()
		return
	}
	w.queue = append(w.queue, c)
	w.bytes += e.Size + entryCost
	if w.cfg.Mode == Sync {
		for i := range e.Changes {
			w.pending[change{e.Changes[i].UID, e.Changes[i].Version}] = c
		}
	}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Ready is nil unless sync changes cannot be committed now.
func (w *Writer) Ready() error {
	if w.cfg.Mode != Sync {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.broken != nil:
		// why is in the log: it may name hosts
		return fmt.Errorf("%w: the journal does not take changes", scheduler.ErrUnavailable)
	}
	for _, since := range w.busy {
		if waits := time.Since(since); waits > stalled {
			return fmt.Errorf("%w: the journal has not answered for %s", scheduler.ErrUnavailable,
				waits.Round(time.Millisecond))
		}
	}
	return nil
}

// Await returns once the journal holds the changes; at once unless the mode is
// sync.
func (w *Writer) Await(ctx context.Context, changes []scheduler.Recorded) error {
	if w.cfg.Mode != Sync || len(changes) == 0 {
		return nil
	}
	var (
		commits []*commit
		others  []scheduler.Recorded // made elsewhere or earlier: the journal itself must tell
	)
	w.mu.Lock()
	for _, r := range changes {
		c := w.pending[change{r.UID, r.Version}]
		if c == nil {
			others = append(others, r)
		} else if len(commits) == 0 || commits[len(commits)-1] != c {
			commits = append(commits, c)
		}
	}
	w.mu.Unlock()
	for _, c := range commits {
		select {
		case <-c.done:
			if errors.Is(c.err, scheduler.ErrFenced) {
				return c.err
			}
			if c.err != nil {
				others = append(others, ofEntry(&c.entry, changes)...)
			}
		case <-ctx.Done():
			return fmt.Errorf("the commit did not come in time: %w", context.Cause(ctx))
		}
	}
	return w.confirm(ctx, others)
}

// ofEntry are those of the awaited changes that an entry holds.
func ofEntry(e *scheduler.Entry, changes []scheduler.Recorded) (mine []scheduler.Recorded) {
	in := make(map[scheduler.UID]bool, len(e.Changes))
	for i := range e.Changes {
		in[e.Changes[i].UID] = true
	}
	for _, r := range changes {
		if in[r.UID] {
			mine = append(mine, r)
		}
	}
	return mine
}

// confirm asks the journal until it has the changes. Under a later certification the
// same version may be another change; then the outcome stays unknown.
func (w *Writer) confirm(ctx context.Context, changes []scheduler.Recorded) error {
	for len(changes) > 0 {
		uids := make([]scheduler.UID, len(changes))
		for i, r := range changes {
			uids[i] = r.UID
		}
		have, err := w.cfg.Store.Versions(ctx, uids)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("the journal does not tell of %d changes: %w", len(changes), context.Cause(ctx))
		}
		left := changes[:0:0]
		for _, r := range changes {
			if have[r.UID].Version < r.Version {
				left = append(left, r)
			}
		}
		if len(left) < len(changes) {
			if err := w.unfenced(ctx, changes); err != nil {
				return err
			}
		}
		if changes = left; len(changes) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d changes are not in the journal yet: %w", len(changes), context.Cause(ctx))
		case <-time.After(awaitPause):
		}
	}
	return nil
}

// unfenced asks after the versions: a fence that was raised before they were read
// is seen.
func (w *Writer) unfenced(ctx context.Context, changes []scheduler.Recorded) error {
	fences, err := w.cfg.Store.Fences(ctx)
	if err != nil {
		w.log.Warn().Err(err).Msg("the journal's fences cannot be read")
		return errors.New("the journal does not tell its fences")
	}
	for _, r := range changes {
		if r.Number > 0 && fences[r.Bucket] > r.Number {
			return fmt.Errorf("%s was told under certification %d of bucket %d: %w", r.UID, r.Number, r.Bucket,
				scheduler.ErrFenced)
		}
	}
	return nil
}

// Run commits until ctx ends, then once more what is queued, as far as its
// time-out allows.
func (w *Writer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range writers {
		group.Go(func() error {
			w.work(ctx)
			return nil
		})
	}
	return group.Wait()
}

func (w *Writer) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Timeout)
			defer cancel()
			for batch := w.take(true); len(batch) > 0 && last.Err() == nil; batch = w.take(true) {
				w.commitAll(last, batch)
			}
			return
		case <-w.ready:
		}
		if w.cfg.Mode == Async {
			pause(ctx, lingerAsync)
		}
		if ctx.Err() != nil { // at a stop nothing is left for being late
			continue
		}
		batch := w.take(false)
		if len(batch) == 0 {
			continue
		}
		select { // more may be there for the other worker
		case w.ready <- struct{}{}:
		default:
		}
		w.commitAll(ctx, batch)
	}
}

// take is the next batch, less what has become late, unless it is the last there
// will be.
func (w *Writer) take(last bool) []*commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows, bytes, n := 0, 0, 0
	batch := make([]*commit, 0, 16)
	for _, c := range w.queue {
		if len(batch) > 0 && (rows+len(c.entry.Changes) > commitRows || bytes+c.entry.Size > commitBytes) {
			break
		}
		n++
		w.bytes -= c.entry.Size + entryCost
		if !last && time.Since(c.at) > lateAfter {
			w.leaveLocked(c)
			continue
		}
		rows += len(c.entry.Changes)
		bytes += c.entry.Size
		batch = append(batch, c)
	}
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	if len(batch) > 0 {
		w.busy[batch[0]] = time.Now()
	}
	return batch
}

// leaveLocked leaves an entry to the Drainer.
func (w *Writer) leaveLocked(c *commit) {
	w.metrics.left.Inc()
	w.finishLocked(c, errLeft)
}

func (w *Writer) finishLocked(c *commit, err error) {
	c.err = err
	close(c.done)
	if w.cfg.Mode != Sync {
		return
	}
	for i := range c.entry.Changes {
		r := change{c.entry.Changes[i].UID, c.entry.Changes[i].Version}
		if w.pending[r] == c {
			delete(w.pending, r)
		}
	}
}

// commitAll commits a batch. A batch that cannot be committed as a whole for a
// reason of its own goes entry by entry.
func (w *Writer) commitAll(ctx context.Context, batch []*commit) {
	err := w.commit(ctx, batch)
	w.mu.Lock()
	delete(w.busy, batch[0])
	w.mu.Unlock()
	if err != nil && !Retryable(err) && len(batch) > 1 {
		for _, c := range batch {
			w.settle([]*commit{c}, w.commit(ctx, []*commit{c}))
		}
	} else {
		w.settle(batch, err)
	}
	if err != nil {
		w.recover(ctx)
	}
}

// commit writes a batch and removes it from the outbox.
func (w *Writer) commit(ctx context.Context, batch []*commit) error {
	fences := map[int]uint64{}
	rows := 0
	for _, c := range batch {
		rows += len(c.entry.Changes)
	}
	changes := make([]scheduler.Change, 0, rows)
	for _, c := range batch {
		if n, seen := fences[c.entry.Bucket]; c.entry.Number > 0 && (!seen || c.entry.Number < n) {
			fences[c.entry.Bucket] = c.entry.Number
		}
		changes = append(changes, c.entry.Changes...)
	}
	// A stop lets what is under way come to its end: an outbox in memory dies with
	// the process.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Timeout)
	defer cancel()
	started := time.Now()
	if len(changes) > 0 {
		at(w.cfg.At, AfterRedis)
		if err := w.cfg.Store.Write(call, fences, changes); err != nil {
			if errors.Is(err, scheduler.ErrFenced) && w.cfg.Fenced != nil {
				w.cfg.Fenced()
			}
			return err
		}
		at(w.cfg.At, AfterCommit)
	}
	w.metrics.seconds.Observe(time.Since(started).Seconds())
	w.metrics.rows.Add(float64(rows))
	return nil
}

// settle reports how a batch went and removes from the outbox what is committed.
// Entries that stay there are read again by the Drainer.
func (w *Writer) settle(batch []*commit, err error) {
	w.mu.Lock()
	if err == nil {
		w.broken = nil
	} else if Retryable(err) {
		w.broken = err
	}
	for _, c := range batch {
		w.finishLocked(c, err)
	}
	w.mu.Unlock()
	if err != nil {
		w.metrics.failures.Inc()
		w.log.Warn().Err(err).Int("entries", len(batch)).Msg("journal write failed; the outbox keeps the changes")
		return
	}
	byBucket := map[int][]scheduler.Entry{}
	for _, c := range batch {
		byBucket[c.entry.Bucket] = append(byBucket[c.entry.Bucket], c.entry)
	}
	for bucket, entries := range byBucket {
		call, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
		if err := w.cfg.Outbox.Written(call, bucket, entries); err != nil {
			w.log.Debug().Err(err).Int("bucket", bucket).Msg("committed entries stay in the outbox for now")
		}
		cancel()
	}
}

// recover waits until the journal answers again.
func (w *Writer) recover(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		broken := w.broken
		w.mu.Unlock()
		if broken == nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, stalled)
		err := w.cfg.Store.Ping(call)
		cancel()
		w.mu.Lock()
		if err == nil {
			w.broken = nil
		} else {
			w.broken = err
		}
		w.mu.Unlock()
		if err != nil {
			pause(ctx, probePause)
		}
	}
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
