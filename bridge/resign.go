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
)

// ResignConfig is what a Resign is made of.
type ResignConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Instance is this instance's name.
	Instance string
	// Do makes this instance resign, if it leads and another could take over; it
	// returns when it has. Who asked is told the words that bridge/answer has for its error.
	Do  func(ctx context.Context, reason string) error
	Log zerolog.Logger
}

// Resign carries an operator's wish that the leader resign from the instance that
// was asked to the leader: behind a proxy operators cannot choose whom they ask. It
// travels over core NATS, on tarry.<namespace>.resign.
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
	Error    string `json:"error,omitempty"` // the word of the problem
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
	if msg.Reply == "" || !isRequest(msg.Subject, r.subject, msg.Reply, msg.Header) ||
		json.Unmarshal(msg.Data, &wish) != nil ||
		wish.Instance != r.cfg.Instance {
		return // another's
	}
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	said := resignAnswer{Resigned: true}
	err := checkReason(wish.Reason)
	if err == nil {
		err = r.cfg.Do(ctx, wish.Reason)
	} else {
		wish.Reason = ""
	}
	if err != nil {
		p := answer.Problem(err) // the error itself is for the log
		said = resignAnswer{Error: p.Word, Detail: p.Detail}
	}
	r.cfg.Log.Info().Err(err).Str("who", answer.ByNATS).Str("route", r.subject).Str("operation", "resign").Str(
		"reason", wish.Reason).
		Msg("operator action")
	text, err := json.Marshal(said)
	if err == nil {
		err = msg.Respond(text)
	}
	if err != nil {
		r.cfg.Log.Warn().Err(err).Msg("answer to a resign not sent")
	}
}

// maxReason bounds why somebody resigns, in bytes.
const maxReason = 1000

// checkReason refuses what no tarry asks with.
func checkReason(reason string) error {
	if len(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		return &wire.Error{Word: wire.WordReason, Field: "reason",
			Detail: fmt.Sprintf("is longer than %d bytes or has a control character", maxReason)}
	}
	return nil
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
	var said resignAnswer
	if err == nil {
		err = json.Unmarshal(msg.Data, &said)
	}
	if err != nil {
		r.cfg.Log.Warn().Err(err).Str("leader", instance).Msg("the leader was asked to resign and gave no answer")
		return fmt.Errorf("%w: %s, which leads, gives no answer", ErrNotResigned, instance)
	}
	if !said.Resigned {
		return fmt.Errorf("%w: %s says: %s", ErrNotResigned, instance, said.Detail)
	}
	return nil
}
