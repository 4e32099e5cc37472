package client

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Push says what to deliver, where and when. The server checks all of it.
type Push struct {
	Topic       string              `json:"topic"`
	Delay       string              `json:"delay,omitempty"`
	At          string              `json:"at,omitempty"`
	ID          string              `json:"id,omitempty"`
	Key         string              `json:"key,omitempty"`
	OnDuplicate string              `json:"on_duplicate,omitempty"`
	MaxWait     string              `json:"max_wait,omitempty"`
	Priority    *int                `json:"priority,omitempty"`
	TTL         string              `json:"ttl,omitempty"`
	Retry       string              `json:"retry,omitempty"`
	Headers     map[string][]string `json:"headers,omitempty"`
	Content
}

// Content is a body in the field that preserves its bytes: text, or base64. If both are absent the body stays
// unspecified.
type Content struct {
	Body       *string `json:"body,omitempty"`
	BodyBase64 []byte  `json:"body_base64,omitempty"`
}

// SetBody stores a body in its field.
func (c *Content) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		c.Body = &text
		return
	}
	c.BodyBase64 = body
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

// Push stores a message until it is due.
func (c *Client) Push(ctx context.Context, p Push) (kept Kept, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/messages", p, &kept)
	return kept, raw, err
}

// Get looks a message up.
func (c *Client) Get(ctx context.Context, n Name) (m wire.Info, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, messagePath(n, ""), nil, &m)
	return m, raw, err
}

// Cancel cancels a waiting message. Success means that this delivery will not happen.
func (c *Client) Cancel(ctx context.Context, n Name) (canceled wire.Canceled, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodDelete, messagePath(n, ""), nil, &canceled)
	return canceled, raw, err
}

// Cluster returns the instances and the leader.
func (c *Client) Cluster(ctx context.Context) (cluster wire.Cluster, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/cluster", nil, &cluster)
	return cluster, raw, err
}

// Resign makes the leader step down, and returns when it has.
func (c *Client) Resign(ctx context.Context, reason string) (raw []byte, err error) {
	var answer struct {
		Resigned bool `json:"resigned"`
	}
	request := map[string]string{}
	if reason != "" {
		request["reason"] = reason
	}
	return c.call(ctx, http.MethodPost, "/v1/cluster/resign", request, &answer)
}

// Ready asks whether the instance can accept a push. A negative answer is not an error.
func (c *Client) Ready(ctx context.Context) (ready wire.Ready, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/readyz", nil, &ready, http.StatusServiceUnavailable)
	return ready, raw, err
}

// Live checks whether the process serves requests at all.
func (c *Client) Live(ctx context.Context) (raw []byte, err error) {
	var answer struct {
		Live bool `json:"live"`
	}
	return c.call(ctx, http.MethodGet, "/livez", nil, &answer)
}
