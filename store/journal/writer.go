package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// WriterConfig configures a Writer.
type WriterConfig struct {
	Store  Store
	Outbox record.Outbox
	Mode   Mode
	// Timeout bounds one commit.
	Timeout    time.Duration
	Log        zerolog.Logger
	Registerer prometheus.Registerer
	// At, which may be nil, is called at points where a test may stop the process: before a batch goes to the journal,
	// and when it is in both the journal and the outbox.
	At func(point string)
}

// Writer commits the entries that this instance's scripts wrote, from memory, and removes them from the outbox. In sync
// mode, calls wait for it before they are answered. Entries that it cannot commit in time stay in the outbox for the
// Drainer, so a Writer's memory may be lost.
type Writer struct {
	cfg     WriterConfig
	log     zerolog.Logger
	metrics *writerMetrics
	ready   chan struct{} // capacity 1
	outbox  record.Outbox // of Run, like fenced
	fenced  func()

	mu      sync.Mutex
	queue   []*commit
	bytes   int
	pending map[change]*commit    // sync only
	busy    map[*commit]time.Time // when each batch in progress was taken, by its first entry
	broken  error                 // of the last commit; nil once a commit succeeds
	edits   map[change]bool       // whose commit failed, at most maxEdits
}

// change identifies a change by the version it made.
type change struct {
	uid     message.UID
	version uint64
}

// commit is one entry on its way to the journal.
type commit struct {
	entry record.Entry
	at    time.Time
	done  chan struct{}
	err   error // valid once done is closed
}

const (
	commitRows  = 1000    // research/perf: more in a transaction gains little
	commitBytes = 4 << 20 // of bodies
	// writers is the number of concurrent commits: while one is at the database, the entries of the other are removed
	// from the outbox.
	writers = 2
	// lingerAsync lets changes gather if no caller waits for them.
	lingerAsync = 10 * time.Millisecond
	// lateAfter is the age at which an entry is left to the Drainer, which reads entries older than drainAge.
	lateAfter = 700 * time.Millisecond
	// maxQueuedBytes bounds the writer's memory; entries beyond it are left to the Drainer too.
	maxQueuedBytes = 64 << 20
	entryCost      = 256
	// stalled is how long a commit may take before sync changes are refused.
	stalled    = time.Second
	probePause = 200 * time.Millisecond
	// probeMost is how long an entry that is not taken, by a journal that answers, keeps pushes away: it may be the only
	// one. After that the next push shows whether the journal takes others.
	probeMost  = 30 * time.Second
	awaitPause = 20 * time.Millisecond
	maxEdits   = 10_000
)

// errLeft marks an entry that was left to the Drainer.
var errLeft = errors.New("left to the drainer")

// NewWriter builds a Writer. Run must be running for it to commit.
func NewWriter(cfg WriterConfig) *Writer {
	return &Writer{cfg: cfg, log: cfg.Log, metrics: newWriterMetrics(cfg.Registerer), ready: make(chan struct{}, 1),
		pending: map[change]*commit{}, busy: map[*commit]time.Time{}, edits: map[change]bool{}}
}

// Wrote queues an entry that is in the outbox. It does not block.
func (w *Writer) Wrote(e record.Entry) {
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
	scheduler.Signal(w.ready)
}

