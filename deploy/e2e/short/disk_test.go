package short_test

import (
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// What tarry dev makes fits a disk of 24 MiB, on which its streams would not at their usual size.
func TestDevFitsItsStreamsToTheDisk(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "a file system of its own")
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("a file system of its own needs root, as in CI: %v: %s", err, out)
	}
	t.Cleanup(func() { // after the process has ended
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
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
