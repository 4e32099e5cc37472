package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// The metrics that show how far tarry is.
const (
	AcceptedMetric  = "tarry_accepted_total"
	DeliveredMetric = "tarry_delivered_total"
	MessagesMetric  = "tarry_messages"
	deadMetric      = "tarry_dead_total"
	streamsMetric   = "tarry_streams"
	leaderMetric    = "tarry_leader"
)

const (
	leadPatience = 30 * time.Second
	pollEvery    = 5 * time.Millisecond
)

// Tarry is one tarry serve with servers of its own, ready and leading.
type Tarry struct {
	URL     string // of its HTTP API
	NATS    *lab.NATS
	Redis   *Redis
	MariaDB *MariaDB // of its journal, nil without one

	data, embedded string // directory and NATS of OneMachine, which has none of the servers

	zk      *lab.ZooKeeper
	process *lab.Process
	client  *http.Client
	led     time.Time // when it did first
}

// Tarry starts redis-server, ZooKeeper, nats-server and the program, all with no data and with default settings but for
// these, and returns when it leads.
func (s *Scope) Tarry(program string, settings ...string) *Tarry {
	s.tarryVersion(program)
	t := &Tarry{NATS: s.NATS(), Redis: s.Redis(), zk: s.zooKeeper()}
	t.start(s, program, append([]string{
		"TARRY_NATS_URL=" + t.NATS.URL(),
		"TARRY_REDIS_ADDRS=" + t.Redis.Addr,
		"TARRY_ZOOKEEPER_SERVERS=" + t.zk.Addr,
	}, settings...))
	return t
}

// OneMachine starts the program without any server: what waits is in its memory, its journal in a file, and NATS
// embedded.
func (s *Scope) OneMachine(program string) *Tarry {
	s.tarryVersion(program)
	t := &Tarry{data: s.TempDir(), embedded: net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(s)))}
	t.start(s, program, []string{
		"TARRY_STORE=memory", "TARRY_DATA=" + t.data, "TARRY_NATS_LISTEN=" + t.embedded,
		"TARRY_JOURNAL_MODE=sync", "TARRY_JOURNAL_DSN=sqlite:" + filepath.Join(t.data, "journal.db"),
	})
	return t
}

// NATSURL is where NATS is, embedded or not.
func (t *Tarry) NATSURL() string {
	if t.NATS == nil {
		return "nats://" + t.embedded
	}
	return t.NATS.URL()
}

// Pid is that of the program.
func (t *Tarry) Pid() int { return t.process.Pid() }

// FileBytes is how large the journal's file is.
func (t *Tarry) FileBytes() (int64, error) {
	info, err := os.Stat(filepath.Join(t.data, "journal.db"))
	if err != nil {
		return 0, fmt.Errorf("look at the journal: %w", err)
	}
	return info.Size(), nil
}

// Again kills the program, starts it, and returns how long it took from there until it led and took pushes.
func (t *Tarry) Again(ctx context.Context, patience time.Duration) (time.Duration, error) {
	t.process.Kill()
	began := time.Now()
	t.process.Restart()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := Until(ctx, pollEvery, t.leads); err != nil {
		return 0, fmt.Errorf("wait until tarry leads again: %w", err)
	}
	return time.Since(began), nil
}

// Goroutines ends the program, and returns how many goroutines it had.
func (t *Tarry) Goroutines(ctx context.Context) (int, error) {
	t.process.Signal(syscall.SIGQUIT)
	select {
	case <-t.process.Exited():
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	n := strings.Count(t.process.Log(), "\ngoroutine ")
	if n == 0 {
		return 0, errors.New("tarry ended and told of no goroutine")
	}
	return n, nil
}

func (t *Tarry) start(s *Scope, program string, settings []string) {
	t.client = &http.Client{Timeout: 10 * time.Second}
	s.Cleanup(t.client.CloseIdleConnections)
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(s)))
	t.URL = "http://" + listen
	t.process = lab.Start(s, "tarry",
		append([]string{"TARRY_HTTP_LISTEN=" + listen, "TARRY_LOG_FORMAT=json"}, settings...), program, "serve")
	ctx, cancel := context.WithTimeout(s.ctx, leadPatience)
	defer cancel()
	if err := Until(ctx, pollEvery, t.leads); err != nil {
		s.Fatal(fmt.Errorf("wait until tarry leads: %w", err))
	}
	t.led = time.Now()
}

