package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// pushRequest is a push in JSON, as over HTTP.
type pushRequest struct {
	Topic       string              `json:"topic"`
	Body        []byte              `json:"body_base64,omitempty"`
	Headers     map[string][]string `json:"headers,omitempty"`
	Delay       string              `json:"delay,omitempty"`
	At          string              `json:"at,omitempty"`
	ID          string              `json:"id,omitempty"`
	Key         string              `json:"key,omitempty"`
	OnDuplicate string              `json:"on_duplicate,omitempty"`
	Deliver     string              `json:"deliver,omitempty"`
	Priority    uint8               `json:"priority,omitempty"`
	TTL         string              `json:"ttl,omitempty"`
	Attempt     int                 `json:"attempt,omitempty"`
	MaxWait     string              `json:"max_wait,omitempty"`
	Retry       string              `json:"retry,omitempty"`
	Reason      string              `json:"reason,omitempty"`
}

// pushAnswer is what an instance says to a push.
type pushAnswer struct {
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	Duplicate bool   `json:"duplicate"`
	Merged    bool   `json:"merged"`
	Checked   *bool  `json:"name_checked"`
}

func (a *pushAnswer) receipt() (Receipt, error) {
	due, err := time.Parse(time.RFC3339, a.Due)
	if err != nil || a.UID == "" {
		return Receipt{}, fmt.Errorf("%w: the answer is not one of tarry's", ErrOutcomeUnknown)
	}
	return Receipt{ID: a.ID, UID: a.UID, Due: due, Duplicate: a.Duplicate, Merged: a.Merged,
		NameUnchecked: a.Checked != nil && !*a.Checked}, nil
}

func newPushRequest(out *outgoing) pushRequest {
	p := out.push
	r := pushRequest{
		Topic: p.Topic, Body: out.msg.Data, Delay: p.DelayText, ID: p.ID, Key: p.Key,
		OnDuplicate: p.OnDuplicate, Deliver: p.Deliver, Priority: p.Priority, Attempt: p.Attempt,
		Retry: p.Retry.String(), Reason: p.Reason,
	}
	if p.HasAt {
		r.At = wire.FormatAt(p.At)
	}
	if p.TTL > 0 {
		r.TTL = strconv.FormatInt(p.TTL.Milliseconds(), 10)
	}
	if p.MaxWait > 0 {
		r.MaxWait = strconv.FormatInt(p.MaxWait.Milliseconds(), 10)
	}
	for _, h := range p.Headers {
		if r.Headers == nil {
			r.Headers = make(map[string][]string, len(p.Headers))
		}
		r.Headers[h.Name] = append(r.Headers[h.Name], h.Value)
	}
	return r
}

// ask pushes by request. A push that no instance took (nobody answered, or the instance is stopping) is sent again, and
// so is a push that has a name: the same content under a name is stored once. A push without a name is repeated only if
// the answer gave it one; else a repetition could be a second message.
func (c *Client) ask(ctx context.Context, out *outgoing) (Receipt, error) {
	r, sent := newPushRequest(out), false
	for tries := 0; ; tries++ {
		var a pushAnswer
		err := c.request(ctx, "push", r, &a)
		if err == nil {
			return a.receipt()
		}
		var refused *Error
		again := false
		switch {
		case errors.As(err, &refused) && refused.Word == "outcome_unknown":
			if sent = true; refused.ID != "" {
				r.ID = refused.ID
			}
			again, err = r.ID != "", fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		case errors.As(err, &refused):
			again = tries < 2 && (refused.Word == "stopping" || refused.Word == "busy" ||
				refused.Word == "unavailable" || refused.Word == "bucket_unavailable")
		case errors.Is(err, nats.ErrNoResponders):
			again = tries < 2
			if err = c.noIntake(err); !again {
				c.route.forget()
			}
		case isTimeout(err):
			sent, again = true, r.ID != ""
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		if !again || !pause(ctx) {
			if sent && !errors.Is(err, ErrOutcomeUnknown) {
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			return Receipt{}, err
		}
	}
}

// pause waits before a request is repeated, as long as JetStream does; false when the time is up.
func pause(ctx context.Context) bool {
	t := time.NewTimer(250 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// problem is every answer that is not a success.
type problem struct {
	Word   string `json:"error"`
	Detail string `json:"detail"`
	ID     string `json:"id"`
	UID    string `json:"uid"`
	State  string `json:"state"`
	At     string `json:"at"`

	Version    uint64      `json:"version"`
	Bucket     *int        `json:"bucket"`
	Report     *Report     `json:"report"`
	Candidates []Candidate `json:"candidates"`
}

// request asks an instance and reads its answer into answer. A refusal is an *Error.
func (c *Client) request(ctx context.Context, verb string, question, answer any) error {
	one, cancel := context.WithTimeout(ctx, c.ackWait)
	defer cancel()
	return c.exchange(one, verb, question, answer)
}

// exchange is request for as long as ctx allows.
func (c *Client) exchange(ctx context.Context, verb string, question, answer any) error {
	data, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("tarry: write the request: %w", err)
	}
	if limit := c.nc.MaxPayload(); limit > 0 && int64(len(data)) > limit {
		return &Error{Word: wire.WordTooLarge, Field: wire.FieldBody,
			Detail: fmt.Sprintf("makes a request of %d bytes, the server's max_payload is %d", len(data), limit)}
	}
	reply, err := c.nc.RequestWithContext(ctx, c.subject(verb), data)
	if err != nil {
		return err
	}
	var p problem
	if err := json.Unmarshal(reply.Data, &p); err != nil || p.Word == "" {
		if text := reply.Header.Get("Nats-Service-Error"); text != "" { // a micro service's own form
			return &Error{Word: "internal", Detail: text}
		}
		if err != nil {
			return fmt.Errorf("%w: read the answer: %w", ErrOutcomeUnknown, err)
		}
	}
	if p.Word != "" {
		return &Error{Word: p.Word, Detail: p.Detail, ID: p.ID, UID: p.UID, State: p.State, At: moment(p.At),
			Version: p.Version,
			Bucket:  p.Bucket, Report: p.Report, Candidates: p.Candidates}
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("%w: read the answer: %w", ErrOutcomeUnknown, err)
	}
	return nil
}

// moment reads a time of an answer; none is the zero time.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
