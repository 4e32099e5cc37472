package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheServicesAreTheTopology(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(compose(t).Services))
	want := []string{"mariadb", "nats", "nginx", "redis", "tarry-a", "tarry-b", "zookeeper"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEveryServiceIsConfined(t *testing.T) {
	t.Parallel()
	numeric := regexp.MustCompile(`^[0-9]+:[0-9]+$`)
	for name, s := range compose(t).Services {
		if !s.ReadOnly {
			t.Errorf("%s: its root file system can be written", name)
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged {
			t.Errorf("%s: it has capabilities: drops %v, adds %v, privileged %v", name, s.CapDrop,
				s.CapAdd, s.Privileged)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: it can gain privileges: %v", name, s.SecurityOpt)
		}
		if !numeric.MatchString(s.User) {
			t.Errorf("%s: its user is %q, want numbers", name, s.User)
		}
		// NATS's image has no user of its own; see the comment there.
		if root := strings.HasPrefix(s.User, "0:"); root != (name == "nats") {
			t.Errorf("%s: root: %v", name, root)
		}
		if len(s.Healthcheck.Test) < 2 || s.Restart != "unless-stopped" || s.Image == "" {
			t.Errorf("%s: health check %v, restart %q, image %q", name, s.Healthcheck.Test, s.Restart, s.Image)
		}
		for _, published := range s.Ports {
			if !strings.HasPrefix(published, "127.0.0.1:") {
				t.Errorf("%s: %s is published beyond loopback", name, published)
			}
		}
	}
}

func TestWhatAServiceRefersToIsThere(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		for other, wait := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s waits for %s, which is no service", name, other)
			}
			if wait.Condition != "service_healthy" && wait.Condition != "service_started" {
				t.Errorf("%s waits until %s is %q", name, other, wait.Condition)
			}
		}
		for network := range s.Networks {
			if _, ok := c.Networks[network]; !ok {
				t.Errorf("%s is in %s, which is no network", name, network)
			}
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if file, ok := strings.CutPrefix(source, "./"); ok {
				inDeploy(t, file) // which fails where there is none
			} else if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s mounts %s, which is no volume", name, source)
			}
		}
	}
}

func TestWhatKeepsMessagesIsOnAVolume(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, dirs := range map[string][]string{"redis": {"/data"}, "nats": {"/data"},
		"zookeeper": {"/data", "/datalog"}, "mariadb": {"/var/lib/mysql"}} {
		for _, dir := range dirs {
			if !slices.ContainsFunc(c.Services[name].Volumes, func(v string) bool {
				source, target, _ := strings.Cut(v, ":")
				return target == dir && !strings.ContainsAny(source, "./")
			}) {
				t.Errorf("%s: %s is on no named volume: %v", name, dir, c.Services[name].Volumes)
			}
		}
	}
}

func TestRedisKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	command := compose(t).Services["redis"].Command
	for flag, want := range map[string]string{"--appendonly": "yes", "--maxmemory-policy": "noeviction"} {
		i := slices.Index(command, flag)
		if i < 0 || i+1 == len(command) || command[i+1] != want {
			t.Errorf("%s is not %s in %q", flag, want, command)
		}
	}
}

func TestTheJournalKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	c := compose(t)
	s := c.Services["mariadb"]
	for _, flag := range []string{"--innodb-flush-log-at-trx-commit=1", "--max-allowed-packet=64M",
		"--character-set-server=utf8mb4"} {
		if !slices.Contains(s.Command, flag) {
			t.Errorf("%s is not in %q", flag, s.Command)
		}
	}
	if !strings.HasPrefix(s.Image, "mariadb:10.11") || len(s.Ports) > 0 || len(s.Networks) != 1 ||
		s.Environment["MARIADB_ROOT_HOST"] != "localhost" {
		t.Errorf("%s is published as %v, is in %v and lets root in from %q", s.Image, s.Ports, s.Networks,
			s.Environment["MARIADB_ROOT_HOST"])
	}
	if got := s.Environment["MARIADB_ROOT_PASSWORD"]; got != rootPassword {
		t.Errorf("the root password is %q, want what the operator set", got)
	}
	// temporary tables, and the socket that the health check asks through
	for _, dir := range []string{"/tmp:", "/run/mysqld:"} {
		if !slices.ContainsFunc(s.Tmpfs, func(mount string) bool { return strings.HasPrefix(mount, dir) }) {
			t.Errorf("it cannot write to %s: %v", dir, s.Tmpfs)
		}
	}
	want := fmt.Sprintf("%s:%s@tcp(mariadb:3306)/%s", s.Environment["MARIADB_USER"], password,
		s.Environment["MARIADB_DATABASE"])
	for _, name := range c.instances() {
		of := c.Services[name]
		if got := of.Environment["TARRY_JOURNAL_DSN"]; got != want || s.Environment["MARIADB_PASSWORD"] != password {
			t.Errorf("%s: the journal is at %s, the image makes %s", name, got, want)
		}
		if got := of.Environment["TARRY_JOURNAL_MODE"]; got != "sync" {
			t.Errorf("%s: the journal's mode is %q", name, got)
		}
	}
}

