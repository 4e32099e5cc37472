package journaltest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// ExerciseModel makes random complete histories of several messages, splits them into batches, writes these in random
// order, some twice, three at the same time, and compares the results with the histories. retry reports whether to
// repeat a failed write; a nil retry never does.
func ExerciseModel(t *testing.T, j journal.Store, retry func(error) bool) {
	next := 0
	rapid.Check(t, func(r *rapid.T) {
		next += 100
		histories, all := drawHistories(r, next)
		batches := drawBatches(r, all)
		writeAll(r, t, j, batches, retry)
		compareAll(r, t, j, histories)
	})
}

// drawHistories returns the complete histories of up to six messages.
func drawHistories(r *rapid.T, first int) (histories [][]record.Change, all []record.Change) {
	for i := range rapid.IntRange(1, 6).Draw(r, "messages") {
		m := newMessage(first+i, id(rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "id")))
		history := accepted(m)
		for v := range rapid.IntRange(0, 5).Draw(r, "changes") {
			c := became(m, uint64(v+2), message.StateWaiting,
				start+message.Milli(rapid.IntRange(0, 3).Draw(r, "at")))
			c.Due += message.Milli(rapid.IntRange(0, 2).Draw(r, "later"))
			c.Uncertain, c.Refusals = rapid.Bool().Draw(r, "uncertain"),
				uint32(rapid.IntRange(0, 2).Draw(r, "refusals"))
			c.Term, c.Reason = uint64(rapid.IntRange(0, 9).Draw(r, "term")),
				rapid.SampledFrom([]string{"", "why"}).Draw(r, "reason")
			if rapid.IntRange(0, 3).Draw(r, "content") == 0 {
				other := *m
				other.Topic, other.Body, other.Due = fmt.Sprintf("orders.%d", v),
					fmt.Appendf(nil, "version %d", c.Version), c.Due
				c.Message = &other
			}
			history = append(history, c)
		}
		if end := &history[len(history)-1]; rapid.Bool().Draw(r, "ended") {
			end.State = rapid.SampledFrom([]message.State{message.StateDelivered, message.StateCanceled,
				message.StateExpired, message.StateDead}).Draw(r, "end")
		}
		histories = append(histories, history)
		all = append(all, history...)
	}
	return histories, all
}

// drawBatches splits changes into batches, shuffles them and repeats some.
func drawBatches(r *rapid.T, all []record.Change) (batches [][]record.Change) {
	for rest := rapid.Permutation(all).Draw(r, "order"); len(rest) > 0; {
		n := rapid.IntRange(1, min(len(rest), 8)).Draw(r, "batch")
		batches = append(batches, rest[:n])
		rest = rest[n:]
	}
	for range rapid.IntRange(0, 3).Draw(r, "repeats") {
		again := slices.Clone(rapid.SampledFrom(batches).Draw(r, "again"))
		batches = slices.Insert(batches, rapid.IntRange(0, len(batches)).Draw(r, "place"), again)
	}
	return batches
}

func writeAll(r *rapid.T, t *testing.T, j journal.Store, batches [][]record.Change, retry func(error) bool) {
	todo := make(chan []record.Change, len(batches))
	for _, b := range batches {
		todo <- b
	}
	close(todo)
	failed := make(chan error, len(batches))
	var writing sync.WaitGroup
	for range 3 {
		writing.Go(func() {
			for batch := range todo {
				err := j.Write(t.Context(), map[message.Bucket]uint64{0: 1}, batch)
				for tries := 0; err != nil && retry != nil && retry(err) && tries < 100; tries++ {
					err = j.Write(t.Context(), map[message.Bucket]uint64{0: 1}, batch)
				}
				failed <- err
			}
		})
	}
	writing.Wait()
	for range batches {
		if err := <-failed; err != nil {
			r.Fatalf("write: %v", err)
		}
	}
}

func compareAll(r *rapid.T, t *testing.T, j journal.Store, histories [][]record.Change) {
	var uids []message.UID
	var want []record.Record
	for _, history := range histories {
		uids, want = append(uids, history[0].UID), append(want, recorded(history...))
		got, err := j.History(t.Context(), history[0].UID, record.MaxChanges)
		if err != nil {
			r.Fatalf("history: %v", err)
		}
		if wrong := differentChanges(got, history); wrong != "" {
			r.Fatalf("history: %s", wrong)
		}
	}
	got, err := j.Records(t.Context(), uids)
	if err != nil {
		r.Fatalf("records: %v", err)
	}
	if wrong := differentRecords(got, want); wrong != "" {
		r.Fatalf("records: %s", wrong)
	}
	versions, err := j.Versions(t.Context(), uids)
	if err != nil {
		r.Fatalf("versions: %v", err)
	}
	for _, w := range want {
		if version := w.Version; w.Content == 0 && versions[w.UID].Version != 0 ||
			w.Content > 0 && versions[w.UID] != (record.Stand{State: w.State, Version: version, At: w.ChangedAt}) {
			r.Fatalf("%s stands as %v, want version %d, %s (content of %d)", w.UID, versions[w.UID], version,
				w.State, w.Content)
		}
	}
}
