package client

import (
	"context"
	"net/http"
	"net/url"
)

// Dead asks for a page of dead messages, by when they died: topic, limit, cursor.
func (c *Client) Dead(ctx context.Context, query url.Values) (l List, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/dead", query), nil, &l)
	return l, raw, err
}

// DeadOrder says which dead messages are meant, by id or by selection, and for a requeue what they become. What is nil
// or empty is not given; All says that all are meant where nothing else is given.
type DeadOrder struct {
	ID      string              `json:"id,omitempty"`
	IDs     []string            `json:"ids,omitempty"`
	Topic   *string             `json:"topic,omitempty"` // with an id its own, else it may be a pattern
	Key     *string             `json:"key,omitempty"`   // with an id alone
	From    *string             `json:"from,omitempty"`  // when they died
	To      *string             `json:"to,omitempty"`
	Older   *string             `json:"older,omitempty"`
	All     bool                `json:"all,omitempty"`
	DryRun  bool                `json:"dry_run,omitempty"`
	Delay   string              `json:"delay,omitempty"`
	Headers map[string][]string `json:"headers,omitempty"`
	Content
}

// DeadResult is what became of one dead message: Word is empty where it was done.
type DeadResult struct {
	ID string `json:"id"`
	// of the new message, after a requeue; with outcome_unknown it is there if it was requeued
	UID    string `json:"uid"`
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

// Requeued is one dead message that waits again.
type Requeued struct {
	ID    string `json:"id"`
	UID   string `json:"uid"`
	Due   string `json:"due"`
	State string `json:"state"`
}

// RequeueOne gives one dead message another life.
func (c *Client) RequeueOne(ctx context.Context, order DeadOrder) (r Requeued, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/dead/requeue", order, &r)
	return r, raw, err
}

// PurgeOne ends one dead message for good.
func (c *Client) PurgeOne(ctx context.Context, order DeadOrder) (raw []byte, err error) {
	return c.call(ctx, http.MethodPost, "/v1/dead/purge", order, &struct{}{})
}

// DeadByID requeues or purges the messages that are named, and returns a result for each.
func (c *Client) DeadByID(ctx context.Context, what string,
	order DeadOrder) (results []DeadResult, raw []byte, err error) {
	var answer struct {
		Results []DeadResult `json:"results"`
	}
	raw, err = c.call(ctx, http.MethodPost, "/v1/dead/"+what, order, &answer)
	return answer.Results, raw, err
}

// DeadMany requeues or purges the messages that are selected; progress may be nil.
func (c *Client) DeadMany(ctx context.Context, what string, order DeadOrder,
	progress func(Report)) (Report, []byte, error) {
	return long(ctx, c, "/v1/dead/"+what, order, progress)
}
