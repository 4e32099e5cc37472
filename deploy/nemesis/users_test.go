//go:build lab

package nemesis_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// users push for consumers that pull and for a webhook, steer what they pushed, pull and settle, and write down what
// they saw.
type users struct {
	t      *testing.T
	s      *site.Site
	seed   uint64
	target *httptest.Server
	ctx    context.Context
	push   sync.WaitGroup // of producers and operators
	pull   sync.WaitGroup
	over   chan struct{} // producers and operators stop
	done   chan struct{} // consumers too

	mu    sync.Mutex
	all   []history.Event
	calls int
	live  map[string]*pushed // by name: acknowledged, and not known to have ended
	said  map[string]int     // what was answered how often
}

// pushed is a message of theirs.
type pushed struct {
	name, uid, topic string
	edits            int
}

const (
	pushEvery = 40 * time.Millisecond
	lease     = 2 * time.Second
	pullers   = 6
	retries   = `"0*40"`
)

func newUsers(s *site.Site, seed uint64) *users {
	u := &users{t: s.T, s: s, seed: seed, over: make(chan struct{}), done: make(chan struct{}), live: map[string]*pushed{},
		said: map[string]int{}}
	u.target = httptest.NewServer(http.HandlerFunc(u.posted))
	s.T.Cleanup(u.target.Close)
	return u
}

// topics is the settings file of the instances.
func (u *users) topics() string {
	return fmt.Sprintf(`webhook: {allow: [127.0.0.1]}
topics:
- {pattern: work.*, deliver: pull, retry: %[1]s}
- {pattern: line, deliver: pull, serial: true, retry: %[1]s}
- {pattern: hook.*, deliver: webhook, retry: %[1]s, webhook: {url: %[2]q, timeout: 2s, secrets: [%[3]s]}}
`, retries, u.target.URL, "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
}

// begin starts them.
func (u *users) begin() {
	ctx, stop := context.WithCancel(u.t.Context())
	u.ctx = ctx
	u.t.Cleanup(func() { stop(); u.push.Wait(); u.pull.Wait() })
	u.push.Go(u.produce)
	u.push.Go(u.operate)
	for i := range pullers {
		u.pull.Go(func() { u.consume(i) })
	}
}

// finish lets producers and operators end, and waits until every message has ended; then consumers end too.
func (u *users) finish() {
	u.t.Helper()
	close(u.over)
	u.push.Wait()
	u.settled()
	lab.Eventually(u.t, 2*site.Patience, u.ended)
	close(u.done)
	u.pull.Wait()
}

// settled waits until no topic of theirs has more ready messages than consumers and webhooks take in a moment. They
// push five a second to each.
func (u *users) settled() {
	u.t.Helper()
	lab.Eventually(u.t, site.Patience, func() error {
		for _, topic := range []string{"work.0", "work.1", "line", "hook.0", "hook.1"} {
			a, err := u.s.Instances[0].Call(u.ctx, http.MethodGet, "/v1/topics/"+topic, nil)
			var has struct{ Ready int }
			if err == nil {
				err = json.Unmarshal([]byte(a.Raw), &has)
			}
			if err == nil && a.Status != http.StatusOK && a.Status != http.StatusNotFound {
				err = fmt.Errorf("%s", a.Raw)
			}
			if err == nil && has.Ready > 20 {
				err = fmt.Errorf("%d messages of %s are ready", has.Ready, topic)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ended asks for each message that is not known to have ended what became of it, and returns an error while one lives.
func (u *users) ended() error {
	u.mu.Lock()
	left := slices.Collect(maps.Values(u.live))
	u.mu.Unlock()
	var lives error
	for _, m := range left {
		a, err := u.any().Call(u.ctx, http.MethodGet, "/v1/messages/"+m.uid, nil)
		switch {
		case err != nil || a.Status >= http.StatusInternalServerError:
			lives = fmt.Errorf("ask for %s: %s %w", m.name, a.Raw, err)
		case a.State == "waiting" || a.State == "ready" || a.State == "in_flight":
			lives = fmt.Errorf("%d messages have not ended, one of them %s: %s", len(left), m.name, a.Raw)
		case a.Status != http.StatusOK:
			u.t.Errorf("%s, which was accepted as %s: %d %s", m.name, m.uid, a.Status, a.Raw)
			u.forget(m.name)
		default:
			u.forget(m.name)
			u.tell(history.Event{Kind: history.End, Message: m.name, Word: a.State})
		}
	}
	return lives
}

func (u *users) any() *site.Instance { return u.s.Instances[rand.IntN(len(u.s.Instances))] }

func (u *users) tell(e history.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e.At = time.Now()
	u.all = append(u.all, e)
	u.said[e.Kind]++
}

// call tells that a call begins. The function that it returns tells how it ended.
func (u *users) call(begun history.Event) (answered func(history.Event)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	begun.At, begun.Phase, begun.Call = time.Now(), history.Invoke, u.calls
	u.all = append(u.all, begun)
	return func(ended history.Event) {
		u.mu.Lock()
		defer u.mu.Unlock()
		ended.At, ended.Kind, ended.Call, ended.Message = time.Now(), begun.Kind, begun.Call, begun.Message
		u.all = append(u.all, ended)
		what := begun.Kind
		if begun.Kind == history.Settle {
			what = begun.Word
		}
		u.said[what+" "+ended.Phase]++
	}
}

// fault tells that something begins which explains what a word names.
func (u *users) fault(word, why string) (over func()) {
	end := u.call(history.Event{Kind: history.Fault, Word: word, By: why})
	return func() { end(history.Event{Phase: history.OK}) }
}

// faultFrom tells of a fault that explains repeats from a time until now.
func (u *users) faultFrom(begun time.Time, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	e := history.Event{At: begun, Kind: history.Fault, Phase: history.Invoke, Call: u.calls, Word: history.Repeats,
		By: why}
	u.all = append(u.all, e)
	e.At, e.Phase = time.Now(), history.OK
	u.all = append(u.all, e)
}

func (u *users) forget(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.live, name)
}

func (u *users) events() []history.Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.all)
}

func (u *users) counts() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(u.said)) {
		all = append(all, fmt.Sprint(what, " ", u.said[what]))
	}
	return strings.Join(all, ", ")
}

// paced calls do again and again until the producers stop.
func (u *users) paced(every time.Duration, do func(n int)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-u.over:
			return
		case <-u.ctx.Done():
			return
		case <-tick.C:
			do(n)
		}
	}
}

