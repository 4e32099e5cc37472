package journaltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// pages reads a list to its end.
func (t *trial) pages(q record.RecordQuery) (all []record.Record) {
	t.Helper()
	for {
		page := t.list(q)
		if len(page) > q.Limit {
			t.Fatalf("a page of %d, want at most %d", len(page), q.Limit)
		}
		all = append(all, page...)
		if len(page) == 0 {
			return all
		}
		last := page[len(page)-1]
		q.AfterDue, q.AfterUID = last.Due, last.UID
	}
}

// crowd returns messages with two topics, two keys, all ends and few due times, and the changes that lead to them.
func crowd() (all []record.Record, changes []record.Change) {
	states := []message.State{message.StateWaiting, message.StateDelivered, message.StateCanceled,
		message.StateExpired, message.StateDead}
	for i := range 120 {
		m := newMessage(i, topic([]string{"orders", "users"}[i%2]), key([]string{"", "a", "b"}[i/2%3]),
			due(time.Duration(i/7%5)*time.Second))
		of := accepted(m)
		if s := states[i/3%5]; s != message.StateWaiting {
			of = append(of, became(m, 2, s, start+message.Milli(i)))
		}
		all, changes = append(all, recorded(of...)), append(changes, of...)
	}
	slices.SortFunc(all, inOrder)
	return all, changes
}

func inOrder(a, b record.Record) int {
	if a.Due != b.Due {
		return int(a.Due - b.Due)
	}
	return slices.Compare([]byte(a.UID), []byte(b.UID))
}

