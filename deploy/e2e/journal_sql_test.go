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

	"github.com/tarry-mq/tarry/deploy/e2e/site"
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
func special(l *site.Load, t *testing.T, seq int, due time.Time) *site.Message {
	t.Helper()
	k := site.Maker{Seed: l.Make.Seed + 1000, Spread: time.Second, Core: l.Make.Core}
	m := k.Make(specials+seq, time.Now())
	m.At, m.NotBefore, m.Cancel = due.Truncate(time.Millisecond), due.Truncate(time.Millisecond), false
	l.H.Pushed(&m.Sent)
	l.Http(t, m)
	if !m.Kept {
		t.Errorf("message %d was not acknowledged", m.Seq)
	}
	return m
}

// specials is above every number of a load.
const specials = 1_000_000

// probe is one push of a series, and how it was answered.
type probe struct {
	m      *site.Message
	at     time.Time
	took   time.Duration
	status int
	word   string
	proved bool // it was confirmed, and at that moment had what it was confirmed for
}

// probes pushes a message through each instance several times a second for a while, each once, and returns the answers.
// What is confirmed is proved at once, unless prove is nil.
func probes(l *site.Load, from int, d time.Duration, prove func(uid string) bool) (found []probe) {
	k := site.Maker{Seed: l.Make.Seed + 2000, Spread: time.Second, Core: l.Make.Core}
	for begun := time.Now(); time.Since(begun) < d; site.Pause(l.Ctx, 250*time.Millisecond) {
		for _, door := range l.Doors {
			m := k.Make(specials+specials+from+len(found), time.Now())
			m.Id, m.Cancel = fmt.Sprintf("probe %d", m.Seq), false
			l.H.Pushed(&m.Sent)
			p := probe{m: m, at: time.Now()}
			a, err := door.Call(l.Ctx, http.MethodPost, "/v1/messages", m.Json())
			p.took, p.status, p.word = time.Since(p.at), a.Status, a.Error
			if err != nil {
				p.word = err.Error()
			}
			if a.Status == http.StatusCreated {
				p.proved = prove != nil && prove(a.UID)
				l.H.Acknowledged(&m.Sent, a.UID, a.Due.UnixMilli(), m.Last(time.Now()))
			}
			found = append(found, p)
		}
	}
	return found
}

// again pushes what was not acknowledged once more, under the same id: a careful producer.
func again(l *site.Load, t *testing.T, probes []probe) {
	for _, p := range probes {
		if !p.m.Kept {
			l.Http(t, p.m)
		}
	}
}

// refusedFast holds the answers of a time without a database to what a client can live with: no success, and after the
// first few, which waited for their commit, within the limit.
func refusedFast(t *testing.T, what string, probes []probe, limit time.Duration) {
	t.Helper()
	words := map[string]int{}
	var took []time.Duration
	for _, p := range probes {
		words[fmt.Sprint(p.status, " ", p.word)]++
		took = append(took, p.took)
		late := p.at.Sub(probes[0].at) > 4*time.Second
		known := p.status == http.StatusServiceUnavailable && p.word == "unavailable" ||
			p.status == http.StatusGatewayTimeout && p.word == "outcome_unknown" ||
			p.status == 0 && p.took >= site.Web.Timeout // the client waited no longer
		if !known {
			t.Errorf("%s: a push was answered %d %s", what, p.status, p.word)
		}
		if late && (p.took > limit || p.status != http.StatusServiceUnavailable) {
			t.Errorf("%s for %s: a push was answered %d %s after %s", what, p.at.Sub(probes[0].at), p.status,
				p.word, p.took)
		}
	}
	slices.Sort(took)
	t.Logf("%s: %v, answered within %s, half of them within %s", what, words, took[len(took)-1], took[len(took)/2])
}

// onTime holds messages to their due times.
func onTime(t *testing.T, h *site.History, what string, messages []*site.Message, limit time.Duration) {
	t.Helper()
	h.Mu.Lock()
	defer h.Mu.Unlock()
	first := map[int]time.Time{}
	for _, a := range h.Arrivals {
		if _, seen := first[a.Seq]; !seen {
			first[a.Seq] = a.At
		}
	}
	var most time.Duration
	for _, m := range messages {
		at, came := first[m.Seq]
		if !came {
			t.Errorf("%s: message %d, due %s, has not come", what, m.Seq, site.Stamp(m.NotBefore))
			continue
		}
		most = max(most, at.Sub(m.NotBefore))
	}
	if most > limit {
		t.Errorf("%s: a message came %s late", what, most)
	}
	t.Logf("%s: %d messages came at most %s late", what, len(messages), most)
}

