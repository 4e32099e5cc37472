package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// PausesConfig is what a Pauses is made of.
type PausesConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Read reads what is paused, where this instance leads, and reports whether it does.
	Read func(ctx context.Context) (leads bool, err error)
	Log  zerolog.Logger
}

// Pauses lets the instance that paused or resumed a topic wait until the leader has
// read that. It travels over core NATS, on tarry.<namespace>.pauses. A request is
// empty. An answer is empty too, or has the problem, in the form of the request API.
// So whoever may send either can at most make the leader read the pauses, or make an
// answer come too early.
type Pauses struct {
	cfg     PausesConfig
	subject string
}

// ErrNotRead: no leader has said that it read what is paused.
var ErrNotRead = errors.New("no leader has read the pauses")

// NewPauses checks the configuration.
func NewPauses(cfg PausesConfig) (*Pauses, error) {
	if cfg.Conn == nil || cfg.Namespace == "" || cfg.Read == nil {
		return nil, errors.New("pauses: a connection, a namespace and somebody to read them are needed")
	}
	return &Pauses{cfg: cfg, subject: "tarry." + cfg.Namespace + ".pauses"}, nil
}

// Run answers for this instance, while it leads, until ctx ends.
func (p *Pauses) Run(ctx context.Context) error {
	sub, err := p.cfg.Conn.Subscribe(p.subject, func(msg *nats.Msg) { p.heard(ctx, msg) })
	if err != nil {
		return fmt.Errorf("pauses: listen: %w", err)
	}
	defer unsubscribe(sub)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (p *Pauses) heard(ctx context.Context, msg *nats.Msg) {
	if msg.Reply == "" || !isRequest(msg.Subject, p.subject, msg.Reply, msg.Header) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	leads, err := p.cfg.Read(ctx)
	if !leads {
		return // another answers
	}
	out := reaction{reply: msg.Reply, body: []byte(`{"read":true}`)}
	if err != nil {
		p.cfg.Log.Warn().Err(err).Msg("what is paused was asked for and cannot be read")
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w: the pauses were not read in time", scheduler.ErrUnavailable)
		}
		problem := answer.Problem(err)
		out.problem, out.body = &problem, wire.AppendProblem(nil, &problem)
	}
	if err := msg.RespondMsg(out.message()); err != nil {
		p.cfg.Log.Warn().Err(err).Msg("answer to a pause not sent")
	}
}

// Ask asks the leader, whoever it is, to read what is paused, and returns when it
// has. Any error is ErrNotRead.
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