var listPromises = []promise{
	{"a list is in the order of due, then uid, and pages leave no gap", func(t *trial) {
		all, changes := crowd()
		t.write(changes...)
		for _, limit := range []int{3, 17, 119, 120, 1000} {
			t.wantRecords(t.whole(t.pages(record.RecordQuery{Limit: limit})), all...)
		}
		t.wantRecords(t.list(record.RecordQuery{Limit: 0}))
	}},
	{"a list selects by topic, key, states and due, alone and together", func(t *trial) {
		all, changes := crowd()
		t.write(changes...)
		ended := []message.State{message.StateDead, message.StateDelivered, message.StateDead}
		for _, q := range []record.RecordQuery{
			{Topic: "orders"}, {Key: "a"}, {Topic: "users", Key: "b"}, {Topic: "nobody's"}, {Key: "c"},
			{States: []message.State{message.StateWaiting}}, {States: ended},
			{States: []message.State{message.StateInFlight}},
			{Topic: "orders", States: ended}, {Key: "a", States: ended}, {Topic: "orders", Key: "a", States: ended},
			{DueFrom: start + 1000}, {DueTo: start + 1000}, {DueFrom: start + 1000, DueTo: start + 2000},
			{DueFrom: start + 1001, DueTo: start + 1999},
			{Topic: "orders", Key: "a", States: ended, DueFrom: start + 1000, DueTo: start + 3000},
			{States: []message.State{message.StateWaiting}, DueFrom: start + 1000, DueTo: start + 3000},
		} {
			var want []record.Record
			for _, r := range all {
				if (q.Topic == "" || r.Topic == q.Topic) && (q.Key == "" || r.Key == q.Key) &&
					(q.States == nil || slices.Contains(q.States, r.State)) &&
					r.Due >= q.DueFrom && (q.DueTo == 0 || r.Due <= q.DueTo) {
					want = append(want, without(r))
				}
			}
			for _, limit := range []int{3, 500} {
				q.Limit = limit
				if wrong := differentRecords(t.pages(q), want); wrong != "" {
					t.Fatalf("%+v: %s", q, wrong)
				}
			}
		}
	}},
	{"a list selects by id, under every key and topic, in every state", func(t *trial) {
		var want []record.Record
		for i := range 12 {
			name := []string{"order-1", "Order-1", "order-2", ""}[i%4]
			m := newMessage(i, id(name), topic([]string{"orders", "users"}[i/4%2]), key([]string{"", "a"}[i/6]),
				due(time.Duration(12-i)*time.Second))
			of := accepted(m)
			if i%3 == 0 {
				of = append(of, became(m, 2, message.StateDead, start+message.Milli(i)))
			}
			t.write(of...)
			if name == "order-1" {
				want = append(want, without(recorded(of...)))
			}
		}
		slices.SortFunc(want, inOrder)
		for _, limit := range []int{1, 100} {
			t.wantRecords(t.pages(record.RecordQuery{ID: "order-1", Limit: limit}), want...)
		}
		for _, r := range want {
			q := record.RecordQuery{ID: "order-1", Topic: r.Topic, Key: r.Key, States: []message.State{r.State},
				DueFrom: r.Due, DueTo: r.Due, Limit: 10}
			t.wantRecords(t.list(q), r)
		}
		t.wantRecords(t.list(record.RecordQuery{ID: "order-3", Limit: 10}))
	}},
	{"the latest of a list are the end of it, in the same order", func(t *trial) {
		all, changes := crowd()
		t.write(changes...)
		waiting := []message.State{message.StateWaiting, message.StateDead}
		for _, q := range []record.RecordQuery{{}, {Topic: "orders"}, {Key: "a"}, {States: waiting},
			{States: waiting, DueTo: start + 2000}, {Topic: "nobody's"}} {
			q.Limit = len(all)
			want := t.list(q)
			for _, n := range []int{1, 5, len(all)} {
				q.Latest, q.Limit = true, n
				if wrong := differentRecords(t.list(q), want[max(len(want)-n, 0):]); wrong != "" {
					t.Fatalf("%+v: %s", q, wrong)
				}
			}
		}
		t.wantRecords(t.list(record.RecordQuery{Latest: true}))
	}},
	{"a page may begin anywhere, also before the bounds of due", func(t *trial) {
		all, changes := crowd()
		t.write(changes...)
		for _, after := range []struct {
			due message.Milli
			uid message.UID
		}{{start - 5, ""}, {start, ""}, {start + 1000, all[60].UID}, {start + 1500, "t-zzzzzzzzzzzzzzzz"},
			{start + 3000, "t-zzzzzzzzzzzzzzzz"}, {start + 9000, ""}} {
			for _, from := range []message.Milli{0, start + 1000} {
				var want []record.Record
				for _, r := range all {
					if r.Due >= from && r.Due <= start+3000 &&
						(r.Due > after.due || r.Due == after.due && r.UID > after.uid) {
						want = append(want, without(r))
					}
				}
				q := record.RecordQuery{Limit: 1000, AfterDue: after.due, AfterUID: after.uid, DueFrom: from,
					DueTo: start + 3000}
				if wrong := differentRecords(t.list(q), want); wrong != "" {
					t.Fatalf("%+v: %s", q, wrong)
				}
			}
		}
	}},
	{"as many are loaded as the bytes hold, but one at least", func(t *trial) {
		var all []record.Change
		for i, size := range []int{3000, 100, 100, 900, 5000, 11} {
			m := newMessage(i, body(make([]byte, size-10)))
			m.Headers = []message.Header{{Name: "four", Value: "sixsix"}} // 10 bytes
			all = append(all, accept(m))
		}
		t.write(all...)
		var uids []message.UID
		var want []record.Record
		for _, c := range all {
			uids, want = append(uids, c.UID), append(want, recorded(c))
		}
		for _, step := range []struct{ from, bytes, want int }{{0, 10, 1}, {0, 3099, 1}, {0, 3100, 2}, {1, 200, 2},
			{1, 199, 1}, {1, 1099, 2}, {1, 1100, 3}, {4, 5011, 2}, {4, 5010, 1}, {0, 1 << 20, 6}, {6, 9, 0}} {
			// Another order, a repeat and one that nobody knows change nothing.
			asked := append(slices.Clone(uids[step.from:]), uids[step.from:]...)
			slices.Reverse(asked)
			got, err := t.j.Load(t.Context(), append(asked, newMessage(99).UID), step.bytes)
			t.must("load", err)
			t.wantRecords(got, want[step.from:step.from+step.want]...)
		}
	}},
	{"a list comes without headers and body, and with nothing but places when so asked", func(t *trial) {
		m := newMessage(1)
		t.write(accept(m))
		t.wantRecords(t.list(record.RecordQuery{Limit: 1}), without(recorded(accept(m))))
		place := record.Record{}
		place.UID, place.Due = m.UID, m.Due
		t.wantRecords(t.list(record.RecordQuery{Limit: 1, Places: true}), place)
	}},
	{"while messages come in, pages neither miss nor repeat what was there", func(t *trial) {
		var changes []record.Change
		there := map[message.UID]int{}
		for i := range 400 {
			m := newMessage(2*i, due(time.Duration(i/20)*time.Millisecond))
			changes, there[m.UID] = append(changes, accept(m)), 0
		}
		t.write(changes...)
		ctx, cancel := context.WithCancel(t.Context())
		var coming sync.WaitGroup
		coming.Go(func() {
			random := rand.New(rand.NewPCG(1, 2))
			for i := 0; ctx.Err() == nil && i < 1500; i += 5 {
				var batch []record.Change
				for n := range 5 {
					batch = append(batch,
						accept(newMessage(2*(i+n)+1, due(time.Duration(random.IntN(20))*time.Millisecond))))
				}
				if err := t.j.Write(ctx, nil, batch); err != nil && ctx.Err() == nil {
					t.Errorf("write: %v", err)
				}
			}
		})
		seen := map[message.UID]bool{}
		for _, q := range []record.RecordQuery{{Limit: 7}, {Limit: 30, Topic: "orders.created"},
			{Limit: 11, States: []message.State{message.StateWaiting}}} {
			clear(seen)
			for _, r := range t.pages(q) {
				if seen[r.UID] {
					t.Errorf("%+v: %s came twice", q, r.UID)
				}
				seen[r.UID] = true
			}
			for uid := range there {
				if !seen[uid] {
					t.Errorf("%+v: %s was missed", q, uid)
				}
			}
		}
		cancel()
		coming.Wait()
	}},
}

