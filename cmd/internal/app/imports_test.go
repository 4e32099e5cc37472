package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tarry-mq/tarry/"

// arrows is the whole table: package → what it may import of ours. A package
// that is not here, or an arrow that is not here, fails the test.
//
// bridge/ops and the arrow to bridge/wire from bridge/api are more than the
// first design had: HTTP and the request API speak the same JSON under the same
// limits, so both doors share one set of operations instead of copying it.
var arrows = map[string][]string{
	"cmd/tarry": {"cmd/internal/app", "cmd/internal/client", "cmd/internal/config",
		"cmd/internal/doctor", "bridge/ops", "bridge/wire", "scheduler", "scheduler/message", "scheduler/record"},
	"cmd/internal/client": {"bridge/ops", "bridge/wire"},
	"cmd/internal/config": {"bridge/wire"},
	"cmd/internal/doctor": {"cmd/internal/config", "election", "store/timeline", "store/journal",
		"bridge/link", "bridge/intake", "bridge/wire"},
	"cmd/internal/app": {"cmd/internal/config", "election", "scheduler", "scheduler/steer", "scheduler/lead",
		"scheduler/message",
		"scheduler/record", "store/timeline", "store/memory",
		"store/journal", "bridge/link", "bridge/publish", "bridge/intake", "bridge/request", "bridge/rejects",
		"bridge/ops", "bridge/api", "bridge/seeds", "bridge/webhook", "bridge/wire"},
	"bridge/webhook":          {"scheduler", "scheduler/message", "bridge/ops", "bridge/wire"},
	"election":                {},
	"scheduler":               {"scheduler/message"},
	"scheduler/accept":        {"scheduler", "scheduler/message"},
	"scheduler/pull":          {"scheduler", "scheduler/message"},
	"scheduler/steer":         {"scheduler", "scheduler/accept", "scheduler/pull", "scheduler/message"},
	"scheduler/message":       {},
	"scheduler/lead":          {"scheduler", "scheduler/message"},
	"scheduler/record":        {"scheduler", "scheduler/message"},
	"scheduler/schedulertest": {"scheduler", "scheduler/steer", "scheduler/message", "scheduler/lead", "scheduler/record"},
	"scheduler/schedulertest/rig": {"scheduler", "scheduler/steer", "scheduler/message", "scheduler/lead",
		"scheduler/record",
		"store/memory"},
	"store/timeline":            {"scheduler", "scheduler/message", "scheduler/record"},
	"store/memory":              {"scheduler", "scheduler/message", "scheduler/record"},
	"store/journal":             {"scheduler", "scheduler/message", "scheduler/record"},
	"store/journal/journaltest": {"scheduler", "scheduler/message", "scheduler/record", "store/journal"},
	"bridge":                    {},
	"bridge/link":               {"scheduler", "scheduler/message", "bridge/wire"},
	"bridge/publish":            {"scheduler", "scheduler/message", "bridge/wire", "bridge/link"},
	"bridge/rejects":            {"scheduler", "scheduler/message", "bridge/wire", "bridge/ops", "bridge/link"},
	"bridge/intake": {"scheduler", "scheduler/message", "bridge/wire", "bridge/ops", "bridge/link",
		"bridge/rejects"},
	"bridge/request": {"scheduler", "scheduler/message", "bridge/wire", "bridge/ops", "bridge/link"},
	"bridge/bridgetest": {"scheduler", "scheduler/steer", "scheduler/message", "store/memory", "bridge/wire",
		"bridge/link",
		"bridge/publish", "bridge/intake", "deploy/lab"},
	"bridge/api": {"scheduler", "scheduler/message", "scheduler/record", "bridge/wire", "bridge/ops",
		"bridge/console"},
	"bridge/console":       {},
	"bridge/seeds":         {"scheduler", "scheduler/message", "bridge/wire", "bridge/ops", "bridge/api"},
	"bridge/ops":           {"scheduler", "scheduler/message", "scheduler/record", "bridge/wire"},
	"bridge/wire":          {},
	"deploy/lab":           {},
	"deploy/lab/prebuild":  {"deploy/lab"},
	"deploy/e2e":           {},
	"deploy/e2e/short":     {},
	"deploy/e2e/site":      {"deploy/lab", "deploy/check/history"},
	"deploy/topology":      {},
	"deploy/nemesis":       {},
	"deploy/lines":         {},
	"deploy/check":         {"deploy/check/history"},
	"deploy/check/history": {},
	"deploy/world":         {},
	"deploy/docs":          {},
	"deploy/release":       {},
}

// drivers are the modules that only these packages may import.
var drivers = map[string][]string{
	"github.com/redis/go-redis":  {"store/timeline", "cmd/internal/doctor", "deploy/e2e/site"},
	"github.com/go-zookeeper/zk": {"election", "cmd/internal/doctor"},
	"github.com/nats-io/nats.go": {"bridge/link", "bridge/publish", "bridge/intake", "bridge/request", "bridge/rejects",
		"bridge/bridgetest", "cmd/internal/app", "cmd/internal/doctor", "deploy/e2e/site"},
	"github.com/nats-io/nats-server": {"cmd/internal/app"},
	"github.com/sony/sonyflake":      {"scheduler"},
	"code.dny.dev/ssrf":              {"bridge/webhook"},
	"github.com/standard-webhooks":   {"bridge/webhook", "deploy/e2e"},
	// config reads a DSN with it
	"github.com/go-sql-driver/mysql": {"store/journal", "cmd/internal/config", "deploy/lab"},
	"github.com/pressly/goose":       {"store/journal"},
	"modernc.org/sqlite":             {"store/journal"},
	"go.yaml.in/yaml":                {"cmd/internal/config"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var found []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found = append(found, p)
	}
	if len(found) < 10 {
		t.Fatalf("go list found %d packages", len(found))
	}
	return found
}

func TestImports_FollowTheArrows(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, known := arrows[name]
		if !known {
			t.Errorf("%s is not in the table of arrows", name)
		}
		for _, i := range p.Imports {
			if to, ours := strings.CutPrefix(i, module); ours && !slices.Contains(allowed, to) {
				t.Errorf("a new arrow: %s → %s", name, to)
			}
			for driver, owners := range drivers {
				if strings.HasPrefix(i, driver) && !slices.Contains(owners, name) {
					t.Errorf("%s imports %s, which belongs to %s", name, i, strings.Join(owners, " and "))
				}
			}
			if strings.Contains(i, ".") && name == "bridge/wire" {
				t.Errorf("bridge/wire imports %s; it keeps to the standard library", i)
			}
		}
	}
}
