package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// ResignConfig configures a Resign.
type ResignConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Instance is this instance's name.
	Instance string
	Log      zerolog.Logger
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

// NewResign returns a Resign. Every field of cfg must be set.
func NewResign(cfg ResignConfig) *Resign {
	return &Resign{cfg: cfg, subject: "tarry." + cfg.Namespace + ".resign"}
}

// Run answers the requests that name this instance until ctx ends. do makes this instance resign, if it leads and
// another could take over, and returns once it has resigned. The requester gets its error in the words of
// bridge/ops.
func (r *Resign) Run(ctx context.Context, do func(ctx context.Context, reason string) error) error {
	return hear(ctx, r.cfg.Conn, r.subject, r.cfg.Log,
		func(ctx context.Context, request []byte) *reaction { return r.heard(ctx, request, do) })
}

func (r *Resign) heard(ctx context.Context, request []byte,
	do func(ctx context.Context, reason string) error) *reaction {
	var wish resignWish
	if json.Unmarshal(request, &wish) != nil || wish.Instance != r.cfg.Instance {
		return nil
	}
	wish.Reason = wire.CleanReason(wish.Reason)
	err := do(ctx, wish.Reason)
	r.cfg.Log.Info().Err(err).Str("who", ops.ByNATS).Str("route", r.subject).Str("operation", "resign").
		Str("reason", wish.Reason).Msg("operator action")
	if err != nil {
		return refusing(ops.ProblemOf(err)) // the error itself is for the log
	}
	return &reaction{body: []byte(`{"resigned":true}`)}
}

// Ask asks the named instance, the leader, to resign, and returns once it has resigned. Every error wraps
// ErrNotResigned.
func (r *Resign) Ask(ctx context.Context, instance, reason string) error {
	text, err := json.Marshal(resignWish{instance, reason})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotResigned, err)
	}
	ctx, stop := context.WithTimeout(ctx, link.APITimeout)
	defer stop()
	msg, err := r.cfg.Conn.RequestWithContext(ctx, r.subject, text)
	var said struct {
		Resigned bool `json:"resigned"`
		ops.Problem
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

// NewPauses returns a Pauses. Every field of cfg must be set.
func NewPauses(cfg PausesConfig) *Pauses {
	return &Pauses{cfg: cfg, subject: "tarry." + cfg.Namespace + ".pauses"}
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
	return refusing(ops.ProblemOf(err))
}

// Ask asks the leader to read the pauses, and returns once it has read them. Every error wraps ErrNotRead.
func (p *Pauses) Ask(ctx context.Context) error {
	msg, err := p.cfg.Conn.RequestWithContext(ctx, p.subject, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRead, err)
	}
	var said struct {
		Read bool `json:"read"`
		ops.Problem
	}
	if err := json.Unmarshal(msg.Data, &said); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRead, err)
	}
	if !said.Read {
		return fmt.Errorf("%w: the leader says: %s", ErrNotRead, said.Detail)
	}
	return nil
}
