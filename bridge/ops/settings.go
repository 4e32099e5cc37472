package ops

import (
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// TopicSettings are the settings that apply to a topic, as the instance that answers has them. Addresses and secrets of
// webhooks are not among them.
type TopicSettings struct {
	Pattern    string  `json:"pattern"` // that the settings are of
	Deliver    string  `json:"deliver"` // mq, pull or webhook
	Rate       float64 `json:"rate,omitempty"`
	CatchUp    float64 `json:"catch_up_rate,omitempty"`
	Retry      string  `json:"retry,omitempty"`
	TTL        string  `json:"ttl,omitempty"`
	Lease      string  `json:"lease,omitempty"`
	Core       string  `json:"core,omitempty"` // drop
	Partitions int     `json:"partitions,omitempty"`
	Serial     bool    `json:"serial,omitempty"`
	Dead       string  `json:"dead,omitempty"`
	Expired    string  `json:"expired,omitempty"`
}

// settingsOf returns the settings of a topic, or nil if no pattern has any.
func (o *Ops) settingsOf(topic string) *TopicSettings {
	t := o.Settings.Of(topic)
	if t == nil {
		return nil
	}
	s := &TopicSettings{Pattern: t.Pattern, Deliver: wire.MQ, Rate: t.Rate, CatchUp: t.CatchUp,
		Retry: wire.Retry(t.Retry).String(), TTL: length(t.TTL), Lease: length(t.Lease), Partitions: t.Partitions,
		Serial: t.Serial, Dead: t.Dead, Expired: t.Expired}
	switch {
	case t.Webhook:
		s.Deliver = "webhook"
	case t.Deliver == scheduler.DeliverPull:
		s.Deliver = wire.PullWord
	}
	if t.Drop {
		s.Core = "drop"
	}
	return s
}

// length returns a length of time, or the empty string for none.
func length(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
