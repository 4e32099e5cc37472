package journal_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/journal/journaltest"
)

// contents are all that a journal contains.
type contents struct {
	records []record.Record
	history map[message.UID][]record.Change
	rejects []scheduler.Rejected
	actions []record.Action
	pauses  []scheduler.PauseChange
	fences  map[message.Bucket]uint64
	term    uint64
}

func contentsOf(t *testing.T, dsn string) (c contents) {
	t.Helper()
	s := open(t, dsn)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context(), record.RecordQuery{Limit: 1 << 20})
	must(err)
	uids := make([]message.UID, len(list))
	for i := range list {
		uids[i] = list[i].UID
	}
	c.records, err = s.Records(t.Context(), uids)
	must(err)
	c.history = map[message.UID][]record.Change{}
	for i, r := range c.records {
		if len(r.Body) == 0 { // one driver has nil for it, another has not
			c.records[i].Body = nil
		}
		c.history[r.UID], err = s.History(t.Context(), r.UID, record.MaxChanges)
		must(err)
		rejects, err := s.Rejects(t.Context(), scheduler.Ref{UID: r.UID}, 1)
		must(err)
		c.rejects = append(c.rejects, rejects...)
	}
	c.actions, err = s.Actions(t.Context(), record.ActionQuery{Limit: 9})
	must(err)
	c.pauses, err = s.Pauses(t.Context())
	must(err)
	c.fences, err = s.Fences(t.Context())
	must(err)
	c.term, err = s.MaxTerm(t.Context())
	must(err)
	return c
}

