package timeline_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

func TestRedis_AnswersTrulyWhileTwoInstancesRace(t *testing.T) {
	t.Parallel()
	srv, ns := lab.SharedRedis(t), "r"+strings.ToLower(rand.Text())
	var instances []*timeline.Redis
	for range 2 {
		rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
		t.Cleanup(func() { _ = rdb.Close() })
		tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: ns, Buckets: 2, EndedKeep: 10 * time.Minute,
			TombstoneKeep: 10 * time.Minute, TombstoneLimit: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tl.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		instances = append(instances, tl)
	}
	schedulertest.Certify(t, instances[0])
	schedulertest.ExerciseRaces(t, instances[0], instances[1], 400)
}
