package app

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// DemoSubjects are what tarry dev itself consumes, so that a newcomer without
// any NATS client sees a message arrive.
const DemoSubjects = "demo.>"

// Watch prints what arrives on DemoSubjects, as any consumer of NATS could. It
// is not a log: it shows bodies, since these subjects are there to be looked at.
func (d *Dev) Watch(w io.Writer) error {
	var mu sync.Mutex
	_, err := d.p.conn.Subscribe(DemoSubjects, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%s  arrived on %s: %.60q (id %s)\n", time.Now().Format("15:04:05.000"), m.Subject, m.Data, m.Header.Get(wire.HeaderID))
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", DemoSubjects, err)
	}
	return nil
}
