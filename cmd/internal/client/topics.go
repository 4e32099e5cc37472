package client

import (
	"context"
	"net/http"
	"net/url"
)

// Pause is a pattern of topics that is held back.
type Pause struct {
	Pattern string `json:"pattern"`
	By      string `json:"by"`
	At      string `json:"at"`
}

// Topic is how many messages of a topic are in each state that is no end, and how many are dead.
type Topic struct {
	Topic    string `json:"topic"`
	Waiting  int    `json:"waiting"`
	InFlight int    `json:"in_flight"`
	Dead     int    `json:"dead"`
	// ParkedWhy says why what is due waits, where it does.
	ParkedWhy string `json:"parked_why"`
	Paused    *Pause `json:"paused"` // the pause that holds it back; only where one topic was asked for
}

// Topics is a page of those that have messages, and what is paused.
type Topics struct {
	Topics []Topic `json:"topics"`
	Paused []Pause `json:"paused"`
	Cursor string  `json:"cursor"` // of the next page, empty on the last
}

// Topics asks for a page of topics: limit, cursor.
func (c *Client) Topics(ctx context.Context, query url.Values) (t Topics, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/topics", query), nil, &t)
	return t, raw, err
}

// Topic asks for one topic.
func (c *Client) Topic(ctx context.Context, topic string) (t Topic, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/topics/"+step(topic), nil, &t)
	return t, raw, err
}

// Paused answers a pause and a resume.
type Paused struct {
	Pattern string `json:"pattern"`
	Paused  bool   `json:"paused"`
	// InEffect: the leader has taken it over.
	InEffect bool `json:"in_effect"`
}

// Pause holds back what is due on topics that match the pattern.
func (c *Client) Pause(ctx context.Context, pattern string) (p Paused, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/topics/"+step(pattern)+"/pause", struct{}{}, &p)
	return p, raw, err
}

// Resume ends a pause of exactly this pattern.
func (c *Client) Resume(ctx context.Context, pattern string) (p Paused, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/topics/"+step(pattern)+"/resume", struct{}{}, &p)
	return p, raw, err
}
