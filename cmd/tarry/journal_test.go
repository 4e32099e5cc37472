package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// recorded is a journal that answers by what it is asked for.
type recorded struct {
	many int // messages to list
	lag  record.Lag
	same bool                  // nothing differs from the store
	came int                   // to the journal, since the store was counted
	work func(context.Context) // what a restore does before its end; nil is nothing
}

func keeping(j recorded) api.Config {
	return api.Config{Config: ops.Config{Service: scripted{}, Journal: j, Now: func() time.Time { return someDue.Time() }},
		ProgressEvery: time.Millisecond}
}

func (r recorded) Resolve(ctx context.Context, ref scheduler.Ref) (message.UID, error) {
	lives, err := r.History(ctx, ref)
	if err != nil {
		return "", err
	}
	return lives[0].UID, nil
}

func (recorded) Rejects(_ context.Context, ref scheduler.Ref, _ int) ([]scheduler.Rejected, error) {
	if ref.ID != "refused" {
		return nil, nil
	}
	return []scheduler.Rejected{{UID: someUID, ID: ref.ID, Topic: "orders.\x1b[2J", At: someDue, Size: 3,
		Reason: "invalid_delay: Tarry-Delay \"soon\" is not a duration"}}, nil
}

func (recorded) Whole(context.Context, message.UID) (record.Record, error) {
	return record.Record{}, scheduler.ErrUnknownID
}

func (recorded) History(_ context.Context, ref scheduler.Ref) ([]record.Life, error) {
	r := record.Record{Info: info(ref, message.StateDelivered)}
	switch ref.ID {
	case "nobody":
		return nil, scheduler.ErrUnknownID
	case "twice":
		return nil, &scheduler.AmbiguousError{
			Candidates: []message.Info{info(ref, message.StateDelivered), info(ref, message.StateWaiting)}}
	}
	reason := ""
	if ref.ID == "steering" {
		reason = "\x1b[2Jgone"
	}
	lives := []record.Life{{Record: r, Changes: []record.Change{
		{UID: someUID, Version: 1, State: message.StateWaiting, At: someDue - 3_600_000, Due: someDue, Bucket: 3,
			Instance: "tarry-1", Address: "10.0.0.1:7070"},
		{UID: someUID, Version: 2, State: message.StateWaiting, At: someDue + 5, Due: someDue + 1000, Bucket: 3,
			Instance: "tarry-2", Address: "10.0.0.2:7070", Term: 42, Attempt: 1,
			Claimed: someDue + 1, Reason: "nobody listens", By: "on-call"},
		{UID: someUID, Version: 3, State: message.StateDelivered, At: someDue + 1007, Bucket: 3, Instance: "tarry-2",
			Address: "10.0.0.2:7070", Term: 42, Attempt: 1,
			Claimed: someDue + 1005, Reason: reason, Stream: "ORDERS", Sequence: 4711},
	}}}
	if ref.ID == "busy" {
		lives[0].Earlier = true
	}
	if ref.ID == "requeued" {
		dead := record.Record{Info: info(ref, message.StateCanceled)}
		dead.UID, dead.Reason = "t-0123456789abcdee", "requeued as "+string(someUID)
		lives = append(lives, record.Life{Record: dead, Changes: []record.Change{
			{UID: dead.UID, Version: 1, State: message.StateWaiting, At: someDue - 7_200_000,
				Due: someDue - 3_600_000, Instance: "tarry-1", Address: "10.0.0.1:7070"},
			{UID: dead.UID, Version: 2, State: message.StateDead, At: someDue - 3_600_000, Instance: "tarry-1",
				Address: "10.0.0.1:7070", Term: 42, Attempt: 3, Reason: "no permission"},
			{UID: dead.UID, Version: 3, State: message.StateCanceled, At: someDue - 1_800_000, Instance: "tarry-1",
				Address: "10.0.0.1:7070", Reason: dead.Reason},
		}})
	}
	return lives, nil
}

func (j recorded) List(_ context.Context, q record.RecordQuery) (page []record.Record, err error) {
	if q.Topic == "down" {
		return nil, scheduler.ErrUnavailable
	}
	for i := range j.many {
		r := record.Record{Info: info(scheduler.Ref{}, message.StateWaiting)}
		r.UID, r.Due = message.UID(fmt.Sprintf("t-%016d", i)), someDue+message.Milli(i)
		switch i % 3 {
		case 0:
			r.ID, r.Key = fmt.Sprintf("order-%d", i), "customer-9"
		case 1:
			r.ID, r.State = "steering \x1b[2J", message.StateDead
		}
		if r.UID > q.AfterUID && len(page) < q.Limit && q.Topic != "nothing" {
			page = append(page, r)
		}
	}
	return page, nil
}

