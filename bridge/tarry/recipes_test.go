package tarry

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// recipe is the first program below a heading of a page in the repository, as it stands there.
func recipe(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n"+heading+"\n")
	_, below, opened := strings.Cut(below, "\n```")
	_, below, named := strings.Cut(below, "\n")
	program, _, closed := strings.Cut(below, "\n```\n")
	if !found || !opened || !named || !closed {
		t.Fatalf("%s has no program below %q", page, heading)
	}
	return program + "\n"
}

const (
	recipes     = "docs/recipes.md"
	recipeToken = "the-token-of-the-recipes"
	needsToken  = "http: {token: " + recipeToken + "}\n" // settings
)

// save writes a recipe into a file.
func save(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// program is a running recipe.
type program struct {
	said *tail
	cmd  *exec.Cmd
	done chan error
}

// start runs a recipe against the daemon until the test ends.
func (d *dev) start(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	p := &program{said: &tail{}, cmd: exec.Command(args[0], args[1:]...), done: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.said, p.said
	p.cmd.Env = append(p.cmd.Environ(), "NATS_URL="+d.nats, "TARRY_SERVER="+d.http, "TARRY_TOKEN="+recipeToken)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }() // waited for in the clean-up
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s said: %s", strings.Join(args, " "), p.said)
		}
	})
	return p
}

// end waits for a recipe that ends by itself.
func (p *program) end(t *testing.T) string {
	t.Helper()
	select {
	case err := <-p.done:
		p.done <- nil // for the clean-up
		if err != nil {
			t.Fatalf("%v: %s", err, p.said)
		}
	case <-time.After(time.Minute):
		t.Fatalf("it does not end: %s", p.said)
	}
	return p.said.String()
}

func (p *program) says(t *testing.T, line string) {
	t.Helper()
	eventually(t, func() error {
		if text := p.said.String(); !strings.Contains("\n"+text, "\n"+line+"\n") {
			return fmt.Errorf("it has not said %q: %s", line, text)
		}
		return nil
	})
}

// runProducer runs a producer as it stands, twice: what it published arrives when it is due, each time under another
// name.
func (d *dev) runProducer(t *testing.T, doors int, dir string, args ...string) {
	t.Helper()
	c := wrap(t, connect(t, d.nats))
	sub := listen(t, c, "orders.remind")
	start, ids := time.Now(), map[string]bool{}
	for range 2 {
		d.start(t, dir, args...).end(t)
	}
	orders := map[string]int{}
	for range 2 * doors {
		m := next(t, sub)
		id, order := m.Header.Get(HeaderID), strings.TrimPrefix(strings.ReplaceAll(string(m.Data), " ", ""), `{"order":`)
		order = strings.TrimSuffix(order, "}")
		if early := time.Until(start.Add(2 * time.Second)); early > 0 || ids[id] ||
			!strings.HasPrefix(id, "order-"+order+"-") {
			t.Errorf("%s early came %q with %v", early, m.Data, m.Header)
		}
		ids[id] = true
		orders[order]++
	}
	if orders["17"] != 2 || doors == 2 && orders["18"] != 2 {
		t.Errorf("got the orders %v", orders)
	}
}

// runConsumer runs a consumer as it stands. Of messages with a tag and without it handles the good ones; the bad ones
// come again until they are dead.
func (d *dev) runConsumer(t *testing.T, dir string, args ...string) {
	t.Helper()
	p, c := d.start(t, dir, args...), wrap(t, connect(t, d.nats))
	js, err := jetstream.New(c.Conn)
	if err != nil {
		t.Fatal(err)
	}
	var consumer jetstream.Consumer
	eventually(t, func() (err error) {
		consumer, err = js.Consumer(t.Context(), "ORDERS", "reminders")
		return err
	})
	for n := 1; n <= 2; n++ {
		m := message("orders.remind", fmt.Sprintf(`{"order": %d}`, n))
		if n == 2 {
			Tag(m, In(time.Millisecond), As("good"))
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		p.says(t, fmt.Sprint("remind ", n))
	}
	ack, err := js.PublishMsg(t.Context(), message("orders.remind", "bad", "Tarry-Retry", "10ms,20ms", "Tarry-Key", "k",
		"X", "1"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), ack.Stream)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := stream.GetMsg(t.Context(), ack.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PublishMsg(Tag(message("orders.remind", "bad", "X", "1"), In(time.Millisecond), As("bad"), Key("k"),
		Retries("10ms,20ms"))); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"bad", placeOf(ack.Stream, ack.Sequence, raw.Time)} {
		dead := becomes(t, c, Ref{ID: id, Key: "k"}, "dead")
		if !strings.HasPrefix(dead.Reason, "sent back after 2 retries: ") || string(dead.Data) != "bad" ||
			dead.Header.Get("X") != "1" || dead.Topic != "orders.remind" {
			t.Errorf("it died as %+v", dead)
		}
	}
	eventually(t, func() error {
		info, err := consumer.Info(t.Context())
		if err == nil && (info.NumAckPending > 0 || info.NumPending > 0) {
			err = fmt.Errorf("%d are not acknowledged, %d not read", info.NumAckPending, info.NumPending)
		}
		return err
	})
	info, err := consumer.Info(t.Context())
	if err != nil || info.Delivered.Consumer != 8 {
		t.Errorf("%d deliveries, %v; want two good ones and three attempts of each bad one",
			info.Delivered.Consumer, err)
	}
	// A copy of what ended has its topic on it. It is not given back, so JetStream has it again when its time comes.
	if _, err := js.PublishMsg(
		t.Context(), message("orders.remind", "bad", "Tarry-Subject", "orders.other")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		info, err := consumer.Info(t.Context())
		if err == nil && (info.NumAckPending != 1 || info.NumPending > 0) {
			err = fmt.Errorf("%d are not acknowledged, %d not read", info.NumAckPending, info.NumPending)
		}
		return err
	})
}

