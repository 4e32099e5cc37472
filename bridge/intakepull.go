package bridge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

const apiConsumerNext = "$JS.API.CONSUMER.MSG.NEXT."

// puller asks the server for the pushes of the intake, ahead of what is
// handled, and gives them to handle one after the other.
//
// It does so by hand. A consumer of nats.go takes every empty message with a
// Status header for a word of the server's, although the header may be a
// producer's, and keeps a Nats-Pin-Id that it finds in a message for its own.
// Here a message is a push if the server asks for its acknowledgement, by a
// reply subject that no publisher can give it; whatever comes without one is
// the server's word.
type puller struct {
	nc      *nats.Conn
	subject string // of the server's API
	bytes   int    // a pull's limit, above the largest message
	handle  func(*nats.Msg, stored)

	sub    *nats.Subscription
	closed chan struct{} // once nothing is handled any more
	failed chan error    // why it cannot go on, capacity 1

	busy  atomic.Bool   // a push is being handled: nothing else is heard meanwhile
	heard atomic.Uint64 // grows with everything that comes

	mu    sync.Mutex
	asked int  // pushes that NATS was asked for and that are not handled yet
	twice bool // the last that came was an end of all pulls
	over  bool // nothing more is asked for
}

// start begins to pull.
func (p *puller) start() (err error) {
	p.closed, p.failed = make(chan struct{}), make(chan error, 1)
	if p.sub, err = p.nc.Subscribe(p.nc.NewInbox(), p.came); err != nil {
		return fmt.Errorf("listen for pushes: %w", err)
	}
	p.sub.SetClosedHandler(func(string) { close(p.closed) })
	return p.anew()
}

// anew forgets the open requests and asks again: at the start, and after the link was
// lost, since the requests are lost with it.
func (p *puller) anew() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = 0
	return p.askLocked()
}

// askLocked asks for more as soon as less than half is under way.
func (p *puller) askLocked() error {
	if p.over || p.asked >= pullMessages/2 {
		return nil
	}
	request, err := json.Marshal(pullRequest{Batch: pullMessages - p.asked, MaxBytes: p.bytes,
		Expires: int64(pullExpiry), Heartbeat: int64(pullHeartbeat)})
	if err == nil {
		err = p.nc.PublishRequest(p.subject, p.sub.Subject, request)
	}
	if err != nil {
		return fmt.Errorf("ask for pushes: %w", err)
	}
	p.asked = pullMessages
	return nil
}

type pullRequest struct {
	Batch     int   `json:"batch"`
	MaxBytes  int   `json:"max_bytes"`
	Expires   int64 `json:"expires"`
	Heartbeat int64 `json:"idle_heartbeat"`
}

// came handles all that arrives, one after the other.
func (p *puller) came(msg *nats.Msg) {
	p.heard.Add(1)
	place, ok := parseStored(msg.Reply)
	if !ok {
		if err := p.told(msg.Header); err != nil {
			p.fail(err)
		}
		return
	}
	p.busy.Store(true)
	p.handle(msg, place)
	p.busy.Store(false)
	p.mu.Lock()
	p.asked, p.twice = max(p.asked-1, 0), false
	err := p.askLocked()
	p.mu.Unlock()
	if err != nil {
		p.fail(err)
	}
}

// What the server says of a pull, by its numbers.
const (
	statusHeartbeat = 100
	statusNoMore    = 404
	statusTimeout   = 408
	statusEnded     = 409
)

// told reads a status of the server. Most of them end a pull and contain what it
// still had to get. A status without a number ends all pulls: the consumer moved
// to another server, or is gone, which the next pull shows.
func (p *puller) told(header nats.Header) error {
	code, err := strconv.Atoi(header.Get(headerStatus))
	if err != nil {
		return nil // somebody else's
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

// fail says why it cannot go on. The first reason counts.
func (p *puller) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// stop ends pulling; what has come is still handled. On a lost link that is
// given up as well.
func (p *puller) stop() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	if p.nc.IsConnected() {
		_ = p.sub.Drain() // fails on a closed connection alone, which closed this too
		return
	}
	unsubscribe(p.sub)
}
