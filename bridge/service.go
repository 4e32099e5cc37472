package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Steerer is what the request API asks: the scheduler.
type Steerer interface {
	Acceptor
	Get(ctx context.Context, ref scheduler.Ref) (scheduler.Info, error)
	Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error)
}

// ServiceConfig is what a Service is made of.
type ServiceConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Prefix is the intake's: what lies under it is no topic.
	Prefix    string
	Scheduler Steerer
	// SizeLimit bounds body and headers of a push; 0 is the server's limit alone.
	SizeLimit int
	// Durable is what the answer to a push promises; empty is "redis".
	Durable string
	// Instance and Version are shown by nats micro ls and info.
	Instance, Version string

	Log zerolog.Logger
}

// Service is the request API: a NATS micro service called tarry with the
// endpoints push, cancel and get on tarry.<namespace>.api.*, in the JSON of
// the HTTP API. push takes one push, or a batch as {"messages":[…]}; cancel
// and get take {"id","key"}.
//
// Every instance answers; NATS picks one. Who may call is the operator's
// permissions on these subjects alone: who may publish to push may schedule to
// any topic, whatever is permitted under the intake's prefix.
//
// An answer that is a problem carries its status in the header
// Nats-Service-Error-Code and its word in Nats-Service-Error, as micro services
// do, and {"error","detail"} as its body.
type Service struct {
	cfg  ServiceConfig
	nc   *nats.Conn
	log  zerolog.Logger
	out  *answerQueue
	room *room // requests under way, until they are answered
	// steering bounds the goroutines of cancels and look-ups; each holds room as
	// well, so Run waits for them all.
	steering *room
	ctx      atomic.Pointer[context.Context] // of Run, for what requests start
}

const (
	serviceName     = "tarry"
	requestLimit    = 2000      // requests under way at once; more are told that we are busy
	requestBytes    = 128 << 20 // and their size
	requestTimeout  = 5 * time.Second
	resultSize      = 1024 // what one result of a batch may take in the answer
	steeringAtOnce  = 256  // cancels and look-ups under way at once
	answerHeadRoom  = 1024
	headerErrorCode = micro.ErrorCodeHeader
	headerError     = micro.ErrorHeader
)

// NewService checks the configuration.
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.Conn == nil || cfg.Scheduler == nil || cfg.Namespace == "" || cfg.Prefix == "" {
		return nil, errors.New("request api: a connection, a scheduler, a namespace and a prefix are needed")
	}
	s := &Service{cfg: cfg, nc: cfg.Conn, log: cfg.Log.With().Str("component", "request_api").Logger(), room: newRoom(requestLimit, requestBytes),
		steering: newRoom(steeringAtOnce, requestBytes)}
	s.out = newAnswerQueue(cfg.Conn, s.room, s.log)
	return s, nil
}

// Run answers requests until ctx ends, and then those that are under way.
func (s *Service) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	answers, _ := errgroup.WithContext(work)
	answers.Go(func() error { return s.out.run(work) })
	s.ctx.Store(&work)

	service, err := micro.AddService(s.nc, micro.Config{
		Name: serviceName, Version: semver(s.cfg.Version), Description: "delayed messages: push, cancel and get",
		Metadata: map[string]string{"namespace": s.cfg.Namespace, "instance": s.cfg.Instance},
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			s.log.Warn().Str("subject", e.Subject).Str("error", e.Description).Msg("request api reported an error")
		},
	})
	if err != nil {
		stop()
		return errors.Join(fmt.Errorf("request api: %w", err), answers.Wait())
	}
	group := service.AddGroup("tarry." + s.cfg.Namespace + ".api")
	for name, handle := range map[string]micro.HandlerFunc{"push": s.push, "cancel": s.steer(s.cancel), "get": s.steer(s.get)} {
		if err = group.AddEndpoint(name, handle); err != nil {
			err = fmt.Errorf("request api: endpoint %s: %w", name, err)
			break
		}
	}
	if err == nil {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if stopErr := service.Stop(); stopErr != nil && !s.nc.IsClosed() {
		s.log.Debug().Err(stopErr).Msg("request api did not stop in order")
	}
	limit, done := context.WithTimeout(work, requestTimeout)
	s.room.empty(limit)
	done()
	stop()
	_ = answers.Wait() // it returns nil
	return err
}

// steer handles a request about one message: in a goroutine of its own, since
// the store is asked and answered for.
func (s *Service) steer(ask func(context.Context, scheduler.Ref, string) ([]byte, *wire.Problem)) micro.HandlerFunc {
	return func(req micro.Request) {
		reply, data := req.Reply(), req.Data()
		size := len(data)
		if !s.steering.try(size) {
			s.busy(reply)
			return
		}
		if !s.room.try(size) {
			s.steering.leave(1, int64(size))
			s.busy(reply)
			return
		}
		go func() { // Run waits for it: it holds room until it is answered
			defer s.steering.leave(1, int64(size))
			ctx, stop := context.WithTimeout(*s.ctx.Load(), requestTimeout)
			defer stop()
			s.out.put(s.asked(ctx, data, reply, size, ask))
		}()
	}
}

func (s *Service) asked(ctx context.Context, data []byte, reply string, size int, ask func(context.Context, scheduler.Ref, string) ([]byte, *wire.Problem)) reaction {
	id, key, keyed, err := wire.DecodeRef(data)
	if err != nil {
		return s.problem(reply, size, answer.Problem(err))
	}
	ref, err := answer.Ref(id, key, keyed)
	if err != nil {
		return s.problem(reply, size, answer.Problem(err))
	}
	body, problem := ask(ctx, ref, id)
	if problem != nil {
		return s.problem(reply, size, *problem)
	}
	return reaction{reply: reply, body: body, size: size}
}

func (s *Service) cancel(ctx context.Context, ref scheduler.Ref, id string) ([]byte, *wire.Problem) {
	result, err := s.cfg.Scheduler.Cancel(ctx, ref)
	if err != nil {
		return nil, s.told(err)
	}
	canceled, problem := answer.Cancel(id, &result)
	if problem != nil {
		return nil, problem
	}
	return s.marshal(canceled)
}

func (s *Service) get(ctx context.Context, ref scheduler.Ref, _ string) ([]byte, *wire.Problem) {
	info, err := s.cfg.Scheduler.Get(ctx, ref)
	if err != nil {
		return nil, s.told(err)
	}
	w := answer.Info(&info)
	body, problem := s.marshal(w)
	if limit := int(s.nc.MaxPayload()) - answerHeadRoom; len(body) > limit && limit > 0 {
		w.Body, w.BodyBase64, w.BodyOmitted = nil, nil, true
		body, problem = s.marshal(w)
	}
	return body, problem
}

func (s *Service) marshal(v any) ([]byte, *wire.Problem) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, s.told(err)
	}
	return body, nil
}

// told is an error as the caller sees it; what the caller is not told goes to the log.
func (s *Service) told(err error) *wire.Problem {
	p := answer.Problem(err)
	if p.Word == answer.WordInternal {
		s.log.Error().Err(err).Msg("request failed inside")
	}
	return &p
}

// semver is the version in the form that micro services insist on.
func semver(version string) string {
	v := strings.TrimPrefix(version, "v")
	if ok, err := regexp.MatchString(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`, v); err != nil || !ok {
		return "0.0.0"
	}
	return v
}
