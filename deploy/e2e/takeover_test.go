package e2e_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// awaitLinked waits until the standby's link to the leader stands, and it can lead: before, it stands for
// nothing.
func awaitLinked(s *site.Site, at *site.Instance) {
	s.T.Helper()
	lab.Eventually(s.T, site.Patience, func() error {
		got, err := at.Call(s.T.Context(), http.MethodGet, "/v1/cluster", nil)
		if err == nil && (!strings.Contains(got.Raw, `"linked":true`) || strings.Contains(got.Raw, `"can_lead":false`)) {
			err = fmt.Errorf("no standby that can lead is linked: %s", got.Raw)
		}
		return err
	})
}

// kills is how often TestADeadLeaderCostsHalfASecond kills the leader; more than the usual do it to a binary without
// the race detector.
var kills = flag.Int("kills", 5, "times that the leader is killed")

// A leader that is killed is replaced long before its session expires; nothing is lost, early, or delivered by two.
// Its cost is a time: this story and the one of silent leaders run before the others, which would take part of it.
func TestADeadLeaderCostsHalfASecond(t *testing.T) {
	s := site.New(t, site.Options{Plain: *kills > 5})
	s.Settings = append(s.Settings, "TARRY_ZOOKEEPER_SESSION=6s")
	s.Stream(site.StreamName, site.StreamSubject+">")
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 24, Spread: 4 * time.Second, Burst: time.Second}, Least: 3000,
		Rate: 200, Doors: s.Instances}
	l.Begin(t)
	owed := h.Owed(t)
	var took, won []time.Duration
	term := uint64(0)
	for range *kills {
		var leader *site.Instance
		leader, term = s.Leader(term, a, b)
		awaitLinked(s, leader)
		site.Moment(t, h, "a delivery", site.Anything)
		closed := h.Open("kill -9 of the leader", time.Now())
		killed := time.Now()
		leader.Kill()
		first := site.Moment(t, h, "a delivery of what fell due later", func(x site.Arrival) bool {
			sent := h.Sent[x.Seq]
			return sent != nil && sent.Due > killed.UnixMilli()
		})
		took = append(took, first.At.Sub(killed))
		won = append(won, s.Won(t, term).Sub(killed))
		leader.Restart()
		s.Ready(leader)
		s.Settled(term, closed)
	}
	slices.Sort(took)
	slices.Sort(won)
	t.Logf("from the kill to the first delivery by the next leader: %v; of that to its leadership: %v", took, won)
	if median := took[len(took)/2]; median > 500*time.Millisecond+owed {
		t.Errorf("a dead leader costs %s: %v", median, took)
	}
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.OneLeader()
}

// A leader that lives, whom nobody reaches at its peer port, seems dead once its link is cut. It is deposed, and writes
// nothing more.
func TestALeaderThatSeemsDeadIsDeposedAndWritesNothingMore(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	seen := s.Watch()
	port := strconv.Itoa(lab.FreePort(t))
	gate := newPeerGate(t, "127.0.0.2:"+port, "127.0.0.1:"+port)
	a := s.Start("a", "TARRY_PEER_LISTEN=127.0.0.1:"+port, "TARRY_PEER_ADVERTISE=127.0.0.2:7070")
	b := s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 25, Spread: time.Second}, Least: 1500, Rate: 200,
		Doors: []*site.Instance{b}}
	l.Begin(t)
	_, term := s.Leader(0, a)
	awaitLinked(s, b)
	site.Moment(t, h, "a delivery by the leader", site.Anything)
	closed := h.Open("a living leader is deposed", time.Now())
	gate()
	if next, _ := s.Leader(term, a, b); next != b {
		t.Errorf("%s leads", next.Name)
	}
	stepsDown(s, a, term)
	s.Settled(term, closed)
	l.Finish(t)
	l.Judge(t)
	seen.Judge(t, h.Leaders)
	s.OnceStored()
	s.OneLeader()
}

// fault is something that happens to a leader.
type fault struct {
	name string
	most time.Duration // until the next leader delivers; the session takes 4 s, and ZooKeeper's tick 0.5 s
	do   func()
	heal func() // so that the instance is a standby again
}

// costs is the story of one fault of the leader, which start starts, beside a standby and under load.
func costs(t *testing.T, s *site.Site, f *fault, start func() *site.Instance) {
	s.Stream(site.StreamName, site.StreamSubject+">")
	seen := s.Watch()
	leader := start()
	standby := s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 26, Spread: 4 * time.Second}, Least: 1500, Rate: 200,
		Doors: []*site.Instance{standby}}
	l.Begin(t)
	_, term := s.Leader(0, leader)
	awaitLinked(s, standby)
	owed := h.Owed(t)
	closed, began := h.Open(f.name, time.Now()), time.Now()
	f.do()
	s.Leader(term, standby)
	won := s.Won(t, term)
	first := site.Moment(t, h, "a delivery by the next leader of what fell due later", func(x site.Arrival) bool {
		sent := h.Sent[x.Seq]
		return sent != nil && sent.Due > began.UnixMilli() && x.At.After(won)
	})
	took := first.At.Sub(began)
	t.Logf("%s: another leads after %s, and has delivered after %s", f.name, won.Sub(began), took)
	if took > f.most+owed {
		t.Errorf("a leader that is %s costs %s, want at most %s", f.name, took, f.most+owed)
	}
	f.heal()
	s.Settled(term, closed)
	l.Finish(t)
	l.Judge(t)
	seen.Judge(t, h.Leaders)
	s.OnceStored()
	s.OneLeader()
}

// A leader that is told to stop is replaced at once. One that is frozen, or whose network is cut, leaves a silent link:
// that is no evidence, and the next one leads once the session is over. Two at a time would take each other's time.
func TestALeaderThatFallsSilentIsReplacedWhenItsSessionEnds(t *testing.T) {
	for _, name := range []string{"told to stop", "frozen", "cut off both ways", "reached by nothing"} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, site.Options{Plain: *kills > 5})
			way, a := s.Network("127.0.0.2"), (*site.Instance)(nil)
			f := &fault{name: name, most: 8 * time.Second}
			f.heal = func() {
				way.Each((*lab.Proxy).Heal)
				a.Resume()
				stepsDown(s, a, 1)
				s.Ready(a)
			}
			switch name {
			case "told to stop":
				f.most, f.do = 2*time.Second, func() { a.Signal(syscall.SIGTERM) }
				f.heal = func() {
					a.Wait(site.Patience)
					a.Restart()
					s.Ready(a)
				}
			case "frozen":
				f.do = func() { a.Pause() }
			case "cut off both ways":
				f.do = func() { way.Each((*lab.Proxy).Stall) }
			default: // its own requests arrive, and renew its session for a while
				f.most, f.do = 12*time.Second, func() {
					way.Each((*lab.Proxy).StallReplies)
					way.Peer.Stall()
				}
			}
			costs(t, s, f, func() *site.Instance { a = s.Start("a", way.Settings()...); return a })
		})
	}
}

// newPeerGate passes connections on until cut resets them all and refuses any more.
func newPeerGate(t *testing.T, at, to string) (cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []*net.TCPConn
	cut = func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
	}
	t.Cleanup(cut)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn.(*net.TCPConn))
			mu.Unlock()
			behind, err := net.Dial("tcp", to)
			if err != nil {
				_ = conn.Close()
				continue
			}
			go func() { _, _ = io.Copy(behind, conn); _ = behind.Close() }()
			go func() { _, _ = io.Copy(conn, behind); _ = conn.Close() }()
		}
	}()
	return cut
}
