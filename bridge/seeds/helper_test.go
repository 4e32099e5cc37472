package seeds_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/seeds"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// service is a scheduler of one message, which a consumer holds or not.
type service struct {
	ops.Service
	info    message.Info
	polled  func(scheduler.Poll)
	settled func([]scheduler.Settlement)
}

func (s *service) Get(context.Context, scheduler.Ref) (message.Info, error) { return s.info, nil }

func (s *service) AcceptAll(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	return make([]scheduler.Accepted, len(batch))
}

func (s *service) Pull(_ context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	if s.polled != nil {
		s.polled(p)
	}
	return nil, nil
}

func (s *service) LeaseOf(context.Context, scheduler.Ref) (scheduler.LeaseInfo, error) {
	return scheduler.LeaseInfo{Message: s.info, Nonce: 1}, nil
}

func (s *service) Settle(_ context.Context, all []scheduler.Settlement) ([]scheduler.Settled, []error) {
	s.settled(all)
	done := make([]scheduler.Settled, len(all))
	for i := range done {
		done[i].Code = scheduler.SettleDone
	}
	return done, make([]error, len(all))
}

type election struct{ ops.Election }

// served is a server with the doors.
type served struct {
	*api.Server
	*seeds.Doors
}

func open(t *testing.T, s *service, change ...func(*api.Config)) *served {
	t.Helper()
	registry := prometheus.NewRegistry()
	cfg := api.Config{Config: ops.Config{Service: s, Cluster: election{}}, Gatherer: registry, Registerer: registry,
		Hosts: []string{"example.com"}}
	for _, f := range change {
		f(&cfg)
	}
	server, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &served{server, seeds.Mount(server, nil, new(seeds.Stats))}
}

// post sends a form and returns the answer, which has camellia's code 200, as text and as JSON.
func (d *served) post(t *testing.T, name, form, token string) (raw string, answer map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/camellia/delayQueue/"+name, strings.NewReader(form))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || answer["code"] != 200.0 {
		t.Errorf("%s %s: %d %s (%v)", name, form, w.Code, w.Body, err)
	}
	return w.Body.String(), answer
}

// info returns a message on orders.x.
func info(state message.State) message.Info {
	const uid = "0000000000001"
	return message.Info{Message: message.Message{UID: uid, ID: "a", Topic: "orders.x", Due: 1_896_076_800_000},
		State: state, Version: 1}
}

// hash returns what a server keeps of a token.
func hash(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
