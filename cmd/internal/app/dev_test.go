package app_test

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

func TestDev_SaysAtOnceThatItsAddressIsInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	var logged bytes.Buffer
	begun := time.Now()
	_, err = app.NewDev(t.Context(), config.Dev{Namespace: "ns", NATS: config.DevNATS{Listen: address}},
		app.Options{Version: "test", Log: zerolog.New(&logged)})
	for _, want := range []string{address + " is in use", "--nats.listen", "tarry serve --store memory",
		"--nats.url nats://" + address} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if logged.Len() > 0 {
		t.Errorf("it is told twice: %s", &logged)
	}
}
