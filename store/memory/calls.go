package memory

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// calls holds the pushes that were stored in the last minutes, by their call. A call is kept for CallKeep to twice
// that: a book takes calls for CallKeep, and is forgotten after twice that.
type calls struct {
	now, before book
	limit       int
}

type book struct {
	began time.Time
	uids  map[string]message.UID
}

func (b *book) young(keep time.Duration) bool { return len(b.uids) > 0 && time.Since(b.began) <= keep }

// of returns the uid of the push that was stored with a call, if any.
func (c *calls) of(call string) message.UID {
	if call == "" {
		return ""
	}
	for _, b := range []*book{&c.now, &c.before} {
		switch uid := b.uids[call]; {
		case !b.young(2 * scheduler.CallKeep):
			*b = book{}
		case uid != "":
			return uid
		}
	}
	return ""
}

func (c *calls) room() bool { return !c.now.young(scheduler.CallKeep) || len(c.now.uids) < c.limit }

func (c *calls) keep(m *message.Message) {
	if m.Call == "" {
		return
	}
	if !c.now.young(scheduler.CallKeep) {
		c.before, c.now = c.now, book{time.Now(), map[string]message.UID{}}
	}
	c.now.uids[m.Call] = m.UID
}
