package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const fakeBuckets = 4

// buckets take pushes, but those that are lost.
type buckets struct {
	mu    sync.Mutex
	lost  map[message.Bucket]bool
	tried map[uint64]message.UID // by place in the intake
	wrong []string
	// refuses is a key whose pushes are refused, once their bucket answers.
	refuses string
	taken   map[message.UID]bool
	byKey   map[string][]uint64 // places, in the order in which they were accepted
	// answers are the answers under way. One goroutine gives them in the order of the pushes, as the scheduler does for
	// those of one bucket: what steps aside keeps its order by that.
	answers chan func()
}

func newBuckets(t *testing.T, lost ...message.Bucket) *buckets {
	b := &buckets{lost: map[message.Bucket]bool{}, tried: map[uint64]message.UID{}, taken: map[message.UID]bool{},
		byKey: map[string][]uint64{}, answers: make(chan func(), 10_000)}
	for _, bucket := range lost {
		b.lost[bucket] = true
	}
	go func() {
		for answer := range b.answers {
			answer()
		}
	}()
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.answers)
		b.answers = nil
	})
	return b
}

func (b *buckets) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := scheduler.Accepted{UID: p.UID, ID: p.ID}
	if before, ok := b.tried[p.Stored]; ok && before != p.UID {
		b.wrong = append(b.wrong, fmt.Sprintf("the push at %d is %s and %s", p.Stored, before, p.UID))
	}
	b.tried[p.Stored] = p.UID
	switch bucket := p.UID.Bucket(fakeBuckets); {
	case b.lost[bucket]:
		got.Err = fmt.Errorf("push: %w", &scheduler.BucketError{Bucket: bucket})
	case b.refuses != "" && p.Key == b.refuses:
		got.Err = fmt.Errorf("%w: other content", scheduler.ErrDuplicateID)
	case b.taken[p.UID]:
		got.Duplicate = true
	default:
		b.taken[p.UID] = true
		b.byKey[p.Key] = append(b.byKey[p.Key], p.Stored)
	}
	if b.answers != nil {
		b.answers <- func() { done(got) }
	}
}

func (b *buckets) back() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.lost)
}

// has reports whether so many pushes are accepted.
func (b *buckets) has(want int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.taken) != want {
		return fmt.Errorf("%d pushes are accepted, want %d", len(b.taken), want)
	}
	return nil
}

// inOrder checks that no push passed an older one of its key, and that each kept its uid.
func (b *buckets) inOrder(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		t.Error(wrong)
	}
	for key, places := range b.byKey {
		for i := 1; i < len(places); i++ {
			if key != "" && places[i-1] >= places[i] {
				t.Errorf("of key %s the push at %d came before that at %d", key, places[i-1], places[i])
			}
		}
	}
}

// keyIn is a key whose bucket that is.
func keyIn(bucket message.Bucket, n int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key-", i); message.BucketOf(key, fakeBuckets) == bucket {
			if n--; n < 0 {
				return key
			}
		}
	}
}

// lossy is an intake on a server of its own, and who publishes to it.
type lossy struct {
	*testing.T
	nc *nats.Conn
	js jetstream.JetStream
	to *buckets
}

func newLossy(t *testing.T, lost ...message.Bucket) *lossy {
	t.Helper()
	nc, err := nats.Connect(lab.NewNATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	l := &lossy{T: t, nc: nc, to: newBuckets(t, lost...)}
	if l.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return l
}

// intake makes one that NATS gives few pushes at once.
func (l *lossy) intake() *Intake {
	l.Helper()
	in, err := New(
		Config{Conn: l.nc, Namespace: "ns", Prefix: "delayed", Accept: l.to, Buckets: fakeBuckets,
			Clock: scheduler.NewClock(scheduler.System()), AckWait: 2 * time.Second,
			Log: zerolog.New(zerolog.NewTestWriter(l))})
	if err != nil {
		l.Fatal(err)
	}
	in.ackPending = 20
	return in
}

// run runs an intake until the test ends, or the function is called.
func (l *lossy) run(in *Intake) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.Context()))
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }() // waited for in stop
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				l.Errorf("the intake ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			l.Error("the intake does not end")
		}
	})
	l.Cleanup(stop)
	lab.Eventually(l, 10*time.Second, func() error {
		if !in.Enabled() {
			return errors.New("the intake is not open")
		}
		return nil
	})
	return stop
}

