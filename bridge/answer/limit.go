package answer

import (
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Limits are how large a message a door takes, in bytes; 0 is no limit. They hold for a message that was changed in
// part, too: it must not become what could not have been pushed.
type Limits struct {
	Content int   // body and user headers together
	Payload int64 // the whole of what is delivered, as max_payload of NATS counts
}

// Fits refuses a message with the word of a push that is too large, or whose headers do not go with its body.
func (l Limits) Fits(m *scheduler.Message) error {
	p := wire.Push{ID: m.ID, Key: m.Key, Topic: m.Topic, Retry: wire.Retry(m.Retry),
		Headers: make([]wire.Header, len(m.Headers))}
	for i, h := range m.Headers {
		p.Headers[i] = wire.Header(h)
	}
	if err := p.CheckStatus(len(m.Body)); err != nil {
		return err
	}
	if l.Content > 0 {
		if err := p.CheckLimit(len(m.Body), l.Content); err != nil {
			return err
		}
	}
	return p.CheckSize(len(m.Body), l.Payload)
}
