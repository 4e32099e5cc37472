package answer

import (
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Limits are the maximum sizes of a message that an API accepts, in bytes; 0 is no limit. They also apply to a message
// that was partly changed: it must not become a message that could not have been pushed.
type Limits struct {
	Content int   // body and user headers together
	Payload int64 // the complete delivered message, as max_payload of NATS counts
}

// Fits refuses a message that is too large, or whose headers do not fit its body, with the word that a push would get.
func (l Limits) Fits(m *message.Message) error {
	p := wire.Push{ID: m.ID, Key: m.Key, Topic: m.Topic, Retry: wire.Retry(m.Retry),
		Headers: make([]wire.Header, len(m.Headers))}
	for i, h := range m.Headers {
		p.Headers[i] = wire.Header(h)
	}
	if err := p.CheckStatus(len(m.Body)); err != nil {
		return err
	}
	return l.Check(&p, len(m.Body))
}

// Check refuses a push with a body of so many bytes that is too large.
func (l Limits) Check(p *wire.Push, body int) error {
	if l.Content > 0 {
		if err := p.CheckLimit(body, l.Content); err != nil {
			return err
		}
	}
	return p.CheckSize(body, l.Payload)
}
