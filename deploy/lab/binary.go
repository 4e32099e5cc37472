package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	module       = "github.com/tarry-mq/tarry"
	natsModule   = "github.com/nats-io/nats-server/v2"
	buildTimeout = 30 * time.Minute // a first build of everything took ten on a small machine that did other things too
)

// builds remembers the programs that this process has built.
type builds struct {
	root once[string]
	nats once[string]

	mu   sync.Mutex
	made map[string]*once[string]
}

// Binary builds a main package of this module, named as in "./cmd/tarry", and returns the path of the program. The
// program stays in the user's cache, where every test binary with the same flags finds it; go build follows a change of
// its source. flags are passed to go build; pass Race()... to build with the race detector whenever the test has it.
func Binary(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	Needs(t, "a build of "+pkg)
	path, err := rootBinary(pkg, flags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func rootBinary(pkg string, flags []string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return machine.builds.build(root, pkg, flags, func() (string, error) {
		cache, err := cacheDir()
		if err != nil {
			return "", err
		}
		key := sha256.Sum256([]byte(strings.Join(append([]string{root, pkg, os.Getenv("GOFLAGS")}, flags...), "\x00")))
		dir := filepath.Join(cache, hex.EncodeToString(key[:8]))
		return dir, os.MkdirAll(dir, 0o755)
	})
}

// Prebuild builds what most stories start, so that no test has to wait for it: nats-server, and the daemon with
// failpoints, with the race detector and without.
func Prebuild() error {
	if _, err := natsBinary(); err != nil {
		return err
	}
	for _, flags := range [][]string{{Failpoints}, {"-race", Failpoints}} {
		if _, err := rootBinary("./cmd/tarry", flags); err != nil {
			return err
		}
	}
	return nil
}

// Failpoints is the flag that builds tarry with points at which FAILPOINT=point:n kills it, and with limits that a test
// can wait for. Without that variable it is the daemon that is released.
const Failpoints = "-tags=failpoints"

// BinaryIn is Binary for a package of the module in another directory. The program lasts as long as this process.
func BinaryIn(t testing.TB, dir, pkg string, flags ...string) string {
	t.Helper()
	Needs(t, "a build of "+pkg)
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := machine.builds.build(abs, pkg, flags, func() (string, error) { return machine.scratch.sub("bin") })
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds a program into a directory, once per process. Processes that build the same one wait for each other.
func (b *builds) build(module, pkg string, flags []string, into func() (string, error)) (string, error) {
	key := strings.Join(append([]string{module, pkg}, flags...), "\x00")
	b.mu.Lock()
	if b.made == nil {
		b.made = make(map[string]*once[string])
	}
	entry := b.made[key]
	if entry == nil {
		entry = new(once[string])
		b.made[key] = entry
	}
	b.mu.Unlock()
	return entry.get(func() (string, error) {
		dir, err := into()
		if err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
		lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
		defer lock.Close()
		if err := flock(lock); err != nil {
			return "", fmt.Errorf("build %s: lock: %w", pkg, err)
		}
		out := dir + string(filepath.Separator) // a directory: go build names the program
		var env []string
		if !slices.Contains(flags, "-race") { // which needs C: else without, as it is released
			env = []string{"CGO_ENABLED=0"}
		}
		if _, err := goTool(module, env, append(append([]string{"build", "-o", out}, flags...), pkg)...); err != nil {
			return "", err
		}
		names, err := filepath.Glob(out + "*")
		if err == nil && len(names) != 1 {
			err = fmt.Errorf("build %s: want one main package, got programs %v", pkg, names)
		}
		if err != nil {
			return "", err
		}
		return names[0], nil
	})
}

// Race returns -race if this test binary was built with it, or no flag.
func Race() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return []string{"-race"}
		}
	}
	return nil
}

// goTool runs the go command in dir, with more in its environment, and returns its output.
func goTool(dir string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), env...)
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(out)), nil
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
}

// moduleRoot finds this module's directory: by the path of this file, or through the go command if -trimpath hid the
// path.
func moduleRoot() (string, error) {
	return machine.builds.root.get(func() (string, error) {
		if _, self, _, ok := runtime.Caller(0); ok && filepath.IsAbs(self) {
			root := filepath.Dir(filepath.Dir(filepath.Dir(self)))
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				return root, nil
			}
		}
		root, err := goTool("", nil, "list", "-m", "-f", "{{.Dir}}", module)
		if err == nil && root == "" {
			err = fmt.Errorf("find the directory of module %s: go list knows none", module)
		}
		return root, err
	})
}

// natsBinary builds the nats-server that go.mod names. That takes about a minute, so the result stays in the user's
// cache, one file per version. Test binaries that run at the same time wait for the one that builds.
func natsBinary() (string, error) {
	return machine.builds.nats.get(func() (string, error) {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		version, err := goTool(root, nil, "list", "-m", "-f", "{{.Version}}", natsModule)
		if err != nil {
			return "", err
		}
		dir, err := cacheDir()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "nats-server-"+version)
		return path, buildOnce(root, path, natsModule)
	})
}

// cacheDir makes the directory in which built programs stay.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "tarry-lab")
		err = os.MkdirAll(cache, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("find a place for built programs: %w", err)
	}
	return cache, nil
}

// buildOnce builds path unless it exists. A rename makes the file appear whole. The lock lets only one process build,
// and the kernel releases it when that process dies.
func buildOnce(root, path, pkg string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	defer lock.Close()
	if err := flock(lock); err != nil {
		return fmt.Errorf("build %s: lock: %w", pkg, err)
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	part := path + ".part"
	// Without C, as it is released, and as .ci/test builds its tools.
	if _, err := goTool(root, []string{"CGO_ENABLED=0"}, "build", "-o", part, pkg); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