var forecastPromises = []promise{
	{"a forecast counts what waits, by steps", func(t *trial) {
		var changes []record.Change
		for i, ms := range []int{-1, 0, 0, 99, 100, 250, 299, 300, 999, 1000} {
			changes = append(changes,
				accept(newMessage(i, due(time.Duration(ms)*time.Millisecond), topic([]string{"a", "b"}[i%2]))))
		}
		ended := newMessage(50, topic("a"))
		changes = append(changes, accept(ended), became(ended, 2, message.StateDelivered, start))
		t.write(changes...)
		for _, step := range []struct {
			topic             string
			from, until, step message.Milli
			want              string
		}{
			{"", 0, 1000, 100, "[{0 3} {100 1} {200 2} {300 1} {900 1}]"},
			{"", -50, 150, 100, "[{-50 3} {50 2}]"},
			{"a", 0, 1000, 1000, "[{0 4}]"},
			{"b", 0, 1001, 1000, "[{0 4} {1000 1}]"},
			{"", 1, 99, 10, "[]"},
			{"c", 0, 1000, 1000, "[]"},
			{"", 0, 1 << 40, 1 << 40, "[{0 9}]"},
		} {
			q := record.ForecastQuery{Topic: step.topic, From: start + step.from, Until: start + step.until,
				Step: step.step}
			got, err := t.j.Forecast(t.Context(), q)
			t.must("forecast", err)
			for i := range got {
				got[i].From -= start
			}
			if fmt.Sprint(got) != step.want {
				t.Errorf("%+v: got %v", step, got)
			}
		}
		if _, err := t.j.Forecast(t.Context(), record.ForecastQuery{Until: 1}); err == nil {
			t.Error("steps of nothing were taken")
		}
	}},
	{"a forecast of a pattern counts the topics that match it", func(t *trial) {
		topics := []string{"a", "A.b", "a.b", "a.b.c", "a.c.b", "a.x.y.b", "a_b", "a.b_c", "a.b%", "axb", "b", "b.a",
			"ä.b", "a.*", "*.b", "a.[b]", "a?b", "a.b.c.d", "a.x.c.b.d", "B.b.x", "a.b!", "a.b "}
		var changes []record.Change
		for i, name := range topics {
			for j := range i + 1 {
				changes = append(changes,
					accept(newMessage(100*i+j, due(time.Duration(100*j)*time.Millisecond), topic(name))))
			}
			ended := newMessage(100*i+99, topic(name))
			changes = append(changes, accept(ended), became(ended, 2, message.StateDelivered, start))
		}
		t.write(changes...)
		for _, pattern := range []string{">", "*", "a.>", "a.*", "*.b", "*.*", "a.*.b", "a.*.>", "*.*.*",
			"*.*.>", "a.b.>",
			"a.b", "a.b_c", "a_b.>", "a.b%", "a", "c.>", "ä.*", "*.b.*",
			"*.b.>", "a.*.c.>", "a.[b]", "a?b", "*.[b]", "a.b!", "*.b!", "*.*.c.d", "A.*", "a.b.*.*", "*.b.*.>"} {
			want := map[message.Milli]int{}
			for i, name := range topics {
				for j := range i + 1 {
					if at := message.Milli(100 * j); scheduler.Matches(pattern, name) && at >= 100 && at < 1100 {
						want[(at-100)/250*250]++
					}
				}
			}
			q := record.ForecastQuery{Pattern: pattern, From: start + 100, Until: start + 1100, Step: 250}
			got, err := t.j.Forecast(t.Context(), q)
			t.must("forecast", err)
			for i, f := range got {
				if f.Count == 0 || f.Count != want[f.From-start-100] || i > 0 && got[i-1].From >= f.From {
					t.Errorf("%q: got %+v, want %v", pattern, got, want)
					break
				}
			}
			if len(got) != len(want) {
				t.Errorf("%q: got %+v, want %v", pattern, got, want)
			}
		}
	}},
}
