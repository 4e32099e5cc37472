package api

import (
	linked "container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// connections bounds the number of open connections. At the limit it closes the connection that has been idle longest;
// if all are busy it closes the new one. A connection is busy once the headers of a request are read, so clients that
// connect and send nothing, or too little, keep nobody out.
type connections struct {
	limit int
	log   zerolog.Logger

	mu      sync.Mutex
	all     map[net.Conn]*linked.Element // nil for a busy one
	waiting *linked.List                 // of net.Conn, the longest idle first
	warned  time.Time
}

func newConnections(limit int, log zerolog.Logger) *connections {
	return &connections{limit: limit, log: log, all: map[net.Conn]*linked.Element{}, waiting: linked.New()}
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
	case http.StateActive:
		c.work(conn)
	case http.StateIdle:
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

// work marks a connection as busy. A connection that is about to be closed may still send a request: it is not counted
// again.
func (c *connections) work(conn net.Conn) {
	element, known := c.all[conn]
	if element != nil {
		c.waiting.Remove(element)
	}
	if known {
		c.all[conn] = nil
	}
}

// drop closes at once. A TLS connection would first send close_notify and wait for it to be taken.
func drop(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
