package timeline

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Add stores a batch in one script.
func (t *Redis) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	topics := topicsOf(len(batch), func(i int) string { return batch[i].Topic })
	args := make([]any, 4, 4+2*len(topics)+4*len(batch))
	args[0], args[1], args[2], args[3] = int64(now), t.limit(), cmp.Or(t.cfg.CallLimit, scheduler.MaxCalls), len(topics)
	for topic, n := range topics {
		args = append(args, topic, n)
	}
	for _, m := range batch {
		size := fixedLen + 64 + len(m.Topic) + len(m.ID) + len(m.Key) + m.Size() + 6*len(m.Headers)
		packed, err := pack(make([]byte, 0, size), m)
		if err != nil {
			return nil, nil, err
		}
		score := any("")
		if !m.Pull {
			score = m.Score()
		}
		args = append(args, string(m.UID)+m.Call, score, packed, nameArg(m))
	}
	c := &call{bucket: bucket, script: "add", entry: t.context(ctx, 0, now, batch...), args: args}
	results, a, err := addResults(t.run(ctx, c), len(batch))
	if err != nil {
		return nil, nil, err
	}
	for i := range results {
		results[i].Number = c.number
	}
	return results, a.earlier, t.added(c, batch, results, a)
}

// topicsOf counts the topics of n messages.
func topicsOf(n int, of func(i int) string) map[string]int {
	topics := map[string]int{}
	for i := range n {
		topics[of(i)]++
	}
	return topics
}

// limit returns the outbox's limit in bytes.
func (t *Redis) limit() int64 {
	if t.cfg.Record == nil {
		return 0
	}
	return t.cfg.Record.Limit
}

// added reports the entries of an add to the journal's writer. Usually there is one entry. If there are more, the
// script does not say which change is in which entry, so those entries are left to the reader of the outbox.
func (t *Redis) added(c *call, batch []*message.Message, results []scheduler.AddResult, a addAnswer) error {
	if t.cfg.Record == nil || a.entries == "" || strings.Contains(a.entries, "\n") {
		return nil
	}
	if len(a.pairs) > 0 {
		changes, err := mergedChanges(batch, a.pairs)
		if err != nil {
			return fmt.Errorf("add: %w", err)
		}
		return t.wrote(c, a.entries, changes)
	}
	changes := make([]record.Change, 0, len(batch))
	for i, m := range batch {
		if results[i].Code > scheduler.AddedCanceled {
			continue
		}
		changes = append(changes, accepted(m))
		if results[i].Code == scheduler.AddedCanceled {
			changes = append(changes, endedAs(&results[i].First))
		}
	}
	return t.wrote(c, a.entries, changes)
}

// mergedChanges returns the changes of a batch in which something was merged, from the fields that the outbox received.
func mergedChanges(batch []*message.Message, pairs []string) ([]record.Change, error) {
	pushes := make(map[message.UID]*message.Message, len(batch))
	for _, m := range batch {
		pushes[m.UID] = m
	}
	changes := make([]record.Change, len(pairs)/2)
	for i := range changes {
		uid, form := message.UID(pairs[2*i]), pairs[2*i+1]
		if m := pushes[uid]; form == "" && m != nil {
			changes[i] = accepted(m)
			continue
		}
		var err error
		if changes[i], err = readPair(uid, form); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// nameArg returns the name of a push as the scripts read it.
func nameArg(m *message.Message) string {
	merges := m.Merge != message.MergeReject
	switch {
	case m.ID == "" && !m.Judge:
		return ""
	case m.ID == "":
		return "!" + text(m.Judged)
	}
	b := make([]byte, 0, len(m.ID)+len(m.Key)+64)
	b = append(append(b, byte(len(m.ID))), m.ID...)
	b = append(append(b, byte(len(m.Key))), m.Key...)
	b = strconv.AppendUint(b, m.Stored, 10)
	switch m.Merge {
	case message.MergeKeep:
		b = append(b, 'k')
	case message.MergeReplace:
		b = append(b, 'r')
	case message.MergeDebounce:
		b = append(b, 'd')
	}
	if merges {
		b = strconv.AppendInt(b, int64(message.Milli(0).Add(max(m.MaxWait, 0))), 10)
		b = strconv.AppendInt(append(b, ':'), int64(m.Since), 10)
		b = strconv.AppendInt(append(b, ':'), int64(m.StoredAt), 10)
	}
	if merges || m.Judge {
		b = strconv.AppendUint(append(b, '!'), m.Judged, 10)
	}
	return string(b)
}

// addAnswer is the part of an add's answer beside the results.
type addAnswer struct {
	earlier []scheduler.Earlier
	entries string   // the entries of the outbox
	pairs   []string // the fields that the outbox received, if something was merged
}

func addResults(a *answer, n int) ([]scheduler.AddResult, addAnswer, error) {
	beside := addAnswer{earlier: a.earlier(), entries: a.text("entries")}
	for range a.code("fields", len(a.values)) {
		beside.pairs = append(beside.pairs, a.text("field"))
	}
	results := make([]scheduler.AddResult, n)
	for a.more() {
		i, code := a.code("push", n), scheduler.AddCode(a.code("code", int(scheduler.AddCalls)))
		info, err := a.info()
		if i < 1 || code < 1 {
			a.fail("push", fmt.Errorf("code %d for push %d of %d", code, i, n))
			break
		}
		if err != nil && code < scheduler.AddFilling { // in a part that the scripts do not read
			code, info = scheduler.AddUnreadable, message.Info{Message: message.Message{UID: info.UID}}
		}
		results[i-1] = scheduler.AddResult{Code: code, First: info}
	}
	return results, beside, a.done()
}
