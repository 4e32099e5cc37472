package client

import (
	"context"
	"net/http"
)

// When is when a message is to be due: one of the three. The server judges it.
type When struct {
	Delay string `json:"delay,omitempty"`
	At    string `json:"at,omitempty"`
	Shift string `json:"shift,omitempty"` // from its present due time
}

// Edit is what changes of a waiting message; what is not given stays.
type Edit struct {
	When
	Priority *int                `json:"priority,omitempty"`
	Headers  map[string][]string `json:"headers,omitempty"`
	Content
}

// Amended is a waiting message after a change.
type Amended struct {
	ID       string `json:"id"`
	UID      string `json:"uid"`
	Topic    string `json:"topic"`
	State    string `json:"state"`
	Due      string `json:"due"`
	Priority int    `json:"priority"`
	Version  uint64 `json:"version"`
}

// Reschedule changes a waiting message. A version that is given must stand.
func (c *Client) Reschedule(ctx context.Context, n Name, version string, e Edit) (a Amended, raw []byte, err error) {
	raw, err = c.callIf(ctx, http.MethodPatch, messagePath(n, ""), version, e, &a)
	return a, raw, err
}

// RunNow makes a waiting message due at once. A version that is given must stand.
func (c *Client) RunNow(ctx context.Context, n Name, version string) (a Amended, raw []byte, err error) {
	raw, err = c.callIf(ctx, http.MethodPost, messagePath(n, "/run"), version, struct{}{}, &a)
	return a, raw, err
}

// Selection picks waiting messages. What is nil selects all; All says that all are meant where nothing else is given.
type Selection struct {
	Topic   *string `json:"topic,omitempty"` // may be a pattern
	Key     *string `json:"key,omitempty"`
	DueFrom *string `json:"due_from,omitempty"`
	DueTo   *string `json:"due_to,omitempty"`
	All     bool    `json:"all,omitempty"`
	DryRun  bool    `json:"dry_run,omitempty"`
}

// Report counts what became of the messages of a selection, or in a dry run would.
type Report struct {
	DryRun   bool `json:"dry_run"`
	Looked   int  `json:"looked"`
	Matched  int  `json:"matched"`
	Done     int  `json:"done"`
	InFlight int  `json:"in_flight"`
	Maybe    int  `json:"maybe_delivered"`
	Ended    int  `json:"ended"`
	Failed   int  `json:"failed"`
}

// CancelMany cancels what is selected; progress may be nil.
func (c *Client) CancelMany(ctx context.Context, s Selection, progress func(Report)) (Report, []byte, error) {
	return long(ctx, c, "/v1/messages/cancel", s, progress)
}

// RescheduleMany moves what is selected; progress may be nil.
func (c *Client) RescheduleMany(ctx context.Context, s Selection, w When,
	progress func(Report)) (Report, []byte, error) {
	request := struct {
		Selection
		When
	}{s, w}
	return long(ctx, c, "/v1/messages/reschedule", request, progress)
}
