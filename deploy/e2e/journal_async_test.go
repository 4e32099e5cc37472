package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// What async mode loses with Redis is never more than the lag reported just before.
func TestInAsyncALossIsNeverAboveTheLagReported(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.journal("async", lab.NewMariaDB(t))
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	h.lossy = true
	s.consume(h)
	l := &load{s: s, h: h, make: maker{seed: 35, spread: 10 * time.Second}, least: 100, rate: 120,
		doors: s.instances, byHTTP: true}
	l.begin(t)
	for range 5 {
		moment(t, h, "a delivery", anything)
	}
	s.db.Pause()
	pause(t.Context(), 2*time.Second) // a lag gathers
	l.wait()
	// No more requests are made: what can be lost is in the outbox. The lag still grows by what is delivered.
	rdb := s.client()
	asked, _, err := s.lag(rdb)
	if err != nil {
		t.Fatal(err)
	}
	reported := int64(0)
	lab.Eventually(t, patience, func() error { // it is measured every second
		if reported = s.metric(a, "tarry_journal_lag_changes"); reported < max(asked, 100) {
			return fmt.Errorf("the reported lag is %d changes; it was %d", reported, asked)
		}
		return nil
	})
	kept, _ := h.counts()
	before := s.certified()
	closed := h.open("FLUSHALL", time.Now())
	lag, _, err := s.lag(rdb)
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.db.Resume()
	s.whole(before, a, b)
	s.settled(0, closed)
	s.emptied()
	lab.Eventually(t, patience, func() error { return s.drained(rdb) })
	s.emptied()
	h.leaders = leaderships(t, s.instances)

	lost := map[int]bool{}
	var found []violation
	for _, v := range check(h.snapshot()) {
		switch {
		case v.rule == ruleLost, v.rule == ruleCanceled: // a push, or a cancel
			lost[v.seq] = true
		default:
			found = append(found, v)
		}
	}
	report(t, found)
	rows := s.rows()
	gone := map[int]bool{} // changes that happened and are not in the journal
	bySeq := map[int]*row{}
	for _, r := range rows {
		bySeq[r.seq] = r
	}
	for seq, m := range h.sent {
		if m.kept && bySeq[seq] == nil {
			gone[seq] = true
		}
	}
	if n := len(lost); int64(n) > reported {
		t.Errorf("%d pushes and cancels were lost, and the reported lag was %d changes", n, reported)
	}
	if n := len(gone); int64(n) > reported {
		t.Errorf("%d acknowledged messages are not in the journal, and the reported lag was %d changes", n, reported)
	}
	if len(lost) == 0 {
		t.Error("nothing was lost: the lag was none")
	}
	if lag > int64(kept)*2 {
		t.Errorf("the lag was %d changes, and %d messages were pushed", lag, kept)
	}
	t.Logf("%d acknowledged, reported lag %d changes (%d when all was lost), %d pushes and cancels lost, %d messages "+
		"not in the journal",
		kept, reported, lag, len(lost), len(gone))
	s.oneLeader()
	l.probesTaken(t)
}

// probesTaken: after a loss the doors are as open as before.
func (l *load) probesTaken(t *testing.T) {
	t.Helper()
	for _, i := range l.doors {
		l.s.accepts(i)
	}
}

// metric is a gauge of an instance without labels; -1 while it is not there.
func (s *site) metric(i *instance, name string) int64 {
	s.t.Helper()
	for line := range strings.Lines(s.must(i, http.MethodGet, "/metrics", nil).raw) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.t.Error(err)
			}
			return int64(f)
		}
	}
	return -1
}
