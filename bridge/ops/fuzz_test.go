package ops_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// FuzzDecodePush holds the reader against encoding/json: what it accepts that one accepts too, with the same topic and
// body; what is not JSON at all it refuses as such.
func FuzzDecodePush(f *testing.F) {
	for _, s := range []string{
		`{"topic":"a","delay":"1s","body":"x\u00e9\ud83d\ude00\n","headers":{"a":["1","2"],"b":"c"}}`,
		`{"topic":"a","delay":"1ms","body_json":{"a":[1, "\u00e4", null]}}`, `{"topic":"a","delay":"1ms","body_json":[`,
		`{"topic":"a","delay":"1ms","body_json":null}`,
		`{"id":"a","body_json":"x"}`,
		`{"topic":"a","at":1896076800000,"body_base64":"AP8=","id":"i","key":"k","priority":3,"ttl":"5ms","attempt":1}`,
		`{"messages":[{"topic":"a","delay":"1ms"},{"topic":"b","delay":"2s","retry":[[]]}]}`,
		`{"overdue":true,"dry_run":false,"topic":"a","rate":7}`, `{"since":"2h","topic":"a","dry_run":true}`,
		`{"since":1896076800000}`, `{"repair":true}`, `{"topic":"a.*"}`,
		`{"topic":"a","id":"i","attempt":2,"retry":[0,"2m"],"reason":"r","max_wait":null}`,
		`{"topic":"a","delay":"1ms","on_duplicate":"debounce","max_wait":"1h","retry":"exp(1s,1h,3)"}`,
		`{"id":"a","key":"k","version":3,"shift":"-10m","priority":7,"body":"b","headers":{"a":"b"}}`,
		`{"delay":"5ms","body_base64":""}`, `{"at":1896076800000}`,
		`{"topic":"a.>","key":"","due_from":"1h","due_to":1896076800000,"dry_run":true}`,
		`{"all":true,"shift":"-600000ms"}`,
		`{"ids":["a","b"],"delay":"1m"}`, `{"topic":"a.*","older":"1d","dry_run":true}`, `{"from":"2h","to":"1h"}`,
		`{"id":"a","key":"k","body":"x","headers":{}}`,
		`{"sequence":1,"set":{"A":"b"},"drop":["C"]}`, `{"sequences":[1,2],"topic":"a"}`, `{"id":"a","key":""}`,
		`[[[1,2.5e-3,true,false,null]]]`, `{"a":"\ud800"}`, "\"\xff\"", ` {} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keep := string(data)
		check := func(err error) {
			var refused *wire.Error
			if err != nil &&
				(!errors.As(err, &refused) || refused.Word == "" || refused.Field == "" || refused.Detail == "") {
				t.Fatalf("%#v is not a refusal that says what is wrong", err)
			}
			if !json.Valid(data) && (err == nil || refused.Word != ops.WordJSON) {
				t.Fatalf("not JSON, and the answer is %v", err)
			}
		}
		item := ops.DecodePush(data, "delayed")
		check(item.Err)
		if item.Err == nil {
			var std struct {
				Topic      string
				Body       *string
				BodyBase64 []byte          `json:"body_base64"`
				BodyJSON   json.RawMessage `json:"body_json"`
			}
			// Names match without case over there, so an unknown field could not slip in here.
			if err := json.Unmarshal(data, &std); err != nil {
				t.Fatalf("accepted here, refused by encoding/json: %v", err)
			}
			body := string(std.BodyBase64)
			switch {
			case std.Body != nil:
				body = *std.Body
			case std.BodyJSON != nil:
				body = string(std.BodyJSON)
			}
			if std.Topic != item.Push.Topic || body != string(item.Body) {
				t.Fatalf("got %q %q, encoding/json reads %q %q", item.Push.Topic, item.Body, std.Topic, body)
			}
			if err := item.Push.Check("delayed"); err != nil {
				t.Fatalf("accepted, and then: %v", err)
			}
		}
		items, err := ops.DecodeBatch(data, "delayed")
		check(err)
		if err == nil && (len(items) == 0 || len(items) > ops.MaxBatch || !ops.IsBatch(data)) {
			t.Fatalf("%d items", len(items))
		}
		for name, op := range table() {
			in, err := op.DecodeJSON(data)
			var plain *ops.Refused
			if len(bytes.TrimSpace(data)) > 0 && (!errors.As(err, &plain) || plain.Status != 400) {
				check(err) // nothing at all is a request of its own to some
			}
			if err == nil {
				sane(t, name, in)
			}
		}
		if string(data) != keep {
			t.Fatal("the request was changed")
		}
	})
}

// sane holds what is accepted to the promises of its operation.
func sane(t *testing.T, name string, in any) {
	t.Helper()
	bad := false
	edited := func(at *message.Milli, delay, shift *time.Duration) (n int) {
		for _, has := range []bool{at != nil, delay != nil, shift != nil} {
			if has {
				n++
			}
		}
		d, s := *cmp.Or(delay, new(time.Duration)), *cmp.Or(shift, new(time.Duration))
		bad = bad || n > 1 || d < 0 || d > wire.MaxDelay || s.Abs() > wire.MaxDelay || (d+s)%time.Millisecond != 0
		return n
	}
	selected := func(s *ops.Selection) bool {
		return s.Topic != "" && wire.CheckPattern(s.Topic) == nil ||
			s.Topic == "" && (s.Key != nil || s.DueFrom != nil || s.DueTo != nil || s.All)
	}
	ordered := func(d *ops.DeadOrder) bool {
		named := len(d.IDs)
		if d.ID != nil {
			named++
		}
		picks := d.ID == nil && d.Topic != "" || d.From != nil || d.To != nil || d.Older != nil || d.All
		return named <= ops.MaxIDs && (named > 0) != picks
	}
	switch in := in.(type) {
	case *ops.Named:
		bad = in.ID == ""
	case *ops.Reschedule:
		n := edited(in.At, in.Delay, in.Shift)
		bad = bad || in.ID == "" || n == 0 && in.Priority == nil && in.Body == nil && in.Headers == nil
	case *ops.RescheduleMany:
		bad = edited(in.At, in.Delay, in.Shift) != 1 || bad || !selected(&in.Selection)
	case *ops.Selection:
		bad = !selected(in)
	case *ops.Requeue:
		bad = !ordered(&in.DeadOrder) || (in.Body != nil || in.Headers != nil) && in.ID == nil || in.Delay < 0
	case *ops.DeadOrder:
		bad = !ordered(in)
	case *ops.RejectOrder:
		bad = (in.Sequence == 0) == (len(in.Sequences) == 0)
	case *ops.Restore:
		bad = in.Rate < 0 || in.Rate > ops.MaxRate || in.Topic != "" && wire.CheckPattern(in.Topic) != nil
	case *ops.Redeliver:
		bad = in.Since == nil
	}
	if bad {
		t.Fatalf("%s: accepted: %+v", name, in)
	}
}

func FuzzParseIfMatch(f *testing.F) {
	for _, s := range []string{"", "*", "3", `"3"`, "0", `"`, `""`, "+3", "18446744073709551616", `W/"3"`, " 7 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ops.ParseIfMatch(s)
		if err != nil {
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Word != ops.WordIfMatch || refused.Detail == "" {
				t.Fatalf("got %#v, want a refusal %s", err, ops.WordIfMatch)
			}
			return
		}
		if text := strings.Trim(s, " \t"); v == 0 && text != "" && text != "*" {
			t.Fatalf("%q is any version", s)
		} else if again, err := ops.ParseIfMatch(strconv.FormatUint(v, 10)); v > 0 && (err != nil || again != v) {
			t.Fatalf("%q gives %d, which reads as %d, %v", s, v, again, err)
		}
	})
}
