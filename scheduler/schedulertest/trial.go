package schedulertest

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// trial is one check on one timeline. Its methods send calls at a time and under a term that the check sets, and fail
// the test if a call fails.
type trial struct {
	*testing.T
	tl   scheduler.Timeline
	o    Options
	now  message.Milli
	term uint64
	n    uint64 // of the last claim
	log  *recordings
}

// wide is the limit of a claim that takes everything.
const wide = 1 << 30

func (t *trial) pass(d time.Duration) { t.now = t.now.Add(d) }

func (t *trial) bucketOf(m *message.Message) message.Bucket { return m.UID.Bucket(t.o.Buckets) }

// must fails the test when a call failed.
func (t *trial) must(step string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", step, err)
	}
}

func (t *trial) add(batch ...*message.Message) []scheduler.AddResult {
	t.Helper()
	results, _ := t.addHead(batch...)
	return results
}

func (t *trial) addHead(batch ...*message.Message) ([]scheduler.AddResult, message.Milli) {
	t.Helper()
	results, earlier, err := t.tl.Add(t.Context(), t.bucketOf(batch[0]), batch, t.now)
	t.must("add", err)
	if len(results) != len(batch) {
		t.Fatalf("add of %d returns %d results", len(batch), len(results))
	}
	return results, headOf(earlier)
}

// headOf returns since when the bucket's order begins earlier, or 0 if it does not.
func headOf(earlier []scheduler.Earlier) message.Milli {
	for _, e := range earlier {
		if e.Topic == "" {
			return e.Due
		}
	}
	return 0
}

// added adds a batch in which every message must be new, and returns it.
func (t *trial) added(batch ...*message.Message) []*message.Message {
	t.Helper()
	for i, r := range t.add(batch...) {
		if r.Code != scheduler.Added {
			t.Fatalf("add of %s: got %s, want added", batch[i].UID, addWord(r.Code))
		}
	}
	return batch
}

// wantAdded adds a batch and compares the outcomes. A message that is not new must be judged by first or by itself.
func (t *trial) wantAdded(batch []*message.Message, first *message.Message, want ...scheduler.AddCode) {
	t.Helper()
	for i, r := range t.add(batch...) {
		if r.Code != want[i] {
			t.Fatalf("message %d: got %s, want %s", i, addWord(r.Code), addWord(want[i]))
		}
		if r.Code != scheduler.Added && r.First.UID != first.UID && r.First.UID != batch[i].UID {
			t.Fatalf("message %d: got %s of %s, want %s", i, addWord(r.Code), r.First.UID, first.UID)
		}
	}
}

// one adds one message that must be new.
func (t *trial) one(m *message.Message) *message.Message {
	t.Helper()
	return t.added(m)[0]
}

// refused adds one message, which must be refused because of the first.
func (t *trial) refused(m *message.Message, code scheduler.AddCode, first *message.Message,
	state message.State) message.Info {
	t.Helper()
	r := t.add(m)[0]
	if r.Code != code || r.First.UID != first.UID || r.First.Due != first.Due || r.First.State != state {
		t.Fatalf("add of %s: got %s of %s, due %d, %s; want %s of %s, due %d, %s", m.UID, addWord(r.Code), r.First.UID,
			r.First.Due, r.First.State,
			addWord(code), first.UID, first.Due, state)
	}
	if f := r.First; f.ID != first.ID || f.Topic != first.Topic || f.Key != first.Key || f.Priority != first.Priority ||
		f.TTL != first.TTL ||
		f.Attempt != first.Attempt || f.Version == 1 && f.Digest != first.Digest {
		t.Fatalf("add of %s: got of the first %+v\nwant %+v", m.UID, f.Message, *first)
	}
	return r.First
}

func (t *trial) claimFrom(bucket message.Bucket, lane message.Lane, limit, bytes int) scheduler.Claimed {
	t.Helper()
	t.n++
	c, err := t.tl.Claim(t.Context(), bucket, scheduler.Claim{Term: t.term, Number: t.n, Now: t.now,
		Limit: limit, Bytes: bytes, Lane: lane})
	t.must("claim", err)
	if len(c.Missing) > 0 {
		t.Fatalf("claim: messages are missing: %v", c.Missing)
	}
	return c
}

// claim takes everything that is due in bucket 0.
func (t *trial) claim() []*message.Message {
	t.Helper()
	return t.claimFrom(0, "", wide, wide).Messages
}

// take adds a message, if it is new, and claims its bucket until it comes.
func (t *trial) take(m *message.Message) *message.Message {
	t.Helper()
	if len(t.find(scheduler.Ref{UID: m.UID})) == 0 {
		t.one(m)
	}
	t.now = max(t.now, m.Due)
	c := t.claimFrom(t.bucketOf(m), "", wide, wide)
	for _, got := range c.Messages {
		if got.UID == m.UID {
			return got
		}
	}
	t.Fatalf("claim did not bring %s", m.UID)
	return nil
}

