package tarry

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
)

// instance answers requests as tarry's micro service does, with what the test decides. It returns what it was asked.
type instance struct {
	mu    sync.Mutex
	asked []string
	say   func(n int, data string) string // empty: no answer
}

func (i *instance) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.asked...)
}

func newInstance(t *testing.T, nc *nats.Conn, say func(n int, data string) string) *instance {
	t.Helper()
	in := &instance{say: say}
	srv, err := micro.AddService(nc, micro.Config{Name: "tarry", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	api := srv.AddGroup("tarry.default.api")
	for _, verb := range []string{"push", "cancel", "get", "run", "reschedule", "cancel_many", "reschedule_many",
		"dead_requeue"} {
		err := api.AddEndpoint(verb, micro.HandlerFunc(func(r micro.Request) {
			in.mu.Lock()
			n := len(in.asked)
			in.asked = append(in.asked, string(r.Data()))
			in.mu.Unlock()
			text := in.say(n, string(r.Data()))
			switch {
			case text == "":
			case strings.HasPrefix(text, `{"error"`):
				_ = r.Error("409", "refused", []byte(text))
			default:
				_ = r.Respond([]byte(text))
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return in
}

// NATS picks an instance that stands still: a look-up asks once more, long before it gives that instance up, and a call
// that changes something does not.
func TestGet_AsksAnotherInstanceWhereOneStandsStill(t *testing.T) {
	t.Parallel()
	nc := off(t)
	in := newInstance(t, nc, func(n int, _ string) string {
		if n == 0 {
			return ""
		}
		return `{"id":"order-1","uid":"0uid","state":"waiting"}`
	})
	client, err := NewClient(nc, WithAckWait(time.Minute), WithTimeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := client.Get(t.Context(), Ref{ID: "order-1"}); err != nil || m.UID != "0uid" {
		t.Fatalf("got %+v, %v", m, err)
	}
	if n := len(in.all()); n < 2 || n > lookTries {
		t.Errorf("it asked %d times", n)
	}
}

const kept = `{"id":"order-1","uid":"0uid","due":"2030-01-31T08:00:00.000Z","state":"waiting","version":1,` +
	`"durable":"redis"}`

func always(text string) func(int, string) string { return func(int, string) string { return text } }

// off connects to an account without JetStream.
func off(t *testing.T) *nats.Conn {
	t.Helper()
	return connect(t, newServer(t, "").url)
}

func TestRequest_CarriesThePushAsJSON(t *testing.T) {
	t.Parallel()
	nc := off(t)
	in := newInstance(t, nc, always(kept))
	conn := wrap(t, nc)
	m := message("orders", "body \x00\xff", "tarry-delay", "20m", "Tarry-Key", "k", "Tarry-Priority", "7",
		"Tarry-TTL", "90s",
		"Tarry-Attempt", "2", "Tarry-On-Duplicate", "reject", "Tarry-Deliver", "mq", "Nats-Msg-Id", "order-1", "X", "2",
		"X", "1", "y", "Ü")
	r, err := conn.Tarry().Push(t.Context(), m)
	want := Stored{ID: "order-1", UID: "0uid", Due: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)}
	if err != nil || r != want {
		t.Fatalf("got %+v, %v, want %+v", r, err, want)
	}
	if err := conn.PublishMsg(message("orders", "", "Tarry-At", "2030-01-31T08:00:00.0001Z")); err != nil {
		t.Fatal(err)
	}
	for n, text := range []string{
		`{"topic":"orders","body_base64":"Ym9keSAA/w==","headers":{"X":["2","1"],"y":["Ü"]},"delay":"20m",` +
			`"id":"order-1","key":"k",` +
			`"on_duplicate":"reject","deliver":"mq","priority":7,"ttl":"90000","attempt":2}`,
		`{"topic":"orders","at":"2030-01-31T08:00:00.001Z"}`,
	} {
		var got, want any
		if err := json.Unmarshal([]byte(in.all()[n]), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("asked %s\nwant %s", in.all()[n], text)
		}
	}
}

func TestRequest_IsTheWayWithoutAnIntakeStream(t *testing.T) {
	t.Parallel()
	withJS, _ := account(t)
	for name, nc := range map[string]*nats.Conn{
		"server without JetStream": off(t), "JetStream without the stream": withJS,
		"account without JetStream": connect(t, shared.url, nats.UserInfo("without", "p")),
	} {
		in := newInstance(t, nc, always(kept))
		if err := wrap(t, nc).PublishMsg(message("orders", name, "Tarry-Delay", "1s")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		js := wrapJS(t, nc)
		if ack, err := js.PublishMsg(t.Context(), message("orders", name, "Tarry-Delay", "1s")); err != nil ||
			*ack != (jetstream.PubAck{}) {
			t.Errorf("%s: got %+v, %v", name, ack, err)
		}
		if n := len(in.all()); n != 2 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

func TestRequest_CanBeChosen(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	stored := intake(t, nc)
	newInstance(t, nc, always(kept))
	if err := wrap(t, nc, WithRoute(ByRequest)).PublishMsg(message("orders", "", "Tarry-Delay", "1s")); err != nil {
		t.Fatal(err)
	}
	other, _ := account(t)
	if err := wrap(t, other, WithRoute(ByRequest)).PublishMsg(message("orders", "", "Tarry-Delay", "1s")); !errors.Is(
		err, ErrNoIntake) || strings.Contains(err.Error(), "stream") {
		t.Errorf("without an instance: %v, which speaks of a stream that was not looked for", err)
	}
	if info, err := stored.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Fatalf("the stream was used: %+v, %v", info, err)
	}
}

func TestRequest_ReturnsTarrysOwnVerdict(t *testing.T) {
	t.Parallel()
	nc := off(t)
	newInstance(t, nc, always(`{"error":"duplicate_id","detail":"order-1 has other content","id":"order-1",`+
		`"uid":"0uid","state":"delivered","at":"2030-01-31T08:00:00.000Z"}`))
	err := wrap(t, nc).PublishMsg(message("orders", "", "Tarry-Delay", "1s", "Tarry-Id", "order-1"))
	want := &Error{Word: "duplicate_id", Detail: "order-1 has other content", ID: "order-1", UID: "0uid",
		State: "delivered",
		At:    time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)}
	var got *Error
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) || !errors.Is(err, ErrDuplicateID) ||
		errors.Is(err, ErrUnknownID) {
		t.Fatalf("got %#v, want %#v", err, want)
	}
	if text := err.Error(); text != "tarry: order-1 has other content" {
		t.Errorf("got %q", text)
	}
}

func TestRequest_IsRepeatedOnlyWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	silent := func(n int, _ string) string {
		if n == 0 {
			return ""
		}
		return kept
	}
	word := func(w, more string) func(int, string) string {
		return func(n int, _ string) string {
			if n == 0 {
				return `{"error":"` + w + `","detail":"d"` + more + `}`
			}
			return kept
		}
	}
	for name, c := range map[string]struct {
		say   func(int, string) string
		id    string
		asked int
		err   error
	}{
		"no answer, a merge under a name":  {silent, "merging", 1, ErrOutcomeUnknown},
		"unknown outcome, a merge":         {word("outcome_unknown", `,"id":"merging","uid":"0uid"`), "merging", 2, nil},
		"unknown outcome, a merge, no uid": {word("outcome_unknown", `,"id":"merging"`), "merging", 1, ErrOutcomeUnknown},
		"no answer, no name":               {silent, "", 1, ErrOutcomeUnknown},
		"no answer, a name":                {silent, "order-1", 2, nil},
		"unknown outcome, no name":         {word("outcome_unknown", ""), "", 1, ErrOutcomeUnknown},
		"unknown outcome that gives a uid": {word("outcome_unknown", `,"id":"0uid"`), "", 2, nil},
		"unknown outcome, a name":          {word("outcome_unknown", ""), "order-1", 2, nil},
		"stopping":                         {word("stopping", ""), "", 2, nil},
		"busy":                             {word("busy", ""), "", 2, nil},
		"full":                             {word("store_full", ""), "", 1, &Error{Word: "store_full"}},
		"refused":                          {word("duplicate_id", ""), "order-1", 1, ErrDuplicateID},
		"always busy":                      {always(`{"error":"busy","detail":"d"}`), "", 3, &Error{Word: "busy"}},
		"not an answer":                    {always(`hello`), "", 1, ErrOutcomeUnknown},
		"an answer without a uid": {always(`{"id":"a","due":"2030-01-31T08:00:00.000Z"}`), "", 1,
			ErrOutcomeUnknown},
		"an empty answer": {always(`{}`), "", 1, ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, _ := account(t)
			in := newInstance(t, nc, c.say)
			m := message("orders", "", "Tarry-Delay", "1s")
			if c.id != "" {
				Tag(m, As(c.id))
			}
			if c.id == "merging" {
				Tag(m, OnDuplicate(Replace))
			}
			err := wrap(t, nc, WithAckWait(200*time.Millisecond)).PublishMsg(m)
			if (c.err == nil) != (err == nil) || (c.err != nil && !errors.Is(err, c.err)) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if asked := in.all(); len(asked) != c.asked {
				t.Errorf("asked %d times, want %d", len(asked), c.asked)
			} else if strings.Contains(name, "gives a uid") && !strings.Contains(asked[1], `"id":"0uid"`) {
				t.Errorf("asked again with %s, want the uid", asked[1])
			} else if c.id == "merging" && c.err == nil && !strings.Contains(asked[1], `"uid":"0uid"`) {
				t.Errorf("a merge was asked again with %s, want the uid beside its name", asked[1])
			}
		})
	}
}

func TestRequest_SaysWhichBucketIsAway(t *testing.T) {
	t.Parallel()
	nc := off(t)
	in := newInstance(t, nc, always(`{"error":"bucket_unavailable","detail":"d","bucket":0}`))
	err := wrap(t, nc).PublishMsg(message("orders", "", "Tarry-Delay", "1s"))
	var refused *Error
	if !errors.As(err, &refused) || refused.Word != "bucket_unavailable" || refused.Bucket == nil ||
		*refused.Bucket != 0 || len(in.all()) != 3 {
		t.Errorf("got %+v, %v after %d requests", refused, err, len(in.all()))
	}
}

func TestRequest_RefusesWhatWouldNotFitAsJSON(t *testing.T) {
	t.Parallel()
	nc := off(t)
	in := newInstance(t, nc, always(kept))
	err := wrap(t, nc).PublishMsg(message("orders", string(make([]byte, 800_000)), "Tarry-Delay", "1s"))
	wantRefused(t, err, "too_large", "body")
	if len(in.all()) != 0 {
		t.Fatal("it was sent")
	}
}

func TestRequest_GivesFuturesToo(t *testing.T) {
	t.Parallel()
	nc := off(t)
	let := make(chan struct{})
	newInstance(t, nc, func(n int, data string) string {
		<-let
		if strings.Contains(data, "bad") {
			return `{"error":"duplicate_id","detail":"d"}`
		}
		return strings.Replace(kept, `"version":1`, `"version":1,"duplicate":true`, 1)
	})
	conn := wrap(t, nc)
	old, err := conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	js := wrapJS(t, nc)
	good, err := js.PublishMsgAsync(message("orders", "", "Tarry-Delay", "1s"))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := js.PublishMsgAsync(message("bad", "", "Tarry-Delay", "1s"))
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := old.PublishMsgAsync(message("orders", "", "Tarry-Delay", "1s"))
	if err != nil {
		t.Fatal(err)
	}
	if js.PublishAsyncPending() != 2 || old.PublishAsyncPending() != 1 {
		t.Errorf("%d and %d are pending", js.PublishAsyncPending(), old.PublishAsyncPending())
	}
	complete, oldComplete := js.PublishAsyncComplete(), old.PublishAsyncComplete()
	select {
	case <-complete:
		t.Fatal("complete before the answers")
	case <-oldComplete:
		t.Fatal("complete before the answer")
	default:
	}
	close(let)
	if ack := <-good.Ok(); !ack.Duplicate || good.Msg().Subject != "delayed.orders" {
		t.Errorf("got %+v on %q", ack, good.Msg().Subject)
	}
	if err := <-bad.Err(); !errors.Is(err, ErrDuplicateID) {
		t.Errorf("got %v", err)
	}
	if ack := <-legacy.Ok(); !ack.Duplicate {
		t.Errorf("got %+v", ack)
	}
	<-complete
	<-oldComplete
	<-js.PublishAsyncComplete()
	if js.PublishAsyncPending() != 0 {
		t.Errorf("%d are pending", js.PublishAsyncPending())
	}
}

func TestRequest_FuturesEndWithTheContextTheyCameFrom(t *testing.T) {
	t.Parallel()
	nc := off(t)
	asked := make(chan struct{}, 10)
	newInstance(t, nc, func(int, string) string { asked <- struct{}{}; return "" })
	js := wrapJS(t, nc)
	f, err := js.PublishMsgAsync(message("orders", "", "Tarry-Delay", "1s"))
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	js.CleanupPublisher()
	if err := <-f.Err(); !errors.Is(err, jetstream.ErrJetStreamPublisherClosed) {
		t.Fatalf("got %v", err)
	}
	eventually(t, func() error {
		if n := js.PublishAsyncPending(); n != 0 {
			return fmt.Errorf("%d are pending", n)
		}
		return nil
	})
	// it is still usable, and its time-out bounds what gets no answer
	short := wrapJS(t, nc, WithTimeout(50*time.Millisecond))
	if f, err = short.PublishMsgAsync(message("orders", "", "Tarry-Delay", "1s")); err != nil {
		t.Fatal(err)
	}
	if err := <-f.Err(); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestRequest_BoundsWhatWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &Client{config: config{timeout: time.Second}}
		c := newCalls(jetstream.ErrTooManyStalledMsgs)
		for n := range maxCalls {
			if _, cancel, err := c.enter(client); err != nil {
				t.Fatalf("call %d: %v", n, err)
			} else {
				defer cancel()
			}
		}
		before := time.Now()
		if _, _, err := c.enter(client); !errors.Is(err, jetstream.ErrTooManyStalledMsgs) ||
			time.Since(before) != time.Second {
			t.Fatalf("one too many: got %v after %v", err, time.Since(before))
		}
		time.AfterFunc(time.Second/2, c.leave)
		if _, cancel, err := c.enter(client); err != nil {
			t.Fatalf("after one ended: %v", err)
		} else {
			cancel()
		}
	})
}

func TestRequest_CompleteWaitsForTheLastCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, c := &Client{config: config{timeout: time.Second}}, newCalls(jetstream.ErrTooManyStalledMsgs)
		other := make(chan struct{})
		if c.with(other) != (<-chan struct{})(other) {
			t.Fatal("without calls there is nothing more to wait for")
		}
		for range 2 {
			_, cancel, err := c.enter(client)
			if err != nil {
				t.Fatal(err)
			}
			defer cancel()
		}
		done := make(chan struct{})
		close(done)
		both, rest := c.with(other), c.with(done)
		closed := func(ch <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-ch:
				return true
			default:
				return false
			}
		}
		if c.leave(); closed(rest) {
			t.Fatal("complete with one call left")
		}
		if c.leave(); !closed(rest) || closed(both) {
			t.Fatal("the calls are over, the other publishes are not")
		}
		if close(other); !closed(both) {
			t.Fatal("never complete")
		}
	})
}
