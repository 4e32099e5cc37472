package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// FuzzNames holds that what a push may name every request can name: its path has a route.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "/", ".", "..", "//", "a/", "/a", "a/../b", "./a", "a/run", "%2F", "*", ">", "a.b",
		"é", "cancel", "batch", "{id}", "a b", "?", "#", ";", "run", "..a", "/..", "../.."} {
		f.Add(name)
	}
	d := open(f)
	f.Fuzz(func(t *testing.T, name string) {
		path := url.PathEscape(name)
		if wire.CheckID(name) == nil {
			for method, target := range map[string]string{"GET": "", "PATCH": "", "POST": "/run", "DELETE": ""} {
				a := call(t, d, method, "/v1/messages/"+path+target, "{}")
				if word := a.json["error"]; word != "unknown_id" && word != "missing_change" {
					t.Errorf("%s of the id %q: %d %s", method, name, a.status, a.raw)
				}
			}
		}
		if wire.CheckSubject(name) == nil {
			if a := call(t, d, "POST", "/v1/topics/"+path+"/pull", "{}"); a.status != 200 {
				t.Errorf("a pull of the topic %q: %d %s", name, a.status, a.raw)
			}
		}
	})
}

// FuzzPostMessages holds that no body at all makes the server panic or answer 500, and that a refused one changes
// nothing.
func FuzzPostMessages(f *testing.F) {
	for _, c := range badPushes {
		if len(c.body) < 2000 {
			f.Add(c.body)
		}
	}
	f.Add(hourly(`,"id":"a","key":"k","headers":{"X":["1","2"]},"body":"hello","priority":3,"ttl":"1m"`))
	f.Add(`{"topic":"a","at":1896076800000,"body_base64":"AP8="}`)
	f.Add(hourly(`,"deliver":"pull","lease":"2s"`))
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

// FuzzSeeds holds that whatever the clients of the other systems send, the answer has its form, and nothing but a
// success is stored.
func FuzzSeeds(f *testing.F) {
	for _, body := range []string{`{"topic":"a","delay":3600000,"body":"x"}`, `{"topic":"a","id":7,"delay":"3600000"}`,
		`{"topic":"a","Topic":"a"}`,
		`{"topic":"a","delay":3600000,"subtopic":"s","extendData":"{\"a\":[1, 2],\"b\":\"c\"}"}`,
		`{"topic":"a","delay":3600000,"ttl":"1","priority":null,"body":true,"other":{"a":[]}}`, `[]`, `{`, `{"delay":1e3}`} {
		f.Add("/push", body)
	}
	for _, form := range []string{"topic=a&msg=x&delayMillis=3600000", "topic=a&msg=%ff&delayMillis=1", "msg=;",
		"topic=a&msg=x&delayMillis=3600000&msgId=m&ttlMillis=-1&maxRetry=0"} {
		f.Add("/camellia/delayQueue/sendMsg", form)
	}
	d := open(f)
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != "/push" {
			path = "/camellia/delayQueue/sendMsg"
		}
		before := d.stored(t)
		a := call(t, d, "POST", path, body)
		changed, code := d.stored(t)-before, a.json["code"]
		id, _ := a.json["uid"].(string)
		topic := ""
		switch whole := a.status >= 400 && a.status < 500; {
		case whole && changed == 0 && a.json["error"] != nil:
		case path == "/push" && a.status == 200 && (code == 200.0) == (a.json["success"] == true) && code != nil:
		case path != "/push" && a.status == 200 && code != nil:
			sent, _ := a.json["delayMsg"].(map[string]any)
			id, _ = sent["msgId"].(string)
			topic, _ = sent["topic"].(string)
			topic = "?topic=" + url.QueryEscape(topic)
		default:
			t.Fatalf("%d messages more after %d %s", changed, a.status, a.raw)
		}
		if code != 200.0 && changed != 0 || code == 500.0 && path != "/push" {
			t.Fatalf("%d messages more after %s", changed, a.raw)
		}
		if code == 200.0 {
			call(t, d, "GET", "/v1/messages/"+url.PathEscape(id)+topic, "").want(t, 200, "")
			call(t, d, "DELETE", "/v1/messages/"+url.PathEscape(id)+topic, "")
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

// FuzzJournalRoutes holds that no query and no body makes a route of the journal panic or answer 5xx, that the journal
// is asked only for what it can answer, and that a refused request asks for nothing.
func FuzzJournalRoutes(f *testing.F) {
	for i, c := range journalCalls {
		path, query, _ := strings.Cut(c.target, "?")
		id := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(path, "/v1/messages/"), "/history"), "/restore")
		f.Add(uint8(i), id, query, c.body, i%2 == 0)
	}
	f.Add(uint8(0), "", "cursor=AQ&limit=1", "", false)
	f.Add(uint8(6), "", "until=9999999999999&step=1s", "", false)
	j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting),
		recordOf(uidB, "b", 2, message.StateDead)}}
	on, off := open(f, keeping(j)), open(f)
	f.Fuzz(func(t *testing.T, route uint8, id, query, body string, lines bool) {
		c := journalCalls[int(route)%len(journalCalls)]
		path, _, _ := strings.Cut(c.target, "?")
		if strings.HasPrefix(path, "/v1/messages/") {
			path = "/v1/messages/" + url.PathEscape(id) + path[strings.LastIndexByte(path, '/'):]
		}
		send := func(d *door) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(body))
			r.URL.RawPath, r.URL.RawQuery = path, query
			r.URL.Path, _ = url.PathUnescape(path)
			if lines {
				r.Header.Set("Accept", "application/x-ndjson")
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			return w
		}
		w := send(off)
		byStore := w.Code == 200 && path == "/v1/messages"
		if w.Code != 501 && (w.Code < 400 || w.Code > 499) && !byStore {
			t.Fatalf("without a journal: %d %s", w.Code, w.Body)
		}
		j.asked = nil
		w = send(on)
		if w.Code != 200 && (w.Code < 400 || w.Code > 499) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q is not JSON", w.Body)
		}
		if w.Code != 200 && len(j.asked) > 0 {
			t.Fatalf("%d %s, and the journal was asked for %+v", w.Code, w.Body, j.asked)
		}
		for _, asked := range j.asked {
			good := true
			switch q := asked.(type) {
			case record.RecordQuery:
				good = q.Limit >= 2 && q.Limit <= 1001 && !q.Places &&
					(q.AfterUID == "" || message.IsUID(string(q.AfterUID)))
			case record.ForecastQuery:
				good = q.Step >= 1000 && q.Until >= q.From && (q.Until-q.From)/q.Step <= 10_000 &&
					(q.Topic == "" || q.Pattern == "")
			case record.RestoreRequest:
				good = q.Rate >= 0 && q.Rate <= 1_000_000 && (q.UID == "" || q.Topic == "" && q.Overdue)
			case record.RedeliverRequest:
				good = q.Since <= message.CeilMilli(noon)
			}
			if !good {
				t.Fatalf("the journal was asked for %+v", asked)
			}
		}
	})
}