// leads returns why the instance does not lead yet, or nothing.
func (t *Tarry) leads(ctx context.Context) error {
	if !t.process.Running() {
		return fmt.Errorf("it ended: %w", errGivenUp)
	}
	text, err := t.get(ctx, "/readyz")
	if err != nil {
		return fmt.Errorf("not ready: %w: %s", err, strings.TrimSpace(text))
	}
	switch n, err := t.Metric(ctx, leaderMetric); {
	case err != nil:
		return err
	case n != 1:
		return errors.New("it is a standby")
	}
	return nil
}

// Metric is the value of a metric, summed over its labels.
func (t *Tarry) Metric(ctx context.Context, name string) (float64, error) {
	text, err := t.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	return parseMetric(text, name)
}

func parseMetric(text, name string) (float64, error) {
	sum, found := 0.0, false
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum, found = sum+n, true
	}
	if !found {
		return 0, fmt.Errorf("read metric %s: it is not there", name)
	}
	return sum, lines.Err()
}

// Accepted returns when n messages have been accepted, or with an error when none came for a while. at is the moment it
// was seen, at most one poll late.
func (t *Tarry) Accepted(ctx context.Context, n int) (at time.Time, err error) {
	return t.reaches(ctx, AcceptedMetric, n)
}

// Delivered is Accepted for deliveries.
func (t *Tarry) Delivered(ctx context.Context, n int) (time.Time, error) {
	return t.reaches(ctx, DeliveredMetric, n)
}

// Streams is how many streams tarry knows.
func (t *Tarry) Streams(ctx context.Context) (int, error) {
	n, err := t.Metric(ctx, streamsMetric)
	return int(n), err
}

// Knows is Accepted for streams.
func (t *Tarry) Knows(ctx context.Context, n int) error {
	_, err := t.reaches(ctx, streamsMetric, n)
	return err
}

// Died is Accepted for messages that are dead.
func (t *Tarry) Died(ctx context.Context, n int) error {
	_, err := t.reaches(ctx, deadMetric, n)
	return err
}

const (
	metricEvery = 20 * time.Millisecond // one look costs about a millisecond of both processes
	stall       = 15 * time.Second
)

func (t *Tarry) reaches(ctx context.Context, metric string, n int) (at time.Time, err error) {
	last, moved := -1.0, time.Now()
	err = Until(ctx, metricEvery, func(ctx context.Context) error {
		value, err := t.Metric(ctx, metric)
		at = time.Now()
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errGivenUp, err)
		case value >= float64(n):
			return nil
		case value != last:
			last, moved = value, at
		case time.Since(moved) > stall:
			return fmt.Errorf("%w: it stands still at %.0f", errGivenUp, value)
		}
		return fmt.Errorf("it is at %.0f", value)
	})
	if err != nil {
		return at, fmt.Errorf("wait until %s is %d: %w", metric, n, err)
	}
	return at, nil
}

func (t *Tarry) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+path, nil)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return "", err // names the method and the address
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return string(text), fmt.Errorf("get %s: %w", path, err)
	}
	return string(text), nil
}

// Processes are what a test's figures cost: tarry, its servers, and this process with its producers and consumer.
func (t *Tarry) Processes() []Process {
	if t.NATS == nil {
		return []Process{{Name: "tarry", Pid: t.process.Pid()}, This()}
	}
	all := []Process{
		{Name: "tarry", Pid: t.process.Pid()}, {Name: "redis", Pid: t.Redis.Pid()}, {Name: "nats", Pid: t.NATS.Pid()},
		{Name: "zookeeper", Pid: t.zk.Pid()}, This(),
	}
	if t.MariaDB != nil {
		all = append(all, Process{Name: "mariadb", Pid: t.MariaDB.Pid()})
	}
	return all
}

// This is the process that measures.
func This() Process { return Process{Name: "bench", Pid: os.Getpid()} }