// produce pushes, each message in time, however long the one before takes.
func (u *users) produce() {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	u.paced(pushEvery, func(n int) { waiting.Go(func() { u.one(n) }) })
}

// one pushes a message until it is accepted, as a careful producer does: under one id.
func (u *users) one(n int) {
	name := fmt.Sprint("u", n)
	delay := time.Duration(rand.IntN(5000)) * time.Millisecond
	topic, key := fmt.Sprint("work.", n%2), ""
	switch n % 5 {
	case 0:
		topic = fmt.Sprint("hook.", n%2)
	case 1:
		topic, key = "line", fmt.Sprint("key", n%7)
	}
	begun := time.Now()
	for u.ctx.Err() == nil {
		answered := u.call(history.Event{Kind: history.Push, Message: name, Key: key, Body: name, Due: time.Now().Add(delay)})
		push := map[string]any{"topic": topic, "id": name, "body": name, "delay": delay.String(), "priority": n % 4}
		if key != "" {
			push["key"] = key
		}
		a, err := u.any().Call(u.ctx, http.MethodPost, "/v1/messages", push)
		switch {
		case err == nil && (a.Status == http.StatusCreated || a.Status == http.StatusOK ||
			a.Error == "duplicate_id" && a.State == "dead"): // an earlier sending was kept, and consumers have buried it
			u.mu.Lock()
			u.live[name] = &pushed{name: name, uid: a.UID, topic: topic}
			u.mu.Unlock()
			answered(history.Event{Phase: history.OK, UID: a.UID}) // its due time may be that of a retry by now
			return
		case err == nil && a.Status < http.StatusInternalServerError:
			answered(history.Event{Phase: history.Fail, Word: a.Error})
			u.t.Errorf("a push of %s: %d %s", name, a.Status, a.Raw)
			return
		}
		answered(history.Event{Phase: history.Unknown, Word: a.Error})
		if time.Since(begun) > 2*site.Patience {
			u.t.Errorf("%s is not taken: %d %s %v", name, a.Status, a.Raw, err)
			return
		}
		site.Pause(u.ctx, 100*time.Millisecond)
	}
}

