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

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A replica that has not seen the last writes is promoted under load. The instances are not informed: new
// connections lead to it, and open ones to the old primary, which still answers.
func TestAReplicaIsPromotedThatMissedTheLastWrites(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("sync", lab.SharedMariaDB(t))
	old := s.Redis
	front := lab.NewProxy(t, old.Addr)
	s.RedisAddr = front.Addr
	replica := lab.NewRedis(t, "--requirepass", site.RedisPassword, "--masterauth", site.RedisPassword)
	replication := lab.NewProxy(t, old.Addr)
	toReplica := redis.NewClient(&redis.Options{Addr: replica.Addr, Password: site.RedisPassword})
	t.Cleanup(func() { _ = toReplica.Close() })
	toOld := s.Client()
	host, port, err := net.SplitHostPort(replication.Addr)
	if err == nil {
		err = toReplica.ReplicaOf(t.Context(), host, port).Err()
	}
	if err != nil {
		t.Fatal(err)
	}

	a, b, c := s.Start("a"), s.Start("b"), s.Start("c")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	s.Explain(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 27, Spread: 4 * time.Second, Burst: time.Second}, Least: 1200,
		Rate:  120,
		Doors: s.Instances}
	l.Begin(t)
	site.Moment(t, h, "a burst", inBurst)
	leader, term := s.Leader(0, a, b, c)

	// From here on pushes and cancels do not reach the replica.
	special := site.Maker{Seed: 28, Spread: time.Second}
	push := func(seq int, due time.Time) *site.Message {
		m := special.Make(seq, time.Now())
		m.At, m.NotBefore, m.Cancel = due.Truncate(time.Millisecond), due.Truncate(time.Millisecond), false
		h.Pushed(&m.Sent)
		l.Http(t, m)
		return m
	}
	// All at once: the last of them must be canceled before the first is due.
	victims := make([]*site.Message, 40)
	var all sync.WaitGroup
	for i := range victims {
		all.Go(func() { victims[i] = push(100_000+2*i, time.Now().Add(15*time.Second)) })
	}
	all.Wait()
	lab.Eventually(t, site.Patience, func() error {
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
			begun := time.Now()
			word := l.CancelByHTTP(m, m.Uid)
			for word == "unavailable" || word == "outcome_unknown" { // the database is slow: it may be asked again
				site.Pause(t.Context(), 20*time.Millisecond)
				word = l.CancelByHTTP(m, m.Uid)
			}
			h.Cancel(site.Canceled{Seq: m.Seq, Begun: begun, At: time.Now(), Word: word})
			if word != site.OkCancel {
				t.Errorf("a cancel before the promotion: %s", word)
			}
			push(200_000+2*i, time.Now().Add(6*time.Second))
		})
	}
	all.Wait()
	site.Pause(t.Context(), 300*time.Millisecond-time.Since(begun))

	before := s.Certified()
	closed := s.Loses(h, "the replica is promoted")
	if err := toReplica.ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	replication.Cut()
	front.Retarget(replica.Addr)
	s.Redis = replica
	// The leader and a standby are moved by half. The other standby notices nothing until it is refused a commit.
	untouched := s.Others(leader)[1]
	killed := killHalf(s, toOld, "tarry-"+untouched.Name)
	if n := len(connections(t, toOld)["tarry-"+untouched.Name]); n == 0 {
		t.Error(untouched.Name + " has no connection to the old primary")
	}
	s.Whole(before, a, b, c)
	t.Logf("%d connections were moved; those left to the old primary: %v", killed, connections(t, toOld))
	for range 3 {
		site.Moment(t, h, "a burst", inBurst)
	}
	leader.Stop() // killed, its pushes of the intake would be delivered again half a minute later
	s.Leader(term, s.Others(leader)...)
	site.Moment(t, h, "a delivery by the next leader", site.Anything)
	leader.Restart()
	s.Ready(leader)
	for range 2 {
		site.Moment(t, h, "a burst", inBurst)
	}
	old.Kill()
	for _, i := range s.Instances {
		s.Ready(i)
		s.Accepts(i)
	}
	s.Settled(term, closed)
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
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
func killHalf(s *site.Site, rdb *redis.Client, but string) (killed int) {
	s.T.Helper()
	for name, ids := range connections(s.T, rdb) {
		if name == but {
			continue
		}
		slices.Sort(ids)
		for i := 0; i < len(ids); i += 2 {
			err := rdb.ClientKillByFilter(s.T.Context(), "ID", ids[i]).Err()
			if err != nil && !errors.Is(err, redis.Nil) {
				s.T.Fatal(err)
			}
			killed++
		}
	}
	return killed
}
