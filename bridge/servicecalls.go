package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// Call answers a request with a status as in HTTP and a body in JSON.
type Call func(ctx context.Context, request []byte) (status int, body []byte)

const (
	looksAtOnce    = 32
	operatesAtOnce = 16
)

// offer adds all endpoints, in groups that permissions can tell apart, and introduces the service.
func (s *Service) offer(service *microService) error {
	for group, endpoints := range map[string]map[string]nats.MsgHandler{
		"api":   s.endpoints(),
		"read":  s.further(s.cfg.Read, s.looking, briefly),
		"admin": s.further(s.cfg.Admin, s.operating, long),
	} {
		for name, handle := range endpoints {
			if err := service.add(name, "tarry."+s.cfg.Namespace+"."+group+"."+name, handle); err != nil {
				return fmt.Errorf("request api: %w", err)
			}
		}
	}
	if err := service.introduce(); err != nil {
		return fmt.Errorf("request api: %w", err)
	}
	return nil
}

type bound func(*serving) (context.Context, context.CancelFunc)

// further are endpoints that others answer.
func (s *Service) further(calls map[string]Call, at *room, during bound) map[string]nats.MsgHandler {
	all := make(map[string]nats.MsgHandler, len(calls))
	for name, call := range calls {
		all[name] = s.steer(at, func(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
			return s.answered(call(ctx, data))
		}, during)
	}
	return all
}

// answered is a call's answer, where one message can hold it.
func (s *Service) answered(status int, body []byte) ([]byte, *wire.Problem) {
	body = bytes.TrimSuffix(body, []byte("\n"))
	if limit := int(s.nc.MaxPayload()) - answerHeadRoom; len(body) > limit && limit > 0 {
		return nil, &wire.Problem{Status: http.StatusRequestEntityTooLarge, Word: wire.WordTooLarge,
			Detail: fmt.Sprintf(
				"the answer has %d bytes, the server's max_payload leaves %d; ask for fewer with limit, or over HTTP",
				len(body), limit)}
	}
	if status < http.StatusBadRequest {
		return body, nil
	}
	p := wire.Problem{Status: status}
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, s.told(fmt.Errorf("read a problem: %w", err))
	}
	return nil, &p
}

// briefly bounds a request about one message, or a look.
func briefly(during *serving) (context.Context, context.CancelFunc) {
	return context.WithTimeout(during.work, requestTimeout)
}

// audited leaves a line in the log of what over HTTP only operators may do.
func (s *Service) audited(name, what string, do ask) ask {
	return func(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
		started := time.Now()
		body, problem := do(ctx, data)
		line := s.log.Info().Str("who", answer.ByNATS).Str("route", "tarry."+s.cfg.Namespace+".api."+name).
			Str("operation", what)
		parameters(line, data)
		status := http.StatusOK
		if problem != nil {
			line.Str("problem", problem.Word)
			status = problem.Status
		}
		line.Int("status", status).Dur("took", time.Since(started)).Msg("operator action")
		return body, problem
	}
}

// parameters adds what was asked for, never a body.
func parameters(line *zerolog.Event, data []byte) {
	if order, err := wire.DecodeDeadOrder(data); err == nil && order.One.ID != "" {
		line.Str("id", order.One.ID)
		return
	}
	sel, err := wire.DecodeSelection(data)
	if err != nil {
		if sel, _, err = wire.DecodeRescheduleMany(data); err != nil {
			return // it was refused
		}
	}
	line.Str("topic", sel.Topic).Bool("dry_run", sel.DryRun)
	if sel.HasKey {
		line.Str("key", sel.Key)
	}
}
