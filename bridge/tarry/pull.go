package tarry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// ErrLeaseLost: a lease does not hold: it was over, it was settled in another way, or it never was.
var ErrLeaseLost = &Error{Word: "lease_lost", Detail: "the lease does not hold"}

// Puller fetches messages that were pushed for pull (Tarry-Deliver: pull, or by their topic's setting) over HTTP. It
// needs no NATS. It is safe for concurrent use.
type Puller struct {
	// URL is that of an instance, or of a proxy before several: http://localhost:7070.
	URL string
	// Token is sent as a bearer token, if it is set. It needs the topic in its pull patterns.
	Token string
	// Client makes the requests; nil is http.DefaultClient. A time-out of its own must be longer than a poll waits.
	Client *http.Client
}

// PullOptions say what to fetch. Zero values leave it to tarry.
type PullOptions struct {
	Max      int           // messages, 1 to 1,000; 1 by default
	Wait     time.Duration // for a message if none is ready, up to a minute
	Lease    time.Duration // 100ms to 12h; by default what the message says, else its topic, else 30s
	Consumer string        // for people, up to 64 bytes
	MaxBytes int           // of all messages, 4 MiB by default; one message may weigh more
}

// Pulled is a message that is leased to its consumer.
type Pulled struct {
	ID, UID, Topic, Key string
	Header              nats.Header
	Data                []byte
	Priority            uint8
	Due                 time.Time
	Attempt             int
	// Receipt settles the lease, which ends at LeaseUntil, Lease after the answer.
	Receipt    string
	LeaseUntil time.Time
	Lease      time.Duration
}

const (
	sendings     = 3                // how often a request is sent whose answer is lost
	answerMost   = 15 * time.Second // how long an answer may take, beyond what a poll waits
	giveBackMost = 2 * time.Second
)

// Pull leases ready messages of a topic: the highest priority first, then the earliest due. It returns none if nothing
// came within the wait. If an answer is lost, Pull asks again for the same messages. If ctx ends before the answer is
// there, Pull gives back what was leased, which counts as no try, and takes up to 2 s longer.
func (p *Puller) Pull(ctx context.Context, topic string, o PullOptions) ([]Pulled, error) {
	return p.pull(ctx, "/v1/topics/"+url.PathEscape(topic)+"/pull", o, map[string]any{})
}

// PullAny is [Puller.Pull] for 1 to 32 topics at once. Each gets an equal share of the messages, as far as it has as
// many. Of each topic one message may weigh more than MaxBytes.
func (p *Puller) PullAny(ctx context.Context, topics []string, o PullOptions) ([]Pulled, error) {
	return p.pull(ctx, "/v1/pull", o, map[string]any{"topics": topics})
}

func (p *Puller) pull(ctx context.Context, path string, o PullOptions, body map[string]any) ([]Pulled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	body["attempt"] = rand.Text()
	for name, d := range map[string]time.Duration{"wait": o.Wait, "lease": o.Lease} {
		if d != 0 {
			body[name] = fmt.Sprintf("%dms", d.Milliseconds())
		}
	}
	if o.Max != 0 {
		body["max"] = o.Max
	}
	if o.MaxBytes != 0 {
		body["max_bytes"] = o.MaxBytes
	}
	if o.Consumer != "" {
		body["consumer"] = o.Consumer
	}
	found, err := p.poll(ctx, path, o.Wait, body)
	if err != nil && ctx.Err() != nil {
		after, stop := context.WithTimeout(context.WithoutCancel(ctx), giveBackMost)
		defer stop()
		delete(body, "wait")
		left, _ := p.poll(after, path, 0, body) // where nobody answers, leases lapse
		receipts := make([]string, len(left))
		for i := range left {
			receipts[i] = left[i].Receipt
		}
		_ = p.Release(after, receipts...)
	}
	return found, err
}

func (p *Puller) poll(ctx context.Context, path string, wait time.Duration, body map[string]any) ([]Pulled, error) {
	var answer struct {
		Messages []struct {
			ID, UID, Topic, Key, Receipt string
			Headers                      nats.Header
			Body                         string
			Base64                       []byte `json:"body_base64"`
			Priority                     uint8
			Due                          time.Time
			Attempt                      int
			LeaseUntil                   time.Time `json:"lease_until"`
			LeaseMS                      int64     `json:"lease_ms"`
		}
	}
	if err := p.post(ctx, path, wait, body, &answer); err != nil {
		return nil, err
	}
	found := make([]Pulled, len(answer.Messages))
	for i, m := range answer.Messages {
		found[i] = Pulled{ID: m.ID, UID: m.UID, Topic: m.Topic, Key: m.Key, Header: m.Headers, Data: m.Base64,
			Priority: m.Priority, Due: m.Due, Attempt: m.Attempt, Receipt: m.Receipt, LeaseUntil: m.LeaseUntil,
			Lease: time.Duration(m.LeaseMS) * time.Millisecond}
		if m.Base64 == nil {
			found[i].Data = []byte(m.Body)
		}
	}
	return found, nil
}