// runPuller runs a consumer that pulls as it stands: it acknowledges the good messages, and the bad one comes again
// until it is dead.
func (d *dev) runPuller(t *testing.T, dir string, args ...string) {
	t.Helper()
	p, c := d.start(t, dir, args...), wrap(t, connect(t, d.nats))
	for id, body := range map[string]string{"one": `{"order": 1}`, "two": `{"order": 2}`, "bad": "bad"} {
		m := Tag(message("orders.remind", body, "Tarry-Deliver", "pull"), In(time.Second), As(id), Retries("10ms,20ms"))
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	p.says(t, "remind 1")
	p.says(t, "remind 2")
	becomes(t, c, Ref{ID: "one"}, "delivered")
	becomes(t, c, Ref{ID: "two"}, "delivered")
	if dead := becomes(t, c, Ref{ID: "bad"}, "dead"); !strings.Contains(dead.Reason, "sent back after 2 retries: ") {
		t.Errorf("it died as %+v", dead)
	}
}

// module makes a module of a user's own around a recipe.
func module(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	save(t, dir, "go.mod", "module recipe\n\ngo 1.26.0\n\nrequire github.com/tarry-mq/tarry/bridge/tarry v0.0.0\n\n"+
		"replace github.com/tarry-mq/tarry/bridge/tarry => "+here+"\n")
	save(t, dir, "go.sum", string(sums))
	save(t, dir, "main.go", program)
	execute(t, dir, nil, append([]string{"go", "build", "-mod=mod", "-o", "recipe"}, race()...)...)
	execute(t, dir, nil, append(append([]string{"go", "vet"}, race()...), ".")...)
	return dir
}

// execute runs a command to its end.
func execute(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	needs(t, strings.Join(args, " "))
	// A first build on a small machine takes minutes. This is below go test's own limit of ten.
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return string(text)
}

func TestRecipes_Go(t *testing.T) {
	t.Parallel()
	needDaemon(t)
	d := startDev(t, "")
	d.runProducer(t, 1, module(t, recipe(t, recipes, "### Go: a producer")), "./recipe")
	d.runConsumer(t, module(t, recipe(t, recipes, "### Go: a consumer")), "./recipe")
	start := module(t, recipe(t, "docs/start-go.md", "Save this as `main.go`, then `go mod tidy && go run .`. It prints "+
		"`stored: order-17-…`, then `arrived: order 17`:"))
	if said := d.start(t, start, "./recipe").end(t); !strings.HasSuffix(said, "\narrived: order 17\n") {
		t.Errorf("the first program says %s", said)
	}
	startDev(t, needsToken).runPuller(t, module(t, recipe(t, "docs/consumers.md", "#### Pull with Go")), "./recipe")
}

func TestRecipes_PullWithCurl(t *testing.T) {
	t.Parallel()
	needDaemon(t)
	d, dir := startDev(t, ""), t.TempDir()
	text := recipe(t, "docs/consumers.md", "## Pull over HTTP")
	script := save(t, dir, "pull.sh", strings.ReplaceAll(text, "localhost:7070", d.http))
	if said := execute(t, dir, nil, "sh", "-eux", script); !strings.Contains(said, `"state":"delivered"`) {
		t.Errorf("it said: %s", said)
	}
}
