package request_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestNudge_ReachesEveryInstanceAndKeepsTheEarliest(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), bridgetest.NewNamespace()
	type head struct {
		bucket message.Bucket
		due    message.Milli
	}
	var mu sync.Mutex
	heard := [2]map[head]bool{{}, {}}
	topics := [2]map[string]message.Milli{{}, {}}
	var nudges [2]*request.Nudge
	for i := range nudges {
		nudges[i] = request.NewNudge(
			request.NudgeConfig{Conn: bridgetest.Connect(t, url), Namespace: ns,
				Heard: func(bucket message.Bucket, due message.Milli) {
					mu.Lock()
					defer mu.Unlock()
					heard[i][head{bucket, due}] = true
				},
				HeardTopic: func(topic string, due message.Milli) {
					mu.Lock()
					defer mu.Unlock()
					topics[i][topic] = due
				}})
		bridgetest.RunFor(t, nudges[i].Run)
	}
	// Somebody else's text on the subject changes nothing.
	stranger := bridgetest.Connect(t, url)
	lab.Eventually(t, 10*time.Second, func() error {
		if err := stranger.Publish("tarry."+ns+".nudge", []byte("hello")); err != nil {
			t.Fatal(err)
		}
		nudges[0].Announce(3, 2000)
		nudges[0].Announce(3, 1000)
		nudges[1].Announce(0, 5)
		nudges[1].AnnounceTopic("work.a", 2000)
		nudges[1].AnnounceTopic("work.a", 1000)
		mu.Lock()
		defer mu.Unlock()
		for i := range heard {
			if !heard[i][head{3, 1000}] || !heard[i][head{0, 5}] || topics[i]["work.a"] != 1000 {
				return fmt.Errorf("instance %d heard %v and %v", i, heard[i], topics[i])
			}
		}
		return nil
	})
	// More topics than can wait are announced as all of them.
	lab.Eventually(t, 10*time.Second, func() error {
		for i := range 10_000 {
			nudges[0].AnnounceTopic(fmt.Sprint("many.", i), 7)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range topics {
			if _, all := topics[i][""]; !all && len(topics[i]) < 10_000 {
				return fmt.Errorf("instance %d heard of %d topics", i, len(topics[i]))
			}
		}
		return nil
	})
}

func FuzzDecodeTopicNudge(f *testing.F) {
	f.Add(request.EncodeTopicNudge("", 0))
	f.Add(request.EncodeTopicNudge("work.a", 1896076800000))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		topic, due, err := request.DecodeTopicNudge(b)
		if err != nil {
			return
		}
		if again := request.EncodeTopicNudge(topic, due); due < 0 || string(again) != string(b) {
			t.Fatalf("%x reads as %s, %d, which is written %x", b, topic, due, again)
		}
	})
}

func FuzzDecodeNudge(f *testing.F) {
	f.Add(request.EncodeNudge(0, 0))
	f.Add(request.EncodeNudge(65535, 1896076800000))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		bucket, due, err := request.DecodeNudge(b)
		if err != nil {
			return
		}
		if bucket < 0 || bucket > 65535 || due < 0 {
			t.Fatalf("got %d, %d", bucket, due)
		}
		if again := request.EncodeNudge(bucket, due); string(again) != string(b) {
			t.Fatalf("%x reads as %d, %d, which is written %x", b, bucket, due, again)
		}
	})
}
