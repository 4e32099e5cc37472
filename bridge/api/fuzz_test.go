package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzPostMessages holds that no body at all makes the server panic or answer 500, and that a refused one changes nothing.
func FuzzPostMessages(f *testing.F) {
	for _, c := range badPushes {
		if len(c.body) < 2000 {
			f.Add(c.body)
		}
	}
	f.Add(hourly(`,"id":"a","key":"k","headers":{"X":["1","2"]},"body":"hello","priority":3,"ttl":"1m"`))
	f.Add(`{"topic":"a","at":1896076800000,"body_base64":"AP8="}`)
	d := open(f)
	f.Fuzz(func(t *testing.T, body string) {
		before := d.stored(t)
		a := call(t, d, "POST", "/v1/messages", body)
		changed := d.stored(t) - before
		switch {
		case a.status == 201 && changed == 1, a.status == 200 && changed == 0:
			uid, _ := a.json["uid"].(string)
			call(t, d, "GET", "/v1/messages/"+uid, "").want(t, 200, "")
			if a.status == 201 {
				call(t, d, "DELETE", "/v1/messages/"+uid, "").want(t, 200, "")
			}
		case a.status >= 400 && a.status < 500 && changed == 0:
		default:
			t.Fatalf("%d messages more after %d %s", changed, a.status, a.raw)
		}
	})
}

// FuzzBatch holds the same of batches, and that there are as many messages as successes.
func FuzzBatch(f *testing.F) {
	var all []string
	for _, c := range badPushes {
		if len(c.body) < 2000 {
			f.Add(`{"messages":[` + c.body + `]}`)
			all = append(all, c.body)
		}
	}
	f.Add(`{"messages":[` + strings.Join(all, ",") + `]}`)
	f.Add(`{"messages":[` + hourly("") + `,` + hourly(`,"id":"a"`) + `,` + hourly(`,"id":"a"`) + `,{}]}`)
	d := open(f)
	f.Fuzz(func(t *testing.T, body string) {
		before := d.stored(t)
		a := call(t, d, "POST", "/v1/messages/batch", body)
		changed := d.stored(t) - before
		if a.status >= 400 && a.status < 500 && changed == 0 {
			return
		}
		var answer struct {
			Results []struct{ Error, UID, State string }
		}
		if err := json.Unmarshal([]byte(a.raw), &answer); a.status != 200 || err != nil || len(answer.Results) == 0 {
			t.Fatalf("got %d %s: %v", a.status, a.raw, err)
		}
		for _, r := range answer.Results {
			if r.Error == "internal" {
				t.Fatalf("got %s", a.raw)
			}
			if r.Error == "" && r.State == "waiting" {
				if a := call(t, d, "DELETE", "/v1/messages/"+r.UID, ""); a.status != 200 {
					t.Fatalf("kept, and then %d %s", a.status, a.raw)
				}
			}
		}
		if n := d.stored(t); n != before {
			t.Fatalf("%d messages more than were answered", n-before)
		}
	})
}
