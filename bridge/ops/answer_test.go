package ops_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const uid = "t-0123456789abcdef"

func TestPush_CarriesEveryField(t *testing.T) {
	t.Parallel()
	item := ops.DecodePush([]byte(`{"topic":"a","at":1896076800000,"id":"i","key":"k","priority":3,"ttl":"5ms",`+
		`"attempt":2,"headers":{"x":["1","2"]},"body":"b"}`), "delayed")
	if item.Err != nil {
		t.Fatal(item.Err)
	}
	want := &scheduler.Push{
		ID: "i", Key: "k", Topic: "a", Headers: []message.Header{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}},
		Body:     []byte("b"),
		Priority: 3, TTL: 5 * time.Millisecond, Attempt: 2, At: 1896076800000, HasAt: true,
		Options: item.Push.Options(),
	}
	if got := ops.Push(&item.Push, item.Body); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestPush_TakesAnIDInTheFormOfAUIDForThatUID(t *testing.T) {
	t.Parallel()
	got := ops.Push(&wire.Push{Topic: "a", DelayText: "1s", Delay: time.Second, ID: uid}, nil)
	if got.UID != uid || got.ID != "" || got.Delay != time.Second {
		t.Errorf("got %+v", got)
	}
	got = ops.Push(&wire.Push{Topic: "a", DelayText: "1s", ID: uid, Attempt: 2}, nil)
	if got.UID != "" || got.ID != uid {
		t.Errorf("a consumer's retry is a new message under that name: got %+v", got)
	}
}

func TestRef_TellsUIDsFromNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, key, topic string
		keyed          bool
		want           scheduler.Ref
		word           string
	}{
		{id: uid, want: scheduler.Ref{UID: uid}},
		{id: "a", want: scheduler.Ref{ID: "a"}},
		{id: "a", keyed: true, want: scheduler.Ref{ID: "a", Keyed: true}},
		{id: "a", key: "k", keyed: true, want: scheduler.Ref{ID: "a", Key: "k", Keyed: true}},
		{id: "a", topic: "mail.x", want: scheduler.Ref{ID: "a", Topic: "mail.x"}},
		{id: uid, topic: "mail.x", want: scheduler.Ref{UID: uid, Topic: "mail.x"}},
		{id: "a", topic: "mail.>", word: wire.WordTopic},
		{id: uid, topic: "mail..x", word: wire.WordTopic},
		{id: "", word: wire.WordID},
		{id: strings.Repeat("x", 129), word: wire.WordID},
		{id: "a", key: "k\n", keyed: true, word: wire.WordKey},
	} {
		var key *string
		if c.keyed {
			key = &c.key
		}
		got, err := ops.Ref(ops.Named{ID: c.id, Topic: c.topic, Key: key})
		var refused *wire.Error
		switch {
		case c.word == "" && (err != nil || got != c.want):
			t.Errorf("%q %q: got %+v, %v", c.id, c.key, got, err)
		case c.word != "" && (!errors.As(err, &refused) || refused.Word != c.word):
			t.Errorf("%q %q: got %v, want %s", c.id, c.key, err, c.word)
		}
	}
}

func TestProblem_MapsEverySentinelTheSchedulerDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		word   string
	}{
		{scheduler.ErrUnavailable, 503, "unavailable"}, {scheduler.ErrFull, 503, "store_full"},
		{scheduler.ErrBusy, 503, "busy"},
		{scheduler.ErrBehind, 503, "journal_behind"}, {scheduler.ErrUncertified, 503, "unavailable"},
		{scheduler.ErrStopping, 503, "stopping"}, {scheduler.ErrNoMachineID, 503, "unavailable"},
		{scheduler.ErrClockBack, 503, "unavailable"},
		{scheduler.ErrOutcomeUnknown, 504, "outcome_unknown"}, {context.DeadlineExceeded, 504, "outcome_unknown"},
		{scheduler.ErrDuplicateID, 409, "duplicate_id"}, {scheduler.ErrAmbiguousID, 409, "ambiguous_id"},
		{scheduler.ErrStaleUID, 409, "stale_uid"},
		{scheduler.ErrUnreadable, 500, "internal"},
		{scheduler.ErrMaybeDelivered, 409, "maybe_delivered"}, {scheduler.ErrNotDead, 409, "not_dead"},
		{scheduler.ErrTooManyPauses, 409, "too_many_pauses"},
		{scheduler.ErrBadCursor, 400, "bad_cursor"}, {scheduler.ErrForeignUID, 400, "invalid_id"},
		{scheduler.ErrUnknownID, 404, "unknown_id"}, {scheduler.ErrTooFar, 400, "too_far"},
		{&wire.Error{Word: "invalid_delay", Field: "delay", Detail: "is negative"}, 400, "invalid_delay"},
		{&wire.Error{Word: "too_large", Field: "body", Detail: "is large"}, 413, "too_large"},
		{fmt.Errorf("%w: %w", scheduler.ErrUnavailable, context.DeadlineExceeded), 503, "unavailable"},
		{fmt.Errorf("%w: %w", scheduler.ErrUnavailable, scheduler.ErrOutcomeUnknown), 504, "outcome_unknown"},
		{errors.New("secret inside"), 500, "internal"},
	} {
		p := ops.ProblemOf(fmt.Errorf("step: %w", c.err))
		if p.Status != c.status || p.Word != c.word || p.Detail == "" {
			t.Errorf("%v: got %+v", c.err, p)
		}
		if c.status == http.StatusInternalServerError && strings.Contains(p.Detail, "secret") {
			t.Errorf("the inside shows: %q", p.Detail)
		}
	}
}

