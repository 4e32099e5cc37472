package short_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// camellia speaks with a server as a client of camellia-delay-queue does, by its page alone.
type camellia struct {
	*testing.T
	base string
}

type fields = map[string]any

// post sends a form of names and values.
func (c camellia) post(route string, pairs ...string) fields {
	c.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.base+route, strings.NewReader(form.Encode()))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")
	return c.do(r, http.StatusOK)
}

func (c camellia) get(route string) fields {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.base+route, nil)
	if err != nil {
		c.Fatal(err)
	}
	return c.do(r, http.StatusOK)
}

func (c camellia) do(r *http.Request, status int) fields {
	c.Helper()
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	var v fields
	if err != nil || a.StatusCode != status || json.Unmarshal(text, &v) != nil {
		c.Fatalf("%s: %d %s, %v", r.URL, a.StatusCode, text, err)
	}
	return v
}

// code checks the code of an answer.
func (c camellia) code(a fields, want float64) fields {
	c.Helper()
	if a["code"] != want || want == 200 && a["data"] == nil && a["msg"] != "success" {
		c.Errorf("got %v, want the code %v", a, want)
	}
	return a
}

// send sends a message to the topic and returns it.
func (c camellia) send(pairs ...string) fields {
	c.Helper()
	m, _ := c.code(c.post("sendMsg", pairs...), 200)["delayMsg"].(fields)
	return m
}

// look returns the message with a msgId as it is now.
func (c camellia) look(topic, id string) fields {
	c.Helper()
	m, _ := c.code(c.post("getMsg", "topic", topic, "msgId", id), 200)["delayMsg"].(fields)
	return m
}

// pull pulls until there are messages, and returns them.
func (c camellia) pull(pairs ...string) (all []fields) {
	c.Helper()
	lab.Eventually(c, site.Patience, func() error {
		list, ok := c.code(c.post("pullMsg", pairs...), 200)["delayMsgList"].([]any)
		if !ok {
			c.Fatal("there is no list")
		}
		for _, m := range list {
			all = append(all, m.(fields))
		}
		if len(all) == 0 {
			return errNotYet
		}
		return nil
	})
	return all
}

// becomes waits until the message has a status.
func (c camellia) becomes(topic, id string, status float64) {
	c.Helper()
	lab.Eventually(c, site.Patience, func() error {
		if got := c.look(topic, id)["status"]; got != status {
			return fmt.Errorf("its status is %v, want %v", got, status)
		}
		return nil
	})
}

// The names in the page's examples, in alphabetical order.
var (
	camelliaMessage = []string{"expireTime", "maxRetry", "msg", "msgId", "produceTime", "retry", "status", "topic",
		"triggerTime"}
	camelliaCounts = []string{"ackMsg", "deleteMsg", "getMsg", "pullMsg", "sendMsg", "topic", "triggerMsgEndLife",
		"triggerMsgReady", "triggerMsgTimeout"}
	camelliaInfo = []string{"ackQueueSize", "readyQueueSize", "topic", "waitingQueueInfo", "waitingQueueSize"}
)

func names(m fields) []string { return slices.Sorted(maps.Keys(m)) }

