package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// History returns the changes of a message.
func (c *Client) History(ctx context.Context, n Name) (h wire.History, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, messagePath(n, "/history"), nil, &h)
	return h, raw, err
}

// List returns a page of messages: topic, key, state, due_from, due_to, limit, cursor.
func (c *Client) List(ctx context.Context, query url.Values) (l wire.MessageList, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/messages", query), nil, &l)
	return l, raw, err
}

// Forecast counts the messages that fall due: topic, step, until.
func (c *Client) Forecast(ctx context.Context, query url.Values) (f wire.Forecast, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/forecast", query), nil, &f)
	return f, raw, err
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Restore asks to restore messages that the journal has and the store lacks. A nil topic means all topics.
type Restore struct {
	Overdue bool    `json:"overdue"`
	Topic   *string `json:"topic,omitempty"`
	DryRun  bool    `json:"dry_run,omitempty"`
	Rate    int     `json:"rate,omitempty"` // messages a second
}

// RestoreOne restores one message.
func (c *Client) RestoreOne(ctx context.Context, n Name, dry bool) (r wire.RestoreReport, raw []byte, err error) {
	request := map[string]bool{"dry_run": dry}
	raw, err = c.call(ctx, http.MethodPost, messagePath(n, "/restore"), request, &r)
	return r, raw, err
}

// Restore restores many messages; progress may be nil.
func (c *Client) Restore(ctx context.Context, request Restore,
	progress func(wire.RestoreReport)) (wire.RestoreReport, []byte, error) {
	return long(ctx, c, "/v1/restore", request, progress)
}

// Verify compares the store with the journal; with repair it repairs the differences. progress may be nil.
func (c *Client) Verify(ctx context.Context, repair bool,
	progress func(wire.VerifyReport)) (wire.VerifyReport, []byte, error) {
	return long(ctx, c, "/v1/verify", map[string]bool{"repair": repair}, progress)
}

// Redeliver asks to publish again the messages that a broker lost. A nil topic means all topics.
type Redeliver struct {
	Since  string  `json:"since"`
	Topic  *string `json:"topic,omitempty"`
	DryRun bool    `json:"dry_run,omitempty"`
}

// Redeliver publishes the lost messages again; progress may be nil.
func (c *Client) Redeliver(ctx context.Context, request Redeliver,
	progress func(wire.RedeliverReport)) (wire.RedeliverReport, []byte, error) {
	return long(ctx, c, "/v1/redeliver", request, progress)
}
