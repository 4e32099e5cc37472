// Package client calls an instance of tarry over HTTP, for the commands. The answers are the shapes of bridge/wire, as
// the server writes them. The requests (Push, Edit, Selection, DeadOrder and the like) have shapes of their own: the
// client sends the user's words as text, and the server checks all of them. Package wire decodes a request into checked
// values, such as durations and times, so a shared shape would need an encoder beside each decoder.
//
// Every method returns the raw answer beside the decoded one, because --json prints the raw answer. An answer other
// than a success is a [*Problem]; any other failure (no connection, no tarry at that address) is an ordinary error.
package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
)

// Config configures a Client.
type Config struct {
	Server  string // http://host:port, a path may follow
	Token   string
	Timeout time.Duration // of one call
	Agent   string        // the User-Agent
	TLS     *tls.Config   // verifies an https server; nil: the system's authorities
}

// Client calls one instance, or a proxy before several.
type Client struct {
	cfg  Config
	http *http.Client
}

// New returns a client. It connects on its first call.
func New(cfg Config) *Client {
	cfg.Server = strings.TrimRight(cfg.Server, "/")
	var transport http.RoundTripper // http's own
	if cfg.TLS != nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: cfg.Timeout}
	}
	return &Client{cfg: cfg, http: &http.Client{
		Transport: transport,
		// Redirects are not followed: they could send the token to any host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Problem is an answer other than a success.
type Problem struct {
	ops.Problem
	Raw []byte `json:"-"`
}

func (p *Problem) Error() string { return fmt.Sprintf("%s (%s)", p.Detail, p.Word) }

// maxAnswer is the maximum size of an answer: that of the largest message, in base64, and a margin.
const maxAnswer = 512 << 20

// Ask makes one request that one answer follows. body may be nil.
func Ask[A any](ctx context.Context, c *Client, method, path string, body any) (a A, raw []byte, err error) {
	return AskIf[A](ctx, c, method, path, "", body)
}

// Results are the outcomes of a request that names several things.
type Results[R any] struct {
	Results []R `json:"results"`
}

// AskIf is Ask for a message that must still have this version; empty means any. The statuses in fine are successes
// besides 200 and 201.
func AskIf[A any](ctx context.Context, c *Client, method, path, version string, body any,
	fine ...int) (a A, raw []byte, err error) {
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	headers := map[string]string{"Accept": "application/json"}
	if version != "" {
		headers["If-Match"] = version
	}
	answer, err := c.send(ctx, method, path, body, headers)
	if err == nil {
		raw, err = c.read(answer)
	}
	if err != nil {
		return a, nil, err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated &&
		!slices.Contains(fine, answer.StatusCode) {
		raw, err = c.refused(answer, raw)
	} else if json.Unmarshal(raw, &a) != nil {
		raw, err = nil, c.stranger(answer)
	}
	return a, raw, err
}

// send makes one request. The caller must close the answer's body.
func (c *Client) send(ctx context.Context, method, path string, body any,
	headers map[string]string) (*http.Response, error) {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.cfg.Server+path, bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("User-Agent", c.cfg.Agent)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", c.cfg.Server, c.plain(err))
	}
	return answer, nil
}

// read reads all of an answer and closes it.
func (c *Client) read(answer *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.cfg.Server, c.plain(err))
	}
	return raw, nil
}

// refused returns the error for an answer other than a success.
func (c *Client) refused(answer *http.Response, raw []byte) ([]byte, error) {
	p := &Problem{Problem: ops.Problem{Status: answer.StatusCode}, Raw: raw}
	if json.Unmarshal(raw, p) != nil || p.Word == "" {
		return nil, c.stranger(answer)
	}
	return raw, p
}

// stranger returns the error for an answer that tarry did not send.
func (c *Client) stranger(answer *http.Response) error {
	return fmt.Errorf("%s answered %q and not as tarry does", c.cfg.Server, answer.Status)
}

// plain removes method and URL from the error, which names the server already, and shortens a time-out.
func (c *Client) plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", c.cfg.Timeout)
	}
	var about *url.Error
	if errors.As(err, &about) {
		err = about.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w; is tarry running there? --server or TARRY_SERVER name another", err)
	}
	return err
}

// Name names a message: by its uid or its id, and by the topic and the key that the id belongs to if those are set. A
// key may be set and empty.
type Name struct {
	ID         string
	Topic, Key *string
}

// Path returns the path of the message, or of an action below it.
func (n Name) Path(below string) string {
	query := url.Values{}
	for name, value := range map[string]*string{"topic": n.Topic, "key": n.Key} {
		if value != nil {
			query.Set(name, *value)
		}
	}
	return WithQuery("/v1/messages/"+Step(n.ID)+below, query)
}

