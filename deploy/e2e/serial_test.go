package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// lines are consumers of messages of which one of a key comes at a time.
type lines struct {
	s    *site.Site
	mu   sync.Mutex
	held map[string]time.Time // by key: until when a message of it is leased
	last map[string]int       // by key: the number of the last message that came first
	void bool                 // Redis has lost its data: until it is whole, nothing is known of leases
	// passed are messages that were overtaken once Redis had lost its data: a retry that waited then has no key any more.
	// Nobody need have had its first try: the answer of a poll was lost, perhaps.
	passed map[string]bool
	lost   bool
}

type lineMessage struct {
	Key, Body, Receipt string
	Attempt            int
	Until              time.Time `json:"lease_until"`
}

// take pulls from the topic at an instance.
func take(s *site.Site, from *site.Instance, topic string, body map[string]any) (all []lineMessage, err error) {
	a, err := from.Call(s.T.Context(), http.MethodPost, "/v1/topics/"+topic+"/pull", body)
	if err != nil || a.Status != http.StatusOK {
		return nil, fmt.Errorf("pull: %d %s, %w", a.Status, a.Raw, err)
	}
	var batch struct{ Messages []lineMessage }
	err = json.Unmarshal([]byte(a.Raw), &batch)
	return batch.Messages, err
}

func (l *lines) work(seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	for {
		select {
		case <-stop:
			return
		default:
		}
		door := l.s.Instances[rnd.IntN(len(l.s.Instances))]
		batch, err := take(l.s, door, "work.line", map[string]any{"max": 3, "lease": "1s", "wait": "1s"})
		if err != nil {
			site.Pause(l.s.T.Context(), 100*time.Millisecond)
			continue
		}
		for _, m := range batch {
			l.came(m)
		}
		for _, m := range batch {
			verb := "ack"
			switch rnd.IntN(12) {
			case 0:
				continue // it lapses
			case 1:
				verb = "nack"
			case 2:
				verb = "release"
			}
			l.settle(door, m, verb)
		}
	}
}

func (l *lines) came(m lineMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if until := l.held[m.Key]; !l.void && now.Add(clocksApart).Before(until) {
		l.s.T.Errorf("two of the key %s are leased: %s came %s before the lease of the other was over", m.Key, m.Body,
			until.Sub(now))
	}
	l.held[m.Key] = m.Until
	var number int
	if _, err := fmt.Sscanf(m.Body, "%d", &number); err != nil {
		l.s.T.Error(err)
	}
	if l.passed[m.Key+" "+m.Body] && m.Attempt == 1 {
		l.s.T.Errorf("number %d of the key %s was overtaken, and is no retry", number, m.Key)
	}
	delete(l.passed, m.Key+" "+m.Body)
	for n := l.last[m.Key] + 1; m.Attempt == 1 && n < number; n++ {
		if l.passed[fmt.Sprint(m.Key, " ", n)] = true; !l.lost {
			l.s.T.Errorf("number %d of the key %s came before number %d", number, m.Key, n)
		}
	}
	l.last[m.Key] = max(l.last[m.Key], number)
}

func (l *lines) settle(door *site.Instance, m lineMessage, verb string) {
	l.mu.Lock()
	held := l.held[m.Key]
	delete(l.held, m.Key) // from the call on
	l.mu.Unlock()
	a, err := door.Call(l.s.T.Context(), http.MethodPost, "/v1/leases/"+m.Receipt+"/"+verb, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && a.Status == http.StatusOK, time.Now().After(held):
	default:
		l.void = true // whether it was settled is not known
	}
}