// filled makes a journal in a file with random histories, one message whose content is not known yet, and the rest.
func filled(t *testing.T) (dsn string, wrote contents) {
	t.Helper()
	dsn = sqliteDSN(t)
	s := open(t, dsn)
	journaltest.ExerciseModel(t, s, nil)
	uid, err := message.IntakeUID(77, message.Milli(1_900_000_000_000).Time(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := message.IntakeUID(78, message.Milli(1_900_000_000_000).Time(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	// Neither headers nor a body: to SQLite's driver they are no values.
	waits := &message.Message{UID: bare, Topic: "a", Due: 9, Attempt: 1}
	for _, err := range []error{
		s.Write(t.Context(), nil,
			[]record.Change{{UID: bare, At: 5, Rejected: &scheduler.Rejected{Reason: "too_large: it is"}}}),
		s.Write(t.Context(), nil, []record.Change{
			{UID: bare, Version: 1, State: message.StateWaiting, At: 5, Due: 9, Message: waits}}),
		s.Write(t.Context(), nil,
			[]record.Change{{UID: uid, Version: 3, State: message.StateDead, At: 5, Term: 17, Reason: "ünlucky"}}),
		s.WritePause(t.Context(), scheduler.PauseChange{Pause: scheduler.Pause{Pattern: "a.>", At: 7, By: "ann"}}),
		s.WritePause(t.Context(),
			scheduler.PauseChange{Pause: scheduler.Pause{Pattern: "b", At: 8, By: "bob"}, Resumed: true}),
		s.WriteAction(t.Context(), &record.Action{ID: "one", At: 7, Who: "ann", On: map[string]any{"topic": "a"}}),
		s.WriteAction(t.Context(), &record.Action{ID: "two", At: 8, Who: "ann", Ended: true, TookMS: 4}),
		s.Fence(t.Context(), 3, 9),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dsn, contentsOf(t, dsn)
}

func TestCopy_HoldsAllThatTheSourceDoes(t *testing.T) {
	from, want := filled(t)
	inEach(t, func(t *testing.T, to string) {
		target := config(to)
		target.Migrate = true
		copyAll := func() journal.CopyReport {
			t.Helper()
			var progress journal.CopyReport
			report, err := journal.Copy(t.Context(), config(from), target, func(r journal.CopyReport) { progress = r })
			if err != nil {
				t.Fatal(err)
			}
			if progress.Messages != report.Messages || progress.Changes != report.Changes {
				t.Errorf("the last progress is %+v of %+v", progress, report)
			}
			return report
		}
		report := copyAll()
		total := 0
		for _, n := range report.States {
			total += n
		}
		if report.Rejects != 1 || report.Actions != 2 || report.Messages != len(want.records) ||
			total != report.Messages || report.Pauses != 2 ||
			report.Term != want.term {
			t.Errorf("it reports %+v of %d messages, term %d", report, len(want.records), want.term)
		}
		if got := contentsOf(t, to); !reflect.DeepEqual(got, want) {
			t.Errorf("the copy differs from what was copied")
		}
		if again := copyAll(); !reflect.DeepEqual(again, report) {
			t.Errorf("again it reports %+v, first %+v", again, report)
		}

		// What instances did with the target since stands.
		s := open(t, to)
		live := slices.IndexFunc(want.records, func(r record.Record) bool {
			return r.State == message.StateWaiting
		})
		uid := want.records[live].UID
		later := record.Change{UID: uid, Version: want.records[live].Version + 1, State: message.StateDelivered,
			At: 1_900_000_009_000}
		for _, err := range []error{s.Write(t.Context(), nil, []record.Change{later}), s.WritePause(t.Context(),
			scheduler.PauseChange{Pause: scheduler.Pause{Pattern: "a.>", At: 100}, Resumed: true})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		copyAll()
		after := contentsOf(t, to)
		i := slices.IndexFunc(after.records, func(r record.Record) bool { return r.UID == uid })
		if after.records[i].State != message.StateDelivered || len(after.history[uid]) != len(want.history[uid])+1 ||
			!after.pauses[len(after.pauses)-1].Resumed {
			t.Errorf("a copy undid what came later: %+v, %+v", after.records[i], after.pauses)
		}
	})
}

func TestCopy_ThatBrokeOffLeavesTheTargetUnfit(t *testing.T) {
	from, want := filled(t)
	inEach(t, func(t *testing.T, to string) {
		target := config(to)
		target.Migrate = true
		ctx, stop := context.WithCancelCause(t.Context())
		broken := errors.New("the power is gone")
		if _, err := journal.Copy(ctx, config(from), target, func(r journal.CopyReport) { stop(broken) }); !errors.Is(
			err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		unfit(t, target, "a copy into it is under way, or broke off", "tarry migrate --from")
		if _, err := journal.Copy(t.Context(), config(from), target, nil); err != nil {
			t.Fatal(err)
		}
		if got := contentsOf(t, to); !reflect.DeepEqual(got, want) {
			t.Errorf("the copy differs from what was copied")
		}
	})
}

func TestCopy_SaysWhatIsMissing(t *testing.T) {
	from, _ := filled(t)
	inEach(t, func(t *testing.T, to string) {
		target := config(to)
		target.Migrate = true
		for table, want := range map[string]string{"messages": " messages are missing or older in ",
			"transitions": " changes are missing in "} {
			_, err := journal.Copy(t.Context(), config(from), target, func(r journal.CopyReport) {
				if r.Changes > 0 { // the last
					run(t, to, "DELETE FROM "+table+" WHERE state = 1")
				}
			})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("without some %s: got %v, want %s", table, err, want)
			}
		}
	})
}

func TestCopy_RefusesWhatItCannotCopy(t *testing.T) {
	t.Parallel()
	from, _ := filled(t)
	for want, c := range map[string][2]journal.Config{
		"no such file":                      {config(from + ".missing"), config(sqliteDSN(t))},
		"is both source and target":         {config(from), config(from)},
		`belongs to namespace "test"`:       {{DSN: from, Namespace: "other"}, config(sqliteDSN(t))},
		"its schema has version 0 and this": {config(from), config(sqliteDSN(t))},
	} {
		if _, err := journal.Copy(t.Context(), c[0], c[1], nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