// listening subscribes to a subject of the daemon's NATS until the test ends.
func listening(t *testing.T, d *site.Dev, subject string) *nats.Subscription {
	t.Helper()
	nc, err := nats.Connect("nats://" + d.Nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	heard, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return heard
}

func millis(v any) float64 { n, _ := v.(float64); return n }

// Every request and every sentence of camellia's page, in its order.
func TestCamelliasClientsFindTheirServer(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(settings, []byte("topics: [{pattern: aloud, deliver: mq}, {pattern: rated, rate: 5}, "+
		"{pattern: usual, ttl: 48h, retry: '1m,5m', lease: 2m}]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	d := site.StartDev(t, "camellia", "--config", settings)
	d.Ready(t)
	c := camellia{t, "http://" + d.Addr + "/camellia/delayQueue/"}

	// sendMsg: the answer of the page, field by field.
	sent := c.send("topic", "topic1", "msg", "abc", "delayMillis", "10000", "ttlMillis", "20000", "maxRetry", "3")
	if !slices.Equal(names(sent), camelliaMessage) || sent["topic"] != "topic1" || sent["msg"] != "abc" ||
		sent["msgId"] == "" || millis(sent["expireTime"])-millis(sent["triggerTime"]) != 20000 ||
		sent["maxRetry"] != 3.0 || sent["retry"] != 0.0 || sent["status"] != 1.0 {
		t.Errorf("sendMsg answers %v", sent)
	}
	if delay := millis(sent["triggerTime"]) - millis(sent["produceTime"]); delay != 10000 {
		t.Errorf("it is due after %v ms", delay)
	}
	// A msgId counts once while its message lives, and by topic.
	first := c.send("topic", "topic1", "msgId", "m1", "msg", "first", "delayMillis", "3600000")
	again := c.send("topic", "topic1", "msgId", "m1", "msg", "second", "delayMillis", "5")
	if !maps.Equal(first, again) || first["msg"] != "first" || first["maxRetry"] != 10.0 ||
		millis(first["expireTime"])-millis(first["triggerTime"]) != 3600000 {
		t.Errorf("the msgId again: %v, at first %v", again, first)
	}
	other := c.send("topic", "topic2", "msgId", "m1", "msg", "other", "delayMillis", "3600000")
	if other["msg"] != "other" {
		t.Errorf("the msgId on another topic: %v", other)
	}
	if got := c.look("topic1", "m1"); !maps.Equal(got, first) {
		t.Errorf("getMsg answers %v, sendMsg %v", got, first)
	}

	// deleteMsg, whether or not release is given.
	c.code(c.post("deleteMsg", "topic", "topic1", "msgId", "m1", "release", "true"), 200)
	if got := c.look("topic1", "m1"); got["status"] != 7.0 {
		t.Errorf("deleted, it is %v", got)
	}
	c.code(c.post("deleteMsg", "topic", "topic1", "msgId", "m1"), 200) // deleted it is
	c.code(c.post("deleteMsg", "topic", "topic1", "msgId", "nobody"), 404)
	c.code(c.post("getMsg", "topic", "topic1", "msgId", "nobody"), 404)
	if anew := c.send("topic", "topic1", "msgId", "m1", "msg", "anew", "delayMillis", "3600000"); anew["msg"] != "anew" ||
		anew["status"] != 1.0 {
		t.Errorf("after its end the msgId is %v", anew)
	}

	// pullMsg answers at once, with as many as asked for.
	if list, ok := c.code(c.post("pullMsg", "topic", "work"), 200)["delayMsgList"].([]any); !ok || len(list) > 0 {
		t.Errorf("nothing is due, and pullMsg answers %v", list)
	}
	for _, id := range []string{"w1", "w2", "w3"} {
		if m := c.send("topic", "work", "msgId", id, "msg", id, "delayMillis", "-5"); m["status"] != 2.0 {
			t.Errorf("due at once, it is %v", m)
		}
	}
	pulled := c.pull("topic", "work", "batch", "2", "ackTimeoutMillis", "60000")
	if len(pulled) != 2 || pulled[0]["msg"] != "w1" || pulled[1]["msg"] != "w2" ||
		!slices.Equal(names(pulled[0]), camelliaMessage) || pulled[0]["retry"] != 1.0 || pulled[0]["status"] != 3.0 {
		t.Errorf("pullMsg answers %v", pulled)
	}
	if got := c.look("work", "w1"); got["status"] != 3.0 || got["retry"] != 1.0 {
		t.Errorf("pulled, it is %v", got)
	}
	if again := c.send("topic", "work", "msgId", "w1", "msg", "other", "delayMillis", "0"); again["msg"] != "w1" ||
		again["status"] != 3.0 {
		t.Errorf("the msgId of a pulled message again: %v", again)
	}
	if got := c.look("work", "w3"); got["status"] != 2.0 {
		t.Errorf("due, it is %v", got)
	}
	// What a consumer holds and is deleted may still be acknowledged; what none holds may not.
	c.code(c.post("deleteMsg", "topic", "work", "msgId", "w1"), 200)
	c.code(c.post("ackMsg", "topic", "work", "msgId", "w3"), 404)
	c.code(c.post("ackMsg", "topic", "work", "msgId", "w1"), 200)
	c.code(c.post("ackMsg", "topic", "work", "msgId", "w1"), 404)
	lab.Eventually(t, site.Patience, func() error { // the journal comes after
		was := maps.Clone(pulled[0])
		if was["status"] = 4.0; !maps.Equal(c.look("work", "w1"), was) {
			return fmt.Errorf("acknowledged, it is %v, and was %v", c.look("work", "w1"), was)
		}
		return nil
	})
	// The undocumented ack: false sends it back at once; its first due time stays.
	c.code(c.post("ackMsg", "topic", "work", "msgId", "w2", "ack", "false"), 200)
	back := c.pull("topic", "work", "batch", "2")
	if len(back) == 1 {
		back = append(back, c.pull("topic", "work", "batch", "2")...)
	}
	at := slices.IndexFunc(back, func(m fields) bool { return m["msg"] == "w2" })
	if at < 0 || back[at]["retry"] != 2.0 || back[at]["triggerTime"] != pulled[1]["triggerTime"] ||
		back[at]["expireTime"] != pulled[1]["expireTime"] {
		t.Errorf("sent back, it is %v, before %v", back, pulled[1])
	}

	// What other doors gave a key is known by the uid, since a msgId is one of a topic. A later push of the name that
	// waits behind takes no acknowledgement.
	pushed := func(more fields) {
		body := fields{"topic": "keyed", "id": "k1", "deliver": "pull", "delay": 0, "body": "x"}
		maps.Copy(body, more)
		if a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages", body); err != nil || a.Status != 201 {
			t.Fatalf("push: %d %s, %v", a.Status, a.Raw, err)
		}
	}
	pushed(fields{"key": "k"})
	keyed := c.pull("topic", "keyed")
	c.code(c.post("ackMsg", "topic", "keyed", "msgId", "k1"), 404)
	c.code(c.post("ackMsg", "topic", "keyed", "msgId", fmt.Sprint(keyed[0]["msgId"])), 200)
	pushed(nil)
	c.pull("topic", "keyed")
	pushed(fields{"on_duplicate": "keep", "body": "y"})
	c.code(c.post("ackMsg", "topic", "keyed", "msgId", "k1"), 200)
	if next := c.pull("topic", "keyed"); next[0]["msg"] != "y" {
		t.Errorf("the next of the name is %v", next)
	}

	// maxRetry: at most maxRetry + 1 times, by time-outs of the consumer as well. 0 is once.
	c.send("topic", "tries", "msgId", "twice", "msg", "x", "delayMillis", "0", "maxRetry", "1")
	c.pull("topic", "tries", "ackTimeoutMillis", "1")
	if m := c.pull("topic", "tries", "ackTimeoutMillis", "1"); m[0]["retry"] != 2.0 {
		t.Errorf("after a time-out it is %v", m)
	}
	c.becomes("tries", "twice", 6)
	c.send("topic", "tries", "msgId", "once", "msg", "x", "delayMillis", "0", "maxRetry", "0")
	c.pull("topic", "tries")
	c.code(c.post("ackMsg", "topic", "tries", "msgId", "once", "ack", "false"), 200)
	c.becomes("tries", "once", 6)
	// ttlMillis: from when it is due. Never pulled it is 5, pulled in vain 6.
	c.send("topic", "late", "msgId", "never", "msg", "x", "delayMillis", "10", "ttlMillis", "20")
	c.becomes("late", "never", 5)
	c.send("topic", "late", "msgId", "vain", "msg", "x", "delayMillis", "0", "ttlMillis", "700", "maxRetry", "-1")
	c.pull("topic", "late", "ackTimeoutMillis", "1")
	c.becomes("late", "vain", 6)

	// longPollingMsg answers once there is a message, or with none after its time.
	begun := time.Now()
	c.send("topic", "long", "msg", "x", "delayMillis", "500")
	list, _ := c.code(c.post("longPollingMsg", "topic", "long"), 200)["delayMsgList"].([]any)
	if took := time.Since(begun); len(list) != 1 || took < 500*time.Millisecond || took > 8*time.Second {
		t.Errorf("longPollingMsg answers %v after %s", list, took)
	}
	for wait, least := range map[string]time.Duration{"1": 0, "300": 300 * time.Millisecond} {
		begun = time.Now()
		a := c.code(c.post("longPollingMsg", "topic", "long", "longPollingTimeoutMillis", wait), 200)
		list, _ = a["delayMsgList"].([]any)
		if took := time.Since(begun); list == nil || len(list) > 0 || took < least {
			t.Errorf("longPollingMsg for %s ms answers %v after %s", wait, list, took)
		}
	}

	// The two kinds of figures.
	data, _ := c.code(c.get("getMonitorData"), 200)["data"].(fields)
	counts := map[any]fields{}
	for _, one := range data["requestStatsList"].([]any) {
		counts[one.(fields)["topic"]] = one.(fields)
	}
	if got := counts["work"]; !slices.Equal(names(got), camelliaCounts) || got["sendMsg"] != 4.0 ||
		got["pullMsg"] != 4.0 || got["ackMsg"] != 2.0 || got["deleteMsg"] != 1.0 || got["triggerMsgReady"] != 3.0 {
		t.Errorf("getMonitorData counts %v", got)
	}
	if tries, late := counts["tries"], counts["late"]; tries["triggerMsgTimeout"] != 2.0 ||
		tries["triggerMsgEndLife"] != 2.0 || late["triggerMsgEndLife"] != 2.0 || late["triggerMsgReady"] != 2.0 {
		t.Errorf("getMonitorData counts %v and %v", tries, late)
	}
	for _, list := range []string{"pullMsgTimeGapStatsList", "readyQueueTimeGapStatsList"} {
		if gaps, _ := data[list].([]any); len(gaps) != 5 || !slices.Equal(names(gaps[0].(fields)), []string{"avg", "count",
			"max", "topic"}) {
			t.Errorf("%s is %v", list, data[list])
		}
	}
	info, _ := c.code(c.get("getTopicInfo?topic=topic1"), 200)["data"].(fields)
	spans, _ := info["waitingQueueInfo"].(fields)
	if !slices.Equal(names(info), camelliaInfo) || info["topic"] != "topic1" || info["waitingQueueSize"] != 2.0 ||
		spans["sizeOf0To1min"] != 1.0 || spans["sizeOf30minTo1hour"] != 1.0 || len(spans) != 9 {
		t.Errorf("getTopicInfo answers %v", info)
	}
	var topics []string
	for _, one := range c.code(c.get("getTopicInfoList"), 200)["data"].([]any) {
		one := one.(fields)
		topics = append(topics, fmt.Sprintf("%v %v %v %v", one["topic"], one["waitingQueueSize"], one["readyQueueSize"],
			one["ackQueueSize"]))
	}
	want := []string{"keyed 0 0 1", "long 0 0 1", "topic1 2 0 0", "topic2 1 0 0", "work 0 0 2"}
	if !slices.Equal(topics, want) {
		t.Errorf("getTopicInfoList answers %v, want %v", topics, want)
	}

	c.refuses()
	c.aloud(d)
	c.paced(d)
	// An acknowledgement that comes after its time ends the message all the same: it was handled.
	c.send("topic", "slow", "msgId", "s", "msg", "x", "delayMillis", "0")
	c.code(c.post("ackMsg", "topic", "slow", "msgId", "s"), 404) // nobody had it
	c.pull("topic", "slow", "ackTimeoutMillis", "1")
	c.becomes("slow", "s", 2)
	c.code(c.post("ackMsg", "topic", "slow", "msgId", "s"), 200)
	if got := c.look("slow", "s"); got["status"] != 4.0 {
		t.Errorf("acknowledged late, it is %v", got)
	}

	// A consumer that fails, or is late, gets what was deleted meanwhile no more.
	for _, retries := range []string{"5", "0"} {
		for _, fails := range []bool{true, false} {
			c.send("topic", "gone", "msgId", "g", "msg", "x", "delayMillis", "0", "maxRetry", retries)
			c.pull("topic", "gone", "ackTimeoutMillis", "300")
			c.code(c.post("deleteMsg", "topic", "gone", "msgId", "g"), 200)
			if fails {
				c.code(c.post("ackMsg", "topic", "gone", "msgId", "g", "ack", "false"), 200)
			}
			c.becomes("gone", "g", 7) // at once
			c.send("topic", "gone", "msgId", "g", "msg", "new", "delayMillis", "0")
			if m := c.pull("topic", "gone", "ackTimeoutMillis", "60000"); m[0]["msg"] != "new" || m[0]["retry"] != 1.0 {
				t.Errorf("sent again after it was deleted, it is %v", m)
			}
			c.code(c.post("ackMsg", "topic", "gone", "msgId", "g"), 200)
			if list, _ := c.post("pullMsg", "topic", "gone")["delayMsgList"].([]any); len(list) > 0 {
				t.Errorf("deleted, it is pulled: %v", list)
			}
		}
	}

	// What a form leaves out, or says with -1 or 0, is the topic's, else that of camellia's server.
	for topic, want := range map[string]struct{ ttl, retries, lease float64 }{"usual": {48 * 3600_000, 2, 120_000},
		"other": {3600_000, 10, 30_000}} {
		m := c.send("topic", topic, "msgId", "d", "msg", "x", "delayMillis", "0", "maxRetry", "-1", "ttlMillis", "0")
		if millis(m["expireTime"])-millis(m["triggerTime"]) != want.ttl || m["maxRetry"] != want.retries {
			t.Errorf("%s: %v", topic, m)
		}
		asked := time.Now()
		c.pull("topic", topic, "ackTimeoutMillis", "0")
		a, err := d.Call(t.Context(), http.MethodGet, "/v1/messages/d?topic="+topic, nil)
		var holds struct {
			Until time.Time `json:"lease_until"`
		}
		bad := json.Unmarshal([]byte(a.Raw), &holds)
		if held := float64(holds.Until.Sub(asked).Milliseconds()); err != nil || bad != nil || held < want.lease ||
			held > want.lease+20_000 {
			t.Errorf("%s is held for %v ms: %s, %v, %v", topic, held, a.Raw, err, bad)
		}
	}
}

// paced sends back, while a poll is under way, before one begins, and where none comes.
func (c camellia) paced(d *site.Dev) {
	c.Helper()
	c.send("topic", "paced", "msgId", "p", "msg", "x", "delayMillis", "0")
	c.pull("topic", "paced")
	got, begun := make(chan fields, 1), time.Now()
	go func() { // until its poll ends
		defer close(got)
		got <- c.post("longPollingMsg", "topic", "paced", "longPollingTimeoutMillis", "2000")
	}()
	lab.Eventually(c, site.Patience, func() error {
		a, err := d.Call(c.Context(), http.MethodGet, "/metrics", nil)
		if err != nil || !strings.Contains(a.Raw, "\ntarry_polls 1\n") {
			return errNotYet
		}
		return nil
	})
	fails := func() { c.code(c.post("ackMsg", "topic", "paced", "msgId", "p", "ack", "false"), 200) }
	fails()
	list, _ := (<-got)["delayMsgList"].([]any)
	if took := time.Since(begun); len(list) != 1 || took < 1900*time.Millisecond {
		c.Errorf("a poll under way gets %v after %s", list, took)
	}
	fails()
	if list, _ := c.post("pullMsg", "topic", "paced")["delayMsgList"].([]any); len(list) != 1 {
		c.Errorf("a poll that begins gets %v", list)
	}
	fails()
	// Its time to live is over in time, and the msgId free.
	c.send("topic", "brief", "msgId", "b", "msg", "x", "delayMillis", "0", "ttlMillis", "1500")
	c.pull("topic", "brief", "ackTimeoutMillis", "500")
	c.code(c.post("ackMsg", "topic", "brief", "msgId", "b", "ack", "false"), 200)
	c.becomes("brief", "b", 6)
	if m := c.send("topic", "brief", "msgId", "b", "msg", "new", "delayMillis", "0"); m["msg"] != "new" {
		c.Errorf("after its end the msgId is %v", m)
	}
	lab.Eventually(c, site.Patience, func() error { // another door gets it 10 s later
		a, err := d.Call(c.Context(), http.MethodPost, "/v1/topics/paced/pull", fields{"wait": "4s"})
		if err != nil || !strings.Contains(a.Raw, `"attempt":4`) {
			return fmt.Errorf("another door gets %d %s, %w", a.Status, a.Raw, err)
		}
		return nil
	})
}

// refuses sends what no server takes.
func (c camellia) refuses() {
	c.Helper()
	good := map[string][]string{
		"sendMsg":        {"topic", "bad", "msg", "x", "delayMillis", "1"},
		"deleteMsg":      {"topic", "bad", "msgId", "x"},
		"ackMsg":         {"topic", "bad", "msgId", "x"},
		"getMsg":         {"topic", "bad", "msgId", "x"},
		"pullMsg":        {"topic", "bad"},
		"longPollingMsg": {"topic", "bad"},
	}
	for route, pairs := range good {
		for i := 0; i < len(pairs); i += 2 {
			begun := time.Now()
			a := c.code(c.post(route, slices.Delete(slices.Clone(pairs), i, i+2)...), 400)
			if text, _ := a["msg"].(string); !strings.Contains(text, pairs[i]) {
				c.Errorf("%s without %s answers %v", route, pairs[i], a)
			}
			if took := time.Since(begun); route == "longPollingMsg" && took < time.Second {
				c.Errorf("longPollingMsg refuses after %s", took)
			}
		}
		c.code(c.post(route, append(slices.Clone(pairs), "topic", "twice")...), 400)
		c.code(c.post(route, append([]string{"topic", "a.*"}, pairs[2:]...)...), 400)
	}
	for _, pairs := range [][]string{
		{"msgId", strings.Repeat("m", 10<<10)}, {"ttlMillis", "soon"}, {"maxRetry", "1.5"}, {"msgId", " a"},
		{"msgId", "t-0000000000000000"},
	} {
		a := c.code(c.post("sendMsg", append(good["sendMsg"], pairs...)...), 400)
		if text, _ := a["msg"].(string); !strings.Contains(text, pairs[0]) || len(text) > 300 {
			c.Errorf("%.50q is answered with %v", pairs, a)
		}
	}
	c.code(c.post("ackMsg", append(good["ackMsg"], "ack", "maybe")...), 400)
	c.code(c.post("ackMsg?topic=bad&msgId=x&ack=false;"), 400)
	for _, bad := range []string{"\xff", ""} {
		c.code(c.post("sendMsg", "topic", "bad", "msg", bad, "delayMillis", "1"), 400)
	}
	if a := c.code(c.post("sendMsg", "topic", "rated", "msg", "x", "delayMillis", "1"), 400); !strings.Contains(
		fmt.Sprint(a["msg"]), "rate") {
		c.Errorf("beside a rate: %v", a)
	}
	if info, _ := c.get("getTopicInfo?topic=bad")["data"].(fields); info["waitingQueueSize"] != 0.0 {
		c.Errorf("what was refused waits: %v", info)
	}
	for target, status := range map[string]int{"GET sendMsg": 405, "POST getTopicInfo": 405, "POST nothing": 404} {
		method, route, _ := strings.Cut(target, " ")
		r, err := http.NewRequestWithContext(c.Context(), method, c.base+route, nil)
		if err != nil {
			c.Fatal(err)
		}
		c.do(r, status)
	}
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.base+"sendMsg",
		strings.NewReader("topic=bad&msg=x&delayMillis=1"))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	c.do(r, http.StatusForbidden)
}

// aloud sends to a topic whose settings say aloud that NATS carries it.
func (c camellia) aloud(d *site.Dev) {
	c.Helper()
	heard := listening(c.T, d, "aloud")
	c.send("topic", "aloud", "msg", "hello", "delayMillis", "100", "msgId", "n1")
	if m, err := heard.NextMsg(site.Patience); err != nil || string(m.Data) != "hello" {
		c.Errorf("NATS brings %v, %v", m, err)
	}
	c.becomes("aloud", "n1", 4)
	for _, route := range []string{"pullMsg", "longPollingMsg"} {
		c.code(c.post(route, "topic", "aloud", "longPollingTimeoutMillis", "10"), 400)
	}
}
