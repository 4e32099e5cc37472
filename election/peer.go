package election

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// PeerConfig is where the links between instances end; see "Fast takeover" in the package comment.
type PeerConfig struct {
	Listener net.Listener // Run closes it
	Address  string       // host:port at which other instances reach it
	Server   *tls.Config  // nil for connections without TLS
	Client   *tls.Config  // likewise
}

const (
	maxPeers = 64   // connections at one time
	fromHost = 16   // of one address among them: nobody keeps the other instances out
	maxFrame = 1024 // bytes
	goodbye  = "bye\n"
	// answerWithin is how long a leader whose link has ended has to show that it lives.
	answerWithin = 150 * time.Millisecond
	// buryTries is how often a port is tried that takes a connection and ends it at once.
	buryTries = 10
	// silentTries is how often a port is tried that takes a connection and says nothing, each time for twice as long.
	silentTries = 3
)

// hello is the first frame of both sides of a connection, as one line of JSON. The leader's second frame, if its
// leadership ends while it lives, is a goodbye. Nothing else is ever sent.
type hello struct {
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
	Leader      string `json:"leader"` // the leader's incarnation, as the sender knows it
	Term        uint64 `json:"term"`
	// Prove asks the leader to prove that it can reach the sender. It does so with a connection whose hello has Probe.
	Prove bool `json:"prove,omitempty"`
	Probe bool `json:"probe,omitempty"`
}

// peers is this instance's side of the links: as a leader it holds those of the standbys, as a standby it has one.
type peers struct {
	n       *Node
	cfg     PeerConfig
	slots   chan struct{}
	refused prometheus.Counter
	// suspects are instances whose link has ended, for bury. What finds no room is left to its session.
	suspects chan hello

	mu     sync.Mutex
	hosts  map[string]int // connections by address
	term   uint64         // under which this instance leads; 0 while it does not
	last   uint64         // under which it led before
	links  map[net.Conn]bool
	known  map[hello]bool // instances and incarnations that are or were registered
	linked bool           // the link to the leader stands
	proved time.Time      // when a peer last reached this instance
}

func newPeers(n *Node, cfg PeerConfig) *peers {
	return &peers{n: n, cfg: cfg, slots: make(chan struct{}, maxPeers), links: map[net.Conn]bool{},
		suspects: make(chan hello, maxPeers),
		hosts:    map[string]int{}, known: map[hello]bool{}, refused: newRefused(n.cfg.Registerer)}
}

// serve answers other instances until ctx ends.
func (p *peers) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = p.cfg.Listener.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for {
			select {
			case of := <-p.suspects:
				p.bury(ctx, of)
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		conn, err := p.cfg.Listener.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			pause(ctx, dialPause)
			continue
		}
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		select {
		case p.slots <- struct{}{}:
			if p.count(host, 1) <= fromHost {
				wg.Go(func() {
					defer func() { p.count(host, -1); <-p.slots }()
					p.answer(ctx, conn)
				})
				continue
			}
			p.count(host, -1)
			<-p.slots
		default:
		}
		p.refused.Inc()
		_ = conn.Close()
	}
}

// count counts a connection of an address, and returns how many there are.
func (p *peers) count(host string, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts[host] += n; p.hosts[host] == 0 {
		delete(p.hosts, host)
		return 0
	}
	return p.hosts[host]
}

// answer lets one connection be the link of a standby, or a probe. It closes any other without an answer.
func (p *peers) answer(ctx context.Context, conn net.Conn) {
	raw := conn
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	defer raw.Close()
	t := timing(p.n.cfg.Session)
	if p.cfg.Server != nil {
		conn = tls.Server(conn, p.cfg.Server)
	}
	_ = conn.SetDeadline(time.Now().Add(t.retry()))
	in := bufio.NewReaderSize(conn, maxFrame)
	from, err := receive(in)
	if err != nil || !p.admits(ctx, from) {
		p.refused.Inc()
		return
	}
	me := hello{Instance: p.n.cfg.Instance, Incarnation: p.n.incarnation, Leader: from.Leader, Term: from.Term}
	if send(conn, me) != nil || from.Probe {
		return
	}
	if !p.hold(conn, from.Term) {
		_, _ = io.WriteString(conn, goodbye)
		return
	}
	defer p.drop(conn)
	_ = conn.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() { // ends with the connection, which this function closes or awaits
		defer close(gone)
		_, _ = in.ReadByte()
	}()
	for wait := time.Duration(0); ; wait = t.retry() {
		select {
		case <-gone: // the standby, or the leadership
			p.suspectOf(from)
			return
		case <-time.After(wait):
		}
		if !from.Prove || p.probe(ctx, from) {
			<-gone
			p.suspectOf(from)
			return
		}
	}
}

