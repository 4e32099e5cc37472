package topology

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// pushAll sends one message after the other through nginx and returns their bodies.
func pushAll(t testing.TB, p *proxy, name string, n int, delay time.Duration) []string {
	t.Helper()
	var bodies []string
	for i := range n {
		body := fmt.Sprintf("%s %d", name, i)
		topic := []string{"orders", "bills"}[i/2%2] // nginx alternates, so both get both
		push := fmt.Sprintf(`{"topic":"%s.%d","body":%q,"delay":"%s"}`, topic, i, body, delay)
		if status, answer := mustCall(t, http.MethodPost, p.url+"/v1/messages", push); status != http.StatusCreated {
			t.Fatalf("%s: got %d %s", body, status, answer)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

func TestTheStandbyDeliversWhatTheKilledInstanceLeft(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := startNginx(t, w.address("tarry-a"), w.address("tarry-b"))
	w.ready(w.all()...)
	leader, standby, term := w.roles()
	if status, body := mustCall(t, http.MethodGet, p.url+"/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz through nginx: %d %s", status, body)
	}
	for _, i := range w.all() {
		if code, said := w.healthy(i); code != 0 {
			t.Errorf("%s: health check ends with %d: %s", i.name, code, said)
		}
	}

	c := consume(t, w.nats)
	soon := pushAll(t, p, "soon", 20, time.Second)
	for _, i := range w.all() {
		if got, err := i.metric("tarry_accepted_total"); got != 10 || err != nil {
			t.Errorf("%s accepted %v of 20 pushes that went in turn, %v", i.name, got, err)
		}
	}
	lab.Eventually(t, 30*time.Second, func() error { return c.has(soon) })
	if got, err := standby.metric("tarry_claimed_total"); got != 0 || err != nil {
		t.Errorf("%s is the standby and has claimed %v, %v", standby.name, got, err)
	}
	// A message that has arrived may still be in flight: on a subject of core NATS that is new to tarry a stream may
	// yet answer.
	lab.Eventually(t, 30*time.Second, func() error {
		got, err := leader.metric("tarry_delivered_total")
		if err == nil && got != float64(len(soon)) {
			err = fmt.Errorf("it has %v of %d as delivered", got, len(soon))
		}
		return err
	})

	sent := append(soon, pushAll(t, p, "later", 20, 6*time.Second)...)
	leader.Kill()
	sent = append(sent, pushAll(t, p, "while nobody leads", 20, time.Second)...)
	tagged := &nats.Msg{Subject: "delayed.orders.tagged", Data: []byte("tagged"),
		Header: nats.Header{"Tarry-Delay": {"1s"}}}
	if _, err := c.js.PublishMsg(t.Context(), tagged); err != nil {
		t.Fatal(err)
	}
	sent = append(sent, "tagged")
	if code, said := w.healthy(leader); code != 1 {
		t.Errorf("%s is dead and its health check ends with %d: %s", leader.name, code, said)
	}
	lab.Eventually(t, time.Minute, func() error { return c.has(sent) })
	if twice, strange := c.repeated(sent); len(twice)+len(strange) > 0 {
		t.Errorf("nothing was in flight, and twice came %q; nobody sent %q", twice, strange)
	}
	if code, said := w.healthy(standby); code != 0 {
		t.Errorf("%s leads and its health check ends with %d: %s", standby.name, code, said)
	}

	leader.Restart()
	w.ready(leader)
	nowLeading, back, next := w.roles()
	if nowLeading != standby || back != leader || next <= term {
		t.Errorf("%s leads in term %d after %d", nowLeading.name, next, term)
	}
	rolling(t, w, p, c, nowLeading, back)
}

// rolling stops the leader as docker stop does. Pushes go on through nginx, and leadership is handed over.
func rolling(t *testing.T, w *world, p *proxy, c *consumer, leader, standby *instance) {
	t.Helper()
	grace, err := time.ParseDuration(w.compose.Services[leader.name].StopGrace)
	if err != nil {
		t.Fatal(err)
	}
	leader.Signal(syscall.SIGTERM)
	if code := leader.Wait(grace); code != 0 {
		t.Errorf("%s was stopped and ended with %d", leader.name, code)
	}
	sent := pushAll(t, p, "after the stop", 4, time.Second)
	lab.Eventually(t, 30*time.Second, func() error { return c.has(sent) })
	if got, err := cluster(standby.url); err != nil || got.Leader == nil || got.Leader.Instance != standby.name {
		t.Errorf("got %+v, %v, want %s to lead", got, err, standby.name)
	}
}

func TestTheHealthCheckSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.ready(w.all()...)
	pagesMetrics(t, w)
	scraped(t, w)
	w.redis.Pause()
	for _, i := range w.all() {
		lab.Eventually(t, 30*time.Second, func() error { return i.status("/readyz", http.StatusServiceUnavailable) })
		if code, said := w.healthy(i); code != 1 || !strings.Contains(said, "redis") {
			t.Errorf("%s: ends with %d: %s", i.name, code, said)
		}
		if err := i.status("/livez", http.StatusOK); err != nil {
			t.Error(err)
		}
	}
	w.redis.Resume()
	w.ready(w.all()...)
	for _, i := range w.all() {
		if code, said := w.healthy(i); code != 0 {
			t.Errorf("%s: ends with %d: %s", i.name, code, said)
		}
	}
}

// pagesMetrics holds the operators' table of what to watch against what the instances show.
func pagesMetrics(t *testing.T, w *world) {
	t.Helper()
	named := regexp.MustCompile("(?m)^\\| `(tarry_[a-z_]+)` \\|").FindAllStringSubmatch(operations(t), -1)
	if len(named) < 5 {
		t.Fatalf("docs/operations.md names %d metrics", len(named))
	}
	// Some metrics have a label and exist only once it was needed.
	c := consume(t, w.nats)
	wrong := &nats.Msg{Subject: "delayed.orders.wrong", Header: nats.Header{"Tarry-Delay": {"soon"}}}
	if _, err := c.js.PublishMsg(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 30*time.Second, func() error {
		var all string
		for _, i := range w.all() {
			_, text, err := get(i.url + "/metrics")
			if err != nil {
				return err
			}
			all += text
		}
		for _, name := range named {
			if !strings.Contains(all, "# HELP "+name[1]+" ") {
				return fmt.Errorf("docs/operations.md names %s, which no instance shows", name[1])
			}
		}
		return nil
	})
}
