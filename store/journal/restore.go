package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Restore restores the waiting and dead messages of the journal in the timeline, while traffic continues: a message
// that is there in the same or a higher version is unchanged. It restores the messages that the request selects.
// progress, which may be nil, is called now and then.
func (r *Reconciler) Restore(ctx context.Context, req record.RestoreRequest,
	progress func(record.RestoreReport)) (record.RestoreReport, error) {
	work := &restoring{Reconciler: r, doubts: make([]doubt, r.Buckets), dry: req.DryRun}
	var err error
	if req.UID != "" {
		err = work.one(ctx, req.UID)
	} else {
		err = work.all(ctx, req, progress)
	}
	return work.report, err
}

// restoring is one restore, or the restoring of a recovery.
type restoring struct {
	*Reconciler
	only   map[message.Bucket]bool // buckets, nil for all
	doubts []doubt                 // by bucket
	dry    bool                    // change nothing
	report record.RestoreReport
}

// one restores a message by uid.
func (w *restoring) one(ctx context.Context, uid message.UID) error {
	read := w.Clock.Milli()
	records, err := w.records(ctx, []message.UID{uid})
	if err != nil {
		return err
	}
	if len(records) == 0 || !stays(records[0].State) {
		return fmt.Errorf("%w: the journal has no live or dead message of this uid", scheduler.ErrUnknownID)
	}
	return w.bring(ctx, records, read)
}

// all restores the messages that a request selects.
func (w *restoring) all(ctx context.Context, req record.RestoreRequest,
	progress func(record.RestoreReport)) error {
	report, begun := nowAndThen(progress), time.Now()
	pages := make(chan page, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		return w.read(ctx, req, pages)
	})
	group.Go(func() error {
		for page := range pages {
			page.records = slices.DeleteFunc(page.records, func(r record.Record) bool { // it was listed a moment before
				return !stays(r.State) || wildcard(req.Topic) && !scheduler.Matches(req.Topic, r.Topic)
			})
			if now := w.Clock.Milli(); !req.Overdue { // nor what has become so while the page waited for its turn
				page.records = slices.DeleteFunc(page.records, func(r record.Record) bool { return r.Due <= now })
			}
			if err := w.bring(ctx, page.records, page.read); err != nil {
				return err
			}
			at(w.At, MidRestore)
			report(w.report)
			if req.Rate > 0 {
				_ = scheduler.Sleep(ctx, time.Until(begun.Add(
					time.Duration(float64(w.report.Read)/float64(req.Rate)*float64(time.Second)))))
			}
		}
		return ctx.Err()
	})
	return group.Wait()
}

// staying returns the states, as the journal has them, of a message that must be in the timeline: it waits, or is dead
// and waits for an operator.
func staying() []message.State {
	return slices.DeleteFunc(message.States(), func(s message.State) bool {
		return !s.Kept() || s == message.StateInFlight // the journal has what is in flight as waiting
	})
}

func stays(s message.State) bool { return slices.Contains(staying(), s) }

// page is a page of staying messages, and the time when its reading began.
type page struct {
	records []record.Record
	read    message.Milli
}

