package request_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// knock pushes by the direct door. The header is given as "Name: value" lines.
func knock(t testing.TB, nc *nats.Conn, ns, subject, body string, header ...string) (got map[string]any, word string) {
	t.Helper()
	msg := nats.NewMsg("tarry." + ns + ".push." + subject)
	msg.Data = []byte(body)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		msg.Header[name] = append(msg.Header[name], value)
	}
	reply, err := nc.RequestMsg(msg, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(reply.Data, &got); err != nil {
		t.Fatalf("%s: %q: %v", subject, reply.Data, err)
	}
	return got, reply.Header.Get(micro.ErrorHeader)
}

func TestDoor_TakesAPushByTagAndAnswersIt(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "ns", Scheduler: bridgetest.Scheduling(t, nc, timeline)})
		got, word := knock(t, nc, "ns", "orders.created", "x", "Tarry-Delay: 20m", "Tarry-Id: order-7131", "tarry-key: c",
			"Trace: 7", "Nats-Msg-Id: call-1")
		if word != "" || got["id"] != "order-7131" || got["durable"] != "redis" || got["state"] != "waiting" ||
			!message.IsUID(got["uid"].(string)) || got["due"] == "" || got["duplicate"] != nil {
			t.Fatalf("got %v %s", got, word)
		}
		uid := got["uid"]
		if got, _, word := ask(t, nc, "ns", "get", `{"id":"order-7131"}`); word != "" || got["uid"] != uid ||
			got["topic"] != "orders.created" || got["body"] != "x" || got["key"] != "c" {
			t.Errorf("got %v %s", got, word)
		}
		got, word = knock(t, nc, "ns", "orders.created", "y", "Tarry-Delay: 20m", "Tarry-Id: order-7131", "Tarry-Key: c")
		if word != "duplicate_id" || got["uid"] != uid {
			t.Errorf("other content: got %v %s", got, word)
		}

		// A call that is repeated is one push, and a later call with the same content another.
		first, word := knock(t, nc, "ns", "mail", "x", "Tarry-Delay: 20m", "Nats-Msg-Id: 7.call-2")
		if word != "" {
			t.Fatal(word)
		}
		again, word := knock(t, nc, "ns", "mail", "x", "Tarry-Delay: 20m", "Nats-Msg-Id: 7.call-2")
		if word != "" || again["uid"] != first["uid"] || again["due"] != first["due"] || again["duplicate"] != true {
			t.Errorf("the repeat of %v: got %v %s", first, again, word)
		}
		later, word := knock(t, nc, "ns", "mail", "x", "Tarry-Delay: 20m", "Nats-Msg-Id: 7.call-3")
		if word != "" || later["uid"] == first["uid"] || later["duplicate"] != nil {
			t.Errorf("a later call: got %v %s", later, word)
		}
		if bucket := func(a map[string]any) message.Bucket {
			return message.UID(a["uid"].(string)).Bucket(timeline.Buckets())
		}; bucket(first) != bucket(later) || bucket(first) != message.BucketOf("7", timeline.Buckets()) {
			t.Errorf("two calls of a group are in the buckets %d and %d", bucket(first), bucket(later))
		}
		got, word = knock(t, nc, "ns", "bills", "x", "Tarry-Delay: 20m", "Nats-Msg-Id: 7.call-2", "Status: shipped")
		if word != "" || got["uid"] == first["uid"] || got["duplicate"] != nil {
			t.Errorf("the id of another topic's call: got %v %s", got, word)
		}
		if n := bridgetest.Waiting(t, timeline); n != 4 {
			t.Errorf("%d messages wait", n)
		}
	})
}

