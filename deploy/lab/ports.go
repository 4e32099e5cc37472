package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports lie below the range that Linux uses for outgoing connections (32768 and up): no client can take the port of
// a server that is down for a restart.
const (
	lowPort  = 17000
	highPort = 32000
)

const loopback = "127.0.0.1"

// port is a number that no other test binary on this machine uses while it is held. The reservation is an abstract Unix
// socket: it has no file, belongs to the same network namespace as the port, and ends with the process at the latest.
type port struct {
	number int
	lock   net.Listener
}

func (p port) addr() string { return net.JoinHostPort(loopback, strconv.Itoa(p.number)) }

func (p port) release() { _ = p.lock.Close() }

func reservePort() (port, error) {
	var last error
	for range 1000 {
		n := lowPort + rand.IntN(highPort-lowPort)
		lock, err := net.Listen("unix", "@tarry-lab-port-"+strconv.Itoa(n))
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(n)))
		if err != nil {
			_ = lock.Close()
			last = err
			continue
		}
		_ = probe.Close()
		return port{n, lock}, nil
	}
	return port{}, fmt.Errorf("find a free port between %d and %d: %w", lowPort, highPort, last)
}

// reservePorts reserves n ports, or none.
func reservePorts(n int) (ports []port, release func(), err error) {
	release = func() {
		for _, p := range ports {
			p.release()
		}
	}
	for range n {
		p, err := reservePort()
		if err != nil {
			release()
			return nil, nil, err
		}
		ports = append(ports, p)
	}
	return ports, release, nil
}

// FreePort returns a port of 127.0.0.1 that no other user of this package gets until the test ends.
func FreePort(t testing.TB) int {
	t.Helper()
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.release)
	return p.number
}

var errPortTaken = errors.New("a port was taken by a stranger")

// onPorts calls start with n reserved ports, and again with others if a program outside this package took one of them
// first.
func onPorts[T any](n int, start func(ports []port, release func()) (T, error)) (T, error) {
	var zero T
	var last error
	for range 5 {
		ports, release, err := reservePorts(n)
		if err != nil {
			return zero, err
		}
		v, err := start(ports, release)
		if err == nil {
			return v, nil
		}
		release()
		last = err
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return zero, last
}

// startOn starts c and marks the failure after which onPorts tries again.
func startOn(c *child) error {
	err := c.start()
	if err != nil && c.portTaken() {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	if err != nil {
		c.kill()
	}
	return err
}
