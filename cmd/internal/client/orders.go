package client

import (
	"context"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Push says what to deliver, where and when. The server checks all of it.
type Push struct {
	Topic       string              `json:"topic"`
	Delay       string              `json:"delay,omitempty"`
	At          string              `json:"at,omitempty"`
	ID          string              `json:"id,omitempty"`
	Key         string              `json:"key,omitempty"`
	OnDuplicate string              `json:"on_duplicate,omitempty"`
	MaxWait     string              `json:"max_wait,omitempty"`
	Priority    *int                `json:"priority,omitempty"`
	TTL         string              `json:"ttl,omitempty"`
	Retry       string              `json:"retry,omitempty"`
	Headers     map[string][]string `json:"headers,omitempty"`
	Content
}

// Content is a body in the field that preserves its bytes: text, or base64. If both are absent the body stays
// unspecified.
type Content struct {
	Body       *string `json:"body,omitempty"`
	BodyBase64 []byte  `json:"body_base64,omitempty"`
}

// SetBody stores a body in its field.
func (c *Content) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		c.Body = &text
		return
	}
	c.BodyBase64 = body
}

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

// Selection selects waiting messages. Nil fields do not restrict it; All selects all messages if no other field is set.
type Selection struct {
	Topic   *string `json:"topic,omitempty"` // may be a pattern
	Key     *string `json:"key,omitempty"`
	DueFrom *string `json:"due_from,omitempty"`
	DueTo   *string `json:"due_to,omitempty"`
	All     bool    `json:"all,omitempty"`
	DryRun  bool    `json:"dry_run,omitempty"`
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

// WithQuery appends a query to a path.
func WithQuery(path string, query url.Values) string {
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

// Redeliver asks to publish again the messages that a broker lost. A nil topic means all topics.
type Redeliver struct {
	Since  string  `json:"since"`
	Topic  *string `json:"topic,omitempty"`
	DryRun bool    `json:"dry_run,omitempty"`
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
