package intake

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// working holds the pushes that this instance has fetched and not answered. NATS gives a push to another instance once
// it has heard nothing of it for AckWait. That is short, so that an instance that dies or stands still keeps nothing
// from the others for long. So while a push is worked on here, for example because the database is slow, or waits its
// turn, working says so once a second.
type working struct {
	mu    sync.Mutex
	since map[string]time.Time // by reply subject
}

// extendAfter is how long a push is worked on before NATS is told. Most are answered before.
const extendAfter = time.Second / 2

const ackProgress = "+WPI"

func (w *working) add(reply string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[string]time.Time{}
	}
	w.since[reply] = now
}

// remove forgets n pushes that are answered.
func (w *working) remove(n int, reply func(i int) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		delete(w.since, reply(i))
	}
}

// extend tells NATS what is still worked on.
func (w *working) extend(nc *nats.Conn) {
	w.mu.Lock()
	var late []string
	for reply, since := range w.since {
		if time.Since(since) > extendAfter {
			late = append(late, reply)
		}
	}
	w.mu.Unlock()
	for _, reply := range late {
		_ = nc.Publish(reply, []byte(ackProgress)) // not sent: another instance may get it too
	}
}
