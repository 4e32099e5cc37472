package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPush_AnswersInTheFormOfTheContract(t *testing.T) {
	t.Parallel()
	d := open(t)
	before := time.Now()
	a := call(t, d, "POST", "/v1/messages", hourly(`,"id":"order-7131","body":"hello"`)).want(t, 201, "")
	form := regexp.MustCompile(`^\{"id":"order-7131","uid":"(t-[0-9a-z]{16})",` +
		`"due":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)","state":"waiting","version":1,"durable":"redis"\}\n$`)
	m := form.FindStringSubmatch(a.raw)
	if m == nil {
		t.Fatalf("got %s", a.raw)
	}
	due, err := time.Parse(time.RFC3339, m[2])
	if err != nil || due.Before(before.Add(time.Hour)) || due.After(time.Now().Add(time.Hour+time.Second)) {
		t.Errorf("due %s, %v", m[2], err)
	}
	if got := a.header.Get("Location"); got != "/v1/messages/"+m[1] {
		t.Errorf("Location %q", got)
	}
	if a := call(t, d, "POST", "/v1/messages", hourly("")).want(t, 201, ""); a.json["id"] != a.json["uid"] {
		t.Errorf("without a name the id is the uid: %s", a.raw)
	}
}

func TestPush_SaysHowDurableItIs(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.Durable = "memory" })
	if a := call(t, d, "POST", "/v1/messages", hourly("")); a.json["durable"] != "memory" {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "POST", "/v1/messages/batch", `{"messages":[`+hourly("")+`]}`); !strings.Contains(a.raw,
		`"durable":"memory"`) {
		t.Errorf("got %s", a.raw)
	}
}

func TestPush_RepeatedIsTheSameMessage(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a"`)).want(t, 201, "")
	again := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a"`)).want(t, 200, "")
	if again.json["duplicate"] != true || again.json["uid"] != first.json["uid"] ||
		again.json["due"] != first.json["due"] {
		t.Errorf("first %s then %s", first.raw, again.raw)
	}
	other := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","body":"other"`)).want(t, 409, "duplicate_id")
	for _, said := range []string{"body, headers, options, and the delay or time as given",
		"another id, on_duplicate replace, or a reschedule"} {
		if !strings.Contains(other.detail(), said) {
			t.Errorf("it does not say %q: %s", said, other.detail())
		}
	}
	if other.json["uid"] != first.json["uid"] || other.json["state"] != "waiting" {
		t.Errorf("it does not name the message in the way: %s", other.raw)
	}
	uid := fmt.Sprint(call(t, d, "POST", "/v1/messages", hourly("")).json["uid"])
	if a := call(t, d, "POST", "/v1/messages", hourly(`,"id":"`+uid+`"`)).want(t, 200, ""); a.json["uid"] != uid {
		t.Errorf("an id that is a uid means that uid: %s", a.raw)
	}
	d.end(t, message.StateDelivered, false)
	if a := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a"`)).want(t, 200, ""); a.json["state"] != "delivered" {
		t.Errorf("a retry after the delivery: %s", a.raw)
	}
	if n := d.stored(t); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

func TestPush_TakesADueTimeInThePastAsNow(t *testing.T) {
	t.Parallel()
	d := open(t)
	call(t, d, "POST", "/v1/messages", `{"topic":"a","at":"2001-02-03T04:05:06Z"}`).want(t, 201, "")
	call(t, d, "POST", "/v1/messages", `{"topic":"a","delay":"3652d"}`).want(t, 201, "")
	if n := d.stored(t); n != 2 {
		t.Errorf("%d messages wait", n)
	}
}

