package intake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// aside keeps pushes whose bucket does not answer out of the way of the others. In the intake they would stay pending,
// and NATS limits the number of pending messages: a lost bucket would stop all buckets. aside therefore moves them,
// whole and with their place in the intake, to a separate stream with a subject for each bucket, and acknowledges them
// only then. Each instance keeps one state for every bucket:
//
//	      a push fails                     the last batch is at hand
//	open ──────────────▶ aside ──────────────────────────────────────▶ closing
//	  │                  ▲ newer pushes step aside too      │  │  newer pushes are held
//	  │                  └──────────────────────────────────┘  │
//	  │                    it fails again, or too many are held │
//	  ├──────────── the stream holds some of this bucket ──────▶│
//	  ◀─────────────────────────────────────────────────────────┘
//	          all are accepted: the held ones follow, in order
//
// No push of a bucket overtakes an older one of this instance. Between instances there is no order in the intake
// either.
//
// The uid of a push is derived from its place, which it keeps: put aside twice, or accepted both from here and from the
// intake, it is one message. Therefore several instances may read the same pushes at the same time, and nothing is lost
// when one dies between any two steps. Each instance reads from the first push, in order, and removes the pushes it
// read only when all of them are accepted.
//
// The stream trusts its publishers: a push there names its own place. NATS permissions allow only the instances to
// publish there (docs/access.md). A message that does not have the form of a push put aside is logged and dropped.
type aside struct {
	in      *Intake
	stream  string
	buckets message.Bucket // 0: pushes never step aside

	some atomic.Bool // whether any bucket is not open, checked first
	kick chan struct{}
	out  *link.Queue[stepping] // on their way to the stream

	mu sync.Mutex
	by map[message.Bucket]*sidetrack // the buckets that are not open
}

// sidetrack is a bucket that is not open.
type sidetrack struct {
	closing bool
	since   time.Time // when closing began
	under   int       // pushes on their way to the stream
	held    []stepping
	bytes   int  // the size of the held pushes
	served  bool // a goroutine drains it
}

// stepping is a push to put aside, or held.
type stepping struct {
	arrival
	bucket message.Bucket
}

const (
	asidePrefix  = "TARRY_ASIDE_"
	asideBatch   = 500 // published before waiting for the first answer
	asideTimeout = 2 * time.Second
	asideLook    = time.Second // between two looks at the stream
	asideHeld    = 4           // the divisor of the in-flight limit that bounds held pushes
)

// AsideName returns the name of a namespace's stream of pushes whose bucket does not answer.
func AsideName(namespace string) string { return asidePrefix + namespace }

// AsideSubject returns the start of the subjects of pushes put aside; the bucket follows.
func AsideSubject(namespace string) string { return "tarry." + namespace + ".aside" }

func newAside(in *Intake) *aside {
	return &aside{
		in: in, stream: AsideName(in.cfg.Namespace), buckets: in.cfg.Buckets,
		kick: make(chan struct{}, 1), out: link.NewQueue[stepping](1), by: map[message.Bucket]*sidetrack{},
	}
}

func (a *aside) subject(bucket message.Bucket) string {
	return asideSubject(a.in.cfg.Namespace, bucket)
}

func asideSubject(namespace string, bucket message.Bucket) string {
	return AsideSubject(namespace) + "." + strconv.Itoa(int(bucket))
}

// takes takes over a push whose bucket is not open, and reports whether it did.
func (a *aside) takes(p *scheduler.Push, r arrival) bool {
	if !a.some.Load() {
		return false
	}
	s := stepping{r, p.UID.Bucket(a.buckets)}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.by[s.bucket]
	if t == nil {
		return false
	}
	if !t.closing {
		a.putLocked(t, s)
		return true
	}
	t.held = append(t.held, s)
	t.bytes += s.size
	if len(t.held) > inFlight/asideHeld || t.bytes > inFlightBytes/asideHeld {
		a.backLocked(t)
	}
	return true
}

// failed takes over a push whose bucket did not answer. It returns false if pushes never step aside.
func (a *aside) failed(r arrival) bool {
	away := (*scheduler.BucketError)(nil)
	if a.buckets == 0 || !errors.As(r.err, &away) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.by[away.Bucket]
	if t == nil {
		t = &sidetrack{}
		a.by[away.Bucket] = t
		a.some.Store(true)
		scheduler.Signal(a.kick)
	}
	a.putLocked(t, stepping{r, away.Bucket}) // ahead of the held pushes, which are newer
	if t.closing {
		a.backLocked(t)
	}
	return true
}

func (a *aside) putLocked(t *sidetrack, s stepping) {
	t.under++
	a.out.Put(s)
}

// backLocked makes newer pushes step aside again, after the held ones.
func (a *aside) backLocked(t *sidetrack) {
	t.closing = false
	for _, s := range t.held {
		a.putLocked(t, s)
	}
	t.held, t.bytes = nil, 0
}

// run puts pushes aside until ctx ends, in the order in which they arrived.
func (a *aside) run(ctx context.Context) {
	a.out.Run(ctx, asideBatch, func(batch []stepping) { a.put(ctx, batch) })
}

