package request

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"
)

// microService is a NATS micro service: endpoints, and answers to the requests of `nats micro` on $SRV.>. The library's
// own service sends those answers to any subject that a caller names, and offers no way to prevent that. Here the rules
// of peers.go apply to them as to all other requests. The answers themselves are the library's.
type microService struct {
	nc        *nats.Conn
	log       zerolog.Logger
	identity  micro.ServiceIdentity
	about     string
	started   time.Time
	endpoints []*endpoint
	subs      []*nats.Subscription
}

// endpoint is a subject on which one of the instances answers.
type endpoint struct {
	name, subject string
	handle        nats.MsgHandler
	requests      atomic.Int64
	took          atomic.Int64 // nanoseconds
}

func newMicroService(nc *nats.Conn, log zerolog.Logger, version, about string,
	metadata map[string]string) *microService {
	return &microService{nc: nc, log: log, about: about, started: time.Now().UTC(),
		identity: micro.ServiceIdentity{Name: serviceName, ID: rand.Text(), Version: version, Metadata: metadata}}
}

// add serves an endpoint; all must be added before introduce.
func (m *microService) add(name, subject string, handle nats.MsgHandler) error {
	e := &endpoint{name: name, subject: subject, handle: handle}
	sub, err := m.nc.QueueSubscribe(subject, micro.DefaultQueueGroup, func(msg *nats.Msg) {
		if m.isRequest(subject, msg) {
			e.serve(msg)
		}
	})
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", subject, err)
	}
	m.endpoints, m.subs = append(m.endpoints, e), append(m.subs, sub)
	return nil
}

func (e *endpoint) serve(msg *nats.Msg) {
	began := time.Now()
	e.handle(msg)
	e.requests.Add(1)
	e.took.Add(int64(time.Since(began)))
}

// introduce answers the requests to all services, to all services of this name, and to this one.
func (m *microService) introduce() error {
	for verb, say := range map[micro.Verb]func() any{
		micro.PingVerb:  func() any { return micro.Ping{ServiceIdentity: m.identity, Type: micro.PingResponseType} },
		micro.InfoVerb:  m.info,
		micro.StatsVerb: m.stats,
	} {
		for _, who := range [][2]string{{}, {m.identity.Name}, {m.identity.Name, m.identity.ID}} {
			subject, err := micro.ControlSubject(verb, who[0], who[1])
			if err != nil {
				return fmt.Errorf("answer %s: %w", verb, err)
			}
			sub, err := m.nc.Subscribe(subject, func(msg *nats.Msg) { m.respond(subject, msg, say) })
			if err != nil {
				return fmt.Errorf("answer on %s: %w", subject, err)
			}
			m.subs = append(m.subs, sub)
		}
	}
	return nil
}

func (m *microService) respond(subject string, msg *nats.Msg, say func() any) {
	if msg.Reply == "" || !m.isRequest(subject, msg) {
		return
	}
	text, err := json.Marshal(say())
	if err == nil {
		err = msg.Respond(text)
	}
	if err != nil {
		m.log.Debug().Err(err).Str("subject", subject).Msg("answer not sent")
	}
}

// isRequest reports whether a message was published to the subject itself and has an inbox as its reply subject.
func (m *microService) isRequest(own string, msg *nats.Msg) bool {
	if isRequest(msg.Subject, own, msg.Reply, msg.Header) {
		return true
	}
	m.log.Debug().Str("subject", own).Str("from", msg.Subject).Msg("ignored a message that is not a request")
	return false
}

func (m *microService) info() any {
	all := make([]micro.EndpointInfo, len(m.endpoints))
	for i, e := range m.endpoints {
		all[i] = micro.EndpointInfo{Name: e.name, Subject: e.subject, QueueGroup: micro.DefaultQueueGroup}
	}
	return micro.Info{ServiceIdentity: m.identity, Type: micro.InfoResponseType, Description: m.about, Endpoints: all}
}

func (m *microService) stats() any {
	all := make([]*micro.EndpointStats, len(m.endpoints))
	for i, e := range m.endpoints {
		n, took := e.requests.Load(), time.Duration(e.took.Load())
		all[i] = &micro.EndpointStats{Name: e.name, Subject: e.subject, QueueGroup: micro.DefaultQueueGroup,
			NumRequests: int(n), ProcessingTime: took, AverageProcessingTime: took / time.Duration(max(n, 1))}
	}
	return micro.Stats{ServiceIdentity: m.identity, Type: micro.StatsResponseType, Started: m.started, Endpoints: all}
}

// stop accepts no more requests; those that have arrived are still handled.
func (m *microService) stop() error {
	var all []error
	for _, sub := range m.subs {
		if err := sub.Drain(); err != nil {
			all = append(all, fmt.Errorf("drain %s: %w", sub.Subject, err))
		}
	}
	return errors.Join(all...)
}
