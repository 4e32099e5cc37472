package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Kept is the answer to a push.
type Kept struct {
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	State     string `json:"state"`
	Durable   string `json:"durable"`
	Duplicate bool   `json:"duplicate"`
	Merged    bool   `json:"merged"`
}

// Ready asks whether the instance can accept a push. A negative answer is not an error.
func (c *Client) Ready(ctx context.Context) (wire.Ready, []byte, error) {
	return AskIf[wire.Ready](ctx, c, http.MethodGet, "/readyz", "", nil, http.StatusServiceUnavailable)
}

// DeadResult is the outcome for one dead message: Word is empty on success. With outcome_unknown, the UID is set if the
// message was requeued.
type DeadResult struct {
	wire.DeadResult
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

// WithQuery appends a query to a path.
func WithQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
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
