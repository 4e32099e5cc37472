package timeline

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func recorded(t *Redis) *Redis {
	t.cfg.Record = &record.Recording{Instance: "a", Address: "a:1", Limit: 1,
		Wrote: func(record.Entry) {}}
	return t
}

func TestBlobOf_ComesBackWhole(t *testing.T) {
	changes := []record.Change{
		{UID: "t-0123456789abcdef", Version: 2, State: message.StateDelivered, Claimed: 1_800_000_000_000, Attempt: 3,
			Stream: "ORDERS", Sequence: 1 << 60, Due: -5, Refusals: 7},
		{UID: "t-0123456789abcdeg", Version: 1 << 40, State: message.StateWaiting, Reason: strings.Repeat("x", 253),
			Uncertain: true},
		{UID: "t-0123456789abcdeg", Version: 2, State: message.StateCanceled, Kind: message.KindRequeued,
			Other:  "t-0123456789abcdeh",
			Reason: "requeued as t-0123456789abcdeh"},
	}
	got, err := readBlob(string(blobOf(changes)))
	if err != nil || !reflect.DeepEqual(got, changes) {
		t.Fatalf("got %+v, %v; want %+v", got, err, changes)
	}
}

func TestReadPair_TellsWhatAnAmendMade(t *testing.T) {
	m := sample()
	live, err := pack(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	due := string(binary.BigEndian.AppendUint64(nil, uint64(m.Due)))
	want := record.Change{UID: m.UID, Version: 6, State: message.StateWaiting, Due: m.Due, Refusals: 2,
		Reason: "run"}
	got, err := readPair(m.UID, "\x03"+due+"\x060:2:5:\x05\x00\x00run")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	want.Message = m
	got, err = readPair(m.UID, "\x03"+due+"\x060:2:5:\x05\x00\x00run"+string(live))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("with content: got %+v, %v; want %+v", got, err, want)
	}
	for _, damaged := range []string{"\x03", "\x03" + due, "\x03" + due + "\x06", "\x03" + due + "\x060:2:5:\x03ru",
		"\x03" + due + "\x060:2:5:\x05\x00\x00run" + string(live[:40])} {
		if got, err := readPair(m.UID, damaged); err == nil {
			t.Errorf("%q was read as %+v", damaged, got)
		}
	}
}

// A stream may hold any bytes: they are read or refused, and no length is trusted beyond the end.
func FuzzReadEntry(f *testing.F) {
	context := string(recorded(&Redis{}).context(f.Context(), 7, 1_800_000_000_000))
	several := string(recorded(&Redis{}).context(f.Context(), 0, 1_800_000_000_000,
		&message.Message{UID: "t-0123456789abcdef", By: "shop"}, &message.Message{UID: "t-0123456789abcdeg"}))
	live, _ := pack(nil, sample())
	end, _ := packEnd(&scheduler.End{Message: sample(), State: message.StateDead, Reason: "r"}, 9)
	blob := string(blobOf([]record.Change{
		{UID: "t-0123456789abcdef", Version: 2, State: message.StateDelivered, Stream: "S", Sequence: 1}}))
	f.Add(context, "10 1", "e", blob, "o", "t-0123456789abcdef")
	f.Add(context, "10 1", "t-0123456789abcdef", string(live), "t-0123456789abcdef", string(end))
	f.Add(context, "10 1", "t-0123456789abcdef", "\x00\x00\x00\x00\x00\x00\x00\x091:2:3:lane", "", "")
	f.Add(context, "10 1", "t-0123456789abcdef",
		"\x03\x00\x00\x00\x00\x00\x00\x00\x09\x060:0:3:\x00"+string(live), "", "")
	f.Add(several, "10 1", "t-0123456789abcdef", string(live), "", "")
	f.Add(context, "10 1", "t-0123456789abcdef", "\x04"+strings.Repeat("d", 32)+"\x09\x01r\x02id\x01tbody", "", "")
	f.Fuzz(func(t *testing.T, context, told, name, value, name2, value2 string) {
		fields := []string{"c", context, "z", told, name, value, name2, value2}
		e, err := readEntry(3, "1-1", fields)
		if err != nil {
			for _, c := range (&Redis{cfg: Config{Buckets: 4}}).damaged(3, "1-1", fields, err).Changes {
				if !message.IsUID(string(c.UID)) || c.UID.Bucket(4) != 3 || c.Bucket != 3 || c.At < 0 ||
					c.Version != 0 {
					t.Fatalf("a damaged entry names %+v", c)
				}
			}
			return
		}
		for _, c := range e.Changes {
			rejected := c.Rejected != nil && c.Version == 0 && c.State == message.StateNone
			if !rejected && (c.Version == 0 || c.State == message.StateNone) || c.Bucket != 3 ||
				c.State > message.StateDead {
				t.Fatalf("read %+v", c)
			}
		}
	})
}
