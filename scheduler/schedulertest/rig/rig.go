// Package rig is a scheduler and a leader over store/memory and a publisher that answers as a test sets it.
package rig

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/memory"
)

// NATS is a publisher that answers as a test sets it.
type NATS struct {
	Mu     sync.Mutex
	Down   bool
	Answer func(m *message.Message, nth int) scheduler.Outcome // nil: delivered
	LaneOf func(m *message.Message) message.Lane               // nil: core, by topic
	Takes  func(m *message.Message) time.Duration              // until it answers; nil: it answers at once
	Hands  func()                                              // runs before each message is handed over
	Tries  map[message.UID]int
	Got    []Arrival
}

// Arrival is a message that the publisher took, and when.
type Arrival struct {
	M  *message.Message
	At time.Time
}

func (n *NATS) Ready() bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return !n.Down
}

func (n *NATS) Lane(m *message.Message) message.Lane {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.LaneOf != nil {
		return n.LaneOf(m)
	}
	return message.LaneCore.Lane(m.Topic)
}

func (n *NATS) Send(_ context.Context, batch []*message.Message, done func(*message.Message, scheduler.Outcome)) {
	for _, m := range batch {
		if n.Hands != nil {
			n.Hands()
		}
		n.Mu.Lock()
		n.Tries[m.UID]++
		var o scheduler.Outcome
		var takes time.Duration
		if n.Answer != nil {
			o = n.Answer(m, n.Tries[m.UID])
		}
		if o.Kind == scheduler.Delivered || o.Kind == scheduler.Unknown {
			n.Got = append(n.Got, Arrival{m, time.Now()})
		}
		if n.Takes != nil {
			takes = n.Takes(m)
		}
		n.Mu.Unlock()
		if takes > 0 {
			time.AfterFunc(takes, func() { done(m, o) })
			continue
		}
		done(m, o)
	}
}

func (n *NATS) Arrived() []Arrival {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return append([]Arrival(nil), n.Got...)
}

