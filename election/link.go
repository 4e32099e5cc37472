package election

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// link is a connection that the library holds. It reads whole packets from the server and passes them on with three
// differences.
//
// The first packet is the ConnectResponse. Reading it does the rest of the handshake (greeter) under the dial's
// deadline, whatever deadline the library sets (6.7·S, and none for the body).
//
// No later read waits longer than S/3: the session's own traffic, renewals and looks, brings an answer every S/6.
//
// The link sets the zxid in each answer's header to 0. The library would record the zxid (a data race, see the package
// comment) and send it in the next handshake. After an ensemble was wiped every server refuses that handshake, so the
// session would never learn that it has expired. The zxid ensures that a client does not read older data after a
// reconnect. That is not needed here: every read is followed by a write that checks versions.
type link struct {
	net.Conn
	greeter greeter
	heard   func()
	failed  func(error)

	greeted atomic.Bool
	silence time.Duration
	in      *bufio.Reader
	packet  []byte // the last packet read
	rest    []byte // the part of it that the library has not read yet
}

// Layout of answers, each after its length in 4 bytes: xid 4, zxid 8, error 4, body.
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
	if session != 0 { // otherwise the library hangs up, and the dial's deadline applies until then
		l.silence = timing(granted).silence()
		err = l.Conn.SetDeadline(time.Now().Add(l.silence))
	}
	l.greeted.Store(true)
	return err
}

// next reads one packet into the buffer of the previous one.
func (l *link) next() error {
	var head [4]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < minAnswer || size > bufferSize {
		return fmt.Errorf("%w: an answer of %d bytes", errNotZooKeeper, size) // the library panics on a shorter one
	}
	l.packet = append(l.packet[:0], head[:]...)
	l.packet = append(l.packet, make([]byte, size)...)
	if _, err := io.ReadFull(l.in, l.packet[4:]); err != nil {
		return err
	}
	l.heard()
	clear(l.packet[zxidFrom:zxidTo])
	return nil
}

// SetReadDeadline sets the given deadline, or S/3 from now if that is sooner.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.greeted.Load() || l.silence == 0 {
		return nil // the dial's deadline stays
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

// The handshake on the wire, all big-endian, each packet after its length in 4 bytes:
//
//	server → client   ConnectResponse   protocol 4, time-out in ms 4, session id 8, password 4+n, [read-only 1]
//	client → server   auth              xid -4, opcode 100, type 0, scheme 4+n, credentials 4+n
//	server → client   reply             xid -4, zxid 8, error 4
const (
	authXid      = -4
	authOpcode   = 100
	maxHandshake = 4096 // a ConnectResponse is 37 bytes
	minConnect   = 4 + 4 + 8 + 4
	replySize    = 4 + 8 + 4
)

// ErrCredentials is wrapped by the error of a session that could not be opened because of its credentials.
var ErrCredentials = errors.New("zookeeper refused the credentials")

var errNotZooKeeper = errors.New("not a ZooKeeper handshake")

// greeter reads the server's part of the handshake before the library sees it.
type greeter struct {
	username, password string
	accept             func(session int64, granted time.Duration) error
}

// greet returns the ConnectResponse with its length, for the library to read. Any credentials have been accepted by
// then. The library never sees them (its own AddAuth can deadlock).
func (g greeter) greet(conn io.ReadWriter) (packet []byte, session int64, granted time.Duration, err error) {
	packet, err = readPacket(conn)
	if err != nil {
		return nil, 0, 0, err
	}
	session, granted, err = decodeConnect(packet[4:])
	if err != nil {
		return nil, 0, 0, err
	}
	if err := g.accept(session, granted); err != nil {
		return nil, 0, 0, err
	}
	if session != 0 && g.username != "" {
		if err := g.authenticate(conn); err != nil {
			return nil, 0, 0, err
		}
	}
	return packet, session, granted, nil
}

// readPacket reads one packet, including its length.
func readPacket(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxHandshake {
		return nil, fmt.Errorf("%w: a packet of %d bytes", errNotZooKeeper, size)
	}
	packet := make([]byte, 4+size)
	copy(packet, head[:])
	if _, err := io.ReadFull(r, packet[4:]); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return packet, nil
}

// decodeConnect extracts the session id and the granted time-out from a ConnectResponse. Id 0 means that the session
// has expired.
func decodeConnect(b []byte) (session int64, granted time.Duration, err error) {
	if len(b) < minConnect {
		return 0, 0, fmt.Errorf("%w: %d bytes", errNotZooKeeper, len(b))
	}
	ms := int32(binary.BigEndian.Uint32(b[4:]))
	session = int64(binary.BigEndian.Uint64(b[8:]))
	if secret := int32(binary.BigEndian.Uint32(b[16:])); secret < -1 || int(secret) > len(b)-minConnect {
		return 0, 0, fmt.Errorf("%w: a password of %d bytes in a packet of %d", errNotZooKeeper, secret, len(b))
	}
	if session != 0 && ms <= 0 {
		return 0, 0, fmt.Errorf("%w: time-out %d ms", errNotZooKeeper, ms)
	}
	return session, time.Duration(ms) * time.Millisecond, nil
}

// authenticate sends the digest and waits for the reply.
func (g greeter) authenticate(conn io.ReadWriter) error {
	if _, err := conn.Write(encodeAuth(g.username + ":" + g.password)); err != nil {
		return fmt.Errorf("send credentials: %w", err)
	}
	reply, err := readPacket(conn)
	if err != nil {
		return err
	}
	return checkAuthReply(reply[4:])
}

func encodeAuth(credentials string) []byte {
	const scheme = "digest"
	size := 4 + 4 + 4 + 4 + len(scheme) + 4 + len(credentials)
	b := make([]byte, 0, 4+size)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	xid := int32(authXid)
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, authOpcode)
	b = binary.BigEndian.AppendUint32(b, 0)
	for _, s := range []string{scheme, credentials} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

func checkAuthReply(b []byte) error {
	if len(b) < replySize {
		return fmt.Errorf("%w: auth reply of %d bytes", errNotZooKeeper, len(b))
	}
	if xid := int32(binary.BigEndian.Uint32(b)); xid != authXid {
		return fmt.Errorf("%w: xid %d in reply to auth", errNotZooKeeper, xid)
	}
	if code := int32(binary.BigEndian.Uint32(b[12:])); code != 0 {
		return fmt.Errorf("%w (code %d)", ErrCredentials, code)
	}
	return nil
}
