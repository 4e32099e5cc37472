package journaltest

import (
	"bytes"
	"strings"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// MaxRow is the size of body and headers of the suite's largest messages, in bytes.
const MaxRow = 1<<20 + 32<<10

var sizePromises = []promise{
	{"large bodies and headers go together in one batch, whatever their bytes", func(t *trial) {
		var changes []record.Change
		var want []record.Record
		for i, unit := range []string{"x", "\x00", "'", "\\", "\xff"} {
			m := newMessage(i, body(bytes.Repeat([]byte(unit), 1<<20)))
			m.Headers = []message.Header{{Name: "Long", Value: strings.Repeat(unit, 32<<10-4)}}
			c := accept(m)
			changes, want = append(changes, c), append(want, recorded(c))
		}
		t.write(changes...)
		t.wantRecords(t.whole(t.list(record.RecordQuery{Limit: 10})), want...)
	}},
	{"a batch may be of a thousand messages, and end them all", func(t *trial) {
		var begins, ends []record.Change
		var want []record.Record
		for i := range 1000 {
			m := newMessage(i, body(bytes.Repeat([]byte{byte(i)}, 300)))
			begins, ends = append(begins, accept(m)), append(ends, became(m, 2, message.StateDelivered, start))
			want = append(want, recorded(begins[i], ends[i]))
		}
		t.write(begins...)
		t.write(ends...)
		t.wantRecords(t.whole(t.pages(record.RecordQuery{Limit: 1000})), want...)
		uids := make([]message.UID, len(want))
		for i := range want {
			uids[i] = want[i].UID
		}
		t.wantRecords(t.records(uids...), want...)
		t.prune(start+1, 10_000, 1000)
	}},
}
