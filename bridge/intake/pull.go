package intake

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
)

const apiConsumerNext = "$JS.API.CONSUMER.MSG.NEXT."

// puller requests the intake's pushes from the server, ahead of their handling, and passes them to handle one after the
// other.
//
// It uses the JetStream API directly. A consumer of nats.go takes every empty message with a Status header for a status
// message of the server, although the header may be a producer's, and adopts a Nats-Pin-Id that it finds in a message.
// Here a message is a push if it has the server's reply subject for acknowledgements, which no publisher can set; a
// message without it is a status message of the server.
type puller struct {
	nc      *nats.Conn
	subject string          // of the server's API
	ahead   int             // how many pushes are requested ahead of their handling
	bytes   int             // a pull's limit, above the largest message
	got     func(*nats.Msg) // is told of a push at once; it waits behind others to be handled
	handle  func(*nats.Msg, link.Place)

	sub     *nats.Subscription
	arrived chan placed   // not handled yet; as many as are requested
	closed  chan struct{} // closed once no more pushes are handled
	failed  chan error    // why the puller cannot go on, capacity 1

	heard atomic.Uint64 // counts the messages that arrive

	mu    sync.Mutex
	asked int  // pushes that were requested and not handled yet
	twice bool // the last message ended all pulls
	over  bool // no more pushes are requested
}

// placed is a push with its place.
type placed struct {
	*nats.Msg
	place link.Place
}

// start begins to pull.
func (p *puller) start() (err error) {
	p.arrived, p.closed, p.failed = make(chan placed, pullMessages), make(chan struct{}), make(chan error, 1)
	if p.sub, err = p.nc.Subscribe(p.nc.NewInbox(), p.came); err != nil {
		return fmt.Errorf("listen for pushes: %w", err)
	}
	p.sub.SetClosedHandler(func(string) { close(p.arrived) }) // once came is not called any more
	go p.work()                                               // until closed
	if err = p.anew(); err != nil {
		link.Unsubscribe(p.sub)
	}
	return err
}

// work handles pushes, one after the other.
func (p *puller) work() {
	defer close(p.closed)
	for m := range p.arrived {
		p.handle(m.Msg, m.place)
		p.mu.Lock()
		p.asked, p.twice = max(p.asked-1, 0), false
		err := p.askLocked()
		p.mu.Unlock()
		if err != nil {
			p.fail(err)
		}
	}
}

// full reports whether so many pushes wait to be handled that no other message is read meanwhile.
func (p *puller) full() bool { return len(p.arrived) == cap(p.arrived) }

// anew forgets the open requests and sends new ones: at the start, and after a lost link, which loses the requests too.
func (p *puller) anew() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = 0
	return p.askLocked()
}

// askLocked requests more pushes as soon as less than half of the limit is outstanding.
func (p *puller) askLocked() error {
	if p.over || p.asked > 0 && p.asked >= p.ahead/2 {
		return nil
	}
	request, err := json.Marshal(pullRequest{Batch: p.ahead - p.asked, MaxBytes: p.bytes,
		Expires: int64(pullExpiry), Heartbeat: int64(pullHeartbeat)})
	if err == nil {
		err = p.nc.PublishRequest(p.subject, p.sub.Subject, request)
	}
	if err != nil {
		return fmt.Errorf("ask for pushes: %w", err)
	}
	p.asked = p.ahead
	return nil
}

type pullRequest struct {
	Batch     int   `json:"batch"`
	MaxBytes  int   `json:"max_bytes"`
	Expires   int64 `json:"expires"`
	Heartbeat int64 `json:"idle_heartbeat"`
}

// came sorts arriving messages.
func (p *puller) came(msg *nats.Msg) {
	p.heard.Add(1)
	place, ok := link.ParsePlace(msg.Reply)
	if ok {
		p.got(msg)
		p.arrived <- placed{msg, place}
	} else if err := p.status(msg.Header); err != nil {
		p.fail(err)
	}
}

// The server's status messages about a pull, by number.
const (
	statusHeartbeat = 100
	statusNoMore    = 404
	statusTimeout   = 408
	statusEnded     = 409
)

// status reads a status of the server. Most statuses end a pull and contain the number of messages that it still had to
// deliver. A status without that number ends all pulls: the consumer moved to another server, or is gone, which the
// next pull reveals.
func (p *puller) status(header nats.Header) error {
	code, err := strconv.Atoi(header.Get(link.HeaderStatus))
	if err != nil {
		return nil // not a status about a pull
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch code {
	case statusHeartbeat:
		p.twice = false
		return nil
	case statusNoMore, statusTimeout, statusEnded:
		rest, err := strconv.Atoi(header.Get("Nats-Pending-Messages"))
		if err == nil {
			p.asked, p.twice = max(p.asked-max(rest, 0), 0), false
			return p.askLocked()
		}
		if !p.twice {
			p.asked, p.twice = 0, true
			return p.askLocked()
		}
	}
	return fmt.Errorf("nats says %d %s", code, header.Get("Description"))
}

// fail reports why the puller cannot go on. Only the first reason is kept.
func (p *puller) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// stop ends pulling; pushes that have arrived are still handled. On a lost link those are abandoned as well.
func (p *puller) stop() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	if p.nc.IsConnected() {
		_ = p.sub.Drain() // fails only on a closed connection, which has ended the subscription
		return
	}
	link.Unsubscribe(p.sub)
}
