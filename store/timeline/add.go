package timeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// Add stores a batch in one script.
func (t *Redis) Add(ctx context.Context, bucket int, batch []*scheduler.Message,
	now scheduler.Milli) ([]scheduler.AddResult, scheduler.Milli, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, 0, err
	}
	topics := topicsOf(len(batch), func(i int) string { return batch[i].Topic })
	args := make([]any, 4, 4+2*len(topics)+4*len(batch))
	args[0], args[1], args[2], args[3] = int64(now), t.limit(), len(topics), k.parked
	for i := range topics {
		args = append(args, topics[i].name, topics[i].n)
	}
	for _, m := range batch {
		size := fixedLen + 64 + len(m.Topic) + len(m.ID) + len(m.Key) + len(m.Body)
		for _, h := range m.Headers {
			size += len(h.Name) + len(h.Value) + 6
		}
		packed, err := pack(make([]byte, 0, size), m)
		if err != nil {
			return nil, 0, err
		}
		args = append(args, string(m.UID), m.Score(), packed, nameArg(m))
	}
	entry := t.context(0, now)
	c := &call{bucket: bucket, script: t.scripts.add, entry: entry, args: args,
		keys: []string{k.due, k.msg, k.name, k.tomb, k.claimed, k.mark, k.ended, k.names, k.big, k.next,
			k.counts, k.refused}}
	v, err := t.run(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	results, a, err := addResults(v, len(batch))
	if err != nil {
		return nil, 0, err
	}
	for i := range results {
		results[i].Number = c.number
	}
	return results, a.head, t.added(c, batch, results, a)
}

// topicCount is how many messages of a batch have a topic.
type topicCount struct {
	name string
	n    int
}

// topicsOf counts the topics of n messages: mostly all have one.
func topicsOf(n int, of func(i int) string) []topicCount {
	var (
		topics []topicCount
		places map[string]int
		at     int
	)
	for i := range n {
		topic := of(i)
		if len(topics) == 0 || topics[at].name != topic {
			if places == nil {
				places = map[string]int{}
			}
			place, known := places[topic]
			if !known {
				place = len(topics)
				places[topic] = place
				topics = append(topics, topicCount{name: topic})
			}
			at = place
		}
		topics[at].n++
	}
	return topics
}

// limit is the outbox's, in bytes.
func (t *Redis) limit() int64 {
	if t.cfg.Record == nil {
		return 0
	}
	return t.cfg.Record.Limit
}

// added reports the entries of an add to the journal's writer. Mostly there is one
// entry. If there are more, the script does not say which change stands in which, so
// those are left to the reader of the outbox.
func (t *Redis) added(c *call, batch []*scheduler.Message, results []scheduler.AddResult, a addAnswer) error {
	if t.cfg.Record == nil || a.told == "" || strings.Contains(a.told, "\n") {
		return nil
	}
	if len(a.pairs) > 0 {
		changes, err := mergedChanges(batch, a.pairs)
		if err != nil {
			return fmt.Errorf("add: %w", err)
		}
		return t.wrote(c, a.told, changes)
	}
	changes := make([]scheduler.Change, 0, len(batch))
	for i, m := range batch {
		if results[i].Code > scheduler.AddedCanceled {
			continue
		}
		changes = append(changes, accepted(m))
		if results[i].Code == scheduler.AddedCanceled {
			changes = append(changes, endedAs(&results[i].First))
		}
	}
	return t.wrote(c, a.told, changes)
}

// mergedChanges are those of a batch of which something was merged, from what the
// outbox got.
func mergedChanges(batch []*scheduler.Message, pairs []string) ([]scheduler.Change, error) {
	pushes := make(map[scheduler.UID]*scheduler.Message, len(batch))
	for _, m := range batch {
		pushes[m.UID] = m
	}
	changes := make([]scheduler.Change, len(pairs)/2)
	for i := range changes {
		uid, form := scheduler.UID(pairs[2*i]), pairs[2*i+1]
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

// nameArg is the name of a push as the scripts read it.
func nameArg(m *scheduler.Message) string {
	if m.ID == "" {
		return ""
	}
	b := make([]byte, 0, len(m.ID)+len(m.Key)+22)
	b = append(append(b, byte(len(m.ID))), m.ID...)
	b = append(append(b, byte(len(m.Key))), m.Key...)
	b = strconv.AppendUint(b, m.Stored, 10)
	switch m.Merge {
	case scheduler.MergeKeep:
		b = append(b, 'k')
	case scheduler.MergeReplace:
		b = append(b, 'r')
	case scheduler.MergeDebounce:
		b = append(b, 'd')
	default:
		return string(b)
	}
	return string(strconv.AppendInt(b, int64(scheduler.Milli(0).Add(max(m.MaxWait, 0))), 10))
}

// addAnswer is what an add answers beside the results.
type addAnswer struct {
	head  scheduler.Milli
	told  string   // the entries of the outbox
	pairs []string // what the outbox got, where something was merged
}

func addResults(v any, n int) ([]scheduler.AddResult, addAnswer, error) {
	fields, err := texts(v)
	if err != nil || len(fields) < 3 {
		return nil, addAnswer{}, errAnswer("add", len(fields), err)
	}
	head, err := headOf(fields[0])
	if err != nil {
		return nil, addAnswer{}, fmt.Errorf("add: %w", err)
	}
	pairs, err := strconv.Atoi(fields[2])
	if err != nil || pairs < 0 || pairs%2 != 0 || pairs > len(fields)-3 || (len(fields)-3-pairs)%6 != 0 {
		return nil, addAnswer{}, errAnswer("add", len(fields), err)
	}
	a := addAnswer{head: head, told: fields[1], pairs: fields[3 : 3+pairs]}
	results := make([]scheduler.AddResult, n)
	for f := fields[3+pairs:]; len(f) > 0; f = f[6:] {
		i, err := strconv.Atoi(f[0])
		code, err2 := strconv.Atoi(f[1])
		if err != nil || err2 != nil || i < 1 || i > n || code < 1 || code > int(scheduler.AddUnreadable) {
			return nil, addAnswer{}, fmt.Errorf("add: answer %q for push %q of %d", f[1], f[0], n)
		}
		r := scheduler.AddResult{Code: scheduler.AddCode(code)}
		if r.Code != scheduler.AddUnreadable {
			r.First, err = unpackInfo(scheduler.UID(f[2]), f[3], f[4] != "", f[5])
		}
		if err != nil { // of what the scripts do not look at
			r.Code = scheduler.AddUnreadable
		}
		r.First.UID = scheduler.UID(f[2])
		results[i-1] = r
	}
	return results, a, nil
}

// headOf reads a score as the due time it stands for; the empty text is 0.
func headOf(score string) (scheduler.Milli, error) {
	if score == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return 0, fmt.Errorf("score %q: %w", score, err)
	}
	return max(scheduler.ScoreDue(int64(f)), 1), nil
}

// texts reads an array of bulk strings.
func texts(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("redis: answer is %T, want a list", v)
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, fmt.Errorf("redis: element %d of the answer is %T, want text", i, e)
		}
	}
	return out, nil
}
