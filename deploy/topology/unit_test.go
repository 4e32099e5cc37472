package topology

import (
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// unit are the lines of tarry.service, name=value.
func unit(t testing.TB) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for line := range strings.Lines(inDeploy(t, "tarry.service")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			lines[name] = value
		}
	}
	return lines
}

// command is the unit's ExecStart, with the sample in place of the installed file.
func command(t testing.TB) []string {
	t.Helper()
	sample, err := filepath.Abs(filepath.Join("..", "tarry.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(unit(t)["ExecStart"])
	i := slices.Index(args, "/etc/tarry/tarry.yaml")
	if args[0] != "/usr/bin/tarry" || i < 0 {
		t.Fatalf("ExecStart is %q", args)
	}
	args[i] = sample
	return args[1:]
}

// The settings may hold what signs webhooks, and a reload reads them anew: the unit's user must be able to, and nobody
// else.
func TestTheUnitsSettingsAreNotForEverybody(t *testing.T) {
	t.Parallel()
	all := unit(t)
	if all["DynamicUser"] == "yes" || all["User"] != "tarry" || all["Group"] != "tarry" {
		t.Errorf("a user that is made up at each start can own no file: %q, %q, %q", all["DynamicUser"], all["User"],
			all["Group"])
	}
	for line := range strings.Lines(inDeploy(t, "tarry.service")) {
		if _, how, found := strings.Cut(line, "install -D -m "); found && strings.Contains(how, "/etc/tarry/") {
			if !strings.HasPrefix(how, "0640 -g tarry ") {
				t.Errorf("the settings are installed by %s", how)
			}
			return
		}
	}
	t.Error("the unit does not say how to install the settings")
}

func TestTheUnitsCommandServesAndStops(t *testing.T) {
	t.Parallel()
	redis, nats, zookeeper := lab.NewRedis(t, "--maxmemory-policy", "noeviction"), lab.NewNATS(t), lab.NewZooKeeper(t)
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t)))
	i := &instance{name: "tarry", url: "http://" + listen}
	i.Process = lab.Start(t, "tarry", []string{
		"TARRY_HTTP_LISTEN=" + listen, "TARRY_REDIS_ADDRS=" + redis.Addr, "TARRY_NATS_URL=" + nats.URL(),
		"TARRY_ZOOKEEPER_SERVERS=" + zookeeper.Addr,
	}, program(t), command(t)...)
	lab.Eventually(t, time.Minute, func() error { return i.status("/readyz", http.StatusOK) })

	reload := strings.Fields(unit(t)["ExecReload"])
	if len(reload) == 0 {
		t.Fatal("the unit has no ExecReload")
	}
	reload[slices.Index(reload, "$MAINPID")] = strconv.Itoa(i.Pid())
	if out, err := exec.Command(reload[0], reload[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v, %s", reload, err, out)
	}
	i.WaitLog("settings loaded again")

	limit, err := strconv.Atoi(unit(t)["TimeoutStopSec"])
	if err != nil {
		t.Fatal(err)
	}
	if own := stopTimeout(t); time.Duration(limit)*time.Second <= own {
		t.Errorf("TimeoutStopSec is %d, stop.timeout %s", limit, own)
	}
	i.Signal(syscall.SIGTERM)
	if code := i.Wait(time.Duration(limit) * time.Second); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// A name that tarry does not know must not pass, or the tests here would not see a misspelt one in compose.yaml. The
// exit code is the one that systemd does not start again after.
func TestABadSettingEndsTheStartForGood(t *testing.T) {
	t.Parallel()
	final, err := strconv.Atoi(unit(t)["RestartPreventExitStatus"])
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"TARRY_REDIS_ADDR=127.0.0.1:6379", "TARRY_BUCKETS=0"} {
		p := lab.Start(t, "tarry", []string{bad}, program(t), command(t)...)
		if code := p.Wait(30 * time.Second); code != final {
			t.Errorf("%s: it ended with %d, want %d", bad, code, final)
		}
		if name, _, _ := strings.Cut(bad, "="); !strings.Contains(p.Log(), name) {
			t.Errorf("%s: it says %s", bad, p.Log())
		}
	}
}
