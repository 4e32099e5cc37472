package app

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// DemoSubjects is the pattern of the subjects that tarry dev itself consumes, so that a newcomer without a NATS client
// sees a message arrive.
const DemoSubjects = "demo.>"

// Watch prints the messages that arrive on DemoSubjects, like any NATS consumer. It is not a log: it shows bodies,
// since these subjects are for demonstration. It also prints the refused pushes by tag of all subjects, without bodies.
func (a *App) Watch(w io.Writer) error {
	var mu sync.Mutex
	show := func(subject string, text func(*nats.Msg) string) error {
		_, err := a.conn.Subscribe(subject, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(w, "%s  %s\n", time.Now().Format("15:04:05.000"), text(m))
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", subject, err)
		}
		return nil
	}
	err := show(DemoSubjects, func(m *nats.Msg) string {
		return fmt.Sprintf("arrived on %q: %.60q (id %q)", m.Subject, m.Data, m.Header.Get(wire.HeaderID))
	})
	if err != nil {
		return err
	}
	return show(link.RejectsSubject(a.cfg.Namespace)+".>", func(m *nats.Msg) string {
		return fmt.Sprintf("refused on %q: %q", m.Header.Get(wire.HeaderSubject), m.Header.Get(wire.HeaderReason))
	})
}
