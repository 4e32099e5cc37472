package publish_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// Between clusters a server once passed on what nobody had asked for, and then could not say that nobody listens. Every
// version from 2.9 on asks first.
func TestPublisher_TellsThatNobodyListensInASupercluster(t *testing.T) {
	t.Parallel()
	addrs := [2]string{freeAddr(t), freeAddr(t)}
	var servers [2]*lab.NATS
	for i, name := range [...]string{"A", "B"} {
		servers[i] = lab.NewNATS(t, lab.NoJetStream(), lab.NATSConfig(fmt.Sprintf(
			"server_name: %s\ngateway { name: %s, listen: %q, gateways [ {name: A, url: \"nats://%s\"}, {name: B, "+
				"url: \"nats://%s\"} ] }",
			name, name, addrs[i], addrs[0], addrs[1])))
	}
	nc, far := bridgetest.Connect(t, servers[0].URL()), bridgetest.Connect(t, servers[1].URL())
	sub, err := far.SubscribeSync("far")
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 20*time.Second, func() error { // the clusters know each other
		_ = nc.Publish("far", nil)
		_, err := sub.NextMsg(100 * time.Millisecond)
		return err
	})
	p := bridgetest.Running(t, publish.Config{Conn: nc})
	for i := range 6 {
		alone := newMessage(fmt.Sprintf("alone.%d", i/2), "x")
		out := send(t, p, alone, newMessage("far", "x"))
		wantKind(t, out[0], scheduler.NoListener, "")
		wantKind(t, out[1], scheduler.Delivered, "")
	}
}
