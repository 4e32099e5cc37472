package e2e_test

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// load pushes the messages of a maker at a steady rate and cancels some of them.
type load struct {
	s      *site
	h      *history
	make   maker
	least  int         // it continues until the story is over, and until this many are pushed
	rate   int         // a second
	doors  []*instance // HTTP uses them in turn
	byHTTP bool        // no tags: there is no intake

	ctx     context.Context
	over    chan struct{}
	total   int
	nc      *nats.Conn
	js      jetstream.JetStream
	turn    atomic.Int64
	retried atomic.Int64
	wg      sync.WaitGroup
}

const pushers = 16

// begin starts pushing.
func (l *load) begin(t *testing.T) {
	t.Helper()
	l.nc = l.s.connect("producer")
	l.js = openJetStream(t, l.nc)
	ctx, stop := context.WithCancel(t.Context())
	l.ctx, l.over = ctx, make(chan struct{})
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

// wait ends the load, and returns when everything is pushed and every cancel answered.
func (l *load) wait() {
	close(l.over)
	l.wg.Wait()
}

// pace hands out the numbers, the rate's worth at each tick.
func (l *load) pace(todo chan<- int) {
	defer close(todo)
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := l.over; over != nil || l.total < l.least; {
		select {
		case <-tick.C:
		case <-over:
			over = nil
			continue
		case <-l.ctx.Done():
			return
		}
		// A load that is behind its rate ends as promptly as another.
		until := int(time.Since(begun).Seconds() * float64(l.rate))
		for l.total < until && (over != nil || l.total < l.least) {
			select {
			case todo <- l.total:
				l.total++
			case <-over:
				over = nil
			case <-l.ctx.Done():
				return
			}
		}
	}
}

// one pushes a message until the outcome is known, as a careful producer does. Without an id a push is not repeated:
// whether it was kept stays unknown.
func (l *load) one(t *testing.T, seq int) {
	m := l.make.make(seq, time.Now())
	l.h.pushed(&m.sent)
	if seq%2 == 0 && !l.byHTTP {
		l.tag(t, m)
	} else {
		l.http(t, m)
	}
	name := m.id
	if name == "" {
		name = m.uid
	}
	if m.kept && m.cancel && name != "" {
		l.wg.Go(func() { l.cancelLater(m, name) })
	}
}

// tag publishes to the intake until its stream says that it has the message.
func (l *load) tag(t *testing.T, m *message) {
	id := fmt.Sprintf("push-%d-%d", l.make.seed, m.seq)
	for l.ctx.Err() == nil {
		ctx, stop := context.WithTimeout(l.ctx, 3*time.Second)
		ack, err := l.js.PublishMsg(ctx, m.tagged("delayed"), jetstream.WithMsgID(id))
		stop()
		if err == nil {
			if ack.Stream != "TARRY_"+l.s.ns {
				t.Errorf("message %d is stored in %s", m.seq, ack.Stream)
			}
			l.h.acknowledged(&m.sent, "", m.askedDue(), m.last(time.Now()))
			return
		}
		l.retried.Add(1)
		pause(l.ctx, 20*time.Millisecond)
	}
}

// http posts the message through one instance after the other.
func (l *load) http(t *testing.T, m *message) {
	fields := m.json()
	for begun := time.Now(); l.ctx.Err() == nil; {
		if time.Since(begun) > patience {
			t.Errorf("message %d is not taken", m.seq)
			return
		}
		door := l.doors[int(l.turn.Add(1))%len(l.doors)]
		a, err := door.call(l.ctx, http.MethodPost, "/v1/messages", fields)
		switch {
		case err == nil && (a.status == http.StatusCreated || a.status == http.StatusOK):
			if repeated := a.status == http.StatusOK; repeated != a.Duplicate || a.ID == "" || a.UID == "" {
				t.Errorf("message %d through %s: %d %s", m.seq, door.name, a.status, a.raw)
			}
			l.h.acknowledged(&m.sent, a.UID, a.Due.UnixMilli(), m.last(time.Now()))
			return
		case err == nil && a.status < http.StatusInternalServerError:
			t.Errorf("message %d through %s: %d %s", m.seq, door.name, a.status, a.raw)
			return
		case m.id == "" && (err != nil && !unsent(err) || a.status == http.StatusGatewayTimeout):
			return // perhaps it was kept
		}
		l.retried.Add(1)
		pause(l.ctx, 20*time.Millisecond)
	}
}

// unsent reports whether nothing reached the instance.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// askedDue is the due time where the push names it.
func (m *message) askedDue() int64 {
	if m.at.IsZero() {
		return 0
	}
	return m.at.UnixMilli()
}

// last is the latest due time of a message that was acknowledged at the given time.
func (m *message) last(acknowledged time.Time) time.Time {
	if m.at.IsZero() {
		return acknowledged.Add(m.delay)
	}
	return m.at
}

// cancelLater cancels at any time from now until a little after the due time, over HTTP or NATS.
func (l *load) cancelLater(m *message, name string) {
	pause(l.ctx, rand.N(max(time.Until(m.notBefore), 0)+300*time.Millisecond))
	word := ""
	if m.seq%3 == 0 {
		word = l.cancelByRequest(m, name)
	} else {
		word = l.cancelByHTTP(m, name)
	}
	l.h.cancel(canceled{m.seq, time.Now(), word})
}

func (l *load) cancelByHTTP(m *message, name string) string {
	door := l.doors[int(l.turn.Add(1))%len(l.doors)]
	path := "/v1/messages/" + url.PathEscape(name)
	if m.key != "" {
		path += "?key=" + url.QueryEscape(m.key)
	}
	a, err := door.call(l.ctx, http.MethodDelete, path, nil)
	if err != nil {
		return ""
	}
	return a.cancelWord()
}

func (l *load) cancelByRequest(m *message, name string) string {
	ask := map[string]string{"id": name}
	if m.key != "" {
		ask["key"] = m.key
	}
	text, err := json.Marshal(ask)
	if err != nil {
		return ""
	}
	ctx, stop := context.WithTimeout(l.ctx, 3*time.Second)
	defer stop()
	reply, err := l.nc.RequestWithContext(ctx, "tarry."+l.s.ns+".api.cancel", text)
	var a answer
	if err != nil || json.Unmarshal(reply.Data, &a) != nil {
		return ""
	}
	return a.cancelWord()
}

// cancelWord is the one word of a cancel's answer: canceled is its OK.
func (a answer) cancelWord() string {
	if a.Error == "" {
		return a.State
	}
	return a.Error
}

// pause waits for d, or until ctx ends. It paces the load; no test waits by it.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// finish waits until everything is pushed and has arrived, and nothing is left in the intake and in Redis.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.wait()
	if !l.byHTTP {
		l.s.taken(l.js)
	}
	lab.Eventually(t, patience, func() error {
		if n, example := l.h.missing(); n > 0 {
			return fmt.Errorf("%d messages have not arrived, one of them %d on %s, due %s", n, example.seq,
				example.subject, stamp(example.notBefore))
		}
		return nil
	})
	rdb := l.s.client()
	lab.Eventually(t, patience, func() error { return l.s.drained(rdb) })
}

