package election

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// connectResponse is what a server answers to a handshake.
func connectResponse(timeoutMS int32, session int64) []byte {
	b := binary.BigEndian.AppendUint32(nil, 37)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeoutMS))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, 16)
	return append(b, make([]byte, 17)...)
}

// answer is an answer to a request, or to an auth packet.
func answer(xid int32, zxid int64, code int32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, body...)
}

// pair is a link and the server's end of it.
func pair(t *testing.T, g greeter) (*link, net.Conn, *[]error) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	var failures []error
	if g.accept == nil {
		g.accept = func(int64, time.Duration) error { return nil }
	}
	l := &link{Conn: ours, greeter: g, heard: func() {},
		failed: func(err error) { failures = append(failures, err) }}
	return l, theirs, &failures
}

// serve writes in the background; the pipe has no buffer.
func serve(t *testing.T, conn net.Conn, script func(io.ReadWriter) error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- script(conn) }()
	t.Cleanup(func() {
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}

func TestLink_ReadsTheGrantedTimeoutAndHidesZxids(t *testing.T) {
	t.Parallel()
	var session int64
	var granted time.Duration
	l, server, _ := pair(t, greeter{accept: func(s int64, g time.Duration) error {
		session, granted = s, g
		return nil
	}})
	hello, first, second := connectResponse(4000, 77), answer(1, 1234, 0, "body"), answer(-2, 99, -101, "")
	serve(t, server, func(c io.ReadWriter) error {
		_, err := c.Write(slices.Concat(hello, first, second))
		return err
	})
	got := make([]byte, len(hello)+len(first)+len(second))
	if _, err := io.ReadFull(l, got); err != nil {
		t.Fatal(err)
	}
	if want := slices.Concat(hello, answer(1, 0, 0, "body"), answer(-2, 0, -101, "")); !bytes.Equal(got, want) {
		t.Errorf("the library reads\n%x, want\n%x", got, want)
	}
	if session != 77 || granted != 4*time.Second || l.silence != 4*time.Second/3 {
		t.Errorf("session %d, granted %v, silence %v", session, granted, l.silence)
	}
}

func TestLink_AuthenticatesInsideTheHandshake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply []byte
		want  error
	}{
		"accepted":      {answer(-4, 5, 0, ""), nil},
		"refused":       {answer(-4, 5, -115, ""), ErrCredentials},
		"another reply": {answer(3, 5, 0, ""), errNotZooKeeper},
		"short reply":   {[]byte{0, 0, 0, 4, 0, 0, 0, 0}, errNotZooKeeper},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, server, failures := pair(t, greeter{username: "tarry", password: "s:cret"})
			hello := connectResponse(4000, 77)
			serve(t, server, func(rw io.ReadWriter) error {
				if _, err := rw.Write(hello); err != nil {
					return err
				}
				auth, err := readPacket(rw)
				if err != nil {
					return err
				}
				want := "\x00\x00\x00\x2c\xff\xff\xff\xfc\x00\x00\x00\x64\x00\x00\x00\x00" +
					"\x00\x00\x00\x06digest\x00\x00\x00\x0ctarry:s:cret"
				want = string(binary.BigEndian.AppendUint32(nil, uint32(len(want)-4))) + want[4:]
				if string(auth) != want {
					t.Errorf("sent %q, want %q", auth, want)
				}
				_, err = rw.Write(c.reply)
				return err
			})
			got := make([]byte, len(hello))
			_, err := io.ReadFull(l, got)
			if !errors.Is(err, c.want) {
				t.Fatalf("read: %v, want %v", err, c.want)
			}
			if c.want == nil && !bytes.Equal(got, hello) {
				t.Errorf("the library reads %x", got)
			}
			if (len(*failures) == 1) != (c.want != nil) {
				t.Errorf("reported %v", *failures)
			}
		})
	}
}

func TestLink_CapsEveryDeadline(t *testing.T) {
	t.Parallel()
	l, server, _ := pair(t, greeter{})
	if err := l.Conn.SetDeadline(time.Now().Add(-time.Second)); err != nil { // the dial's, passed
		t.Fatal(err)
	}
	if err := errors.Join(l.SetReadDeadline(time.Time{}), l.SetWriteDeadline(time.Time{})); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := l.Read(make([]byte, 4)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("the library lifted the handshake's deadline: %v", err)
	}
	if err := l.Conn.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	serve(t, server, func(rw io.ReadWriter) error {
		_, err := rw.Write(connectResponse(60, 77))
		return err
	})
	if _, err := io.ReadFull(l, make([]byte, 41)); err != nil {
		t.Fatal(err)
	}
	for _, far := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if err := l.SetReadDeadline(far); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Read(make([]byte, 4)); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("with the deadline %v a read ended by %v", far, err)
		}
	}
	if at := time.Now().Add(time.Millisecond); !l.capped(at).Equal(at) {
		t.Error("a near deadline was moved")
	}
}

func TestLink_RefusesWhatIsNotZooKeeper(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"http":            []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"short":           {0, 0, 0, 3, 1, 2, 3},
		"negative length": {0xff, 0xff, 0xff, 0xff},
		"no time-out":     connectResponse(0, 5),
		"long password": append(connectResponse(4000, 5)[:20], 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			0, 0, 0, 0, 0, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, server, failures := pair(t, greeter{})
			serve(t, server, func(rw io.ReadWriter) error {
				_, err := rw.Write(b)
				return err
			})
			if _, err := l.Read(make([]byte, 64)); !errors.Is(err, errNotZooKeeper) {
				t.Errorf("read: %v", err)
			}
			if len(*failures) != 1 {
				t.Errorf("reported %v", *failures)
			}
			l.Close()
		})
	}
}

