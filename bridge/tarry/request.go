package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// MaxBatch is the most messages that one [Client.PushBatch] takes.
const MaxBatch = 1000

// Outcome is the result of one push of a batch: its place, unless Err is set.
type Outcome struct {
	Stored Stored
	Err    error
}

// PushBatch stores up to [MaxBatch] tagged messages with one request, or with as few as the server's max_payload
// allows. It returns an outcome for each message, in order: a refused message does not prevent the others. It always
// needs a running instance. An error concerns the whole batch, of which nothing was sent.
//
// An outcome without an answer is [ErrOutcomeUnknown]. PushBatch repeats what is safe to repeat, so name the messages
// with [As]. If the pushes must be stored even while every instance is down, publish them with
// [JetStream.PublishMsgAsync] instead.
func (c *Client) PushBatch(ctx context.Context, msgs []*nats.Msg) ([]Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(msgs) > MaxBatch {
		return nil, &Error{Word: wire.WordTooLarge, Field: "messages",
			Detail: fmt.Sprintf("are %d, the limit is %d", len(msgs), MaxBatch)}
	}
	ctx, cancel := bounded(ctx, c.timeout)
	defer cancel()
	outcomes := make([]Outcome, len(msgs))
	var pushes []*pending
	for i, m := range msgs {
		if m == nil {
			outcomes[i].Err = nats.ErrInvalidMsg
			continue
		}
		out, err := c.rewrite(m)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		pushes = append(pushes, &pending{question: newPushRequest(out), outcome: &outcomes[i]})
	}
	c.askAll(ctx, pushes)
	for i := range outcomes {
		if err := outcomes[i].Err; isNoResponders(err) && !errors.Is(err, ErrOutcomeUnknown) {
			outcomes[i].Err = c.noInstance(err)
		}
	}
	return outcomes, nil
}

// pending is a push by request that has no outcome yet.
type pending struct {
	question pushRequest
	outcome  *Outcome
	sent     bool // an instance may have stored it
}

// askAll pushes by request until each push has its outcome.
func (c *Client) askAll(ctx context.Context, pushes []*pending) {
	open := pushes
	for tries := 0; len(open) > 0; tries++ {
		var again []*pending
		for len(open) > 0 {
			n := c.askOnce(ctx, open)
			for _, p := range open[:n] {
				if p.again(tries) {
					again = append(again, p)
				}
			}
			open = open[n:]
		}
		if open = again; len(open) > 0 && !pause(ctx) {
			break
		}
	}
	for _, p := range pushes {
		if p.sent && p.outcome.Err != nil {
			p.outcome.Err = unknown(p.outcome.Err)
		}
	}
}

// again reports whether a push is to be sent again. It is, for a while, if no instance accepted it: nobody answered, or
// the instance cannot accept it now. If the outcome is unknown, the push is repeated only under a name, because the
// same content under a name is stored once. The name is its own, or one that the answer contains. A push that merges is
// repeated under the uid in the answer.
func (p *pending) again(tries int) bool {
	var refused *Error
	switch err := p.outcome.Err; {
	case errors.As(err, &refused) && refused.Word == "outcome_unknown":
		if p.sent = true; p.question.merges() {
			p.question.UID = refused.UID
		} else if refused.ID != "" {
			p.question.ID = refused.ID
		}
		return p.question.repeatable()
	case errors.As(err, &refused):
		return tries < 2 && passing(err)
	case isNoResponders(err):
		return tries < 2
	case isTimeout(err):
		p.sent = true
		return p.question.repeatable()
	}
	return false
}

// askOnce sends as many of the pushes as one request holds, and returns how many that is. A single push is sent without
// a batch.
func (c *Client) askOnce(ctx context.Context, pushes []*pending) int {
	const (
		frame  = len(`{"messages":[]}`)
		result = 1024 // what an instance reserves for a result in its answer
	)
	var batch struct {
		Messages []json.RawMessage `json:"messages"`
	}
	for size := frame; len(batch.Messages) < len(pushes); {
		n, limit := len(batch.Messages), int(c.nc.MaxPayload())
		text, err := json.Marshal(pushes[n].question)
		if err != nil && n == 0 {
			pushes[n].outcome.Err = fmt.Errorf("tarry: write the request: %w", err)
			return 1
		}
		size += len(text) + len(",")
		if err != nil || n > 0 && limit > 0 && (size > limit || (n+1)*result > limit) {
			break // it goes with the next request
		}
		batch.Messages = append(batch.Messages, text)
	}
	n := len(batch.Messages)
	if n == 1 {
		var a pushAnswer
		err := c.request(ctx, "push", batch.Messages[0], &a)
		*pushes[0].outcome = a.outcome(err)
		return 1
	}
	var answer struct{ Results []json.RawMessage }
	err := c.request(ctx, "push", batch, &answer)
	if err == nil && len(answer.Results) != n {
		err = fmt.Errorf("%w: the answer has %d results for %d pushes", ErrOutcomeUnknown, len(answer.Results), n)
	}
	for i, p := range pushes[:n] {
		var a pushAnswer
		err := err
		if err == nil {
			err = readAnswer(answer.Results[i], &a)
		}
		*p.outcome = a.outcome(err)
	}
	return n
}

