package client

import (
	"context"
	"net/http"
	"net/url"
)

// Lag is what has happened and is not in the journal yet.
type Lag struct {
	Changes int    `json:"changes"`
	Bytes   int64  `json:"bytes"`
	Oldest  string `json:"oldest"`
	// Quarantined is how many entries the journal could not hold.
	Quarantined int `json:"quarantined"`
}

// History is everything that happened to a message.
type History struct {
	ID      string   `json:"id"`
	UID     string   `json:"uid"`
	History []Change `json:"history"`
	Others  []Life   `json:"others"` // of the same name, the latest first
	More    bool     `json:"more"`   // there are others yet
}

// Life is another message of the name.
type Life struct {
	UID     string   `json:"uid"`
	State   string   `json:"state"`
	Reason  string   `json:"reason"`
	History []Change `json:"history"`
}

// Change is one change of a message. What does not apply to it is empty.
type Change struct {
	Version  uint64 `json:"version"`
	State    string `json:"state"`
	At       string `json:"at"`
	Due      string `json:"due"`
	Bucket   int    `json:"bucket"`
	Instance string `json:"instance"`
	Address  string `json:"address"`
	Term     uint64 `json:"term"`
	Attempt  int    `json:"attempt"`
	Claimed  string `json:"claimed"`
	Reason   string `json:"reason"`
	Stream   string `json:"stream"`
	Sequence uint64 `json:"sequence"`
}

// History asks what happened to a message.
func (c *Client) History(ctx context.Context, n Name) (h History, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, messagePath(n, "/history"), nil, &h)
	return h, raw, err
}

// List is a page of messages, without headers and bodies. Cursor asks for the next page; it is empty on the last one.
type List struct {
	Messages []Message `json:"messages"`
	Cursor   string    `json:"cursor"`
	Lag      *Lag      `json:"lag"` // nil while nobody can tell
}

// List asks for a page: topic, key, state, due_from, due_to, limit, cursor.
func (c *Client) List(ctx context.Context, query url.Values) (l List, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/messages", query), nil, &l)
	return l, raw, err
}

// Forecast is how many messages fall due in each step from now on.
type Forecast struct {
	Overdue int `json:"overdue"`
	Steps   []struct {
		From  string `json:"from"`
		Count int    `json:"count"`
	} `json:"steps"`
}

// Forecast asks what falls due: topic, step, until.
func (c *Client) Forecast(ctx context.Context, query url.Values) (f Forecast, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, withQuery("/v1/forecast", query), nil, &f)
	return f, raw, err
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Restore asks for what the journal has and the store lacks. A topic that is nil is all topics.
type Restore struct {
	Overdue bool    `json:"overdue"`
	Topic   *string `json:"topic,omitempty"`
	DryRun  bool    `json:"dry_run,omitempty"`
	Rate    int     `json:"rate,omitempty"` // messages a second
}

// Restored counts what became of the messages that the journal has.
type Restored struct {
	Read     int `json:"read"`
	Added    int `json:"added"`
	Raised   int `json:"raised"`
	Same     int `json:"same"`
	InFlight int `json:"in_flight"`
	Newer    int `json:"newer"`
}

// RestoreOne restores one message.
func (c *Client) RestoreOne(ctx context.Context, n Name, dry bool) (r Restored, raw []byte, err error) {
	request := map[string]bool{"dry_run": dry}
	raw, err = c.call(ctx, http.MethodPost, messagePath(n, "/restore"), request, &r)
	return r, raw, err
}

// Restore restores many; progress may be nil.
func (c *Client) Restore(ctx context.Context, request Restore, progress func(Restored)) (Restored, []byte, error) {
	return long(ctx, c, "/v1/restore", request, progress)
}

// Verified is what a comparison of the store with the journal found.
type Verified struct {
	InStore     int            `json:"in_store"`
	InJournal   int            `json:"in_journal"`
	Found       map[string]int `json:"found"` // by kind
	Repaired    int            `json:"repaired"`
	Differences []Difference   `json:"differences"` // the first of them
	Refused     []Refused      `json:"refused"`
	Quarantined []Quarantined  `json:"quarantined"`
}

// Quarantined is an entry of the outbox that the journal could not hold.
type Quarantined struct {
	Bucket int      `json:"bucket"`
	Entry  string   `json:"entry"`
	At     string   `json:"at"`
	Reason string   `json:"reason"`
	Known  bool     `json:"known"`
	UIDs   []string `json:"uids"`
}

// Refused is a change that the store did not make.
type Refused struct {
	UID    string `json:"uid"`
	Bucket int    `json:"bucket"`
	From   string `json:"from"`
	To     string `json:"to"`
	Kind   string `json:"kind"`
	At     string `json:"at"`
	// Unreadable: its record in the store is damaged.
	Unreadable bool `json:"unreadable"`
}

// Difference is a message that the two tell differently. A side that does not have it is nil.
type Difference struct {
	UID      string `json:"uid"`
	Bucket   int    `json:"bucket"`
	Kind     string `json:"kind"`
	Store    *Stand `json:"store"`
	Journal  *Stand `json:"journal"`
	Repaired bool   `json:"repaired"`
}

// Stand is how a message stands on one side.
type Stand struct {
	State   string `json:"state"`
	Version uint64 `json:"version"`
}

// Verify compares; with repair it mends what differs. progress may be nil.
func (c *Client) Verify(ctx context.Context, repair bool, progress func(Verified)) (Verified, []byte, error) {
	return long(ctx, c, "/v1/verify", map[string]bool{"repair": repair}, progress)
}

// Redeliver asks to publish again what a broker lost. A topic that is nil is all topics.
type Redeliver struct {
	Since  string  `json:"since"`
	Topic  *string `json:"topic,omitempty"`
	DryRun bool    `json:"dry_run,omitempty"`
}

// Redelivered counts what became of the deliveries that were checked.
type Redelivered struct {
	Checked     int `json:"checked"`
	Present     int `json:"present"`
	Gone        int `json:"gone"`
	Redelivered int `json:"redelivered"`
	Unknown     int `json:"unknown"`
	Failed      int `json:"failed"`
}

// Redeliver does it; progress may be nil.
func (c *Client) Redeliver(ctx context.Context, request Redeliver,
	progress func(Redelivered)) (Redelivered, []byte, error) {
	return long(ctx, c, "/v1/redeliver", request, progress)
}
