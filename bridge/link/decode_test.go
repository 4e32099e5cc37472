package link_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// The messages come from a client that writes its own headers, so that nats.go reads what it would never write.
func TestDecode_SaysThatHeadersCannotBeRead(t *testing.T) {
	t.Parallel()
	server := lab.SharedNATS(t)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	subject := "delayed." + strings.ToLower(nats.NewInbox()[len("_INBOX."):])
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	if _, err := bufio.NewReader(raw).ReadString('\n'); err != nil { // INFO
		t.Fatal(err)
	}
	fmt.Fprint(raw, `CONNECT {"verbose":false,"headers":true}`+"\r\n")
	for block, want := range map[string]string{
		"Tarry-Delay: 5ms\r\nbroken\r\n": wire.WordHeader,
		"Tarry-Delay: 5ms\r\n":           "",
		"X: 1\r\n":                       wire.WordNoDelay,
		"":                               wire.WordNoDelay,
	} {
		if block == "" {
			fmt.Fprintf(raw, "PUB %s 4\r\nbody\r\n", subject)
		} else {
			block = "NATS/1.0\r\n" + block + "\r\n"
			fmt.Fprintf(raw, "HPUB %s %d %d\r\n%sbody\r\n", subject, len(block), len(block)+4, block)
		}
		msg, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, err = link.Decode(msg, msg.Subject, "delayed")
		var refused *wire.Error
		if errors.As(err, &refused); want == "" && err != nil || want != "" && (refused == nil || refused.Word != want) {
			t.Errorf("%q: got %v, want %q", block, err, want)
		}
	}
}
