package app_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
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
	cfg, err := config.LoadDev(nil, []string{"TARRY_NATS_LISTEN=" + address})
	if err != nil {
		t.Fatal(err)
	}
	_, err = app.New(t.Context(), cfg, app.Options{Version: "test", Log: zerolog.New(&logged)})
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
		t.Errorf("it is logged twice: %s", &logged)
	}
}

// What New opened ends with Close where the instance never runs.
func TestNew_WhatNeverRunsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cfg, err := config.LoadDev(nil, []string{"TARRY_NATS_LISTEN=127.0.0.1:0", "TARRY_HTTP_LISTEN=127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Version: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	dir, temporary := a.Data()
	if _, err := os.Stat(dir); err != nil || !temporary {
		t.Fatalf("temporary: %t, %v", temporary, err)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
	for _, address := range []string{a.Addr().String(), strings.TrimPrefix(a.NATS(), "nats://")} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("still in use: %v", err)
			continue
		}
		_ = l.Close()
	}
}
