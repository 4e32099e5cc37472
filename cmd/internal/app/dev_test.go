package app_test

import (
	"bytes"
	"net"
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
	if want := address +
		" is in use; choose another with --nats.listen (is a nats-server or another tarry running?)"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if logged.Len() > 0 {
		t.Errorf("it is told twice: %s", &logged)
	}
}
