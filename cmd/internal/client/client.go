// Package client calls an instance of tarry over HTTP, for the commands. It knows the answers only as JSON on the wire,
// as any client in another language would.
//
// Every method returns the answer as it came beside what it says, because --json prints the former. An answer that is
// not a success is a [*Problem]; anything else that goes wrong (no connection, no tarry at that address) is an ordinary
// error.
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
)

// Config is what a Client is made of.
type Config struct {
	Server  string // http://host:port, a path may follow
	Token   string
	Timeout time.Duration // of one call
	Agent   string        // what the server is told about the caller
	TLS     *tls.Config   // how an https server is checked; nil: by the system's authorities
}

// Client calls one instance, or a proxy before several.
type Client struct {
	cfg  Config
	http *http.Client
}

// New makes a client. It connects when it is first used.
func New(cfg Config) *Client {
	cfg.Server = strings.TrimRight(cfg.Server, "/")
	var transport http.RoundTripper // http's own
	if cfg.TLS != nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: cfg.Timeout}
	}
	return &Client{cfg: cfg, http: &http.Client{
		Transport: transport,
		// A redirect is not followed: it would carry the token to wherever the answer says.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Problem is an answer that is not a success.
type Problem struct {
	Status int    `json:"-"`
	Word   string `json:"error"` // stable, for programs
	Detail string `json:"detail"`
	ID     string `json:"id"`  // after outcome_unknown: what to repeat the push or the requeue with
	UID    string `json:"uid"` // after outcome_unknown: the message to look for
	// Candidates are the messages that an ambiguous id may mean.
	Candidates []Candidate `json:"candidates"`
	Raw        []byte      `json:"-"`
}

// Candidate is a message that an ambiguous id may mean.
type Candidate struct {
	Topic string `json:"topic"`
	Key   string `json:"key"`
	UID   string `json:"uid"`
	State string `json:"state"`
}

func (p *Problem) Error() string { return fmt.Sprintf("%s (%s)", p.Detail, p.Word) }

// maxAnswer bounds what is read of an answer: the largest message, in base64, and some room.
const maxAnswer = 512 << 20

// call makes one request and reads the answer into its value. The statuses in fine are successes besides 200 and 201.
func (c *Client) call(ctx context.Context, method, path string, body, into any, fine ...int) (raw []byte, err error) {
	return c.callIf(ctx, method, path, "", body, into, fine...)
}

// callIf is call of what must still have this version; empty is any.
func (c *Client) callIf(ctx context.Context, method, path, version string, body, into any,
	fine ...int) (raw []byte, err error) {
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	headers := map[string]string{"Accept": "application/json"}
	if version != "" {
		headers["If-Match"] = version
	}
	answer, err := c.send(ctx, method, path, body, headers)
	if err != nil {
		return nil, err
	}
	raw, err = c.read(answer)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated &&
		!slices.Contains(fine, answer.StatusCode) {
		return c.refused(answer, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, c.stranger(answer)
	}
	return raw, nil
}

// send makes one request. Whoever gets the answer closes its body.
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

// refused is an answer that is not a success.
func (c *Client) refused(answer *http.Response, raw []byte) ([]byte, error) {
	p := &Problem{Status: answer.StatusCode, Raw: raw}
	if json.Unmarshal(raw, p) != nil || p.Word == "" {
		return nil, c.stranger(answer)
	}
	return raw, p
}

// stranger is an answer that no tarry gives.
func (c *Client) stranger(answer *http.Response) error {
	return fmt.Errorf("%s answered %q and not as tarry does", c.cfg.Server, answer.Status)
}

// plain drops method and URL from the error, which names the server already, and says a time-out in few words.
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

// Name names a message: by its uid or its id, and by the topic and the key that the id belongs to where these are
// given. A key may be given as empty.
type Name struct {
	ID         string
	Topic, Key *string
}

// messagePath is the path of one message, or of a step below it.
func messagePath(n Name, below string) string {
	query := url.Values{}
	for name, value := range map[string]*string{"topic": n.Topic, "key": n.Key} {
		if value != nil {
			query.Set(name, *value)
		}
	}
	return withQuery("/v1/messages/"+step(n.ID)+below, query)
}

// step is a name as one step of a path.
func step(name string) string {
	if strings.Trim(name, ".") == "" { // as they stand "." and ".." would be steps of the path
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
