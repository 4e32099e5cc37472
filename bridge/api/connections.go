package api

import (
	linked "container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// connections bounds the number of open connections. At the limit it closes the connection that has been idle longest;
// if all are busy it closes the new one. A connection is busy while a request is served whose caller may make it. So
// clients that connect and send nothing, too little or the wrong token keep nobody out, and one caller that has a token
// leaves a quarter to others.
type connections struct {
	limit int
	log   zerolog.Logger

	mu      sync.Mutex
	all     map[net.Conn]*linked.Element // nil for a busy one
	waiting *linked.List                 // of net.Conn, the longest idle first
	holders map[net.Conn]string          // of busy ones
	held    map[string]int               // busy ones by holder
	warned  time.Time
}

func newConnections(limit int, log zerolog.Logger) *connections {
	return &connections{limit: limit, log: log, all: map[net.Conn]*linked.Element{}, waiting: linked.New(),
		holders: map[net.Conn]string{}, held: map[string]int{}}
}

// slot is the connection of a request, in its context.
type slot struct {
	of   *connections
	conn net.Conn
}

type slotKey struct{}

// context is http.Server's ConnContext.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, slotKey{}, slot{c, conn})
}

// take marks the request's connection as busy. It returns false if the holder has its share already. An empty holder
// stands for many callers. Without a Server of net/http there are no connections.
func (s slot) take(holder string) bool {
	c := s.of
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.all[s.conn]; !known || c.all[s.conn] == nil {
		return true // it is about to be closed, or busy already
	}
	if holder != "" && c.held[holder] >= c.limit-c.limit/holderShare {
		return false
	}
	c.work(s.conn)
	if holder != "" {
		c.holders[s.conn] = holder
		c.held[holder]++
	}
	return true
}

// leave marks the request's connection as idle: what is left of the request may be cut off.
func (s slot) leave() {
	if s.of != nil {
		_ = s.of.note(s.conn, http.StateIdle, time.Time{}) // closes nothing
	}
}

// changed is http.Server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if one := c.note(conn, state, time.Now()); one != nil {
		drop(one)
	}
}

// note records the state and returns the connection to close.
func (c *connections) note(conn net.Conn, state http.ConnState, now time.Time) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive, http.StateIdle:
		c.work(conn)
		if _, known := c.all[conn]; known {
			c.all[conn] = c.waiting.PushBack(conn)
		}
	case http.StateClosed, http.StateHijacked:
		c.work(conn)
		delete(c.all, conn)
	case http.StateNew:
		full := len(c.all) >= c.limit
		longest := c.waiting.Front()
		c.all[conn] = c.waiting.PushBack(conn)
		if !full {
			return nil
		}
		if now.Sub(c.warned) > time.Minute {
			c.warned = now
			c.log.Warn().Int("limit", c.limit).Msg(
				"http.connections reached: closing the longest-idle connection, or the new one")
		}
		gone := conn
		if longest != nil {
			gone = longest.Value.(net.Conn)
		}
		c.work(gone)
		delete(c.all, gone)
		return gone
	}
	return nil
}

// work marks a connection as busy, for nobody yet. A connection that is about to be closed may still send a request: it
// is not counted again.
func (c *connections) work(conn net.Conn) {
	element, known := c.all[conn]
	if element != nil {
		c.waiting.Remove(element)
	}
	if known {
		c.all[conn] = nil
	}
	if holder, held := c.holders[conn]; held {
		delete(c.holders, conn)
		if c.held[holder]--; c.held[holder] == 0 {
			delete(c.held, holder)
		}
	}
}

// drop closes at once. A TLS connection would first send close_notify and wait for it to be taken.
func drop(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
