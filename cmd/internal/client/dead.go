package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Dead returns a page of dead messages, by time of death: topic, limit, cursor.
func (c *Client) Dead(ctx context.Context, query url.Values) (l wire.MessageList, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/dead", query), nil, &l)
	return l, raw, err
}

// DeadOrder selects dead messages, by id or by selection, and says how a requeue changes them. Nil and empty fields are
// omitted; All selects all messages if no other field does.
type DeadOrder struct {
	ID      string              `json:"id,omitempty"`
	IDs     []string            `json:"ids,omitempty"`
	Topic   *string             `json:"topic,omitempty"` // of the message with that id; without an id, a pattern
	Key     *string             `json:"key,omitempty"`   // only with an id
	From    *string             `json:"from,omitempty"`  // bounds the time of death
	To      *string             `json:"to,omitempty"`
	Older   *string             `json:"older,omitempty"`
	All     bool                `json:"all,omitempty"`
	DryRun  bool                `json:"dry_run,omitempty"`
	Delay   string              `json:"delay,omitempty"`
	Headers map[string][]string `json:"headers,omitempty"`
	Content
}

// DeadResult is the outcome for one dead message: Word is empty on success. With outcome_unknown, the UID is set if the
// message was requeued.
type DeadResult struct {
	wire.DeadResult
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

// RequeueOne pushes one dead message again.
func (c *Client) RequeueOne(ctx context.Context, order DeadOrder) (r wire.DeadResult, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/dead/requeue", order, &r)
	return r, raw, err
}

// PurgeOne removes one dead message for good.
func (c *Client) PurgeOne(ctx context.Context, order DeadOrder) (raw []byte, err error) {
	return c.call(ctx, http.MethodPost, "/v1/dead/purge", order, &struct{}{})
}

// DeadByID requeues or purges the named messages, and returns a result for each.
func (c *Client) DeadByID(ctx context.Context, what string,
	order DeadOrder) (results []DeadResult, raw []byte, err error) {
	var answer struct {
		Results []DeadResult `json:"results"`
	}
	raw, err = c.call(ctx, http.MethodPost, "/v1/dead/"+what, order, &answer)
	return answer.Results, raw, err
}

// DeadMany requeues or purges the selected messages; progress may be nil.
func (c *Client) DeadMany(ctx context.Context, what string, order DeadOrder,
	progress func(wire.Report)) (wire.Report, []byte, error) {
	return long(ctx, c, "/v1/dead/"+what, order, progress)
}
