package request

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
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
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

// NewResign checks the configuration.
func NewResign(cfg ResignConfig) (*Resign, error) {
	if cfg.Conn == nil || cfg.Namespace == "" || cfg.Instance == "" {
		return nil, errors.New("resign: a connection, a namespace and an instance are needed")
	}
	return &Resign{cfg: cfg, subject: "tarry." + cfg.Namespace + ".resign"}, nil
}

// Run answers the requests that name this instance until ctx ends. do makes this instance resign, if it leads and
// another could take over, and returns once it has resigned. The requester gets its error in the words of
// bridge/answer.
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
	err := checkReason(wish.Reason)
	if err == nil {
		err = do(ctx, wish.Reason)
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
	ctx, stop := context.WithTimeout(ctx, link.APITimeout)
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
