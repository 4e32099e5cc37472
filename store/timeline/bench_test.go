package timeline_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

// BenchmarkRedis_AddClaimFinish carries batches of 500 messages of 256 bytes through Redis; one operation is one
// message.
func BenchmarkRedis_AddClaimFinish(b *testing.B) {
	carry(b, func(int) string { return "orders.created" })
}

// BenchmarkRedis_ATopicEach is the same with a topic of its own for each message.
func BenchmarkRedis_ATopicEach(b *testing.B) {
	carry(b, func(n int) string { return "orders." + strconv.Itoa(1_000_000+n) })
}

func carry(b *testing.B, topic func(n int) string) {
	srv := lab.SharedRedis(b)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	b.Cleanup(func() { _ = rdb.Close() })
	tl, err := timeline.New(
		timeline.Config{Client: rdb, Namespace: fmt.Sprintf("bench%d", time.Now().UnixNano()), Buckets: 1,
			EndedKeep: time.Minute, TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		b.Fatal(err)
	}
	schedulertest.Certify(b, tl)
	ids := scheduler.NewIDs(one{}, time.Now)
	const batch = 500
	body := make([]byte, 256)
	var add, claim, finish time.Duration
	used := func() float64 {
		text, err := rdb.Info(b.Context(), "cpu").Result()
		if err != nil {
			b.Fatal(err)
		}
		var seconds float64
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "used_cpu_user" || name == "used_cpu_sys" {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.Fatal(err)
				}
				seconds += v
			}
		}
		return seconds
	}
	before := used()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%batch != 1 {
			continue // the batch below stood for this one, too
		}
		messages := make([]*message.Message, batch)
		for i := range messages {
			uid, err := ids.Next(0)
			if err != nil {
				b.Fatal(err)
			}
			messages[i] = &message.Message{UID: uid, Topic: topic(n + i), Body: body,
				Due: message.Milli(1_800_000_000_000 + i), Attempt: 1}
		}
		at := time.Now()
		if _, _, err := tl.Add(b.Context(), 0, messages, 1); err != nil {
			b.Fatal(err)
		}
		add += time.Since(at)
		at = time.Now()
		got, err := tl.Claim(b.Context(), 0,
			scheduler.Claim{Term: 1, Now: 1_900_000_000_000, Limit: batch, Bytes: 8 << 20})
		if err != nil || len(got.Messages) != batch {
			b.Fatalf("%d messages, %v", len(got.Messages), err)
		}
		claim += time.Since(at)
		ends := make([]scheduler.End, batch)
		for i, m := range got.Messages {
			ends[i] = scheduler.End{Message: m, State: message.StateDelivered}
		}
		at = time.Now()
		if err := tl.Finish(b.Context(), 0, 1, ends, 2); err != nil {
			b.Fatal(err)
		}
		finish += time.Since(at)
	}
	rounds := float64((n + batch - 1) / batch * batch)
	b.ReportMetric((used()-before)*1e9/rounds, "redis-cpu-ns/msg")
	b.ReportMetric(float64(add.Nanoseconds())/rounds, "add-ns/msg")
	b.ReportMetric(float64(claim.Nanoseconds())/rounds, "claim-ns/msg")
	b.ReportMetric(float64(finish.Nanoseconds())/rounds, "finish-ns/msg")
}

type one struct{}

func (one) ID() (int, bool) { return 1, true }

