package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
)

// aside keeps pushes whose bucket does not answer out of the way of the others. In
// the intake they would stay pending, and NATS gives out no more than a number of
// those: a lost bucket would stop all. They go, whole and with their place in the
// intake, to a stream of their own, on a subject for each bucket, and only then are
// acknowledged. Each instance has one picture of every bucket:
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
// So no push of a bucket passes an older one of this instance. Between instances
// there is no such order in the intake either.
//
// A push has its uid from its place, which it keeps: put aside twice, or accepted
// both from here and from the intake, it is one message. For that reason every
// instance may read the same pushes at once, and nothing is lost when one dies
// between any two steps. Each reads from the first, in order, and removes what it
// read only when all of it is accepted.
//
// The stream trusts its publishers: a push there names its own place. NATS
// permissions keep everybody but the instances from it (deploy/README.md). A message
// that does not have the form of a push put aside is dropped, and logged.
type aside struct {
	in      *Intake
	stream  string
	buckets int // 0: pushes never step aside

	some atomic.Bool // whether any bucket is not open: where all are, nothing else is looked at
	wake chan struct{}
	kick chan struct{}

	mu    sync.Mutex
	by    map[int]*sidetrack // those that are not open
	queue []stepping
}

// sidetrack is a bucket that is not open.
type sidetrack struct {
	closing bool
	since   time.Time // it is closing
	under   int       // pushes on their way to the stream
	held    []stepping
	bytes   int  // of those
	served  bool // by a goroutine
}

// stepping is a push that is put aside, or held.
type stepping struct {
	rejected
	bucket int
}

const (
	asidePrefix  = "TARRY_ASIDE_"
	asideBatch   = 500 // put aside before the first answer is waited for
	asideTimeout = 2 * time.Second
	asideLook    = time.Second // from one look at the stream to the next
	asideHeld    = 4           // this part of what may be in flight may be held
)

// AsideName is the stream of pushes of a namespace whose bucket does not answer.
func AsideName(namespace string) string { return asidePrefix + namespace }

// AsideSubject is the part that their subjects begin with; the bucket follows.
func AsideSubject(namespace string) string { return "tarry." + namespace + ".aside" }

func newAside(in *Intake) *aside {
	return &aside{
		in: in, stream: AsideName(in.cfg.Namespace), buckets: in.cfg.Buckets,
		wake: make(chan struct{}, 1), kick: make(chan struct{}, 1), by: map[int]*sidetrack{},
	}
}

func (a *aside) subject(bucket int) string {
	return AsideSubject(a.in.cfg.Namespace) + "." + strconv.Itoa(bucket)
}

// takes takes a push whose bucket is not open.
func (a *aside) takes(p *scheduler.Push, r rejected) bool {
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
	if len(t.held) > a.in.cfg.InFlight/asideHeld || int64(t.bytes) > a.in.cfg.InFlightBytes/asideHeld {
		a.backLocked(t)
	}
	return true
}

// failed takes a push that its bucket did not answer for, and false where pushes
// never step aside.
func (a *aside) failed(r rejected) bool {
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
		signal(a.kick)
	}
	a.putLocked(t, stepping{r, away.Bucket}) // before what is held: it is older
	if t.closing {
		a.backLocked(t)
	}
	return true
}

func (a *aside) putLocked(t *sidetrack, s stepping) {
	t.under++
	a.queue = append(a.queue, s)
	signal(a.wake)
}

// backLocked has newer pushes step aside again, the held ones first.
func (a *aside) backLocked(t *sidetrack) {
	t.closing = false
	for _, s := range t.held {
		a.putLocked(t, s)
	}
	t.held, t.bytes = nil, 0
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// run puts pushes aside until ctx ends, in the order in which they came.
func (a *aside) run(ctx context.Context) error {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil
		}
		for batch := a.next(); len(batch) > 0; batch = a.next() {
			a.put(ctx, batch)
		}
	}
}

func (a *aside) next() []stepping {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.queue), asideBatch)
	batch := a.queue[:n:n]
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil
	}
	return batch
}

// put stores pushes in the stream and acknowledges each. One that it does not take,
// because it is full or away, stays in the intake for a while.
func (a *aside) put(ctx context.Context, batch []stepping) {
	ctx, stop := context.WithTimeout(ctx, asideTimeout)
	defer stop()
	in, answers, errs := a.in, make([]jetstream.PubAckFuture, len(batch)), make([]error, len(batch))
	for i, s := range batch {
		answers[i], errs[i] = in.js.PublishAsync(a.subject(s.bucket), encodeAside(s.msg, s.place),
			jetstream.WithMsgID(rejectID(in.stream, s.place)))
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
			in.later(s.msg, s.size, fmt.Errorf("put a push of bucket %d aside: %w", s.bucket, err))
		} else {
			in.metrics.aside.Inc()
			in.acks.put(ack{reply: s.msg.Reply, done: true, size: s.size})
		}
	}
	a.mu.Lock()
	for _, s := range batch {
		if t := a.by[s.bucket]; t != nil {
			t.under--
		}
	}
	a.mu.Unlock()
	if absent { // somebody deleted it
		_ = in.ensure(ctx, in.wantedAside()) // it is tried again with the next ones
	}
}

// serve looks for what stands aside and has it accepted, bucket by bucket, until
// ctx ends. What is held then goes back to NATS.
func (a *aside) serve(ctx context.Context) error {
	var group errgroup.Group
	tick := time.NewTicker(asideLook)
	defer tick.Stop()
	for ctx.Err() == nil {
		_ = a.look(ctx) // what it does not see now the next one does
		for _, bucket := range a.unserved() {
			group.Go(func() error {
				a.drain(ctx, bucket)
				return nil
			})
		}
		select {
		case <-tick.C:
		case <-a.kick:
		case <-ctx.Done():
		}
	}
	_ = group.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.by {
		for _, s := range t.held {
			a.in.acks.put(ack{reply: s.msg.Reply, size: s.size})
		}
		t.held, t.bytes = nil, 0
	}
	return nil
}

// look finds buckets that have pushes aside, put there by another instance or before
// this one started.
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
	if err := apiAsk(ctx, a.in.nc, apiStreamInfo+a.stream, ask, &info); err != nil {
		return fmt.Errorf("look what stands aside: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for subject := range info.State.Subjects {
		bucket, err := strconv.Atoi(subject[strings.LastIndexByte(subject, '.')+1:])
		if err == nil && bucket >= 0 && a.subject(bucket) == subject && a.by[bucket] == nil {
			a.by[bucket] = &sidetrack{closing: true, since: time.Now()}
			a.some.Store(true)
			signal(a.kick)
		}
	}
	return nil
}

// unserved returns the buckets that have no server yet, and marks them as served.
func (a *aside) unserved() (buckets []int) {
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