func TestProblem_NamesNoHosts(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6379},
		Err: errors.New("connect: connection refused")}
	unknown := &net.OpError{Op: "dial", Net: "tcp",
		Err: &net.DNSError{Err: "no such host", Name: "redis-7.internal", Server: "10.1.2.4:53"}}
	for text, err := range map[string]error{
		"store unavailable: bucket 3: no connection": fmt.Errorf("%w: bucket 3: %w",
			scheduler.ErrUnavailable, refused),
		"compare: outcome unknown: no connection": fmt.Errorf("compare: %w: %w", scheduler.ErrOutcomeUnknown,
			fmt.Errorf("%w: %w", scheduler.ErrOutcomeUnknown, unknown)),
		"outcome unknown: no connection": fmt.Errorf("%w: %w", scheduler.ErrOutcomeUnknown, unknown),
		"list: store unavailable: redis: i/o timeout": fmt.Errorf("list: %w: %v", scheduler.ErrUnavailable,
			fmt.Errorf("%w: redis: i/o timeout", scheduler.ErrOutcomeUnknown)),
		"store unavailable: MOVED 866 a server": fmt.Errorf("%w: MOVED 866 10.1.2.3:6380",
			scheduler.ErrUnavailable),
		"store unavailable: no connection": fmt.Errorf(
			"%w: lookup maria.internal on 10.1.2.4:53: no such host", scheduler.ErrUnavailable),
		"store unavailable: a server says no": fmt.Errorf("%w: [fd00::7]:6379 says no",
			scheduler.ErrUnavailable),
		scheduler.ErrUncertified.Error(): fmt.Errorf("%w (UNCERTIFIED 0 - 7f3a run)", scheduler.ErrUncertified),
		"journal too far behind: 12 changes since 10:15:30": fmt.Errorf("%w: 12 changes since 10:15:30",
			scheduler.ErrBehind),
	} {
		if p := ops.ProblemOf(err); p.Detail != text {
			t.Errorf("%v: got %q, want %q", err, p.Detail, text)
		}
	}
}

func TestProblem_SaysWhichBucketIsAway(t *testing.T) {
	t.Parallel()
	for _, bucket := range []message.Bucket{0, 7} {
		p := ops.ProblemOf(fmt.Errorf("push: %w", &scheduler.BucketError{Bucket: bucket}))
		if p.Status != 503 || p.Word != "bucket_unavailable" || p.Bucket == nil || *p.Bucket != int(bucket) {
			t.Errorf("got %+v", p)
		}
		text := string(ops.AppendProblem(nil, &p))
		want := fmt.Sprintf(`{"error":"bucket_unavailable","detail":%q,"bucket":%d}`, p.Detail, bucket)
		if text != want {
			t.Errorf("got %s, want %s", text, want)
		}
		r := ops.Accepted(scheduler.Accepted{UID: uid, Err: &scheduler.BucketError{Bucket: bucket}}, "")
		if r.Problem == nil || r.Problem.Bucket == nil || *r.Problem.Bucket != int(bucket) {
			t.Errorf("got %+v", r.Problem)
		}
	}
	if p := ops.ProblemOf(scheduler.ErrUnavailable); p.Bucket != nil {
		t.Errorf("got %+v", p)
	}
}