func (t *trial) finish(state message.State, messages ...*message.Message) {
	t.Helper()
	ends := make([]scheduler.End, len(messages))
	for i, m := range messages {
		ends[i] = scheduler.End{Message: m, State: state, Uncertain: m.Mark.Uncertain,
			Reason: "the test says " + state.String()}
	}
	t.end(t.bucketOf(messages[0]), ends...)
}

// end ends claimed messages of a bucket.
func (t *trial) end(bucket message.Bucket, ends ...scheduler.End) {
	t.Helper()
	err := t.tl.Finish(t.Context(), bucket, t.term, ends, t.now)
	t.must("finish", err)
}

// ended brings a message to an end.
func (t *trial) ended(m *message.Message, state message.State) *message.Message {
	t.Helper()
	if state == message.StateCanceled {
		t.one(m)
		t.canceled(m.UID, scheduler.CancelDone)
		return m
	}
	t.finish(state, t.take(m))
	return m
}

func (t *trial) giveBack(m *message.Message, score int64, mark message.Mark) {
	t.Helper()
	t.back(m, scheduler.Back{Claim: m.Claim, Score: score, Mark: mark})
}

// unsent returns a claimed message that was never handed over.
func (t *trial) unsent(m *message.Message) {
	t.Helper()
	t.back(m, scheduler.Back{Claim: m.Claim, Keep: true})
}

// back returns a message to waiting as b says.
func (t *trial) back(m *message.Message, b scheduler.Back) {
	t.Helper()
	b.UID = m.UID
	t.returned(t.bucketOf(m), b)
}

// returned returns claimed messages of a bucket to waiting.
func (t *trial) returned(bucket message.Bucket, back ...scheduler.Back) {
	t.Helper()
	err := t.tl.Return(t.Context(), bucket, t.term, back, t.now)
	t.must("return", err)
}

func (t *trial) sweep(bucket message.Bucket, limit int) int {
	t.Helper()
	n, err := t.tl.Sweep(t.Context(), bucket, t.term, 0, limit, t.now)
	t.must("sweep", err)
	return n
}

func (t *trial) trim(bucket message.Bucket, limit int) int {
	t.Helper()
	n, err := t.tl.Trim(t.Context(), bucket, t.term, t.now, limit)
	t.must("trim", err)
	return n
}

// wantTrimmed trims a bucket and checks how many ends it forgot.
func (t *trial) wantTrimmed(bucket message.Bucket, limit, want int) {
	t.Helper()
	if n := t.trim(bucket, limit); n != want {
		t.Fatalf("%d ends were forgotten, want %d", n, want)
	}
}

func (t *trial) canceled(uid message.UID, want scheduler.CancelCode) message.Info {
	t.Helper()
	r, err := t.tl.Cancel(t.Context(), scheduler.Ref{UID: uid}, t.now)
	t.must("cancel", err)
	if r.Code != want {
		t.Fatalf("cancel of %s: got %s, want %s", uid, r.Code, want)
	}
	if want != scheduler.CancelUnknown && r.Info.UID != uid {
		t.Fatalf("cancel of %s answers with %s", uid, r.Info.UID)
	}
	return r.Info
}

func (t *trial) bury(ref scheduler.Ref, sequence uint64) []message.UID {
	t.Helper()
	found, err := t.tl.Bury(t.Context(), ref, sequence, t.now)
	t.must("bury", err)
	slices.Sort(found)
	return found
}

func (t *trial) find(ref scheduler.Ref) []message.Info {
	t.Helper()
	found, err := t.tl.Find(t.Context(), ref)
	t.must("find", err)
	sortInfos(found)
	return found
}

