package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// zkConn is a session with one ZooKeeper server, by the protocol itself: the usual client shows neither the granted
// time-out nor which server it talks to, and can block for seven session time-outs. Every call ends with ctx.
type zkConn struct {
	conn    net.Conn
	xid     int32
	granted time.Duration
}

// The requests that are made, all of which only read.
const (
	zkExists      = 3
	zkGetData     = 4
	zkGetACL      = 6
	zkGetChildren = 8
	zkAuth        = 100
	zkClose       = -11
)

// maxPacket bounds an answer.
const maxPacket = 4 << 20

// zkError is a code with which a server refuses.
type zkError int32

const (
	zkNoNode     zkError = -101
	zkNoAuth     zkError = -102
	zkAuthFailed zkError = -115
)

func (e zkError) Error() string {
	switch e {
	case zkNoNode:
		return "no such znode"
	case zkNoAuth:
		return "not allowed by the znode's ACL"
	case zkAuthFailed:
		return "the credentials were refused"
	}
	return fmt.Sprintf("zookeeper error %d", int32(e))
}

var errNotZooKeeper = errors.New("it does not answer like ZooKeeper")

// dialZooKeeper opens a session and authenticates where there is a user.
func dialZooKeeper(ctx context.Context, addr string, session time.Duration, username,
	password string) (z *zkConn, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		if err != nil {
			err = errors.Join(ended(ctx, err), conn.Close())
		}
	}()
	var hello []byte
	hello = binary.BigEndian.AppendUint32(hello, 0) // protocol
	hello = binary.BigEndian.AppendUint64(hello, 0) // last zxid
	hello = binary.BigEndian.AppendUint32(hello, uint32(session.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, 0) // session
	hello = appendBuffer(hello, make([]byte, 16))   // its password
	hello = append(hello, 0)                        // not to a read-only server
	if _, err := conn.Write(appendBuffer(nil, hello)); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	answer, err := readPacket(conn)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if len(answer) < 16 {
		return nil, fmt.Errorf("handshake: %w", errNotZooKeeper)
	}
	z = &zkConn{conn: conn, granted: time.Duration(int32(binary.BigEndian.Uint32(answer[4:]))) * time.Millisecond}
	if binary.BigEndian.Uint64(answer[8:]) == 0 || z.granted <= 0 {
		return nil, fmt.Errorf("handshake: no session was given")
	}
	if username != "" {
		request := binary.BigEndian.AppendUint32(nil, 0)
		request = appendBuffer(request, []byte("digest"))
		request = appendBuffer(request, []byte(username+":"+password))
		if _, err := z.send(-4, zkAuth, request); err != nil {
			return nil, fmt.Errorf("authenticate: %w", err)
		}
	}
	return z, nil
}

// ended puts ctx's end in place of the error it caused.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer in time: %w", context.Cause(ctx))
	}
	return err
}

// close ends the session at the server.
func (z *zkConn) close() {
	_ = z.conn.SetDeadline(time.Now().Add(time.Second))
	z.xid++
	_, _ = z.send(z.xid, zkClose, nil)
	_ = z.conn.Close()
}

func (z *zkConn) call(ctx context.Context, opcode int32, request []byte) (answer, error) {
	deadline, _ := ctx.Deadline()
	if err := z.conn.SetDeadline(deadline); err != nil {
		return answer{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = z.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	z.xid++
	body, err := z.send(z.xid, opcode, request)
	if err != nil {
		if _, refused := err.(zkError); !refused {
			err = ended(ctx, err)
		}
		return answer{}, err
	}
	return answer{b: body}, nil
}

func (z *zkConn) send(xid, opcode int32, request []byte) ([]byte, error) {
	head := binary.BigEndian.AppendUint32(nil, uint32(xid))
	head = binary.BigEndian.AppendUint32(head, uint32(opcode))
	if _, err := z.conn.Write(appendBuffer(nil, append(head, request...))); err != nil {
		return nil, err
	}
	for {
		packet, err := readPacket(z.conn)
		if err != nil {
			return nil, err
		}
		if len(packet) < 16 {
			return nil, errNotZooKeeper
		}
		if int32(binary.BigEndian.Uint32(packet)) != xid {
			continue // an event
		}
		if code := zkError(binary.BigEndian.Uint32(packet[12:])); code != 0 {
			return nil, code
		}
		return packet[16:], nil
	}
}

func pathRequest(path string, watches bool) []byte {
	b := appendBuffer(nil, []byte(path))
	if watches {
		b = append(b, 0) // watch
	}
	return b
}

// data is what a znode holds.
func (z *zkConn) data(ctx context.Context, path string) ([]byte, error) {
	a, err := z.call(ctx, zkGetData, pathRequest(path, true))
	if err != nil {
		return nil, err
	}
	data := a.buffer()
	return data, a.err
}

// children are the names under a znode.
func (z *zkConn) children(ctx context.Context, path string) ([]string, error) {
	a, err := z.call(ctx, zkGetChildren, pathRequest(path, true))
	if err != nil {
		return nil, err
	}
	var names []string
	for range a.count() {
		names = append(names, string(a.buffer()))
	}
	return names, a.err
}

// zkACL is an entry of a znode's list of rights.
type zkACL struct {
	rights     int32
	scheme, id string
}

// The rights.
const (
	zkRead = 1 << iota
	zkWrite
	zkCreate
	zkDelete
)

func (z *zkConn) acl(ctx context.Context, path string) ([]zkACL, error) {
	a, err := z.call(ctx, zkGetACL, pathRequest(path, false))
	if err != nil {
		return nil, err
	}
	var list []zkACL
	for range a.count() {
		list = append(list, zkACL{rights: a.number(), scheme: string(a.buffer()), id: string(a.buffer())})
	}
	return list, a.err
}

// answer is read from its start; after an error everything is empty.
type answer struct {
	b   []byte
	err error
}

func (a *answer) number() int32 {
	if len(a.b) < 4 {
		a.err, a.b = errNotZooKeeper, nil
		return 0
	}
	n := int32(binary.BigEndian.Uint32(a.b))
	a.b = a.b[4:]
	return n
}

// count is how many entries follow, each of which has 4 bytes at least.
func (a *answer) count() int { return min(max(int(a.number()), 0), len(a.b)/4) }

func (a *answer) buffer() []byte {
	n := int(a.number())
	if n < 0 {
		return nil
	}
	if n > len(a.b) {
		a.err, a.b = errNotZooKeeper, nil
		return nil
	}
	data := a.b[:n]
	a.b = a.b[n:]
	return data
}

func appendBuffer(b, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

// readPacket reads one packet, without its length.
func readPacket(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxPacket {
		return nil, errNotZooKeeper
	}
	packet := make([]byte, n)
	_, err := io.ReadFull(r, packet)
	return packet, err
}

// fourLetters asks what servers answer without a session, where they are let.
func fourLetters(ctx context.Context, addr, word string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxPacket))
	return string(text), err
}
