package journaltest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// start is when the tests' messages are due, and the time of their first change.
const start message.Milli = 1_900_000_000_000

// trial tests one promise on one journal. Its calls fail the test if they fail.
type trial struct {
	*testing.T
	j journal.Store
}

// must fails the test if a call failed.
func (t *trial) must(step string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", step, err)
	}
}

func (t *trial) write(changes ...record.Change) {
	t.Helper()
	t.must("write", t.j.Write(t.Context(), nil, changes))
}

func (t *trial) records(uids ...message.UID) []record.Record {
	t.Helper()
	found, err := t.j.Records(t.Context(), uids)
	t.must("records", err)
	return found
}

func (t *trial) list(q record.RecordQuery) []record.Record {
	t.Helper()
	found, err := t.j.List(t.Context(), q)
	t.must("list", err)
	return found
}

// whole returns listed records with headers and bodies, in the order of the list.
func (t *trial) whole(list []record.Record) []record.Record {
	t.Helper()
	loaded := map[message.UID]record.Record{}
	var uids []message.UID
	for i := range list {
		uids = append(uids, list[i].UID)
	}
	for _, r := range t.records(uids...) {
		loaded[r.UID] = r
	}
	for i := range list {
		list[i] = loaded[list[i].UID]
	}
	return list
}

func (t *trial) changes(q record.ChangeQuery) []record.Change {
	t.Helper()
	found, err := t.j.Changes(t.Context(), q)
	t.must("changes", err)
	return found
}

func (t *trial) history(uid message.UID) []record.Change {
	t.Helper()
	found, err := t.j.History(t.Context(), uid, record.MaxChanges)
	t.must("history", err)
	return found
}

func (t *trial) find(ref scheduler.Ref) []record.Record {
	t.Helper()
	found, err := t.j.Find(t.Context(), ref, 100)
	t.must("find", err)
	return found
}

// wantRecords compares records one by one.
func (t *trial) wantRecords(got []record.Record, want ...record.Record) {
	t.Helper()
	if wrong := differentRecords(got, want); wrong != "" {
		t.Fatal(wrong)
	}
}

// wantUIDs compares the messages of records.
func (t *trial) wantUIDs(got []record.Record, want ...*message.Message) {
	t.Helper()
	g, w := make([]message.UID, len(got)), make([]message.UID, len(want))
	for i := range got {
		g[i] = got[i].UID
	}
	for i := range want {
		w[i] = want[i].UID
	}
	if !slices.Equal(g, w) {
		t.Fatalf("got %q, want %q", g, w)
	}
}

// wantChanges compares changes one by one, without due, marks and content.
func (t *trial) wantChanges(got []record.Change, want ...record.Change) {
	t.Helper()
	if wrong := differentChanges(got, want); wrong != "" {
		t.Fatal(wrong)
	}
}

// newMessage builds the n-th accepted message: its uid sorts after those of lower n.
func newMessage(n int, with ...func(*message.Message)) *message.Message {
	m := &message.Message{
		Topic: "orders.created", Body: fmt.Appendf(nil, "body %d", n),
		Headers: []message.Header{{Name: "Number", Value: fmt.Sprint(n)}},
		Due:     start, Attempt: 1,
	}
	for _, w := range with {
		w(m)
	}
	uid, err := message.IntakeUID(uint64(n),
		start.Add(-24*time.Hour+time.Duration(n)*time.Millisecond).Time(), m.ID, m.Key)
	if err != nil {
		panic(err) // n is out of the range of times
	}
	m.UID = uid
	return m
}

func id(id string) func(*message.Message)   { return func(m *message.Message) { m.ID = id } }
func key(key string) func(*message.Message) { return func(m *message.Message) { m.Key = key } }
func topic(topic string) func(*message.Message) {
	return func(m *message.Message) { m.Topic = topic }
}
func body(body []byte) func(*message.Message) {
	return func(m *message.Message) { m.Body = body }
}
func due(after time.Duration) func(*message.Message) {
	return func(m *message.Message) { m.Due = start.Add(after) }
}

// accept returns the first change of a message.
func accept(m *message.Message) record.Change {
	return record.Change{
		UID: m.UID, Version: 1, State: message.StateWaiting, At: start - 1000, Bucket: m.UID.Bucket(4),
		Instance: "tarry-1", Address: "10.0.0.1:7000", By: "shop",
		Due: m.Due, Message: m,
	}
}

// accepted returns the first changes of messages.
func accepted(all ...*message.Message) (changes []record.Change) {
	for _, m := range all {
		changes = append(changes, accept(m))
	}
	return changes
}

// became returns a later change of a message.
func became(m *message.Message, version uint64, state message.State, at message.Milli) record.Change {
	c := accept(m)
	c.Version, c.State, c.At, c.Message = version, state, at, nil
	c.Term, c.Claimed, c.Attempt, c.By = 3, at-1, m.Attempt, ""
	return c
}

// recorded returns the record that changes of one message lead to, whatever their order: the state comes from the
// highest version, the content from the highest version with content.
func recorded(changes ...record.Change) (r record.Record) {
	for _, c := range changes {
		if c.Message != nil && c.Version > r.Content {
			mark, due := r.Mark, r.Due
			r.Message, r.Content = *c.Message, c.Version
			r.Mark, r.Due, r.Stored = mark, due, 0
		}
		if c.Version > r.Version {
			r.UID, r.Version, r.State, r.Due, r.ChangedAt, r.Reason, r.EndedAt = c.UID, c.Version, c.State, c.Due,
				c.At, c.Reason, 0
			r.ChangedBy = c.By
			r.Mark = message.Mark{Uncertain: c.Uncertain, Refusals: c.Refusals, Changes: uint32(c.Version - 1)}
			if c.State.Ended() {
				r.EndedAt = c.At
			}
		}
	}
	return r
}

// without returns a record as a look-up returns it that asks for neither headers nor body.
func without(r record.Record) record.Record {
	r.Headers, r.Body = nil, nil
	return r
}

// differentRecords describes the first difference, or returns "".
func differentRecords(got, want []record.Record) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("missing %s", describe(want[i]))
		case i >= len(want):
			return fmt.Sprintf("more: %s", describe(got[i]))
		case !reflect.DeepEqual(plain(got[i]), plain(want[i])):
			return fmt.Sprintf("got %s\nwant %s", describe(got[i]), describe(want[i]))
		}
	}
	return ""
}

// plain makes absent and empty values equal.
func plain(r record.Record) record.Record {
	if len(r.Body) == 0 {
		r.Body = nil
	}
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	return r
}

func describe(r record.Record) string {
	if len(r.Body) > 100 {
		r.Body = append(slices.Clone(r.Body[:100]), fmt.Sprintf("… %d bytes", len(r.Body))...)
	}
	return fmt.Sprintf("%+v, body %q, headers %q", r, r.Body, r.Headers)
}

// differentChanges describes the first difference, or returns "".
func differentChanges(got, want []record.Change) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("missing %+v", bare(want[i]))
		case i >= len(want):
			return fmt.Sprintf("more: %+v", got[i])
		case bare(got[i]) != bare(want[i]):
			return fmt.Sprintf("got %+v\nwant %+v", bare(got[i]), bare(want[i]))
		}
	}
	return ""
}

// bare returns what a journal returns of a change: everything but the content.
func bare(c record.Change) record.Change {
	c.Message = nil
	return c
}
