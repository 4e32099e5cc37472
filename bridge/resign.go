package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// ResignConfig is what a Resign is made of.
type ResignConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Instance is this instance's name.
	Instance string
	// Do makes this instance resign, if it leads; it returns when it has.
	Do  func(ctx context.Context, reason string) error
	Log zerolog.Logger
}

// Resign carries an operator's wish that the leader resign from the instance
// that was asked to the one that leads: behind a proxy nobody chooses whom he
// asks. It travels over core NATS, on tarry.<namespace>.resign.
type Resign struct {
	cfg     ResignConfig
	subject string
}

// ErrNotResigned: the leader was asked and did not resign, or did not answer.
var ErrNotResigned = errors.New("the leader did not resign")

type resignWish struct {
	Instance string `json:"instance"`
	Reason   string `json:"reason"`
}

type resignAnswer struct {
	Resigned bool   `json:"resigned"`
	Detail   string `json:"detail,omitempty"`
}

// NewResign checks the configuration.
func NewResign(cfg ResignConfig) (*Resign, error) {
	if cfg.Conn == nil || cfg.Namespace == "" || cfg.Instance == "" || cfg.Do == nil {
		return nil, errors.New("resign: a connection, a namespace, an instance and somebody to resign are needed")
	}
	return &Resign{cfg: cfg, subject: "tarry." + cfg.Namespace + ".resign"}, nil
}

// Run listens for wishes that name this instance until ctx ends.
func (r *Resign) Run(ctx context.Context) error {
	sub, err := r.cfg.Conn.Subscribe(r.subject, func(msg *nats.Msg) { r.heard(ctx, msg) })
	if err != nil {
		return fmt.Errorf("resign: listen: %w", err)
	}
	defer unsubscribe(sub)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (r *Resign) heard(ctx context.Context, msg *nats.Msg) {
	var wish resignWish
	if msg.Reply == "" || json.Unmarshal(msg.Data, &wish) != nil || wish.Instance != r.cfg.Instance {
		return // another's
	}
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	answer := resignAnswer{Resigned: true}
	if err := r.cfg.Do(ctx, wish.Reason); err != nil {
		answer = resignAnswer{Detail: err.Error()}
	}
	text, err := json.Marshal(answer)
	if err == nil {
		err = msg.Respond(text)
	}
	if err != nil {
		r.cfg.Log.Warn().Err(err).Msg("answer to a resign not sent")
	}
}

// Ask asks the named instance, which leads, to resign, and returns when it
// has. Any error is ErrNotResigned.
func (r *Resign) Ask(ctx context.Context, instance, reason string) error {
	text, err := json.Marshal(resignWish{instance, reason})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotResigned, err)
	}
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	msg, err := r.cfg.Conn.RequestWithContext(ctx, r.subject, text)
	if err != nil {
		return fmt.Errorf("%w: ask %s: %w", ErrNotResigned, instance, err)
	}
	var answer resignAnswer
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("%w: answer of %s: %w", ErrNotResigned, instance, err)
	}
	if !answer.Resigned {
		return fmt.Errorf("%w: %s says: %s", ErrNotResigned, instance, answer.Detail)
	}
	return nil
}