func TestGet_ShowsTheWholeMessage(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := base64.StdEncoding.EncodeToString([]byte{0, 0xff})
	push := `{"topic":"a.b","at":"2029-01-02T03:04:05.678Z","id":"or/der ä","key":"k","priority":7,"ttl":"1m",` +
		`"headers":{"X-A":["1","2"]},"body_base64":"` + body + `"}`
	uid := call(t, d, "POST", "/v1/messages", push).want(t, 201, "").json["uid"]
	for _, path := range []string{url.PathEscape("or/der ä"), url.PathEscape("or/der ä") + "?key=k", fmt.Sprint(uid)} {
		a := call(t, d, "GET", "/v1/messages/"+path, "").want(t, 200, "")
		want := fmt.Sprintf(`{"id":"or/der ä","uid":%q,"key":"k","topic":"a.b","state":"waiting","version":1,`+
			`"due":"2029-01-02T03:04:05.678Z",`+
			`"priority":7,"ttl":"1m0s","attempt":1,"headers":{"X-A":["1","2"]},"body_base64":%q}`+"\n", uid, body)
		if a.raw != want {
			t.Errorf("%s: got %s\nwant %s", path, a.raw, want)
		}
	}
	call(t, d, "GET", "/v1/messages/or%2Fder%20%C3%A4?key=", "").want(t, 404, "unknown_id")
	if a := call(t, d, "HEAD", "/v1/messages/"+fmt.Sprint(uid), ""); a.status != 200 {
		t.Errorf("HEAD: %d", a.status)
	}
}

func TestPush_TakesAnyJSONAsABody(t *testing.T) {
	t.Parallel()
	d := open(t)
	for id, value := range map[string]string{
		"object": `{"order": 7131, "text":"a\u00e4\nb", "list":[1.50,null,true]}`,
		"list":   `[ ]`,
		"text":   `"hello"`,
		"number": `-1e3`,
		"no":     `false`,
		"null":   `null`,
	} {
		push := `{"topic":"a.b","delay":"1h","id":"` + id + `","body_json": ` + value + ` }`
		call(t, d, "POST", "/v1/messages", push).want(t, 201, "")
		call(t, d, "POST", "/v1/messages/batch", `{"messages":[`+push+`]}`).want(t, 200, "") // the same content
		a := call(t, d, "GET", "/v1/messages/"+id, "").want(t, 200, "")
		if a.json["body"] != value || a.json["headers"] != nil {
			t.Errorf("got %s, want the body %s", a.raw, value)
		}
	}
	call(t, d, "PATCH", "/v1/messages/list", `{"body_json":{"a":1}}`).want(t, 200, "")
	if a := call(t, d, "GET", "/v1/messages/list", ""); a.json["body"] != `{"a":1}` {
		t.Errorf("got %s", a.raw)
	}
	for _, bad := range []string{`{"a":}`, `nul`, `[1`, `{"a":1}}`} {
		call(t, d, "POST", "/v1/messages", `{"topic":"a.b","delay":"1h","body_json":`+bad+`}`).want(t, 400,
			"invalid_json")
	}
	call(t, d, "POST", "/v1/messages", `{"topic":"a.b","delay":"1h","body":{"a":1}}`).want(t, 400, "invalid_body")
}

func TestGet_OfANameInSeveralKeysAsksForTheKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","key":"x"`)).want(t, 201, "")
	call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","key":"y"`)).want(t, 201, "")
	for _, method := range []string{"GET", "DELETE"} {
		call(t, d, method, "/v1/messages/a", "").want(t, 409, "ambiguous_id")
		call(t, d, method, "/v1/messages/a?key=x", "").want(t, 200, "")
	}
	// One is left that lives. A look means it; a change does not guess what else was meant.
	if a := call(t, d, "GET", "/v1/messages/a", "").want(t, 200, ""); a.json["key"] != "y" {
		t.Errorf("got %s", a.raw)
	}
	a := call(t, d, "DELETE", "/v1/messages/a", "").want(t, 409, "ambiguous_id")
	if list, _ := a.json["candidates"].([]any); len(list) != 2 || list[0].(map[string]any)["key"] != "y" ||
		list[0].(map[string]any)["state"] != "waiting" {
		t.Errorf("got %s", a.raw)
	}
	call(t, d, "DELETE", "/v1/messages/a?key=y", "").want(t, 200, "")
}