// put stores pushes in the stream and acknowledges each. A push that the stream does not accept, because it is full or
// unreachable, stays in the intake for a while.
func (a *aside) put(ctx context.Context, batch []stepping) {
	ctx, stop := context.WithTimeout(ctx, asideTimeout)
	defer stop()
	in, answers, errs := a.in, make([]jetstream.PubAckFuture, len(batch)), make([]error, len(batch))
	for i, s := range batch {
		answers[i], errs[i] = in.js.PublishAsync(a.subject(s.bucket), encodeAside(s.msg, s.place),
			jetstream.WithMsgID(link.PlaceID(in.stream, s.place)))
	}
	absent := false
	for i, s := range batch {
		if errs[i] == nil {
			select {
			case <-answers[i].Ok():
			case errs[i] = <-answers[i].Err():
			case <-ctx.Done():
				errs[i] = context.Cause(ctx)
			}
		}
		if err := errs[i]; err != nil {
			absent = absent || errors.Is(err, jetstream.ErrNoStreamResponse)
			in.later(s.arrival, fmt.Errorf("put a push of bucket %d aside: %w", s.bucket, err))
		} else {
			in.metrics.aside.Inc()
			in.acks.Put(ack{reply: s.msg.Reply, done: true, size: s.size})
		}
	}
	a.mu.Lock()
	for _, s := range batch {
		if t := a.by[s.bucket]; t != nil {
			t.under--
		}
	}
	a.mu.Unlock()
	if absent { // the stream was deleted
		_ = in.ensure(ctx, in.wantedAside()) // the next batch tries again
	}
}

// serve looks for pushes put aside and has them accepted, bucket by bucket, until ctx ends. Pushes still held then go
// back to NATS.
func (a *aside) serve(ctx context.Context) error {
	var group errgroup.Group
	tick := time.Tick(asideLook)
	for ctx.Err() == nil {
		_ = a.look(ctx) // the next look finds what this one missed
		for _, bucket := range a.unserved() {
			group.Go(func() error {
				a.drain(ctx, bucket)
				return nil
			})
		}
		select {
		case <-tick:
		case <-a.kick:
		case <-ctx.Done():
		}
	}
	_ = group.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.by {
		for _, s := range t.held {
			a.in.acks.Put(ack{reply: s.msg.Reply, size: s.size})
		}
		t.held, t.bytes = nil, 0
	}
	return nil
}

// look finds buckets that have pushes aside, put there by another instance or before this one started.
func (a *aside) look(ctx context.Context) error {
	if a.buckets == 0 || !a.in.Enabled() || !a.in.nc.IsConnected() {
		return nil
	}
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	ask := map[string]string{"subjects_filter": AsideSubject(a.in.cfg.Namespace) + ".*"}
	if err := link.AskBriefly(ctx, a.in.nc, link.APIStreamInfo+a.stream, ask, &info); err != nil {
		return fmt.Errorf("look for pushes put aside: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for subject := range info.State.Subjects {
		n, err := strconv.Atoi(subject[strings.LastIndexByte(subject, '.')+1:])
		if bucket := message.Bucket(n); err == nil && n >= 0 && a.subject(bucket) == subject && a.by[bucket] == nil {
			a.by[bucket] = &sidetrack{closing: true, since: time.Now()}
			a.some.Store(true)
			scheduler.Signal(a.kick)
		}
	}
	return nil
}

// unserved returns the buckets that are not being drained yet, and marks them as served.
func (a *aside) unserved() (buckets []message.Bucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for bucket, t := range a.by {
		if !t.served {
			t.served = true
			buckets = append(buckets, bucket)
		}
	}
	return buckets
}

// errNotAside reports that a message in the stream is no push that was put aside.
var errNotAside = errors.New("it is not a push that an instance put aside")

// asideForm is the first byte of an encoded push; it distinguishes this format from later ones.
const asideForm = 1

// encodeAside packs a push and its place in the intake into one body. Its headers are packed too, because headers of
// the published message would act on this stream: a Nats-Expected-Last-Sequence that held in the intake would make it
// refuse the push.
//
//	form, sequence, nanoseconds, subject, number of header values, then name and value of each, body
//
// Texts are preceded by their length; numbers are varints.
func encodeAside(msg *nats.Msg, place link.Place) []byte {
	b := make([]byte, 0, len(msg.Data)+len(msg.Subject)+256)
	b = binary.AppendUvarint(append(b, asideForm), place.Sequence)
	b = binary.AppendVarint(b, place.At.UnixNano())
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(msg.Subject)
	n := 0
	for _, values := range msg.Header {
		n += len(values)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for name, values := range msg.Header {
		for _, v := range values {
			text(name)
			text(v)
		}
	}
	return append(b, msg.Data...)
}

// decodeAside is the inverse of encodeAside.
func decodeAside(b []byte) (msg *nats.Msg, place link.Place, err error) {
	if len(b) == 0 || b[0] != asideForm {
		return nil, link.Place{}, errNotAside
	}
	b = b[1:]
	good := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			good = false
			return 0
		}
		b = b[n:]
		return v
	}
	text := func() string {
		n := number()
		if !good || n > uint64(len(b)) {
			good = false
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	place.Sequence = number()
	nanos, n := binary.Varint(b)
	if n <= 0 {
		return nil, link.Place{}, errNotAside
	}
	b = b[n:]
	place.At = time.Unix(0, nanos)
	msg = nats.NewMsg(text())
	for left := number(); good && left > 0; left-- {
		name, value := text(), text()
		msg.Header[name] = append(msg.Header[name], value)
	}
	if !good || place.Sequence == 0 {
		return nil, link.Place{}, errNotAside
	}
	msg.Data = slices.Clone(b)
	return msg, place, nil
}
