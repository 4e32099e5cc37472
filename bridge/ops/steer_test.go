package ops_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPush_CarriesMergingAndRetries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]scheduler.Push{
		`{"topic":"a","delay":"1s","on_duplicate":"keep"}`: {Delay: time.Second,
			Merge: message.MergeKeep},
		`{"topic":"a","delay":"1s","id":"i","on_duplicate":"replace"}`: {Delay: time.Second, ID: "i",
			Merge: message.MergeReplace},
		`{"topic":"a","delay":"1s","id":"i","on_duplicate":"reject"}`: {Delay: time.Second, ID: "i"},
		`{"topic":"a","delay":0,"on_duplicate":"debounce","max_wait":"1h"}`: {Merge: message.MergeDebounce,
			MaxWait: time.Hour},
		`{"topic":"a","delay":"1s","retry":"1m,5m~20%"}`: {Delay: time.Second,
			Retry: message.Retry{Delays: []time.Duration{time.Minute, 5 * time.Minute}, Jitter: 20}},
		`{"topic":"a","id":"i","attempt":2}`:           {ID: "i", Attempt: 2, ByRetry: true},
		`{"topic":"a","id":"i","attempt":2,"delay":0}`: {ID: "i", Attempt: 2},
		`{"topic":"a","id":"i","attempt":3,"reason":"no","headers":{"z":"1"}}`: {ID: "i", Attempt: 3, ByRetry: true,
			Headers: []message.Header{{Name: "z", Value: "1"}, {Name: "Tarry-Reason", Value: "no"}}},
		`{"topic":"a","id":"` + uid + `","attempt":2}`: {ID: uid, Attempt: 2, ByRetry: true},
	} {
		item := ops.DecodePush([]byte(text), "delayed")
		if item.Err != nil {
			t.Errorf("%s: %v", text, item.Err)
			continue
		}
		want.Topic = "a"
		if want.ID != "" || want.Merge != message.MergeReject {
			want.Options = item.Push.Options()
		}
		if want.ID == "" && want.Merge != message.MergeReject {
			want.ID = message.ContentName("a", nil)
		}
		if got := ops.Push(&item.Push, item.Body); !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v\nwant %+v", text, got, want)
		}
	}
}

func TestAccepted_TellsMergingAndWhatItCouldNotReplace(t *testing.T) {
	t.Parallel()
	r := ops.Accepted(scheduler.Accepted{UID: uid, ID: "order", Due: 1896076800000, State: message.StateWaiting,
		Version: 2, Merged: true}, "")
	if r.Problem != nil || !r.Answer.Merged || r.Answer.Version != 2 || r.Answer.Duplicate {
		t.Errorf("got %+v", r)
	}
	r = ops.Accepted(scheduler.Accepted{UID: uid, ID: "order", Due: 1896076800000, State: message.StateWaiting,
		Err: scheduler.ErrMaybeDelivered}, "")
	if p := r.Problem; p == nil || p.Word != "maybe_delivered" || p.Status != 409 || p.UID != uid ||
		p.State != "waiting" {
		t.Errorf("got %+v", r.Problem)
	}
}

func TestAmend_SaysWhatReallyHappened(t *testing.T) {
	t.Parallel()
	info := func(s message.State) message.Info {
		return message.Info{Message: message.Message{UID: uid, ID: "order", Topic: "a", Due: 1896076800000,
			Priority: 7}, State: s, Version: 4, EndedAt: 1896076800000}
	}
	for _, c := range []struct {
		code   scheduler.AmendCode
		state  message.State
		word   string
		status int
	}{
		{scheduler.AmendDone, message.StateWaiting, "", 200},
		{scheduler.AmendUnknown, message.StateNone, "unknown_id", 404},
		{scheduler.AmendInFlight, message.StateInFlight, "in_flight", 409},
		{scheduler.AmendMaybe, message.StateWaiting, "maybe_delivered", 409},
		{scheduler.AmendEnded, message.StateDelivered, "already_delivered", 409},
		{scheduler.AmendEnded, message.StateExpired, "already_expired", 409},
		{scheduler.AmendEnded, message.StateDead, "already_dead", 409},
		{scheduler.AmendEnded, message.StateCanceled, "already_canceled", 409},
		{scheduler.AmendVersion, message.StateWaiting, "version_mismatch", 412},
		{scheduler.AmendCode(200), message.StateWaiting, "unknown_id", 404},
	} {
		ok, p := ops.Amend("order", &scheduler.AmendResult{Code: c.code, Info: info(c.state)})
		if c.word == "" {
			want := (ops.Rescheduled{ID: "order", UID: uid, State: "waiting", Due: "2030-01-31T08:00:00.000Z",
				Version: 4, Priority: 7, Topic: "a"})
			if p != nil || ok != want {
				t.Errorf("got %+v, %+v", ok, p)
			}
			continue
		}
		if p == nil || p.Word != c.word || p.Status != c.status || p.ID != "order" || p.Detail == "" {
			t.Errorf("%v %v: got %+v", c.code, c.state, p)
			continue
		}
		if c.code == scheduler.AmendEnded && p.At != "2030-01-31T08:00:00.000Z" ||
			(p.Version == 4) != (c.code == scheduler.AmendVersion) {
			t.Errorf("%v %v: got %+v", c.code, c.state, p)
		}
	}
}

