package release_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

const version = "0.0.1-test"

// run runs a program to its end in a directory, and returns what it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
}

// What a release has is made once, for this machine alone: the archive's binary talks to the one that the package
// installs, which serves as the package's user.
func TestRelease_InstallsAndServes(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "debhelper, lintian, umoci, skopeo")
	dist, here := t.TempDir(), "."
	run(t, here, []string{"PLATFORMS=linux/" + runtime.GOARCH}, "./make.sh", version, dist)
	base := "tarry_" + version + "_"
	deb, archive := base+runtime.GOARCH+".deb", base+"linux_"+runtime.GOARCH
	made := []string{"SHA256SUMS", "notes.md", deb, archive + ".cdx.json", archive + ".tar.gz", base + "oci.tar"}
	slices.Sort(made)
	if got := strings.Fields(run(t, dist, nil, "ls")); !slices.Equal(slices.Sorted(slices.Values(got)), made) {
		t.Fatalf("it made %q, want %q", got, made)
	}
	run(t, dist, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	if sums := run(t, dist, nil, "cat", "SHA256SUMS"); strings.Count(sums, "\n") != len(made)-1 {
		t.Errorf("SHA256SUMS has not every file:\n%s", sums)
	}

	run(t, dist, nil, "tar", "-xzf", archive+".tar.gz")
	tarry := filepath.Join(dist, archive, "tarry")
	if got := run(t, dist, nil, tarry, "version"); !strings.HasPrefix(got, "tarry v"+version+" (") ||
		!strings.HasSuffix(got, " linux/"+runtime.GOARCH+"\n") {
		t.Errorf("its version is %q", got)
	}
	alone(t, tarry)
	bill(t, run(t, dist, nil, "cat", archive+".cdx.json"))
	image(t, filepath.Join(dist, base+"oci.tar"))

	server := install(t, filepath.Join(dist, deb))
	env := []string{"TARRY_SERVER=" + server}
	run(t, dist, env, tarry, "push", "bills.due", "--id", "bill-1", "--body", "7 EUR", "--delay", "1s",
		"--deliver", "pull")
	if got := run(t, dist, env, tarry, "pull", "bills.due", "--wait", "30s"); !strings.Contains(got, "bill-1") {
		t.Errorf("the installed service delivers %q", got)
	}
}

// alone fails if a binary needs any other file, or has symbols that only a debugger reads.
func alone(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked with others: %s", path, part.Type)
		}
	}
	if file.Section(".symtab") != nil {
		t.Errorf("%s has symbols", path)
	}
}

// bill reads the bill of materials, which names tarry and every module that the binary has.
func bill(t *testing.T, text string) {
	t.Helper()
	type component struct{ Name, Version, Purl string }
	var b struct {
		BomFormat  string
		Metadata   struct{ Component component }
		Components []component
	}
	decode(t, text, &b)
	if c := b.Metadata.Component; b.BomFormat != "CycloneDX" || c.Name != "github.com/tarry-mq/tarry" {
		t.Errorf("it is a bill of %+v", c)
	}
	for _, name := range []string{"github.com/go-zookeeper/zk", "modernc.org/sqlite", "std"} {
		if !slices.ContainsFunc(b.Components, func(c component) bool { return c.Name == name && c.Version != "" }) {
			t.Errorf("it lacks %s: %.200s", name, text)
		}
	}
}

// image reads the image as skopeo pulls it, and compares it with what the Dockerfile makes.
func image(t *testing.T, path string) {
	t.Helper()
	from := "oci-archive:" + path + ":" + version
	var index struct {
		Manifests []struct {
			Platform struct{ OS, Architecture string }
		}
	}
	decode(t, run(t, ".", nil, "skopeo", "inspect", "--raw", from), &index)
	if m := index.Manifests; len(m) != 1 || m[0].Platform.OS != "linux" || m[0].Platform.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %+v", m)
	}
	var config struct {
		Config struct {
			User            string
			Env             []string
			Entrypoint, Cmd []string
			ExposedPorts    map[string]struct{}
		}
	}
	decode(t, run(t, ".", nil, "skopeo", "inspect", "--config", from), &config)
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	c, list := config.Config, func(words []string) string { text, _ := json.Marshal(words); return string(text) }
	for _, line := range []string{"USER " + c.User, "ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd),
		"EXPOSE 7070", "ENV TARRY_HTTP_LISTEN=:7070"} {
		if !strings.Contains(string(dockerfile), "\n"+line+"\n") {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
	if _, exposed := c.ExposedPorts["7070/tcp"]; !exposed || !slices.Contains(c.Env, "TARRY_HTTP_LISTEN=:7070") {
		t.Errorf("its configuration is %+v", c)
	}
}

// installing puts a package into a layer above the file system, away, and in again, and becomes the unit's command.
const installing = `set -eu
mount -t tmpfs layer "$1" && mkdir "$1/upper" "$1/work" "$1/root"
root=$1/root
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" layer "$root"
mount -t proc proc "$root/proc"
cp "$2" "$root/tarry.deb"
chroot "$root" dpkg --install /tarry.deb
chroot "$root" dpkg --purge tarry
[ ! -e "$root/usr/bin/tarry" ] && [ ! -e "$root/etc/tarry" ]
chroot "$root" dpkg --install /tarry.deb
chroot "$root" dpkg --install /tarry.deb # as an upgrade
grep -q 'try-restart.*tarry.service' "$root/var/lib/dpkg/info/tarry.postinst" # what runs is replaced
! grep -qs 'stop.*tarry.service' "$root/var/lib/dpkg/info/tarry.preinst"
chroot "$root" systemd-analyze verify --man=no tarry.service
chroot "$root" stat -c '%n %a %U %G' /etc/tarry/tarry.yaml
chroot "$root" install -d -o tarry -g tarry /var/lib/tarry # as StateDirectory= does
shift 2
exec chroot --userspec=tarry:tarry "$root" "$@"
`

// install installs a package and starts what its unit starts, on one machine without Redis. It returns the address.
func install(t *testing.T, deb string) (server string) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join("..", "tarry.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, start, _ := strings.Cut(string(unit), "\nExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	listen := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t))) }
	address := listen()
	env := []string{"TARRY_HTTP_LISTEN=" + address, "TARRY_NATS_LISTEN=" + listen(), "TARRY_STORE=memory",
		"TARRY_DATA=/var/lib/tarry", "TARRY_JOURNAL_MODE=sync", "TARRY_JOURNAL_DSN=sqlite:/var/lib/tarry/journal.db"}
	args := append([]string{"--mount", "sh", "-c", installing, "installing", t.TempDir(), deb}, strings.Fields(start)...)
	service := lab.Start(t, "service", env, "unshare", args...)
	lab.Eventually(t, 2*time.Minute, func() error {
		answer, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			if answer.Body.Close(); answer.StatusCode != http.StatusOK {
				err = fmt.Errorf("/readyz answers %d", answer.StatusCode)
			}
		}
		return err
	})
	if log := service.Log(); !strings.Contains(log, "/etc/tarry/tarry.yaml 640 root tarry") {
		t.Errorf("the settings are not for the service alone: %s", log)
	}
	var of syscall.Stat_t
	if err := syscall.Stat(fmt.Sprint("/proc/", service.Pid()), &of); err != nil || of.Uid == 0 {
		t.Errorf("it runs as user %d, %v", of.Uid, err)
	}
	return "http://" + address
}