func (recorded) Act(context.Context, *record.Action) {}

func (recorded) Actions(context.Context, record.ActionQuery) ([]record.Action, error) {
	return nil, nil
}

func (recorded) Forecast(_ context.Context, q record.ForecastQuery) ([]record.Forecast, error) {
	switch {
	case q.Topic == "nothing":
		return nil, nil
	case q.Pattern != "":
		return []record.Forecast{{From: q.From, Count: 1}}, nil
	case q.From < 0:
		return []record.Forecast{{From: q.From, Count: 7}}, nil
	}
	return []record.Forecast{{From: q.From, Count: 5}, {From: q.From + 10*q.Step, Count: 12}}, nil
}

func (j recorded) Lag(context.Context) (record.Lag, error) { return j.lag, nil }

func (j recorded) Restore(ctx context.Context, req record.RestoreRequest,
	progress func(record.RestoreReport)) (record.RestoreReport, error) {
	if progress != nil {
		progress(record.RestoreReport{Read: 10, Added: 2})
	}
	if j.work != nil {
		j.work(ctx)
	}
	switch {
	case req.Topic == "down":
		return record.RestoreReport{}, scheduler.ErrUnavailable
	case req.UID == someUID:
		return record.RestoreReport{Read: 1, Added: 1}, nil
	case req.UID != "":
		return record.RestoreReport{}, nil
	}
	return record.RestoreReport{Read: 21, Added: 6, Raised: 5, Same: 4, InFlight: 3, Newer: 3}, nil
}

func (j recorded) Verify(_ context.Context, req record.VerifyRequest,
	_ func(record.VerifyReport)) (record.VerifyReport, error) {
	if j.same {
		return record.VerifyReport{InStore: 10, InJournal: 10 + j.came}, nil
	}
	r := record.VerifyReport{
		Quarantined: []record.Quarantined{
			{Bucket: 2, ID: "1896076800000-0", At: someDue, Known: true, UIDs: []message.UID{someUID},
				Reason: "damaged record: size of an entry is no number"},
			{Bucket: 2, ID: "1896076800000-1", At: someDue, UIDs: slices.Repeat([]message.UID{someUID}, 5),
				Reason: "the journal refuses it: SQL error 1366 (22007)"},
		},
		Refused: []scheduler.Refusal{{UID: someUID, Bucket: 1, At: someDue,
			Transition: message.Transition{From: message.StateInFlight, To: message.StateWaiting,
				Kind: message.KindSwept}},
			{UID: "t-0123456789abcdeg", Bucket: 2, At: someDue, Unreadable: true,
				Transition: message.Transition{To: message.StateInFlight}}},
		InStore: 10, InJournal: 11, Found: map[string]int{record.StoreOlder: 2, record.MissingInStore: 1},
		Differences: []record.Difference{
			{UID: someUID, Bucket: 3, Kind: record.MissingInStore,
				Journal: record.Stand{State: message.StateWaiting, Version: 2}, Repaired: req.Repair},
			{UID: someUID, Kind: record.StoreOlder,
				Store:   record.Stand{State: message.StateInFlight, Version: 1},
				Journal: record.Stand{State: message.StateDelivered, Version: 2}, Repaired: req.Repair},
		},
	}
	if req.Repair {
		r.Repaired = 3
	}
	if req.Revive {
		r.Found, r.Repaired, r.Differences = map[string]int{record.EndedInStore: 1}, 1, r.Differences[:1]
		r.Differences[0].Kind, r.Differences[0].Repaired = record.EndedInStore, true
	}
	return r, nil
}

func (recorded) Redeliver(_ context.Context, req record.RedeliverRequest,
	_ func(record.RedeliverReport)) (record.RedeliverReport, error) {
	r := record.RedeliverReport{Checked: 21, Present: 6, Gone: 5, Redelivered: 5, Unknown: 10}
	switch {
	case req.Topic == "refused":
		r.Redelivered, r.Failed = 4, 1
	case req.DryRun:
		r.Redelivered = 0
	}
	return r, nil
}