// admits reports whether a connection is a registered instance's that knows the present leadership: this instance's, or
// for a probe its own.
func (p *peers) admits(ctx context.Context, from hello) bool {
	if from.Probe {
		leader := p.n.races[0].lastKnown()
		if leader.Instance != from.Instance || leader.Term != from.Term || from.Leader != from.Incarnation {
			return false
		}
	} else if !p.led(from.Term) || from.Leader != p.n.incarnation {
		return false
	}
	who := hello{Instance: from.Instance, Incarnation: from.Incarnation}
	p.mu.Lock()
	known := p.known[who]
	p.mu.Unlock()
	if !known { // what is known is answered at once, however slow ZooKeeper is
		m, _, err := p.n.registered(ctx, from.Instance)
		if err != nil || m.Incarnation != from.Incarnation {
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) > 16*maxPeers {
		clear(p.known)
	}
	p.known[who] = true
	if from.Probe {
		p.proved = time.Now()
	}
	return true
}

// probe tries to reach another instance, which so learns that it can be reached.
func (p *peers) probe(ctx context.Context, of hello) bool {
	m, _, err := p.n.registered(ctx, of.Instance)
	if err != nil || m.Peer == "" {
		return false
	}
	me := hello{Instance: p.n.cfg.Instance, Incarnation: p.n.incarnation, Leader: p.n.incarnation, Term: of.Term,
		Probe: true}
	conn, _, err := p.dial(ctx, m.Peer, me, of.Incarnation, timing(p.n.cfg.Session).retry())
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// suspectOf is suspect for a link that has ended, unless the leadership has.
func (p *peers) suspectOf(from hello) {
	p.mu.Lock()
	leads := p.term == from.Term
	p.mu.Unlock()
	if leads {
		p.suspect(from)
	}
}

// suspect has an instance checked whose link has ended, or that was deposed. Without links nobody is.
func (p *peers) suspect(of hello) {
	if p == nil {
		return
	}
	select {
	case p.suspects <- of:
	default:
	}
}

// bury removes the registration of an instance whose port is closed, so that nobody counts on it until its session
// expires. One that lives all the same registers again, within S.
func (p *peers) bury(ctx context.Context, of hello) {
	silent := 0
	for range buryTries {
		m, version, err := p.n.registered(ctx, of.Instance)
		if err != nil || m.Incarnation != of.Incarnation || m.Peer == "" {
			return
		}
		conn, err := (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", m.Peer)
		if err != nil {
			if s, _ := p.n.connected(); s != nil && errors.Is(err, syscall.ECONNREFUSED) {
				err = s.remove(ctx, p.n.instances()+"/"+of.Instance, version)
				p.n.log.Info().Err(err).Str("address", m.Address).Msg("removed the registration of a dead instance")
			}
			return
		}
		// The kernel closes the files of a killed process one by one: its port may still be open when its link has ended,
		// and where processors are scarce for longer than an answer takes.
		_ = conn.SetReadDeadline(time.Now().Add(answerWithin << silent))
		_, err = conn.Read(make([]byte, 1))
		if _ = conn.Close(); errors.Is(err, os.ErrDeadlineExceeded) {
			if silent++; silent == silentTries {
				return // it waits for a hello, so it lives
			}
			continue
		}
		pause(ctx, answerWithin/buryTries)
	}
}

// leads begins or, with term 0, ends what the links say of this instance's leadership. Each link then gets a goodbye:
// this instance is alive.
func (p *peers) leads(term uint64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term != 0 {
		p.last = p.term
	}
	p.term = term
	for conn := range p.links {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, goodbye)
		_ = conn.Close()
	}
	clear(p.links)
}

// led reports whether this instance leads under a term, or last did: then its answer is a goodbye.
func (p *peers) led(term uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return term != 0 && (term == p.term || term == p.last)
}

// hold keeps a link, unless the leadership is over.
func (p *peers) hold(conn net.Conn, term uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term != term {
		return false
	}
	p.links[conn] = true
	return true
}

func (p *peers) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, conn)
}

// provedSince reports whether a peer has reached this instance since then.
func (p *peers) provedSince(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proved.After(since)
}

