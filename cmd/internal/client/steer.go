package client

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// When says when a message is to be due, in one of three ways. The server checks it.
type When struct {
	Delay string `json:"delay,omitempty"`
	At    string `json:"at,omitempty"`
	Shift string `json:"shift,omitempty"` // from its present due time
}

// Edit is the change of a waiting message; absent fields stay unchanged.
type Edit struct {
	When
	Priority *int                `json:"priority,omitempty"`
	Headers  map[string][]string `json:"headers,omitempty"`
	Content
}

// Reschedule changes a waiting message. If version is set, the message must have it.
func (c *Client) Reschedule(ctx context.Context, n Name, version string,
	e Edit) (a wire.Rescheduled, raw []byte, err error) {
	raw, err = c.callIf(ctx, http.MethodPatch, messagePath(n, ""), version, e, &a)
	return a, raw, err
}

// RunNow makes a waiting message due at once. If version is set, the message must have it.
func (c *Client) RunNow(ctx context.Context, n Name, version string) (a wire.Rescheduled, raw []byte, err error) {
	raw, err = c.callIf(ctx, http.MethodPost, messagePath(n, "/run"), version, struct{}{}, &a)
	return a, raw, err
}

// Selection selects waiting messages. Nil fields do not restrict it; All selects all messages if no other field is set.
type Selection struct {
	Topic   *string `json:"topic,omitempty"` // may be a pattern
	Key     *string `json:"key,omitempty"`
	DueFrom *string `json:"due_from,omitempty"`
	DueTo   *string `json:"due_to,omitempty"`
	All     bool    `json:"all,omitempty"`
	DryRun  bool    `json:"dry_run,omitempty"`
}

// CancelMany cancels the selected messages; progress may be nil.
func (c *Client) CancelMany(ctx context.Context, s Selection, progress func(wire.Report)) (wire.Report, []byte, error) {
	return long(ctx, c, "/v1/messages/cancel", s, progress)
}

// RescheduleMany moves the selected messages; progress may be nil.
func (c *Client) RescheduleMany(ctx context.Context, s Selection, w When,
	progress func(wire.Report)) (wire.Report, []byte, error) {
	request := struct {
		Selection
		When
	}{s, w}
	return long(ctx, c, "/v1/messages/reschedule", request, progress)
}
