package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// soloRun is a Solo of a test, running.
type soloRun struct {
	*Solo

	reigns  chan reign
	stop    context.CancelFunc
	stopped chan error
}

func startSolo(t *testing.T, next func(context.Context) (uint64, error), work func(context.Context) error) *soloRun {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &soloRun{reigns: make(chan reign, 100), stop: stop, stopped: make(chan error, 1)}
	var err error
	r.Solo, err = NewSolo(SoloConfig{
		Instance: "one", Address: "one:7071", Version: "1.2.3", NextTerm: next,
		Lead: func(ctx context.Context, term uint64) error {
			r.reigns <- reign{term: term, ctx: ctx}
			if work != nil {
				return work(ctx)
			}
			<-ctx.Done()
			return nil
		},
		Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { r.stopped <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-r.stopped
	})
	return r
}

// idle leads and does nothing.
func idle(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return nil
}

func counting(from uint64) func(context.Context) (uint64, error) {
	return func(context.Context) (uint64, error) {
		from++
		return from, nil
	}
}

func TestSolo_LeadsAtOnceUntilStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, counting(6), nil)
		after(time.Second)
		r := <-s.reigns
		if r.term != 7 || r.ctx.Err() != nil {
			t.Fatalf("leads under term %d, %v", r.term, r.ctx.Err())
		}
		if _, ok := Remaining(r.ctx); ok {
			t.Error("a leadership without end has a Remaining")
		}
		l, ok, err := s.Leader(t.Context())
		if err != nil || !ok || l.Instance != "one" || l.Address != "one:7071" || l.Term != 7 {
			t.Errorf("leader %+v, %v, %v", l, ok, err)
		}
		m, err := s.Members(t.Context())
		if err != nil || len(m) != 1 || m[0].Instance != "one" || m[0].Version != "1.2.3" || !m[0].Healthy {
			t.Errorf("members %+v, %v", m, err)
		}
		if err := s.Resign(t.Context(), "no"); !errors.Is(err, ErrSolo) {
			t.Errorf("Resign: %v, want ErrSolo", err)
		}
		s.stop()
		err = <-s.stopped
		s.stopped <- err
		if err != nil {
			t.Errorf("Run returned %v", err)
		}
		if cause := context.Cause(r.ctx); !errors.Is(cause, ErrLost) || !errors.Is(cause, ErrResigned) {
			t.Errorf("cause %v", cause)
		}
		if _, ok, _ := s.Leader(t.Context()); ok || s.State().Role != Disconnected {
			t.Errorf("still leads after Run: %+v", s.State())
		}
		if err := s.Resign(t.Context(), "no"); !errors.Is(err, ErrNotLeader) {
			t.Errorf("Resign: %v, want ErrNotLeader", err)
		}
	})
}

func TestSolo_TriesAgainWhatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		calls := 0
		next := func(context.Context) (uint64, error) {
			if away.Load() {
				return 0, errors.New("store is away")
			}
			switch calls++; calls {
			case 1:
				return 0, errors.New("term not read")
			case 2:
				return 1 << 53, nil
			case 3:
				return 0, nil
			}
			return uint64(calls), nil
		}
		fails := true
		s := startSolo(t, next, func(ctx context.Context) error {
			if fails {
				fails = false
				return errors.New("cannot lead")
			}
			<-ctx.Done()
			return nil
		})
		after(10 * time.Second)
		if st := s.State(); st.Role != Disconnected || st.Err == nil {
			t.Errorf("state without a store: %+v", st)
		}
		away.Store(false)
		after(10 * time.Second)
		if a, b := <-s.reigns, <-s.reigns; a.term != 4 || b.term != 5 {
			t.Errorf("terms %d and %d, want 4 and 5", a.term, b.term)
		}
		if st := s.State(); st.Role != Leading || st.Term != 5 {
			t.Errorf("state %+v", st)
		}
	})
}

func TestSolo_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]SoloConfig{
		"instance": {Lead: idle, NextTerm: counting(0)},
		"address":  {Instance: "one", Address: strings.Repeat("a", 257), Lead: idle, NextTerm: counting(0)},
	} {
		if _, err := NewSolo(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("NewSolo(%+v): %v, want an error that names %s", cfg, err, field)
		}
	}
}

func TestLockFile_RefusesASecondHolderAndNamesTheFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	release, err := LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockFile(path)
	if want := fmt.Sprintf("process %d on", os.Getpid()); !errors.Is(err, ErrHeld) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("second holder: %v, want ErrHeld with %q", err, want)
	}
	release()
	again, err := LockFile(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again()
	if _, err := LockFile(filepath.Join(path, "below")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a path that cannot be: %v", err)
	}
}

// TestLockFile_DiesWithTheProcess runs this test binary again as the holder and kills it.
func TestLockFile_DiesWithTheProcess(t *testing.T) {
	t.Parallel()
	if path := os.Getenv("ELECTION_HOLD"); path != "" {
		release, err := LockFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer release() // never called: it keeps the file from the garbage collector, which would close it
		fmt.Println("held")
		select {}
	}
	path := filepath.Join(t.TempDir(), "lock")
	holder := exec.Command(os.Args[0], "-test.run=^TestLockFile_DiesWithTheProcess$")
	holder.Env = append(os.Environ(), "ELECTION_HOLD="+path)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("held"))
	if _, err := out.Read(said); err != nil || string(said) != "held" {
		t.Fatalf("holder said %q, %v", said, err)
	}
	_, err = LockFile(path)
	if want := fmt.Sprintf("process %d on", holder.Process.Pid); !errors.Is(err, ErrHeld) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("while it lives: %v, want ErrHeld with %q", err, want)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // killed
	release, err := LockFile(path)
	if err != nil {
		t.Fatalf("after its death: %v", err)
	}
	release()
}
