package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Reject is a push by tag that NATS had acknowledged and tarry refused.
type Reject struct {
	Sequence   uint64              `json:"sequence"`
	At         string              `json:"at"`
	Topic      string              `json:"topic"`
	ID         string              `json:"id"`
	Key        string              `json:"key"`
	Reason     string              `json:"reason"`
	Detail     string              `json:"detail"`
	Size       int                 `json:"size"`
	Incomplete bool                `json:"incomplete"`
	Headers    map[string][]string `json:"headers"`
	Body       *string             `json:"body"`
	BodyBase64 []byte              `json:"body_base64"`
}

// Rejects is a page; Cursor asks for the next one.
type Rejects struct {
	Rejects []Reject `json:"rejects"`
	Cursor  string   `json:"cursor"`
}

// Rejects asks for a page of rejects: topic, id, reason, limit, cursor.
func (c *Client) Rejects(ctx context.Context, query url.Values) (r Rejects, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/rejects", query), nil, &r)
	return r, raw, err
}

// Reject asks for one, with its headers and its body.
func (c *Client) Reject(ctx context.Context, sequence uint64) (r Reject, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/rejects/"+strconv.FormatUint(sequence, 10), nil, &r)
	return r, raw, err
}

// RejectOrder says which rejects are pushed again, and what is mended in them. What is nil or empty is not given.
type RejectOrder struct {
	Sequences []uint64          `json:"sequences"`
	Topic     *string           `json:"topic,omitempty"`
	Set       map[string]string `json:"set,omitempty"`
	Drop      []string          `json:"drop,omitempty"`
}

// RejectResult is what became of one: Word is empty where it was pushed again.
type RejectResult struct {
	Sequence  uint64 `json:"sequence"`
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	State     string `json:"state"`
	Duplicate bool   `json:"duplicate"`
	Merged    bool   `json:"merged"`
	Kept      bool   `json:"kept"`
	Word      string `json:"error"`
	Detail    string `json:"detail"`
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
