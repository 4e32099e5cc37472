package lab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// mariadbAnswers logs in as root and tries one SELECT. The open port alone means little: mariadbd accepts connections
// before it serves them, and a SIGTERM that comes between can be lost.
func mariadbAnswers(addr string) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := mysqlSession{conn, bufio.NewReader(conn)}
	greeting, err := s.read()
	if err != nil {
		return fmt.Errorf("read the greeting of mariadb: %w", err)
	}
	if greeting[0] != 10 {
		return fmt.Errorf("read the greeting of mariadb: protocol %d, want 10", greeting[0])
	}
	if err := s.ask(1, rootLogin()); err != nil {
		return fmt.Errorf("log in to mariadb: %w", err)
	}
	if err := s.ask(0, []byte("\x03SELECT 1")); err != nil {
		return fmt.Errorf("ask mariadb SELECT 1: %w", err)
	}
	return s.write(0, []byte{1}) // quit; without it the server's log complains
}

// rootLogin is the answer to the greeting: root, and of mysql_native_password the empty proof of an empty password.
func rootLogin() []byte {
	const protocol41, secureConnection = 1 << 9, 1 << 15
	const utf8mb4 = 45
	var b []byte
	b = binary.LittleEndian.AppendUint32(b, protocol41|secureConnection)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(b, utf8mb4)
	b = append(b, make([]byte, 23)...)
	b = append(b, "root\x00"...)
	return append(b, 0)
}

// mysqlSession speaks packets: three bytes of length, one that counts, the payload.
type mysqlSession struct {
	conn net.Conn
	r    *bufio.Reader
}

// ask sends a packet and wants any answer but an error. Only the first packet of it is read.
func (s mysqlSession) ask(count byte, payload []byte) error {
	if err := s.write(count, payload); err != nil {
		return err
	}
	_, err := s.read()
	return err
}

func (s mysqlSession) write(count byte, payload []byte) error {
	head := []byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), count}
	_, err := s.conn.Write(append(head, payload...))
	return err
}

// read returns one packet, never an empty one. An error packet becomes an error.
func (s mysqlSession) read() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return nil, err
	}
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("an empty packet")
	}
	if b[0] == 0xff {
		return nil, fmt.Errorf("it says %q", bytes.TrimSpace(b[min(3, len(b)):]))
	}
	return b, nil
}
