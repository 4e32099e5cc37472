// Package client calls an instance of tarry over HTTP, for the commands. The answers are the shapes of bridge/wire, as
// the server writes them. The requests (Push, Edit, Selection, DeadOrder and the like) have shapes of their own: the
// client sends the user's words as text, and the server checks all of them. Package wire decodes a request into checked
// values, such as durations and times, so a shared shape would need an encoder beside each decoder.
//
// Every method returns the raw answer beside the decoded one, because --json prints the raw answer. An answer other
// than a success is a [*Problem]; any other failure (no connection, no tarry at that address) is an ordinary error.
package client

import (
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

	"github.com/tarry-mq/tarry/bridge/wire"
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
	wire.Problem
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
	p := &Problem{Problem: wire.Problem{Status: answer.StatusCode}, Raw: raw}
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
