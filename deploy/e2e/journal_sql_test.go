package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// outage is how long the database stays away: longer than every time-out of tarry's.
func outage() time.Duration {
	if os.Getenv("TARRY_LONG") != "" {
		return 30 * time.Second
	}
	return 10 * time.Second
}

// special pushes one message that is due at a time, outside the load's own numbers, until it is acknowledged.
func (l *load) special(t *testing.T, seq int, due time.Time) *message {
	t.Helper()
	k := maker{seed: l.make.seed + 1000, spread: time.Second, core: l.make.core}
	m := k.make(specials+seq, time.Now())
	m.at, m.notBefore, m.cancel = due.Truncate(time.Millisecond), due.Truncate(time.Millisecond), false
	l.h.pushed(&m.sent)
	l.http(t, m)
	if !m.kept {
		t.Errorf("message %d was not acknowledged", m.seq)
	}
	return m
}

// specials is above every number of a load.
const specials = 1_000_000

// probe is one push of a series, and how it was answered.
type probe struct {
	m      *message
	at     time.Time
	took   time.Duration
	status int
	word   string
}

// probes pushes a message through each instance several times a second for a while, each once, and returns the answers.
func (l *load) probes(from int, d time.Duration) (found []probe) {
	k := maker{seed: l.make.seed + 2000, spread: time.Second, core: l.make.core}
	for begun := time.Now(); time.Since(begun) < d; pause(l.ctx, 250*time.Millisecond) {
		for _, door := range l.doors {
			m := k.make(specials+specials+from+len(found), time.Now())
			m.id, m.cancel = fmt.Sprintf("probe %d", m.seq), false
			l.h.pushed(&m.sent)
			p := probe{m: m, at: time.Now()}
			a, err := door.call(l.ctx, http.MethodPost, "/v1/messages", m.json())
			p.took, p.status, p.word = time.Since(p.at), a.status, a.Error
			if err != nil {
				p.word = err.Error()
			}
			if a.status == http.StatusCreated {
				l.h.acknowledged(&m.sent, a.UID, a.Due.UnixMilli(), m.last(time.Now()))
			}
			found = append(found, p)
		}
	}
	return found
}

// again pushes what was not acknowledged once more, under the same id: a careful producer.
func (l *load) again(t *testing.T, probes []probe) {
	for _, p := range probes {
		if !p.m.kept {
			l.http(t, p.m)
		}
	}
}

// refusedFast holds the answers of a time without a database to what a client can live with: no success, and after the
// first few, which waited for their commit, at once.
func refusedFast(t *testing.T, what string, probes []probe) {
	t.Helper()
	words := map[string]int{}
	var took []time.Duration
	for _, p := range probes {
		words[fmt.Sprint(p.status, " ", p.word)]++
		took = append(took, p.took)
		late := p.at.Sub(probes[0].at) > 4*time.Second
		known := p.status == http.StatusServiceUnavailable && p.word == "unavailable" ||
			p.status == http.StatusGatewayTimeout && p.word == "outcome_unknown" ||
			p.status == 0 && p.took >= web.Timeout // the client waited no longer
		if !known {
			t.Errorf("%s: a push was answered %d %s", what, p.status, p.word)
		}
		if late && (p.took > 500*time.Millisecond || p.status != http.StatusServiceUnavailable) {
			t.Errorf("%s for %s: a push was answered %d %s after %s", what, p.at.Sub(probes[0].at), p.status,
				p.word, p.took)
		}
	}
	slices.Sort(took)
	t.Logf("%s: %v, answered within %s, half of them within %s", what, words, took[len(took)-1], took[len(took)/2])
}

// onTime holds messages to their due times.
func onTime(t *testing.T, h *history, what string, messages []*message, limit time.Duration) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	first := map[int]time.Time{}
	for _, a := range h.arrivals {
		if _, seen := first[a.seq]; !seen {
			first[a.seq] = a.at
		}
	}
	var most time.Duration
	for _, m := range messages {
		at, came := first[m.seq]
		if !came {
			t.Errorf("%s: message %d, due %s, has not come", what, m.seq, stamp(m.notBefore))
			continue
		}
		most = max(most, at.Sub(m.notBefore))
	}
	if most > limit {
		t.Errorf("%s: a message came %s late", what, most)
	}
	t.Logf("%s: %d messages came at most %s late", what, len(messages), most)
}