func TestList_GoesThroughAllPages(t *testing.T) {
	t.Parallel()
	environ := serve(t, keeping(recorded{many: 2500}))
	for _, args := range [][]string{{"list", "--all"}, {"list", "--all", "--limit", "7"},
		{"list", "--all", "--state", "waiting,dead"}} {
		r := tarry(t, "", environ, args...).want(t, exitDone, "\n2030-01-31T08:00:02.499Z (in 59m)  ")
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if len(lines) != 2501 || strings.Count(r.out, "DUE") != 1 || r.err != "" {
			t.Errorf("%v: %d lines, err %q", args, len(lines), r.err)
		}
	}
	r := tarry(t, "", environ, "list", "--all", "--json").want(t, exitDone, "")
	pages, messages := 0, 0
	for line := range strings.Lines(r.out) {
		var page struct{ Messages []any }
		if err := json.Unmarshal([]byte(line), &page); err != nil {
			t.Fatal(err)
		}
		pages, messages = pages+1, messages+len(page.Messages)
	}
	if pages != 3 || messages != 2500 {
		t.Errorf("%d pages, %d messages", pages, messages)
	}
	var page struct{ Cursor string }
	if err := json.Unmarshal([]byte(tarry(t, "", environ, "list", "--json", "--limit", "2").out), &page); err != nil {
		t.Fatal(err)
	}
	tarry(t, "", environ, "list", "--limit", "1", "--cursor", page.Cursor).want(t, exitDone, "t-0000000000000002")
	tarry(t, "", environ, "list", "--limit", "1", "--cursor", page.Cursor, "--topic", "other").want(t, exitUsage,
		"invalid_cursor")
}

func TestList_AndClusterSayHowFarTheJournalIsBehind(t *testing.T) {
	t.Parallel()
	cfg := keeping(recorded{many: 1, lag: record.Lag{Changes: 12, Bytes: 3456, Oldest: someDue}})
	cfg.JournalMode = "sync"
	environ := serve(t, cfg)
	const behind = "behind by 12 changes (3456 bytes), the oldest of 2030-01-31T08:00:00.000Z (in 59m)\n"
	if r := tarry(t, "", environ, "list").want(t, exitDone, ""); r.err != "tarry: the journal is "+behind {
		t.Errorf("err %q", r.err)
	}
	tarry(t, "", environ, "cluster").want(t, exitDone, "\njournal sync, "+behind)
	cfg.Journal = recorded{many: 3}
	tarry(t, "", serve(t, cfg), "cluster").want(t, exitDone, "\njournal sync, up to date\n")
	cfg.Journal = recorded{many: 3, lag: record.Lag{Quarantined: 2}}
	const apart = "\njournal sync, up to date; 2 entries of the outbox are quarantined: see tarry verify\n"
	tarry(t, "", serve(t, cfg), "cluster").want(t, exitDone, apart)
	cfg.Journal = recorded{many: 3}
	cfg.Ready = func(context.Context) []api.Check {
		return []api.Check{{Name: "journal", Needed: true, Err: errors.New("away")}}
	}
	tarry(t, "", serve(t, cfg), "cluster").want(t, exitDone, "\njournal sync, does not answer\n")
	off := serve(t, api.Config{Config: ops.Config{Service: scripted{}, JournalMode: "off"}})
	tarry(t, "", off, "cluster").want(t, exitDone,
		"\njournal off\n")
}

func TestVerify_ExitsByWhatIsLeft(t *testing.T) {
	t.Parallel()
	environ := serve(t, keeping(recorded{same: true}))
	tarry(t, "", environ, "verify").want(t, exitDone, "10 in the store, 10 in the journal: the same\n")
	tarry(t, "", environ, "verify", "--json").want(t, exitDone, `"differences":[]`)
	tarry(t, "", serve(t, keeping(recorded{same: true, came: 2})), "verify").want(t, exitDone,
		"10 in the store, 12 in the journal: no differences; messages that arrived or ended meanwhile "+
			"are in only one of the counts\n")
}

func TestJournal_ThatIsOffFailsByName(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}}})
	for _, args := range [][]string{{"history", "a"},
		{"restore", "--all"}, {"restore", "a"}, {"verify"}, {"redeliver", "--since", "1h"}} {
		tarry(t, "", environ, args...).want(t, exitFailed,
			"the journal is off; this needs journal.mode async or sync (needs_journal)\n")
		tarry(t, "", environ, append(args, "--json")...).want(t, exitFailed, `{"error":"needs_journal"`)
	}
}

