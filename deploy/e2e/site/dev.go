package site

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Dev is a running tarry dev, or a tarry serve on one machine.
type Dev struct {
	*Instance
	Binary, Nats string
}

func StartDev(t *testing.T, name string, args ...string) *Dev {
	t.Helper()
	return StartLocal(t, name, append([]string{"dev"}, args...)...)
}

// StartLocal starts a command that embeds NATS, unless it is given one.
func StartLocal(t *testing.T, name string, args ...string) *Dev {
	t.Helper()
	port := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t))) }
	d := &Dev{Binary: Binary(t), Nats: port()}
	addr := port()
	if !slices.Contains(args, "--nats.url") {
		args = append(args, "--nats.listen", d.Nats)
	}
	d.Instance = &Instance{Name: name, Addr: addr,
		Process: lab.Start(t, "tarry-"+name, []string{"GORACE=atexit_sleep_ms=0"}, d.Binary,
			append(args, "--http.listen", addr)...)}
	return d
}

// Ready waits until it takes pushes.
func (d *Dev) Ready(t *testing.T) {
	t.Helper()
	lab.Eventually(t, Patience, func() error {
		if !d.Running() {
			t.Fatalf("it ended: %s", d.Log())
		}
		a, err := d.Call(t.Context(), http.MethodGet, "/readyz", nil)
		if err == nil && a.Status != http.StatusOK {
			err = errors.New(a.Raw)
		}
		return err
	})
}

// Cli runs a client command against it.
func (d *Dev) Cli(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), Patience)
	defer stop()
	cmd := exec.CommandContext(ctx, d.Binary, append(args, "--server", "http://"+d.Addr)...)
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}