// operate cancels, moves, edits and runs messages.
func (u *users) operate() {
	u.paced(300*time.Millisecond, func(n int) {
		if n%50 == 49 {
			u.pause()
		}
		m, some := u.some()
		if !some {
			return
		}
		switch n % 5 {
		case 0:
			u.cancel(m)
		case 1:
			delay := time.Duration(rand.IntN(4000)) * time.Millisecond
			u.amend(m, http.MethodPatch, "", map[string]any{"delay": delay.String()},
				history.Event{Due: time.Now().Add(delay)})
		case 2:
			u.mu.Lock()
			u.live[m.name].edits++
			body := fmt.Sprint(m.name, " ", u.live[m.name].edits)
			u.mu.Unlock()
			u.amend(m, http.MethodPatch, "", map[string]any{"body": body}, history.Event{Body: body})
		case 3:
			u.amend(m, http.MethodPost, "/run", nil, history.Event{Due: time.Now()})
		case 4:
			u.look(m)
		}
	})
}

// pause pauses a topic for a while, and resumes it until that was answered.
func (u *users) pause() {
	const path = "/v1/topics/work.1/"
	_, _ = u.any().Call(u.ctx, http.MethodPost, path+"pause", nil)
	for begun := time.Now(); u.ctx.Err() == nil; {
		site.Pause(u.ctx, time.Second)
		a, err := u.any().Call(u.ctx, http.MethodPost, path+"resume", nil)
		if err == nil && a.Status < http.StatusInternalServerError {
			return
		}
		if time.Since(begun) > 2*site.Patience {
			u.t.Errorf("a topic cannot be resumed: %d %s %v", a.Status, a.Raw, err)
			return
		}
	}
}

// some returns one that lives.
func (u *users) some() (pushed, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	names := slices.Sorted(maps.Keys(u.live))
	if len(names) == 0 {
		return pushed{}, false
	}
	return *u.live[names[rand.IntN(len(names))]], true
}

func (u *users) cancel(m pushed) {
	answered := u.call(history.Event{Kind: history.Cancel, Message: m.name})
	a, err := u.any().Call(u.ctx, http.MethodDelete, "/v1/messages/"+m.uid, nil)
	word := a.Error
	if word == "" {
		word = a.State
	}
	switch {
	case err != nil || a.Status >= http.StatusInternalServerError || a.Error == "maybe_delivered":
		answered(history.Event{Phase: history.Unknown, Word: word})
	case a.Status == http.StatusOK:
		answered(history.Event{Phase: history.OK, Word: word})
		u.forget(m.name)
	default:
		answered(history.Event{Phase: history.Fail, Word: word})
	}
}

// look asks where a message is.
func (u *users) look(m pushed) {
	answered := u.call(history.Event{Kind: history.Look, Message: m.name})
	a, err := u.any().Call(u.ctx, http.MethodGet, "/v1/messages/"+m.uid, nil)
	switch {
	case err != nil || a.Status >= http.StatusInternalServerError:
		answered(history.Event{Phase: history.Unknown, Word: a.Error})
	case a.Status == http.StatusOK:
		answered(history.Event{Phase: history.OK, Word: a.State})
	default:
		answered(history.Event{Phase: history.Fail, Word: a.Error})
	}
}

// amend changes a message in one way.
func (u *users) amend(m pushed, method, what string, body any, begun history.Event) {
	begun.Kind, begun.Message = history.Reschedule, m.name
	answered := u.call(begun)
	a, err := u.any().Call(u.ctx, method, "/v1/messages/"+m.uid+what, body)
	switch {
	case err != nil || a.Status >= http.StatusInternalServerError:
		answered(history.Event{Phase: history.Unknown, Word: a.Error})
	case a.Status == http.StatusOK || a.Status == http.StatusAccepted && a.UID != "":
		u.mu.Lock()
		if known := u.live[m.name]; known != nil && a.UID != "" {
			known.uid = a.UID // an edit of what was tried
		}
		u.mu.Unlock()
		answered(history.Event{Phase: history.OK, UID: a.UID, Due: a.Due})
	default:
		answered(history.Event{Phase: history.Fail, Word: a.Error})
	}
}