// NewShaky is New over a wrapped store, on the real clock.
func NewShaky(t *testing.T, buckets message.Bucket, store *Shaky) *Rig {
	t.Helper()
	return New(t, buckets, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
}

// Rig is a scheduler over store/memory and a publisher under test.
type Rig struct {
	T     *testing.T
	Nats  *NATS
	Store scheduler.Timeline
	Clock *scheduler.Clock
	S     *Instance

	settings *scheduler.Topics
	Metrics  *prometheus.Registry // of the scheduler that was made last
	Log      zerolog.Logger       // of a scheduler that is made from now on
	DeadKeep time.Duration
	Window   int                         // likewise: how many messages may be in flight; 0 for 4,096
	Journal  scheduler.Journal           // of a scheduler that is made from now on; nil for none
	Names    time.Duration               // likewise: how long that is asked about names
	Sure     bool                        // likewise: whether a push needs its answer
	Backlog  uint64                      // the last sequence of the intake
	Passed   func() scheduler.Passage    // what waiting for the intake comes to; nil where there is none
	Intake   func(context.Context) error // whether its consumer answers; nil where there is none
	Ask      func(context.Context) error // likewise: how it asks the leader to read the pauses
	// whole is likewise what a bucket waits for before it is scanned.
	Whole func(ctx context.Context, term uint64, bucket message.Bucket) error

	halts []func() // of what serves
}

type Slot struct{}

func (Slot) ID() (int, bool) { return 1, true }

func New(t *testing.T, buckets message.Bucket, wrap func(scheduler.Timeline) scheduler.Timeline) *Rig {
	t.Helper()
	if time.Now().Before(message.Epoch) {
		time.Sleep(time.Until(message.Epoch.AddDate(1, 10, 20))) // a bubble starts in 2000, before the uids' epoch
	}
	store, err := memory.New(memory.Config{Buckets: buckets})
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{T: t, Nats: &NATS{Tries: map[message.UID]int{}}, Store: store,
		Clock: scheduler.NewClock(scheduler.System()), settings: &scheduler.Topics{}}
	if wrap != nil {
		r.Store = wrap(store)
	}
	r.S = r.Scheduler()
	r.Serve(r.S)
	return r
}

// Serve lets a scheduler serve until the test ends, or until Halt.
func (r *Rig) Serve(s *Instance) {
	t := r.T
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	halt := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(halt)
	r.halts = append(r.halts, halt)
}

// Halt lets no scheduler serve any more. A bubble in which one looks every second takes 15 s of a processor for a day.
func (r *Rig) Halt() {
	for _, halt := range r.halts {
		halt()
	}
	r.halts = nil
}

// Instance is what one instance has of a scheduler: what any instance does, and what the leader alone does.
type Instance struct {
	*steer.Scheduler
	*lead.Leader
	deadKeep time.Duration
}

// Get adds, as an instance does, why the message waits.
func (i *Instance) Get(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	info, err := i.Scheduler.Get(ctx, ref)
	if err == nil {
		i.Explain(ctx, &info, i.Why, func(context.Context) error { return nil })
	}
	return info, err
}

// Run leads as an instance does, which also purges what died long ago.
func (i *Instance) Run(ctx context.Context, term uint64, lease func() time.Duration) error {
	beside, stop := context.WithCancel(ctx)
	var purging sync.WaitGroup
	if i.deadKeep > 0 {
		purging.Go(func() { i.PurgeOld(beside) })
	}
	defer purging.Wait()
	defer stop()
	return i.Leader.Run(ctx, term, lease)
}

func (r *Rig) Scheduler() *Instance { return r.Over(r.Store, r.Nats) }

// Over makes an instance over another store or publisher.
func (r *Rig) Over(store scheduler.Timeline, publisher scheduler.Publisher) *Instance {
	r.T.Helper()
	r.Metrics = prometheus.NewRegistry()
	var s *steer.Scheduler
	l, err := lead.New(lead.Config{
		Timeline: store, Publisher: publisher, Clock: r.Clock, Topics: r.settings, Journal: r.Journal,
		Intake: r.Intake, EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20,
		Pending: cmp.Or(r.Window, 4096), Attempts: 3,
		CallTimeout: time.Second, StopTimeout: 5 * time.Second, Whole: r.Whole, Log: r.Log, Registerer: r.Metrics,
		Hasten: func(bucket message.Bucket, earlier []scheduler.Earlier) { s.Hasten(bucket, earlier) },
	})
	if err != nil {
		r.T.Fatal(err)
	}
	s, err = steer.New(scheduler.Config{
		Timeline: store, IDs: scheduler.NewIDs(Slot{}, time.Now), Clock: r.Clock,
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute,
		Log: r.Log, CallTimeout: time.Second, StopTimeout: 5 * time.Second, Topics: r.settings, DeadKeep: r.DeadKeep,
		Journal: r.Journal, NamesKeep: r.Names, NamesSure: r.Sure, Registerer: r.Metrics,
		Announce: func(bucket message.Bucket, due message.Milli) { l.Nudge(bucket, due) },
		AskPauses: func(ctx context.Context) error {
			if leads, err := l.ReadPauses(ctx); leads {
				return err
			}
			if r.Ask == nil {
				return errors.New("nobody to ask")
			}
			return r.Ask(ctx)
		},
		Backlog: func(context.Context) (uint64, time.Time, error) { return r.Backlog, time.Time{}, nil },
		Passed: func(context.Context) scheduler.Passage {
			if r.Passed == nil {
				return scheduler.PassedNothing
			}
			return r.Passed()
		},
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return &Instance{Scheduler: s, Leader: l, deadKeep: r.DeadKeep}
}

// Lead starts a leadership; the returned function ends it and gives Run's error.
func (r *Rig) Lead(s *Instance, term uint64) (stop func(cause error) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, term, func() time.Duration { return time.Hour }) }()
	return func(cause error) error {
		cancel(cause)
		return <-done
	}
}

func (r *Rig) Push(p scheduler.Push) scheduler.Accepted {
	r.T.Helper()
	if p.Topic == "" {
		p.Topic = "orders"
	}
	a := r.S.AcceptAll(context.Background(), []*scheduler.Push{&p})[0]
	if a.Err != nil {
		r.T.Fatalf("push: %v", a.Err)
	}
	return a
}

func (r *Rig) Info(uid message.UID) message.Info {
	r.T.Helper()
	info, err := r.S.Get(context.Background(), scheduler.Ref{UID: uid})
	if err != nil {
		r.T.Fatalf("get %s: %v", uid, err)
	}
	return info
}

var ErrStop = errors.New("stop")

// Shaky fails some adds: before they happen, or after.
type Shaky struct {
	scheduler.Timeline
	mu    sync.Mutex
	Fail  []error // one an add, nil lets it through
	After bool    // the add happens, its reply is lost
	Calls int
	Sizes []int
	Hold  chan struct{} // adds wait for it
}

func (s *Shaky) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	if s.Hold != nil {
		<-s.Hold
	}
	s.mu.Lock()
	s.Calls++
	s.Sizes = append(s.Sizes, len(batch))
	var err error
	if len(s.Fail) > 0 {
		err, s.Fail = s.Fail[0], s.Fail[1:]
	}
	s.mu.Unlock()
	if err != nil && !s.After {
		return nil, nil, err
	}
	results, earlier, addErr := s.Timeline.Add(ctx, bucket, batch, now)
	if err != nil {
		return nil, nil, err
	}
	return results, earlier, addErr
}

