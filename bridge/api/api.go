package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Config configures a Server. Where a field says so, its zero value means a default.
type Config struct {
	// Config is what the operations need. Where it says so, New sets what is left out: the timeout is 30 s, the prefix
	// wire.DefaultPrefix, the durability "redis" or in sync mode always "journal", the limit of sizes MaxBody.
	ops.Config
	// Ready checks everything that an instance needs, whether leader or standby. If nil, the instance is always ready.
	Ready func(ctx context.Context) []Check

	// Token is the token that clients must send; it has all rights. Tokens are further tokens, each with its own
	// rights. Without either, anybody may call.
	Token  string
	Tokens []Token
	// SeedsToken names the token whose rights the callers of RunSeeds have.
	SeedsToken string
	// Hosts are the host names of a server that has no tokens, besides addresses and localhost: see ownHost.
	Hosts []string
	// Proxies are networks whose addresses stand for many callers: see bodies.
	Proxies []netip.Prefix
	// TLS makes Run serve HTTPS, if set: see NewTLS.
	TLS *tls.Config
	// MaxBody bounds the body of a request. Default: 8 MiB.
	MaxBody int64
	// HeaderTimeout and ReadTimeout bound how long a client may take to send its headers, and its whole request.
	// Defaults: 5 s and 30 s.
	HeaderTimeout, ReadTimeout time.Duration
	// IdleTimeout bounds how long a connection waits for its next request. Default: 2 min.
	IdleTimeout time.Duration
	// HeaderLimit bounds the headers of a request, in bytes. Default: 16 KiB.
	HeaderLimit int
	// Connections bounds the number of open connections. Default: 10,000.
	Connections int
	// StopTimeout bounds how long Run waits for the requests in progress when it stops. Default: 10 s.
	StopTimeout time.Duration
	// Console serves the page at /console.
	Console bool
	// ProgressEvery is how often a long operation reports its progress. Default: 1 s.
	ProgressEvery time.Duration

	// Gatherer supplies the metrics of /metrics.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
}

// Server answers HTTP requests. Run serves it, or another server uses it as a handler.
type Server struct {
	cfg       Config
	log       zerolog.Logger
	metrics   *metrics
	mux       *http.ServeMux
	ops       *ops.Ops
	patterns  []string                  // of all routes
	named     map[string]*ops.Operation // by name
	mounted   map[string]time.Duration  // how late routes of other systems refuse, by pattern
	guard     guard
	origin    *http.CrossOriginProtection
	reading   bodies    // being read or checked
	answering bodies    // of messages that polls get
	buffers   sync.Pool // of *[]byte, for answers

	// stopping ends when Run begins to stop, which also ends long operations.
	stopping context.Context
	stopLong context.CancelFunc
}

// bodiesAtOnce is the number of bodies of the maximum size that may be held at the same time.
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
		return nil, fmt.Errorf("api: the journal's mode is %s, but there is no journal", cfg.JournalMode)
	}
	if cfg.JournalMode == journalSync {
		cfg.Durable = ops.DurableJournal
	}
	orDefault(&cfg.Prefix, wire.DefaultPrefix)
	orDefault(&cfg.Durable, ops.DurableRedis)
	orDefault(&cfg.MaxBody, 8<<20)
	orDefault(&cfg.SizeLimit, int(cfg.MaxBody))
	orDefault(&cfg.Timeout, 30*time.Second)
	orDefault(&cfg.HeaderTimeout, 5*time.Second)
	orDefault(&cfg.ReadTimeout, 30*time.Second)
	orDefault(&cfg.IdleTimeout, 2*time.Minute)
	orDefault(&cfg.HeaderLimit, 16<<10) // user headers of a message are in its body
	orDefault(&cfg.Connections, 10_000)
	orDefault(&cfg.StopTimeout, 10*time.Second)
	orDefault(&cfg.ProgressEvery, time.Second)
	if cfg.MaxPayload == nil {
		cfg.MaxPayload = func() int64 { return 0 }
	}
	if cfg.Ready == nil {
		cfg.Ready = func(context.Context) []Check { return nil }
	}
	if cfg.Overview == nil {
		cfg.Overview = func(context.Context) ops.Overview { return ops.Overview{Conditions: []ops.Condition{}} }
	}
	if cfg.Hour == nil {
		cfg.Hour = func(context.Context) (ops.Hour, error) { return ops.Hour{}, ops.ErrUnreachable }
	}
	if cfg.Events == nil {
		cfg.Events = func(context.Context) ([]scheduler.Event, []string, error) { return nil, nil, nil }
		cfg.Actions = func(context.Context) ([]record.Action, []string, error) { return nil, nil, nil }
	}
	if cfg.Details == nil {
		cfg.Details = func(context.Context) (map[string]*ops.InstanceDetail, error) { return nil, nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.HoldLimit = cfg.MaxBody
	cfg.Checks = func(ctx context.Context) []ops.Check { return ownChecks(cfg.Ready(ctx)) }
	s := &Server{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registerer, cfg.Version), ops: ops.New(cfg.Config),
		mux: http.NewServeMux(), named: map[string]*ops.Operation{}, mounted: map[string]time.Duration{},
		origin: http.NewCrossOriginProtection()}
	s.ops.Hold = s.hold
	s.SetTokens(cfg.Tokens)
	s.stopping, s.stopLong = context.WithCancel(context.Background())
	s.routes()
	return s, s.consoleRoutes()
}

func orDefault[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

// Ops returns the operations that the server offers, for other doors.
func (s *Server) Ops() *ops.Ops { return s.ops }

// The modes of the journal, as in the settings.
const (
	journalOff   = "off"
	journalAsync = "async"
	journalSync  = "sync"
)
