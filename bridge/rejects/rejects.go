package rejects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Config configures a Rejects.
type Config struct {
	Conn      *nats.Conn
	Namespace string
	// Prefix is the intake's prefix.
	Prefix string
	// SizeLimit bounds body and headers of a push; 0 means only the server's limit.
	SizeLimit int
}

// Rejects reads the stream of rejects: pushes that NATS acknowledged to their producers, and that the intake refused
// afterwards.
type Rejects struct {
	cfg             Config
	stream, subject string
}

// rejectsScan is the maximum number of rejects examined for one page.
const rejectsScan = 2000

// New returns a Rejects. Every field of cfg must be set.
func New(cfg Config) *Rejects {
	return &Rejects{cfg: cfg, stream: link.RejectsName(cfg.Namespace), subject: link.RejectsSubject(cfg.Namespace)}
}

// List returns rejects in the order of their sequence, without headers and bodies, and the sequence at which the next
// page begins, or 0 on the last page. A page may hold fewer rejects than the limit, or none, and have a next one,
// because the number of examined rejects is bounded too.
func (r *Rejects) List(ctx context.Context, q ops.RejectQuery) (page []ops.Rejected, next uint64, err error) {
	filter := r.subject + "."
	if first, _, _ := strings.Cut(q.Topic, "."); first != "" && first != "*" && first != ">" {
		filter += first
	} else {
		filter += "*"
	}
	at := q.From
	for range rejectsScan {
		m, err := r.read(ctx, rawGet{Sequence: at, Next: filter})
		if errors.Is(err, ops.ErrUnknownReject) {
			return page, 0, nil
		} else if err != nil {
			return nil, 0, err
		}
		at = m.Sequence + 1
		one, _ := r.judge(m)
		if q.Selects(&one) {
			if page = append(page, one); len(page) == q.Limit {
				break
			}
		}
	}
	return page, at, nil
}

// Get returns one reject with its original headers and its body.
func (r *Rejects) Get(ctx context.Context, sequence uint64) (ops.Rejected, error) {
	m, err := r.read(ctx, rawGet{Sequence: sequence})
	if err != nil {
		return ops.Rejected{}, err
	}
	one, headers := r.judge(m)
	one.Headers = headers
	if !one.Incomplete {
		one.SetBody(m.Data)
	}
	return one, nil
}

// Push returns a reject as a push, with the order's changes. It keeps the identity assigned by the intake, so
// requeueing it twice, or while the intake receives it once more, makes one message. A delay counts from now.
func (r *Rejects) Push(ctx context.Context, sequence uint64, o *ops.RejectOrder) (*scheduler.Push, error) {
	m, err := r.read(ctx, rawGet{Sequence: sequence})
	if err != nil {
		return nil, err
	}
	one, headers := r.judge(m)
	if one.Incomplete {
		return nil, fmt.Errorf("%w: %d, of %s", ops.ErrIncompleteReject, sequence, one.Topic)
	}
	subject := m.Header.Get(wire.HeaderSubject)
	if o.Topic != "" {
		subject = wire.IntakeSubject(r.cfg.Prefix, o.Topic)
	}
	tagged, err := wire.Decode(subject, r.cfg.Prefix, o.Change(headers), len(m.Data))
	if err != nil {
		return nil, err
	}
	if err := tagged.CheckLimit(len(m.Data), link.SizeLimit(r.cfg.Conn, r.cfg.SizeLimit)); err != nil {
		return nil, err
	}
	if err := link.RefuseUID(&tagged); err != nil {
		return nil, err
	}
	p := ops.Push(&tagged, m.Data)
	if place, ok := link.PlaceOfID(m.Header.Get(wire.HeaderMsgID)); ok {
		if p.UID, err = place.UID(p.ID, p.Key); err != nil {
			return nil, err
		}
		p.Stored = place.Sequence
	}
	return p, nil
}

// Drop removes a reject. It succeeds if the reject is already gone.
func (r *Rejects) Drop(ctx context.Context, sequence uint64) error {
	var dropped struct{}
	err := link.AskBriefly(ctx, r.cfg.Conn, "$JS.API.STREAM.MSG.DELETE."+r.stream, struct {
		Sequence uint64 `json:"seq"`
		NoErase  bool   `json:"no_erase"`
	}{sequence, true}, &dropped)
	if err = r.explain(err); errors.Is(err, ops.ErrUnknownReject) {
		return nil
	}
	return err
}

// rawGet requests a message: the one at the sequence, or the first from there on whose subject matches.
type rawGet struct {
	Sequence uint64 `json:"seq"`
	Next     string `json:"next_by_subj,omitempty"`
}

// raw is a message of the stream.
type raw struct {
	Sequence uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Head     []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Header   nats.Header
}

func (r *Rejects) read(ctx context.Context, get rawGet) (*raw, error) {
	if get.Next != "" {
		get.Sequence = max(get.Sequence, 1)
	}
	var found struct {
		Message raw `json:"message"`
	}
	if err := link.AskBriefly(ctx, r.cfg.Conn, "$JS.API.STREAM.MSG.GET."+r.stream, get, &found); err != nil {
		return nil, r.explain(err)
	}
	m := &found.Message
	if len(m.Head) > 0 {
		h, err := nats.DecodeHeadersMsg(m.Head)
		if err != nil {
			return nil, fmt.Errorf("read reject %d: %w", m.Sequence, err)
		}
		m.Header = h
	}
	return m, nil
}

const (
	codeNoMessage    = 10037
	codeDeleteFailed = 10057 // for a message that does not exist
)

// explain converts an error of the server into one of bridge/ops or of the scheduler.
func (r *Rejects) explain(err error) error {
	var refused *link.StreamError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) &&
		slices.Contains([]int{codeNoMessage, codeDeleteFailed, link.CodeStreamNotFound}, int(refused.ErrCode)):
		return fmt.Errorf("%w: %w", ops.ErrUnknownReject, err)
	case errors.Is(err, link.ErrNoJetStream) && r.cfg.Conn.IsConnected():
		return fmt.Errorf("%w: %w", ops.ErrNoRejects, err)
	case refused != nil:
		return fmt.Errorf("%w: nats refuses to look at rejects: %w", scheduler.ErrUnavailable, err)
	}
	// The time-out is this call's own; it must not be taken for the end of the caller's context.
	return fmt.Errorf("%w: nats does not answer: %v", scheduler.ErrUnavailable, err)
}

// judge decodes a message of the stream into a reject, with the original headers.
func (r *Rejects) judge(m *raw) (ops.Rejected, map[string][]string) {
	subject := m.Header.Get(wire.HeaderSubject)
	one := ops.Rejected{
		Sequence: m.Sequence, At: message.Milli(m.Time.UnixMilli()),
		Topic: strings.TrimPrefix(subject, r.cfg.Prefix+"."),
		Size:  len(m.Data), Incomplete: m.Header.Get(wire.HeaderIncomplete) != "",
	}
	one.Word, one.Detail, _ = strings.Cut(m.Header.Get(wire.HeaderReason), ": ")
	headers := map[string][]string{}
	for name, values := range m.Header {
		switch {
		case name == wire.HeaderSubject, name == wire.HeaderReason, name == wire.HeaderIncomplete,
			name == wire.HeaderMsgID:
			continue
		case strings.EqualFold(name, wire.HeaderID) && len(values) > 0:
			one.ID = values[0]
		case strings.EqualFold(name, wire.HeaderKey) && len(values) > 0:
			one.Key = values[0]
		}
		headers[name] = values
	}
	return one, headers
}
