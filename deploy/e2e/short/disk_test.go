package short_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// What tarry dev makes fits a disk of 24 MiB, on which its streams would not at their usual size.
func TestDevFitsItsStreamsToTheDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	port := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t))) }
	d := &site.Dev{Instance: &site.Instance{Name: "small", Addr: port()}}
	d.Process = lab.Start(t, "tarry-small", []string{"TMPDIR=" + disk}, site.Binary(t), "dev", "--http.listen", d.Addr,
		"--nats.listen", port())
	d.Ready(t)
	answer, err := d.Call(t.Context(), http.MethodPost, "/v1/messages", map[string]any{"topic": "demo.a", "delay": "1s"})
	if err != nil || answer.Status != http.StatusCreated {
		t.Errorf("a push: %+v, %v", answer, err)
	}
	d.WaitLog(`arrived on "demo.a"`)
}

// The push that finds no room names the cause: Redis's file of changes stands on a full disk.
func TestAFullDiskOfRedisIsNamed(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	s := site.New(t, site.Options{Redis: []string{"--dir", disk}})
	a := s.Start("a")
	s.Must(a, http.MethodPost, "/v1/messages", map[string]any{"topic": site.CoreSubject + "a", "delay": "1h"})
	if err := os.WriteFile(filepath.Join(disk, "full"), make([]byte, 64<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	lab.Eventually(t, site.Patience, func() error { // what a page of the file still has room for is stored
		answer, err := a.Call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": site.CoreSubject + "a", "delay": "1h", "body": strings.Repeat("x", 10_000)})
		if err == nil && !strings.Contains(answer.Raw, "the disk is full") {
			err = fmt.Errorf("a push: %d %s", answer.Status, answer.Raw)
		}
		return err
	})
}

// smallDisk mounts a file system of 24 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	lab.Needs(t, "a file system of its own")
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("a file system of its own needs root, as in CI: %v: %s", err, out)
	}
	t.Cleanup(func() { // after the processes that use it have ended
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return disk
}