// Ready returns nil unless sync changes cannot be committed now.
func (w *Writer) Ready() error {
	if w.cfg.Mode != Sync {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if full(w.broken) {
		return errDiskFull
	}
	if w.broken != nil { // the reason is in the log: it may name hosts
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

// errDiskFull says why a full database takes no pushes.
var errDiskFull = fmt.Errorf("%w: the journal does not take changes", scheduler.ErrDiskFull)

// Full returns an error while the database has no room, in any mode.
func (w *Writer) Full() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if full(w.broken) {
		return errDiskFull
	}
	return nil
}

// Await is scheduler.Journal's. All count as held unless the mode is sync.
func (w *Writer) Await(ctx context.Context, changes []scheduler.Recorded, held func(i int, bare bool)) error {
	if w.cfg.Mode != Sync {
		for i := range changes {
			held(i, false)
		}
		return nil
	}
	var (
		commits = map[*commit][]int{} // the changes of each, by index
		order   []*commit
		others  []int // made earlier or by another instance, or refused: only the journal knows
	)
	w.mu.Lock()
	for i, r := range changes {
		c := w.pending[change{r.UID, r.Version}]
		if c == nil {
			others = append(others, i)
			continue
		}
		if commits[c] == nil {
			order = append(order, c)
		}
		commits[c] = append(commits[c], i)
	}
	w.mu.Unlock()
	for _, c := range order {
		select {
		case <-c.done:
		case <-ctx.Done():
			return fmt.Errorf("the commit did not come in time: %w", context.Cause(ctx))
		}
		switch {
		case errors.Is(c.err, scheduler.ErrFenced):
			return c.err
		case c.err != nil:
			others = append(others, commits[c]...)
		default:
			for _, i := range commits[c] {
				held(i, false)
			}
		}
	}
	return w.confirm(ctx, changes, others, held)
}

// confirm asks the journal until it has the changes of the given indexes. Under a later certification the same version
// may be another change, so a change whose certification is fenced by then is scheduler.ErrFenced.
func (w *Writer) confirm(ctx context.Context, changes []scheduler.Recorded, waiting []int,
	held func(i int, bare bool)) error {
	first := func() string {
		r := &changes[waiting[0]]
		return fmt.Sprintf(", the first version %d of %s", r.Version, r.UID)
	}
	for len(waiting) > 0 {
		uids := mapped(waiting, func(i *int) message.UID { return changes[*i].UID })
		have, err := w.cfg.Store.Versions(ctx, uids)
		var bare map[message.UID][]uint64
		var rejected map[message.UID]bool
		var there map[int]bool
		if err == nil {
			there, err = w.there(ctx, changes, waiting, have)
		}
		if err == nil {
			bare, err = w.cfg.Store.Bare(ctx, uids)
		}
		if err == nil {
			rejected, err = w.rejected(ctx, changes, waiting)
		}
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("the journal does not have %d changes%s: %w", len(waiting), first(), context.Cause(ctx))
			}
			there, bare, rejected = nil, nil, nil // a part of them says nothing
		}
		var found, left []int
		for _, i := range waiting {
			r := &changes[i]
			if r.Version == 0 && rejected[r.UID] || there[i] ||
				slices.Contains(bare[r.UID], r.Version) {
				found = append(found, i)
			} else {
				left = append(left, i)
			}
		}
		if len(found) > 0 {
			if err := w.unfenced(ctx, changes, found); err != nil {
				return err
			}
		}
		for _, i := range found {
			held(i, slices.Contains(bare[changes[i].UID], changes[i].Version))
		}
		if waiting = left; len(waiting) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d changes are not in the journal yet%s: %w", len(waiting), first(), context.Cause(ctx))
		case <-time.After(awaitPause):
		}
	}
	return nil
}

// there returns which of the waiting changes the journal has. A later version than that of a change tells it, but for
// an edit whose commit failed here: the later one may have been written without the content that only the edit has.
func (w *Writer) there(ctx context.Context, changes []scheduler.Recorded, waiting []int,
	have map[message.UID]record.Stand) (map[int]bool, error) {
	there := map[int]bool{}
	for _, i := range waiting {
		r := &changes[i]
		later := have[r.UID].Version
		w.mu.Lock()
		edit := w.edits[change{r.UID, r.Version}]
		w.mu.Unlock()
		if there[i] = r.Version > 0 && later >= r.Version; !there[i] || !edit {
			continue
		}
		last, err := w.cfg.Store.History(ctx, r.UID, int(later-r.Version)+1)
		if err != nil {
			return nil, err
		}
		if there[i] = slices.ContainsFunc(last, func(c record.Change) bool { return c.Version == r.Version }); there[i] {
			w.mu.Lock()
			delete(w.edits, change{r.UID, r.Version})
			w.mu.Unlock()
		}
	}
	return there, nil
}

// rejected returns which of the changes are rejected pushes that the journal has.
func (w *Writer) rejected(ctx context.Context, changes []scheduler.Recorded,
	waiting []int) (map[message.UID]bool, error) {
	found := map[message.UID]bool{}
	for _, i := range waiting {
		if uid := changes[i].UID; changes[i].Version == 0 {
			rejects, err := w.cfg.Store.Rejects(ctx, scheduler.Ref{UID: uid}, 1)
			if err != nil {
				return nil, err
			}
			found[uid] = len(rejects) > 0
		}
	}
	return found, nil
}

// unfenced returns scheduler.ErrFenced if the journal has a higher certification than the one under which one of the
// changes was made. It is called after their versions are read, so it sees every fence that was raised before.
func (w *Writer) unfenced(ctx context.Context, changes []scheduler.Recorded, found []int) error {
	fences, err := w.cfg.Store.Fences(ctx)
	if err != nil {
		w.log.Warn().Err(err).Msg("the journal's fences cannot be read")
		return errors.New("the journal does not return its fences")
	}
	for _, i := range found {
		r := &changes[i]
		if r.Number > 0 && fences[r.Bucket] > r.Number {
			return fmt.Errorf("%s was written under certification %d of bucket %d: %w", r.UID, r.Number, r.Bucket,
				scheduler.ErrFenced)
		}
	}
	return nil
}

// Run commits until ctx ends, then commits the queued entries as far as its time-out allows. outbox holds the entries
// of this instance. fenced, which may be nil, is called when a fence has refused a commit: the entries come from a
// server that was replaced.
func (w *Writer) Run(ctx context.Context, outbox record.Outbox, fenced func()) error {
	w.outbox, w.fenced = outbox, fenced
	var group sync.WaitGroup
	for range writers {
		group.Go(func() { w.work(ctx) })
	}
	group.Wait()
	return nil
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
			_ = scheduler.Sleep(ctx, lingerAsync)
		}
		if ctx.Err() != nil { // when stopping, no entry is left for being late
			continue
		}
		batch := w.take(false)
		if len(batch) == 0 {
			continue
		}
		scheduler.Signal(w.ready) // the other worker may find more
		w.commitAll(ctx, batch)
	}
}

