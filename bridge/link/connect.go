package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// ConnConfig configures a connection to NATS.
type ConnConfig struct {
	// URLs are nats:// or tls:// addresses.
	URLs []string
	// Name is shown in the server's list of connections.
	Name string

	// At most one of User with Password, Token and Creds is set.
	User, Password, Token string
	// Creds is the path of a credentials file.
	Creds string
	// TLS is set for custom certificates; a tls:// address alone uses the system's.
	TLS *tls.Config

	// OnState is called on every change of the state. Closed is reached only through Close and through errors that the
	// server calls fatal. OnState must not block. It may be nil.
	OnState func(ConnState, error)

	Log zerolog.Logger
}

// ConnState is the state of the connection.
type ConnState uint8

// The states of a connection.
const (
	// Disconnected means that the client is trying to reconnect.
	Disconnected ConnState = iota
	// Connected means that publishes reach a server.
	Connected
	// Closed means that the client has stopped reconnecting; only a new process, or a new Connect, helps.
	Closed
)

const (
	dialTimeout  = 2 * time.Second
	pingInterval = 2 * time.Second
	pingsMissed  = 2
	writeTimeout = 2 * time.Second
	QuietFor     = 10 * time.Second // between two log lines about the same trouble
)

// Connect opens a connection that never stops reconnecting: it returns at once, even if no server can be reached, and
// keeps trying. The connection buffers nothing while there is no server: a publish then fails instead of arriving
// later, when another instance may lead. A silent link is detected within three pings.
func Connect(ctx context.Context, cfg ConnConfig) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to nats: %w", context.Cause(ctx))
	}
	if len(cfg.URLs) == 0 {
		return nil, errors.New("connect to nats: no address is given")
	}
	h := &connEvents{cfg: cfg, log: cfg.Log.With().Str("component", "nats").Logger()}
	options := []nats.Option{
		nats.Name(cfg.Name),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(),
		nats.Timeout(dialTimeout), nats.FlusherTimeout(writeTimeout), nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsMissed),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.ConnectHandler(h.connected), nats.ReconnectHandler(h.connected), nats.ReconnectErrHandler(h.failed),
		nats.DisconnectErrHandler(h.disconnected), nats.ClosedHandler(h.closed), nats.ErrorHandler(h.asyncError),
	}
	switch {
	case cfg.Creds != "":
		options = append(options, nats.UserCredentials(cfg.Creds))
	case cfg.Token != "":
		options = append(options, nats.Token(cfg.Token))
	case cfg.User != "":
		options = append(options, nats.UserInfo(cfg.User, cfg.Password))
	}
	if cfg.TLS != nil {
		options = append(options, nats.Secure(cfg.TLS))
	}
	nc, err := nats.Connect(strings.Join(cfg.URLs, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	if !nc.IsConnected() {
		h.failed(nc, nc.LastError())
	}
	return nc, nil
}

// connEvents logs the events of one connection, repeating the same trouble only from time to time.
type connEvents struct {
	cfg ConnConfig
	log zerolog.Logger

	mu    sync.Mutex
	quiet map[string]time.Time
}

func (h *connEvents) connected(nc *nats.Conn) {
	h.log.Info().Str("server", address(nc)).Str("version", nc.ConnectedServerVersion()).Msg("connected to nats")
	h.notify(Connected, nil)
}

func (h *connEvents) disconnected(nc *nats.Conn, err error) {
	if nc.IsClosed() {
		return // closed logs more
	}
	h.log.Warn().Err(err).Msg("nats connection lost, reconnecting")
	h.notify(Disconnected, err)
}

func (h *connEvents) failed(_ *nats.Conn, err error) {
	if err != nil && h.loud("failed") {
		h.log.Warn().Err(err).Strs("servers", hosts(h.cfg.URLs)).Msg("nats cannot be reached, retrying")
	}
	h.notify(Disconnected, err)
}

func (h *connEvents) closed(nc *nats.Conn) {
	if err := nc.LastError(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		h.log.Error().Err(err).Msg("nats connection closed for good")
		h.notify(Closed, err)
		return
	}
	h.log.Info().Msg("nats connection closed")
	h.notify(Closed, nil)
}

func (h *connEvents) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if h.loud(err.Error()) {
		h.log.Warn().Err(err).Msg("nats reported an error")
	}
}

func (h *connEvents) notify(s ConnState, err error) {
	if h.cfg.OnState != nil {
		h.cfg.OnState(s, err)
	}
}

// loud reports whether it is time to log this again.
func (h *connEvents) loud(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Before(h.quiet[what]) {
		return false
	}
	if h.quiet == nil || len(h.quiet) > 100 {
		h.quiet = map[string]time.Time{}
	}
	h.quiet[what] = now.Add(QuietFor)
	return true
}

// address returns the server's address without the credentials that a URL may hold.
func address(nc *nats.Conn) string { return hosts([]string{nc.ConnectedUrlRedacted()})[0] }

func hosts(urls []string) []string {
	out := make([]string, len(urls))
	for i, raw := range urls {
		out[i] = "?"
		if u, err := url.Parse(raw); err == nil {
			out[i] = u.Host
		}
	}
	return out
}

// Unsubscribe ends a subscription; a closed connection has none left.
func Unsubscribe(sub *nats.Subscription) { _ = sub.Unsubscribe() }

// SizeLimit returns the limit of a push's body and headers together: the size that the server accepts once tarry's
// headers are added, or the configured limit if that is lower and not 0. Until a server has announced its limit, only
// the configured one applies; a message that turns out too large to deliver becomes dead, not lost.
func SizeLimit(nc *nats.Conn, configured int) int {
	limit := math.MaxInt
	if configured > 0 {
		limit = configured
	}
	if server := nc.MaxPayload(); server > wire.HeadRoom {
		limit = min(limit, int(server)-wire.HeadRoom)
	}
	return limit
}
