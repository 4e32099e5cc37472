//go:build docker

package topology

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// engine is a Docker engine, by its client.
type engine struct{ t *testing.T }

// startEngine returns the engine that runs already, or one of its own, with all it keeps in the test's directory. Its
// containers use the host's network, since the servers run as plain processes on loopback: so the engine has no reason
// to touch the machine's network. It takes overlay2 where the file system allows it, else vfs.
func startEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{t}
	if _, err := e.try("info"); err == nil {
		t.Log("uses the Docker engine that runs already")
		return e
	}
	dir, err := os.MkdirTemp("", "tarry-docker") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("DOCKER_HOST", "unix://"+at("s"))
	t.Cleanup(func() {
		_ = exec.Command("umount", at("exec/netns/default")).Run() // dockerd leaves it mounted
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	lab.Start(t, "dockerd", nil, "dockerd", "--host", "unix://"+at("s"), "--data-root", at("data"),
		"--exec-root", at("exec"), "--pidfile", at("pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false",
		"--ip-forward=false", "--ip-masq=false")
	lab.Eventually(t, time.Minute, func() error {
		_, err := e.try("info")
		return err
	})
	return e
}

// try runs docker and returns its output.
func (e *engine) try(args ...string) (string, error) {
	out, err := exec.CommandContext(e.t.Context(), "docker", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (e *engine) run(args ...string) string {
	e.t.Helper()
	out, err := e.try(args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// inspect returns a field of a container or an image.
func (e *engine) inspect(name, field string) string {
	e.t.Helper()
	return e.run("inspect", "--format", "{{"+field+"}}", name)
}

// container returns the name of an instance's container, which no composition has.
func container(i *instance) string { return fmt.Sprintf("%s-%d", i.name, os.Getpid()) }

func (e *engine) removeAtEnd(command, name string) {
	e.t.Cleanup(func() { _ = exec.Command("docker", command, "--force", name).Run() })
}

// healthy waits until Docker's own health check has passed.
func (e *engine) healthy(container string) {
	e.t.Helper()
	lab.Eventually(e.t, time.Minute, func() error {
		if is := e.inspect(container, ".State.Health.Status"); is != "healthy" {
			return fmt.Errorf("%s is %s", container, is)
		}
		return nil
	})
}

// image builds the Dockerfile's target prebuilt from a static binary alone. The classic builder does: BuildKit is a
// plug-in that Debian does not have.
func (e *engine) image() string {
	e.t.Helper()
	dir, name := e.t.TempDir(), "tarry-topology:"+strconv.Itoa(os.Getpid())
	build := exec.CommandContext(e.t.Context(), "go", "build", "-trimpath", "-ldflags", stamp(e.t, "v0.0.0-container"),
		"-o", filepath.Join(dir, "tarry"), "github.com/tarry-mq/tarry/cmd/tarry")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		e.t.Fatalf("build: %v: %s", err, out)
	}
	e.t.Setenv("DOCKER_BUILDKIT", "0")
	e.removeAtEnd("rmi", name)
	e.run("build", "--file", filepath.Join("..", "..", "Dockerfile"), "--target", "prebuilt", "--tag", name, dir)
	if said := e.run("run", "--rm", "--read-only", "--network", "none", name, "version"); !strings.Contains(said,
		"v0.0.0-container") {
		e.t.Errorf("the image's version is %s", said)
	}
	if _, err := e.try("run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", name, "-c", "true"); err == nil {
		e.t.Error("there is a shell in the image")
	}
	return name
}

// confined asks the kernel, not Docker, what a container may do.
func (e *engine) confined(container, user string) {
	e.t.Helper()
	proc := "/proc/" + e.inspect(container, ".State.Pid")
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		e.t.Fatal(err)
	}
	uid, gid, _ := strings.Cut(user, ":")
	for field, want := range map[string]string{"Uid": uid, "Gid": gid, "CapEff": strings.Repeat("0", 16),
		"CapBnd": strings.Repeat("0", 16), "NoNewPrivs": "1"} {
		line := regexp.MustCompile(`(?m)^` + field + `:(.*)$`).FindSubmatch(status)
		if line == nil || strings.Trim(strings.ReplaceAll(string(line[1]), want, ""), "\t") != "" {
			e.t.Errorf("%s: %s, want %s", container, line, want)
		}
	}
	mounts, err := os.ReadFile(proc + "/mountinfo")
	if err != nil || !regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ / ro,`).Match(mounts) {
		e.t.Errorf("%s: the root file system can be written: %s, %v", container, mounts, err)
	}
}

// The counterpart of TestTheStandbyDeliversWhatTheKilledInstanceLeft with real containers and deliveries in flight. No
// image is pulled.
func TestContainers_TheStandbyDeliversWhatTheKilledOneLeft(t *testing.T) {
	const (
		messages = 1000
		batch    = messages / 2
		every    = 10 * time.Millisecond
		first    = 6 * time.Second  // room for the pushes
		takeover = 12 * time.Second // the session is 6 s, a tick of ZooKeeper 2 s, and the machine may be slow
	)
	e := startEngine(t)
	image := e.image()
	w := servers(t)
	for _, i := range w.all() {
		s := w.compose.Services[i.name]
		args := []string{"run", "--detach", "--name", container(i), "--network", "host", "--stop-timeout", "15"}
		if s.ReadOnly {
			args = append(args, "--read-only")
		}
		for _, c := range s.CapDrop {
			args = append(args, "--cap-drop", c)
		}
		for _, o := range s.SecurityOpt {
			args = append(args, "--security-opt", o)
		}
		for _, v := range i.env {
			args = append(args, "--env", v)
		}
		e.removeAtEnd("rm", container(i))
		e.run(append(args, image)...)
	}
	for _, i := range w.all() {
		e.healthy(container(i))
		e.confined(container(i), w.compose.Services[i.name].User)
	}
	active, standby, term := w.roles()

	c := consume(t, w.nats)
	var sent []string
	for n, i := range []*instance{active, standby} {
		var pushes []string
		for k := n * batch; k < (n+1)*batch; k++ {
			sent = append(sent, fmt.Sprintf("number %d", k))
			pushes = append(pushes, fmt.Sprintf(`{"topic":"%s.%d","body":"number %d","delay":"%s"}`,
				[]string{"orders", "bills"}[k%2], k, k, first+time.Duration(k)*every))
		}
		status, answer := mustCall(t, http.MethodPost, i.url+"/v1/messages/batch",
			`{"messages":[`+strings.Join(pushes, ",")+`]}`)
		if got := strings.Count(answer, `"durable":"journal"`); status != http.StatusOK || got != batch {
			t.Fatalf("%s answers %d and has %d of %d in the journal: %s", i.name, status, got, batch, answer)
		}
	}
	lab.Eventually(t, time.Minute, func() error { return c.has(sent[:messages/5]) })
	e.run("kill", "--signal", "KILL", container(active))
	if code := e.inspect(container(active), ".State.ExitCode"); code != "137" {
		t.Errorf("%s was killed and ended with %s", active.name, code)
	}
	lab.Eventually(t, takeover, func() error {
		now, err := cluster(standby.url)
		if err == nil && (now.Leader == nil || now.Leader.Instance != standby.name || now.Term <= term) {
			err = fmt.Errorf("%s sees %+v", standby.name, now)
		}
		return err
	})
	lab.Eventually(t, time.Minute, func() error { return c.has(sent) }) // none early, none with another Nats-Msg-Id
	lab.Eventually(t, time.Minute, func() error {
		got, err := w.mariadb.SQL("tarry",
			"SELECT COUNT(*) FROM messages JOIN states ON number = state WHERE word = 'delivered'")
		if err == nil && strings.TrimSpace(got) != strconv.Itoa(messages) {
			err = fmt.Errorf("the journal has %s of %d as delivered", got, messages)
		}
		return err
	})
	twice, strange := c.repeated(sent)
	if len(twice) > messages/2 || len(strange) > 0 {
		t.Errorf("%d came twice; nobody sent %q", len(twice), strange)
	}
	t.Logf("all %d arrived, %d of them twice", messages, len(twice))

	e.run("start", container(active))
	e.healthy(container(active))
	if leader, _, _ := w.roles(); leader != standby {
		t.Errorf("%s leads after the other one came back", leader.name)
	}
	e.run("stop", container(standby))
	if code := e.inspect(container(standby), ".State.ExitCode"); code != "0" {
		t.Errorf("%s was stopped and ended with %s", standby.name, code)
	}
	if now, err := cluster(active.url); err != nil || now.Leader == nil || now.Leader.Instance != active.name {
		t.Errorf("got %+v, %v, want %s to lead", now, err, active.name)
	}
}
