package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// broker is a nats-server. It runs in the bubble, since connections within a process belong to its time; its files are
// real. What it does by itself is not the seed's.
type broker struct {
	w   *world
	dir string

	mu    sync.Mutex
	runs  *natsserver.Server // nil while it is away
	links []*pipe            // of processes
	users *nats.Conn
	js    jetstream.JetStream
	taken jetstream.Stream // nil: consumers are on core NATS
}

var errNoBroker = errors.New("nats-server is away")

func newBroker(w *world) *broker {
	runtime.GC() // twice, and the pool is empty in which nats.go keeps timers: those of another bubble would be fatal
	runtime.GC()
	b := &broker{w: w, dir: w.t.TempDir()}
	b.start()
	b.users = b.connect(nil)
	var err error
	if b.js, err = jetstream.New(b.users); err != nil {
		w.t.Fatal(err)
	}
	due := []string{"plain", "burst", "rated"}
	if w.faults["nats"] || w.rnd.IntN(2) == 0 { // core NATS may lose what it has taken
		w.met("nats-server: a stream takes what is due")
		cfg := jetstream.StreamConfig{Name: "taken", Subjects: due}
		if w.rnd.IntN(2) == 0 { // it shows what it would else keep from consumers
			cfg.Duplicates = 100 * time.Millisecond
		}
		b.taken, err = b.js.CreateStream(context.Background(), cfg)
		if err != nil {
			w.t.Fatal(err)
		}
		return b
	}
	for _, topic := range due {
		_, err := b.users.Subscribe(topic, func(m *nats.Msg) { b.came(time.Now(), m.Header, m.Data) })
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return b
}

// came tells of a delivery.
func (b *broker) came(at time.Time, header nats.Header, body []byte) {
	uid, _, _ := strings.Cut(header.Get(nats.MsgIdHdr), "@")
	attempt, err := strconv.Atoi(header.Get("Tarry-Attempt"))
	if err != nil {
		b.w.t.Errorf("seed %d: a delivery of %s: %v", b.w.seed, uid, err)
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.history = append(b.w.history, history.Event{At: at, Kind: history.Deliver, By: "consumer", Message: nameOf(body),
		UID: uid, Attempt: attempt, Body: string(body)})
}

// collect tells of what the stream has taken.
func (b *broker) collect() {
	if b.taken == nil {
		return
	}
	info, err := b.taken.Info(context.Background())
	if err != nil {
		b.w.t.Errorf("seed %d: read the stream: %v", b.w.seed, err)
		return
	}
	for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
		m, err := b.taken.GetMsg(context.Background(), n)
		if err != nil {
			b.w.t.Errorf("seed %d: read number %d of the stream: %v", b.w.seed, n, err)
			return
		}
		b.came(m.Time, m.Header, m.Data)
	}
}

func (b *broker) start() {
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: b.dir})
	if err != nil {
		b.w.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.w.t.Fatal("nats-server is not ready")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = s
}

// stop ends it; what it has stored stays.
func (b *broker) stop() {
	b.mu.Lock()
	s := b.runs
	b.runs = nil
	for _, l := range b.links {
		l.end()
	}
	b.links = nil
	b.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // it tells those that wait at a stream, and then sleeps with a mutex
	s.Shutdown()
	s.WaitForShutdown()
}

// restart has it be away for a while.
func (b *broker) restart(away time.Duration) {
	b.mu.Lock()
	runs := b.runs != nil
	b.mu.Unlock()
	if !runs {
		return
	}
	b.w.met("nats-server: restarted")
	b.stop()
	b.w.background.Go(func() {
		time.Sleep(away)
		b.start()
	})
}

// cut ends the connection of a process, which it will make anew.
func (b *broker) cut(p *process) {
	b.w.met("nats-server: a connection is cut")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.links {
		if l.p == p {
			l.end()
		}
	}
}