func TestThePageAsksForEverySecret(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../docs/operations.md", "compose.yaml"} {
		var exports string
		for line := range strings.Lines(inDeploy(t, file)) {
			if strings.Contains(line, " export ") {
				exports += line
			}
		}
		for name := range secrets() {
			if !strings.Contains(exports, " "+name+"=$(openssl rand -hex 24)") {
				t.Errorf("%s has nobody export %s", file, name)
			}
		}
	}
}

func TestTheInstancesWaitForWhatTheyNeed(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range c.instances() {
		for _, other := range []string{"redis", "nats", "zookeeper", "mariadb"} {
			if got := c.Services[name].DependsOn[other].Condition; got != "service_healthy" {
				t.Errorf("%s waits until %s is %q", name, other, got)
			}
		}
	}
}

func TestNATSKeepsStreamsOnItsVolume(t *testing.T) {
	t.Parallel()
	command := strings.Join(compose(t).Services["nats"].Command, " ")
	if !strings.Contains(command, "--jetstream") || !strings.Contains(command, "--store_dir /data") {
		t.Errorf("got %s", command)
	}
}

func TestTheInstancesDifferInNameAndAddressOnly(t *testing.T) {
	t.Parallel()
	c := compose(t)
	settings := map[string]map[string]string{}
	for _, name := range c.instances() {
		s := c.Services[name]
		if got := s.Environment["TARRY_INSTANCE"]; got != name {
			t.Errorf("%s calls itself %q", name, got)
		}
		if got, want := s.Environment["TARRY_PEER_ADVERTISE"], name+":"+listenPort(t, s); got != want {
			t.Errorf("%s says it is at %s, want %s", name, got, want)
		}
		settings[name] = maps.Clone(s.Environment)
		delete(settings[name], "TARRY_INSTANCE")
		delete(settings[name], "TARRY_PEER_ADVERTISE")
	}
	if !maps.Equal(settings["tarry-a"], settings["tarry-b"]) {
		t.Errorf("they differ: %v and %v", settings["tarry-a"], settings["tarry-b"])
	}
	a, b := c.Services["tarry-a"], c.Services["tarry-b"]
	if a.Image != b.Image || a.StopGrace != b.StopGrace || !slices.Equal(a.Healthcheck.Test, b.Healthcheck.Test) {
		t.Errorf("they differ: %+v and %+v", a, b)
	}
}

func TestTheInstancesAreGivenTheTimeToStop(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range c.instances() {
		grace, err := time.ParseDuration(c.Services[name].StopGrace)
		if err != nil {
			t.Fatal(err)
		}
		if own := stopTimeout(t); grace <= own {
			t.Errorf("%s is killed after %s, while stop.timeout is %s", name, grace, own)
		}
	}
}

// stopTimeout is the default, as the sample file has it.
func stopTimeout(t testing.TB) time.Duration {
	t.Helper()
	found := regexp.MustCompile(`(?m)^stop:\n(?:  ##.*\n)*  # timeout: (\S+)$`).FindStringSubmatch(
		inDeploy(t, "tarry.yaml"))
	if found == nil {
		t.Fatal("tarry.yaml names no stop.timeout")
	}
	d, err := time.ParseDuration(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func listenPort(t testing.TB, s service) string {
	t.Helper()
	_, port, found := strings.Cut(s.Environment["TARRY_HTTP_LISTEN"], ":")
	if !found || port == "" {
		t.Fatalf("TARRY_HTTP_LISTEN is %q", s.Environment["TARRY_HTTP_LISTEN"])
	}
	return port
}

func TestNginxFindsTheInstancesWhereComposePutsThem(t *testing.T) {
	t.Parallel()
	c, conf := compose(t), inDeploy(t, "nginx.conf")
	nginx := c.Services["nginx"]
	var hosts []string
	for _, name := range c.instances() {
		s := c.Services[name]
		if want := name + ":" + listenPort(t, s); !regexp.MustCompile(
			`(?m)^\s+server\s+` + regexp.QuoteMeta(want) + `\s`).MatchString(conf) {
			t.Errorf("nginx.conf has no server %s", want)
		}
		address, err := netip.ParseAddr(s.Networks["inside"])
		if err != nil {
			t.Errorf("%s has no fixed address: %v", name, err)
		}
		hosts = append(hosts, name+":"+address.String())
	}
	if !slices.Equal(nginx.ExtraHosts, hosts) {
		t.Errorf("nginx knows %v, want %v", nginx.ExtraHosts, hosts)
	}
	if len(nginx.Ports) != 1 || !strings.HasSuffix(nginx.Ports[0], ":8080") ||
		!regexp.MustCompile(`listen\s+8080;`).MatchString(conf) {
		t.Errorf("nginx is published as %v", nginx.Ports)
	}
	if !regexp.MustCompile(`(?s)upstream tarry \{[^}]*\szone\s`).MatchString(conf) {
		t.Error("each worker of nginx has a turn of its own: the upstream has no zone")
	}
	if !slices.ContainsFunc(nginx.Tmpfs, func(s string) bool { return strings.HasPrefix(s, "/tmp:") }) {
		t.Errorf("nginx cannot write to /tmp: %v", nginx.Tmpfs)
	}
}
