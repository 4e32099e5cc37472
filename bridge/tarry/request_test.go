package tarry

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
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
	asked []string                        // JSON, or a push by tag as the lines subject, headers in order and body
	calls []string                        // the Nats-Msg-Ids of pushes by tag
	say   func(n int, data string) string // empty: no answer
}

func (i *instance) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.asked...)
}

// called returns the Nats-Msg-Ids of the requests.
func (i *instance) called() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.calls)
}

func newInstance(t *testing.T, nc *nats.Conn, say func(n int, data string) string) *instance {
	t.Helper()
	in := &instance{say: say}
	srv, err := micro.AddService(nc, micro.Config{Name: "tarry", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	answer := func(r micro.Request, text, call string) {
		in.mu.Lock()
		n := len(in.asked)
		in.asked, in.calls = append(in.asked, text), append(in.calls, call)
		in.mu.Unlock()
		switch reply := in.say(n, text); {
		case reply == "":
		case strings.HasPrefix(reply, `{"error"`):
			_ = r.Error("409", "refused", []byte(reply))
		default:
			_ = r.Respond([]byte(reply))
		}
	}
	err = srv.AddEndpoint("door", micro.HandlerFunc(func(r micro.Request) {
		lines := []string{strings.TrimPrefix(r.Subject(), "tarry.default.push.")}
		h, call := r.Headers(), ""
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if name == "Nats-Msg-Id" {
				call = h.Get(name)
				continue
			}
			lines = append(lines, name+": "+strings.Join(h[name], ", "))
		}
		answer(r, strings.Join(append(lines, string(r.Data())), "\n"), call)
	}), micro.WithEndpointSubject("tarry.default.push.>"))
	if err != nil {
		t.Fatal(err)
	}
	api := srv.AddGroup("tarry.default.api")
	for _, verb := range []string{"push", "cancel", "get", "run", "reschedule", "cancel_many", "reschedule_many",
		"dead_requeue"} {
		err := api.AddEndpoint(verb, micro.HandlerFunc(func(r micro.Request) { answer(r, string(r.Data()), "") }))
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

func TestDoor_CarriesThePushAsItsTag(t *testing.T) {
	t.Parallel()
	nc := off(t)
	in := newInstance(t, nc, always(kept))
	conn := wrap(t, nc)
	m := message("orders", "body \x00\xff", "tarry-delay", "20m", "Tarry-Key", "k", "Tarry-Priority", "7",
		"Tarry-TTL", "90s",
		"Tarry-Attempt", "2", "Tarry-On-Duplicate", "reject", "Tarry-Deliver", "mq", "Nats-Msg-Id", "order-1", "X", "2",
		"X", "1", "y", "Ü")
	r, err := conn.Tarry().Push(t.Context(), m)
	want := Stored{ID: "order-1", Route: ByRequest, UID: "0uid", Due: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC),
		Durable: "redis"}
	if err != nil || r != want {
		t.Fatalf("got %+v, %v, want %+v", r, err, want)
	}
	if err := conn.PublishMsg(message("orders", "", "Tarry-At", "2030-01-31T08:00:00.0001Z")); err != nil {
		t.Fatal(err)
	}
	for n, text := range []string{
		"orders\nTarry-Attempt: 2\nTarry-Delay: 20m\nTarry-Deliver: mq\nTarry-Id: order-1\nTarry-Key: k\n" +
			"Tarry-On-Duplicate: reject\nTarry-Priority: 7\nTarry-TTL: 1m30s\nX: 2, 1\ny: Ü\nbody \x00\xff",
		"orders\nTarry-At: 2030-01-31T08:00:00.001Z\n",
	} {
		if got := in.all()[n]; got != text {
			t.Errorf("asked %q\nwant %q", got, text)
		}
	}
	if calls := in.called(); calls[0] == calls[1] || calls[0] == "" || calls[1] == "" {
		t.Errorf("two calls have the Nats-Msg-Ids %q", calls)
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
		err, ErrNoInstance) || strings.Contains(err.Error(), "stream") {
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

// A push without an answer is repeated under its Nats-Msg-Id. What an instance certainly did not write goes to the
// stream, and where there is none to the door again.
func TestDoor_IsRepeatedOrLeft(t *testing.T) {
	t.Parallel()
	silent := func(n int, _ string) string {
		if n == 0 {
			return ""
		}
		return kept
	}
	first := func(text string) func(int, string) string {
		return func(n int, _ string) string {
			if n == 0 {
				return text
			}
			return kept
		}
	}
	word := func(w string) string { return `{"error":"` + w + `","detail":"d"}` }
	for name, c := range map[string]struct {
		say    func(int, string) string
		asked  int   // with a stream
		stored bool  // in the stream
		err    error // with a stream
		alone  int   // asked without one
		failed error
	}{
		"no answer":             {silent, 2, false, nil, 2, nil},
		"unknown outcome":       {first(word("outcome_unknown")), 2, false, nil, 2, nil},
		"stopping":              {first(word("stopping")), 1, true, nil, 2, nil},
		"busy":                  {first(word("busy")), 1, true, nil, 2, nil},
		"full":                  {first(word("store_full")), 1, true, nil, 1, &Error{Word: "store_full"}},
		"behind":                {first(word("journal_behind")), 1, true, nil, 1, &Error{Word: "journal_behind"}},
		"refused":               {first(word("duplicate_id")), 1, false, ErrDuplicateID, 1, ErrDuplicateID},
		"always busy":           {always(word("busy")), 1, true, nil, 3, &Error{Word: "busy"}},
		"not an answer":         {always(`hello`), 1, false, ErrOutcomeUnknown, 1, ErrOutcomeUnknown},
		"an answer of a stream": {always(`{"stream":"A","seq":1}`), 1, false, ErrOutcomeUnknown, 1, ErrOutcomeUnknown},
		"an answer without a uid": {always(`{"id":"a","due":"2030-01-31T08:00:00.000Z"}`), 1, false, ErrOutcomeUnknown, 1,
			ErrOutcomeUnknown},
		"no answer, then busy": {func(n int, _ string) string {
			return []string{"", word("busy"), kept}[n]
		}, 3, false, nil, 3, nil},
		"no answer, then refused": {func(n int, _ string) string {
			return []string{"", word("duplicate_id")}[n]
		}, 2, false, ErrDuplicateID, 2, ErrDuplicateID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, streams := range []bool{true, false} {
				nc, _ := account(t)
				want, asked := c.failed, c.alone
				if streams {
					want, asked = c.err, c.asked
				}
				var held jetstream.Stream
				if streams {
					held = intake(t, nc)
				}
				in := newInstance(t, nc, c.say)
				wait := 4 * time.Second // longer than a slow machine takes to answer
				if strings.HasPrefix(name, "no answer") {
					wait = time.Second
				}
				s, err := wrap(t, nc, WithAckWait(wait)).Tarry().Push(t.Context(), message("orders", "", "Tarry-Delay", "1s"))
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if n := len(in.all()); n != asked || len(slices.Compact(in.called())) != 1 {
					t.Errorf("asked %d times, want %d; with the Nats-Msg-Ids %q", n, asked, in.called())
				}
				if !streams {
					continue
				}
				if n := len(stored(t, held)); n != map[bool]int{true: 1}[c.stored] ||
					c.stored && (s.Route != ByStream || s.Durable != "stream" || s.Sequence != 1) {
					t.Errorf("%d are in the stream, and the answer is %+v", n, s)
				}
			}
		})
	}
}

func TestDoor_GivesUpAfterItsTime(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	held := intake(t, nc)
	in := newInstance(t, nc, always(""))
	_, err := wrap(t, nc, WithAckWait(100*time.Millisecond), WithTimeout(time.Second)).Tarry().Push(t.Context(),
		message("orders", "", "Tarry-Delay", "1s"))
	if !errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), in.called()[0]) || len(in.all()) < 2 ||
		len(stored(t, held)) > 0 {
		t.Errorf("got %v after %d requests; %d are in the stream", err, len(in.all()), len(stored(t, held)))
	}
}

// A producer from before the door existed may publish to delayed.> alone: that costs it a moment once. One that may use
// the door for some subjects keeps it for those, and a repeat never goes to the stream.
func TestDoor_IsLeftWhereTheServerRefusesIt(t *testing.T) {
	t.Parallel()
	server := newServer(t, `jetstream { store_dir: "`+t.TempDir()+`" }
		authorization { users = [
			{ user: all, password: p },
			{ user: old, password: p, permissions {
				publish: ["delayed.>", "$JS.API.STREAM.NAMES"], subscribe: "_INBOX.>" } },
			{ user: some, password: p, permissions {
				publish: ["tarry.default.push.orders.>", "delayed.>", "$JS.API.STREAM.NAMES"], subscribe: "_INBOX.>" } } ] }`)
	nc := connect(t, server.url, nats.UserInfo("all", "p"))
	held := intake(t, nc)
	in := newInstance(t, nc, func(int, string) string {
		time.Sleep(2 * deniedAfter) // so that every push asks whether it was refused
		return kept
	})
	as := func(user string, opts ...Option) *Client {
		nc := connect(t, server.url, nats.UserInfo(user, "p"),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		return wrap(t, nc, append(opts, WithAckWait(5*time.Second), WithTimeout(10*time.Second))...).Tarry()
	}
	old := as("old")
	var took [3]time.Duration
	for i := range took {
		before := time.Now()
		s, err := old.Push(t.Context(), message(fmt.Sprint("orders.", i), "", "Tarry-Delay", "1s"))
		if err != nil || s.Route != ByStream {
			t.Fatalf("got %+v, %v", s, err)
		}
		took[i] = time.Since(before)
	}
	if took[0] > old.ackWait || len(in.all()) > 0 || len(stored(t, held)) != len(took) || took[0] < deniedAfter ||
		!old.door.closed(old.nc, "tarry.default.push.orders.9") || old.door.closed(old.nc, "tarry.default.push.mail") {
		t.Errorf("it took %v; %d requests, %d in the stream", took, len(in.all()), len(stored(t, held)))
	}
	if _, err := as("old", WithRoute(ByRequest)).Push(t.Context(),
		message("orders", "", "Tarry-Delay", "1s")); !errors.Is(err, errDenied) {
		t.Errorf("the door alone: %v", err)
	}
	some := as("some")
	var pushes sync.WaitGroup
	for range 4 {
		for topic, route := range map[string]Route{"orders.x": ByRequest, "payments.x": ByStream} {
			pushes.Go(func() {
				s, err := some.Push(t.Context(), message(topic, "", "Tarry-Delay", "1s"))
				if err != nil || s.Route != route {
					t.Errorf("%s: got %+v, %v", topic, s, err)
				}
			})
		}
		pushes.Wait()
	}
	if n := len(stored(t, held)); n != len(took)+4 {
		t.Errorf("%d are in the stream", n)
	}
}

// A connection to whose inboxes instances do not answer pushes to the stream at once, and so does what may repeat a
// publish to the stream, which alone knows its Nats-Msg-Id.
func TestDoor_IsLeftForWhatItCannotAnswer(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	held := intake(t, nc)
	in := newInstance(t, nc, always(kept))
	for name, c := range map[string]struct {
		nc    *nats.Conn
		m     *nats.Msg
		route Route
	}{
		"an inbox of its own": {more(nats.CustomInboxPrefix("_INBOX_joe")), message("orders", "x", "Tarry-Delay", "1s"),
			ByStream},
		"an inbox below the usual": {more(nats.CustomInboxPrefix("_INBOX.joe")), message("orders", "x", "Tarry-Delay", "1s"),
			ByRequest},
		"a repeat": {nc, message("delayed.orders", "x", "Tarry-Delay", "1s", "Nats-Msg-Id", "once"), ByStream},
		"a repeat with a name": {nc, message("delayed.orders", "x", "Tarry-Delay", "1s", "Nats-Msg-Id", "again",
			"Tarry-Id", "order-1"), ByRequest},
		"a status and a body": {nc, message("orders", "x", "Tarry-Delay", "1s", "Status", "shipped"), ByRequest},
	} {
		if s, err := wrap(t, c.nc).Tarry().Push(t.Context(), c.m); err != nil || s.Route != c.route {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
	}
	if n := len(stored(t, held)); n != 2 || len(in.all()) != 3 {
		t.Errorf("%d are in the stream, %d were requests", n, len(in.all()))
	}
}

// Once an attempt may have been stored, what ends the next one is no answer.
func TestDoor_SaysThatTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	held := intake(t, nc)
	asked := make(chan struct{}, 9)
	newInstance(t, nc, func(int, string) string { asked <- struct{}{}; return "" })
	own := more()
	failed := make(chan error, 1)
	go func() {
		_, err := wrap(t, own, WithAckWait(200*time.Millisecond)).Tarry().Push(t.Context(),
			message("orders", "", "Tarry-Delay", "1s"))
		failed <- err
	}()
	<-asked
	<-asked
	own.Close()
	if err := <-failed; !errors.Is(err, ErrOutcomeUnknown) || len(stored(t, held)) > 0 {
		t.Errorf("got %v; %d are in the stream", err, len(stored(t, held)))
	}
}

// A PublishMsg that returns a PubAck takes the stream, which has a sequence, unless the option says otherwise.
func TestDoor_IsNotForAPubAck(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	held := intake(t, nc)
	in := newInstance(t, nc, always(kept))
	m := message("orders", "", "Tarry-Delay", "1s")
	ack, err := wrapJS(t, nc).PublishMsg(t.Context(), m)
	if err != nil || ack.Sequence != 1 || len(in.all()) > 0 {
		t.Errorf("got %+v, %v after %d requests", ack, err, len(in.all()))
	}
	old, err := wrap(t, nc).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if ack, err := old.PublishMsg(m); err != nil || ack.Sequence != 2 || len(in.all()) > 0 {
		t.Errorf("the older interface: got %+v, %v after %d requests", ack, err, len(in.all()))
	}
	ack, err = wrapJS(t, nc, WithRoute(ByRequest)).PublishMsg(t.Context(), m)
	if err != nil || ack.Sequence != 0 || len(in.all()) != 1 || len(stored(t, held)) != 2 {
		t.Errorf("by the door: got %+v, %v after %d requests", ack, err, len(in.all()))
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
