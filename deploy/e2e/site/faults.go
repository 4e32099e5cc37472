package site

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Metric is a gauge of an instance without labels; -1 while it is not there.
func (s *Site) Metric(i *Instance, name string) int64 {
	s.T.Helper()
	for line := range strings.Lines(s.Must(i, http.MethodGet, "/metrics", nil).Raw) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.T.Error(err)
			}
			return int64(f)
		}
	}
	return -1
}

// Missing waits until the instance says that it lacks exactly these things. Without redis it holds no machine id
// either.
func (s *Site) Missing(i *Instance, what ...string) {
	s.T.Helper()
	lab.Eventually(s.T, Patience, func() error {
		a, err := i.Call(s.T.Context(), http.MethodGet, "/readyz", nil)
		if err != nil {
			return err
		}
		var failing []string
		for _, c := range a.Checks {
			if !c.OK && c.Name != "machine_id" {
				failing = append(failing, c.Name)
			}
		}
		slices.Sort(failing)
		status := http.StatusOK // pushes are accepted, and wait
		if slices.Contains(what, "redis") {
			status = http.StatusServiceUnavailable
		}
		if a.Status != status || !slices.Equal(failing, what) {
			return fmt.Errorf("%s does not miss %s: %d %s", i.Name, what, a.Status, a.Raw)
		}
		return nil
	})
}
