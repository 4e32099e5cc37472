package api_test

import (
	"cmp"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// FuzzSteeringRoutes holds that no path, query, body or If-Match makes a route that steers panic or answer 5xx, that
// the scheduler is asked only for what it can do, and that a refused request asks for nothing.
func FuzzSteeringRoutes(f *testing.F) {
	for i, c := range steerCalls {
		path, query, _ := strings.Cut(c.target, "?")
		f.Add(uint8(i), nameIn(path), query, c.body, "", i%2 == 0)
	}
	for i, c := range badSteers {
		if len(c.body) > 2000 {
			continue
		}
		path, query, _ := strings.Cut(c.target, "?")
		for at := range steerCalls {
			if steerCalls[at].method == c.method && routeOf(steerCalls[at].target) == routeOf(path) {
				name, _ := url.PathUnescape(nameIn(path))
				f.Add(uint8(at), name, query, c.body, `"3"`, i%2 == 0)
				break
			}
		}
	}
	f.Add(uint8(0), "a", "", `{"delay":"1ms"}`, `W/"3"`, false)
	s := &steering{was: true,
		amend: scheduler.AmendResult{Code: scheduler.AmendDone, Info: message.Info{Version: 1}}, next: "7:x",
		counts: []scheduler.TopicCount{{Topic: "a", Waiting: 1}, {Topic: "b", Dead: 1}}}
	d := open(f, steered(s))
	for at, c := range steerCalls { // with the cursors that there are
		if c.method != "GET" {
			continue
		}
		if cursor, _ := call(f, d, c.method, c.target, c.body).json["cursor"].(string); cursor != "" {
			path, _, _ := strings.Cut(c.target, "?")
			f.Add(uint8(at), nameIn(path), "cursor="+cursor, c.body, "", false)
		}
	}
	s.take()
	f.Fuzz(func(t *testing.T, route uint8, name, query, body, ifMatch string, lines bool) {
		c := steerCalls[int(route)%len(steerCalls)]
		path, _, _ := strings.Cut(c.target, "?")
		if old := nameIn(path); old != "" {
			path = strings.Replace(path, "/"+old, "/"+url.PathEscape(name), 1)
		}
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(body))
		r.URL.RawPath, r.URL.RawQuery = path, query
		r.URL.Path, _ = url.PathUnescape(path)
		r.Header["If-Match"] = []string{ifMatch}
		if lines {
			r.Header.Set("Accept", "application/x-ndjson")
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != 200 && (w.Code < 400 || w.Code > 499) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q is not JSON", w.Body)
		}
		asked := s.take()
		if w.Code != 200 && len(asked) > 0 {
			t.Fatalf("%d %s, and it asked for %+v", w.Code, w.Body, asked)
		}
		for _, a := range asked {
			if !sane(a) {
				t.Fatalf("%s %s %q asked for %+v", c.method, path, body, a)
			}
		}
	})
}

// nameIn is the id or the topic that a path names, escaped as it stands; empty for none.
func nameIn(path string) string {
	steps := strings.Split(path, "/")
	switch {
	case len(steps) == 5, len(steps) == 4 && steps[2] == "topics",
		len(steps) == 4 && steps[2] == "messages" && steps[3] != "cancel" && steps[3] != "reschedule":
		return steps[3]
	}
	return ""
}

// routeOf is a path without the name in it.
func routeOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if name := nameIn(path); name != "" {
		return strings.Replace(path, "/"+name, "/{}", 1)
	}
	return path
}

// sane reports whether the scheduler may be asked for that.
func sane(asked any) bool {
	bounded := func(s scheduler.Selection) bool {
		return (s.Topic == "" || wire.CheckPattern(s.Topic) == nil) &&
			(s.Key == "" || s.HasKey && wire.CheckKey(s.Key) == nil) &&
			(s.From == 0 || s.To == 0 || s.From <= s.To)
	}
	changes := func(e scheduler.Edit) bool {
		times := 0
		for _, has := range []bool{e.At != nil, e.Delay != nil, e.Shift != nil} {
			if has {
				times++
			}
		}
		delay, shift := *cmp.Or(e.Delay, new(time.Duration)), *cmp.Or(e.Shift, new(time.Duration))
		return times <= 1 && (times == 1 || e.Run || e.Priority != nil || e.Headers != nil || e.Body != nil) &&
			delay >= 0 && delay <= wire.MaxDelay && shift.Abs() <= wire.MaxDelay && plainHeaders(e.Headers)
	}
	names := func(r scheduler.Ref) bool {
		return message.IsUID(string(r.UID)) && r.ID == "" ||
			r.UID == "" && wire.CheckID(r.ID) == nil && (r.Key == "" || r.Keyed && wire.CheckKey(r.Key) == nil)
	}
	switch a := asked.(type) {
	case rescheduleAsked:
		return names(a.ref) && changes(a.edit)
	case manyAsked:
		return bounded(a.sel) && (a.what != "reschedule" || changes(a.edit) && !a.edit.Run) && a.how.Body == nil &&
			a.how.Headers == nil && a.how.Delay >= 0
	case oneAsked:
		return names(a.ref) && a.how.Delay >= 0 && a.how.Delay <= wire.MaxDelay && plainHeaders(a.how.Headers)
	case deadAsked:
		return a.limit >= 1 && a.limit <= 1000 && (a.topic == "" || wire.CheckPattern(a.topic) == nil)
	case countsAsked:
		return a.limit >= 2 && a.limit <= 1001
	case countAsked:
		return wire.CheckSubject(string(a)) == nil
	case pauseAsked:
		return wire.CheckPattern(a.pattern) == nil && a.by != ""
	case string: // resumed
		return wire.CheckPattern(a) == nil
	}
	return false
}

// plainHeaders reports whether no header is one of tarry's or of NATS's own.
func plainHeaders(all []message.Header) bool {
	for _, h := range all {
		name := strings.ToLower(h.Name)
		if strings.HasPrefix(name, "tarry-") || strings.HasPrefix(name, "nats-") ||
			strings.ContainsAny(h.Name+h.Value, "\r\n") {
			return false
		}
	}
	return true
}