// Recorded keeps the changes that a store is given: what a journal would hold.
type Recorded struct {
	scheduler.Timeline
	mu      sync.Mutex
	changes map[message.UID][]record.Change
	Ended   map[message.UID]message.Message // as they were stored
}

func (s *Recorded) keep(c record.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		s.changes = map[message.UID][]record.Change{}
	}
	s.changes[c.UID] = append(s.changes[c.UID], c)
}

func (s *Recorded) Of(uid message.UID) []record.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]record.Change(nil), s.changes[uid]...)
}

func (s *Recorded) Finish(ctx context.Context, bucket message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) error {
	err := s.Timeline.Finish(ctx, bucket, term, ends, now)
	for i := range ends {
		if err == nil {
			s.keep(record.Ended(&ends[i]))
			s.mu.Lock()
			if s.Ended == nil {
				s.Ended = map[message.UID]message.Message{}
			}
			s.Ended[ends[i].Message.UID] = *ends[i].Message
			s.mu.Unlock()
		}
	}
	return err
}

func (s *Recorded) Return(ctx context.Context, bucket message.Bucket, term uint64, back []scheduler.Back,
	now message.Milli) error {
	err := s.Timeline.Return(ctx, bucket, term, back, now)
	for i := range back {
		if err == nil && back[i].Message != nil {
			s.keep(record.Returned(&back[i]))
		}
	}
	return err
}

// KeptJournal keeps everything, while it is there.
type KeptJournal struct {
	Away    atomic.Bool
	Refused []scheduler.Rejected // pushes that were rejected, the latest first
}

func (j *KeptJournal) Ready() error {
	if j.Away.Load() {
		return scheduler.ErrUnavailable
	}
	return nil
}

func (*KeptJournal) Await(_ context.Context, changes []scheduler.Recorded, held func(int, bool)) error {
	for i := range changes {
		held(i, false)
	}
	return nil
}

func (*KeptJournal) Find(context.Context, scheduler.Ref) ([]message.Info, error) { return nil, nil }

func (*KeptJournal) Remembered(_ context.Context, pushes []*message.Message) ([][]message.Info, error) {
	return make([][]message.Info, len(pushes)), nil
}

func (j *KeptJournal) Rejects(_ context.Context, ref scheduler.Ref, limit int) (found []scheduler.Rejected, err error) {
	for _, r := range j.Refused {
		if len(found) < limit && (r.ID == ref.ID || r.UID == ref.UID) && ref.Viewer.Sees(r.Topic) {
			found = append(found, r)
		}
	}
	return found, nil
}

func (*KeptJournal) Restore(context.Context, message.UID) error { return scheduler.ErrUnavailable }

func (*KeptJournal) WritePause(context.Context, scheduler.PauseChange) error { return nil }

func TopicsOf(arrivals []Arrival) map[string]int {
	n := map[string]int{}
	for _, a := range arrivals {
		n[a.M.Topic]++
	}
	return n
}

// Topics gives the rig's scheduler settings.
func (r *Rig) Topics(list ...*scheduler.Topic) { r.settings.Set(list, message.Retry{}) }

// Refuse answers that NATS will never take what is for one topic.
func Refuse(topic string) func(*message.Message, int) scheduler.Outcome {
	return func(m *message.Message, _ int) scheduler.Outcome {
		if m.Topic == topic {
			return scheduler.Outcome{Kind: scheduler.Refused, Err: errors.New("no such permission")}
		}
		return scheduler.Outcome{}
	}
}