func TestLink_RefusesAnEndlessPacket(t *testing.T) {
	t.Parallel()
	l, server, _ := pair(t, greeter{})
	serve(t, server, func(rw io.ReadWriter) error {
		_, err := rw.Write(append(connectResponse(4000, 77), 0x7f, 0xff, 0xff, 0xff))
		return err
	})
	if _, err := io.ReadFull(l, make([]byte, 41)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(make([]byte, 4)); err == nil {
		t.Error("a packet of 2 GiB was begun")
	}
}

// newHeardDialer returns a dialer and the states that it reports.
func newHeardDialer(t *testing.T) (*dialer, *[]zk.State) {
	states := new([]zk.State)
	d := newDialer(NodeConfig{Servers: []string{"a:1"}, Session: time.Second}, hooks{
		granted: func(time.Duration) {},
		state:   func(s zk.State) { *states = append(*states, s) },
		failed:  func(error) {},
	})
	t.Cleanup(d.cut)
	return d, states
}

func TestDialer_ServesOneSessionOnly(t *testing.T) {
	t.Parallel()
	d, states := newHeardDialer(t)
	for range 2 { // a reconnect to the same session
		if err := d.accept(5, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.accept(6, time.Second); !errors.Is(err, errExpired) || !slices.Contains(*states, zk.StateExpired) {
		t.Errorf("another session: %v, states %v", err, *states)
	}
	if _, err := d.dial("tcp", "a:1", 0); !errors.Is(err, errExpired) {
		t.Errorf("dial after the session: %v", err)
	}
	if _, stop := d.Next(); !stop {
		t.Error("the library is not led to where it looks whether it is closed")
	}
}

// Each handshake that arrives renews the session, though no answer comes back.
func TestDialer_GivesUpASessionThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	d, states := newHeardDialer(t)
	if err := d.waitTurn("a:1"); err != nil { // there is no session yet
		t.Fatal(err)
	}
	if err := d.accept(5, time.Minute); err != nil {
		t.Fatal(err)
	}
	d.heard = time.Now().Add(-50 * time.Second)
	if err := d.waitTurn("a:1"); err != nil || len(*states) > 0 {
		t.Fatalf("while it may live: %v, states %v", err, *states)
	}
	d.heard = time.Now().Add(-61 * time.Second)
	if err := d.waitTurn("a:1"); !errors.Is(err, errExpired) || !slices.Contains(*states, zk.StateExpired) {
		t.Errorf("after it: %v, states %v", err, *states)
	}
}

func TestDialer_TakesAddressesInTurnAndResolvesEachTime(t *testing.T) {
	t.Parallel()
	d := newDialer(NodeConfig{Servers: []string{"zoo:2181"}, Session: time.Second}, hooks{failed: func(error) {}})
	defer d.cut()
	lookups, fail := 0, errors.New("no such host")
	d.lookup = func(context.Context, string) ([]string, error) {
		switch lookups++; lookups {
		case 1:
			return nil, fail
		case 2:
			return nil, nil
		}
		return []string{"10.0.0.1", "10.0.0.2"}, nil
	}
	if _, err := d.resolve(t.Context(), "zoo"); !errors.Is(err, fail) {
		t.Errorf("first: %v", err)
	}
	if a, err := d.resolve(t.Context(), "zoo"); err == nil {
		t.Errorf("a name without addresses resolved to %q", a)
	}
	var got []string
	for range 3 {
		a, err := d.resolve(t.Context(), "zoo")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if got[0] == got[1] || got[0] != got[2] {
		t.Errorf("addresses %v", got)
	}
	if a, err := d.resolve(t.Context(), "127.0.0.1"); a != "127.0.0.1" || err != nil || lookups != 5 {
		t.Errorf("an address was looked up: %q, %v", a, err)
	}
}

func FuzzDecodeConnect(f *testing.F) {
	f.Add(connectResponse(4000, 77)[4:])
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		session, granted, err := decodeConnect(b)
		if err == nil && session != 0 && granted <= 0 {
			t.Errorf("session %d granted %v", session, granted)
		}
		if err != nil && !errors.Is(err, errNotZooKeeper) {
			t.Errorf("error %v", err)
		}
		if err := checkAuthReply(b); err == nil && len(b) < replySize {
			t.Errorf("accepted a reply of %d bytes", len(b))
		}
	})
}

// FuzzLink feeds a link any bytes, cut anywhere: what the library reads is the server's, but for the zxids.
func FuzzLink(f *testing.F) {
	hello := connectResponse(4000, 77)
	f.Add(slices.Concat(hello, answer(1, 9, 0, "x")), uint8(3))
	f.Add(slices.Concat(connectResponse(4000, 0), answer(1, 9, 0, "x")), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		conn := &scripted{Reader: bytes.NewReader(stream)}
		l := &link{Conn: conn, heard: func() {}, failed: func(error) {},
			greeter: greeter{accept: func(int64, time.Duration) error { return nil }}}
		var got []byte
		p := make([]byte, int(step)+1)
		for {
			n, err := l.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				break
			}
		}
		if len(got) > len(stream) {
			t.Fatalf("%d bytes made of %d", len(got), len(stream))
		}
		for i, b := range got {
			if b != stream[i] && b != 0 {
				t.Fatalf("byte %d became %x", i, b)
			}
		}
	})
}

// scripted is a connection that gives what it was given.
type scripted struct {
	net.Conn
	io.Reader
}

func (s *scripted) Read(p []byte) (int, error)       { return s.Reader.Read(p) }
func (s *scripted) SetDeadline(time.Time) error      { return nil }
func (s *scripted) SetReadDeadline(time.Time) error  { return nil }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }
func (s *scripted) Close() error                     { return nil }
