package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// NATS permissions on the subject of a request decide who may call what. There are two ways around them. This file
// closes both for every subject on which an instance takes requests:
//
//   - A server publishes for its clients without checking their permissions. It sends a message that a client pulls
//     from a consumer, or reads directly from a stream, to the reply subject that the client chose, which may be the
//     subject of a call. A pulled message is recognized by its subject, under which it was stored, a message read
//     directly by the headers that name its stream, and the end of a pull by its status header.
//   - An instance may publish to subjects to which a caller may not, and the caller names the subject of the answer.
//     The instance therefore answers only to inboxes: those of clients, and those through which servers pass an answer
//     from one account to another.

// isRequest reports whether a message was published by a client on own, one of the instance's subjects, with an inbox
// or nothing as its reply subject. Other messages are ignored.
func isRequest(subject, own, reply string, header nats.Header) bool {
	if subject != own || reply != "" && !isInbox(reply) {
		return false
	}
	for name := range header {
		switch strings.ToLower(name) {
		case "status", "nats-stream", "nats-subject", "nats-sequence":
			return false
		}
	}
	return true
}

func isInbox(subject string) bool {
	return strings.HasPrefix(subject, nats.InboxPrefix) || strings.HasPrefix(subject, "_R_.")
}

// hear answers requests on an instance's own subject, each within the time-out of a call, until ctx ends. If heard
// returns nil, the instance leaves the answer to another one.
func hear(ctx context.Context, nc *nats.Conn, subject string, log zerolog.Logger,
	heard func(ctx context.Context, request []byte) *reaction) error {
	sub, err := nc.Subscribe(subject, func(msg *nats.Msg) {
		if msg.Reply == "" || !isRequest(msg.Subject, subject, msg.Reply, msg.Header) {
			return
		}
		ctx, stop := context.WithTimeout(ctx, apiTimeout)
		defer stop()
		if out := heard(ctx, msg.Data); out != nil {
			if err := msg.RespondMsg(out.message()); err != nil {
				log.Warn().Err(err).Str("subject", subject).Msg("answer not sent")
			}
		}
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", subject, err)
	}
	defer unsubscribe(sub)
	<-ctx.Done()
	return context.Cause(ctx)
}

// refusing encodes a problem as an answer.
func refusing(p wire.Problem) *reaction {
	return &reaction{problem: &p, body: wire.AppendProblem(nil, &p)}
}

// PausesConfig configures a Pauses.
type PausesConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Read reads the pauses if this instance leads, and reports whether it leads.
	Read func(ctx context.Context) (leads bool, err error)
	Log  zerolog.Logger
}

// Pauses lets the instance that paused or resumed a topic wait until the leader has read the change. It uses core NATS,
// on tarry.<namespace>.pauses. A request is empty. An answer is empty too, or holds the problem in the form of the
// request API. A client that sends requests can therefore only make the leader read the pauses, and one that sends
// answers can only make Ask return too early.
type Pauses struct {
	cfg     PausesConfig
	subject string
}

// ErrNotRead reports that no leader has confirmed reading the pauses.
var ErrNotRead = errors.New("no leader has read the pauses")

// NewPauses checks the configuration.
func NewPauses(cfg PausesConfig) (*Pauses, error) {
	if cfg.Conn == nil || cfg.Namespace == "" || cfg.Read == nil {
		return nil, errors.New("pauses: a connection, a namespace and a Read function are needed")
	}
	return &Pauses{cfg: cfg, subject: "tarry." + cfg.Namespace + ".pauses"}, nil
}

// Run answers requests while this instance leads, until ctx ends.
func (p *Pauses) Run(ctx context.Context) error {
	return hear(ctx, p.cfg.Conn, p.subject, p.cfg.Log, p.heard)
}

func (p *Pauses) heard(ctx context.Context, _ []byte) *reaction {
	leads, err := p.cfg.Read(ctx)
	switch {
	case !leads:
		return nil
	case err == nil:
		return &reaction{body: []byte(`{"read":true}`)}
	}
	p.cfg.Log.Warn().Err(err).Msg("the pauses cannot be read for another instance")
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: the pauses were not read in time", scheduler.ErrUnavailable)
	}
	return refusing(answer.Problem(err))
}

