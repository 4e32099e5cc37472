package timeline

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

func sample() *scheduler.Message {
	return &scheduler.Message{
		UID: "t-0123456789abcdef", ID: "order-7", Key: "customer-1", Topic: "orders.created",
		Headers: []scheduler.Header{{Name: "traceparent", Value: "00-ab"}, {Name: "X", Value: ""}, {Name: "X", Value: "2"}},
		Body:    []byte("hello"), Due: 1_800_000_000_123, Priority: 9, TTL: 90 * time.Second, Attempt: 3, Digest: scheduler.Digest{1, 2, 3},
		Origin: "t-0123456789abcdeg", Retry: scheduler.Retry{Delays: []time.Duration{0, 2 * time.Minute, 400 * 24 * time.Hour}, Jitter: 10},
	}
}

func TestPack_ComesBackWhole(t *testing.T) {
	plain := &scheduler.Message{UID: "t-0123456789abcdef", Topic: "a", Due: 5, Attempt: 1}
	for _, m := range []*scheduler.Message{sample(), plain} {
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
	named, plain := sample(), &scheduler.Message{UID: "t-0123456789abcdef", Topic: "a", Due: 5, Attempt: 1, Body: []byte("x")}
	for _, c := range []struct {
		end       scheduler.End
		topic, id string
		body      []byte
		reason    string
	}{
		{scheduler.End{Message: named, State: scheduler.StateDelivered}, named.Topic, named.ID, nil, ""},
		{scheduler.End{Message: plain, State: scheduler.StateExpired, Uncertain: true, Reason: "late"}, "", "", nil, ""},
		{scheduler.End{Message: plain, State: scheduler.StateCanceled, Reason: "purged"}, "", "", nil, "purged"},
		{scheduler.End{Message: plain, State: scheduler.StateDead, Reason: "too large"}, "a", "", []byte("x"), "too large"},
	} {
		b, err := packEnd(&c.end, 77)
		if err != nil {
			t.Fatal(err)
		}
		info, err := unpackInfo(c.end.Message.UID, string(b), false, "")
		if err != nil {
			t.Fatal(err)
		}
		if info.State != c.end.State || info.EndedAt != 77 || info.Due != c.end.Message.Due || info.Mark.Uncertain != c.end.Uncertain ||
			info.Topic != c.topic || info.ID != c.id || !bytes.Equal(info.Body, c.body) || info.Reason != c.reason || info.Version != 2 {
			t.Errorf("%s: got %+v", c.end.State, info)
		}
	}
}

func FuzzUnpackInfo(f *testing.F) {
	live, _ := pack(nil, sample())
	end, _ := packEnd(&scheduler.End{Message: sample(), State: scheduler.StateDead, Reason: "r"}, 9)
	f.Add(string(live), "1:2:core:a")
	f.Add(string(end), "")
	plain, _ := pack(nil, &scheduler.Message{UID: "t-0123456789abcdef", Topic: "a", Retry: scheduler.Retry{Delays: []time.Duration{0}, Jitter: 255}})
	f.Add(string(plain), "0:0:4:")
	f.Fuzz(func(t *testing.T, record, mark string) {
		info, err := unpackInfo("t-0123456789abcdef", record, false, mark)
		if err != nil || info.State != scheduler.StateWaiting {
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