// wantFound compares the messages that a reference finds, in any order.
func (t *trial) wantFound(ref scheduler.Ref, want ...message.UID) {
	t.Helper()
	var got []message.UID
	for _, i := range t.find(ref) {
		got = append(got, i.UID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%+v as %+v finds %v, want %v", ref, ref.Viewer, got, want)
	}
}

// get finds the one message with this uid.
func (t *trial) get(uid message.UID) message.Info {
	t.Helper()
	found := t.find(scheduler.Ref{UID: uid})
	if len(found) != 1 {
		t.Fatalf("find of %s: got %d messages, want one", uid, len(found))
	}
	return found[0]
}

func (t *trial) wantState(uid message.UID, want message.State) {
	t.Helper()
	if got := t.get(uid); got.State != want {
		t.Fatalf("%s is %s, want %s", uid, got.State, want)
	}
}

func (t *trial) gone(uid message.UID) {
	t.Helper()
	if found := t.find(scheduler.Ref{UID: uid}); len(found) > 0 {
		t.Fatalf("%s is still there: %s", uid, found[0].State)
	}
}

func (t *trial) heads() []scheduler.Head {
	t.Helper()
	heads, err := t.tl.Heads(t.Context())
	t.must("heads", err)
	if len(heads) != int(t.o.Buckets) {
		t.Fatalf("got %d heads, want %d", len(heads), t.o.Buckets)
	}
	return heads
}

// wantHead compares a bucket's head except for its term.
func (t *trial) wantHead(bucket message.Bucket, want scheduler.Head) {
	t.Helper()
	got := t.heads()[bucket]
	if got.Term = 0; got != want {
		t.Fatalf("the head of bucket %d is %+v, want %+v", bucket, got, want)
	}
}

func (t *trial) lanes(bucket message.Bucket) []message.Lane {
	t.Helper()
	lanes, err := t.tl.Lanes(t.Context(), bucket)
	t.must("lanes", err)
	return namesOf(lanes)
}

func (t *trial) wantLanes(bucket message.Bucket, want ...message.Lane) {
	t.Helper()
	if got := t.lanes(bucket); !slices.Equal(got, want) {
		t.Fatalf("the lanes are %q, want %q", got, want)
	}
}

func (t *trial) held(after message.UID, limit int) (uids []message.UID) {
	t.Helper()
	held, err := t.tl.Held(t.Context(), 0, t.term, after, limit)
	t.must("held", err)
	for _, h := range held {
		uids = append(uids, h.UID)
		if h.Claim == 0 || h.Claim > t.n {
			t.Fatalf("%s is held by claim %d of %d", h.UID, h.Claim, t.n)
		}
	}
	return uids
}

// wantInfo compares everything that a look-up returns.
func (t *trial) wantInfo(want message.Info) {
	t.Helper()
	if got := t.get(want.UID); describe(got) != describe(want) {
		t.Fatalf("find of %s:\n got %s\nwant %s", want.UID, describe(got), describe(want))
	}
}

// wantUIDs compares messages by uid, in order.
func (t *trial) wantUIDs(got, want []*message.Message) {
	t.Helper()
	if g, w := uids(got), uids(want); !slices.Equal(g, w) {
		t.Fatalf("got %v\nwant %v", g, w)
	}
}

// stale checks that a call was refused for its term.
func (t *trial) stale(call string, err error) {
	t.Helper()
	if !errors.Is(err, scheduler.ErrStaleTerm) {
		t.Errorf("%s under a lower term: got %v, want ErrStaleTerm", call, err)
	}
}

func uids(messages []*message.Message) []message.UID {
	list := make([]message.UID, len(messages))
	for i, m := range messages {
		list[i] = m.UID
	}
	return list
}

func sortInfos(infos []message.Info) {
	slices.SortFunc(infos, func(a, b message.Info) int { return cmp.Compare(a.UID, b.UID) })
}

// describe formats everything of an info that the checks compare. An absent body and an empty one are the same.
func describe(i message.Info) string {
	body := i.Body
	if len(body) > 64 {
		body = fmt.Appendf(nil, "%d bytes %08x", len(body), crc32.ChecksumIEEE(body))
	}
	return fmt.Sprintf("%s id=%q key=%q topic=%q headers=%q body=%q due=%d priority=%d ttl=%s attempt=%d digest=%x "+
		"stored=%d merge=%d max wait=%s origin=%q retry=%v pull=%t lease=%s mark=%+v %s expires=%d version=%d ended=%d "+
		"kind=%s other=%q reason=%q",
		i.UID, i.ID, i.Key, i.Topic, i.Headers, body, i.Due, i.Priority, i.TTL, i.Attempt, i.Digest, i.Stored, i.Merge,
		i.MaxWait, i.Origin, i.Retry, i.Pull, i.Lease, i.Mark,
		i.State, i.Expires, i.Version, i.EndedAt, i.Kind, i.Other, i.Reason)
}

// live returns the info of a message that waits or is in flight.
func live(m *message.Message, state message.State, mark message.Mark) message.Info {
	i := message.Info{Message: *m, State: state, Version: 1 + uint64(mark.Changes)}
	i.Stored, i.Since, i.StoredAt, i.Judge, i.Judged, i.Call = 0, 0, 0, false, 0, ""
	i.Merge, i.MaxWait, i.Mark = message.MergeReject, 0, mark
	return i
}

// remains returns the info of an end, of which the timeline keeps a part.
func remains(m *message.Message, state message.State, at message.Milli, uncertain bool,
	reason string) message.Info {
	i := message.Info{Message: *m, State: state, EndedAt: at, Version: m.Version() + 1, Reason: reason}
	i.Headers, i.Body, i.Origin, i.Retry, i.Stored, i.Merge, i.MaxWait = nil, nil, "", message.Retry{}, 0, 0, 0
	i.Since, i.StoredAt, i.Claim, i.ClaimedAt = 0, 0, 0, 0
	i.Mark = message.Mark{Uncertain: uncertain, Refusals: m.Mark.Refusals, Changes: m.Mark.Changes + 1}
	i.Kind, i.Other = kindOf(reason)
	return i
}

var addWords = [...]string{"added", "added as canceled", "duplicate", "conflict", "merged", "uncertain", "unreadable",
	"filling"}

func addWord(c scheduler.AddCode) string {
	if int(c) < len(addWords) {
		return addWords[c]
	}
	return "invalid"
}