func TestInSyncADatabaseThatIsAwayHoldsUpPushesAndNothingElse(t *testing.T) {
	t.Parallel()
	s, a, b, h := site.Pair(t, "sync", lab.NewMariaDB(t))
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 31, Spread: 2 * time.Second, Burst: time.Second}, Least: 300,
		Rate:  40,
		Doors: s.Instances}
	l.Begin(t)
	site.Moment(t, h, "a burst", inBurst)
	owed := h.Owed(t)
	away := func(from int, what string, d time.Duration, gone, back func()) {
		t.Helper()
		var due []*site.Message
		for i := range 40 {
			due = append(due, special(l, t, from+i, time.Now().Add(2*time.Second+time.Duration(i)*(d-2*time.Second)/40)))
		}
		gone()
		probes := probes(l, from, d, nil)
		refusedFast(t, what, probes, 500*time.Millisecond+owed)
		limit := time.Second + owed
		onTime(t, h, what,
			slices.DeleteFunc(due, func(m *site.Message) bool { return time.Since(m.NotBefore) < limit }), limit)
		back()
		begun := time.Now()
		s.Accepts(a)
		s.Accepts(b)
		t.Logf("%s: every instance accepted pushes %s after it was back", what,
			time.Since(begun).Round(time.Millisecond))
		again(l, t, probes)
		site.Moment(t, h, "a burst", inBurst)
	}
	away(0, "the database stands still", outage(), s.Db.Pause, s.Db.Resume)
	away(1000, "the database is dead", 6*time.Second, s.Db.Kill, s.Db.Restart)
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
}

func TestInAsyncADatabaseThatIsAwayHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("async", lab.NewMariaDB(t))
	s.Start("a")
	s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	s.Explain(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 32, Spread: 2 * time.Second, Burst: time.Second}, Least: 300,
		Rate:  60,
		Doors: s.Instances}
	l.Begin(t)
	limit := time.Second + h.Owed(t)
	for i, c := range []struct {
		what       string
		gone, back func()
	}{{"the database stands still", s.Db.Pause, s.Db.Resume}, {"the database is dead", s.Db.Kill, s.Db.Restart}} {
		site.Moment(t, h, "a burst", inBurst)
		c.gone()
		probes := probes(l, 1000*i, outage()/2, nil)
		var pushed []*site.Message
		for _, p := range probes {
			if p.status != http.StatusCreated || p.took > limit {
				t.Errorf("%s: a push was answered %d %s after %s", c.what, p.status, p.word, p.took)
			}
			if time.Since(p.m.Last(p.at)) > limit {
				pushed = append(pushed, p.m)
			}
		}
		onTime(t, h, c.what, pushed, limit)
		c.back()
		begun := time.Now()
		emptiedTo(s, 50)
		t.Logf("%s: the outbox has drained %s after it was back", c.what, time.Since(begun).Round(time.Millisecond))
	}
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
}

