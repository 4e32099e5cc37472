package timeline_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// garbage are spoiled records: empty, too short, of no known form, truncated, and the end of nothing.
func garbage(whole string) []string {
	return []string{"", "\x01", "x", "\x01 a text", "garbage of some length, whatever it is", whole[:len(whole)-8],
		whole[:20], "\x02", "\x02\x03",
		"\x02\x03\x02 an end of some length", "\x02\x03\x02" + whole[3:]}
}

func (b *bare) spoil(m *message.Message, packed string) {
	b.Helper()
	b.must(b.rdb.HSet(b.Context(), b.key("msg"), string(m.UID), packed).Err())
}

func (b *bare) packed(m *message.Message) string {
	b.Helper()
	packed, err := b.rdb.HGet(b.Context(), b.key("msg"), string(m.UID)).Result()
	b.must(err)
	return packed
}

// wantUnreadable holds the refusals to those of one record that cannot be read, or to none.
func (b *bare) wantUnreadable(m *message.Message, to message.State) {
	b.Helper()
	refused, err := b.Refused(b.Context(), 0)
	b.must(err)
	if m == nil {
		if len(refused) > 0 {
			b.Fatalf("refused are %+v, want none", refused)
		}
		return
	}
	want := scheduler.Refusal{UID: m.UID, Transition: message.Transition{To: to}, Unreadable: true}
	for i := range refused {
		if refused[i].At == 0 {
			b.Errorf("nobody knows when: %+v", refused[i])
		}
		refused[i].At = 0
	}
	if !slices.Equal(refused, []scheduler.Refusal{want}) {
		b.Fatalf("refused are %+v, want %+v", refused, want)
	}
}

// A message that cannot be read is claimed once: it is listed, is no longer in flight, and blocks no other.
func TestClaim_ListsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range garbage(string(make([]byte, 30))) {
		b := openBare(t, srv)
		bad, good := b.message(nil), b.message(nil)
		b.add(bad, good)
		whole := b.packed(bad)
		packed := garbage(whole[:17+1+len(bad.Topic)+2])[i]
		b.spoil(bad, packed)
		got, err := b.Claim(t.Context(), 0,
			scheduler.Claim{Term: 1, Now: 1 << 40, Limit: 10, Bytes: 1 << 30, Number: 7})
		b.must(err)
		if len(got.Messages) != 1 || got.Messages[0].UID != good.UID ||
			!slices.Equal(got.Missing, []message.UID{bad.UID}) {
			t.Fatalf("%q: claimed %+v", packed, got)
		}
		held, err := b.Held(t.Context(), 0, 1, "", 10)
		b.must(err)
		if len(held) != 1 || held[0].UID != good.UID {
			t.Fatalf("%q: held are %+v", packed, held)
		}
		b.wantUnreadable(bad, message.StateInFlight)
		b.must(b.Return(t.Context(), 0, 1,
			[]scheduler.Back{{UID: good.UID, Claim: 7, Score: good.Score()}}, 30))
		b.claim(1)
		if b.packed(bad) != packed {
			t.Fatalf("%q became %q", packed, b.packed(bad))
		}
		b.spoil(bad, whole)
		b.wantUnreadable(nil, 0)
	}
}

// A record that is spoiled while its message is in flight prevents neither a leader's beginning nor the return of other
// messages.
func TestReturnAndSweep_ListWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range 1 + len(garbage(string(make([]byte, 30)))) {
		for _, swept := range []bool{false, true} {
			b := openBare(t, srv)
			bad, good := b.message(nil), b.message(nil)
			b.add(bad, good)
			whole := b.packed(bad)
			// an end that is none
			inFlight := "\x02\x02\x02" + strings.Repeat("\x00", 16) + "\x00\x00\x00\x02\x00" + whole
			packed := append(garbage(whole[:17+1+len(bad.Topic)+2]), inFlight)[i]
			claimed := b.claim(2)
			b.spoil(bad, packed)
			if swept {
				n, err := b.Sweep(t.Context(), 0, 9, 0, 100, 50)
				b.must(err)
				if n != 2 {
					t.Errorf("%q: swept %d", packed, n)
				}
			} else {
				back := make([]scheduler.Back, len(claimed))
				for i, m := range claimed {
					back[i] = scheduler.Back{UID: m.UID, Claim: m.Claim, Keep: true}
				}
				for range 2 {
					b.must(b.Return(t.Context(), 0, 1, back, 50))
				}
			}
			term := uint64(1)
			if swept {
				term = 9
			}
			held, err := b.Held(t.Context(), 0, term, "", 10)
			b.must(err)
			if len(held) != 0 || b.rdb.ZScore(t.Context(), b.key("due"), string(good.UID)).Err() != nil ||
				b.rdb.ZScore(t.Context(), b.key("due"), string(bad.UID)).Err() == nil {
				t.Errorf("%q, swept %t: held are %+v", packed, swept, held)
			}
			b.wantUnreadable(bad, message.StateWaiting)
		}
	}
}

