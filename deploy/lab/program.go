package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const install = "run deploy/lab/install.sh, or apt-get install -y redis-server nats-server libzookeeper-java " +
	"default-jre-headless nginx-light mariadb-server"

// Needs skips the test in short mode and names what it needs. Every constructor of this package calls it, so that
// go test -short runs on a machine with nothing but Go. Without -short a missing server fails the test.
func Needs(t testing.TB, what string) {
	t.Helper()
	if testing.Testing() && testing.Short() { // outside go test there is no -short
		t.Skipf("needs %s: run without -short", what)
	}
}

// program finds a binary: a path is used unchanged, a name is looked up in PATH and where Debian keeps servers, which a
// user's PATH may lack.
func program(name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		path, err := filepath.Abs(name)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", name, err)
		}
		return path, file(path)
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: %s", name, install)
}

// file checks that a file needed by a server exists.
func file(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%w: %s", err, install)
	}
	return nil
}
