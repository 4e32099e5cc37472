package timeline

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A renewal soon after another is postponed, not skipped: connections opened in between may also lead to a server that
// was replaced.
func TestConnections_AreRenewedLaterRatherThanNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connections{open: map[net.Conn]struct{}{}}
		opened := func() net.Conn {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = far.Close() })
			c.open[near] = struct{}{}
			return near
		}
		closed := func(conn net.Conn) bool { return conn.SetDeadline(time.Time{}) != nil }
		first := opened()
		c.closeAll()
		if !closed(first) {
			t.Fatal("the first renewal closes nothing")
		}
		time.Sleep(renewPause / 2)
		second := opened()
		c.closeAll()
		c.closeAll()
		if closed(second) {
			t.Error("two renewals within the pause")
		}
		time.Sleep(renewPause)
		synctest.Wait()
		if !closed(second) {
			t.Error("the second renewal never came")
		}
	})
}
