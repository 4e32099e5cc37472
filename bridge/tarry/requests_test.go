package tarry

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestRequests_AreWhatTheDaemonUnderstands holds what is asked for to the file that the daemon's tests read.
func TestRequests_AreWhatTheDaemonUnderstands(t *testing.T) {
	t.Parallel()
	needDaemon(t)
	text, err := os.ReadFile(filepath.Join(daemon, "..", "ops", "testdata", "requests.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]any
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	delete(cases, "about")

	nc, _ := account(t)
	const kept = `{"id":"a","uid":"0uid","due":"2030-01-31T08:00:00.000Z"}`
	in := newInstance(t, nc, func(_ int, data string) string {
		if strings.HasPrefix(data, `{"messages"`) {
			return `{"results":[` + kept + `,` + kept + `]}`
		}
		return kept
	})
	conn := wrap(t, nc, WithRoute(ByRequest))
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	retry := message("orders.created", "body", "Tarry-Id", "order-1", "Tarry-Attempt", "2", "Tarry-Key", "k",
		"Tarry-Retry", "exp(1m,1h,3)~20%", "Tarry-Reason", "why", "X", "1")
	alone := func(m *nats.Msg) error {
		outcomes, err := conn.Tarry().PushBatch(t.Context(), []*nats.Msg{m})
		return errors.Join(err, outcomes[0].Err)
	}
	reschedule := func(c Change) error {
		_, err := conn.Tarry().Reschedule(t.Context(), Ref{ID: "a"}, c)
		return err
	}
	asked := 0
	for name, ask := range map[string]func() error{
		"push a retry": func() error { return alone(retry) },
		"push and merge": func() error {
			return alone(Tag(message("orders", "body"), In(time.Second), OnDuplicate(Debounce), MaxWait(time.Minute)))
		},
		"push a batch": func() error {
			_, err := conn.Tarry().PushBatch(t.Context(), []*nats.Msg{
				Tag(message("orders", "body"), In(time.Second), As("a")),
				Tag(message("orders", "body"), At(at), Retries(Exponential(time.Second, time.Hour, 3).Jitter(20)))})
			return err
		},
		"name": func() error {
			_, err := conn.Tarry().Run(t.Context(), Ref{ID: "a", Topic: "mail.x", Key: "k"})
			return err
		},
		"reschedule by delay": func() error {
			return reschedule(Change{Delay: new(20 * time.Minute), Priority: new(uint8(7)),
				Header: nats.Header{"X": {"1", "2"}}, Data: []byte("x"), Version: new(uint64(9))})
		},
		"reschedule by time": func() error {
			return reschedule(Change{At: &at, Header: nats.Header{}, Data: []byte{}})
		},
		"reschedule by shift": func() error { return reschedule(Change{Shift: new(-10 * time.Minute)}) },
		"cancel many": func() error {
			_, err := conn.Tarry().CancelMany(t.Context(),
				Selection{Topic: "orders.>", Key: "k", DueFrom: at, DueTo: at.Add(time.Millisecond), DryRun: true})
			return err
		},
		"reschedule many": func() error {
			_, err := conn.Tarry().RescheduleMany(t.Context(), Selection{All: true}, Change{Shift: new(time.Hour)})
			return err
		},
		"requeue": func() error {
			_, err := conn.Tarry().Requeue(t.Context(), Ref{ID: "a", Key: "k"},
				Change{Delay: new(time.Minute), Header: nats.Header{"X": {"1"}}, Data: []byte("x")})
			return err
		},
	} {
		if err := ask(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got any
		if err := json.Unmarshal([]byte(in.all()[asked]), &got); err != nil || !reflect.DeepEqual(got, cases[name]) {
			t.Errorf("%s: asked %s, want %v", name, in.all()[asked], cases[name])
		}
		asked++
		delete(cases, name)
	}
	for name := range cases {
		t.Errorf("nothing asks for %q", name)
	}
}
