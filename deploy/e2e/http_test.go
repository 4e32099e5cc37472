package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// answer is any answer of tarry; what it lacks stays empty.
type answer struct {
	status int
	raw    string

	Error, Detail, ID, UID, State string
	Due                           time.Time
	Duplicate                     bool
	Term                          uint64
	Leader                        *struct{ Instance string }
	Instances                     []struct {
		Instance, Role string
		Healthy        bool
	}
	Degraded []string
	Checks   []struct {
		Name string
		OK   bool
	}
	Results []struct {
		ID, UID, Error, Detail string
		Due                    time.Time
	}
}

// web is the HTTP client of all tests. A frozen instance must not hold a producer for long.
var web = &http.Client{Timeout: 3 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}

// patient waits as long as the context of a call allows.
var patient = &http.Client{Transport: web.Transport}

// call asks one instance. The error is one of the transport; an answer is never an error. A context with a deadline
// replaces the limit of web.
func (i *instance) call(ctx context.Context, method, path string, body any) (answer, error) {
	var from io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		from = bytes.NewReader([]byte(b))
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		from = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+i.addr+path, from)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+httpToken)
	client := web
	if _, limited := ctx.Deadline(); limited {
		client = patient
	}
	resp, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, raw: string(text)}
	if err := json.Unmarshal(text, &a); err != nil && path != "/metrics" && path != "/livez" {
		return a, fmt.Errorf("%s %s: %d %.200q: %w", method, path, resp.StatusCode, text, err)
	}
	return a, nil
}

// sure is call as a careful client makes it. While the answer is one of the given errors, as it is where the
// database is slow, it asks again, for a push under the id that it was answered with. What the first try did is
// answered as if it had said so.
func (i *instance) sure(ctx context.Context, method, path string, body any, passing ...string) (answer, error) {
	for begun, again := time.Now(), false; ; again = true {
		a, err := i.call(ctx, method, path, body)
		if err != nil || !slices.Contains(passing, a.Error) || time.Since(begun) > patience {
			if again && a.status == http.StatusOK && a.Duplicate {
				a.status = http.StatusCreated
			}
			return a, err
		}
		if push, ok := body.(map[string]any); ok && a.ID != "" {
			push = maps.Clone(push)
			push["id"] = a.ID
			body = push
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// slow is what may be answered where the database is slow.
var slow = []string{"outcome_unknown", "unavailable"}

// must is call where an answer is due at once.
func (s *site) must(i *instance, method, path string, body any) answer {
	s.t.Helper()
	a, err := i.sure(s.t.Context(), method, path, body, "outcome_unknown")
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// push pushes one message that must be accepted.
func (s *site) push(i *instance, body map[string]any) answer {
	s.t.Helper()
	a, err := i.sure(s.t.Context(), http.MethodPost, "/v1/messages", body, slow...)
	if err != nil || a.status != http.StatusCreated {
		s.t.Fatalf("push through %s: %d %s %v", i.name, a.status, a.raw, err)
	}
	return a
}

// ready waits until the instance says that it is, and lacks nothing.
func (s *site) ready(i *instance) {
	s.t.Helper()
	lab.Eventually(s.t, patience, func() error {
		if !i.Running() {
			s.t.Fatalf("%s ended:\n%s", i.name, i.Log())
		}
		a, err := i.call(s.t.Context(), http.MethodGet, "/readyz", nil)
		if err == nil && (a.status != http.StatusOK || len(a.Degraded) > 0) {
			err = fmt.Errorf("%s is not ready: %s", i.name, a.raw)
		}
		return err
	})
}

// leader waits until all the given instances agree on one leader with a term above the given one.
func (s *site) leader(above uint64, among ...*instance) (*instance, uint64) {
	s.t.Helper()
	var found *instance
	var term uint64
	lab.Eventually(s.t, patience, func() error {
		found, term = nil, 0
		for _, i := range among {
			a, err := i.call(s.t.Context(), http.MethodGet, "/v1/cluster", nil)
			if err != nil {
				return err
			}
			if a.status != http.StatusOK || a.Leader == nil || a.Term <= above {
				return fmt.Errorf("%s says: %s", i.name, a.raw)
			}
			if found != nil && (found.name != a.Leader.Instance || term != a.Term) {
				return fmt.Errorf("%s says %s, others say %s leads term %d", i.name, a.raw, found.name, term)
			}
			term = a.Term
			for _, j := range among {
				if j.name == a.Leader.Instance {
					found = j
				}
			}
			if found == nil {
				return fmt.Errorf("%s says that %s leads, which is not there", i.name, a.Leader.Instance)
			}
		}
		return nil
	})
	return found, term
}

// others are the site's instances but for one.
func (s *site) others(but *instance) []*instance {
	var rest []*instance
	for _, i := range s.instances {
		if i != but {
			rest = append(rest, i)
		}
	}
	return rest
}
