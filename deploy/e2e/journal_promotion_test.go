package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// A replica that has not seen the last writes is promoted under load. The instances are not informed: new
// connections lead to it, and open ones to the old primary, which still answers.
func TestAReplicaIsPromotedThatMissedTheLastWrites(t *testing.T) {
	s := newSite(t, siteOptions{})
	s.journal("sync", lab.SharedMariaDB(t))
	old := s.redis
	front := lab.NewProxy(t, old.Addr)
	s.redisAddr = front.Addr
	replica := lab.NewRedis(t, "--requirepass", redisPassword, "--masterauth", redisPassword)
	replication := lab.NewProxy(t, old.Addr)
	toReplica := redis.NewClient(&redis.Options{Addr: replica.Addr, Password: redisPassword})
	t.Cleanup(func() { _ = toReplica.Close() })
	toOld := s.client()
	host, port, err := net.SplitHostPort(replication.Addr)
	if err == nil {
		err = toReplica.ReplicaOf(t.Context(), host, port).Err()
	}
	if err != nil {
		t.Fatal(err)
	}

	a, b, c := s.start("a"), s.start("b"), s.start("c")
	h := newHistory(s.ns)
	s.consume(h)
	s.explain(h)
	l := &load{s: s, h: h, make: maker{seed: 27, spread: 4 * time.Second, burst: time.Second}, least: 1200, rate: 120,
		doors: s.instances}
	l.begin(t)
	moment(t, h, "a burst", inBurst)
	leader, term := s.leader(0, a, b, c)

	// From here on pushes and cancels do not reach the replica.
	special := maker{seed: 28, spread: time.Second}
	push := func(seq int, due time.Time) *message {
		m := special.make(seq, time.Now())
		m.at, m.notBefore, m.cancel = due.Truncate(time.Millisecond), due.Truncate(time.Millisecond), false
		h.pushed(&m.sent)
		l.http(t, m)
		return m
	}
	// All at once: the last of them must be canceled before the first is due.
	victims := make([]*message, 40)
	var all sync.WaitGroup
	for i := range victims {
		all.Go(func() { victims[i] = push(100_000+2*i, time.Now().Add(15*time.Second)) })
	}
	all.Wait()
	lab.Eventually(t, patience, func() error {
		info, err := toReplica.InfoMap(t.Context(), "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("the replica does not follow: %v", info["Replication"])
		}
		return err
	})
	replication.Stall()
	begun := time.Now()
	for i, m := range victims {
		all.Go(func() {
			word := l.cancelByHTTP(m, m.uid)
			for word == "unavailable" || word == "outcome_unknown" { // the database is slow: it may be asked again
				pause(t.Context(), 20*time.Millisecond)
				word = l.cancelByHTTP(m, m.uid)
			}
			h.cancel(canceled{m.seq, time.Now(), word})
			if word != okCancel {
				t.Errorf("a cancel before the promotion: %s", word)
			}
			push(200_000+2*i, time.Now().Add(6*time.Second))
		})
	}
	all.Wait()
	pause(t.Context(), 300*time.Millisecond-time.Since(begun))

	before := s.certified()
	closed := h.begin(window{why: "the replica is promoted", from: time.Now(), since: begun.Add(-unrecorded)})
	if err := toReplica.ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	replication.Cut()
	front.Retarget(replica.Addr)
	s.redis = replica
	// The leader and a standby are moved by half. The other standby notices nothing until it is refused a commit.
	untouched := s.others(leader)[1]
	killed := s.killHalf(toOld, "tarry-"+untouched.name)
	if n := len(connections(t, toOld)["tarry-"+untouched.name]); n == 0 {
		t.Error(untouched.name + " has no connection to the old primary")
	}
	s.whole(before, a, b, c)
	t.Logf("%d connections were moved; those left to the old primary: %v", killed, connections(t, toOld))
	for range 3 {
		moment(t, h, "a burst", inBurst)
	}
	leader.Stop() // killed, its pushes of the intake would be delivered again half a minute later
	s.leader(term, s.others(leader)...)
	moment(t, h, "a delivery by the next leader", anything)
	leader.Restart()
	s.ready(leader)
	for range 2 {
		moment(t, h, "a burst", inBurst)
	}
	old.Kill()
	for _, i := range s.instances {
		s.ready(i)
		s.accepts(i)
	}
	s.settled(term, closed)
	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

// connections are the ids of the instances' connections, by instance.
func connections(t *testing.T, rdb *redis.Client) map[string][]string {
	t.Helper()
	text, err := rdb.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		id, name := "", ""
		for _, f := range strings.Fields(line) {
			switch key, value, _ := strings.Cut(f, "="); key {
			case "id":
				id = value
			case "name":
				name = value
			}
		}
		if strings.HasPrefix(name, "tarry-") {
			found[name] = append(found[name], id)
		}
	}
	return found
}

// killHalf closes every second connection of each instance but one.
func (s *site) killHalf(rdb *redis.Client, but string) (killed int) {
	s.t.Helper()
	for name, ids := range connections(s.t, rdb) {
		if name == but {
			continue
		}
		slices.Sort(ids)
		for i := 0; i < len(ids); i += 2 {
			err := rdb.ClientKillByFilter(s.t.Context(), "ID", ids[i]).Err()
			if err != nil && !errors.Is(err, redis.Nil) {
				s.t.Fatal(err)
			}
			killed++
		}
	}
	return killed
}
