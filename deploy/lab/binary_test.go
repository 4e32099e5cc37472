package lab_test

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

const hello = `package main

import "fmt"

func main() { fmt.Println("hello") }
`

func TestBinary_BuildsAPackageOfAnotherModuleOnce(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "builds of a program")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/hello\n\ngo 1.24\n")
	write(t, filepath.Join(dir, "main.go"), hello)

	var paths [4]string
	var group sync.WaitGroup
	for i := range paths {
		group.Go(func() { paths[i] = lab.BinaryIn(t, dir, ".") })
	}
	group.Wait()
	for _, p := range paths {
		if p != paths[0] {
			t.Errorf("got %s and %s, want one program", p, paths[0])
		}
	}
	if out, err := exec.CommandContext(t.Context(), paths[0]).Output(); string(out) != "hello\n" {
		t.Errorf("it says %q and %v, want hello", out, err)
	}
	other := lab.BinaryIn(t, dir, ".", "-ldflags=-s")
	if other == paths[0] {
		t.Error("other flags made the same program")
	}
}

func TestBinary_FollowsTheRaceDetectorOfTheTest(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := raceIn(t, self)
	if got := len(lab.Race()) == 1; got != want {
		t.Fatalf("Race: got %v, want %v as in this test binary", got, want)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/hello\n\ngo 1.24\n")
	write(t, filepath.Join(dir, "main.go"), hello)
	if got := raceIn(t, lab.BinaryIn(t, dir, ".", lab.Race()...)); got != want {
		t.Errorf("the program has the race detector: %v, want %v", got, want)
	}
}

func raceIn(t *testing.T, path string) bool {
	t.Helper()
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBinary_BuildsAPackageOfThisModule(t *testing.T) {
	t.Parallel()
	path := lab.Binary(t, "github.com/nats-io/nats-server/v2", lab.Race()...)
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if want := "nats-server: v" + lab.SharedNATS(t).Version() + "\n"; err != nil || string(out) != want {
		t.Errorf("--version: got %q and %v, want %q", out, err, want)
	}
}

// Two more test binaries with an empty cache need the server at the same moment. Both must run the same file: the
// second waits for the first and does not build another.
func TestNATS_IsBuiltOnceByTestBinariesThatStartTogether(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "nats-server")
	if os.Getenv("LAB_EMPTY_CACHE") != "" {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/exe", lab.NewNATS(t).Pid()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\ninode %d\n", info.Sys().(*syscall.Stat_t).Ino)
		return
	}
	cache := t.TempDir()
	var inodes [2]int
	var group sync.WaitGroup
	for i := range inodes {
		group.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
			cmd.Env = append(os.Environ(), "LAB_EMPTY_CACHE=1", "XDG_CACHE_HOME="+cache, "GOCACHE="+goCache(t))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			_, after, _ := strings.Cut(string(out), "\ninode ")
			if _, err := fmt.Sscan(after, &inodes[i]); err != nil {
				t.Errorf("%v in\n%s", err, out)
			}
		})
	}
	group.Wait()
	if inodes[0] != inodes[1] {
		t.Errorf("inodes: got %v, want one file", inodes)
	}
	names, err := filepath.Glob(filepath.Join(cache, "tarry-lab", "*"))
	if err != nil || len(names) != 2 || names[1] != names[0]+".lock" {
		t.Errorf("the cache holds %v (%v), want the server and its lock", names, err)
	}
}

// goCache is where this machine's builds are, so that only the linking is repeated.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(out))
}