// A push whose uid or name leads to an unreadable record fails alone.
func TestAdd_FailsOnlyThePushThatMeetsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	named := func(id string, merge message.Merge, attempt uint32) func(*message.Message) {
		return func(m *message.Message) { m.ID, m.Merge, m.Attempt, m.Digest = id, merge, attempt, [16]byte{7} }
	}
	const reject, keep, replace = message.MergeReject, message.MergeKeep, message.MergeReplace
	for i := range garbage(string(make([]byte, 30))) {
		b := openBare(t, srv)
		plain, one, kept := b.message(nil), b.message(named("one", reject, 1)), b.message(named("two", reject, 1))
		b.add(plain, one, kept)
		packed := garbage(b.packed(plain)[:17+1+len(plain.Topic)+2])[i]
		b.spoil(plain, packed)
		b.spoil(one, packed)
		batch := []*message.Message{
			b.message(nil), plain, b.message(named("one", reject, 1)), b.message(named("one", keep, 1)),
			b.message(named("one", replace, 1)), b.message(named("one", reject, 2)),
			b.message(named("two", replace, 1)),
			b.message(named("three", reject, 1)), b.message(nil),
		}
		for again := range 2 {
			results := b.add(batch...)
			added := scheduler.AddResult{Code: scheduler.Added}
			want := []scheduler.AddResult{
				added, unreadable(plain), unreadable(one), unreadable(one), unreadable(one), unreadable(one),
				{Code: scheduler.AddMerged}, added, added,
			}
			for j, r := range results {
				code := want[j].Code
				if again == 1 && code == scheduler.Added {
					code = scheduler.AddDuplicate
				}
				if r.Code != code || code == scheduler.AddUnreadable && r.First.UID != want[j].First.UID {
					t.Fatalf("%q, push %d: %d %s, want %d %s", packed, j, r.Code, r.First.UID, code, want[j].First.UID)
				}
			}
		}
		if b.packed(one) != packed || b.packed(plain) != packed {
			t.Fatalf("%q was changed", packed)
		}
		refused, err := b.Refused(t.Context(), 0)
		b.must(err)
		if len(refused) != 2 || !refused[0].Unreadable || !refused[1].Unreadable {
			t.Fatalf("%q: refused are %+v", packed, refused)
		}
	}
}

func unreadable(m *message.Message) scheduler.AddResult {
	r := scheduler.AddResult{Code: scheduler.AddUnreadable}
	r.First.UID = m.UID
	return r
}

// A restore from the journal replaces an unreadable record: the message waits again, and counts once.
func TestRestore_MendsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range garbage(string(make([]byte, 30))) {
		for _, claimed := range []bool{false, true} {
			b := openBare(t, srv)
			m := b.message(nil)
			m.Due = 1 << 39
			b.add(m)
			packed := garbage(b.packed(m)[:17+1+len(m.Topic)+2])[i]
			b.spoil(m, packed)
			if claimed {
				_, err := b.Claim(t.Context(), 0,
					scheduler.Claim{Term: 1, Now: 1 << 40, Limit: 10, Bytes: 1 << 30, Number: 7})
				b.must(err)
				b.wantUnreadable(m, message.StateInFlight)
			}
			stands, err := b.Versions(t.Context(), 0, []message.UID{m.UID})
			b.must(err)
			if len(stands) > 0 {
				t.Fatalf("%q stands as %+v", packed, stands)
			}
			for again := range 2 {
				known := record.Record{Info: message.Info{Message: *m, State: message.StateWaiting, Version: 1}}
				codes, err := b.Restore(t.Context(), 0, []record.Record{known}, 100, 100)
				b.must(err)
				if want := []record.RestoreCode{
					record.RestoreAdded, record.RestoreSame}[again]; codes[0] != want {
					t.Fatalf("%q: restored with %d, want %d", packed, codes[0], want)
				}
			}
			b.wantUnreadable(nil, 0)
			counts, err := b.rdb.HGetAll(t.Context(), b.key("counts")).Result()
			b.must(err)
			delete(counts, "") // it keeps the hash from being a list
			if len(counts) != 1 || counts[m.Topic] != "1" {
				t.Fatalf("%q, claimed %t: the topics count %v", packed, claimed, counts)
			}
			if got := b.claim(1); string(got[0].Body) != "body" {
				t.Fatalf("claimed %+v", got[0])
			}
		}
	}
}