// connect opens a connection of a process, or of users.
func (b *broker) connect(p *process) *nats.Conn {
	nc, err := nats.Connect("", nats.InProcessServer(&dialer{b, p}), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.Timeout(2*time.Second), nats.FlusherTimeout(2*time.Second), nats.ReconnectWait(200*time.Millisecond),
		nats.ReconnectJitter(0, 0), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		b.w.t.Fatal(err)
	}
	return nc
}

type dialer struct {
	b *broker
	p *process
}

func (d *dialer) InProcessConn() (net.Conn, error) {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	if d.b.runs == nil || d.p.isDead() || d.p.isFrozen() {
		return nil, errNoBroker
	}
	conn, err := d.b.runs.InProcessConn()
	if err != nil {
		return nil, err
	}
	l := &pipe{Conn: conn, p: d.p, out: make(chan []byte, 1<<16), in: make(chan []byte, 1<<16), ended: make(chan struct{})}
	d.b.links = append(d.b.links, l)
	d.b.w.background.Go(l.send)
	d.b.w.background.Go(l.receive)
	return l, nil
}

// pipe is one connection of a process. It holds what is on its way, as a kernel does, since a pipe holds nothing; it
// brings nothing to a process that is frozen, and takes nothing from it.
type pipe struct {
	net.Conn
	p       *process
	in, out chan []byte
	rest    []byte
	open    atomic.Bool // the first PONG has come; until then nats.go holds a mutex, for which others would wait
	once    sync.Once
	ended   chan struct{}
}

func (l *pipe) end() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.Conn.Close()
	})
}

func (l *pipe) Close() error {
	l.end()
	return nil
}

func (l *pipe) Write(b []byte) (int, error) {
	select {
	case <-l.ended:
		return 0, net.ErrClosed
	case l.out <- append([]byte(nil), b...):
		return len(b), nil
	}
}

func (l *pipe) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		select {
		case l.rest = <-l.in:
		case <-l.ended:
			return 0, net.ErrClosed
		}
		l.thaw()
		l.open.Store(l.open.Load() || bytes.Contains(l.rest, []byte("PONG")))
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// thaw waits until its process is not frozen.
func (l *pipe) thaw() {
	for l.open.Load() && l.p.isFrozen() {
		time.Sleep(time.Until(time.UnixMicro(l.p.frozen.Load())))
	}
}

func (l *pipe) send() {
	defer l.end()
	var gone chan struct{}
	if l.p != nil {
		gone = l.p.gone
	}
	for {
		select {
		case b := <-l.out:
			if l.thaw(); l.p.isDead() {
				return
			}
			if _, err := l.Conn.Write(b); err != nil {
				return
			}
		case <-gone:
			return
		case <-l.ended:
			return
		}
	}
}

func (l *pipe) receive() {
	defer l.end()
	for {
		b := make([]byte, 32<<10)
		n, err := l.Conn.Read(b)
		if err != nil {
			return
		}
		select {
		case l.in <- b[:n]:
		case <-l.ended:
			return
		}
	}
}

// bridges are the parts of a process that are about NATS.
type bridges struct {
	nc        *nats.Conn
	contents  *intake.Contents
	stamps    *intake.ClockSampler
	publisher *publish.Publisher
	intake    *intake.Intake
	requests  *request.Service
}

// bridge builds what the scheduler needs of NATS.
func (b *broker) bridge(p *process, registry *prometheus.Registry) *bridges {
	const namespace = "world"
	g := &bridges{nc: b.connect(p)}
	g.contents = intake.NewContents(g.nc, namespace)
	g.stamps = intake.NewClockSampler(intake.ClockConfig{Conn: g.nc, Namespace: namespace, Clock: p.clock})
	var err error
	g.publisher, err = publish.New(publish.Config{Conn: g.nc, Namespace: namespace,
		Own: []string{link.StreamName(namespace), link.RejectsName(namespace)}, Topics: b.w.topics, Pending: 8192,
		Window: session + 4*time.Second, Lease: func(context.Context) time.Duration { return p.leaseLeft() },
		Registerer: registry})
	if err != nil {
		b.w.t.Fatal(err)
	}
	return g
}

