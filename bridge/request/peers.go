package request

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
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
		ctx, stop := context.WithTimeout(ctx, link.APITimeout)
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
	defer link.Unsubscribe(sub)
	<-ctx.Done()
	return context.Cause(ctx)
}

// refusing encodes a problem as an answer.
func refusing(p ops.Problem) *reaction {
	return &reaction{problem: &p, body: ops.AppendProblem(nil, &p)}
}
