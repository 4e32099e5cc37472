package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// inTime runs a test in a bubble whose clock is past the epoch of uids.
func inTime(t *testing.T, test func(*testing.T)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(message.Epoch.Add(400 * 24 * time.Hour)))
		test(t)
	})
}

func openMachine(t *testing.T, dir string) *Machine {
	t.Helper()
	m, err := OpenMachine(t.Context(), MachineConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs a machine. The returned stop ends it and waits for it.
func run(t *testing.T, m *Machine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("run ended with %v", err)
		}
	}
}

func next(t *testing.T, ids *scheduler.IDs) message.UID {
	t.Helper()
	uid, err := ids.Next(0)
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

func TestMachine_WithoutADirectoryIsHeldAtOnce(t *testing.T) {
	inTime(t, func(t *testing.T) {
		m := openMachine(t, "")
		stop := run(t, m)
		if id, held := m.ID(); !held || id < 0 || id >= machineIDs {
			t.Fatalf("id %d, held %t", id, held)
		}
		next(t, scheduler.NewIDs(m, time.Now))
		stop()
	})
}

func TestMachine_KeepsItsIDAcrossAStopWithoutAWait(t *testing.T) {
	inTime(t, func(t *testing.T) {
		dir := t.TempDir()
		m := openMachine(t, dir)
		id, _ := m.ID()
		stop := run(t, m)
		last := next(t, scheduler.NewIDs(m, time.Now))
		for range 100 {
			time.Sleep(777 * time.Millisecond)
			if _, held := m.ID(); !held {
				t.Fatal("the id is not held while Run runs")
			}
			last = next(t, scheduler.NewIDs(m, time.Now))
		}
		stop()
		if _, held := m.ID(); held {
			t.Fatal("the id is held after the stop")
		}
		start := time.Now()
		m = openMachine(t, dir)
		if waited := time.Since(start); waited > 10*time.Millisecond {
			t.Fatalf("the successor waited %s", waited)
		}
		if again, held := m.ID(); again != id || !held {
			t.Fatalf("the successor has id %d, held %t; want %d", again, held, id)
		}
		if uid := next(t, scheduler.NewIDs(m, time.Now)); uid <= last {
			t.Fatalf("the successor made %s after %s", uid, last)
		}
	})
}

func TestMachine_WaitsForWhatACrashedRunMayHaveGivenOut(t *testing.T) {
	inTime(t, func(t *testing.T) {
		dir := t.TempDir()
		crashed := openMachine(t, dir) // never runs, never releases
		ids := scheduler.NewIDs(crashed, time.Now)
		var last message.UID
		for _, held := crashed.ID(); held; _, held = crashed.ID() {
			last = next(t, ids)
			time.Sleep(100 * time.Millisecond)
		}
		if _, err := ids.Next(0); !errors.Is(err, scheduler.ErrNoMachineID) {
			t.Fatalf("past its mark: got %v, want ErrNoMachineID", err)
		}
		m := openMachine(t, dir)
		if !time.Now().After(time.UnixMilli(crashed.mark.Load())) {
			t.Fatal("the successor did not wait for the mark")
		}
		if again, _ := m.ID(); again != crashed.id {
			t.Fatalf("the successor has id %d, want %d", again, crashed.id)
		}
		if uid := next(t, scheduler.NewIDs(m, time.Now)); uid <= last {
			t.Fatalf("the successor made %s after %s", uid, last)
		}
	})
}

func TestMachine_TakesTheNextIDWhenTheClockWentBack(t *testing.T) {
	inTime(t, func(t *testing.T) {
		dir := t.TempDir()
		writeMark(t, dir, fmt.Sprintf("machine 1023\nmark %d\n", time.Now().Add(time.Hour).UnixMilli()))
		start := time.Now()
		m := openMachine(t, dir)
		if id, held := m.ID(); id != 0 || !held || time.Since(start) > 0 {
			t.Fatalf("id %d, held %t after %s; want 0 at once", id, held, time.Since(start))
		}
		run(t, m)()
		if again, _ := openMachine(t, dir).ID(); again != 0 {
			t.Fatalf("the successor has id %d, want 0", again)
		}
	})
}

func TestMachine_StopsWaitingWithItsContext(t *testing.T) {
	inTime(t, func(t *testing.T) {
		dir := t.TempDir()
		openMachine(t, dir)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := OpenMachine(ctx, MachineConfig{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
	})
}

func TestMachine_IsNotHeldWhileItsFileCannotBeWritten(t *testing.T) {
	inTime(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m := openMachine(t, dir)
		stop := run(t, m)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(markAhead)
		synctest.Wait()
		if _, held := m.ID(); held {
			t.Fatal("the id is held beyond its mark")
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(markEvery)
		synctest.Wait() // Run wakes at this very moment
		if _, held := m.ID(); !held {
			t.Fatal("the id is not held again")
		}
		stop()
	})
}

func TestMachine_RefusesAFileItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "machine 3", "machine 3\nmark", "machine 1024\nmark 5\n", "machine -1\nmark 5\n",
		"machine 3\nmark -5\n", "machine 3\nmark 5\nmore", "mark 5\nmachine 3\n", "machine\x003\nmark 5"} {
		dir := t.TempDir()
		writeMark(t, dir, text)
		if _, err := OpenMachine(t.Context(), MachineConfig{Dir: dir}); err == nil ||
			!strings.Contains(err.Error(), filepath.Join(dir, machineFile)) {
			t.Errorf("%q: got %v, want an error that names the file", text, err)
		}
	}
	if _, err := OpenMachine(t.Context(), MachineConfig{Dir: filepath.Join(t.TempDir(), "absent")}); err == nil {
		t.Error("a directory that does not exist was taken")
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add("machine 17\nmark 1900000000000\n")
	f.Add("machine 17\nmark")
	f.Fuzz(func(t *testing.T, text string) {
		id, mark, err := parseMark(text)
		if err != nil {
			return
		}
		if id < 0 || id >= machineIDs {
			t.Fatalf("%q gives id %d", text, id)
		}
		again, same, err := parseMark(fmt.Sprintf("machine %d\nmark %d\n", id, mark.UnixMilli()))
		if err != nil || again != id || !same.Equal(mark) {
			t.Fatalf("%q came back as %d, %s, %v", text, again, same, err)
		}
	})
}

func writeMark(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, machineFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
