package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Service is what the scheduler does for this door.
type Service interface {
	AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted
	Get(ctx context.Context, ref scheduler.Ref) (scheduler.Info, error)
	// Resolve is the one message that a change would mean. ErrUnknownID, ErrAmbiguousID.
	Resolve(ctx context.Context, ref scheduler.Ref) (scheduler.Info, error)
	Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error)
	Steering
}

// Config is what a Server is made of. Where a field says so, its zero value means a default.
type Config struct {
	Service Service
	Cluster Cluster
	// Journal answers what only the journal knows. None: it is off, and these routes answer 501 needs_journal.
	Journal Journal
	// Rejects are the pushes by tag that were refused. None: these routes answer 501 needs_jetstream.
	Rejects Rejects
	// JournalMode is the mode as settings call it, off, async or sync, for /v1/cluster; empty: /v1/cluster says nothing
	// of it.
	JournalMode string
	// Ready looks at everything that an instance needs to do its part, leader or standby. None: always ready.
	Ready func(ctx context.Context) []Check

	Namespace string
	Version   string // of the binary, for the build metric
	// Token is what clients must send; it has all rights. Tokens are further ones, each with rights of its own. Without
	// either anybody may call.
	Token  string
	Tokens []Token
	// Hosts are the names under which clients reach a server that has no tokens, beside addresses and localhost: see
	// host.go.
	Hosts []string
	// TLS is spoken by Run, where it is set: see NewTLS.
	TLS *tls.Config
	// Prefix is the first part of the intake's subjects, which no topic may lie under. Default: wire.DefaultPrefix.
	Prefix string
	// Durable is what the answer to a push promises. Default: "redis". With the journal in sync it is "journal",
	// whatever stands here.
	Durable string
	// MaxPayload is NATS's limit for one message, headers counted; 0 while it is not known.
	MaxPayload func() int64
	// MaxBody bounds the body of one request. Default: 8 MiB.
	MaxBody int64
	// Timeout bounds the work on one request, once it is read. It should be above what the scheduler takes to give a
	// push up, since only the scheduler knows the uid to repeat an unknown outcome with. Default: 30 s.
	Timeout time.Duration
	// HeaderTimeout and ReadTimeout bound how long a client may take to send its headers, and all of its request.
	// Defaults: 5 s and 30 s.
	HeaderTimeout, ReadTimeout time.Duration
	// IdleTimeout bounds how long a connection waits for its next request. Default: 2 min.
	IdleTimeout time.Duration
	// HeaderLimit bounds the headers of a request, in bytes. Default: 16 KiB.
	HeaderLimit int
	// Connections bounds how many there are at once. Default: 10,000.
	Connections int
	// StopTimeout bounds how long Run waits for requests under way when it stops. Default: 10 s.
	StopTimeout time.Duration
	// ProgressEvery is how often a long operation reports its progress. Default: 1 s.
	ProgressEvery time.Duration
	// Now is the clock that "2h ago" and forecasts count from. Default: time.Now.
	Now func() time.Time

	// Gatherer is what /metrics shows.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	Log        zerolog.Logger
}

// Server answers HTTP. It may be served by Run or stand in another server as a handler.
type Server struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	mux     *http.ServeMux
	// patterns are all routes; handlers are those that need a right, by pattern.
	patterns []string
	handlers map[string]guarded
	guard    guard
	origin   *http.CrossOriginProtection
	reading  atomic.Int64 // bytes of the bodies being read or judged
	buffers  sync.Pool    // of *[]byte, for answers

	restoring, verifying, redelivering           exclusive
	canceling, rescheduling, requeueing, purging exclusive
	// stopping ends when Run begins to stop: long operations end then, too.
	stopping context.Context
	stopLong context.CancelFunc
}

// bodiesAtOnce is how many bodies of the largest size may be held at the same time.
const bodiesAtOnce = 32

// New checks the configuration and builds a Server.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Service == nil || cfg.Cluster == nil || cfg.Gatherer == nil:
		return nil, errors.New("api: a service, a cluster and a gatherer are needed")
	case cfg.MaxBody < 0 || cfg.Timeout < 0 || cfg.HeaderTimeout < 0 || cfg.ReadTimeout < 0 || cfg.StopTimeout < 0 ||
		cfg.ProgressEvery < 0 ||
		cfg.IdleTimeout < 0 || cfg.HeaderLimit < 0 || cfg.Connections < 0:
		return nil, errors.New("api: limits and time-outs must not be negative")
	case !slices.Contains([]string{"", journalOff, journalAsync, journalSync}, cfg.JournalMode):
		return nil, fmt.Errorf("api: the journal's mode is %q; want %s, %s or %s", cfg.JournalMode, journalOff,
			journalAsync, journalSync)
	case cfg.Journal == nil && (cfg.JournalMode == journalAsync || cfg.JournalMode == journalSync):
		return nil, fmt.Errorf("api: the journal's mode is %s, and there is none", cfg.JournalMode)
	}
	if cfg.JournalMode == journalSync {
		cfg.Durable = wire.DurableJournal
	}
	orDefault(&cfg.Prefix, wire.DefaultPrefix)
	orDefault(&cfg.Durable, wire.DurableRedis)
	orDefault(&cfg.MaxBody, 8<<20)
	orDefault(&cfg.Timeout, 30*time.Second)
	orDefault(&cfg.HeaderTimeout, 5*time.Second)
	orDefault(&cfg.ReadTimeout, 30*time.Second)
	orDefault(&cfg.IdleTimeout, 2*time.Minute)
	orDefault(&cfg.HeaderLimit, 16<<10) // user headers of a message stand in its body
	orDefault(&cfg.Connections, 10_000)
	orDefault(&cfg.StopTimeout, 10*time.Second)
	orDefault(&cfg.ProgressEvery, time.Second)
	if cfg.MaxPayload == nil {
		cfg.MaxPayload = func() int64 { return 0 }
	}
	if cfg.Ready == nil {
		cfg.Ready = func(context.Context) []Check { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registerer, cfg.Version),
		mux: http.NewServeMux(), handlers: map[string]guarded{}, origin: http.NewCrossOriginProtection(),
	}
	s.SetTokens(cfg.Tokens)
	s.stopping, s.stopLong = context.WithCancel(context.Background())
	s.routes()
	return s, nil
}

func orDefault[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}
