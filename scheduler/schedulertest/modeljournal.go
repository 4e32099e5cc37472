package schedulertest

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// editedReason is the reason of the model's amends that give other content.
const editedReason = "edited"

// recordings holds the entries that one timeline reported for the journal. They stand in its outboxes.
type recordings struct {
	all []record.Entry
	new []record.Change // since the last look
}

// recording returns a recording that adds to l.
func (l *recordings) recording() *record.Recording {
	return &record.Recording{Instance: "model", Address: "nowhere:1", Limit: 1 << 40,
		Wrote: func(e record.Entry) {
			l.all = append(l.all, e)
			l.new = append(l.new, e.Changes...)
		}}
}

// of returns the changes of a message that were recorded since the last look.
func (l *recordings) of(uid message.UID) (changes []record.Change) {
	for _, c := range l.new {
		if c.UID == uid {
			changes = append(changes, c)
		}
	}
	return changes
}

// recorded compares the changes that both timelines reported in one step, and checks that each follows the version
// before it. It returns how many there were.
func (m *model) recorded(what string) int {
	got, want := m.realLog.new, m.refLog.new
	m.realLog.new, m.refLog.new = nil, nil
	sortChanges(got)
	sortChanges(want)
	if wrong := differentChanges(got, want); wrong != "" {
		m.Fatalf("%s: the journal records something else: %s", what, wrong)
	}
	for i := range got {
		c := &got[i]
		if c.Version != m.versions[c.UID]+1 {
			m.Fatalf("%s: %s goes from version %d to %d", what, c.UID, m.versions[c.UID], c.Version)
		}
		if (c.Version == 1 || c.Reason == ReasonReplaced || c.Reason == editedReason) != (c.Message != nil) {
			m.Fatalf("%s: version %d of %s with content: %v", what, c.Version, c.UID, c.Message != nil)
		}
		m.versions[c.UID] = c.Version
	}
	return len(got)
}

func sortChanges(changes []record.Change) {
	slices.SortFunc(changes, func(a, b record.Change) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.At, b.At), cmp.Compare(a.Version, b.Version))
	})
}

// differentChanges returns the first difference, or the empty string if there is none.
func differentChanges(got, want []record.Change) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing " + describeChange(&want[i])
		case i >= len(want):
			return "more: " + describeChange(&got[i])
		}
		g, w := got[i], want[i]
		sameContent := (g.Message == nil) == (w.Message == nil) &&
			(g.Message == nil ||
				sameInfo(message.Info{Message: content(g.Message)}, message.Info{Message: content(w.Message)}))
		g.Message, w.Message = nil, nil
		if !sameContent || !reflect.DeepEqual(g, w) {
			return "got " + describeChange(&got[i]) + ", want " + describeChange(&want[i])
		}
	}
	return ""
}

// content returns the part of a message that the journal keeps.
func content(m *message.Message) message.Message {
	c := *m
	c.Stored, c.Since, c.StoredAt, c.Merge, c.MaxWait, c.Mark = 0, 0, 0, message.MergeReject, 0, message.Mark{}
	return c
}

// drainOutboxes removes all entries, as the journal does once it has them.
func (m *model) drainOutboxes() {
	m.drainOutbox(m.real, &m.realLog)
	m.drainOutbox(m.ref, &m.refLog)
}

// drainOutbox reads the outboxes of a timeline, which must hold what it reported, and removes the entries.
func (m *model) drainOutbox(tl scheduler.Timeline, log *recordings) {
	outbox := tl.(record.Outbox)
	var changes, read []record.Change
	for _, e := range log.all {
		changes = append(changes, e.Changes...)
	}
	for b := range m.o.Buckets {
		after := ""
		for {
			entries, err := outbox.Unwritten(m.ctx, b, after, 0, 7, block)
			if err != nil {
				m.Fatalf("read the outbox of %d: %v", b, err)
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				read = append(read, e.Changes...)
			}
			after = entries[len(entries)-1].ID
		}
	}
	sortChanges(changes)
	sortChanges(read)
	if wrong := differentChanges(read, changes); wrong != "" {
		m.Fatalf("the outbox differs from what was reported: %s", wrong)
	}
	for _, e := range log.all {
		for range 2 {
			if err := outbox.Written(m.ctx, e.Bucket, []record.Entry{e}); err != nil {
				m.Fatalf("remove an entry: %v", err)
			}
		}
	}
	log.all = nil
	lags, err := outbox.Lags(m.ctx)
	for b, l := range lags {
		if err != nil || l != (record.Lag{}) {
			m.Fatalf("bucket %d after all was written: %+v, %v", b, l, err)
		}
	}
}

func describeChange(c *record.Change) string {
	s := describe(message.Info{Message: message.Message{UID: c.UID, Due: c.Due}, State: c.State, Version: c.Version,
		Kind: c.Kind, Other: c.Other, Reason: c.Reason})
	if c.Message != nil {
		s += " with content " + describe(message.Info{Message: *c.Message})
	}
	return s
}