func (l *lossy) publish(key string) {
	l.Helper()
	msg := nats.NewMsg("delayed.orders")
	msg.Header["Tarry-Delay"] = []string{"20m"}
	if key != "" {
		msg.Header["Tarry-Key"] = []string{key}
	}
	msg.Data = []byte("body")
	if _, err := l.js.PublishMsg(l.Context(), msg); err != nil {
		l.Fatal(err)
	}
}

// open waits until the intake has every bucket open and nothing is held anywhere.
func (l *lossy) open(in *Intake) {
	l.Helper()
	lab.Eventually(l, 20*time.Second, func() error {
		held, err := in.Held(l.Context())
		if err == nil && held != (Held{}) {
			err = fmt.Errorf("%+v is held", held)
		}
		if err == nil && in.aside.some.Load() {
			err = errors.New("a bucket is not open")
		}
		return err
	})
}

func TestAside_ALostBucketStopsNoPushOfTheOthers(t *testing.T) {
	t.Parallel()
	for name, instances := range map[string]int{"one instance": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lost, other, few = 2, 1, 25
			l := newLossy(t, lost)
			all := make([]*Intake, instances)
			for i := range all {
				all[i] = l.intake()
				l.run(all[i])
			}
			for i := range 8 * few { // ten times what NATS gives out
				l.publish(keyIn(lost, i%8))
			}
			for i := range 8 * few {
				l.publish(keyIn(other, i%8))
			}
			lab.Eventually(t, 20*time.Second, func() error { return l.to.has(8 * few) })
			lab.Eventually(t, 10*time.Second, func() error {
				held, err := all[0].Held(t.Context())
				if err == nil && held != (Held{Pushes: 8 * few, Aside: 8 * few}) {
					err = fmt.Errorf("held are %+v", held)
				}
				return err
			})
			// More come while it answers again.
			more := make(chan struct{})
			go func() {
				defer close(more)
				for i := range 40 * few {
					l.publish(keyIn(lost, i%8))
				}
			}()
			l.to.back()
			<-more
			lab.Eventually(t, 20*time.Second, func() error { return l.to.has(56 * few) })
			for _, in := range all {
				l.open(in)
			}
			if instances == 1 { // two have no order between them
				l.to.inOrder(t)
			}
			before := len(l.to.tried)
			l.publish(keyIn(lost, 0))
			lab.Eventually(t, 10*time.Second, func() error { return l.to.has(56*few + 1) })
			if before != 56*few {
				t.Errorf("%d places were tried", before)
			}
		})
	}
}

// A push that is refused is recorded in the journal and stored in the stream, whichever way it came.
func TestIntake_KeepsARejectWhicheverWayItCame(t *testing.T) {
	t.Parallel()
	const lost, other message.Bucket = 2, 1
	for name, bucket := range map[string]message.Bucket{"from the intake": other, "put aside first": lost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, lost)
			l.to.refuses = keyIn(bucket, 0)
			in := l.intake()
			recorded := make(chan *scheduler.Rejected, 10)
			in.cfg.Reject = func(_ context.Context, r *scheduler.Rejected) error {
				recorded <- r
				return nil
			}
			l.run(in)
			l.publish(l.to.refuses)
			if bucket == lost {
				lab.Eventually(t, 10*time.Second, func() error {
					if held, err := in.Held(t.Context()); err != nil || held != (Held{Pushes: 1, Aside: 1}) {
						return fmt.Errorf("held are %+v, %v", held, err)
					}
					return nil
				})
				l.to.back()
			}
			lab.Eventually(t, 20*time.Second, func() error {
				s, err := l.js.Stream(t.Context(), link.RejectsName("ns"))
				if err == nil && s.CachedInfo().State.Msgs != 1 {
					err = fmt.Errorf("%d rejects are stored", s.CachedInfo().State.Msgs)
				}
				return err
			})
			if len(recorded) != 1 {
				t.Fatalf("%d rejects are recorded", len(recorded))
			}
			// What stood aside must not wait for a bucket that is away.
			if r := <-recorded; bucket == lost && r.UID.Bucket(fakeBuckets) != lost {
				t.Errorf("it is recorded in bucket %d, and that of its key is %d", r.UID.Bucket(fakeBuckets), lost)
			}
		})
	}
}

