package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const install = "run deploy/lab/install.sh, or apt-get install -y redis-server nats-server libzookeeper-java " +
	"default-jre-headless nginx-light mariadb-server"

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