// Ack says that messages were handled. Like all that settles leases it takes up to 1,000 receipts, is safe to repeat,
// and returns an [Unsettled] if it fails for some of them.
func (p *Puller) Ack(ctx context.Context, receipts ...string) error {
	return p.settle(ctx, "ack", nil, receipts)
}

// Nack sends messages back, each for the next retry of its schedule; after the last one it is dead. The reason is for
// people: up to 255 bytes on one line of it are kept.
func (p *Puller) Nack(ctx context.Context, reason string, receipts ...string) error {
	return p.settle(ctx, "nack", map[string]any{"reason": wire.CleanReason(reason)}, receipts)
}

// NackIn is Nack with the delay until the next retry, in place of the schedule's.
func (p *Puller) NackIn(ctx context.Context, delay time.Duration, reason string, receipts ...string) error {
	return p.settle(ctx, "nack", map[string]any{"delay": fmt.Sprintf("%dms", delay.Milliseconds()),
		"reason": wire.CleanReason(reason)}, receipts)
}

// Dead says that messages are not to be tried again, and why, for people: up to 255 bytes on one line of it are kept.
func (p *Puller) Dead(ctx context.Context, reason string, receipts ...string) error {
	return p.settle(ctx, "dead", map[string]any{"reason": wire.CleanReason(reason)}, receipts)
}

// Extend holds messages until that long from now, unless their leases end later.
func (p *Puller) Extend(ctx context.Context, lease time.Duration, receipts ...string) error {
	return p.settle(ctx, "extend", map[string]any{"lease": fmt.Sprintf("%dms", lease.Milliseconds())}, receipts)
}

// Release gives messages back. It counts as no try.
func (p *Puller) Release(ctx context.Context, receipts ...string) error {
	return p.settle(ctx, "release", nil, receipts)
}

// Unsettled are the errors of the receipts that were not settled; the others were. errors.Is finds each of them.
type Unsettled map[string]error

func (u Unsettled) Error() string {
	lines := make([]string, 0, len(u))
	for receipt, err := range u {
		lines = append(lines, receipt+": "+strings.TrimPrefix(err.Error(), "tarry: "))
	}
	slices.Sort(lines)
	return "tarry: not settled: " + strings.Join(lines, "; ")
}

// Unwrap returns the errors.
func (u Unsettled) Unwrap() (errs []error) {
	for _, err := range u {
		errs = append(errs, err)
	}
	return errs
}

func (p *Puller) settle(ctx context.Context, verb string, body map[string]any, receipts []string) error {
	if len(receipts) == 0 {
		return nil
	}
	if body == nil {
		body = map[string]any{}
	}
	body["receipts"] = receipts
	var answer struct {
		Failed  int
		Results []Error
	}
	if err := p.post(ctx, "/v1/leases/"+verb, 0, body, &answer); err != nil || answer.Failed == 0 {
		return err
	}
	failed := Unsettled{}
	for i := range answer.Results {
		if r := &answer.Results[i]; r.Word != "" && i < len(receipts) {
			failed[receipts[i]] = said(r)
		}
	}
	return failed
}

// said returns the error that an answer over HTTP means.
func said(e *Error) error {
	if e.Word == "outcome_unknown" {
		return ErrOutcomeUnknown
	}
	return e
}

// post makes a request that may be repeated and waits for so long, and repeats it if its answer is lost.
func (p *Puller) post(ctx context.Context, path string, wait time.Duration, body map[string]any, into any) error {
	for n := 1; ; n++ {
		if _, is := body["attempt"]; is { // one that was sent earlier may arrive later
			before, _ := body["sending"].(int)
			body["sending"] = before + 1
		}
		sent, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("tarry: encode the request: %w", err)
		}
		limited, stop := context.WithTimeout(ctx, wait+answerMost)
		err = p.send(limited, path, sent, into)
		stop()
		var refused *Error
		if err == nil || n == sendings || ctx.Err() != nil || errors.As(err, &refused) && refused.Word != "busy" ||
			errors.As(err, new(final)) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(n) * 100 * time.Millisecond):
		}
	}
}

func (p *Puller) send(ctx context.Context, path string, body []byte, into any) error {
	if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return final{fmt.Errorf("tarry: the URL %q is none of an instance: want http://host:port", p.URL)}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(p.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("tarry: make the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if p.Token != "" {
		r.Header.Set("Authorization", "Bearer "+p.Token)
	}
	answer, err := cmp.Or(p.Client, http.DefaultClient).Do(r)
	if err != nil {
		return fmt.Errorf("tarry: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("tarry: read the answer: %w", err)
	}
	var refused Error
	if answer.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, into)
	} else if err = json.Unmarshal(text, &refused); err == nil && refused.Word != "" {
		return said(&refused)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("tarry: %s answers %d, not as tarry does", p.URL, answer.StatusCode)
		if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusNotFound {
			err = final{err}
		}
		return err
	}
	return nil
}