// read reads the staying messages page by page. Of two readers one lists a page while the other loads the messages of
// its own.
func (w *restoring) read(ctx context.Context, req record.RestoreRequest, pages chan<- page) error {
	q := record.RecordQuery{Topic: req.Topic, States: staying(), Limit: restorePage, Places: true}
	if wildcard(req.Topic) { // no index helps: read all, page by page, and keep the matches
		q.Topic = ""
	}
	if !req.Overdue {
		q.DueFrom = w.Clock.Milli() + 1
	}
	if req.Rate > 0 { // a page must not wait long, or it goes out of date
		q.Limit = max(min(restorePage, 2*req.Rate), 1)
	}
	// The restore stops at the latest due time of the messages that are in the journal now: under traffic there are
	// always more messages, and the store itself has those accepted from now on. A time of acceptance cannot be the
	// end, since no clock shows which messages were accepted before.
	final := q
	final.Latest, final.Limit = true, 1
	for end, err := range w.list(ctx, final) {
		if err != nil {
			return err
		}
		q.DueTo = end[0].Due
		break
	}
	if q.DueTo == 0 { // there are no staying messages
		return nil
	}
	turn := scheduler.NewTurn()
	next, stop := iter.Pull2(w.list(ctx, q))
	defer stop()
	readers := 1 // beside traffic
	if w.only != nil {
		readers = 2 // nothing is delivered until all is back: a third less time
	}
	group, ctx := errgroup.WithContext(ctx)
	for range readers {
		group.Go(func() error {
			for {
				if err := turn.Take(ctx); err != nil {
					return err
				}
				began := w.Clock.Milli()
				places, err, more := next()
				turn.Leave()
				if err != nil || !more {
					return err
				}
				if err := w.load(ctx, mapped(places, recordUID), began, pages); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// load reads the messages of a page, in parts if they are large.
func (w *restoring) load(ctx context.Context, uids []message.UID, began message.Milli, pages chan<- page) error {
	slices.Sort(uids)
	for len(uids) > 0 {
		call, cancel := context.WithTimeout(ctx, w.Timeout)
		records, err := w.Store.Load(call, uids, restoreBytes)
		cancel()
		if err != nil {
			return fmt.Errorf("read messages: %w: %w", ErrNoDatabase, err)
		}
		if len(records) == 0 {
			return nil
		}
		last := records[len(records)-1].UID
		uids = slices.DeleteFunc(uids, func(uid message.UID) bool { return uid <= last })
		select {
		case pages <- page{records, began}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// wildcard reports whether a topic is a pattern that may match several.
func wildcard(topic string) bool {
	tokens := strings.Split(topic, ".")
	return slices.Contains(tokens, "*") || tokens[len(tokens)-1] == ">"
}

// bring restores records in their buckets concurrently; read is when the reading of the records began. In a dry run it
// counts what a restore would do.
func (w *restoring) bring(ctx context.Context, records []record.Record, read message.Milli) error {
	records = slices.DeleteFunc(records, func(r record.Record) bool {
		return w.only != nil && !w.only[r.UID.Bucket(w.Buckets)]
	})
	w.report.Read += len(records)
	// What is kept cannot be restored without its content, which is on its way. The end of a message needs none.
	records = slices.DeleteFunc(records, func(r record.Record) bool { return r.Content == 0 && r.State.Kept() })
	codes := make([][]record.RestoreCode, w.Buckets)
	group, ctx := errgroup.WithContext(ctx)
	for i, mine := range byBucket(records, w.Buckets, recordUID) {
		bucket := message.Bucket(i)
		if len(mine) == 0 {
			continue
		}
		group.Go(func() error {
			sure, err := w.sure(ctx, bucket, mine)
			if err != nil {
				return err
			}
			codes[bucket] = slices.Repeat([]record.RestoreCode{record.RestoreNewer}, len(mine)-len(sure))
			if w.dry {
				return w.foresee(ctx, bucket, sure, &codes[bucket])
			}
			return w.put(ctx, bucket, sure, read, &codes[bucket])
		})
	}
	err := group.Wait()
	for _, code := range slices.Concat(codes...) {
		switch code {
		case record.RestoreSame:
			w.report.Same++
		case record.RestoreAdded:
			w.report.Added++
		case record.RestoreRaised:
			w.report.Raised++
		case record.RestoreBusy:
			w.report.InFlight++
		case record.RestoreNewer:
			w.report.Newer++
		}
	}
	return ofStore(err)
}

// put restores records of one bucket, as many at a time as fit into one script.
func (w *restoring) put(ctx context.Context, bucket message.Bucket, records []record.Record, read message.Milli,
	codes *[]record.RestoreCode) error {
	for len(records) > 0 {
		n := fitting(records)
		call, cancel := context.WithTimeout(ctx, w.Timeout)
		got, err := w.Timeline.Restore(call, bucket, records[:n], read, w.Clock.Milli())
		cancel()
		if errors.Is(err, scheduler.ErrOutcomeUnknown) && ctx.Err() == nil {
			continue // repeating it is safe
		}
		if err != nil {
			return fmt.Errorf("restore %d to bucket %d: %w", n, bucket, err)
		}
		*codes = append(*codes, got...)
		records = records[n:]
	}
	return nil
}

// fitting returns how many records fit into one script.
func fitting(records []record.Record) int {
	n, bytes := 0, 0
	for n < min(len(records), 250) && (n == 0 || bytes < restoreBytes/4) {
		bytes += len(records[n].Body)
		n++
	}
	return n
}

// foresee predicts what put would do.
func (w *restoring) foresee(ctx context.Context, bucket message.Bucket, records []record.Record,
	codes *[]record.RestoreCode) error {
	stands, err := w.versions(ctx, bucket, mapped(records, recordUID))
	for i := range records {
		*codes = append(*codes, wouldBe(&records[i], stands[records[i].UID]))
	}
	return err
}

// wouldBe returns what a restore would do with a record.
func wouldBe(r *record.Record, s record.Stand) record.RestoreCode {
	switch {
	case s.Version == 0:
		return record.RestoreAdded
	case s.Version == r.Version && r.State.Ended() && !s.State.Ended(): // at equal versions an end wins
		if s.State == message.StateInFlight {
			return record.RestoreBusy
		}
		return record.RestoreRaised
	case s.Version == r.Version:
		return record.RestoreSame
	case s.Version > r.Version || s.State.Ended():
		return record.RestoreNewer
	case s.State == message.StateInFlight:
		return record.RestoreBusy
	}
	return record.RestoreRaised
}

// doubt holds the messages that a restore must not bring to a bucket on the journal's word alone: a quarantined entry
// names them, and the journal does not know their states since. It grows with the quarantine, so that a long restore
// reads each entry once. Only one goroutine at a time uses the doubt of a bucket.
type doubt struct {
	after string // the place of the last entry that was read
	uids  map[message.UID]bool
}

// sure removes records that the journal has as waiting or dead, that the timeline does not know, and whose content was
// refused since, or that a quarantined entry names: the change that the journal lacks may be their end.
func (w *restoring) sure(ctx context.Context, bucket message.Bucket, records []record.Record) ([]record.Record,
	error) {
	outdated, err := w.outdated(ctx, records)
	if err != nil {
		return nil, err
	}
	d := &w.doubts[bucket]
	for entries, err := range w.quarantined(ctx, bucket, &d.after) {
		if err != nil {
			return nil, err
		}
		for _, q := range entries {
			for _, uid := range q.UIDs {
				if !q.Known {
					if d.uids == nil {
						d.uids = map[message.UID]bool{}
					}
					d.uids[uid] = true
				}
			}
		}
	}
	var unsure []message.UID
	for i := range records {
		if uid := records[i].UID; stays(records[i].State) && (d.uids[uid] || outdated[uid]) {
			unsure = append(unsure, records[i].UID)
		}
	}
	if len(unsure) == 0 {
		return records, nil
	}
	stands, err := w.versions(ctx, bucket, unsure)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(records), func(r record.Record) bool {
		return slices.Contains(unsure, r.UID) && stands[r.UID].Version == 0
	}), nil
}

// outdated returns the messages whose content the journal has from before a content that it refused: a message that is
// lost is better than one with what its user has replaced.
func (w *restoring) outdated(ctx context.Context, records []record.Record) (map[message.UID]bool, error) {
	var changed []message.UID
	content := map[message.UID]uint64{}
	for i := range records {
		if r := &records[i]; r.Content < r.Version && stays(r.State) {
			changed, content[r.UID] = append(changed, r.UID), r.Content
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	bare, err := w.Store.Bare(ctx, changed)
	if err != nil {
		return nil, fmt.Errorf("ask what the journal refused: %w: %w", ErrNoDatabase, err)
	}
	found := map[message.UID]bool{}
	for uid, versions := range bare {
		if found[uid] = slices.Max(versions) > content[uid]; found[uid] {
			w.Log.Error().Str("uid", string(uid)).Msg(
				"not restored: the journal refused its latest content, and an older one must not be delivered")
		}
	}
	return found, nil
}
