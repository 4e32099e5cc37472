package journaltest

import (
	"cmp"
	"slices"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// story returns many changes, some of them at the same time.
func story() (all []record.Change) {
	for i := range 60 {
		m := newMessage(i)
		c := accept(m)
		c.At = start + message.Milli(i/20)
		all = append(all, c)
		for v := range i % 4 {
			c := became(m, uint64(v+2), message.StateWaiting, start+message.Milli((i+v)/20))
			if v == 2 {
				c.State = message.StateDead
			}
			all = append(all, c)
		}
	}
	return all
}

func byTime(a, b record.Change) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Version, b.Version))
}

var changePromises = []promise{
	{"a history is in the order of versions, whatever was written first", func(t *trial) {
		m, other := newMessage(1), newMessage(2)
		all := accepted(m)
		for v := range 20 {
			all = append(all, became(m, uint64(v+2), message.StateWaiting, start-message.Milli(v)))
		}
		t.write(all[10:]...)
		t.write(accept(other))
		t.write(all[:10]...)
		t.wantChanges(t.history(m.UID), all...)
		for _, uid := range []message.UID{"", "t-", "'", newMessage(3).UID} {
			t.wantChanges(t.history(uid))
		}
	}},
	{"a history is the last changes, up to a limit", func(t *trial) {
		m, other := newMessage(1), newMessage(2)
		all := accepted(m)
		for v := range 12 {
			all = append(all, became(m, uint64(v+2), message.StateWaiting, start-message.Milli(v)))
		}
		t.write(append(accepted(other), all...)...)
		for _, limit := range []int{-1, 0, 1, 12, 13, 14} {
			got, err := t.j.History(t.Context(), m.UID, limit)
			t.must("history", err)
			t.wantChanges(got, all[len(all)-min(max(limit, 0), len(all)):]...)
		}
	}},
	{"changes come in the order of time, uid and version, and pages leave no gap", func(t *trial) {
		all := story()
		t.write(all...)
		slices.SortFunc(all, byTime)
		for _, limit := range []int{3, 17, 1000} {
			for _, state := range []message.State{message.StateNone, message.StateWaiting, message.StateDead,
				message.StateExpired} {
				for _, since := range []message.Milli{0, start + 1, start + 9} {
					if limit == 3 && (state != message.StateNone || since != 0) {
						continue // the smallest pages cost the most
					}
					want := slices.DeleteFunc(slices.Clone(all), func(c record.Change) bool {
						return c.At < since || state != message.StateNone && c.State != state
					})
					var got []record.Change
					q := record.ChangeQuery{Since: since, State: state, Limit: limit}
					for {
						page := t.changes(q)
						if len(page) > limit {
							t.Fatalf("a page of %d, want at most %d", len(page), limit)
						}
						if len(page) == 0 {
							break
						}
						got = append(got, page...)
						last := page[len(page)-1]
						q.AfterAt, q.AfterUID, q.AfterVersion = last.At, last.UID, last.Version
					}
					if wrong := differentChanges(got, want); wrong != "" {
						t.Fatalf("%+v: %s", q, wrong)
					}
				}
			}
		}
		t.wantChanges(t.changes(record.ChangeQuery{}))
	}},
}