func TestAside_OneWithoutKeyGoesByItsPlace(t *testing.T) {
	t.Parallel()
	// All of the first 256 places lie in one bucket.
	uid, err := message.IntakeUID(1, time.Now(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	lost := uid.Bucket(fakeBuckets)
	l := newLossy(t, lost)
	in := l.intake()
	l.run(in)
	for range 60 {
		l.publish("")
	}
	l.publish(keyIn((lost+1)%fakeBuckets, 0))
	lab.Eventually(t, 10*time.Second, func() error { return l.to.has(1) })
	began := time.Now()
	if in.Passed(t.Context()); time.Since(began) < passLimit/2 {
		t.Error("what stands aside counts as passed")
	}
	l.to.back()
	lab.Eventually(t, 20*time.Second, func() error { return l.to.has(61) })
	l.open(in)
	l.to.inOrder(t)
}

func TestAside_OutlivesTheInstanceAtEachStep(t *testing.T) {
	t.Parallel()
	const lost = 2
	l := newLossy(t, lost)
	in := l.intake()
	if err := in.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		l.publish(keyIn(lost, i%3))
	}
	s, err := l.js.Stream(t.Context(), in.stream)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) { // these were put aside, and their acknowledgement was lost
		raw, err := s.GetMsg(t.Context(), i+1)
		if err != nil {
			t.Fatal(err)
		}
		place := link.Place{Sequence: raw.Sequence, At: raw.Time}
		body := encodeAside(&nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}, place)
		if _, err := l.js.Publish(t.Context(), in.aside.subject(lost), body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.js.Publish(t.Context(), in.aside.subject(lost), []byte("nobody's")); err != nil {
		t.Fatal(err)
	}
	stop := l.run(in)
	lab.Eventually(t, 10*time.Second, func() error {
		held, err := in.Held(t.Context())
		if err == nil && held != (Held{Pushes: 41, Aside: 41}) { // ten stand there twice, under two ids
			err = fmt.Errorf("held are %+v", held)
		}
		return err
	})
	stop()
	l.to.back()
	again := l.intake()
	l.run(again)
	for i := range 30 {
		l.publish(keyIn(lost, i%3))
	}
	lab.Eventually(t, 20*time.Second, func() error { return l.to.has(60) })
	l.open(again)
	l.to.inOrder(t)
}

func TestAside_IsCarriedToAnotherServer(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	msg := &nats.Msg{Subject: "delayed.orders", Header: nats.Header{"Tarry-Delay": {"20m"}, "Tarry-Id": {"order-1"}},
		Data: []byte("body")}
	body := encodeAside(msg, link.Place{Sequence: 7, At: at})
	if _, err := m.source.Publish(t.Context(), AsideSubject("moved")+".3", body); err != nil {
		t.Fatal(err)
	}
	if left, err := Leftover(t.Context(), m.from, "moved"); err != nil || left.Intake != 1 {
		t.Errorf("left are %+v, %v", left, err)
	}
	done, err := Carry(t.Context(), m.cfg)
	if err != nil || done != (Carried{Pushes: 1}) {
		t.Fatalf("carried %+v, %v", done, err)
	}
	got := m.stored(m.into, link.StreamName("moved"))["delayed.orders"]
	due := fmt.Sprint(at.Add(20 * time.Minute).UnixMilli())
	if got == nil || string(got.Data) != "body" || got.Header.Get("Tarry-Id") != "order-1" ||
		got.Header.Get("Tarry-At") != due {
		t.Errorf("got %+v, want one due at %s", got, due)
	}
	if left, err := Leftover(t.Context(), m.from, "moved"); err != nil || left != (Left{}) {
		t.Errorf("left are %+v, %v", left, err)
	}
}

// With another number of buckets each push stands under the subject of its new bucket, those of a name in their order,
// also when the change breaks off and ends with another number.
func TestAside_ChangesTheNumberOfBuckets(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	const many = 40
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	for i := range many {
		msg := &nats.Msg{Subject: "delayed.orders", Header: nats.Header{"Tarry-Delay": {"20m"}, "Tarry-Key": {keyIn(1, i%4)}}}
		body := encodeAside(msg, link.Place{Sequence: uint64(i + 1), At: at})
		if _, err := m.source.Publish(t.Context(), AsideSubject("moved")+".1", body); err != nil {
			t.Fatal(err)
		}
	}
	garbage := AsideSubject("moved") + ".3"
	if _, err := m.source.Publish(t.Context(), garbage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, n := range []message.Bucket{16, 1, 7, 16, 4} {
		if n == 7 { // it breaks off
			ctx, cancel := context.WithCancel(t.Context())
			sub, err := m.from.Subscribe(asideSubject("moved", message.BucketOf(keyIn(1, 0), 7)), func(*nats.Msg) { cancel() })
			if err != nil {
				t.Fatal(err)
			}
			if err := Rebucket(ctx, m.from, "moved", "delayed", n); !errors.Is(err, context.Canceled) {
				t.Fatalf("broken off: %v", err)
			}
			_ = sub.Unsubscribe()
			continue
		}
		if err := Rebucket(t.Context(), m.from, "moved", "delayed", n); err != nil {
			t.Fatal(err)
		}
		last, found := map[string]uint64{}, map[uint64]bool{}
		err := drain(t.Context(), m.source, AsideName("moved"), func(raw *jetstream.RawStreamMsg) error {
			msg, place, err := decodeAside(raw.Data)
			if err != nil {
				if raw.Subject != garbage {
					t.Errorf("what is no push is at %s", raw.Subject)
				}
				return errStays
			}
			key := msg.Header.Get("Tarry-Key")
			if want := asideSubject("moved", message.BucketOf(key, n)); raw.Subject != want {
				t.Errorf("%d buckets: %s is at %s, want %s", n, key, raw.Subject, want)
			}
			if place.Sequence < last[key] {
				t.Errorf("%d buckets: of %s, %d comes after %d", n, key, place.Sequence, last[key])
			}
			last[key], found[place.Sequence] = place.Sequence, true
			return errStays
		})
		if err != nil || len(found) != many {
			t.Errorf("%d buckets: %d pushes, %v", n, len(found), err)
		}
	}
}

func TestAside_KeepsAPushAsItWas(t *testing.T) {
	t.Parallel()
	want := &nats.Msg{Subject: "delayed.orders", Data: []byte{0, 1, 0xff}, Header: nats.Header{
		"Tarry-Id": {"a"}, "x": {"1", "", "\xff"}, "Nats-Expected-Last-Sequence": {"3"}, "Status": {"100"}}}
	place := link.Place{Sequence: 1<<40 + 3, At: time.Unix(0, -5)}
	packed := encodeAside(want, place)
	got, at, err := decodeAside(packed)
	if err != nil || !reflect.DeepEqual(got, want) || at.Sequence != place.Sequence || !at.At.Equal(place.At) {
		t.Errorf("got %+v at %+v, %v", got, at, err)
	}
	for n := range len(packed) - len(want.Data) {
		if _, _, err := decodeAside(packed[:n]); !errors.Is(err, errNotAside) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func FuzzDecodeAside(f *testing.F) {
	f.Add([]byte{})
	msg := &nats.Msg{Subject: "delayed.orders", Header: nats.Header{"Tarry-Id": {"a"}}, Data: []byte("body")}
	f.Add(encodeAside(msg, link.Place{Sequence: 3, At: time.Unix(5, 7)}))
	f.Add([]byte{asideForm, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		msg, place, err := decodeAside(b)
		if err != nil {
			return
		}
		again, same, err := decodeAside(encodeAside(msg, place))
		if err != nil || again.Subject != msg.Subject || !bytes.Equal(again.Data, msg.Data) ||
			!reflect.DeepEqual(again.Header, msg.Header) || same != place {
			t.Errorf("%+v at %+v became %+v at %+v, %v", msg, place, again, same, err)
		}
	})
}
