package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Topics returns a page of topics: limit, cursor.
func (c *Client) Topics(ctx context.Context, query url.Values) (t wire.Topics, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/topics", query), nil, &t)
	return t, raw, err
}

// Topic returns the counts of one topic.
func (c *Client) Topic(ctx context.Context, topic string) (t wire.TopicCounts, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/topics/"+step(topic), nil, &t)
	return t, raw, err
}

// Pause holds back the due messages of topics that match the pattern.
func (c *Client) Pause(ctx context.Context, pattern string) (p wire.Paused, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/topics/"+step(pattern)+"/pause", struct{}{}, &p)
	return p, raw, err
}

// Resume ends the pause of exactly this pattern.
func (c *Client) Resume(ctx context.Context, pattern string) (p wire.Paused, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/topics/"+step(pattern)+"/resume", struct{}{}, &p)
	return p, raw, err
}
