package election

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// link is a connection that the library holds. It reads whole packets from the server and hands them on with three
// differences.
//
// The first is the ConnectResponse, and reading it does the rest of the handshake (greeter), under the dial's
// deadline, whatever the library sets (6.7·S, and none for the body).
//
// No later read waits longer than S/3: the session's own traffic, renewals and looks, brings an answer every S/6.
//
// The link sets the zxid in each answer's header to 0. The library would note the zxid down (a data race, see the
// package comment) and send it in the next handshake. After an ensemble was wiped every server refuses that handshake,
// so the session would never learn that it has expired. The zxid ensures that a client does not read older data after a
// reconnect. That is not needed here: every read is followed by a write that checks versions.
type link struct {
	net.Conn
	raw     net.Conn // the TCP connection under it
	greeter greeter
	failed  func(error)

	greeted atomic.Bool
	silence time.Duration
	in      *bufio.Reader
	packet  []byte // the last packet read
	rest    []byte // what of it the library has not read yet
}

// Answers, each after its length in 4 bytes: xid 4, zxid 8, error 4, body.
const (
	zxidFrom  = 4 + 4
	zxidTo    = zxidFrom + 8
	minAnswer = 4 + 8 + 4
)

// Read is called from one goroutine at a time: first the library's connecting one, then its receiving one.
func (l *link) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		next := l.next
		if !l.greeted.Load() {
			next = l.greet
		}
		if err := next(); err != nil {
			return 0, err
		}
		l.rest = l.packet
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *link) greet() error {
	packet, session, granted, err := l.greeter.greet(l.Conn)
	if err != nil {
		l.failed(err)
		return err
	}
	l.packet = packet
	l.in = bufio.NewReader(l.Conn)
	if session != 0 { // else the library hangs up, and the dial's deadline stands until then
		l.silence = timing(granted).silence()
		err = l.Conn.SetDeadline(time.Now().Add(l.silence))
	}
	l.greeted.Store(true)
	return err
}

// next reads one packet into the buffer of the last one.
func (l *link) next() error {
	var head [4]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < minAnswer || size > bufferSize {
		return fmt.Errorf("%w: an answer of %d bytes", errNotZooKeeper, size) // the library panics on less
	}
	l.packet = append(l.packet[:0], head[:]...)
	l.packet = append(l.packet, make([]byte, size)...)
	if _, err := io.ReadFull(l.in, l.packet[4:]); err != nil {
		return err
	}
	clear(l.packet[zxidFrom:zxidTo])
	return nil
}

// SetReadDeadline takes a deadline that is nearer than S/3, and else S/3.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.greeted.Load() || l.silence == 0 {
		return nil // the dial's stands
	}
	return l.Conn.SetReadDeadline(l.capped(t))
}

// SetWriteDeadline is capped in the same way.
func (l *link) SetWriteDeadline(t time.Time) error {
	if !l.greeted.Load() || l.silence == 0 {
		return nil
	}
	return l.Conn.SetWriteDeadline(l.capped(t))
}

func (l *link) capped(t time.Time) time.Time {
	if limit := time.Now().Add(l.silence); t.IsZero() || t.After(limit) {
		return limit
	}
	return t
}

// Close closes the TCP connection at once; a TLS goodbye could block on a frozen one.
func (l *link) Close() error { return l.raw.Close() }
