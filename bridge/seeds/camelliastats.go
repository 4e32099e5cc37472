package seeds

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Stats count, for camellia's getMonitorData, what this instance has done since it started. The zero value is ready.
type Stats struct {
	mu  sync.Mutex
	all map[string]*camelliaCounts
}

// camelliaTopics bounds the topics that are counted one by one, and those of a list. The others are counted together,
// without a name.
const camelliaTopics = 1000

// camelliaCounts are the counts of a topic. Each message counts: a pull of two is two.
type camelliaCounts struct {
	Topic   string `json:"topic"`
	Sent    int    `json:"sendMsg"`
	Pulled  int    `json:"pullMsg"`
	Deleted int    `json:"deleteMsg"`
	Acked   int    `json:"ackMsg"`
	Got     int    `json:"getMsg"`
	// Ready counts at the first lease, or at the expiry of what was never leased: no instance sees a message become
	// ready.
	Ready    int `json:"triggerMsgReady"`
	EndLife  int `json:"triggerMsgEndLife"`
	TimedOut int `json:"triggerMsgTimeout"`

	pulled, ready camelliaGap
}

// camelliaGap is how long after they were due messages were handed out, in ms: on each lease, or on the first.
type camelliaGap struct {
	Topic string  `json:"topic"`
	Count int     `json:"count"`
	Avg   float64 `json:"avg"`
	Max   int64   `json:"max"`
}

func (g *camelliaGap) add(gap time.Duration) {
	ms := max(gap.Milliseconds(), 0)
	g.Count++
	g.Avg += (float64(ms) - g.Avg) / float64(g.Count)
	g.Max = max(g.Max, ms)
}

// of changes the counts of a topic.
func (s *Stats) of(topic string, change func(*camelliaCounts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*camelliaCounts{}
	}
	one := s.all[topic]
	if one == nil {
		if len(s.all) >= camelliaTopics {
			topic = ""
		}
		if one = s.all[topic]; one == nil {
			one = &camelliaCounts{Topic: topic}
			s.all[topic] = one
		}
	}
	change(one)
}

// pulled counts a message that is handed out so long after it was due, after so many retries.
func (s *Stats) pulled(topic string, retry int, gap time.Duration) {
	s.of(topic, func(c *camelliaCounts) {
		c.Pulled++
		c.pulled.add(gap)
		if retry == 0 {
			c.Ready++
			c.ready.add(gap)
		}
	})
}

// over counts a message that has lost its last chance.
func (c *camelliaCounts) over(now message.State) {
	if now == message.StateDead || now == message.StateExpired {
		c.EndLife++
	}
}

// Over counts a message for pull whose lease, or whose time to live, was over.
func (s *Stats) Over(topic string, lapsed, untried bool, now message.State) {
	s.of(topic, func(c *camelliaCounts) {
		if lapsed {
			c.TimedOut++
		}
		if untried {
			c.Ready++
		}
		c.over(now)
	})
}

func (s *camellia) monitorData(context.Context, *http.Request, *form) (camelliaAnswer, error) {
	data := struct {
		Scope   string           `json:"scope"`
		Counts  []camelliaCounts `json:"requestStatsList"`
		Pulled  []camelliaGap    `json:"pullMsgTimeGapStatsList"`
		Readied []camelliaGap    `json:"readyQueueTimeGapStatsList"`
	}{"this instance since it started", []camelliaCounts{}, []camelliaGap{}, []camelliaGap{}}
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	for _, topic := range slices.Sorted(maps.Keys(s.stats.all)) {
		one := *s.stats.all[topic]
		data.Counts = append(data.Counts, one)
		if one.pulled.Topic = topic; one.pulled.Count > 0 {
			data.Pulled = append(data.Pulled, one.pulled)
		}
		if one.ready.Topic = topic; one.ready.Count > 0 {
			data.Readied = append(data.Readied, one.ready)
		}
	}
	return camelliaAnswer{Data: data}, nil
}

// camelliaWithin are the ends of the spans of waitingQueueInfo. The first counts what is ready; the last has no end.
var camelliaWithin = [...]time.Duration{0, time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour,
	24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 100 * 365 * 24 * time.Hour}

type camelliaTopicInfo struct {
	Topic   string `json:"topic"`
	Waiting int    `json:"waitingQueueSize"`
	Spans   struct {
		ToMinute     int `json:"sizeOf0To1min"`
		To10Minutes  int `json:"sizeOf1minTo10min"`
		To30Minutes  int `json:"sizeOf10minTo30min"`
		ToHour       int `json:"sizeOf30minTo1hour"`
		To6Hours     int `json:"sizeOf1hourTo6hour"`
		ToDay        int `json:"sizeOf6hourTo1day"`
		ToWeek       int `json:"sizeOf1dayTo7day"`
		To30Days     int `json:"sizeOf7dayTo30day"`
		AfterThirtyD int `json:"sizeOf30dayToInfinite"`
	} `json:"waitingQueueInfo"`
	Ready  int `json:"readyQueueSize"`
	Leased int `json:"ackQueueSize"`
}

// infos counts the messages for pull of topics.
func (s *camellia) infos(ctx context.Context, topics ...string) ([]camelliaTopicInfo, error) {
	counts, err := s.ops.Service.PullCounts(ctx, topics, camelliaWithin[:])
	if err != nil {
		return nil, err
	}
	all := make([]camelliaTopicInfo, len(topics))
	for i, topic := range topics {
		due, one := counts[i].Due, &all[i]
		one.Topic, one.Ready, one.Leased = topic, due[0], counts[i].Leased
		spans := &one.Spans
		for at, to := range []*int{&spans.ToMinute, &spans.To10Minutes, &spans.To30Minutes, &spans.ToHour, &spans.To6Hours,
			&spans.ToDay, &spans.ToWeek, &spans.To30Days, &spans.AfterThirtyD} {
			*to = max(due[at+1]-due[at], 0)
			one.Waiting += *to
		}
	}
	return all, nil
}

func (s *camellia) topicInfo(ctx context.Context, _ *http.Request, f *form) (camelliaAnswer, error) {
	topic := f.topic()
	if f.err != nil {
		return camelliaAnswer{}, f.err
	}
	all, err := s.infos(ctx, topic)
	if err != nil {
		return camelliaAnswer{}, err
	}
	return camelliaAnswer{Data: all[0]}, nil
}

// topicInfoList lists the first topics that have messages for pull, of the first 20 pages of topics.
func (s *camellia) topicInfoList(ctx context.Context, _ *http.Request, _ *form) (camelliaAnswer, error) {
	all, after := []camelliaTopicInfo{}, ""
	for range 20 {
		counts, err := s.ops.Service.TopicCounts(ctx, after, camelliaTopics)
		if err != nil {
			return camelliaAnswer{}, err
		}
		topics := make([]string, len(counts))
		for i := range counts {
			topics[i], after = counts[i].Topic, counts[i].Topic
		}
		page, err := s.infos(ctx, topics...)
		if err != nil {
			return camelliaAnswer{}, err
		}
		all = append(all, slices.DeleteFunc(page, func(one camelliaTopicInfo) bool {
			return one.Waiting+one.Ready+one.Leased == 0
		})...)
		if len(counts) < camelliaTopics || len(all) >= camelliaTopics {
			break
		}
	}
	return camelliaAnswer{Data: all[:min(len(all), camelliaTopics)]}, nil
}
