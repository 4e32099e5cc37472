package client

import (
	"context"
	"net/http"
	"unicode/utf8"
)

// Push is what to deliver, where and when. The server judges all of it.
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

// Content is a body in the field that keeps it whole: text, or base64. Without either nothing is said of the body.
type Content struct {
	Body       *string `json:"body,omitempty"`
	BodyBase64 []byte  `json:"body_base64,omitempty"`
}

// SetBody puts a body in its field.
func (c *Content) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		c.Body = &text
		return
	}
	c.BodyBase64 = body
}

// Kept answers a push.
type Kept struct {
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	State     string `json:"state"`
	Durable   string `json:"durable"`
	Duplicate bool   `json:"duplicate"`
	Merged    bool   `json:"merged"`
}

// Push has a message kept until it is due.
func (c *Client) Push(ctx context.Context, p Push) (kept Kept, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/messages", p, &kept)
	return kept, raw, err
}

// Message answers a look-up.
type Message struct {
	ID         string              `json:"id"`
	UID        string              `json:"uid"`
	Key        string              `json:"key"`
	Topic      string              `json:"topic"`
	State      string              `json:"state"`
	Version    uint64              `json:"version"`
	Due        string              `json:"due"`
	Priority   int                 `json:"priority"`
	TTL        string              `json:"ttl"`
	Retry      string              `json:"retry"`
	Attempt    int                 `json:"attempt"`
	Uncertain  bool                `json:"uncertain"`
	Refusals   int                 `json:"refusals"`
	Parked     string              `json:"parked"`
	ParkedWhy  string              `json:"parked_why"`
	EndedAt    string              `json:"ended_at"`
	Reason     string              `json:"reason"`
	Headers    map[string][]string `json:"headers"`
	Body       *string             `json:"body"`
	BodyBase64 []byte              `json:"body_base64"`
}

// Get looks a message up.
func (c *Client) Get(ctx context.Context, n Name) (m Message, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, messagePath(n, ""), nil, &m)
	return m, raw, err
}

// Canceled answers a cancel.
type Canceled struct {
	ID    string `json:"id"`
	UID   string `json:"uid"`
	Topic string `json:"topic"`
	Due   string `json:"due"`
	At    string `json:"at"`
	// Attempt numbers the delivery that never comes; above 1, earlier ones were delivered.
	Attempt uint32 `json:"attempt"`
}

// Cancel ends a waiting message. Success means that this delivery never comes.
func (c *Client) Cancel(ctx context.Context, n Name) (canceled Canceled, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodDelete, messagePath(n, ""), nil, &canceled)
	return canceled, raw, err
}

// Cluster is who is there.
type Cluster struct {
	Namespace string `json:"namespace"`
	Term      uint64 `json:"term"`
	Leader    *struct {
		Instance string `json:"instance"`
		Address  string `json:"address"`
		Since    string `json:"since"`
	} `json:"leader"`
	Parked []struct {
		Lane string `json:"lane"`
		Why  string `json:"why"`
	} `json:"parked"`
	Instances []struct {
		Instance string `json:"instance"`
		Address  string `json:"address"`
		Role     string `json:"role"`
		Healthy  bool   `json:"healthy"`
		Other    bool   `json:"other_store"`
		Version  string `json:"version"`
	} `json:"instances"`
	Journal *struct { // nil where the instance does not tell
		Mode string `json:"mode"`
		Lag  *Lag   `json:"lag"`
	} `json:"journal"`
	Checks []Check `json:"checks"` // of the instance that answers
}

// Cluster asks who is there.
func (c *Client) Cluster(ctx context.Context) (cluster Cluster, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/cluster", nil, &cluster)
	return cluster, raw, err
}

// Resign makes the leader step down. It answers when it has.
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

// Ready is whether an instance can accept a push, and what it lacks.
type Ready struct {
	Ready    bool     `json:"ready"`
	Degraded []string `json:"degraded"`
	Checks   []Check  `json:"checks"`
}

// Check is one thing that an instance needs. Only Cluster fills Detail.
type Check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Buckets []int  `json:"buckets"`
	Detail  string `json:"detail"`
}

// Ready asks whether the instance can accept a push; that it cannot is an answer too.
func (c *Client) Ready(ctx context.Context) (ready Ready, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/readyz", nil, &ready, http.StatusServiceUnavailable)
	return ready, raw, err
}

// Live asks whether the process serves at all.
func (c *Client) Live(ctx context.Context) (raw []byte, err error) {
	var answer struct {
		Live bool `json:"live"`
	}
	return c.call(ctx, http.MethodGet, "/livez", nil, &answer)
}
