package tarry

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// link is a TCP proxy to the server whose way back can be cut just after the server's answer has entered it.
type link struct {
	addr   string
	listen net.Listener
	to     string

	mu    sync.Mutex
	until []byte        // an answer that holds this is lost, and so is the connection
	lost  chan struct{} // closed when that has happened
	wait  sync.WaitGroup
	conns map[net.Conn]bool
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{addr: l.Addr().String(), listen: l, to: to, conns: map[net.Conn]bool{}}
	k.wait.Go(k.accept)
	t.Cleanup(func() {
		_ = l.Close()
		k.mu.Lock()
		for c := range k.conns {
			_ = c.Close()
		}
		k.mu.Unlock()
		k.wait.Wait()
	})
	return k
}

// lose has the next answer that holds text get lost; every one where again is set.
func (k *link) lose(text string) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until, k.lost = []byte(text), make(chan struct{})
	return k.lost
}

func (k *link) accept() {
	for {
		client, err := k.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", k.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		k.mu.Lock()
		k.conns[client], k.conns[server] = true, true
		k.mu.Unlock()
		k.wait.Go(func() { k.copy(server, client, false) })
		k.wait.Go(func() { k.copy(client, server, true) })
	}
}

func (k *link) copy(to, from net.Conn, back bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if back && k.swallows(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (k *link) swallows(b []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.until == nil || !bytes.Contains(b, k.until) {
		return false
	}
	k.until = nil
	close(k.lost)
	return true
}

func throughLink(t *testing.T, more func(...nats.Option) *nats.Conn) (*link, *nats.Conn) {
	t.Helper()
	k := newLink(t, shared.addr)
	dial := nats.SetCustomDialer(dialer{k.addr})
	return k, more(dial, nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
}

// dialer goes to the link whatever the URL says.
type dialer struct{ addr string }

func (d dialer) Dial(_, _ string) (net.Conn, error) { return net.Dial("tcp", d.addr) }

func TestPublishMsg_AfterALostPubAckStoresOneMessage(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	k, far := throughLink(t, more)
	conn := wrap(t, far, WithAckWait(300*time.Millisecond))
	if _, err := conn.client.route.decide(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := k.lose(`"stream":"TARRY_default"`)
	r, err := conn.Tarry().Push(t.Context(), message("orders", "1", "Tarry-Delay", "1h"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-lost:
	default:
		t.Fatal("no PubAck was lost: the test shows nothing")
	}
	if got := one(t, in); !r.Duplicate || r.Sequence != got.Sequence {
		t.Fatalf("got %+v, want the duplicate of %d", r, got.Sequence)
	}
	js := wrapJS(t, far, WithAckWait(300*time.Millisecond), WithRoute(ByStream))
	k.lose(`"stream":"TARRY_default"`)
	ack, err := js.PublishMsg(t.Context(), message("orders", "2", "Tarry-Delay", "1h"))
	if list := stored(t, in); err != nil || !ack.Duplicate || len(list) != 2 {
		t.Fatalf("through JetStream: got %+v, %v and %d messages", ack, err, len(list))
	}
}

func TestPublishMsg_WithoutAnAnswerSaysThatTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	k, far := throughLink(t, more)
	conn := wrap(t, far, WithAckWait(10*time.Second), WithTimeout(time.Second), WithRoute(ByStream))
	k.lose(`"stream":"TARRY_default"`)
	err := conn.PublishMsg(message("orders", "1", "Tarry-Delay", "1h", "Tarry-Id", "order-1"))
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want ErrOutcomeUnknown", err)
	}
	one(t, in) // it was stored, and the caller cannot know
}

func TestPublishAsync_AfterALostPubAckCanBeSentAgain(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	k, far := throughLink(t, more)
	js := wrapJS(t, far, WithRoute(ByStream))
	k.lose(`"stream":"TARRY_default"`)
	f, err := js.PublishMsgAsync(message("orders", "1", "Tarry-Delay", "1h"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.Err():
		if !errors.Is(err, nats.ErrDisconnected) {
			t.Fatal(err)
		}
	case ack := <-f.Ok():
		t.Fatalf("the PubAck %+v was not lost", ack)
	case <-time.After(10 * time.Second):
		t.Fatal("no end of the future")
	}
	again, err := js.PublishMsg(t.Context(), f.Msg())
	if err != nil || !again.Duplicate {
		t.Fatalf("got %+v, %v, want a duplicate", again, err)
	}
	one(t, in)
}
