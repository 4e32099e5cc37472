package ops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
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
		_, err = ops.DecodeRef(data)
		check(err)
		decodeSteering(t, data, check)
		if len(bytes.TrimSpace(data)) > 0 { // nothing at all is a request of its own to these
			check(ops.DecodeEmpty(data, "a pause"))
			restore, err := ops.DecodeRestore(data)
			if check(err); err == nil && (restore.Rate < 0 || restore.Rate > ops.MaxRate ||
				restore.Topic != "" && wire.CheckPattern(restore.Topic) != nil) {
				t.Fatalf("accepted: %+v", restore)
			}
			_, err = ops.DecodeRestoreOne(data)
			check(err)
			_, err = ops.DecodeVerify(data)
			check(err)
			_, err = ops.DecodeRedeliver(data)
			check(err)
		}
		if string(data) != keep {
			t.Fatal("the request was changed")
		}
	})
}

// decodeSteering reads data as everything that changes what waits and what is dead, and holds what is accepted to the
// promises of the decoders.
func decodeSteering(t *testing.T, data []byte, checkJSON func(error)) {
	check := func(err error) {
		if len(bytes.TrimSpace(data)) > 0 {
			checkJSON(err)
		} else if err == nil {
			t.Fatal("nothing at all is accepted")
		}
	}
	when := func(e ops.Edit) int {
		n := 0
		for _, has := range []bool{e.HasAt, e.HasDelay, e.HasShift} {
			if has {
				n++
			}
		}
		if e.Delay < 0 || e.Delay > wire.MaxDelay || e.Shift.Abs() > wire.MaxDelay ||
			(e.Delay+e.Shift)%time.Millisecond != 0 {
			t.Fatalf("accepted: %+v", e)
		}
		return n
	}
	order, err := ops.DecodeRejectOrder(data, "delayed")
	if check(err); err == nil && (order.Sequence == 0) == (len(order.Sequences) == 0) {
		t.Fatalf("accepted: %+v", order)
	}
	edit, err := ops.DecodeEdit(data)
	if check(err); err == nil && (when(edit) > 1 ||
		when(edit) == 0 && !edit.HasPriority && !edit.HasBody && !edit.HasHeaders || edit.Version != 0) {
		t.Fatalf("accepted: %+v", edit)
	}
	named, edit, err := ops.DecodeReschedule(data)
	if check(err); err == nil && (when(edit) > 1 || named.ID == "") {
		t.Fatalf("accepted: %+v %+v", named, edit)
	}
	selected := func(s ops.Selection) bool {
		return s.Topic != "" && wire.CheckPattern(s.Topic) == nil ||
			s.Topic == "" && (s.HasKey || s.HasFrom || s.HasTo || s.All)
	}
	sel, err := ops.DecodeSelection(data)
	if check(err); err == nil && !selected(sel) {
		t.Fatalf("accepted: %+v", sel)
	}
	sel, edit, err = ops.DecodeRescheduleMany(data)
	if check(err); err == nil && (!selected(sel) || when(edit) != 1) {
		t.Fatalf("accepted: %+v %+v", sel, edit)
	}
	for _, decode := range []func([]byte) (ops.DeadOrder, error){ops.DecodeDeadOrder, ops.DecodePurge} {
		o, err := decode(data)
		if check(err); err != nil {
			continue
		}
		named := len(o.IDs)
		if o.One.ID != "" {
			named++
		}
		picks := o.Topic != "" || o.HasFrom || o.HasTo || o.HasOlder || o.All
		if named > ops.MaxIDs || (named > 0) == picks || o.Selects() != (named == 0) ||
			(o.HasBody || o.HasHeaders) && o.One.ID == "" || o.Delay < 0 {
			t.Fatalf("accepted: %+v", o)
		}
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
