package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Load pushes the messages of a maker at a steady rate and cancels some of them.
type Load struct {
	S      *Site
	H      *History
	Make   Maker
	Least  int         // it continues until the story is over, and until this many are pushed
	Rate   int         // a second
	Doors  []*Instance // HTTP uses them in turn
	ByHTTP bool        // no tags: there is no intake

	Ctx     context.Context
	Over    chan struct{}
	total   int
	Nc      *nats.Conn
	Js      jetstream.JetStream
	turn    atomic.Int64
	retried atomic.Int64
	ageless bool // NATS shows no time (before 2.10), so the delay of a tag counts from when tarry accepts the push
	wg      sync.WaitGroup
}

const pushers = 16

// Begin starts pushing.
func (l *Load) Begin(t *testing.T) {
	t.Helper()
	l.Nc = l.S.Connect("producer")
	l.Js = OpenJetStream(t, l.Nc)
	l.ageless = strings.HasPrefix(l.S.Nats.Version(), "2.9.")
	ctx, stop := context.WithCancel(t.Context())
	l.Ctx, l.Over = ctx, make(chan struct{})
	t.Cleanup(func() { stop(); l.wg.Wait() })
	todo := make(chan int)
	l.wg.Go(func() { l.pace(todo) })
	for range pushers {
		l.wg.Go(func() {
			for seq := range todo {
				l.one(t, seq)
			}
		})
	}
}

// Wait ends the load, and returns when everything is pushed and every cancel answered.
func (l *Load) Wait() {
	close(l.Over)
	l.wg.Wait()
}

// pace hands out the numbers, the rate's worth at each tick.
func (l *Load) pace(todo chan<- int) {
	defer close(todo)
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := l.Over; over != nil || l.total < l.Least; {
		select {
		case <-tick.C:
		case <-over:
			over = nil
			continue
		case <-l.Ctx.Done():
			return
		}
		// A load that is behind its rate ends as promptly as another.
		until := int(time.Since(begun).Seconds() * float64(l.Rate))
		for l.total < until && (over != nil || l.total < l.Least) {
			select {
			case todo <- l.total:
				l.total++
			case <-over:
				over = nil
			case <-l.Ctx.Done():
				return
			}
		}
	}
}

// one pushes a message until the outcome is known, as a careful producer does. Without an id a push is not repeated:
// whether it was kept stays unknown.
func (l *Load) one(t *testing.T, seq int) {
	m := l.Make.Make(seq, time.Now())
	l.H.Pushed(&m.Sent)
	if seq%2 == 0 && !l.ByHTTP {
		l.Tag(t, m)
	} else {
		l.Http(t, m)
	}
	name := m.Id
	if name == "" {
		name = m.Uid
	}
	if m.Kept && m.Cancel && name != "" {
		l.wg.Go(func() { l.cancelLater(m, name) })
	}
}

// Tag publishes to the intake until its stream says that it has the message.
func (l *Load) Tag(t *testing.T, m *Message) {
	id := fmt.Sprintf("push-%d-%d", l.Make.Seed, m.Seq)
	for l.Ctx.Err() == nil {
		ctx, stop := context.WithTimeout(l.Ctx, 3*time.Second)
		ack, err := l.Js.PublishMsg(ctx, m.tagged("delayed"), jetstream.WithMsgID(id))
		stop()
		if err == nil {
			if ack.Stream != "TARRY_"+l.S.Ns {
				t.Errorf("message %d is stored in %s", m.Seq, ack.Stream)
			}
			last := m.Last(time.Now())
			if l.ageless && m.At.IsZero() {
				last = time.Time{}
			}
			l.H.Acknowledged(&m.Sent, "", m.askedDue(), last)
			return
		}
		l.retried.Add(1)
		Pause(l.Ctx, 20*time.Millisecond)
	}
}

