package publish_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// lister answers $JS.API.STREAM.LIST as a cluster does of which some servers are away: page after page, and names
// without a configuration. A server without JetStream leaves that subject to whoever listens.
type lister struct {
	mu      sync.Mutex
	streams []string // each holds the subject of its name
	both    []string // of those, the ones that are named as missing too
	missing []string
	page    int
}

func (l *lister) answer(msg *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ask struct{ Offset int }
	_ = json.Unmarshal(msg.Data, &ask)
	type config struct {
		Name     string   `json:"name"`
		Subjects []string `json:"subjects"`
	}
	type stream struct {
		Config config `json:"config"`
	}
	page := struct {
		Total   int      `json:"total"`
		Streams []stream `json:"streams"`
		Missing []string `json:"missing"`
	}{Total: len(l.streams) + len(l.missing)}
	for _, name := range l.streams[min(ask.Offset, len(l.streams)):min(ask.Offset+l.page, len(l.streams))] {
		page.Streams = append(page.Streams, stream{config{name, []string{name}}})
	}
	if ask.Offset == 0 {
		page.Missing = append(append(page.Missing, l.missing...), l.both...)
	}
	text, _ := json.Marshal(page)
	_ = msg.Respond(text)
}

func TestPublisher_HoldsWhatAStreamThatIsAwayMayOwn(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	nc := bridgetest.Connect(t, server.URL())
	l := &lister{page: 10, missing: []string{"away"}}
	for i := range 25 {
		l.streams = append(l.streams, fmt.Sprintf("s%d", i))
	}
	l.both = l.streams[:5] // in the list and missing: the sum must not count them twice
	if _, err := nc.Subscribe("$JS.API.STREAM.LIST", l.answer); err != nil {
		t.Fatal(err)
	}
	listener, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	p := bridgetest.Running(t, publish.Config{Conn: nc, Refresh: 20 * time.Millisecond})
	if lane := p.Lane(newMessage("s24", "")); lane != "js:s24" {
		t.Errorf("the last stream's lane is %s: a page was passed over", lane)
	}
	// Its owner may be the stream that is away: a listener is not enough.
	wantKind(t, send(t, p, newMessage("orders.created", "x"))[0], scheduler.Unanswered, "does not answer")
	l.mu.Lock()
	l.missing = nil
	l.mu.Unlock()
	lab.Eventually(t, bridgetest.Rereads, func() error {
		if o := send(t, p, newMessage("orders.created", "y"))[0]; o.Kind != scheduler.Delivered {
			return fmt.Errorf("got %v: %w", o.Kind, o.Err)
		}
		return nil
	})
	for { // what was held has not been sent
		msg, err := listener.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if msg.Subject == "orders.created" {
			if string(msg.Data) != "y" {
				t.Errorf("%q arrived while its stream was away", msg.Data)
			}
			return
		}
	}
}

// info answers $JS.API.STREAM.INFO.<name>.
func (l *lister) info(msg *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := strings.TrimPrefix(msg.Subject, "$JS.API.STREAM.INFO.")
	if !slices.Contains(l.streams, name) {
		_ = msg.Respond([]byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`))
		return
	}
	_ = msg.Respond([]byte(fmt.Sprintf(`{"config":{"name":%q,"subjects":[%q]}}`, name, name)))
}

// answers are given one after the other.
type answers struct {
	mu    sync.Mutex
	texts []string
}

func (a *answers) set(texts ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.texts = texts
}

func (a *answers) next() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.texts) == 0 {
		return ""
	}
	text := a.texts[0]
	a.texts = a.texts[1:]
	return text
}

func (a *answers) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.texts)
}
