package timeline

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func sample() *message.Message {
	return &message.Message{
		UID: "t-0123456789abcdef", ID: "order-7", Key: "customer-1", Topic: "orders.created",
		Headers: []message.Header{{Name: "traceparent", Value: "00-ab"}, {Name: "X", Value: ""},
			{Name: "X", Value: "2"}},
		Body: []byte("hello"), Due: 1_800_000_000_123, Priority: 9, TTL: 90 * time.Second, Attempt: 3,
		Digest: message.Digest{1, 2, 3},
		Origin: "t-0123456789abcdeg",
		Retry:  message.Retry{Delays: []time.Duration{0, 2 * time.Minute, 400 * 24 * time.Hour}, Jitter: 10},
		Pull:   true, Lease: 12 * time.Hour,
	}
}

func TestPack_ComesBackWhole(t *testing.T) {
	plain := &message.Message{UID: "t-0123456789abcdef", Topic: "a", Due: 5, Attempt: 1}
	once := sample()
	once.Retry = message.Retry{None: true}
	for _, m := range []*message.Message{sample(), plain, once} {
		b, err := pack(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpack(m.UID, string(b))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	}
}

func TestPackEnd_KeepsWhatTheMemoryOfEndsNeeds(t *testing.T) {
	named, plain := sample(),
		&message.Message{UID: "t-0123456789abcdef", Topic: "a", Due: 5, Attempt: 1, Body: []byte("x")}
	for _, c := range []struct {
		end       scheduler.End
		topic, id string
		body      []byte
		reason    string
	}{
		{scheduler.End{Message: named, State: message.StateDelivered}, named.Topic, named.ID, nil, ""},
		{scheduler.End{Message: plain, State: message.StateExpired, Uncertain: true, Reason: "late"}, "a",
			"", nil, "late"},
		{scheduler.End{Message: plain, State: message.StateCanceled, Reason: "purged"}, "a", "", nil, "purged"},
		{scheduler.End{Message: plain, State: message.StateDead, Reason: "too large"}, "a", "",
			[]byte("x"), "too large"},
	} {
		b, err := packEnd(&c.end, 77)
		if err != nil {
			t.Fatal(err)
		}
		info, err := unpackInfo(c.end.Message.UID, string(b), false, "")
		if err != nil {
			t.Fatal(err)
		}
		if info.State != c.end.State || info.EndedAt != 77 || info.Due != c.end.Message.Due ||
			info.Mark.Uncertain != c.end.Uncertain ||
			info.Topic != c.topic || info.ID != c.id || !bytes.Equal(info.Body, c.body) || info.Reason != c.reason ||
			info.Version != 2 {
			t.Errorf("%s: got %+v", c.end.State, info)
		}
	}
}

func TestPackCause_KeepsKindOtherAndReasonApart(t *testing.T) {
	const other = message.UID("t-0123456789abcdef")
	for _, c := range []struct {
		kind      message.Kind
		other     message.UID
		reason    string
		uncertain bool
		size      int
	}{
		{size: 0}, // what ends plainly takes no room
		{reason: "merged into t-0123456789abcdef", size: 2 + 30}, // words alone mean nothing
		{kind: message.KindPurged, reason: "purged", size: 2},
		{kind: message.KindMerged, other: other, reason: "merged into t-0123456789abcdef", size: 20},
		{kind: message.KindRequeue, other: other, uncertain: true,
			reason: "requeue of t-0123456789abcdef, which may have been delivered", size: 20},
		{kind: message.KindParked, reason: "parked: nobody listens", size: 2 + 22},
	} {
		packed := packCause(c.kind, c.other, c.reason, c.uncertain)
		r := reader{s: string([]byte{byte(len(packed))}) + packed}
		kind, name, reason := r.cause(c.uncertain, 0)
		if r.bad || kind != c.kind || name != c.other || reason != c.reason || len(packed) != c.size {
			t.Errorf("%+v comes back as %s of %q, %q in %d bytes", c, kind, name, reason, len(packed))
		}
	}
	for _, bad := range []string{
		"\x01", "\xff\x00", "\x01\x00", "\x01\x12t-0123456789abcde", "\x01\x12T-0123456789abcdef",
		"\x08\x12t-0123456789abcdef", "\x00\x12t-0123456789abcdef",
	} {
		r := reader{s: string([]byte{byte(len(bad))}) + bad}
		if r.cause(false, 0); !r.bad {
			t.Errorf("%q is read as a cause", bad)
		}
	}
}

func FuzzUnpackInfo(f *testing.F) {
	live, _ := pack(nil, sample())
	end, _ := packEnd(&scheduler.End{Message: sample(), State: message.StateDead, Reason: "r"}, 9)
	f.Add(string(live), "1:2:core:a")
	f.Add(string(end), "")
	plain, _ := pack(nil, &message.Message{UID: "t-0123456789abcdef", Topic: "a",
		Retry: message.Retry{Delays: []time.Duration{0}, Jitter: 255}})
	f.Add(string(plain), "0:0:4:")
	f.Fuzz(func(t *testing.T, record, mark string) {
		info, err := unpackInfo("t-0123456789abcdef", record, false, mark)
		if err != nil || info.State != message.StateWaiting {
			return
		}
		b, err := pack(nil, &info.Message)
		if err != nil {
			t.Fatal(err)
		}
		again, err := unpackInfo(info.UID, string(b), false, packMark(info.Mark))
		if err != nil || !reflect.DeepEqual(again, info) {
			t.Fatalf("packed again: %+v, %v; want %+v", again, err, info)
		}
	})
}