// What the intake would move to the rejects is answered with the same words.
func TestDoor_RefusesWhatTheIntakeRejects(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	serving(t,
		request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline), SizeLimit: 1000})
	for _, c := range []struct{ subject, header, word string }{
		{"orders", "Trace: 7", "missing_delay"},
		{"orders", "Tarry-Delay: soon", "invalid_delay"},
		{"orders", "Tarry-Dealy: 20m", "unknown_header"},
		{"orders", "Tarry-At: 17", "invalid_at"},
		{"orders", "Nats-Stream: ORDERS", "invalid_header"},
		{"delayed.orders", "Tarry-Delay: 20m", "invalid_topic"},
		{"tarry." + ns + ".api.push", "Tarry-Delay: 20m", "invalid_topic"},
		{"$JS.API.STREAM.DELETE.ORDERS", "Tarry-Delay: 20m", "invalid_topic"},
		{"_INBOX.a", "Tarry-Delay: 20m", "invalid_topic"},
	} {
		name, value, _ := strings.Cut(c.header, ": ")
		_, err := wire.Decode("delayed."+c.subject, "delayed", map[string][]string{name: {value}}, 1)
		got, word := knock(t, nc, ns, c.subject, "x", c.header, "Nats-Msg-Id: "+c.subject)
		if word != c.word || err == nil || got["detail"] != err.Error() {
			t.Errorf("%s, %s: got %s %v, want %s %v", c.subject, c.header, word, got, c.word, err)
		}
	}
	if _, word := knock(t, nc, ns, "orders", strings.Repeat("x", 1001), "Tarry-Delay: 20m"); word != "too_large" {
		t.Errorf("a large body: %s", word)
	}
	if _, word := knock(t, nc, ns, "orders", "x", "Tarry-At: 2600-01-01T00:00:00Z"); word != "too_far" {
		t.Errorf("a far due time: %s", word)
	}
	// A reply subject that is no inbox would have the instance publish there.
	msg := nats.NewMsg("tarry." + ns + ".push.orders")
	msg.Header.Set("Tarry-Delay", "20m")
	msg.Reply = "tarry." + ns + ".api.cancel"
	if err := nc.PublishMsg(msg); err != nil {
		t.Fatal(err)
	}
	knock(t, nc, ns, "orders", "x") // is answered after it
	if n := bridgetest.Waiting(t, timeline); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

// A request carries many pushes, each with its own outcome and its own Nats-Msg-Id.
func TestDoor_TakesMany(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace(),
		bridgetest.NewTimeline(t)
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline)})
	many := func(count string, body []byte) (results []map[string]any, word string) {
		t.Helper()
		msg := nats.NewMsg("tarry." + ns + ".push.orders")
		msg.Header.Set(wire.HeaderBatch, count)
		msg.Data = body
		reply, err := nc.RequestMsg(msg, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Results []map[string]any }
		if err := json.Unmarshal(reply.Data, &got); err != nil {
			t.Fatalf("%q: %v", reply.Data, err)
		}
		return got.Results, reply.Header.Get(micro.ErrorHeader)
	}
	part := func(b []byte, body string, header ...string) []byte {
		block := "NATS/1.0\r\n" + strings.Join(append(header, "", ""), "\r\n")
		return wire.AppendBatchPart(b, wire.BatchPart{Header: []byte(block), Body: []byte(body)})
	}
	body := part(nil, "a", "Tarry-Delay: 20m", "Tarry-Id: order-1", "Nats-Msg-Id: call-1")
	body = part(body, "b", "Tarry-Delay: soon", "Nats-Msg-Id: call-2")
	body = part(body, "c", "Tarry-Delay: 20m", "Nats-Msg-Id: call-3", "Trace: 7")
	body = wire.AppendBatchPart(body, wire.BatchPart{Header: []byte("none"), Body: []byte("d")})
	first, word := many("4", body)
	if word != "" || len(first) != 4 || first[0]["id"] != "order-1" || first[1]["error"] != "invalid_delay" ||
		first[2]["state"] != "waiting" || first[3]["error"] != "invalid_header" {
		t.Fatalf("got %v %s", first, word)
	}
	again, word := many("4", body)
	if word != "" || again[0]["uid"] != first[0]["uid"] || again[0]["duplicate"] != true ||
		again[2]["uid"] != first[2]["uid"] || again[2]["duplicate"] != true {
		t.Errorf("the repeat: got %v %s", again, word)
	}
	if got, word := knock(t, nc, ns, "orders", "c", "Tarry-Delay: 20m", "Nats-Msg-Id: call-3", "Trace: 7"); word != "" ||
		got["uid"] != first[2]["uid"] {
		t.Errorf("the repeat by itself: got %v %s", got, word)
	}
	for count, body := range map[string][]byte{"501": body, "5": body, "3": body, "x": body, "1": nil,
		"2": {0xff, 0xff, 0xff, 0xff}} {
		if got, word := many(count, body); word != "too_large" && word != "invalid_batch" {
			t.Errorf("%s: got %v %s", count, got, word)
		}
	}
	if n := bridgetest.Waiting(t, timeline); n != 2 {
		t.Errorf("%d messages wait", n)
	}
}
