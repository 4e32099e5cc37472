package topology

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// scrapeToken is Prometheus's own.
const scrapeToken = "a-token-of-prometheus"

// tokensFile is the page's tokens for Prometheus, with a digest.
func tokensFile(t testing.TB) string {
	t.Helper()
	_, text, found := strings.Cut(operations(t), "\n```yaml\ntokens:\n")
	text, _, ended := strings.Cut(text, "\n```\n")
	if !found || !ended || !strings.Contains(text, "DIGEST") {
		t.Fatalf("docs/operations.md has no tokens for Prometheus: %s", text)
	}
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	text = "tokens:\n" +
		strings.Replace(text, "DIGEST", fmt.Sprintf("%x", sha256.Sum256([]byte(scrapeToken))), 1) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// scraped asks as Prometheus does: each target of prometheus.yml, with a token that can do nothing else.
func scraped(t *testing.T, w *world) {
	t.Helper()
	var config struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		} `yaml:"global"`
		Rules []string `yaml:"rule_files"`
		Jobs  []struct {
			Name          string `yaml:"job_name"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			} `yaml:"authorization"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	strict := yaml.NewDecoder(strings.NewReader(inDeploy(t, "prometheus.yml")))
	strict.KnownFields(true)
	if err := strict.Decode(&config); err != nil {
		t.Fatal(err)
	}
	if len(config.Jobs) != 1 || len(config.Jobs[0].Static) != 1 || !strings.Contains(operations(t),
		"`"+config.Jobs[0].Authorization.File+"`") {
		t.Fatalf("got %+v", config)
	}
	targets := config.Jobs[0].Static[0].Targets
	var names []string
	for _, target := range targets {
		if w.addresses[target] == "" {
			t.Errorf("no service is at %s", target)
			continue
		}
		name, _, _ := strings.Cut(target, ":")
		names = append(names, name)
		for _, c := range []struct {
			method, path, token string
			status              int
			says                string
		}{
			{http.MethodGet, "/metrics", scrapeToken, http.StatusOK, "\ntarry_leader "},
			{http.MethodGet, "/metrics", "", http.StatusUnauthorized, "unauthorized"},
			{http.MethodPost, "/v1/messages", scrapeToken, http.StatusForbidden, "forbidden"},
		} {
			if status, text := asScraper(
				t, c.method, "http://"+w.addresses[target]+c.path, c.token); status != c.status ||
				!strings.Contains(text, c.says) {
				t.Errorf("%s %s of %s: %d %.200q", c.method, c.path, target, status, text)
			}
		}
	}
	if slices.Sort(names); !slices.Equal(names, w.compose.instances()) {
		t.Errorf("it scrapes %v, the instances are %v", names, w.compose.instances())
	}
}

// TestAlerts_FireInPrometheus: Prometheus takes the configuration and its alerts, which are silent on a good day, and
// all fire when all goes wrong.
func TestAlerts_FireInPrometheus(t *testing.T) {
	lab.Needs(t, "promtool")
	t.Parallel()
	for _, args := range [][]string{
		{"check", "config", "--syntax-only", filepath.Join("..", "prometheus.yml")},
		{"check", "rules", filepath.Join("..", "alerts.yml")},
		{"test", "rules", filepath.Join("testdata", "alerts.yml")},
	} {
		if said, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
}

// TestAlerts_NameWhatTarryHas: each alert has its case in the test of alerts, and names metrics of tarry.
func TestAlerts_NameWhatTarryHas(t *testing.T) {
	t.Parallel()
	alerts, cases := inDeploy(t, "alerts.yml"), inDeploy(t, "topology", "testdata", "alerts.yml")
	for _, name := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !strings.Contains(cases, `alertname="`+name[1]+`"`) {
			t.Errorf("%s is not tested", name[1])
		}
	}
	metrics := inDeploy(t, "..", "cmd", "internal", "app", "testdata", "metrics.txt")
	for _, name := range regexp.MustCompile(`tarry_\w+`).FindAllString(alerts, -1) {
		if !strings.Contains(metrics, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("tarry has no metric %s", name)
		}
	}
}

func asScraper(t *testing.T, method, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"topic":"a","delay":"1h"}`))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
