package app

import (
	"context"
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// quarantining is a store whose one bucket has quarantined entries, one a page.
type quarantining struct {
	store
	entries []record.Quarantined
}

func (quarantining) Buckets() message.Bucket { return 1 }

func (q quarantining) Quarantined(_ context.Context, _ message.Bucket,
	after string) (list []record.Quarantined, next string, err error) {
	if len(after) == len(q.entries) {
		return nil, "", nil
	}
	return q.entries[len(after):][:1], after + "x", nil
}

func TestInstance_KnowsWhatTheJournalCouldNotRecord(t *testing.T) {
	i := instance{store: quarantining{entries: []record.Quarantined{{UIDs: []message.UID{"a"}},
		{UIDs: []message.UID{"b", "c"}}}}}
	for uid, want := range map[message.UID]bool{"a": true, "c": true, "d": false} {
		if got := i.bare(t.Context(), uid); got != want {
			t.Errorf("%s: %v, want %v", uid, got, want)
		}
	}
}
