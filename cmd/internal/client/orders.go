package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
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

// Push stores a message until it is due.
func (c *Client) Push(ctx context.Context, p Push) (kept Kept, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodPost, "/v1/messages", p, &kept)
	return kept, raw, err
}

// Get looks a message up.
func (c *Client) Get(ctx context.Context, n Name) (m wire.Info, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, messagePath(n, ""), nil, &m)
	return m, raw, err
}

// Cancel cancels a waiting message. Success means that this delivery will not happen.
func (c *Client) Cancel(ctx context.Context, n Name) (canceled wire.Canceled, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodDelete, messagePath(n, ""), nil, &canceled)
	return canceled, raw, err
}

// Cluster returns the instances and the leader.
func (c *Client) Cluster(ctx context.Context) (cluster wire.Cluster, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/v1/cluster", nil, &cluster)
	return cluster, raw, err
}

// Resign makes the leader step down, and returns when it has.
func (c *Client) Resign(ctx context.Context, reason string) (raw []byte, err error) {
	var answer struct {
		Resigned bool `json:"resigned"`
	}
	request := map[string]string{}
	if reason != "" {
		request["reason"] = reason
	}
	return c.call(ctx, http.MethodPost, "/v1/cluster/resign", request, &answer)
}

// Ready asks whether the instance can accept a push. A negative answer is not an error.
func (c *Client) Ready(ctx context.Context) (ready wire.Ready, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, "/readyz", nil, &ready, http.StatusServiceUnavailable)
	return ready, raw, err
}

// Live checks whether the process serves requests at all.
func (c *Client) Live(ctx context.Context) (raw []byte, err error) {
	var answer struct {
		Live bool `json:"live"`
	}
	return c.call(ctx, http.MethodGet, "/livez", nil, &answer)
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

// Verify compares the store with the journal; it changes what the request names. progress may be nil.
func (c *Client) Verify(ctx context.Context, request wire.Verify,
	progress func(wire.VerifyReport)) (wire.VerifyReport, []byte, error) {
	return long(ctx, c, "/v1/verify", request, progress)
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