func TestProgress_ShowsOnATerminalAlone(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		var out, errOut printed
		shown := func(ctx context.Context) { // a restore that ends once its progress is on the screen
			for tick := time.NewTicker(time.Millisecond); terminal && ctx.Err() == nil &&
				!strings.Contains(errOut.String(), "10 read"); {
				<-tick.C
			}
		}
		environ := serve(t, keeping(recorded{work: shown}))
		code := run(t.Context(), []string{"restore", "--all"},
			outside{out: &out, err: &errOut, environ: environ, terminal: terminal, now: time.Now, zone: time.UTC})
		if code != exitDone || !strings.HasPrefix(out.String(), "21 read: 6 added") {
			t.Errorf("got %d %q", code, out.String())
		}
		switch shown := errOut.String(); {
		case !terminal && shown != "":
			t.Errorf("no terminal, and it shows %q", shown)
		case terminal && (!strings.HasPrefix(shown, "\r\x1b[K") || !strings.Contains(shown, "10 read, 2 added") ||
			!strings.HasSuffix(shown, "\r\x1b[K")):
			t.Errorf("it shows %q", shown)
		}
	}
}

// TestLong_OutlivesTheTimeOutOfACall: what counts is how long the instance is silent.
func TestLong_OutlivesTheTimeOutOfACall(t *testing.T) {
	t.Parallel()
	// It has to last longer than the call may take.
	lasts := func(ctx context.Context) {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	environ := serve(t, keeping(recorded{work: lasts}))
	tarry(t, "", environ, "restore", "--all", "--timeout", "100ms").want(t, exitDone, "21 read")
}

func TestLong_SaysWhenItBreaksOff(t *testing.T) {
	t.Parallel()
	answers := func(text string, end func(*http.Request)) []string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Header.Get("Accept") != "application/x-ndjson" {
				t.Errorf("it accepts %q", r.Header.Get("Accept"))
			}
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			end(r)
		}))
		t.Cleanup(s.Close)
		return []string{"TARRY_SERVER=" + s.URL}
	}
	ends := func(*http.Request) {}
	waits := func(r *http.Request) { <-r.Context().Done() }
	const progress = `{"progress":{"in_store":1}}` + "\n"
	for want, environ := range map[string][]string{
		"broke off before its report": answers(progress, ends),
		"unexpected EOF":              answers(progress, func(*http.Request) { panic(http.ErrAbortHandler) }),
		"no answer within 3s":         answers(progress, waits),
		"not as tarry does":           answers(progress+"<html>\n", ends),
		"and not as tarry does":       answers("{}\n", ends),
		"store unavailable (unavailable)\n": answers(
			progress+`{"error":"unavailable","detail":"store unavailable"}`+"\n", ends),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			if r := tarry(t, "", environ, "verify", "--timeout", "100ms").want(t, exitFailed, want); r.out != "" {
				t.Errorf("out %q", r.out)
			}
		})
	}
	for _, args := range [][]string{{"verify"}, {"restore", "--all"}, {"redeliver", "--since", "1h"}} {
		ctx, cancel := context.WithCancel(t.Context())
		environ := answers(progress, func(r *http.Request) { cancel(); waits(r) })
		var out strings.Builder
		code := run(ctx, args, outside{out: &out, err: &out, environ: environ, now: time.Now, zone: time.UTC})
		if code != exitFailed || out.String() != "tarry: interrupted\n" {
			t.Errorf("%v: got %d %q", args, code, out.String())
		}
		cancel()
	}
}

func TestList_SaysWhatItIsFrom(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}}})
	const from = "from the store, part by part; the journal, which lists what has ended, is off\n"
	tarry(t, "", environ, "list", "--state", "dead", "--all").want(t, exitDone, from)
	tarry(t, "", environ, "list", "--state", "canceled").want(t, exitFailed, "(needs_journal)\n")
	tarry(t, "", environ, "list", "--held", "paused").want(t, exitUsage, "(invalid_held)\n")
	tarry(t, "", environ, "list", "--held", "no_listener", "--name", "orders.remind", "--limit", "2").want(t, exitDone,
		"there are more\n")
}