// posted is the webhook's target. It fails now and then.
func (u *users) posted(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	attempt, _ := strconv.Atoi(r.Header.Get("Tarry-Attempt"))
	name, _, _ := strings.Cut(string(body), " ")
	refuses, word := rand.IntN(10) == 0, history.Accepted
	if refuses {
		word = history.Posted
	}
	u.tell(history.Event{Kind: history.Deliver, By: "target", Message: name, UID: r.Header.Get("Webhook-Id"),
		Attempt: attempt, Body: string(body), Word: word})
	if refuses {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	u.forget(name)
}

// leased is a message as a pull returns it.
type leased struct {
	UID, Receipt, Body string
	Attempt            int
	Until              time.Time `json:"lease_until"`
}

// consume pulls and settles until all is over.
func (u *users) consume(which int) {
	for n := 0; ; n++ {
		select {
		case <-u.done:
			return
		case <-u.ctx.Done():
			return
		default:
		}
		topic := []string{"work.0", "work.1", "line"}[(which+n)%3]
		for _, m := range u.pulled(topic, fmt.Sprintf("%d-%d-%d", u.seed, which, n), fmt.Sprint("consumer ", which)) {
			if rand.IntN(8) > 0 {
				u.pull.Go(func() { u.handle(m) })
			} // else it lapses
		}
	}
}

// pulled pulls, and again under the same attempt while no answer comes.
func (u *users) pulled(topic, attempt, consumer string) []leased {
	wait, begun := "500ms", time.Now()
	defer func() { // a lease whose answer nobody got may have been over before the next sending
		if time.Since(begun) > lease {
			u.faultFrom(begun, "a pull without an answer")
		}
	}()
	for sending := 1; sending <= 10 && u.ctx.Err() == nil; sending++ {
		a, err := u.any().Call(u.ctx, http.MethodPost, "/v1/topics/"+topic+"/pull", map[string]any{"max": 8,
			"lease": lease.String(), "consumer": consumer, "wait": wait, "attempt": attempt, "sending": sending})
		if err == nil && a.Status == http.StatusOK {
			var got struct{ Messages []leased }
			if err := json.Unmarshal([]byte(a.Raw), &got); err != nil {
				u.t.Error(err)
			}
			for _, m := range got.Messages {
				name, _, _ := strings.Cut(m.Body, " ")
				u.tell(history.Event{Kind: history.Lease, By: consumer, Message: name, UID: m.UID, Attempt: m.Attempt, Body: m.Body,
					Receipt: m.Receipt, Until: m.Until})
			}
			return got.Messages
		}
		if err == nil && a.Status < http.StatusInternalServerError {
			u.t.Errorf("a pull: %d %s", a.Status, a.Raw)
			return nil
		}
		wait = "0s"
		site.Pause(u.ctx, 50*time.Millisecond)
	}
	return nil
}

// handle takes a while, then settles, mostly by an ack.
func (u *users) handle(m leased) {
	site.Pause(u.ctx, time.Duration(rand.IntN(300))*time.Millisecond)
	switch n := rand.IntN(20); {
	case n < 2:
		u.settle(m, "nack", map[string]any{"delay": "50ms"})
	case n < 4:
		u.settle(m, "release", nil)
	case n < 6:
		u.settle(m, "extend", map[string]any{"lease": "3s"})
		site.Pause(u.ctx, time.Duration(rand.IntN(2500))*time.Millisecond)
		u.settle(m, "ack", nil)
	case n == 6:
		u.settle(m, "dead", map[string]any{"reason": "it is ill"})
	default:
		u.settle(m, "ack", nil)
	}
}

// settle settles a lease, and again until an answer says what became of it.
func (u *users) settle(m leased, verb string, body any) {
	name, _, _ := strings.Cut(m.Body, " ")
	begun := time.Now()
	for ; time.Since(begun) < site.Patience && u.ctx.Err() == nil; site.Pause(u.ctx, 50*time.Millisecond) {
		answered := u.call(history.Event{Kind: history.Settle, Message: name, Word: verb, Receipt: m.Receipt})
		a, err := u.any().Call(u.ctx, http.MethodPost, "/v1/leases/"+m.Receipt+"/"+verb, body)
		var said struct {
			Due   time.Time
			Until time.Time `json:"lease_until"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(a.Raw), &said)
		}
		switch {
		case err != nil || a.Status >= http.StatusInternalServerError:
			answered(history.Event{Phase: history.Unknown, Word: a.Error})
			continue
		case a.Status == http.StatusOK:
			answered(history.Event{Phase: history.OK, Due: said.Due, Until: said.Until})
			if verb == "ack" || verb == "dead" {
				u.forget(name)
			}
		case a.Error == "lease_lost":
			answered(history.Event{Phase: history.Fail})
		default:
			answered(history.Event{Phase: history.Fail, Word: a.Error})
			u.t.Errorf("%s of %s: %d %s", verb, name, a.Status, a.Raw)
		}
		return
	}
	u.t.Errorf("nobody answers the %s of %s", verb, name)
}