func (p *peers) setLinked(linked bool) {
	p.mu.Lock()
	p.linked = linked
	p.mu.Unlock()
	raise(p.n.news) // the member znode says so
}

// linkStands reports whether the link to the leader stands. Without links it does not.
func (p *peers) linkStands() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linked
}

// follow holds a link to a leader until ctx ends or the leader says goodbye. Once the link was cut it calls dead each
// time that the leader does not answer, for S/2: after that its session decides.
func (p *peers) follow(ctx context.Context, leader leaderNode, prove bool, dead func()) {
	t := timing(p.n.cfg.Session)
	me := hello{Instance: p.n.cfg.Instance, Incarnation: p.n.incarnation, Leader: leader.Incarnation, Term: leader.Term,
		Prove: prove}
	at, limit, brief, told := leader.Peer, t.call(), false, false
	var cut time.Time // when the link was cut; zero while it was not
	for ctx.Err() == nil {
		conn, in, err := p.dial(ctx, at, me, leader.Incarnation, limit)
		if err == nil {
			began := time.Now()
			at = conn.RemoteAddr().String() // a name may not be resolved when it matters
			p.setLinked(true)
			wasCut, over := p.await(ctx, conn, in)
			if p.setLinked(false); over {
				return
			}
			cut, limit = time.Time{}, t.call() // a link that fell silent shows nothing, whatever came before it
			if wasCut {
				cut, limit = time.Now(), answerWithin
				if time.Since(began) > t.retry() || !brief {
					brief = time.Since(began) < t.retry()
					continue
				}
			} // one that is cut again and again is made again after a while
		} else if !cut.IsZero() && ctx.Err() == nil && isDead(err) {
			p.n.log.Warn().Err(err).Str("leader", leader.Instance).Uint64("term", leader.Term).
				Msg("the link to the leader was cut, and the leader does not answer")
			dead()
		} else if !told && ctx.Err() == nil {
			told = true
			p.n.log.Info().Err(err).Str("leader", leader.Instance).Msg("no link to the leader yet")
		}
		pause(ctx, t.retry())
		if time.Since(cut) > t.lease() {
			cut, at, limit = time.Time{}, leader.Peer, t.call()
		}
	}
}

var errOtherLife = errors.New("another life of it")

// isDead reports whether an error of dial shows that the leader does not answer. Others are this instance's own: its
// resolver, its network, its limits, its certificates.
func isDead(err error) bool {
	var late net.Error
	var garbage *json.SyntaxError
	return errors.As(err, &late) && late.Timeout() || errors.As(err, &garbage) ||
		slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, bufio.ErrBufferFull, errOtherLife, syscall.ECONNREFUSED,
			syscall.ECONNRESET, syscall.EHOSTUNREACH}, func(e error) bool { return errors.Is(err, e) })
}

// await returns once a link has ended: over if nothing more is to come of the leader by this link, cut if the leader's
// side ended it without a goodbye. A link that fails in another way shows nothing.
func (p *peers) await(ctx context.Context, conn net.Conn, in *bufio.Reader) (cut, over bool) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	line, err := in.ReadString('\n')
	switch {
	case ctx.Err() != nil, line == goodbye:
		return false, true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return true, false
	}
	return false, false
}

// dial opens a connection on which an incarnation has answered in time.
func (p *peers) dial(ctx context.Context, address string, me hello, incarnation string,
	limit time.Duration) (conn net.Conn, in *bufio.Reader, err error) {
	deadline := time.Now().Add(limit)
	if conn, err = (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", address); err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(deadline)
	raw := conn
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	if p.cfg.Client != nil {
		conn = tls.Client(conn, p.cfg.Client)
	}
	in = bufio.NewReaderSize(conn, maxFrame)
	var is hello
	if err = send(conn, me); err == nil {
		is, err = receive(in)
	}
	if err == nil && (is.Incarnation != incarnation || is.Term != me.Term) {
		err = errOtherLife
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("hello: %w", err)
	}
	return conn, in, conn.SetDeadline(time.Time{})
}

func send(conn net.Conn, h hello) error {
	line, err := encode(h)
	if err == nil {
		_, err = conn.Write(append(line, '\n'))
	}
	return err
}

// receive reads a hello. A longer frame than the reader holds is an error.
func receive(in *bufio.Reader) (h hello, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	err = json.Unmarshal(line, &h)
	return h, err
}