// Unreadable records block no list, no count, and no operation on many messages.
func TestBrowseAndCount_PassOverWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range garbage(string(make([]byte, 30))) {
		b := openBare(t, srv)
		first, waits, flies, last := b.message(nil), b.message(nil), b.message(nil), b.message(nil)
		dead, gone := b.message(nil), b.message(nil)
		b.add(dead, gone)
		b.finish(message.StateDead, b.claim(2)...)
		first.Due, waits.Due, last.Due = 1<<41, 1<<41+1, 1<<41+2
		b.add(first, waits, flies, last)
		packed := garbage(b.packed(flies)[:17+1+len(flies.Topic)+2])[i]
		b.claim(1)
		for _, m := range []*message.Message{waits, flies, gone} {
			b.spoil(m, packed)
		}
		for _, q := range []struct {
			scheduler.Browse
			want []*message.Message
		}{
			{scheduler.Browse{Limit: 1}, []*message.Message{first, last}},
			{scheduler.Browse{Limit: 1, Dead: true}, []*message.Message{dead}},
		} {
			var got []message.UID
			for {
				page, err := b.Browse(t.Context(), 0, q.Browse)
				b.must(err)
				for _, m := range page.Messages {
					got = append(got, m.UID)
				}
				if q.After = page.Next; q.After == "" {
					break
				}
			}
			if len(got) != len(q.want) || got[0] != q.want[0].UID || got[len(got)-1] != q.want[len(got)-1].UID {
				t.Fatalf("%q: a list of the dead %t holds %v", packed, q.Dead, got)
			}
		}
		if _, err := b.Count(t.Context(), "orders"); err != nil {
			t.Fatalf("%q: count: %v", packed, err)
		}
		if _, err := b.Find(t.Context(), scheduler.Ref{UID: waits.UID}); !errors.Is(err, scheduler.ErrUnreadable) {
			t.Fatalf("%q: find: %v", packed, err)
		}
	}
}

// wantPlaced holds messages to waiting in the bucket's order, or to standing nowhere there.
func (b *bare) wantPlaced(placed bool, messages ...*message.Message) {
	b.Helper()
	for _, m := range messages {
		if in := b.rdb.ZScore(b.Context(), b.key("due"), string(m.UID)).Err() == nil; in != placed {
			b.Errorf("%s waits in its order: %t, want %t", m.UID, in, placed)
		}
	}
}

// If the next push under a name cannot be read, the returned message waits again, and so do all others.
func TestReturnAndSweep_KeepAMessageWhoseNextCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range garbage(string(make([]byte, 30))) {
		for _, swept := range []bool{false, true} {
			b := openBare(t, srv)
			named := func(digest byte, merge message.Merge) func(*message.Message) {
				return func(m *message.Message) { m.ID, m.Digest, m.Merge = "n", [16]byte{digest}, merge }
			}
			first, other := b.message(named(1, message.MergeReject)), b.message(nil)
			b.add(first, other)
			packed := garbage(b.packed(other)[:17+1+len(other.Topic)+2])[i]
			claimed := b.claim(2)
			later := b.message(named(2, message.MergeKeep))
			later.Due = 1 << 41
			b.add(later)
			b.spoil(later, packed)
			term := uint64(1)
			for range 2 {
				if swept {
					term = 9
					_, err := b.Sweep(t.Context(), 0, 9, 0, 100, 50)
					b.must(err)
					continue
				}
				back := make([]scheduler.Back, len(claimed))
				for i, m := range claimed {
					back[i] = scheduler.Back{UID: m.UID, Claim: m.Claim, Keep: true}
				}
				b.must(b.Return(t.Context(), 0, 1, back, 50))
			}
			held, err := b.Held(t.Context(), 0, term, "", 10)
			b.must(err)
			if len(held) != 0 {
				t.Errorf("%q, swept %t: held are %+v", packed, swept, held)
			}
			b.wantPlaced(true, first, other, later)
			b.wantUnreadable(later, message.StateCanceled)
			found, err := b.Find(t.Context(), scheduler.Ref{UID: first.UID})
			if err != nil || len(found) != 1 || found[0].State != message.StateWaiting {
				t.Errorf("%q, swept %t: found %+v, %v", packed, swept, found, err)
			}
			if b.packed(later) != packed {
				t.Errorf("%q became %q", packed, b.packed(later))
			}
		}
	}
}

