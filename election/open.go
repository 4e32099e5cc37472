package election

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// stopTimeout bounds the wait for the library's goroutine, which has nothing left to wait for by then.
const stopTimeout = 5 * time.Second

// bufferSize is for one packet each way. The longest is the list of members; the library's default is 1.5 MiB twice.
const bufferSize = 256 << 10

// connection is a zk.Conn for one session, with everything the library leaves open closed from outside.
type connection struct {
	*zk.Conn
	dialer *dialer
	events <-chan zk.Event
	log    zerolog.Logger
}

func realOpener(cfg ZooKeeperConfig, log zerolog.Logger) opener {
	return func(h hooks) (client, error) {
		d := newDialer(cfg, h)
		conn, events, err := zk.Connect(cfg.Servers, cfg.Session,
			zk.WithHostProvider(d),
			zk.WithDialer(d.dial),
			zk.WithEventCallback(func(e zk.Event) {
				if e.Type == zk.EventSession {
					h.state(e.State)
				}
			}),
			zk.WithLogger(libraryLog{log}),
			zk.WithLogInfo(false),
			zk.WithMaxBufferSize(bufferSize),
			zk.WithMaxConnBufferSize(bufferSize),
		)
		if err != nil {
			d.cut()
			return nil, err
		}
		return &connection{Conn: conn, dialer: d, events: events, log: log}, nil
	}
}

// Close says goodbye where there is a connection to say it on, so that the ephemeral znodes go at once, and waits until
// the library's goroutine has ended: it closes the event channel last.
func (c *connection) Close() {
	c.dialer.quit()
	c.Conn.Close()
	c.dialer.cut()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	for {
		select {
		case _, ok := <-c.events:
			if !ok {
				return
			}
		case <-timer.C:
			c.log.Error().Dur("after", stopTimeout).Msg("zookeeper client did not stop")
			return
		}
	}
}

// libraryLog shows what the library says only where one looks for it: this package logs what matters itself.
type libraryLog struct{ log zerolog.Logger }

func (l libraryLog) Printf(format string, args ...any) {
	l.log.Debug().Str("detail", fmt.Sprintf(format, args...)).Msg("zookeeper client")
}
