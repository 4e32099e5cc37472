package site

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

// Answer is any answer of tarry; what it lacks stays empty.
type Answer struct {
	Status int
	Raw    string

	Error, Detail, ID, UID, State string
	Due                           time.Time
	Duplicate                     bool
	Term                          uint64
	Leader                        *struct{ Instance string }
	Instances                     []struct {
		Instance, Role string
		CanLead        bool `json:"can_lead"`
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

// Web is the HTTP client of all tests. A frozen instance must not hold a producer for long.
var Web = &http.Client{Timeout: 3 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}

// patient waits as long as the context of a call allows.
var patient = &http.Client{Transport: Web.Transport}

// Call asks one instance. The error is one of the transport; an answer is never an error. A context with a deadline
// replaces the limit of web.
func (i *Instance) Call(ctx context.Context, method, path string, body any) (Answer, error) {
	var from io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		from = bytes.NewReader([]byte(b))
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return Answer{}, err
		}
		from = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+i.Addr+path, from)
	if err != nil {
		return Answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+HTTPToken)
	client := Web
	if _, limited := ctx.Deadline(); limited {
		client = patient
	}
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: resp.StatusCode, Raw: string(text)}
	if err := json.Unmarshal(text, &a); err != nil && path != "/metrics" && path != "/livez" {
		return a, fmt.Errorf("%s %s: %d %.200q: %w", method, path, resp.StatusCode, text, err)
	}
	return a, nil
}

// Sure is call as a careful client makes it. While the answer is one of the given errors, as it is where the
// database is slow, it asks again, for a push under the id that it was answered with. What the first try did is
// answered as if it had said so.
func (i *Instance) Sure(ctx context.Context, method, path string, body any, passing ...string) (Answer, error) {
	for begun, again := time.Now(), false; ; again = true {
		a, err := i.Call(ctx, method, path, body)
		if err != nil || !slices.Contains(passing, a.Error) || time.Since(begun) > Patience {
			if again && a.Status == http.StatusOK && a.Duplicate {
				a.Status = http.StatusCreated
			}
			return a, err
		}
		if push, ok := body.(map[string]any); ok && a.ID != "" {
			push = maps.Clone(push)
			push["id"] = a.ID
			body = push
		}
		Pause(ctx, 20*time.Millisecond)
	}
}

// Slow is what may be answered where the database is slow, and Unsure what leaves open whether it was done.
var (
	Slow   = []string{"outcome_unknown", "unavailable"}
	Unsure = []string{"outcome_unknown", "not_journaled"}
)

// Must is call where an answer is due, at once on a machine that has nothing else to do.
func (s *Site) Must(i *Instance, method, path string, body any) Answer {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), Patience)
	defer stop()
	a, err := i.Sure(ctx, method, path, body, Unsure...)
	if err != nil {
		s.T.Fatal(err)
	}
	return a
}

// Push pushes one message that must be accepted.
func (s *Site) Push(i *Instance, body map[string]any) Answer {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), Patience)
	defer stop()
	a, err := i.Sure(ctx, http.MethodPost, "/v1/messages", body, Slow...)
	if err != nil || a.Status != http.StatusCreated {
		s.T.Fatalf("push through %s: %d %s %v", i.Name, a.Status, a.Raw, err)
	}
	return a
}

// Batch pushes up to a thousand messages at once and returns their uids. What it leaves open is pushed by itself.
func (s *Site) Batch(i *Instance, pushes []map[string]any) (uids []string) {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), Patience)
	defer stop()
	a, err := i.Call(ctx, http.MethodPost, "/v1/messages/batch", map[string]any{"messages": pushes})
	if err != nil || a.Status != http.StatusOK || len(a.Results) != len(pushes) {
		s.T.Fatalf("a batch: %d %.300s %v", a.Status, a.Raw, err)
	}
	for n, r := range a.Results {
		if slices.Contains(Slow, r.Error) {
			push := maps.Clone(pushes[n])
			if r.ID != "" {
				push["id"] = r.ID
			}
			again, err := i.Sure(ctx, http.MethodPost, "/v1/messages", push, Slow...)
			if r.Error, r.UID = again.Error, again.UID; err != nil {
				s.T.Fatal(err)
			}
		}
		if r.Error != "" {
			s.T.Fatalf("a push of a batch: %+v", r)
		}
		uids = append(uids, r.UID)
	}
	return uids
}

// Ready waits until the instance says that it is, and lacks nothing.
func (s *Site) Ready(i *Instance) {
	s.T.Helper()
	lab.Eventually(s.T, Patience, func() error {
		if !i.Running() {
			s.T.Fatalf("%s ended:\n%s", i.Name, i.Log())
		}
		a, err := i.Call(s.T.Context(), http.MethodGet, "/readyz", nil)
		if err == nil && (a.Status != http.StatusOK || len(a.Degraded) > 0) {
			err = fmt.Errorf("%s is not ready: %s", i.Name, a.Raw)
		}
		return err
	})
}

// Leader waits until all the given instances agree on one leader with a term above the given one.
func (s *Site) Leader(above uint64, among ...*Instance) (*Instance, uint64) {
	s.T.Helper()
	var found *Instance
	var term uint64
	lab.Eventually(s.T, Patience, func() error {
		found, term = nil, 0
		for _, i := range among {
			a, err := i.Call(s.T.Context(), http.MethodGet, "/v1/cluster", nil)
			if err != nil {
				return err
			}
			if a.Status != http.StatusOK || a.Leader == nil || a.Term <= above {
				return fmt.Errorf("%s says: %s", i.Name, a.Raw)
			}
			if found != nil && (found.Name != a.Leader.Instance || term != a.Term) {
				return fmt.Errorf("%s says %s, others say %s leads term %d", i.Name, a.Raw, found.Name, term)
			}
			term = a.Term
			for _, j := range among {
				if j.Name == a.Leader.Instance {
					found = j
				}
			}
			if found == nil {
				return fmt.Errorf("%s says that %s leads, which is not there", i.Name, a.Leader.Instance)
			}
		}
		return nil
	})
	return found, term
}

// Others are the site's instances but for one.
func (s *Site) Others(but *Instance) []*Instance {
	var rest []*Instance
	for _, i := range s.Instances {
		if i != but {
			rest = append(rest, i)
		}
	}
	return rest
}