// Http posts the message through one instance after the other.
func (l *Load) Http(t *testing.T, m *Message) {
	fields := m.Json()
	for begun := time.Now(); l.Ctx.Err() == nil; {
		if time.Since(begun) > Patience {
			t.Errorf("message %d is not taken", m.Seq)
			return
		}
		door := l.Doors[int(l.turn.Add(1))%len(l.Doors)]
		a, err := door.Call(l.Ctx, http.MethodPost, "/v1/messages", fields)
		switch {
		case err == nil && (a.Status == http.StatusCreated || a.Status == http.StatusOK):
			if repeated := a.Status == http.StatusOK; repeated != a.Duplicate || a.ID == "" || a.UID == "" {
				t.Errorf("message %d through %s: %d %s", m.Seq, door.Name, a.Status, a.Raw)
			}
			l.H.Acknowledged(&m.Sent, a.UID, a.Due.UnixMilli(), m.Last(time.Now()))
			return
		case err == nil && a.Status < http.StatusInternalServerError:
			t.Errorf("message %d through %s: %d %s", m.Seq, door.Name, a.Status, a.Raw)
			return
		case m.Id == "" && (err != nil && !unsent(err) || a.Status == http.StatusGatewayTimeout):
			return // perhaps it was kept
		}
		l.retried.Add(1)
		Pause(l.Ctx, 20*time.Millisecond)
	}
}

// unsent reports whether nothing reached the instance.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// askedDue is the due time where the push names it.
func (m *Message) askedDue() int64 {
	if m.At.IsZero() {
		return 0
	}
	return m.At.UnixMilli()
}

// Last is the latest due time of a message that was acknowledged at the given time.
func (m *Message) Last(acknowledged time.Time) time.Time {
	if m.At.IsZero() {
		return acknowledged.Add(m.delay)
	}
	return m.At
}

// cancelLater cancels at any time from now until a little after the due time, over HTTP or NATS.
func (l *Load) cancelLater(m *Message, name string) {
	Pause(l.Ctx, rand.N(max(time.Until(m.NotBefore), 0)+300*time.Millisecond))
	word, begun := "", time.Now()
	if m.Seq%3 == 0 {
		word = l.cancelByRequest(m, name)
	} else {
		word = l.CancelByHTTP(m, name)
	}
	l.H.Cancel(Canceled{m.Seq, begun, time.Now(), word})
}

func (l *Load) CancelByHTTP(m *Message, name string) string {
	door := l.Doors[int(l.turn.Add(1))%len(l.Doors)]
	path := "/v1/messages/" + url.PathEscape(name)
	if m.Key != "" {
		path += "?key=" + url.QueryEscape(m.Key)
	}
	a, err := door.Call(l.Ctx, http.MethodDelete, path, nil)
	if err != nil {
		return ""
	}
	return a.cancelWord()
}

func (l *Load) cancelByRequest(m *Message, name string) string {
	ask := map[string]string{"id": name}
	if m.Key != "" {
		ask["key"] = m.Key
	}
	text, err := json.Marshal(ask)
	if err != nil {
		return ""
	}
	ctx, stop := context.WithTimeout(l.Ctx, 3*time.Second)
	defer stop()
	reply, err := l.Nc.RequestWithContext(ctx, "tarry."+l.S.Ns+".api.cancel", text)
	var a Answer
	if err != nil || json.Unmarshal(reply.Data, &a) != nil {
		return ""
	}
	return a.cancelWord()
}

// cancelWord is the one word of a cancel's answer: canceled is its OK.
func (a Answer) cancelWord() string {
	if a.Error == "" {
		return a.State
	}
	return a.Error
}

// Pause waits for d, or until ctx ends. It paces the load; no test waits by it.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Finish waits until everything is pushed and has arrived, and nothing is left in the intake and in Redis.
func (l *Load) Finish(t *testing.T) {
	t.Helper()
	l.Wait()
	if !l.ByHTTP {
		l.S.Taken(l.Js)
	}
	lab.Eventually(t, Patience, func() error {
		if n, example := l.H.Missing(); n > 0 {
			return fmt.Errorf("%d messages have not arrived, one of them %d on %s, due %s", n, example.Seq,
				example.subject, Stamp(example.NotBefore))
		}
		return nil
	})
	rdb := l.S.Client()
	lab.Eventually(t, Patience, func() error { return l.S.Drained(rdb) })
}

