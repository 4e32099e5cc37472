package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	module       = "github.com/tarry-mq/tarry"
	natsModule   = "github.com/nats-io/nats-server/v2"
	buildTimeout = 8 * time.Minute // a first build of everything on a small machine; below go test's own limit of ten
)

// builds remembers the programs that this process has built.
type builds struct {
	root once[string]
	nats once[string]

	mu   sync.Mutex
	made map[string]*once[string]
}

// Binary builds a main package of this module, named as in "./cmd/tarry", and returns the path of the program. Each
// program is built once per test binary. flags are passed to go build; pass Race()... to build with the race detector
// whenever the test has it.
func Binary(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return BinaryIn(t, root, pkg, flags...)
}

// BinaryIn is Binary for a package of the module in another directory.
func BinaryIn(t testing.TB, dir, pkg string, flags ...string) string {
	t.Helper()
	Needs(t, "a build of "+pkg)
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Join(append([]string{abs, pkg}, flags...), "\x00")
	b := &machine.builds
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

	path, err := entry.get(func() (string, error) {
		out, err := machine.scratch.sub("bin")
		if err != nil {
			return "", err
		}
		out += string(filepath.Separator) // a directory: go build names the program
		if _, err := goTool(abs, append(append([]string{"build", "-o", out}, flags...), pkg)...); err != nil {
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
	if err != nil {
		t.Fatal(err)
	}
	return path
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

// goTool runs the go command in dir and returns its output.
func goTool(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
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
		root, err := goTool("", "list", "-m", "-f", "{{.Dir}}", module)
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
		version, err := goTool(root, "list", "-m", "-f", "{{.Version}}", natsModule)
		if err != nil {
			return "", err
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a place for nats-server: %w", err)
		}
		dir := filepath.Join(cache, "tarry-lab")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", fmt.Errorf("find a place for nats-server: %w", err)
		}
		path := filepath.Join(dir, "nats-server-"+version)
		return path, buildOnce(root, path, natsModule)
	})
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
	if _, err := goTool(root, "build", "-o", part, pkg); err != nil {
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
