package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// FuzzDecodePush holds the reader against encoding/json: what it accepts that one accepts too, with the same topic and
// body; what is not JSON at all it refuses as such.
func FuzzDecodePush(f *testing.F) {
	for _, s := range []string{
		`{"topic":"a","delay":"1s","body":"x\u00e9\ud83d\ude00\n","headers":{"a":["1","2"],"b":"c"}}`,
		`{"topic":"a","at":1896076800000,"body_base64":"AP8=","id":"i","key":"k","priority":3,"ttl":5,"attempt":1}`,
		`{"messages":[{"topic":"a","delay":1},{"topic":"b","delay":"2s","retry":[[]]}]}`,
		`{"overdue":true,"dry_run":false,"topic":"a","rate":7}`, `{"since":"2h","topic":"a","dry_run":true}`, `{"since":1896076800000}`, `{"repair":true}`,
		`{"id":"a","key":""}`, `[[[1,2.5e-3,true,false,null]]]`, `{"a":"\ud800"}`, "\"\xff\"", ` {} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keep := string(data)
		check := func(err error) {
			var refused *wire.Error
			if err != nil && (!errors.As(err, &refused) || refused.Word == "" || refused.Field == "" || refused.Detail == "") {
				t.Fatalf("%#v is not a refusal that says what is wrong", err)
			}
			if !json.Valid(data) && (err == nil || refused.Word != wire.WordJSON) {
				t.Fatalf("not JSON, and the answer is %v", err)
			}
		}
		item := wire.DecodePush(data, "delayed")
		check(item.Err)
		if item.Err == nil {
			var std struct {
				Topic      string
				Body       *string
				BodyBase64 []byte `json:"body_base64"`
			}
			// Names match without case over there, so an unknown field could not slip in here.
			if err := json.Unmarshal(data, &std); err != nil {
				t.Fatalf("accepted here, refused by encoding/json: %v", err)
			}
			body := string(std.BodyBase64)
			if std.Body != nil {
				body = *std.Body
			}
			if std.Topic != item.Push.Topic || body != string(item.Body) {
				t.Fatalf("got %q %q, encoding/json reads %q %q", item.Push.Topic, item.Body, std.Topic, body)
			}
			if err := item.Push.Check("delayed"); err != nil {
				t.Fatalf("accepted, and then: %v", err)
			}
		}
		items, err := wire.DecodeBatch(data, "delayed")
		check(err)
		if err == nil && (len(items) == 0 || len(items) > wire.MaxBatch || !wire.IsBatch(data)) {
			t.Fatalf("%d items", len(items))
		}
		_, _, _, err = wire.DecodeRef(data)
		check(err)
		if len(bytes.TrimSpace(data)) > 0 { // nothing at all is a request of its own to these
			restore, err := wire.DecodeRestore(data)
			if check(err); err == nil && (restore.Rate < 0 || restore.Rate > wire.MaxRate || restore.Topic != "" && wire.CheckSubject(restore.Topic) != nil) {
				t.Fatalf("accepted: %+v", restore)
			}
			_, err = wire.DecodeRestoreOne(data)
			check(err)
			_, err = wire.DecodeVerify(data)
			check(err)
			_, err = wire.DecodeRedeliver(data)
			check(err)
		}
		if string(data) != keep {
			t.Fatal("the request was changed")
		}
	})
}