// judge ends a story: the load is done, the history is held against the promises.
func (l *load) judge(t *testing.T) {
	t.Helper()
	l.h.leaders = leaderships(t, l.s.instances)
	report(t, check(l.h.snapshot()))
	kept, arrivals := l.h.counts()
	if kept < l.total*9/10 {
		t.Errorf("only %d of %d pushes were acknowledged", kept, l.total)
	}
	words := map[string]int{}
	for _, c := range l.h.canceled {
		words[c.word]++
	}
	if words["internal"] > 0 {
		t.Errorf("%d cancels failed inside", words["internal"])
	}
	late := lateness(l.h)
	t.Logf("%d pushed, %d acknowledged, %d tries repeated, %d arrivals of %d messages, cancels %v, %d leaderships",
		l.total, kept, l.retried.Load(),
		arrivals, len(late), words, len(l.h.leaders))
	t.Logf("late by %s in the middle, %s at 99 %%, %s at most", late[len(late)/2], late[len(late)*99/100],
		late[len(late)-1])
}

// lateness is by how much the first arrival of each message was late, in order.
func lateness(h *history) []time.Duration {
	first := map[int]time.Time{}
	for _, a := range h.arrivals {
		if at, ok := first[a.seq]; !ok || a.at.Before(at) {
			first[a.seq] = a.at
		}
	}
	var late []time.Duration
	for seq, at := range first {
		if s := h.sent[seq]; s != nil {
			late = append(late, at.Sub(s.notBefore))
		}
	}
	slices.Sort(late)
	return append(late, 0)[:max(len(late), 1)]
}