// An end that cannot be read is forgotten with the others of its page.
func TestTrim_ForgetsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	named := func(id string) func(*message.Message) {
		return func(m *message.Message) { m.ID, m.Digest = id, [16]byte{1} }
	}
	for i := range 1 + len(garbage(string(make([]byte, 30)))) {
		b := openBare(t, srv)
		bad, good, more := b.message(named("bad")), b.message(named("good")), b.message(nil)
		b.add(bad, good, more)
		b.finish(message.StateDelivered, b.claim(3)...)
		b.must(b.rdb.Del(t.Context(), b.key("outbox"), b.key("outboxed")).Err()) // nothing waits for the journal
		whole := b.packed(bad)
		b.spoil(bad, append(garbage(whole), whole[:24+int(whole[23])+12])[i])
		for again := range 2 {
			n, err := b.Trim(t.Context(), 0, 1, 1<<40, 100)
			b.must(err)
			if want := []int{3, 0}[again]; n != want {
				t.Errorf("case %d: %d ends were forgotten, want %d", i, n, want)
			}
		}
		if n := b.rdb.HLen(t.Context(), b.key("msg")).Val(); n != 0 {
			t.Errorf("case %d: %d messages are left", i, n)
		}
		if b.add(b.message(named("good")))[0].Code != scheduler.Added {
			t.Errorf("case %d: the name of an end that was forgotten is in use", i)
		}
	}
}

// A message that the scripts can read and a leader cannot is claimed once, and the journal restores it: it stands in no
// order.
func TestRestore_MendsWhatOnlyALeaderCannotRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for _, how := range []string{"headers", "mark"} {
		for _, state := range []message.State{message.StateWaiting, message.StateDelivered} {
			b := openBare(t, srv)
			m := b.message(func(m *message.Message) {
				m.Headers = []message.Header{{Name: "Traceparent", Value: "aaaaaaaaaaaa"}}
			})
			m.Due = 1 << 39
			b.add(m)
			if whole := b.packed(m); how == "headers" {
				b.spoil(m, whole[:len(whole)-8])
			} else {
				b.must(b.rdb.HSet(t.Context(), b.key("mark"), string(m.UID), "garbage").Err())
			}
			got, err := b.Claim(t.Context(), 0,
				scheduler.Claim{Term: 1, Now: 1 << 40, Limit: 10, Bytes: 1 << 30, Number: 7})
			b.must(err)
			if len(got.Messages) != 0 || !slices.Equal(got.Missing, []message.UID{m.UID}) {
				t.Fatalf("%s: claimed %+v", how, got)
			}
			b.wantUnreadable(m, message.StateInFlight)
			stands, err := b.Versions(t.Context(), 0, []message.UID{m.UID})
			b.must(err)
			if len(stands) > 0 {
				t.Fatalf("%s: it stands as %+v", how, stands)
			}
			known := record.Record{Info: message.Info{Message: *m, State: state, Version: 1}}
			lives := int64(1)
			if state.Ended() {
				known.Version, known.EndedAt, lives = 2, 90, 0
			}
			for again := range 2 {
				codes, err := b.Restore(t.Context(), 0, []record.Record{known}, 100, 100)
				b.must(err)
				if want := []record.RestoreCode{
					record.RestoreAdded, record.RestoreSame}[again]; codes[0] != want {
					t.Fatalf("%s: restored with %d, want %d", how, codes[0], want)
				}
			}
			b.wantUnreadable(nil, 0)
			if n := b.rdb.HGet(t.Context(), b.key("counts"), m.Topic).Val(); n != []string{"", "1"}[lives] {
				t.Errorf("%s, %s: the topic counts %q", how, state, n)
			}
			if state.Ended() {
				b.wantPlaced(false, m)
			} else if got := b.claim(1); string(got[0].Body) != "body" || len(got[0].Headers) != 1 {
				t.Errorf("%s: claimed %+v", how, got[0])
			}
		}
	}
}

