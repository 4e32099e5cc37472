package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Rejects returns a page of rejects: topic, id, reason, limit, cursor.
func (c *Client) Rejects(ctx context.Context, query url.Values) (r wire.RejectList, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/rejects", query), nil, &r)
	return r, raw, err
}

// Reject returns one reject, with its headers and its body.
func (c *Client) Reject(ctx context.Context, sequence uint64) (r wire.Rejected, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/rejects/"+strconv.FormatUint(sequence, 10), nil, &r)
	return r, raw, err
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
	wire.RequeuedReject
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

// RequeueRejects pushes rejects again and returns a result for each.
func (c *Client) RequeueRejects(ctx context.Context,
	order RejectOrder) (results []RejectResult, raw []byte, err error) {
	var answer struct {
		Results []RejectResult `json:"results"`
	}
	raw, err = c.call(ctx, http.MethodPost, "/v1/rejects/requeue", order, &answer)
	return answer.Results, raw, err
}