func TestIDs_OfEveryFormCanStandInAPath(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, id := range []string{"a/b", "a//b", "/a", "%", "a%2Fb", "?", "#", "a b", "日本",
		strings.Repeat("x", 128)} {
		quoted := strings.NewReplacer("\\", "\\\\", `"`, `\"`).Replace(id)
		uid := call(t, d, "POST", "/v1/messages", hourly(`,"id":"`+quoted+`"`)).want(t, 201, "").json["uid"]
		if a := call(t, d, "GET", "/v1/messages/"+url.PathEscape(id), "").want(t, 200, ""); a.json["uid"] != uid ||
			a.json["id"] != id {
			t.Errorf("%q: got %s", id, a.raw)
		}
	}
}

func TestCancel_SaysWhatReallyHappened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(d *door)
		status  int
		word    string
	}{
		{"waiting", func(*door) {}, 200, ""},
		{"canceled before", func(d *door) { call(t, d, "DELETE", "/v1/messages/a", "") }, 200, ""},
		{"in flight", func(d *door) { d.claim(t) }, 409, "in_flight"},
		{"delivered", func(d *door) { d.end(t, message.StateDelivered, false) }, 409, "already_delivered"},
		{"expired", func(d *door) { d.end(t, message.StateExpired, false) }, 409, "already_expired"},
		{"dead", func(d *door) { d.end(t, message.StateDead, true) }, 409, "already_dead"},
		{"uncertain", func(d *door) {
			for _, m := range d.claim(t) {
				back := scheduler.Back{UID: m.UID, Score: m.Score(), Mark: message.Mark{Uncertain: true}}
				if err := d.timeline.Return(
					t.Context(), m.UID.Bucket(d.timeline.Buckets()), 1,
					[]scheduler.Back{back}, 1); err != nil {
					t.Fatal(err)
				}
			}
		}, 409, "maybe_delivered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			uid := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a"`)).want(t, 201, "").json["uid"]
			c.prepare(d)
			a := call(t, d, "DELETE", "/v1/messages/a", "").want(t, c.status, c.word)
			if a.json["uid"] != uid || a.json["id"] != "a" {
				t.Errorf("got %s", a.raw)
			}
			if at := "2030-01-31T08:00:00.000Z"; c.word == "already_delivered" &&
				(a.json["at"] != at || !strings.Contains(a.detail(), at)) {
				t.Errorf("it does not say when: %s", a.raw)
			}
			if c.status == 200 && (a.json["state"] != "canceled" || d.stored(t) != 0) {
				t.Errorf("got %s, %d wait", a.raw, d.stored(t))
			}
		})
	}
}

func TestCancel_TellsHowOftenItCame(t *testing.T) {
	t.Parallel()
	d := open(t)
	call(t, d, "POST", "/v1/messages", hourly(`,"id":"sent-back","attempt":3`)).want(t, 201, "")
	for range 2 { // as it is canceled, and as that is remembered
		if a := call(t, d, "DELETE", "/v1/messages/sent-back", "").want(t, 200, ""); a.json["attempt"] != 2.0 {
			t.Errorf("got %s", a.raw)
		}
	}
}

func TestCancel_OfNothingPromisesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, id := range []string{"nobody", "t-0123456789abcdef"} {
		if a := call(t, d, "DELETE", "/v1/messages/"+id, "").want(t, 404, "unknown_id"); a.json["id"] != id {
			t.Errorf("got %s", a.raw)
		}
	}
	call(t, d, "GET", "/v1/messages/nobody", "").want(t, 404, "unknown_id")
}

func TestReference_RefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	d := open(t)
	for target, word := range map[string]string{
		"/v1/messages/" + strings.Repeat("x", 129): "invalid_id",
		"/v1/messages/%ff":                         "invalid_id",
		"/v1/messages/a%00b":                       "invalid_id",
		"/v1/messages/%20":                         "invalid_id",
		"/v1/messages/a?key=%0a":                   "invalid_key",
		"/v1/messages/a?kye=x":                     "unknown_parameter",
		"/v1/messages/a?key=x&key=y":               "invalid_query",
		"/v1/messages/a?key=%zz":                   "invalid_query",
		"/v1/messages/a?key=x;y":                   "invalid_query",
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			call(t, d, method, target, "").want(t, 400, word)
		}
	}
}