// Step escapes a name as one segment of a path.
func Step(name string) string {
	if strings.Trim(name, ".") == "" { // unescaped, "." and ".." would be path segments
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// Kept is the answer to a push.
type Kept struct {
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	State     string `json:"state"`
	Durable   string `json:"durable"`
	Duplicate bool   `json:"duplicate"`
	Merged    bool   `json:"merged"`
}

// Ready asks whether the instance can accept a push. A negative answer is not an error.
func (c *Client) Ready(ctx context.Context) (ops.Ready, []byte, error) {
	return AskIf[ops.Ready](ctx, c, http.MethodGet, "/readyz", "", nil, http.StatusServiceUnavailable)
}

// DeadResult is the outcome for one dead message: Word is empty on success. With outcome_unknown, the UID is set if the
// message was requeued.
type DeadResult struct {
	ops.DeadResult
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

// WithQuery appends a query to a path.
func WithQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// RejectOrder selects the rejects to push again, and says with what changes. Nil and empty fields are omitted.
type RejectOrder struct {
	Sequences []uint64          `json:"sequences"`
	Topic     *string           `json:"topic,omitempty"`
	Set       map[string]string `json:"set,omitempty"`
	Drop      []string          `json:"drop,omitempty"`
}

// RejectResult is the outcome for one reject: Word is empty if it was pushed again.
type RejectResult struct {
	ops.RequeuedReject
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

// Pulled is a leased message.
type Pulled struct {
	ID         string              `json:"id"`
	Topic      string              `json:"topic"`
	Headers    map[string][]string `json:"headers"`
	Due        string              `json:"due"`
	Attempt    uint32              `json:"attempt"`
	Receipt    string              `json:"receipt"`
	LeaseUntil string              `json:"lease_until"`
	Body       *string             `json:"body"`
	BodyBase64 []byte              `json:"body_base64"`
}

// Pull leases ready messages of one topic or several, or waits for some.
func (c *Client) Pull(ctx context.Context, topics []string, order map[string]any) (found []Pulled, raw []byte,
	err error) {
	patient := *c
	patient.cfg.Timeout += ops.MaxWait + time.Second
	path := "/v1/topics/" + Step(topics[0]) + "/pull"
	if len(topics) > 1 {
		path, order["topics"] = "/v1/pull", topics
	}
	answer, raw, err := Ask[struct {
		Messages []Pulled `json:"messages"`
	}](ctx, &patient, http.MethodPost, path, order)
	return answer.Messages, raw, err
}

// SettleResult is the outcome for one receipt: a message as it is now, or a problem.
type SettleResult struct {
	ops.Settled
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

const (
	// leastSilence is the minimum time that an instance may be silent: it sends a line every second.
	leastSilence = 3 * time.Second
	// maxLine bounds one line of a long operation.
	maxLine = 16 << 20
)

// line is one line of a long operation's answer: its progress, the report or the error.
type line struct {
	Progress json.RawMessage `json:"progress"`
	Report   json.RawMessage `json:"report"`
	Problem
}

var errSilent = errors.New("silent")

// Long makes a request that may take hours; progress may be nil. It returns an error if the instance sends nothing for
// the time-out of a call, or for leastSilence if that is longer; this ends the operation, too. raw is only the report.
// With a problem, the report is what was done until then, if the answer contains it. With another error it is the last
// progress received, which may be less than was done.
func Long[R any](ctx context.Context, c *Client, path string, request any,
	progress func(R)) (report R, raw []byte, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := max(c.cfg.Timeout, leastSilence)
	watchdog := time.AfterFunc(silence, func() { stop(errSilent) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errSilent) {
			err = fmt.Errorf("call %s: no answer within %s", c.cfg.Server, silence)
		}
	}()
	answer, err := c.send(ctx, http.MethodPost, path, request, map[string]string{"Accept": "application/x-ndjson"})
	if err != nil {
		return report, nil, err
	}
	if answer.StatusCode != http.StatusOK {
		if raw, err = c.read(answer); err == nil {
			raw, err = c.refused(answer, raw)
			var l line
			if json.Unmarshal(raw, &l) == nil && l.Report != nil {
				_ = json.Unmarshal(l.Report, &report) // what was done until then, if the problem says
			}
		}
		return report, raw, err
	}
	defer answer.Body.Close() // read to its end, or abandoned
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		watchdog.Reset(silence)
		l := line{Problem: Problem{Raw: lines.Bytes()}}
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case err == nil && l.Word != "": // checked before the report: a problem may contain one
			if l.Report != nil {
				_ = json.Unmarshal(l.Report, &report)
			}
			return report, lines.Bytes(), &l.Problem
		case err == nil && l.Report != nil && json.Unmarshal(l.Report, &report) == nil:
			return report, l.Report, nil
		case err != nil || l.Progress == nil:
			return report, nil, c.stranger(answer)
		}
		var now R
		if json.Unmarshal(l.Progress, &now) != nil {
			continue
		}
		if report = now; progress != nil {
			progress(now)
		}
	}
	if err := lines.Err(); err != nil {
		return report, nil, fmt.Errorf("read the answer of %s: %w", c.cfg.Server, c.plain(err))
	}
	return report, nil, fmt.Errorf("the answer of %s broke off before its report", c.cfg.Server)
}