func TestSelection_CountsFromNowAndNeverLosesABound(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1896076800000).Add(time.Microsecond)
	for text, want := range map[string]scheduler.Selection{
		`{"topic":"a.>","key":"k","dry_run":true}`: {Topic: "a.>", Key: "k", HasKey: true,
			DryRun: true},
		`{"due_from":"1s","due_to":"2s"}`:                            {From: 1896076801001, To: 1896076802000},
		`{"due_from":1896076800000,"due_to":"2030-01-31T08:00:00Z"}`: {From: 1896076800000, To: 1896076800000},
		`{"due_to":"1969-12-31T00:00:00Z"}`:                          {To: 1},
		`{"due_from":"1969-12-31T00:00:00Z","key":""}`:               {HasKey: true},
		`{"all":true}`:                                       {},
		`{"topic":"a","accepted_to":"1h"}`:                   {Topic: "a", AcceptedTo: 1896073200000},
		`{"topic":"a","accepted_to":"1969-12-31T00:00:00Z"}`: {Topic: "a", AcceptedTo: 1},
		`{"due_from":"2030-01-31T08:00:01Z","due_to":"1m","topic":"*"}`: {Topic: "*", From: 1896076801000,
			To: 1896076860000},
	} {
		in, err := onNATS("cancel_many", text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := in.(*ops.Selection).Asked(now); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	in, err := onNATS("cancel_many", `{"due_from":"1h","due_to":"2030-01-31T08:00:00Z"}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.(*ops.Selection).Asked(now)
	wantRefusal(t, err, ops.WordDueFrom, "due_from")
}

func TestDeadSelection_CountsBackFromNow(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1896076800000)
	for text, want := range map[string]scheduler.Selection{
		`{"topic":"a.>","older":"1s","dry_run":true}`: {Topic: "a.>", To: 1896076799000, DryRun: true},
		`{"from":"2s","to":"1s"}`:                     {From: 1896076798000, To: 1896076799000},
		`{"from":"2s"}`:                               {From: 1896076798000},
		`{"older":0}`:                                 {To: 1896076800000},
		`{"all":true}`:                                {},
	} {
		in, err := onNATS("dead_purge", text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := in.(*ops.DeadOrder).Asked(now); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

func TestReport_CarriesEveryCount(t *testing.T) {
	t.Parallel()
	r := scheduler.Report{Looked: 1, Matched: 2, Done: 3, InFlight: 4, Maybe: 5, Ended: 6, Failed: 7,
		Leased: 8, IntakeUnknown: true}
	text, err := ops.Encode(ops.ReportOf(r, true))
	if err != nil || string(text) != `{"dry_run":true,"looked":1,"matched":2,"done":3,"in_flight":4,"maybe_delivered":5,`+
		`"ended":6,"failed":7,"leased":8,"intake":"unknown"}` {
		t.Errorf("got %s, %v", text, err)
	}
	p := ops.Stopped(r, false, scheduler.ErrStopping)
	if p.Word != "stopping" || p.Status != 503 || p.Report == nil || p.Report.Done != 3 || p.Report.DryRun {
		t.Errorf("got %+v", p)
	}
}