// serve builds what needs the scheduler, and runs all in its group.
func (g *bridges) serve(ctx context.Context, p *process, group *errgroup.Group, registry *prometheus.Registry) {
	var err error
	cfg := intake.Config{Conn: g.nc, Namespace: "world", Prefix: "delayed", Accept: p.Scheduler, Contents: g.contents,
		Topics: p.w.topics, Clock: p.clock, Registerer: registry, Stamps: g.stamps, Buckets: buckets}
	if p.writer != nil {
		cfg.Reject = p.Scheduler.Reject
	}
	if g.intake, err = intake.New(cfg); err != nil {
		p.w.t.Fatal(err)
	}
	g.requests, err = request.NewService(request.ServiceConfig{Conn: g.nc, Namespace: "world", Prefix: "delayed",
		Scheduler: p.web.service, Topics: p.w.topics, Instance: p.name, Version: "0.0.1", Ops: p.web.api.Ops()})
	if err != nil {
		p.w.t.Fatal(err)
	}
	for _, run := range []func(context.Context) error{g.publisher.Run, g.stamps.Run, g.intake.Run, g.requests.Run} {
		group.Go(func() error {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				p.w.t.Errorf("seed %d: %s: %v", p.w.seed, p.name, err)
			}
			return nil
		})
	}
}

// tag pushes by tag: through the stream, or by a request.
func (w *world) tag(m scheduler.Push, which int) {
	name := string(m.Body)
	msg := nats.NewMsg("delayed." + m.Topic)
	direct := which%2 == 0
	if direct {
		msg.Subject = "tarry.world.push." + m.Topic
	}
	msg.Data = m.Body
	m.ID = name
	for header, value := range map[string]string{"Tarry-Delay": m.Delay.String(), "Tarry-Id": m.ID, "Tarry-Key": m.Key,
		nats.MsgIdHdr: name} {
		if value != "" {
			msg.Header.Set(header, value)
		}
	}
	if m.Deliver == scheduler.DeliverPull {
		msg.Header.Set("Tarry-Deliver", "pull")
	}
	for try := range 4 {
		answer := w.call(history.Event{Kind: history.Push, Message: name, Key: m.Key, Body: name,
			Due: time.Now().Add(m.Delay)})
		if try == 0 {
			w.begins(name, m.Topic)
		}
		ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
		a, err := reply{}, error(nil)
		if direct {
			a, err = w.broker.ask(ctx, msg)
		} else {
			_, err = w.broker.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		}
		stop()
		switch {
		case err == nil && a.Error == "":
			if w.met("push by tag"); direct {
				w.met("push by a request")
			}
			kept := history.Event{Phase: history.OK, UID: a.UID, Due: a.Due}
			if !direct {
				kept.Word = history.Taken
			}
			answer(kept)
			w.mu.Lock()
			w.pushed = append(w.pushed, pushed{name, message.UID(a.UID), m.ID, m.Topic, m.Key, time.Now().Add(m.Delay)})
			w.mu.Unlock()
			return
		case err != nil || a.Error == "outcome_unknown" || a.err() != nil && errors.Is(a.err(), scheduler.ErrUnavailable):
			w.met("push by tag: no answer")
			answer(history.Event{Phase: history.Unknown, Word: a.Error})
		default:
			answer(history.Event{Phase: history.Fail, Word: a.Error})
			return
		}
		time.Sleep(time.Duration(which%2000) * time.Millisecond)
	}
}

// ask makes a request of whichever process takes it.
func (b *broker) ask(ctx context.Context, msg *nats.Msg) (a reply, err error) {
	answer, err := b.users.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return a, err
	}
	err = json.Unmarshal(answer.Data, &a)
	if a.Error != "" {
		a.status, _ = strconv.Atoi(answer.Header.Get("Nats-Service-Error-Code"))
	}
	return a, err
}