// pushRequest is a push in JSON, as over HTTP.
type pushRequest struct {
	Topic       string              `json:"topic"`
	Body        []byte              `json:"body_base64,omitempty"`
	Headers     map[string][]string `json:"headers,omitempty"`
	Delay       string              `json:"delay,omitempty"`
	At          string              `json:"at,omitempty"`
	ID          string              `json:"id,omitempty"`
	Key         string              `json:"key,omitempty"`
	UID         string              `json:"uid,omitempty"`
	OnDuplicate string              `json:"on_duplicate,omitempty"`
	Deliver     string              `json:"deliver,omitempty"`
	Lease       string              `json:"lease,omitempty"`
	Priority    uint8               `json:"priority,omitempty"`
	TTL         string              `json:"ttl,omitempty"`
	Attempt     int                 `json:"attempt,omitempty"`
	MaxWait     string              `json:"max_wait,omitempty"`
	Retry       string              `json:"retry,omitempty"`
	Reason      string              `json:"reason,omitempty"`
}

func newPushRequest(out *outgoing) pushRequest {
	p, tag := out.push, out.msg.Header.Get // Encode has written the tags as text
	r := pushRequest{
		Topic: p.Topic, Body: out.msg.Data, Delay: p.DelayText, ID: p.ID, Key: p.Key, UID: p.UID,
		OnDuplicate: p.OnDuplicate, Deliver: p.Deliver, Priority: p.Priority, Attempt: p.Attempt,
		Retry: p.Retry.String(), Reason: p.Reason, At: tag(wire.HeaderAt), TTL: tag(wire.HeaderTTL),
		Lease: tag(wire.HeaderLease), MaxWait: tag(wire.HeaderMaxWait),
	}
	for _, h := range p.Headers {
		if r.Headers == nil {
			r.Headers = make(map[string][]string, len(p.Headers))
		}
		r.Headers[h.Name] = append(r.Headers[h.Name], h.Value)
	}
	return r
}

// merges reports whether the push may be merged into a waiting message.
func (r *pushRequest) merges() bool { return r.OnDuplicate != "" && r.OnDuplicate != wire.Reject }

// repeatable reports whether the push is stored once although it is sent twice. A push that merges is that only under
// its uid: under its name alone it would be a new message once the first one is delivered.
func (r *pushRequest) repeatable() bool { return r.UID != "" || r.ID != "" && !r.merges() }

// pushAnswer is the answer of an instance to a push.
type pushAnswer struct {
	Stored
	Checked *bool `json:"name_checked"`
}

func (a *pushAnswer) outcome(err error) Outcome {
	if err == nil && (a.UID == "" || a.Due.IsZero()) {
		err = fmt.Errorf("%w: the answer is not one of tarry's", ErrOutcomeUnknown)
	}
	if err != nil {
		return Outcome{Err: err}
	}
	a.Route, a.NameUnchecked = ByRequest, a.Checked != nil && !*a.Checked
	return Outcome{Stored: a.Stored}
}

// request sends one request to an instance and reads the answer. A refusal is an *Error.
func (c *Client) request(ctx context.Context, verb string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.ackWait)
	defer cancel()
	return c.exchange(ctx, verb, question, answer)
}

// exchange does the same as request, for as long as ctx allows.
func (c *Client) exchange(ctx context.Context, verb string, question, answer any) error {
	data, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("tarry: write the request: %w", err)
	}
	if limit := c.nc.MaxPayload(); limit > 0 && int64(len(data)) > limit {
		return &Error{Word: wire.WordTooLarge, Field: wire.FieldBody,
			Detail: fmt.Sprintf("makes a request of %d bytes, the server's max_payload is %d", len(data), limit)}
	}
	reply, err := c.answer(ctx, verb, data)
	if err != nil {
		return err
	}
	err = readAnswer(reply.Data, answer)
	if text := reply.Header.Get("Nats-Service-Error"); text != "" && !errors.As(err, new(*Error)) {
		return &Error{Word: "internal", Detail: text} // a micro service's own form
	}
	return err
}

// lookAgain is how long a look-up waits before it asks once more: NATS may have picked an instance that stands still,
// and picks at random. lookTries bounds that to a second.
const (
	lookAgain = 250 * time.Millisecond
	lookTries = 4
)

// answer returns the first answer to a request. Only a look-up is sent more than once: it changes nothing.
func (c *Client) answer(ctx context.Context, verb string, data []byte) (*nats.Msg, error) {
	if verb != "get" {
		return c.nc.RequestWithContext(ctx, c.subject(verb), data)
	}
	ctx, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	type result struct {
		reply *nats.Msg
		err   error
	}
	results := make(chan result, lookTries)
	again := time.NewTimer(0)
	defer again.Stop()
	for sent, open := 0, 0; ; {
		select {
		case <-again.C:
			sent, open = sent+1, open+1
			asking.Go(func() {
				reply, err := c.nc.RequestWithContext(ctx, c.subject(verb), data)
				results <- result{reply, err}
			})
			if sent < lookTries {
				again.Reset(lookAgain)
			}
		case r := <-results:
			if open--; r.err == nil || open == 0 {
				return r.reply, r.err
			}
		}
	}
}

// readAnswer reads an answer of an instance. Every failure has the form of an Error.
func readAnswer(data []byte, answer any) error {
	var refused Error
	err := json.Unmarshal(data, &refused)
	if err == nil && refused.Word != "" {
		return &refused
	}
	if err == nil {
		err = json.Unmarshal(data, answer)
	}
	if err != nil {
		return fmt.Errorf("%w: read the answer: %w", ErrOutcomeUnknown, err)
	}
	return nil
}
