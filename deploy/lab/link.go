package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// link is one connection through a Proxy: the client's side, the server's side, and two pipes between them. Each pipe
// reads ahead by a bounded amount and writes when the delay is over and the mode allows it. Beyond that bound a stall
// fills the sender's own buffers, as a dead network does.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by reset: all goroutines leave
	once   sync.Once

	mu     sync.Mutex
	server net.Conn // nil until dialled

	up, down sync.Mutex // held during each write, so that quiesce can wait for it
}

const (
	chunkBytes = 32 << 10
	readAhead  = 256 // chunks; room for many small requests inside a long delay
	longAgo    = 1   // a deadline in the past, as Unix seconds
)

type chunk struct {
	bytes []byte
	end   error // why reading ended; io.EOF: the sender closed its side in order
	due   time.Time
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, done: make(chan struct{})}
}

// run runs as long as the connection. The proxy's group waits for it.
func (l *link) run() {
	defer func() {
		l.close()
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	}()
	if !l.gate(false) || !l.dial() {
		l.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pipe(l.server, l.client, &l.up, false) })
	both.Go(func() { l.pipe(l.client, l.server, &l.down, true) })
	both.Wait()
}

// dial opens the server's side; a reset interrupts it.
func (l *link) dial() bool {
	ctx, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-l.done:
			stop()
		case <-ctx.Done():
		}
	})
	server, err := new(net.Dialer).DialContext(ctx, "tcp4", l.proxy.goal())
	stop()
	watch.Wait()
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
	select {
	case <-l.done:
		return false // and run resets both sides
	default:
		return true
	}
}

// gate waits until bytes may pass. It returns false if the link is over.
func (l *link) gate(reply bool) bool {
	for {
		mode, _, changed := l.proxy.state()
		if mode.passes(reply) {
			return true
		}
		select {
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

// pipe moves bytes from one side to the other until the end of stream, an error, or reset.
func (l *link) pipe(to, from net.Conn, writing *sync.Mutex, reply bool) {
	ahead := make(chan chunk, readAhead)
	var reader sync.WaitGroup
	reader.Go(func() { l.read(from, ahead) })
	defer reader.Wait()
	for {
		var c chunk
		select {
		case c = <-ahead:
		case <-l.done:
			return
		}
		if !l.sleepUntil(c.due) || !l.write(to, c, writing, reply) {
			l.reset()
			return
		}
		if c.end != nil {
			return
		}
	}
}

func (l *link) read(from net.Conn, ahead chan<- chunk) {
	for {
		buf := make([]byte, chunkBytes)
		n, err := from.Read(buf)
		_, delay, _ := l.proxy.state()
		if n > 0 && !l.offer(ahead, chunk{bytes: buf[:n], due: time.Now().Add(delay)}) {
			return
		}
		if err != nil {
			l.offer(ahead, chunk{end: err, due: time.Now().Add(delay)})
			return
		}
	}
}

func (l *link) offer(ahead chan<- chunk, c chunk) bool {
	select {
	case ahead <- c:
		return true
	case <-l.done:
		return false
	}
}

func (l *link) sleepUntil(due time.Time) bool {
	d := time.Until(due)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

// write delivers one chunk. A change of mode interrupts it in the middle; the rest waits at the gate.
func (l *link) write(to net.Conn, c chunk, writing *sync.Mutex, reply bool) bool {
	for {
		if !l.gate(reply) {
			return false
		}
		writing.Lock()
		passes, err := l.armed(to, reply)
		if !passes || err != nil { // the mode changed after the gate, or the link was reset
			writing.Unlock()
			if err != nil {
				return false
			}
			continue
		}
		if c.end != nil {
			ok := errors.Is(c.end, io.EOF) && to.(*net.TCPConn).CloseWrite() == nil
			writing.Unlock()
			return ok // false passes a reset on
		}
		n, err := to.Write(c.bytes)
		writing.Unlock()
		if c.bytes = c.bytes[n:]; len(c.bytes) == 0 {
			return true
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
}

// armed clears the deadline that interrupt set, if the mode still lets bytes pass. Both happen under the proxy's lock:
// either armed sees a change of mode, or the change interrupts the write that follows. It fails on a closed connection.
func (l *link) armed(to net.Conn, reply bool) (passes bool, err error) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if !l.proxy.mode.passes(reply) {
		return false, nil
	}
	return true, to.SetWriteDeadline(time.Time{})
}

// interrupt makes the writes in progress return. The caller holds the proxy's lock.
func (l *link) interrupt() {
	past := time.Unix(longAgo, 0)
	_ = l.client.SetWriteDeadline(past) // fails only on a closed connection, which writes nothing
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		_ = l.server.SetWriteDeadline(past)
	}
}

// quiesce returns when no write is in progress that the mode forbids. It must not wait for other writes: one of the new
// mode may have begun already, to a side that never reads.
func (l *link) quiesce(m proxyMode) {
	if !m.passes(false) {
		l.up.Lock()
		//lint:ignore SA2001 the empty section is the wait
		l.up.Unlock()
	}
	if !m.passes(true) {
		l.down.Lock()
		//lint:ignore SA2001 the empty section is the wait
		l.down.Unlock()
	}
}

// reset ends both sides at once and discards the bytes they hold.
func (l *link) reset() {
	l.once.Do(func() { close(l.done) })
	resetConn(l.client)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		resetConn(l.server)
	}
}

// close lets both sides deliver the bytes they still hold. After a reset it does nothing.
func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// resetConn closes a connection without delivering what the kernel still holds: the other side sees a reset.
func resetConn(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
