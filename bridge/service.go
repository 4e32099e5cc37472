package bridge

import (
	"context"
	"encoding/json"
	"errors"
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
	Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error)
	CancelMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)
	RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
		progress func(scheduler.Report)) (scheduler.Report, error)
	RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error)
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
	// Read and Admin are further calls, by the last part of their subjects. Those of
	// operators are served where there are any.
	Read, Admin map[string]Call
	// Durable is what the answer to a push promises; empty is "redis".
	Durable string
	// Instance and Version are shown by nats micro ls and info.
	Instance, Version string

	Log zerolog.Logger
}

// Service is the request API: a NATS micro service called tarry, in the JSON of
// the HTTP API. Its endpoints are in three groups, so that permissions can tell
// them apart: tarry.<namespace>.read.* only looks, tarry.<namespace>.admin.* is
// for operators and not served unless that is asked for, and on
// tarry.<namespace>.api.* there are
//
//	push             one push, or a batch as {"messages":[…]}
//	get cancel run   {"id","key"}; run makes it due now
//	reschedule       {"id","key","version", delay | at | shift, "priority", body, "headers"}
//	cancel_many      {"topic","key","due_from","due_to","dry_run","all"}
//	reschedule_many  the same, and delay | at | shift
//	dead_requeue     {"id","key", "delay", body, "headers"}
//
// The two on many work through the whole selection, in bounded steps, and answer
// once: the report, or a problem with the report so far, after ten minutes at
// the latest. A client gives them its longest time-out; what it asks again goes
// on where the first request is, which does no harm but with shift, that moves
// twice.
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
	// They bound the goroutines of requests about one message, about many, of those
	// that look and of operators'; each holds room as well, so Run waits for them all.
	steering, many, looking, operating *room
	ctx                                atomic.Pointer[serving]
}

// serving are the contexts of Run for what requests start: work outlives run, so
// that what is under way at a stop is still answered.
type serving struct{ run, work context.Context }

const (
	serviceName    = "tarry"
	requestLimit   = 2000      // requests under way at once; more are told that we are busy
	requestBytes   = 128 << 20 // and their size
	requestTimeout = 5 * time.Second
	resultSize     = 1024 // what one result of a batch may take in the answer
	manyTimeout    = 10 * time.Minute
	// requests about one message under way at once; those that wait for the intake take nobody's place
	steeringAtOnce  = 256 + passRoom
	manyAtOnce      = 4 // requests about many; each asks the store a few dozen things at once
	answerHeadRoom  = 1024
	headerErrorCode = micro.ErrorCodeHeader
	headerError     = micro.ErrorHeader
)

// NewService checks the configuration.
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.Conn == nil || cfg.Scheduler == nil || cfg.Namespace == "" || cfg.Prefix == "" {
		return nil, errors.New("request api: a connection, a scheduler, a namespace and a prefix are needed")
	}
	s := &Service{cfg: cfg, nc: cfg.Conn, log: cfg.Log.With().Str("component", "request_api").Logger(),
		room:     newRoom(requestLimit, requestBytes),
		steering: newRoom(steeringAtOnce, requestBytes), many: newRoom(manyAtOnce, requestBytes),
		looking: newRoom(looksAtOnce, requestBytes), operating: newRoom(operatesAtOnce, requestBytes)}
	s.out = newAnswerQueue(cfg.Conn, s.room, s.log)
	return s, nil
}

// Run answers requests until ctx ends, and then those that are under way.
func (s *Service) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	answers, _ := errgroup.WithContext(work)
	answers.Go(func() error { return s.out.run(work) })
	s.ctx.Store(&serving{run: ctx, work: work})

	service := newMicroService(s.nc, s.log, semver(s.cfg.Version), "delayed messages: push, steer, look, operate",
		map[string]string{"namespace": s.cfg.Namespace, "instance": s.cfg.Instance})
	err := s.offer(service)
	if err == nil {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if stopErr := service.stop(); stopErr != nil && !s.nc.IsClosed() {
		s.log.Debug().Err(stopErr).Msg("request api did not stop in order")
	}
	limit, done := context.WithTimeout(work, requestTimeout)
	s.room.empty(limit)
	done()
	stop()
	_ = answers.Wait() // it returns nil
	return err
}

func (s *Service) marshal(v any) ([]byte, *wire.Problem) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, s.told(err)
	}
	return body, nil
}

// told returns an error as the caller sees it; the full error goes to the log.
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
	if ok, err := regexp.MatchString(
		`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`, v); err != nil || !ok {
		return "0.0.0"
	}
	return v
}
