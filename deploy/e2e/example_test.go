package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// stored is what the example prints for each message.
type stored struct {
	ID, Subject  string
	Sent, Stored time.Time
	Stream       string
	Sequence     uint64
}

// example runs the library's example program as a process, and holds what it pushed to what a plain consumer gets.
func example(s *site.Site, t *testing.T, subject string, jetStream bool) []stored {
	t.Helper()
	const count, delay = 20, 1500 * time.Millisecond
	got := make(chan *nats.Msg, 2*count)
	at := make(chan time.Time, 2*count)
	nc := s.Connect("plain consumer")
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) { at <- time.Now(); got <- m }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(s.Nats.URL(), "://", "://"+site.NATSUser+":"+site.NATSPassword+"@", 1)
	p := lab.Start(t, "example-"+strconv.FormatBool(jetStream), []string{"NATS_URL=" + url},
		lab.BinaryIn(t, "../../bridge/tarry", "./example", lab.Race()...),
		"-subject", subject, "-delay", delay.String(), "-count", strconv.Itoa(count), "-id",
		fmt.Sprint("basket-", jetStream), "-namespace", s.Ns, "-jetstream="+strconv.FormatBool(jetStream))
	if code := p.Wait(site.Patience); code != 0 {
		t.Fatalf("the example ended with %d: %s", code, p.Log())
	}
	var all []stored
	for out := bufio.NewScanner(strings.NewReader(p.Log())); out.Scan(); {
		var one stored
		if err := json.Unmarshal(out.Bytes(), &one); err != nil {
			t.Fatalf("the example printed %q: %v", out.Text(), err)
		}
		all = append(all, one)
	}
	if len(all) != count {
		t.Fatalf("the example stored %d messages, want %d: %s", len(all), count, p.Log())
	}
	arrived := map[string]time.Time{}
	for range count {
		select {
		case m := <-got:
			id := m.Header.Get("Tarry-Id")
			var order struct{ Order, Text string }
			if err := json.Unmarshal(m.Data, &order); err != nil || order.Order != id || order.Text == "" ||
				m.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %s %v", m.Data, m.Header)
			}
			for _, tag := range []string{"Tarry-Delay", "Tarry-At"} {
				if m.Header.Get(tag) != "" {
					t.Errorf("%s still has %s", id, tag)
				}
			}
			arrived[id] = <-at
		case <-time.After(site.Patience):
			t.Fatalf("%d of %d messages of the example arrived", len(arrived), count)
		}
	}
	for n, one := range all {
		when, ok := arrived[one.ID]
		if want := fmt.Sprintf("basket-%v-%d", jetStream, n+1); one.ID != want || !ok {
			t.Errorf("message %d is called %s, arrived %v; want %s", n+1, one.ID, ok, want)
		}
		if early := one.Sent.Add(delay).Sub(when); early > 0 {
			t.Errorf("%s came %s early", one.ID, early)
		}
		if late := when.Sub(one.Stored.Add(delay)); late > 5*time.Second {
			t.Errorf("%s came %s late", one.ID, late)
		}
	}
	return all
}

func TestTheExampleOfTheLibraryReachesAPlainConsumer(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Start("a")
	for _, jetStream := range []bool{false, true} {
		for _, one := range example(s, t, fmt.Sprintf("orders.remind.%v", jetStream), jetStream) {
			if jetStream != (one.Stream == "TARRY_"+s.Ns && one.Sequence > 0) {
				t.Errorf("through JetStream %v: stored in %q at %d", jetStream, one.Stream, one.Sequence)
			}
		}
	}
}
