package request

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