// BenchmarkRedis_AddLeaseSettle carries messages that consumers pull in batches of 100 through Redis; one operation is
// one message.
func BenchmarkRedis_AddLeaseSettle(b *testing.B) {
	srv := lab.NewRedis(b)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	b.Cleanup(func() { _ = rdb.Close() })
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: "pull", Buckets: 1, EndedKeep: time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		b.Fatal(err)
	}
	schedulertest.Certify(b, tl)
	ids := scheduler.NewIDs(one{}, time.Now)
	const batch, pull = 500, 100
	body := make([]byte, 256)
	var add, lease, settle time.Duration
	n := 0
	for b.Loop() {
		if n++; n%batch != 1 {
			continue // the batch below stood for this one, too
		}
		messages := make([]*message.Message, batch)
		for i := range messages {
			uid, err := ids.Next(0)
			if err != nil {
				b.Fatal(err)
			}
			messages[i] = &message.Message{UID: uid, Topic: "work", Body: body, Pull: true,
				Due: message.Milli(1_800_000_000_000 + i), Attempt: 1}
		}
		at := time.Now()
		if _, _, err := tl.Add(b.Context(), 0, messages, 1); err != nil {
			b.Fatal(err)
		}
		add += time.Since(at)
		for part := range batch / pull {
			at = time.Now()
			nonce := scheduler.Nonce(n*batch + part)
			got := tl.Lease(b.Context(), []scheduler.LeaseRequest{{Topic: "work", Limit: pull, Bytes: 4 << 20, Over: true,
				Nonce: nonce, Keep: time.Second, Now: 1_900_000_000_000, From: 1_900_000_000_000, Length: time.Minute}})[0]
			if got.Err != nil || len(got.Messages) != pull {
				b.Fatalf("%d messages, %v", len(got.Messages), got.Err)
			}
			lease += time.Since(at)
			items := make([]scheduler.Settle, pull)
			for i, m := range got.Messages {
				items[i] = scheduler.Settle{Verb: scheduler.Ack, UID: m.UID, Topic: "work", Nonce: nonce}
			}
			at = time.Now()
			if _, _, err := tl.Settle(b.Context(), 0, 0, items, 2); err != nil {
				b.Fatal(err)
			}
			settle += time.Since(at)
		}
	}
	rounds := float64((n + batch - 1) / batch * batch)
	b.ReportMetric(float64(add.Nanoseconds())/rounds, "add-ns/msg")
	b.ReportMetric(float64(lease.Nanoseconds())/rounds, "lease-ns/msg")
	b.ReportMetric(float64(settle.Nanoseconds())/rounds, "settle-ns/msg")
}

// BenchmarkRedis_Outlook forecasts a hundred thousand messages of one bucket in 720 steps by topic, as an open console
// does. Each of its scripts holds up a claim for as long as it takes.
func BenchmarkRedis_Outlook(b *testing.B) {
	const all, batch, steps = 100_000, 1000, 720
	srv := lab.NewRedis(b)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	b.Cleanup(func() { _ = rdb.Close() })
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: "outlook", Buckets: 1, EndedKeep: time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		b.Fatal(err)
	}
	schedulertest.Certify(b, tl)
	ids, body := scheduler.NewIDs(one{}, time.Now), make([]byte, 256)
	for n := 0; n < all; n += batch {
		messages := make([]*message.Message, batch)
		for i := range messages {
			uid, err := ids.Next(0)
			if err != nil {
				b.Fatal(err)
			}
			messages[i] = &message.Message{UID: uid, Topic: "orders." + strconv.Itoa((n+i)/30%100), Body: body,
				Due: message.Milli(1_800_000_000_000 + 36*(n+i)), Pull: i%3 == 0, Attempt: 1}
		}
		if _, _, err := tl.Add(b.Context(), 0, messages, 1); err != nil {
			b.Fatal(err)
		}
	}
	times := make([]message.Milli, steps+1)
	for i := range times {
		times[i] = message.Milli(1_800_000_000_000 + 5000*i)
	}
	each := map[string]func(){
		"falls-us/script": func() {
			if _, err := tl.Falls(b.Context(), times); err != nil {
				b.Fatal(err)
			}
		},
		"sample-us/script": func() {
			got, err := tl.Sample(b.Context(), times[0], times[steps], scheduler.MaxSample)
			if err != nil || len(got[0].Read) != scheduler.MaxSample {
				b.Fatal(len(got[0].Read), err)
			}
		},
	}
	for b.Loop() {
		for name, read := range each {
			if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
			read()
			stats, err := rdb.Info(b.Context(), "commandstats").Result()
			if err != nil {
				b.Fatal(err)
			}
			_, text, _ := strings.Cut(stats, "cmdstat_evalsha:")
			_, text, _ = strings.Cut(text, "usec_per_call=")
			text, _, _ = strings.Cut(text, ",")
			us, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(us, name)
		}
	}
}
