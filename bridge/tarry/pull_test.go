package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pullAndSettle pulls over HTTP what was pushed over NATS, and settles it in every way.
func pullAndSettle(t *testing.T, d *dev) {
	conn := d.client(t)
	p := &Puller{URL: d.http + "/"}
	ctx := t.Context()
	push := func(id string) {
		t.Helper()
		m := message("work.go", id, "X", "1", "Tarry-Deliver", "pull")
		if err := conn.PublishMsg(Tag(m, In(0), As(id), Key("k"), Retries("1m"))); err != nil {
			t.Fatal(err)
		}
	}
	pull := func(id string, attempt int) Pulled {
		t.Helper()
		found, err := p.Pull(ctx, "work.go", PullOptions{Max: 3, Wait: 10 * time.Second, Lease: time.Minute, Consumer: "go",
			MaxBytes: 1000})
		if err != nil || len(found) != 1 {
			t.Fatalf("pulled %+v, %v", found, err)
		}
		m := found[0]
		if m.ID != id || string(m.Data) != id || m.Attempt != attempt || m.Key != "k" || m.Topic != "work.go" ||
			m.Header.Get("X") != "1" || m.Due.IsZero() || m.Lease <= 0 || time.Until(m.LeaseUntil) > time.Minute+time.Second {
			t.Fatalf("pulled %+v", m)
		}
		return m
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	push("one")
	m := pull("one", 1)
	must(p.Release(ctx, m.Receipt))
	m = pull("one", 1)
	must(p.Extend(ctx, 5*time.Minute, m.Receipt))
	must(p.NackIn(ctx, time.Millisecond, "no till", m.Receipt))
	m = pull("one", 2)
	must(p.Ack(ctx, m.Receipt))
	must(p.Ack(ctx, m.Receipt))
	push("two")
	two := pull("two", 1)
	must(p.Nack(ctx, "no\npaper", two.Receipt))
	push("three")
	three := pull("three", 1)
	err := p.Dead(ctx, "no use", three.Receipt, m.Receipt, "x")
	var some Unsettled
	if !errors.As(err, &some) || len(some) != 2 || !errors.Is(some[m.Receipt], ErrLeaseLost) || some["x"] == nil ||
		!errors.Is(err, ErrLeaseLost) || !strings.Contains(err.Error(), m.Receipt) {
		t.Errorf("settled with %v", err)
	}
	if found, err := p.Pull(ctx, "work.go", PullOptions{}); err != nil || len(found) > 0 {
		t.Errorf("more: %+v, %v", found, err)
	}
	var refused *Error
	push("four")
	if err := conn.PublishMsg(Tag(message("work.else", "else", "Tarry-Deliver", "pull"), In(0), As("else"))); err != nil {
		t.Fatal(err)
	}
	for got := map[string]bool{}; len(got) < 2; {
		found, err := p.PullAny(ctx, []string{"work.none", "work.go", "work.else"},
			PullOptions{Max: 2, Wait: 10 * time.Second})
		if err != nil || len(found) == 0 {
			t.Fatalf("pulled %+v, %v", found, err)
		}
		for _, m := range found {
			if got[m.Topic] = true; m.ID != map[string]string{"work.go": "four", "work.else": "else"}[m.Topic] {
				t.Errorf("pulled %+v", m)
			}
			if err := p.Ack(ctx, m.Receipt); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := p.PullAny(ctx, nil, PullOptions{}); !errors.As(err, &refused) || refused.Word != "invalid_topics" {
		t.Errorf("a pull of no topics: %v", err)
	}
	if _, err := p.Pull(ctx, "work.*", PullOptions{}); !errors.As(err, &refused) || refused.Word != "invalid_topic" {
		t.Errorf("a wildcard: %v", err)
	}
}

// A request whose answer is lost is sent again as it was, as its next sending: the repeat gets the same messages.
func TestPuller_RepeatsWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	var first string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch n.Add(1) {
		case 1:
			first = string(body)
			panic(http.ErrAbortHandler)
		case 2:
			if string(body) != strings.Replace(first, `"sending":1`, `"sending":2`, 1) || string(body) == first ||
				!strings.Contains(first, `"attempt":"`) || r.Header.Get("Authorization") != "Bearer s" {
				t.Errorf("first %s, then %s", first, body)
			}
			_, _ = io.WriteString(w, `{"messages":[{"id":"a","body_base64":"/w=="}]}`)
		case 3:
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>")
		default:
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, `{"error":"outcome_unknown","detail":"d"}`)
		}
	}))
	t.Cleanup(srv.Close)
	p := &Puller{URL: srv.URL, Token: "s", Client: srv.Client()}
	found, err := p.Pull(t.Context(), "a", PullOptions{})
	if err != nil || len(found) != 1 || string(found[0].Data) != "\xff" {
		t.Fatalf("%+v, %v", found, err)
	}
	if err := p.Ack(t.Context(), "r"); !errors.Is(err, ErrOutcomeUnknown) || n.Load() != 5 {
		t.Errorf("after %d requests: %v", n.Load(), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := p.Ack(ctx, "r"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// An instance from before polls of several topics refuses them: it is asked for one topic after the other.
func TestFromPull_AsksOlderInstancesToo(t *testing.T) {
	t.Parallel()
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		topic, one := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/pull"), "/v1/topics/")
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/leases/"):
			_, _ = io.WriteString(w, `{"results":[{"state":"delivered"}]}`)
		case one:
			_, _ = io.WriteString(w, `{"messages":[{"id":"x","topic":"`+topic+`","receipt":"r","lease_ms":60000}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"unknown_route","detail":"there is nothing at this path"}`)
		}
	}))
	t.Cleanup(old.Close)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	seen := map[string]bool{}
	err := Consume(ctx, FromPull(&Puller{URL: old.URL}, "a", "b", "a"), func(_ context.Context, d Delivery) error {
		if seen[d.Topic] = true; len(seen) == 2 {
			stop()
		}
		return nil
	}, Concurrency(1))
	if err != nil || !seen["a"] || !seen["b"] {
		t.Errorf("%v; handled %v", err, seen)
	}
}

// An instance without room for an answer says so, and may hold what the lost answer before had.
func TestPuller_RepeatsAnAttemptWhileTheInstanceIsBusy(t *testing.T) {
	t.Parallel()
	var attempts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Attempt string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		if attempts = append(attempts, asked.Attempt); len(attempts) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":"busy"}`)
			return
		}
		_, _ = io.WriteString(w, `{"messages":[]}`)
	}))
	defer server.Close()
	p := &Puller{URL: server.URL}
	if _, err := p.Pull(t.Context(), "work", PullOptions{}); err != nil || len(attempts) != 3 || attempts[0] == "" ||
		attempts[0] != attempts[2] {
		t.Errorf("sent %q: %v", attempts, err)
	}
}
