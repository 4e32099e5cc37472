package timeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// Add stores a batch in one script.
func (t *Redis) Add(ctx context.Context, bucket int, batch []*scheduler.Message, now scheduler.Milli) ([]scheduler.AddResult, scheduler.Milli, error) {
	k, err := t.place(bucket)
	if err != nil {
		return nil, 0, err
	}
	args := make([]any, 2, 2+4*len(batch))
	args[0], args[1] = int64(now), t.limit()
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
		keys: []string{k.due, k.msg, k.name, k.tomb, k.claimed, k.mark, k.ended, k.names, k.big}}
	v, err := t.run(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	results, head, told, err := addResults(v, len(batch))
	if err != nil {
		return nil, 0, err
	}
	for i := range results {
		results[i].Number = c.number
	}
	return results, head, t.added(c, batch, results, told)
}

// limit is the outbox's, in bytes.
func (t *Redis) limit() int64 {
	if t.cfg.Record == nil {
		return 0
	}
	return t.cfg.Record.Limit
}

// added tells the journal of the entries of an add. Mostly there is one; what
// stands in which is not told when there are more, so those are left to whoever
// reads the outbox.
func (t *Redis) added(c *call, batch []*scheduler.Message, results []scheduler.AddResult, told string) error {
	if t.cfg.Record == nil || told == "" || strings.Contains(told, "\n") {
		return nil
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
	return t.wrote(c, told, changes)
}

// nameArg is the name of a push as add.lua reads it.
func nameArg(m *scheduler.Message) string {
	if m.ID == "" {
		return ""
	}
	b := make([]byte, 0, len(m.ID)+len(m.Key)+22)
	b = append(append(b, byte(len(m.ID))), m.ID...)
	b = append(append(b, byte(len(m.Key))), m.Key...)
	return string(strconv.AppendUint(b, m.Stored, 10))
}

func addResults(v any, n int) ([]scheduler.AddResult, scheduler.Milli, string, error) {
	fields, err := texts(v)
	if err != nil || len(fields) < 2 || len(fields)%6 != 2 {
		return nil, 0, "", errAnswer("add", len(fields), err)
	}
	head, err := headOf(fields[0])
	if err != nil {
		return nil, 0, "", fmt.Errorf("add: %w", err)
	}
	results := make([]scheduler.AddResult, n)
	for f := fields[2:]; len(f) > 0; f = f[6:] {
		i, err := strconv.Atoi(f[0])
		code, err2 := strconv.Atoi(f[1])
		if err != nil || err2 != nil || i < 1 || i > n || code < 1 || code > 3 {
			return nil, 0, "", fmt.Errorf("add: answer %q for push %q of %d", f[1], f[0], n)
		}
		info, err := unpackInfo(scheduler.UID(f[2]), f[3], f[4] != "", f[5])
		if err != nil {
			return nil, 0, "", fmt.Errorf("add: %w", err)
		}
		results[i-1] = scheduler.AddResult{Code: scheduler.AddCode(code), First: info}
	}
	return results, head, fields[1], nil
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