func TestAccepted_GivesTheIDToRetryWith(t *testing.T) {
	t.Parallel()
	r := ops.Accepted(scheduler.Accepted{UID: uid, Err: scheduler.ErrOutcomeUnknown}, "")
	if r.Problem == nil || r.Problem.ID != uid || r.Problem.Status != 504 {
		t.Errorf("got %+v", r.Problem)
	}
	r = ops.Accepted(scheduler.Accepted{UID: uid, ID: "order", Due: 1896076800000, State: message.StateDelivered,
		Err: scheduler.ErrDuplicateID}, "")
	if r.Problem == nil || r.Problem.UID != uid || r.Problem.State != "delivered" ||
		r.Problem.Due != "2030-01-31T08:00:00.000Z" {
		t.Errorf("got %+v", r.Problem)
	}
	r = ops.Accepted(scheduler.Accepted{UID: uid, ID: "order", Due: 1896076800000, State: message.StateWaiting,
		Version: 1, Duplicate: true}, "")
	want := ops.Answer{ID: "order", UID: uid, Due: 1896076800000, State: "waiting", Version: 1, Durable: "redis",
		Duplicate: true}
	if r.Problem != nil || r.Answer != want {
		t.Errorf("got %+v", r)
	}
}

func TestProblem_SaysWhatHelps(t *testing.T) {
	t.Parallel()
	const compared = "store unavailable: what the store holds is being compared with the journal; try again in a moment"
	if p := ops.ProblemOf(fmt.Errorf("bucket 0: %w", scheduler.ErrUncertified)); !strings.Contains(
		p.Detail, compared) {
		t.Errorf("got %s", p.Detail)
	}
}

func TestProblem_NamesWhatAnAmbiguousIDMayMean(t *testing.T) {
	t.Parallel()
	err := &scheduler.AmbiguousError{Candidates: []message.Info{
		{Message: message.Message{UID: uid, ID: "a", Topic: "mail.x"}, State: message.StateWaiting},
		{Message: message.Message{UID: uid, ID: "a", Topic: "mail.x", Key: "k"}, State: message.StateDelivered},
	}}
	p := ops.ProblemOf(fmt.Errorf("cancel: %w", err))
	want := []ops.Candidate{{Topic: "mail.x", UID: uid, State: "waiting"},
		{Topic: "mail.x", Key: "k", UID: uid, State: "delivered"}}
	if p.Status != http.StatusConflict || p.Word != ops.WordAmbiguousID || !reflect.DeepEqual(p.Candidates, want) {
		t.Errorf("got %+v", p)
	}
	text := string(ops.AppendProblem(nil, &p))
	if !strings.Contains(text, `"candidates":[{"topic":"mail.x","key":"","uid":"`+uid+`","state":"waiting"},`) {
		t.Errorf("got %s", text)
	}
}

func TestCancel_SaysWhatIsRememberedOfAnIDThatNothingHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id     string
		result scheduler.CancelResult
		says   string
	}{
		{"order", scheduler.CancelResult{}, "only a cancel with its topic is remembered"},
		{"order", scheduler.CancelResult{Buried: true},
			"if its push is already in the intake, it will be accepted as canceled"},
		{uid, scheduler.CancelResult{}, "no message, live or remembered, has this id"},
	} {
		if _, p := ops.Cancel(c.id, &c.result); p == nil || p.Word != ops.WordUnknownID ||
			!strings.HasSuffix(p.Detail, c.says) &&
				!strings.Contains(p.Detail, c.says+",") {
			t.Errorf("%s: got %+v", c.id, p)
		}
	}
}