// take returns the next batch, without late entries, unless it is the last.
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
		one := &c.entry.Changes[i]
		r := change{one.UID, one.Version}
		if w.pending[r] == c {
			delete(w.pending, r)
		}
		if err != nil && one.Version > 1 && one.Message != nil {
			if len(w.edits) >= maxEdits {
				clear(w.edits)
			}
			w.edits[r] = true
		}
	}
}

// commitAll commits a batch. If the batch itself is refused as a whole, commitAll commits it entry by entry.
func (w *Writer) commitAll(ctx context.Context, batch []*commit) {
	err := w.commit(ctx, batch)
	w.mu.Lock()
	delete(w.busy, batch[0])
	w.mu.Unlock()
	switch {
	case err != nil && !Retryable(err) && len(batch) > 1:
		for _, c := range batch {
			w.commitAll(ctx, []*commit{c})
		}
		return
	case refused(err):
		w.bare(ctx, batch[0])
	}
	w.settle(batch, err)
	if err != nil {
		w.recover(ctx, batch[:1])
	}
}

// bare commits what the journal accepts of an entry that it refuses, so that no caller waits for a content that the
// journal never holds. The entry stays for the Drainer, which does the same once more and reports it.
func (w *Writer) bare(ctx context.Context, c *commit) {
	_, _, err := salvage(ctx, c.entry.Changes, func(ctx context.Context, changes []record.Change) error {
		some := c.entry
		some.Changes = changes
		return w.commit(ctx, []*commit{{entry: some}})
	}, nil)
	if err != nil {
		w.log.Debug().Err(err).Msg("a refused entry is left to the drainer")
	}
}

// commit writes a batch and removes it from the outbox.
func (w *Writer) commit(ctx context.Context, batch []*commit) error {
	fences := map[message.Bucket]uint64{}
	rows := 0
	for _, c := range batch {
		rows += len(c.entry.Changes)
	}
	changes := make([]record.Change, 0, rows)
	for _, c := range batch {
		if n, seen := fences[c.entry.Bucket]; c.entry.Number > 0 && (!seen || c.entry.Number < n) {
			fences[c.entry.Bucket] = c.entry.Number
		}
		changes = append(changes, c.entry.Changes...)
	}
	// A stop lets commits in progress finish: an outbox in memory dies with the process.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Timeout)
	defer cancel()
	started := time.Now()
	if len(changes) > 0 {
		at(w.cfg.At, AfterRedis)
		if err := w.cfg.Store.Write(call, fences, changes); err != nil {
			if errors.Is(err, scheduler.ErrFenced) && w.fenced != nil {
				w.fenced()
			}
			return err
		}
		at(w.cfg.At, AfterCommit)
	}
	w.metrics.seconds.Observe(time.Since(started).Seconds())
	w.metrics.rows.Add(float64(rows))
	return nil
}

// settle records the outcome of a batch and removes committed entries from the outbox. The Drainer reads the entries
// that stay there.
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
	byBucket := map[message.Bucket][]record.Entry{}
	for _, c := range batch {
		byBucket[c.entry.Bucket] = append(byBucket[c.entry.Bucket], c.entry)
	}
	for bucket, entries := range byBucket {
		call, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
		if err := w.outbox.Written(call, bucket, entries); err != nil {
			w.log.Debug().Err(err).Int("bucket", int(bucket)).Msg("committed entries stay in the outbox for now")
		}
		cancel()
	}
}

// recover waits until the journal takes changes again: also this entry, which it did not take. A database without room
// answers, and takes what needs none.
func (w *Writer) recover(ctx context.Context, entry []*commit) {
	began := time.Now()
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
		if err == nil {
			if err = w.commit(ctx, entry); !Retryable(err) || time.Since(began) > probeMost {
				err = nil // what is wrong with the entry says nothing of others
			}
		}
		w.mu.Lock()
		w.broken = err
		w.mu.Unlock()
		if err != nil {
			_ = scheduler.Sleep(ctx, probePause)
		}
	}
}

type writerMetrics struct {
	rows, left, failures prometheus.Counter
	seconds              prometheus.Histogram
}

func newWriterMetrics(r prometheus.Registerer) *writerMetrics {
	auto := promauto.With(r)
	m := &writerMetrics{
		rows: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_changes_total",
			Help: "Changes that this instance committed to the journal from memory."}),
		left: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_left_total",
			Help: "Outbox entries that this instance did not commit in time and left to the drainer."}),
		failures: auto.NewCounter(
			prometheus.CounterOpts{Name: "tarry_journal_failures_total", Help: "Commits to the journal that failed."}),
		seconds: auto.NewHistogram(
			prometheus.HistogramOpts{Name: "tarry_journal_commit_seconds", Help: "Duration of a commit to the journal.",
				Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	return m
}
