package short_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

type dashboard struct {
	UID        string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../grafana/tarry.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || d.UID != "tarry" || len(d.Panels) < 20 || len(d.Templating.List) != 1 ||
		d.Templating.List[0].Type != "datasource" {
		t.Fatalf("%+v, %v", d, err)
	}
	return d
}

// Each panel says what it shows, in which unit, and covers no other.
func TestGrafana_PanelsAreWhole(t *testing.T) {
	t.Parallel()
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range readDashboard(t).Panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s covers %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if ids[p.ID] || p.Title == "" || p.Type != "row" && (p.Description == "" || p.FieldConfig.Defaults.Unit == "" ||
			p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) {
			t.Errorf("not whole: %+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if target.LegendFormat == "" || !strings.Contains(target.Expr, `{job="tarry"`) {
				t.Errorf("%s: %+v", p.Title, target)
			}
		}
	}
}

// Prometheus answers every query of the dashboard, from what an instance tells it.
func TestGrafana_EveryQueryAnswers(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "prometheus")
	settings := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(settings, []byte(`webhook: {allow: ["127.0.0.0/8"]}
topics:
  - {pattern: "hooks.*", deliver: webhook, retry: 1h, webhook: {url: "http://127.0.0.1:1/x",
      secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := site.StartDev(t, "dev", "--config", settings)
	d.Ready(t)
	nc, err := nats.Connect("nats://" + d.Nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	refused := &nats.Msg{Subject: "delayed.orders.x", Header: nats.Header{"Tarry-Delay": {"soon"}}}
	site.PublishStored(t, nc, refused)
	a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages", map[string]any{"topic": "hooks.a", "delay": "0s"})
	if err != nil || a.Status != http.StatusCreated {
		t.Fatalf("%+v, %v", a, err)
	}

	at := fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(config, []byte(`global: {scrape_interval: 1s}
scrape_configs:
  - {job_name: tarry, static_configs: [{targets: ["`+d.Addr+`"]}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	lab.Start(t, "prometheus", nil, "prometheus", "--config.file", config, "--storage.tsdb.path", t.TempDir(),
		"--web.listen-address", at, "--log.level", "warn")
	asked := 0
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			asked++
			query := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			lab.Eventually(t, time.Minute, func() error { return answers(at, query, target.LegendFormat) })
		}
	}
	if asked < 40 {
		t.Errorf("%d queries", asked)
	}
}

// answers reports whether a query has a series, with the labels that its legend names.
func answers(at, query, legend string) error {
	resp, err := http.Get("http://" + at + "/api/v1/query?" + url.Values{"query": {query}}.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var a struct {
		Error string
		Data  struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || len(a.Data.Result) == 0 {
		return fmt.Errorf("%s: %d %s, %w", query, resp.StatusCode, a.Error, err)
	}
	for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(legend, -1) {
		if slices.ContainsFunc(a.Data.Result, func(r struct{ Metric map[string]string }) bool {
			return r.Metric[label[1]] == ""
		}) {
			return fmt.Errorf("%s: no label %s", query, label[1])
		}
	}
	return nil
}