func TestCancel_NeverSaysOKForWhatAConsumerMayHaveSeen(t *testing.T) {
	t.Parallel()
	info := func(s message.State, uncertain bool) message.Info {
		return message.Info{Message: message.Message{UID: uid, Topic: "a",
			Mark: message.Mark{Uncertain: uncertain}}, State: s, EndedAt: 1896076800000}
	}
	for _, c := range []struct {
		result scheduler.CancelResult
		word   string
		status int
	}{
		{scheduler.CancelResult{Code: scheduler.CancelDone, Info: info(message.StateCanceled, false)}, "", 200},
		{scheduler.CancelResult{Code: scheduler.CancelEnded, Info: info(message.StateCanceled, false)}, "", 200},
		{scheduler.CancelResult{Code: scheduler.CancelEnded, Info: info(message.StateCanceled, true)},
			"maybe_delivered", 409},
		{scheduler.CancelResult{Code: scheduler.CancelMaybe, Info: info(message.StateCanceled, true)},
			"maybe_delivered", 409},
		{scheduler.CancelResult{Code: scheduler.CancelInFlight, Info: info(message.StateInFlight, false)},
			"in_flight", 409},
		{scheduler.CancelResult{Code: scheduler.CancelEnded, Info: info(message.StateDelivered, false)},
			"already_delivered", 409},
		{scheduler.CancelResult{Code: scheduler.CancelEnded, Info: info(message.StateExpired, false)},
			"already_expired", 409},
		{scheduler.CancelResult{Code: scheduler.CancelEnded, Info: info(message.StateDead, true)},
			"already_dead", 409},
		{scheduler.CancelResult{Code: scheduler.CancelUnknown}, "unknown_id", 404},
	} {
		ok, p := ops.Cancel("order", &c.result)
		if c.word == "" {
			if p != nil || ok.UID != uid || ok.State != "canceled" || ok.At == "" {
				t.Errorf("%+v: got %+v, %+v", c.result.Code, ok, p)
			}
			continue
		}
		if p == nil || p.Word != c.word || p.Status != c.status || p.ID != "order" {
			t.Errorf("%v %v: got %+v", c.result.Code, c.result.Info.State, p)
		}
		if c.word == "already_delivered" && p.At != "2030-01-31T08:00:00.000Z" {
			t.Errorf("it does not say when: %+v", p)
		}
	}
}

func TestInfo_CountsATryOnceWhoeverDelivers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pull              bool
		state             message.State
		attempt, refusals uint32
	}{
		{true, message.StateWaiting, 4, 0}, {true, message.StateReady, 4, 0}, {true, message.StateInFlight, 4, 0},
		{true, message.StateDead, 3, 0}, {true, message.StateDelivered, 4, 0}, {true, message.StateExpired, 3, 0},
		{false, message.StateWaiting, 2, 2}, {false, message.StateDelivered, 2, 2}, {false, message.StateDead, 1, 2},
	} {
		i := message.Info{State: c.state, Message: message.Message{UID: uid, Topic: "a", Attempt: 2, Pull: c.pull,
			Mark: message.Mark{Refusals: 2}}}
		if w := ops.InfoOf(&i); w.Attempt != c.attempt || w.Refusals != c.refusals {
			t.Errorf("%+v: attempt %d, refusals %d", c, w.Attempt, w.Refusals)
		}
	}
}

// The last try is told while another is to come: then the message's end says what came of it.
func TestInfo_TellsTheLastTry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state message.State
		m     message.Message
		want  *ops.Try
	}{
		{message.StateWaiting, message.Message{Mark: message.Mark{Try: message.Try{At: 1896076800000, Consumer: "worker",
			How: "sent back: no \xfftill"}}},
			&ops.Try{At: "2030-01-31T08:00:00.000Z", By: "worker", Outcome: "sent back: no till"}},
		{message.StateInFlight, message.Message{Attempt: 2, Headers: []message.Header{{Name: "X", Value: "1"},
			{Name: scheduler.ReasonHeader, Value: "no till"}}},
			&ops.Try{At: wire.FormatAt(message.UID(uid).Time()), Outcome: "no till"}},
		{message.StateDelivered, message.Message{Attempt: 2, Headers: []message.Header{
			{Name: scheduler.ReasonHeader, Value: "no till"}}}, nil},
		{message.StateWaiting, message.Message{Attempt: 1, Headers: []message.Header{
			{Name: scheduler.ReasonHeader, Value: "a producer's"}}}, nil},
		{message.StateWaiting, message.Message{Attempt: 2}, nil},
	} {
		c.m.UID = uid
		if got := ops.InfoOf(&message.Info{Message: c.m, State: c.state}).LastTry; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s, attempt %d: got %+v, want %+v", c.state, c.m.Attempt, got, c.want)
		}
	}
}

func TestInfo_KeepsTheBodyWhole(t *testing.T) {
	t.Parallel()
	i := message.Info{Message: message.Message{UID: uid, Topic: "a", Body: []byte("text"), TTL: time.Minute,
		Headers: []message.Header{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}}, Due: 1896076800000},
		State: message.StateWaiting}
	w := ops.InfoOf(&i)
	if w.ID != uid || *w.Body != "text" || w.BodyBase64 != nil ||
		!reflect.DeepEqual(w.Headers, map[string][]string{"x": {"1", "2"}}) || w.EndedAt != "" || w.TTL != "1m0s" {
		t.Errorf("got %+v", w)
	}
	i.Body = []byte{0xff}
	if w = ops.InfoOf(&i); w.Body != nil || string(w.BodyBase64) != "\xff" {
		t.Errorf("got %+v", w)
	}
}