// emptiedTo waits until no more changes than that are in the outbox, while the load continues.
func emptiedTo(s *site.Site, limit int64) {
	s.T.Helper()
	rdb := s.Client()
	lab.Eventually(s.T, site.Patience, func() error {
		changes, _, err := s.Lag(rdb)
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
	s := site.New(t, site.Options{})
	disk := t.TempDir()
	mount(t, "-t", "tmpfs", "-o", "size=100m", "tmpfs", disk)
	t.Cleanup(func() { // after the server has stopped
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	s.Journal("sync", lab.NewMariaDBIn(t, disk+"/data"))
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	s.Explain(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 33, Spread: 2 * time.Second, Burst: time.Second}, Least: 200,
		Rate:  30,
		Doors: s.Instances}
	l.Begin(t)
	site.Moment(t, h, "a burst", inBurst)
	owed := h.Owed(t)
	var due []*site.Message
	for i := range 40 {
		due = append(due, special(l, t, i, time.Now().Add(8*time.Second+time.Duration(i)*100*time.Millisecond)))
	}
	s.Query("CREATE TABLE room (taken LONGTEXT)", 0)
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
	lab.Eventually(t, site.Patience, func() error {
		answer, err := a.Call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.large", "delay": "1h", "body": large})
		if err != nil || answer.Status != http.StatusCreated {
			refused = fmt.Sprint(answer.Status, " ", answer.Error, " ", err)
			return nil
		}
		return errors.New("the database still has room")
	})
	t.Logf("full: %s; the server runs: %v", refused, s.Db.Running())
	// tarry names the cause where the server does. One that hangs or has crashed says nothing.
	for _, path := range []string{"/readyz", "/v1/cluster"} {
		lab.Eventually(t, 2*site.Patience, func() error {
			answer, err := a.Call(t.Context(), http.MethodGet, path, nil)
			if err != nil || strings.Contains(answer.Raw, "the disk is full") {
				return err
			}
			_, err = s.Ask("INSERT INTO room VALUES (REPEAT('taken ', 200000))")
			if err == nil || strings.Contains(err.Error(), "is full") || !strings.Contains(answer.Raw, "journal") {
				return fmt.Errorf("%s (the server itself: %v)", answer.Raw, err)
			}
			t.Logf("the server does not say that its disk is full: %v", err)
			return nil
		})
	}
	// A row may still fit into a page that the server has. The journal is asked for it at the moment of the answer: later
	// the server may have crashed, and once there is room the outbox brings it what was confirmed falsely.
	probes := probes(l, 0, max(time.Until(due[39].NotBefore.Add(time.Second)), 6*time.Second), func(uid string) bool {
		said, err := s.Ask("SELECT COUNT(*) FROM messages WHERE uid = '" + uid + "'")
		t.Logf("%s was confirmed; the journal has it: %q %v", uid, said, err)
		return err == nil && said == "1\n"
	})
	refusals := slices.DeleteFunc(slices.Clone(probes), func(p probe) bool { return p.proved })
	if len(refusals) < len(probes)/2 {
		t.Fatalf("the disk is full: %d of %d pushes were refused", len(refusals), len(probes))
	}
	refusedFast(t, "the disk is full", refusals, 500*time.Millisecond+owed)
	onTime(t, h, "the disk is full", due, time.Second+owed)

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
		case <-s.Db.Exited():
		case <-time.After(2 * time.Second):
		}
	}()
	<-revived
	if !s.Db.Running() {
		t.Log("the server had crashed")
		s.Db.Restart()
	}
	s.Accepts(a)
	s.Accepts(b)
	t.Logf("every instance accepted pushes %s after there was room", time.Since(begun).Round(time.Millisecond))
	again(l, t, probes)
	for _, left := range s.Query("SELECT uid FROM messages WHERE topic = 'quiet.large' AND state = 1", 1) {
		if answer := s.Must(a, http.MethodDelete, "/v1/messages/"+left[0], nil); answer.State != "canceled" {
			t.Errorf("cancel %s: %d %s", left[0], answer.Status, answer.Raw)
		}
	}
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
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
	s, a, b, h := site.Pair(t, "async", lab.NewMariaDB(t), "TARRY_JOURNAL_OUTBOX=1MiB")
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 34, Spread: 2 * time.Second, Burst: time.Second}, Least: 100,
		Rate:  20,
		Doors: s.Instances}
	l.Begin(t)
	site.Moment(t, h, "a burst", inBurst)
	owed := h.Owed(t)
	var due []*site.Message
	for i := range 60 {
		due = append(due, special(l, t, i, time.Now().Add(3*time.Second+time.Duration(i)*50*time.Millisecond)))
	}
	s.Db.Pause()
	// Bulk through b, until every bucket refuses.
	body := strings.Repeat("bulk ", 2000)
	var bulk []string
	inARow := 0
	lab.Eventually(t, site.Patience, func() error {
		answer := s.Must(b, http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.bulk", "delay": "1h", "body": body})
		switch {
		case answer.Status == http.StatusCreated:
			bulk, inARow = append(bulk, answer.UID), 0
			if !strings.Contains(answer.Raw, `"durable":"redis"`) {
				t.Errorf("a push in async mode: %s", answer.Raw)
			}
		case answer.Status == http.StatusServiceUnavailable && answer.Error == "journal_behind":
			inARow++
		default:
			t.Errorf("a push into a full outbox: %d %s", answer.Status, answer.Raw)
		}
		if inARow < 20 {
			return fmt.Errorf("%d pushes taken, the last %d refused", len(bulk), inARow)
		}
		return nil
	})
	if held := len(bulk) * len(body); held < 700<<10 || held > 1300<<10 {
		t.Errorf("the outbox took %d bytes of bodies, its limit is 1 MiB", held)
	}
	if wait := time.Until(due[59].NotBefore.Add(time.Second)); wait > 0 {
		site.Pause(t.Context(), wait)
	}
	onTime(t, h, "the outbox is full", due, time.Second+owed)
	// Nobody waits for the journal longer than the instance has, which is a fifth of http.timeout.
	asked := time.Now()
	answer := s.Must(b, http.MethodGet, "/v1/messages/"+bulk[0]+"/history", nil)
	if took := time.Since(asked); answer.Status != http.StatusServiceUnavailable || took > 5*time.Second {
		t.Errorf("the history, with the database frozen, after %s: %d %s", took, answer.Status, answer.Raw)
	}
	// A cancel is no new message.
	if answer := s.Must(a, http.MethodDelete, "/v1/messages/"+bulk[0], nil); answer.State != "canceled" {
		t.Errorf("cancel with a full outbox: %d %s", answer.Status, answer.Raw)
	}
	s.Db.Resume()
	begun := time.Now()
	s.Accepts(a)
	s.Accepts(b)
	t.Logf("%d messages filled the outbox; every instance accepted pushes %s after the database was back", len(bulk),
		time.Since(begun).Round(time.Millisecond))
	for _, uid := range bulk[1:] {
		if answer := s.Must(a, http.MethodDelete, "/v1/messages/"+uid, nil); answer.State != "canceled" {
			t.Errorf("cancel: %d %s", answer.Status, answer.Raw)
		}
	}
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
}
