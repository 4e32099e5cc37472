package journaltest

import (
	"errors"
	"maps"
	"sync"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func (t *trial) wantFences(want map[message.Bucket]uint64) {
	t.Helper()
	got, err := t.j.Fences(t.Context())
	if t.must("fences", err); !maps.Equal(got, want) {
		t.Fatalf("fences are %v, want %v", got, want)
	}
}

func (t *trial) fence(bucket message.Bucket, number uint64) {
	t.Helper()
	t.must("fence", t.j.Fence(t.Context(), bucket, number))
}

var fencePromises = []promise{
	{"a fence rises and never falls", func(t *trial) {
		t.wantFences(map[message.Bucket]uint64{})
		t.fence(3, 5)
		t.fence(0, 1)
		t.fence(3, 4)
		t.fence(3, 5)
		t.wantFences(map[message.Bucket]uint64{0: 1, 3: 5})
		t.fence(3, 1<<53)
		t.wantFences(map[message.Bucket]uint64{0: 1, 3: 1 << 53})
	}},
	{"a write under a lower certification writes nothing at all", func(t *trial) {
		t.fence(1, 5)
		m, n := newMessage(1), newMessage(2)
		end := became(n, 2, message.StateDelivered, start)
		end.Term = 99
		t.write(accept(n))
		for _, fences := range []map[message.Bucket]uint64{{1: 4}, {0: 9, 1: 4, 2: 9}, {1: 0}} {
			err := t.j.Write(t.Context(), fences, []record.Change{accept(m), end})
			if !errors.Is(err, scheduler.ErrFenced) {
				t.Fatalf("under %v: got %v, want ErrFenced", fences, err)
			}
		}
		t.wantRecords(t.records(m.UID, n.UID), recorded(accept(n)))
		t.wantChanges(t.history(m.UID))
		t.wantChanges(t.history(n.UID), accept(n))
		if term, err := t.j.MaxTerm(t.Context()); err != nil || term != 0 {
			t.Fatalf("max term: %d, %v", term, err)
		}
		t.wantFences(map[message.Bucket]uint64{1: 5})
	}},
	{"a write under the same certification, a higher one or none is written", func(t *trial) {
		t.fence(1, 5)
		for i, fences := range []map[message.Bucket]uint64{{1: 5}, {1: 6}, {0: 1, 2: 1}, {}, nil, {7: 0}} {
			m := newMessage(i)
			t.must("write", t.j.Write(t.Context(), fences, accepted(m)))
			t.wantRecords(t.records(m.UID), recorded(accept(m)))
		}
		t.wantFences(map[message.Bucket]uint64{1: 5})
	}},
	{"when a fence has risen, no write under a lower certification is still to come", func(t *trial) {
		const writers, rounds = 4, 8
		next := 0
		for round := range rounds {
			number := uint64(round + 1)
			t.fence(0, number)
			var writing sync.WaitGroup
			first := make(chan struct{}, writers)
			uids := make([][]message.UID, writers)
			for w := range writers {
				from := next
				next += 10_000
				writing.Go(func() {
					begun := sync.OnceFunc(func() { first <- struct{}{} })
					defer begun()
					for i := range 300 {
						batch := accepted(newMessage(from+2*i), newMessage(from+2*i+1))
						uids[w] = append(uids[w], batch[0].UID, batch[1].UID)
						fences := map[message.Bucket]uint64{0: number, message.Bucket(1 + w): 1}
						err := t.j.Write(t.Context(), fences, batch)
						if errors.Is(err, scheduler.ErrFenced) {
							return
						}
						if err != nil {
							t.Errorf("write: %v", err)
							return
						}
						if i == 2 {
							begun()
						}
					}
				})
			}
			for range writers {
				<-first
			}
			t.fence(0, number+1)
			then, err := t.j.Changes(t.Context(), record.ChangeQuery{Limit: 1 << 20})
			writing.Wait()
			t.must("changes", err)
			now := t.changes(record.ChangeQuery{Limit: 1 << 20})
			if len(now) != len(then) {
				t.Fatalf("round %d: %d changes when the fence had risen, %d later", round, len(then), len(now))
			}
			if len(now)%2 != 0 {
				t.Fatalf("round %d: %d changes of batches of two", round, len(now))
			}
		}
	}},
}
