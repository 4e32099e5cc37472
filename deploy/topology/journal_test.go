package topology

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// push sends one message to an instance. Its error is any answer but 201.
func (i *instance) push(body, delay string) error {
	push := fmt.Sprintf(`{"topic":"orders.new","id":%q,"body":%q,"delay":%q}`, body, body, delay)
	status, answer, err := call(http.MethodPost, i.url+"/v1/messages", push)
	if err == nil && status != http.StatusCreated && status != http.StatusOK {
		err = fmt.Errorf("push of %s: %d %s", body, status, answer)
	}
	if err == nil && !strings.Contains(answer, `"durable":"journal"`) {
		err = fmt.Errorf("push of %s is answered with %s", body, answer)
	}
	return err
}

// accepts pushes until the instance takes it. The first leader looks at Redis and the journal before anything is taken.
func (w *world) accepts(i *instance, body, delay string) {
	w.t.Helper()
	lab.Eventually(w.t, 30*time.Second, func() error { return i.push(body, delay) })
}

// journaled is how many messages the journal has, all of them and those that were delivered.
func (w *world) journaled() (all, delivered string, err error) {
	rows, err := w.mariadb.SQL("tarry",
		"SELECT COUNT(*), COALESCE(SUM(state = (SELECT number FROM states WHERE word = 'delivered')), 0) FROM messages")
	all, delivered, _ = strings.Cut(strings.TrimSpace(rows), "\t")
	return all, delivered, err
}

func TestWithoutMariaDBPushesAreRefusedAndDueMessagesLeave(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.ready(w.all()...)
	leader, standby, _ := w.roles()
	c := consume(t, w.nats)
	var sent []string
	for n := range 10 {
		body := fmt.Sprintf("before %d", n)
		w.accepts(w.all()[n%2], body, "5s")
		sent = append(sent, body)
	}
	if all, _, err := w.journaled(); all != "10" || err != nil {
		t.Errorf("10 pushes were answered, and the journal has %s, %v", all, err)
	}

	w.mariadb.Kill()
	for _, i := range w.all() {
		lab.Eventually(t, 30*time.Second, func() error {
			if err := i.push("refused by "+i.name, "1s"); err == nil || !strings.Contains(err.Error(), ": 503 ") {
				return fmt.Errorf("%s answers %v", i.name, err)
			}
			return nil
		})
	}
	lab.Eventually(t, 30*time.Second, func() error { return c.has(sent) })
	if got, err := leader.metric("tarry_leader"); got != 1 || err != nil {
		t.Errorf("%s led and returns %v, %v", leader.name, got, err)
	}

	w.mariadb.Restart()
	for _, i := range []*instance{leader, standby} {
		body := "after, to " + i.name
		w.accepts(i, body, "1s")
		sent = append(sent, body)
	}
	lab.Eventually(t, 30*time.Second, func() error { return c.has(sent) })
	lab.Eventually(t, 30*time.Second, func() error {
		all, delivered, err := w.journaled()
		if err == nil && (all != delivered) {
			err = fmt.Errorf("the journal has %s messages, %s of them delivered", all, delivered)
		}
		return err
	})
}

// What docs/journal.md says an operator should do if the journal is lost and Redis has its messages.
func TestALostJournalIsWrittenAnew(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.ready(w.all()...)
	w.roles()
	c := consume(t, w.nats)
	var sent []string
	for n := range 6 {
		body := fmt.Sprintf("kept %d", n)
		w.accepts(w.all()[n%2], body, "30s")
		sent = append(sent, body)
	}
	if _, err := w.mariadb.SQL("", "DROP DATABASE tarry; CREATE DATABASE tarry"); err != nil {
		t.Fatal(err)
	}
	for _, i := range w.all() {
		i.Restart()
	}
	w.ready(w.all()...)
	_, standby, _ := w.roles()
	if all, _, err := w.journaled(); all != "0" || err != nil {
		t.Errorf("the new journal has %s messages, %v", all, err)
	}
	if status, answer := mustCall(
		t, http.MethodPost, standby.url+"/v1/verify", `{"repair":true}`); status != http.StatusOK {
		t.Fatalf("verify: %d %s", status, answer)
	}
	if all, _, err := w.journaled(); all != "6" || err != nil {
		t.Errorf("after the repair the journal has %s messages, %v", all, err)
	}
	lab.Eventually(t, time.Minute, func() error { return c.has(sent) })
	lab.Eventually(t, 30*time.Second, func() error {
		_, delivered, err := w.journaled()
		if err == nil && delivered != "6" {
			err = fmt.Errorf("the journal has %s messages as delivered", delivered)
		}
		return err
	})
	if twice, strange := c.repeated(sent); len(twice)+len(strange) > 0 {
		t.Errorf("twice came %q; nobody sent %q", twice, strange)
	}
}