// Ask asks the leader to read the pauses, and returns once it has read them. Every error wraps ErrNotRead.
func (p *Pauses) Ask(ctx context.Context) error {
	msg, err := p.cfg.Conn.RequestWithContext(ctx, p.subject, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRead, err)
	}
	var said struct {
		Read bool `json:"read"`
		wire.Problem
	}
	if err := json.Unmarshal(msg.Data, &said); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRead, err)
	}
	if !said.Read {
		return fmt.Errorf("%w: the leader says: %s", ErrNotRead, said.Detail)
	}
	return nil
}

// ResignConfig configures a Resign.
type ResignConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Instance is this instance's name.
	Instance string
	// Do makes this instance resign, if it leads and another could take over, and returns once it has resigned. The
	// requester gets the error in the words of bridge/answer.
	Do  func(ctx context.Context, reason string) error
	Log zerolog.Logger
}

// Resign forwards an operator's request for the leader's resignation to the leader, whichever instance received it:
// behind a proxy operators cannot choose the instance. It uses core NATS, on tarry.<namespace>.resign.
type Resign struct {
	cfg     ResignConfig
	subject string
}

// ErrNotResigned reports that the leader did not resign on request, or did not answer.
var ErrNotResigned = errors.New("the leader did not resign")

type resignWish struct {
	Instance string `json:"instance"`
	Reason   string `json:"reason"`
}

// NewResign checks the configuration.
func NewResign(cfg ResignConfig) (*Resign, error) {
	if cfg.Conn == nil || cfg.Namespace == "" || cfg.Instance == "" || cfg.Do == nil {
		return nil, errors.New("resign: a connection, a namespace, an instance and a Do function are needed")
	}
	return &Resign{cfg: cfg, subject: "tarry." + cfg.Namespace + ".resign"}, nil
}

// Run answers the requests that name this instance until ctx ends.
func (r *Resign) Run(ctx context.Context) error {
	return hear(ctx, r.cfg.Conn, r.subject, r.cfg.Log, r.heard)
}

func (r *Resign) heard(ctx context.Context, request []byte) *reaction {
	var wish resignWish
	if json.Unmarshal(request, &wish) != nil || wish.Instance != r.cfg.Instance {
		return nil
	}
	err := checkReason(wish.Reason)
	if err == nil {
		err = r.cfg.Do(ctx, wish.Reason)
	} else {
		wish.Reason = ""
	}
	r.cfg.Log.Info().Err(err).Str("who", answer.ByNATS).Str("route", r.subject).Str("operation", "resign").
		Str("reason", wish.Reason).Msg("operator action")
	if err != nil {
		return refusing(answer.Problem(err)) // the error itself is for the log
	}
	return &reaction{body: []byte(`{"resigned":true}`)}
}

// maxReason is the maximum size of the reason of a resignation, in bytes.
const maxReason = 1000

// checkReason refuses a reason that no tarry instance sends.
func checkReason(reason string) error {
	if len(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		return &wire.Error{Word: wire.WordReason, Field: "reason",
			Detail: fmt.Sprintf("is longer than %d bytes or has a control character", maxReason)}
	}
	return nil
}

// Ask asks the named instance, the leader, to resign, and returns once it has resigned. Every error wraps
// ErrNotResigned.
func (r *Resign) Ask(ctx context.Context, instance, reason string) error {
	text, err := json.Marshal(resignWish{instance, reason})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotResigned, err)
	}
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	msg, err := r.cfg.Conn.RequestWithContext(ctx, r.subject, text)
	var said struct {
		Resigned bool `json:"resigned"`
		wire.Problem
	}
	if err == nil {
		err = json.Unmarshal(msg.Data, &said)
	}
	if err != nil {
		r.cfg.Log.Warn().Err(err).Str("leader", instance).Msg("the leader was asked to resign and did not answer")
		return fmt.Errorf("%w: %s, which leads, does not answer", ErrNotResigned, instance)
	}
	if !said.Resigned {
		return fmt.Errorf("%w: %s says: %s", ErrNotResigned, instance, said.Detail)
	}
	return nil
}
