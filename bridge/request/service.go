package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// Acceptor is the part of the scheduler that takes pushes.
type Acceptor interface {
	Accept(p *scheduler.Push, done func(scheduler.Accepted))
}

// ServiceConfig configures a Service.
type ServiceConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Prefix is the intake's prefix, under which no topic may lie.
	Prefix string
	// Topics are the settings of topics; nil: none has any.
	Topics    *scheduler.Topics
	Scheduler Acceptor
	// Ops has the operations. Those of operators are served only if Admin is set.
	Ops   *ops.Ops
	Admin bool
	// SizeLimit bounds body and headers of a push; 0 means only the server's limit.
	SizeLimit int
	// Durable is the durability that the answer to a push promises; empty means "redis".
	Durable string
	// Instance and Version are shown by nats micro ls and info.
	Instance, Version string

	Log zerolog.Logger
}

// Service is the request API: a NATS micro service called tarry, in the JSON of the HTTP API. Its endpoints are in
// three groups, which permissions can distinguish: tarry.<namespace>.read.* only reads, tarry.<namespace>.admin.* is
// for operators and served only if configured, and tarry.<namespace>.api.* has
//
//	push             one push, or a batch as {"messages":[…]}
//	get cancel run   {"id","key"}; run makes it due now
//	reschedule       {"id","key","version", delay | at | shift, "priority", body, "headers"}
//	cancel_many      {"topic","key","due_from","due_to","dry_run","all"}
//	reschedule_many  the same, and delay | at | shift
//	dead_requeue     {"id","key", "delay", body, "headers"}, or ids or a selection
//
// Beside them stands the direct door, tarry.<namespace>.push.<subject>, which takes pushes by tag (door.go).
//
// cancel_many and reschedule_many work through the whole selection, in bounded steps, and answer once: the report, or a
// problem with the report so far, after ten minutes at the latest. A client should use its longest time-out for them. A
// repeated request continues from the state that the first one reached, which is harmless except with shift, which
// moves messages twice.
//
// Every instance answers; NATS picks one. Only NATS permissions on these subjects decide who may call: a client that
// may publish to push may schedule to any topic, whatever it is permitted under the intake's prefix.
//
// An answer that is a problem carries its status in the header Nats-Service-Error-Code and its word in
// Nats-Service-Error, as micro services do, and {"error","detail"} as its body.
type Service struct {
	cfg  ServiceConfig
	nc   *nats.Conn
	log  zerolog.Logger
	out  *link.Queue[reaction]
	room *link.Room // requests under way, until they are answered
	// These bound the goroutines of producers' requests, of reads and of operators' requests; each also holds room, so
	// Run waits for them all. The API itself bounds how many operations on many messages run at a time.
	steering, looking, operating *link.Room
	ctx                          atomic.Pointer[serving]
}

// serving holds the contexts of Run for requests: work outlives run, so that requests in progress at a stop are still
// answered.
type serving struct{ run, work context.Context }

const (
	serviceName    = "tarry"
	requestLimit   = 2000      // requests in progress at once; further ones are answered busy
	requestBytes   = 128 << 20 // and their size
	requestTimeout = 5 * time.Second
	resultSize     = 1024 // what one result of a batch may take in the answer
	manyTimeout    = 10 * time.Minute
	// producers' requests in progress at once; those that wait for the intake have room of their own
	steeringAtOnce  = 256 + link.PassRoom
	answerHeadRoom  = 1024
	headerErrorCode = micro.ErrorCodeHeader
	headerError     = micro.ErrorHeader
)

// NewService checks the configuration.
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.Conn == nil || cfg.Scheduler == nil || cfg.Ops == nil || cfg.Namespace == "" || cfg.Prefix == "" {
		return nil, errors.New("request api: a connection, a scheduler, operations, a namespace and a prefix are needed")
	}
	s := &Service{cfg: cfg, nc: cfg.Conn, log: cfg.Log.With().Str("component", "request_api").Logger(),
		room:     link.NewRoom(requestLimit, requestBytes),
		steering: link.NewRoom(steeringAtOnce, requestBytes),
		looking:  link.NewRoom(looksAtOnce, requestBytes), operating: link.NewRoom(operatesAtOnce, requestBytes)}
	s.out = link.NewQueue[reaction](1)
	return s, nil
}

