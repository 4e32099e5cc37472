package memory

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestOrder_LeavesLowestFirstWhateverLeftBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o order
		var stand []*entry
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(stand) == 0 || rapid.IntRange(0, 2).Draw(t, "step") > 0 {
				e := &entry{uid: message.UID(fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "uid")))}
				stand = append(stand, e)
				o.push(e, rapid.Int64Range(0, 9).Draw(t, "rank"))
				continue
			}
			i := rapid.IntRange(0, len(stand)-1).Draw(t, "leaves")
			o.remove(stand[i])
			stand = slices.Delete(stand, i, i+1)
		}
		var last slot
		for range stand {
			first := o[0]
			if last.entry != nil && first.before(last) {
				t.Fatalf("%d %s left after %d %s", first.rank, first.uid, last.rank, last.uid)
			}
			o.remove(first.entry)
			last = first
		}
		if len(o) != 0 {
			t.Fatalf("%d are left over", len(o))
		}
	})
}

func TestOrder_GivesBackTheRoomOfABurst(t *testing.T) {
	t.Parallel()
	var o order
	for i := range 100_000 {
		o.push(new(entry), int64(i))
	}
	for i := range int64(99_990) {
		if o[0].rank != i {
			t.Fatalf("%d came first, want %d", o[0].rank, i)
		}
		o.remove(o[0].entry)
	}
	if cap(o) > 2048 {
		t.Fatalf("10 entries hold room for %d", cap(o))
	}
}