func TestInSyncADatabaseThatIsAwayHoldsUpPushesAndNothingElse(t *testing.T) {
	s, a, b, h := pair(t, "sync", lab.NewMariaDB(t))
	l := &load{s: s, h: h, make: maker{seed: 31, spread: 2 * time.Second, burst: time.Second}, least: 300, rate: 40,
		doors: s.instances}
	l.begin(t)
	moment(t, h, "a burst", inBurst)
	away := func(from int, what string, d time.Duration, gone, back func()) {
		t.Helper()
		var due []*message
		for i := range 40 {
			due = append(due, l.special(t, from+i, time.Now().Add(2*time.Second+time.Duration(i)*(d-2*time.Second)/40)))
		}
		gone()
		probes := l.probes(from, d)
		refusedFast(t, what, probes)
		onTime(t, h, what,
			slices.DeleteFunc(due, func(m *message) bool { return time.Since(m.notBefore) < time.Second }), time.Second)
		back()
		begun := time.Now()
		s.accepts(a)
		s.accepts(b)
		t.Logf("%s: every instance accepted pushes %s after it was back", what,
			time.Since(begun).Round(time.Millisecond))
		l.again(t, probes)
		moment(t, h, "a burst", inBurst)
	}
	away(0, "the database stands still", outage(), s.db.Pause, s.db.Resume)
	away(1000, "the database is dead", 6*time.Second, s.db.Kill, s.db.Restart)
	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

func TestInAsyncADatabaseThatIsAwayHoldsUpNothing(t *testing.T) {
	s := newSite(t, siteOptions{})
	s.journal("async", lab.NewMariaDB(t))
	s.start("a")
	s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	s.explain(h)
	l := &load{s: s, h: h, make: maker{seed: 32, spread: 2 * time.Second, burst: time.Second}, least: 300, rate: 60,
		doors: s.instances}
	l.begin(t)
	for i, c := range []struct {
		what       string
		gone, back func()
	}{{"the database stands still", s.db.Pause, s.db.Resume}, {"the database is dead", s.db.Kill, s.db.Restart}} {
		moment(t, h, "a burst", inBurst)
		c.gone()
		probes := l.probes(1000*i, outage()/2)
		var pushed []*message
		for _, p := range probes {
			if p.status != http.StatusCreated || p.took > time.Second {
				t.Errorf("%s: a push was answered %d %s after %s", c.what, p.status, p.word, p.took)
			}
			if time.Since(p.m.last(p.at)) > time.Second {
				pushed = append(pushed, p.m)
			}
		}
		onTime(t, h, c.what, pushed, time.Second)
		c.back()
		begun := time.Now()
		s.emptiedTo(50)
		t.Logf("%s: the outbox has drained %s after it was back", c.what, time.Since(begun).Round(time.Millisecond))
	}
	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

// emptiedTo waits until no more changes than that are in the outbox, while the load continues.
func (s *site) emptiedTo(limit int64) {
	s.t.Helper()
	rdb := s.client()
	lab.Eventually(s.t, patience, func() error {
		changes, _, err := s.lag(rdb)
		if err == nil && changes > limit {
			err = fmt.Errorf("%d changes stand in the outbox", changes)
		}
		return err
	})
}

// The database's disk runs full. It may hang, refuse, or crash.
func TestADatabaseWithoutRoomHoldsUpPushesAndNothingElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("a file system of its own needs root, as in CI")
	}
	s := newSite(t, siteOptions{})
	disk := t.TempDir()
	mount(t, "-t", "tmpfs", "-o", "size=100m", "tmpfs", disk)
	t.Cleanup(func() { // after the server has stopped
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	s.journal("sync", lab.NewMariaDBIn(t, disk+"/data"))
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	s.explain(h)
	l := &load{s: s, h: h, make: maker{seed: 33, spread: 2 * time.Second, burst: time.Second}, least: 200, rate: 30,
		doors: s.instances}
	l.begin(t)
	moment(t, h, "a burst", inBurst)
	var due []*message
	for i := range 40 {
		due = append(due, l.special(t, i, time.Now().Add(8*time.Second+time.Duration(i)*100*time.Millisecond)))
	}
	// Something else takes all the room, and large messages what the database has put by.
	fill, err := os.Create(disk + "/other")
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for block := make([]byte, 64<<10); err == nil; {
		_, err = fill.Write(block)
	}
	large := strings.Repeat("large ", 40_000)
	refused := ""
	lab.Eventually(t, patience, func() error {
		answer, err := a.call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.large", "delay": "1h", "body": large})
		if err != nil || answer.status != http.StatusCreated {
			refused = fmt.Sprint(answer.status, " ", answer.Error, " ", err)
			return nil
		}
		return errors.New("the database still has room")
	})
	t.Logf("full: %s; the server runs: %v", refused, s.db.Running())
	probes := l.probes(0, max(time.Until(due[39].notBefore.Add(time.Second)), 6*time.Second))
	refusedFast(t, "the disk is full", probes)
	onTime(t, h, "the disk is full", due, time.Second)

	mount(t, "-o", "remount,size=400m", disk)
	if err := os.Remove(disk + "/other"); err != nil {
		t.Fatal(err)
	}
	fill.Close()
	begun := time.Now()
	revived := make(chan struct{})
	go func() { // a server that has crashed is started again, as systemd does
		defer close(revived)
		select {
		case <-s.db.Exited():
		case <-time.After(2 * time.Second):
		}
	}()
	<-revived
	if !s.db.Running() {
		t.Log("the server had crashed")
		s.db.Restart()
	}
	s.accepts(a)
	s.accepts(b)
	t.Logf("every instance accepted pushes %s after there was room", time.Since(begun).Round(time.Millisecond))
	l.again(t, probes)
	for _, left := range s.query("SELECT uid FROM messages WHERE topic = 'quiet.large' AND state = 1", 1) {
		if answer := s.must(a, http.MethodDelete, "/v1/messages/"+left[0], nil); answer.State != "canceled" {
			t.Errorf("cancel %s: %d %s", left[0], answer.status, answer.raw)
		}
	}
	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
}

func mount(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Fatalf("mount %v: %v: %s", args, err, out)
	}
}

// An outbox that may hold little: when it is full pushes are refused, and due messages are still delivered.
func TestAnOutboxAtItsLimitRefusesPushesAndNothingElse(t *testing.T) {
	t.Parallel()
	s, a, b, h := pair(t, "async", lab.NewMariaDB(t), "TARRY_JOURNAL_OUTBOX=1MiB")
	l := &load{s: s, h: h, make: maker{seed: 34, spread: 2 * time.Second, burst: time.Second}, least: 100, rate: 20,
		doors: s.instances}
	l.begin(t)
	moment(t, h, "a burst", inBurst)
	var due []*message
	for i := range 60 {
		due = append(due, l.special(t, i, time.Now().Add(3*time.Second+time.Duration(i)*50*time.Millisecond)))
	}
	s.db.Pause()
	// Bulk through b, until every bucket refuses.
	body := strings.Repeat("bulk ", 2000)
	var bulk []string
	inARow := 0
	lab.Eventually(t, patience, func() error {
		answer := s.must(b, http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.bulk", "delay": "1h", "body": body})
		switch {
		case answer.status == http.StatusCreated:
			bulk, inARow = append(bulk, answer.UID), 0
			if !strings.Contains(answer.raw, `"durable":"redis"`) {
				t.Errorf("a push in async mode: %s", answer.raw)
			}
		case answer.status == http.StatusServiceUnavailable && answer.Error == "journal_behind":
			inARow++
		default:
			t.Errorf("a push into a full outbox: %d %s", answer.status, answer.raw)
		}
		if inARow < 20 {
			return fmt.Errorf("%d pushes taken, the last %d refused", len(bulk), inARow)
		}
		return nil
	})
	if held := len(bulk) * len(body); held < 700<<10 || held > 1300<<10 {
		t.Errorf("the outbox took %d bytes of bodies, its limit is 1 MiB", held)
	}
	if wait := time.Until(due[59].notBefore.Add(time.Second)); wait > 0 {
		pause(t.Context(), wait)
	}
	onTime(t, h, "the outbox is full", due, time.Second)
	// A cancel is no new message.
	if answer := s.must(a, http.MethodDelete, "/v1/messages/"+bulk[0], nil); answer.State != "canceled" {
		t.Errorf("cancel with a full outbox: %d %s", answer.status, answer.raw)
	}
	s.db.Resume()
	begun := time.Now()
	s.accepts(a)
	s.accepts(b)
	t.Logf("%d messages filled the outbox; every instance accepted pushes %s after the database was back", len(bulk),
		time.Since(begun).Round(time.Millisecond))
	for _, uid := range bulk[1:] {
		if answer := s.must(a, http.MethodDelete, "/v1/messages/"+uid, nil); answer.State != "canceled" {
			t.Errorf("cancel: %d %s", answer.status, answer.raw)
		}
	}
	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
}