// Judge ends a story: the load is done, the history is held against the promises.
func (l *Load) Judge(t *testing.T) {
	t.Helper()
	l.H.Leaders = Leaderships(t, l.S.Instances)
	Report(t, Check(l.H.Snapshot()))
	kept, arrivals := l.H.Counts()
	if kept < l.total*9/10 {
		t.Errorf("only %d of %d pushes were acknowledged", kept, l.total)
	}
	words := map[string]int{}
	for _, c := range l.H.canceled {
		words[c.Word]++
	}
	if words["internal"] > 0 {
		t.Errorf("%d cancels failed inside", words["internal"])
	}
	late := lateness(l.H)
	t.Logf("%d pushed, %d acknowledged, %d tries repeated, %d arrivals of %d messages, cancels %v, %d leaderships",
		l.total, kept, l.retried.Load(),
		arrivals, len(late), words, len(l.H.Leaders))
	t.Logf("late by %s in the middle, %s at 99 %%, %s at most", late[len(late)/2], late[len(late)*99/100],
		late[len(late)-1])
}

// hops is how many times, at most, what answers a fault waits for a processor as a delivery does: a takeover goes from
// process to process so often.
const hops = 10

// Owed is what the machine owes a story that holds it to a time: as much as hops deliveries come late that nothing but
// the machine delays. It is to be asked before the first fault, and waits for so many of them that nine of ten tell.
func (h *History) Owed(t *testing.T) time.Duration {
	t.Helper()
	var late []time.Duration
	lab.Eventually(t, Patience, func() error {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		if late = lateness(h); len(late) < 50 {
			return fmt.Errorf("%d messages have come", len(late))
		}
		return nil
	})
	most := late[len(late)*9/10]
	t.Logf("without a fault nine of ten messages come at most %s late: the machine owes %s", most, hops*most)
	return hops * most
}

// Late is how late a message came first, by the due time that it carries: that of a push whose first tries nobody
// answered counts from the try that was accepted.
type Late struct {
	Due   time.Time
	Late  time.Duration
	Times int // it was delivered
}

// Late tells it of each message that came.
func (h *History) Late() (all []Late) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	first, times := map[int]Arrival{}, map[int]int{}
	for _, a := range h.deliveriesLocked() {
		if before, came := first[a.Seq]; !came || a.At.Before(before.At) {
			first[a.Seq] = a
		}
		times[a.Seq]++
	}
	for seq, a := range first {
		if ms, err := strconv.ParseInt(a.header.Get("Tarry-Due"), 10, 64); err == nil {
			due := time.UnixMilli(ms)
			all = append(all, Late{due, a.At.Sub(due), times[seq]})
		}
	}
	return all
}

// lateness is by how much the first arrival of each message was late, in order.
func lateness(h *History) []time.Duration {
	first := map[int]time.Time{}
	for _, a := range h.Arrivals {
		if at, ok := first[a.Seq]; !ok || a.At.Before(at) {
			first[a.Seq] = a.At
		}
	}
	var late []time.Duration
	for seq, at := range first {
		if s := h.Sent[seq]; s != nil {
			late = append(late, at.Sub(s.NotBefore))
		}
	}
	slices.Sort(late)
	return append(late, 0)[:max(len(late), 1)]
}

// Tag pushes a message by its tags and waits until the intake has it.
func (s *Site) Tag(nc *nats.Conn, subject, body string, tags ...string) {
	s.T.Helper()
	m := nats.NewMsg("delayed." + subject)
	m.Data = []byte(body)
	for i := 0; i < len(tags); i += 2 {
		m.Header.Set(tags[i], tags[i+1])
	}
	reply, err := nc.RequestMsg(m, Patience)
	if err != nil || !strings.Contains(string(reply.Data), `"seq"`) {
		s.T.Fatalf("push by tag: %v", err)
	}
}