// A look-up returns readable messages beside unreadable ones, even if the certification leaves a doubt.
func TestFind_TellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range garbage(string(make([]byte, 30))) {
		b := openBare(t, srv)
		plain := b.message(nil)
		bad := b.message(func(m *message.Message) { m.ID = "n" })
		other := b.message(func(m *message.Message) { m.ID, m.Topic = "n", "else" })
		b.add(plain, bad, other)
		b.spoil(bad, garbage(b.packed(plain)[:17+1+len(plain.Topic)+2])[i])
		for _, doubt := range []bool{false, true} {
			if doubt {
				f := strings.Fields(b.rdb.Get(t.Context(), b.key("gen")).Val())
				f[2] = "99999999"
				b.must(b.rdb.Set(t.Context(), b.key("gen"), strings.Join(f, " "), 0).Err())
			}
			for ref, want := range map[scheduler.Ref][]message.UID{
				{UID: bad.UID}:                             nil,
				{ID: "n", Topic: "orders"}:                 nil,
				{ID: "n", Topic: "orders", Keyed: true}:    nil,
				{ID: "n"}:                                  {other.UID},
				{ID: "n", Topic: "nothing", Key: "nobody"}: nil,
			} {
				found, err := b.Find(t.Context(), ref)
				if errors.Is(err, scheduler.ErrUnreadable) == (ref.Topic == "nothing") {
					t.Errorf("case %d, in doubt %t, %+v: %v", i, doubt, ref, err)
				}
				if len(found) != len(want) || len(want) > 0 && found[0].UID != want[0] {
					t.Errorf("case %d, in doubt %t, %+v: found %+v", i, doubt, ref, found)
				}
			}
		}
	}
}

// A change of an unreadable message is refused, and changes nothing.
func TestChanges_RefuseWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range garbage(string(make([]byte, 30))) {
		b := openBare(t, srv)
		dead, gone := b.message(nil), b.message(nil)
		b.add(dead, gone)
		b.finish(message.StateDead, b.claim(2)...)
		bad, flies := b.message(nil), b.message(nil)
		b.add(flies, bad)
		flying := b.claim(2)
		packed := garbage(b.packed(bad)[:17+1+len(bad.Topic)+2])[i]
		b.must(b.Return(t.Context(), 0, 1,
			[]scheduler.Back{{UID: bad.UID, Claim: flying[1].Claim, Keep: true}}, 30))
		for _, m := range []*message.Message{bad, gone, flies} {
			b.spoil(m, packed)
		}
		b.must(b.rdb.HSet(t.Context(), b.key("counts"), bad.Topic, "3 2").Err())
		again := b.message(nil)
		for what, call := range map[string]func() error{
			"cancel": func() error { _, err := b.Cancel(t.Context(), scheduler.Ref{UID: bad.UID}, 60); return err },
			"amend": func() error {
				_, err := b.Amend(t.Context(), scheduler.Amend{UID: bad.UID, Version: 1, Due: 1 << 39}, 60)
				return err
			},
			"requeue": func() error { _, err := b.Requeue(t.Context(), gone.UID, 0, again, 60); return err },
		} {
			before := b.rdb.XLen(t.Context(), b.key("outbox")).Val()
			if err := call(); !errors.Is(err, scheduler.ErrUnreadable) || errors.Is(err, scheduler.ErrUnavailable) {
				t.Errorf("%s of %q: %v", what, packed, err)
			}
			if b.packed(bad) != packed || b.packed(gone) != packed ||
				b.rdb.XLen(t.Context(), b.key("outbox")).Val() != before {
				t.Errorf("%s of %q changed something", what, packed)
			}
		}
		b.wantPlaced(true, bad)
		purged, _, err := b.Purge(t.Context(), 0, []message.UID{gone.UID, dead.UID}, 60)
		b.must(err)
		if !slices.Equal(purged, []message.UID{dead.UID}) {
			t.Errorf("%q: purged are %v", packed, purged)
		}
		// One of the two is in flight no more, so that the script counts by topic itself.
		ends := []scheduler.End{{Message: flying[0], State: message.StateDelivered},
			{Message: flying[1], State: message.StateDelivered}}
		b.must(b.Finish(t.Context(), 0, 1, ends, 60))
		if n := b.rdb.HGet(t.Context(), b.key("counts"), bad.Topic).Val(); n != "2 1" {
			t.Errorf("%q: the topic counts %q", packed, n)
		}
	}
}

