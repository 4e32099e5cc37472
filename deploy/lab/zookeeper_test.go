package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestZooKeeper_KeepsItsDataWhenKilledAndRestarted(t *testing.T) {
	t.Parallel()
	srv := lab.NewZooKeeper(t)
	if got := srv.Mode(); got != "standalone" {
		t.Errorf("mode: got %q, want standalone", got)
	}
	zkCreate(t, zkConnect(t, srv.Addr), "/kept", "value")
	srv.Kill()
	if got := srv.Mode(); got != "" {
		t.Errorf("mode after Kill: got %q, want none", got)
	}
	srv.Restart()
	zkWants(t, zkConnect(t, srv.Addr), "/kept", "value")
}

func TestZooKeeper_GrantsTheShortSessionsItsTickAllows(t *testing.T) {
	t.Parallel()
	srv := lab.NewZooKeeper(t, lab.ZooKeeperTick(200*time.Millisecond), lab.ZooKeeperConfig("maxSessionTimeout=7000"))
	text, err := srv.Command("conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tickTime=200\n", "minSessionTimeout=400\n", "maxSessionTimeout=7000\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("conf: want %q in\n%s", want, text)
		}
	}
}

func TestZooKeeper_AnswersNobodyWhilePaused(t *testing.T) {
	t.Parallel()
	srv := lab.NewZooKeeper(t)
	srv.Pause()
	c := connect(t, srv.Addr)
	c.say("ruok")
	c.silent()
	srv.Resume()
	c.hear("imok")
}

func TestZooKeeper_StandsStillWhenPauseReturns(t *testing.T) {
	t.Parallel()
	srv := lab.NewZooKeeper(t)
	for range 200 {
		if text, err := srv.Command("ruok"); err != nil || text != "imok" {
			t.Fatalf("ruok: got %q and %v, want imok", text, err)
		}
		srv.Pause()
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", srv.Pid()))
		if err != nil || len(stats) < 2 {
			t.Fatalf("threads of the server: got %v and %v, want several", stats, err)
		}
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if err != nil {
				continue // it ended
			}
			if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
				t.Fatalf("a thread goes on after Pause: %s", stat)
			}
		}
		srv.Resume()
	}
}

func TestZooKeeper_SharedIsOneServer(t *testing.T) {
	t.Parallel()
	a, b := lab.SharedZooKeeper(t), lab.SharedZooKeeper(t)
	if a.Addr != b.Addr || a.Pid() != b.Pid() {
		t.Errorf("got %s (%d) and %s (%d), want one server", a.Addr, a.Pid(), b.Addr, b.Pid())
	}
	if got := a.Mode(); got != "standalone" {
		t.Errorf("mode: got %q, want standalone", got)
	}
}
