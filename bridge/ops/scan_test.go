package ops_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
)

func TestDecodePush_SeesEverySpecialByteWhereverItStands(t *testing.T) {
	t.Parallel()
	for _, special := range []string{"\x00", "\x1f", "\n", `"`, `\`, " ", "!", "[", "]", "\x7f", "ä", "日", "😀"} {
		for at := range 20 {
			for _, fill := range []string{"x", " ", "~", `\`, "é"} {
				body := strings.Repeat(fill, at) + special + strings.Repeat(fill, 20-at)
				quoted, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				item := ops.DecodePush([]byte(`{"topic":"a","delay":"1ms","body":`+string(quoted)+`}`), "delayed")
				if item.Err != nil || string(item.Body) != body {
					t.Fatalf("%q came as %q, %v", body, item.Body, item.Err)
				}
				raw := ops.DecodePush([]byte(`{"topic":"a","delay":"1ms","body":"`+body+`"}`), "delayed")
				if valid := json.Valid([]byte(`"` + body + `"`)); valid != (raw.Err == nil) {
					t.Fatalf("%q: %v, encoding/json says valid: %v", body, raw.Err, valid)
				}
			}
		}
	}
}

func TestFormatTime_IsRFC3339WithMilliseconds(t *testing.T) {
	t.Parallel()
	for range 2000 {
		ms := rand.Int64N(253_402_300_800_000-1) + 1 // to the end of the year 9999
		want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
		if got := ops.FormatTime(ms); got != want {
			t.Fatalf("%d: got %s, want %s", ms, got, want)
		}
	}
}
