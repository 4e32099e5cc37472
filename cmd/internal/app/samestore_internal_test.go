package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/election"
)

// ballot is an election as its members see it.
type ballot struct {
	node
	race
	leader  string // empty: nobody leads
	members []election.Member
	err     error // of Members
}

func (b *ballot) Leader(context.Context) (election.Leader, bool, error) {
	return election.Leader{Instance: b.leader}, b.leader != "", nil
}

func (b *ballot) Members(context.Context) ([]election.Member, error) { return b.members, b.err }

// The leader's store was emptied, and the leader died before anything said so: the name that it registered stands
// nowhere any more. Whoever is left goes on, unless another instance has a store to differ from.
func TestSameStore_AloneGoesOnWithAStoreThatWasEmptied(t *testing.T) {
	t.Parallel()
	member := func(instance, store string) election.Member { return election.Member{Instance: instance, Store: store} }
	for _, c := range []struct {
		what   string
		ballot ballot
		other  bool // its store is still held for another's
		known  bool
	}{
		{"alone", ballot{members: []election.Member{member("a", "new")}}, false, true},
		{"alone, and registered under the old name still",
			ballot{members: []election.Member{member("a", "old")}}, false, true},
		{"not registered yet", ballot{}, false, true},
		{"with one that has the same store",
			ballot{members: []election.Member{member("a", "new"), member("b", "new")}}, false, true},
		{"with one that has not registered its store yet",
			ballot{members: []election.Member{member("b", "")}}, true, true},
		{"with one that has another store",
			ballot{members: []election.Member{member("a", "new"), member("b", "old")}}, true, true},
		{"with nobody knows whom", ballot{err: errors.New("away")}, true, false},
		{"under a leader with another store",
			ballot{leader: "b", members: []election.Member{member("b", "old")}}, true, true},
		{"under a leader with the same store",
			ballot{leader: "b", members: []election.Member{member("b", "new")}}, false, true},
		{"under a leader that is not registered", ballot{leader: "b"}, true, false},
	} {
		a := &opened{}
		a.cfg.Instance = "a"
		a.identity = func(context.Context) (string, error) { return "new", nil }
		s := &sameStore{opened: a}
		s.other.Store(true) // as the leader's registration had it until it died
		if _, known := s.look(t.Context(), &cluster{node: &c.ballot, race: &c.ballot}, 0); known != c.known ||
			s.other.Load() != c.other {
			t.Errorf("%s: known %t, another's %t", c.what, known, s.other.Load())
		}
		if s.name() != "new" {
			t.Errorf("%s: it registers %q", c.what, s.name())
		}
	}
}

// A leader that is seen for longer than its session is alive. When it goes, its store is still another one: an instance
// with the wrong address does not lead on what nobody pushed to, however alone it is.
func TestSameStore_AloneDoesNotTakeThePlaceOfALeaderThatWasAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &ballot{}
		a := &opened{}
		a.cfg.Instance, a.cfg.ZooKeeper.Session = "a", 6*time.Second
		a.identity = func(context.Context) (string, error) { return "new", nil }
		s := &sameStore{opened: a}
		after := func(d time.Duration, leader string, other bool) {
			t.Helper()
			time.Sleep(d) // of the bubble
			b.leader, b.members = leader, nil
			if leader != "" {
				b.members = []election.Member{{Instance: leader, Store: "old"}}
			}
			if s.look(t.Context(), &cluster{node: b, race: b}, 0); s.other.Load() != other {
				t.Errorf("with leader %q: another's %t", leader, s.other.Load())
			}
		}
		after(0, "b", true)
		after(7*time.Second, "b", true)
		after(time.Second, "", false) // it may have died before the first look
		after(time.Second, "b", true)
		after(8*time.Second, "b", true)
		after(time.Second, "", true)
		after(time.Hour, "", true)
	})
}

// What was never held for another's does not become it while nobody leads.
func TestSameStore_WithoutALeaderTheLastVerdictStands(t *testing.T) {
	t.Parallel()
	b := &ballot{members: []election.Member{{Instance: "b", Store: "old"}}}
	a := &opened{}
	a.cfg.Instance, a.identity = "a", func(context.Context) (string, error) { return "new", nil }
	s := &sameStore{opened: a}
	if _, known := s.look(t.Context(), &cluster{node: b, race: b}, 0); !known || s.other.Load() {
		t.Errorf("known %t, another's %t", known, s.other.Load())
	}
}
