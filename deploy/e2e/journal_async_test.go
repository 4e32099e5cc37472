package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// What async mode loses with Redis is never more than the lag reported just before.
func TestInAsyncALossIsNeverAboveTheLagReported(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("async", lab.NewMariaDB(t))
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	h.Lossy = true
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 35, Spread: 10 * time.Second}, Least: 100, Rate: 120,
		Doors: s.Instances, ByHTTP: true}
	l.Begin(t)
	for range 5 {
		site.Moment(t, h, "a delivery", site.Anything)
	}
	s.Db.Pause()
	site.Pause(t.Context(), 2*time.Second) // a lag gathers
	l.Wait()
	// No more requests are made: what can be lost is in the outbox. The lag still grows by what is delivered.
	rdb := s.Client()
	asked, _, err := s.Lag(rdb)
	if err != nil {
		t.Fatal(err)
	}
	reported := int64(0)
	lab.Eventually(t, site.Patience, func() error { // it is measured every second
		if reported = s.Metric(a, "tarry_journal_lag_changes"); reported < max(asked, 100) {
			return fmt.Errorf("the reported lag is %d changes; it was %d", reported, asked)
		}
		return nil
	})
	kept, _ := h.Counts()
	before := s.Certified()
	closed := h.Open("FLUSHALL", time.Now())
	lag, _, err := s.Lag(rdb)
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Db.Resume()
	s.Whole(before, a, b)
	s.Settled(0, closed)
	s.Emptied()
	lab.Eventually(t, site.Patience, func() error { return s.Drained(rdb) })
	s.Emptied()
	h.Leaders = site.Leaderships(t, s.Instances)

	lost := map[int]bool{}
	var found []site.Violation
	for _, v := range site.Check(h.Snapshot()) {
		switch {
		case v.Rule == site.RuleLost, v.Rule == site.RuleCanceled: // a push, or a cancel
			lost[v.Seq] = true
		default:
			found = append(found, v)
		}
	}
	site.Report(t, found)
	rows := s.Rows()
	gone := map[int]bool{} // changes that happened and are not in the journal
	bySeq := map[int]*site.Row{}
	for _, r := range rows {
		bySeq[r.Seq] = r
	}
	for seq, m := range h.Sent {
		if m.Kept && bySeq[seq] == nil {
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
	s.OneLeader()
	probesTaken(l, t)
}

// probesTaken: after a loss the doors are as open as before.
func probesTaken(l *site.Load, t *testing.T) {
	t.Helper()
	for _, i := range l.Doors {
		l.S.Accepts(i)
	}
}