// Of a key one message is leased at a time, over instances, through the death of the leader and the loss of Redis, and
// first leases are in order. What waits behind is counted, and woken by whatever ends the one before.
func TestOfAKeyOneComesAtATime(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.NewMariaDB(t))
	settings := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(settings, []byte("topics: [{pattern: work.>, deliver: pull, serial: true, retry: '0*50'}]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.Settings = append(s.Settings, "TARRY_CONFIG="+settings)
	a, b := s.Start("a"), s.Start("b")
	const keys, each = 8, 20
	l := &lines{s: s, held: map[string]time.Time{}, last: map[string]int{}, passed: map[string]bool{}}
	due := time.Now().Add(2 * time.Second)
	for i := range keys * each {
		s.Push(s.Instances[i%2], map[string]any{"topic": "work.line", "key": fmt.Sprint("key", i%keys),
			"body": fmt.Sprint(1 + i/keys), "at": due.Add(time.Duration(i/keys) * time.Millisecond).Format(time.RFC3339Nano),
			"priority": i / keys})
	}
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { l.work(uint64(i), stop) })
	}
	end := sync.OnceFunc(func() {
		close(stop)
		workers.Wait()
	})
	t.Cleanup(end)
	down := func(to int) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			c, err := b.Call(t.Context(), http.MethodGet, "/v1/topics/work.line", nil)
			var left struct{ Waiting, Ready, InFlight int }
			if err == nil {
				err = json.Unmarshal([]byte(strings.ReplaceAll(c.Raw, "in_flight", "InFlight")), &left)
			}
			if n := left.Waiting + left.Ready + left.InFlight; err == nil && (c.Status != http.StatusOK || n > to) {
				err = fmt.Errorf("%d are left: %d %s", n, c.Status, c.Raw)
			}
			return err
		})
	}
	down(keys * each * 2 / 3)
	leader, term := s.Leader(0, a, b)
	leader.Kill()
	s.Leader(term, s.Others(leader)...)
	leader.Restart()
	s.Ready(leader)
	down(keys * each / 3)
	l.mu.Lock()
	l.void, l.lost = true, true
	l.mu.Unlock()
	before := s.Certified()
	if err := s.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Whole(before, a, b)
	site.Pause(t.Context(), 2*time.Second) // every lease of before is over
	l.mu.Lock()
	l.void, l.held = false, map[string]time.Time{}
	l.mu.Unlock()
	down(0)
	end()
	if len(l.passed) > 0 {
		t.Errorf("what was overtaken has not come: %v", l.passed)
	}
	for key, number := range l.last {
		if number != each {
			t.Errorf("of the key %s number %d came last", key, number)
		}
	}
	wakes(s, a, b)
	s.Says(a, 0, "", "verify")
}

// wakes measures how long the next of a key takes from the end of the one before, beside what a message takes that
// waits for nothing, since a machine that does other things too has no absolute time.
func wakes(s *site.Site, a, b *site.Instance) {
	s.T.Helper()
	push := func(topic, key string, n int) string {
		return s.Push(a, map[string]any{"topic": topic, "key": key, "body": fmt.Sprint(n), "delay": 0}).UID
	}
	// polled returns what a poll got that waited before the call, and how long after the call's beginning.
	polled := func(topic string, call func()) (lineMessage, time.Duration) {
		s.T.Helper()
		type came struct {
			all []lineMessage
			at  time.Time
			err error
		}
		waits := make(chan came, 1)
		go func() {
			all, err := take(s, b, topic, map[string]any{"max": 5, "wait": "20s", "lease": "1m"})
			waits <- came{all, time.Now(), err}
		}()
		lab.Eventually(s.T, site.Patience, func() error {
			if s.Metric(b, "tarry_polls") == 0 {
				return fmt.Errorf("no poll waits")
			}
			return nil
		})
		began := time.Now()
		call()
		got := <-waits
		if got.err != nil || len(got.all) != 1 {
			s.T.Fatalf("a poll of %s got %v, %v", topic, got.all, got.err)
		}
		return got.all[0], got.at.Sub(began)
	}
	var uid string
	one, _ := polled("work.wake", func() { uid = push("work.wake", "k", 0) })
	var took, free []time.Duration
	for n := 1; n <= 21; n++ {
		_, alone := polled("work.free", func() { push("work.free", fmt.Sprint("key", n), n) })
		next := push("work.wake", "k", n)
		if c := s.Must(b, http.MethodGet, "/v1/topics/work.wake", nil); !jsonHas(c.Raw, "held", 1) {
			s.T.Fatalf("one is behind, and the topic is %s", c.Raw)
		}
		settle := func(verb string, body any) {
			s.Must(a, http.MethodPost, "/v1/leases/"+one.Receipt+"/"+verb, body)
		}
		end := func() { settle("ack", nil) }
		switch n % 3 {
		case 0: // it waits for its retry, and is canceled
			settle("nack", map[string]any{"delay": "15h"})
			end = func() { s.Must(a, http.MethodDelete, "/v1/messages/"+uid, nil) }
		case 2:
			end = func() { settle("dead", map[string]any{"reason": "x"}) }
		}
		woken, after := polled("work.wake", end)
		if woken.Body != fmt.Sprint(n) {
			s.T.Fatalf("after number %d came %s", n-1, woken.Body)
		}
		took, free, one, uid = append(took, after), append(free, alone), woken, next
	}
	slices.Sort(took)
	slices.Sort(free)
	if median, alone := took[len(took)/2], free[len(free)/2]; median > 2*alone+50*time.Millisecond {
		s.T.Errorf("the next of a key comes %s after the one before has ended, one that waits for nothing after %s: "+
			"%v and %v", median, alone, took, free)
	}
}

// jsonHas reports whether an object has a number under a name.
func jsonHas(raw, name string, want float64) bool {
	var all map[string]any
	return json.Unmarshal([]byte(raw), &all) == nil && all[name] == want
}
