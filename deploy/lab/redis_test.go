package lab_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestRedis_KeepsItsDataWhenKilledAndRestarted(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--appendfsync", "always")
	c := redisClient(t, srv.Addr)
	if err := c.Set(t.Context(), "kept", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	addr, pid := srv.Addr, srv.Pid()

	srv.Kill()
	if srv.Running() {
		t.Fatal("it runs after Kill")
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("it answers after Kill")
	}
	srv.Restart()
	if srv.Addr != addr || srv.Pid() == pid {
		t.Fatalf("after Restart: address %s, pid %d; before: %s, %d", srv.Addr, srv.Pid(), addr, pid)
	}
	if got, err := c.Get(t.Context(), "kept").Result(); err != nil || got != "value" {
		t.Fatalf("after Restart: got %q and %v, want value", got, err)
	}

	srv.Restart() // an orderly one, of a server that runs
	if got, err := c.Get(t.Context(), "kept").Result(); err != nil || got != "value" {
		t.Fatalf("after the second Restart: got %q and %v, want value", got, err)
	}
}

func TestRedis_AnswersNobodyWhilePaused(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t)
	c := redisClient(t, srv.Addr)
	srv.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	defer cancel()
	if err := c.Ping(ctx).Err(); !isTimeout(err) {
		t.Fatalf("PING while paused: got %v, want a timeout", err)
	}
	srv.Resume()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("PING after Resume: %v", err)
	}
}

func TestRedis_StopsWhilePaused(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t)
	srv.Pause()
	srv.Stop()
	if srv.Running() {
		t.Fatal("it runs after Stop")
	}
	if got := srv.Wait(0); got != 0 {
		t.Errorf("exit code: got %d, want 0, an orderly stop", got)
	}
}

// A replica that has just been filled writes its first append-only file, and redis-server refuses an orderly end
// meanwhile.
func TestRedis_StopsWhileItWritesItsFirstFile(t *testing.T) {
	t.Parallel()
	primary := lab.NewRedis(t)
	if err := redisClient(t, primary.Addr).Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := lab.NewRedis(t, "--replicaof", host+" "+port, "--rdb-key-save-delay", "60000000")
	c := redisClient(t, replica.Addr)
	lab.Eventually(t, 10*time.Second, func() error {
		info, err := c.Info(t.Context(), "persistence").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "aof_rewrite_in_progress:1") {
			return errors.New("it does not write its first file yet")
		}
		return nil
	})
	replica.Stop()
	if replica.Running() {
		t.Fatal("it runs after Stop")
	}
}

func TestRedis_ArgumentsWinOverTheDefaults(t *testing.T) {
	t.Parallel()
	plain := redisClient(t, lab.NewRedis(t).Addr)
	own := redisClient(t, lab.NewRedis(t, "--appendonly", "no", "--maxmemory", "64mb").Addr)
	for _, tc := range []struct {
		c                *redis.Client
		parameter, value string
	}{
		{plain, "appendonly", "yes"},
		{plain, "appendfsync", "everysec"},
		{plain, "save", ""},
		{own, "appendonly", "no"},
		{own, "maxmemory", "67108864"},
	} {
		got, err := tc.c.ConfigGet(t.Context(), tc.parameter).Result()
		if err != nil || got[tc.parameter] != tc.value {
			t.Errorf("%s: got %q and %v, want %q", tc.parameter, got[tc.parameter], err, tc.value)
		}
	}
}

func TestRedis_IsReadyAlsoWithAPassword(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--requirepass", "secret")
	err := redisClient(t, srv.Addr).Ping(t.Context()).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Fatalf("PING without the password: got %v, want NOAUTH", err)
	}
}

func TestRedis_SharedIsOneServer(t *testing.T) {
	t.Parallel()
	a, b := lab.SharedRedis(t), lab.SharedRedis(t)
	if a.Addr != b.Addr || a.Pid() != b.Pid() {
		t.Errorf("got %s (%d) and %s (%d), want one server", a.Addr, a.Pid(), b.Addr, b.Pid())
	}
	if err := redisClient(t, a.Addr).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func redisClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: soon,
		DialTimeout: time.Second,
	})
	t.Cleanup(func() { c.Close() })
	return c
}