// A record of a newer tarry is not damage: it is refused by name, and nothing replaces it.
func TestNewer_IsRefusedByNameAndStays(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	dead := b.message(nil)
	b.add(dead)
	b.finish(message.StateDead, b.claim(1)...)
	m := b.message(func(m *message.Message) { m.Due = 1 << 39 })
	b.add(m)
	packed := "\x04" + b.packed(m)[1:]
	b.spoil(m, packed)
	b.spoil(dead, packed)
	for what, call := range map[string]func() error{
		"find":   func() error { _, err := b.Find(t.Context(), scheduler.Ref{UID: m.UID}); return err },
		"cancel": func() error { _, err := b.Cancel(t.Context(), scheduler.Ref{UID: m.UID}, 60); return err },
		"amend": func() error {
			_, err := b.Amend(t.Context(), scheduler.Amend{UID: m.UID, Version: 1, Due: 1 << 38}, 60)
			return err
		},
		"requeue": func() error { _, err := b.Requeue(t.Context(), dead.UID, 0, b.message(nil), 60); return err },
	} {
		if err := call(); !errors.Is(err, scheduler.ErrNewer) || !errors.Is(err, scheduler.ErrUnreadable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for version := range uint64(9) {
		for _, state := range []message.State{message.StateWaiting, message.StateCanceled} {
			known := record.Record{Info: message.Info{Message: *m, State: state, Version: 1 + version}}
			codes, err := b.Restore(t.Context(), 0, []record.Record{known}, 100, 100)
			b.must(err)
			if codes[0] != record.RestoreNewer || b.packed(m) != packed {
				t.Fatalf("%s, version %d: restored with %d", state, 1+version, codes[0])
			}
		}
	}
	b.wantPlaced(true, m)
}

// Damage to a message's topic leaves another topic's count below 0 once the message ends. That must not hide the
// counts of the others.
func TestCounts_ListTopicsBesideACountThatIsWrong(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	bad, good := b.message(nil), b.message(nil)
	b.add(bad, good)
	b.spoil(bad, strings.Replace(b.packed(bad), "orders", "ordeal", 1))
	r, err := b.Cancel(t.Context(), scheduler.Ref{UID: bad.UID}, 20)
	if b.must(err); r.Code != scheduler.CancelDone {
		t.Fatalf("cancel: %+v", r)
	}
	got, err := b.Counts(t.Context(), "", 10)
	b.must(err)
	want := []scheduler.TopicCount{{Topic: "ordeal"}, {Topic: "orders", Waiting: 2}}
	if !slices.Equal(got, want) {
		t.Fatalf("counts are %+v, want %+v", got, want)
	}
}

// The outbox's counters are too low after an entry with a damaged size was written down. The lag is reported all the
// same: restore and verify wait for it.
func TestLags_TellTheLagBesideACounterThatIsWrong(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	b.add(b.message(nil))
	b.add(b.message(nil))
	entries, err := b.Unwritten(t.Context(), 0, "", 0, 10, 1<<20)
	b.must(err)
	entries[0].Size, entries[0].Count = 1<<20, 1<<10
	b.must(b.Written(t.Context(), 0, entries[:1]))
	lags, err := b.Lags(t.Context())
	b.must(err)
	if l := lags[0]; l.Err != nil || l.Entries != 1 || l.Oldest == 0 || l.Changes != 0 || l.Bytes != 0 {
		t.Fatalf("the lag is %+v", l)
	}
}