// Run answers requests until ctx ends, and then finishes those in progress.
func (s *Service) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var answers sync.WaitGroup
	answers.Go(func() { s.out.Publish(work, s.nc, s.send) })
	s.ctx.Store(&serving{run: ctx, work: scheduler.CalledBy(work, ops.ByNATS)})

	service := newMicroService(s.nc, s.log, semver(s.cfg.Version), "delayed messages: push, steer, look, operate",
		map[string]string{"namespace": s.cfg.Namespace, "instance": s.cfg.Instance})
	door := s.newDoor(service)
	err := door.open()
	if err == nil {
		err = s.offer(service)
	}
	if err == nil {
		err = door.serve(ctx)
	}
	if stopErr := service.stop(); stopErr != nil && !s.nc.IsClosed() {
		s.log.Debug().Err(stopErr).Msg("request api did not stop in order")
	}
	limit, done := context.WithTimeout(work, requestTimeout)
	s.room.Empty(limit)
	done()
	stop()
	answers.Wait()
	return err
}

// semver returns the version in the form that micro services require.
func semver(version string) string {
	v := strings.TrimPrefix(version, "v")
	if ok, err := regexp.MatchString(
		`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`, v); err != nil || !ok {
		return "0.0.0"
	}
	return v
}

// reaction is the answer to one request.
type reaction struct {
	reply   string // empty: no answer is expected
	body    []byte
	problem *ops.Problem
	size    int // of the request: the room that is free afterwards
}

// send publishes answers. On a lost connection they are lost anyway.
func (s *Service) send(answers []reaction) {
	for i := range answers {
		if r := &answers[i]; r.reply != "" {
			if err := s.nc.PublishMsg(r.message()); err != nil {
				s.log.Debug().Err(err).Msg("answer not sent")
			}
		}
		s.room.Leave(1, int64(answers[i].size))
	}
}

func (r *reaction) message() *nats.Msg {
	msg := &nats.Msg{Subject: r.reply, Data: r.body}
	if r.problem != nil {
		msg.Header = nats.Header{headerErrorCode: {strconv.Itoa(r.problem.Status)}, headerError: {r.problem.Word}}
	}
	return msg
}

// problem returns the answer for a problem.
func (s *Service) problem(reply string, size int, p ops.Problem) reaction {
	r := refusing(p)
	r.reply, r.size = reply, size
	return *r
}

// busy answers at once that there is no room for a request.
func (s *Service) busy(reply string) {
	if reply == "" {
		return
	}
	r := s.problem(reply, 0, ops.Problem{Status: http.StatusServiceUnavailable, Word: ops.WordBusy,
		Detail: "too many requests are under way; try again"})
	if err := s.nc.PublishMsg(r.message()); err != nil {
		s.log.Debug().Err(err).Msg("answer not sent")
	}
}

const (
	looksAtOnce    = 32
	operatesAtOnce = 16
)

// offer adds all endpoints, in groups that permissions can distinguish, and introduces the service. The order is fixed:
// once tarry.<namespace>.api.run answers, all endpoints do.
func (s *Service) offer(service *microService) error {
	everywhere := []string{">"}
	operator := &ops.Token{Name: ops.ByNATS, Push: everywhere, Pull: everywhere, Read: true, Operate: true}
	table := s.cfg.Ops.Table()
	for _, group := range []struct {
		name    ops.Group
		as      *ops.Token
		at      *link.Room
		offered bool
	}{
		{ops.GroupAdmin, operator, s.operating, s.cfg.Admin},
		{ops.GroupRead, &ops.Token{Name: ops.ByNATS, Read: true}, s.looking, true},
		{ops.GroupAPI, operator, s.steering, true},
	} {
		endpoints := map[string]nats.MsgHandler{}
		for _, op := range table {
			if group.offered && slices.Contains(op.Groups, group.name) {
				during := briefly
				if op.Long || group.name == ops.GroupAdmin { // to resign takes as long as the election
					during = long
				}
				endpoints[op.Name] = s.handler(op, group.as, group.at, during)
			}
		}
		if group.name == ops.GroupAPI {
			endpoints["push"] = s.push
		}
		for _, name := range slices.Sorted(maps.Keys(endpoints)) {
			subject := "tarry." + s.cfg.Namespace + "." + string(group.name) + "." + name
			if err := service.add(name, subject, endpoints[name]); err != nil {
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

// briefly returns the bounded context of a request about one message, or of a read.
func briefly(during *serving) (context.Context, context.CancelFunc) {
	return context.WithTimeout(during.work, requestTimeout)
}
