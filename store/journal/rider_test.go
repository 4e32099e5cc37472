package journal

import (
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

func FuzzUnpackContent(f *testing.F) {
	for _, m := range []message.Message{
		{}, {Headers: []message.Header{{Name: "A", Value: "1"}}},
		{Origin: "t-0123456789abcdef"}, {Retry: message.Retry{None: true}},
		{Retry: message.Retry{Delays: []time.Duration{0, time.Minute}, Jitter: 20}},
		{Origin: "t-0123456789abcdef", Retry: message.Retry{Delays: []time.Duration{time.Hour}},
			Headers: []message.Header{{Name: "A", Value: "\xff"}, {}}},
	} {
		packed := packContent(&m)
		var back message.Message
		if err := unpackContent(packed, &back); err != nil || !reflect.DeepEqual(back, m) {
			f.Fatalf("%+v came back as %+v, %v", m, back, err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		var m, back message.Message
		if unpackContent(packed, &m) != nil {
			return
		}
		if err := unpackContent(packContent(&m), &back); err != nil || !reflect.DeepEqual(back, m) && !m.Retry.Empty() {
			t.Fatalf("%+v came back as %+v, %v", m, back, err)
		}
	})
}
