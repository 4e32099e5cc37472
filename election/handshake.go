package election

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

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

var (
	errNotZooKeeper = errors.New("not a ZooKeeper handshake")
	errCredentials  = errors.New("zookeeper refused the credentials")
)

// greeter reads the server's part of the handshake before the library sees it.
type greeter struct {
	username, password string
	accept             func(session int64, granted time.Duration) error
}

// greet returns the ConnectResponse with its length, for the library to read. Where there are credentials, they have
// been accepted by then; the library never learns of them (its own AddAuth can deadlock).
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

// readPacket reads one packet, its length included.
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

// decodeConnect takes the session id and the granted time-out out of a ConnectResponse. Id 0: the session has expired.
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
		return fmt.Errorf("%w (code %d)", errCredentials, code)
	}
	return nil
}
