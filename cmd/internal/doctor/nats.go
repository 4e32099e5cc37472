package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
)

// natsSeen is the account that tarry serve would work in.
type natsSeen struct {
	*patient
	*notes

	nc *nats.Conn
	// clustered reports whether streams can have several copies here.
	clustered bool
}

// natsRules hold what a server says of itself.
var natsRules = []rule{
	{"version", "version<2.9", Fail, "{version}", "upgrade nats-server to 2.9 or later"},
	{"version", "version<2.10", Warn,
		"{version} shows no time, so that only two clocks vote and a slow one holds messages back",
		"upgrade nats-server to 2.10 or later"},
	{"version", "", OK, "{version}", ""},
}

// accountRules hold what is the same on all servers of NATS.
var accountRules = []rule{
	{"max_payload", "max_payload>{http.body_limit}", Warn,
		"a message may have {payload}, including its headers, more than http.body_limit ({body}): a larger push by tag is " +
			"rejected only after NATS has acknowledged it",
		"raise http.body_limit to {payload}, or lower max_payload in nats-server.conf"},
	{"max_payload", "max_payload>0", OK, "a message may have {payload}, including its headers", ""},
	{"sync_interval", "sync_always=true", OK, "always, on {server}", ""},
	{"sync_interval", "sync_interval>0s", Warn,
		"{sync_interval} on {server}: NATS acknowledges messages before they are on disk, and a power failure loses those " +
			"(Jepsen, NATS 2.12.1: 131,418 of 930,005)", syncChange},
	{"sync_interval", "sync_interval=unknown", Unknown,
		"servers show it only to their system account; the default is 2 minutes, and a power failure of all copies loses " +
			"what NATS acknowledged in that time", syncChange},
}

const syncChange = "sync_interval: always in the jetstream block of every nats-server.conf, and 3 replicas on " +
	"machines that do not lose power together"

// natsServers looks at each server alone, then through one of them at the account.
func (p *patient) natsServers(ctx context.Context) ([]Check, []reading) {
	urls := p.cfg.NATS.URL
	conns := make([]*nats.Conn, len(urls))
	checks, _ := side(urls, func(i int, u string) ([]Check, []reading) {
		n := p.notes("nats", hostOf(u))
		conns[i] = p.natsServer(ctx, n, u)
		return n.checks, nil
	})
	conns = slices.DeleteFunc(conns, func(nc *nats.Conn) bool { return nc == nil })
	if len(conns) == 0 {
		return checks, nil
	}
	defer func() {
		for _, nc := range conns {
			nc.Close()
		}
	}()
	othersStandIn(checks)
	s := &natsSeen{patient: p, notes: p.notes("nats", ""), nc: conns[0]}
	clocks := s.account(ctx)
	return append(checks, s.checks...), clocks
}

func hostOf(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return raw
}

// natsServer connects to one server as tarry serve does; nil when that fails.
func (p *patient) natsServer(ctx context.Context, n *notes, u string) *nats.Conn {
	c := p.cfg.NATS
	certificates, err := c.TLS.Client("nats.tls")
	if err != nil {
		n.broken("reachable", err, "correct the settings nats.tls.*")
		return nil
	}
	news := make(chan error, 16) // nil: connected
	nc, err := link.Connect(ctx, link.ConnConfig{
		URLs: []string{u}, Name: "tarry/" + p.cfg.Namespace + "/doctor", User: c.User, Password: c.Password.Reveal(),
		Token: c.Token.Reveal(), Creds: c.Creds,
		TLS: certificates, Log: zerolog.Nop(),
		OnState: func(_ link.ConnState, err error) {
			select {
			case news <- err:
			default:
			}
		},
	})
	if err != nil {
		n.broken("reachable", err, "correct nats.url, nats.user, nats.password, nats.token or nats.creds")
		return nil
	}
	call, cancel := p.within(ctx)
	defer cancel()
	var last error
	for !nc.IsConnected() && call.Err() == nil && (last == nil || !final(last)) {
		select {
		case err := <-news:
			last = cmp.Or(err, last)
		case <-call.Done():
		}
	}
	if !nc.IsConnected() {
		nc.Close()
		last = cmp.Or(last, fmt.Errorf("no answer within %s", p.timeout))
		n.broken("reachable", last, natsChange(last))
		return nil
	}
	trip, err := nc.RTT()
	if err != nil {
		nc.Close()
		n.broken("reachable", err, "check the network between here and NATS")
		return nil
	}
	n.ok("reachable", "NATS %s, a round trip takes %s", nc.ConnectedServerVersion(), round(trip))
	n.apply(natsRules, facts{"version": nc.ConnectedServerVersion()})
	return nc
}

// final errors do not pass within a check's time-out.
func final(err error) bool {
	text := err.Error()
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted) ||
		errors.Is(err, nats.ErrNoServers) ||
		strings.Contains(text, "connection refused") || strings.Contains(text, "no such host") ||
		strings.Contains(text, "tls:") || strings.Contains(text, "x509:")
}

func natsChange(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, nats.ErrAuthorization) || strings.Contains(text, "uthentication") ||
		strings.Contains(text, "uthorization"):
		return "correct nats.user and nats.password, nats.token or nats.creds"
	case errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted) ||
		strings.Contains(text, "tls:") || strings.Contains(text, "x509:"):
		return "nats.url and nats.tls.* must match the server: tls:// if it asks for TLS, nats.tls.ca if its " +
			"certificate has an authority of your own"
	}
	return "start nats-server, open the port, or correct nats.url"
}

// account checks what is the same on all servers.
func (s *natsSeen) account(ctx context.Context) []reading {
	s.clustered = s.nc.ConnectedClusterName() != ""
	s.payload()
	if !s.listens(ctx) {
		return nil
	}
	if !s.jetStream(ctx) {
		s.rights(ctx)
		return nil
	}
	var streams []link.StreamInfo
	err := s.asked(ctx, func(ctx context.Context) (err error) {
		streams, _, err = link.ListStreams(ctx, s.nc)
		return err
	})
	if err != nil {
		s.broken("streams", err, "let the user publish to "+apiStreamList+
			": nothing is delivered until the streams can be listed")
		return nil
	}
	s.intake(ctx, streams)
	s.rejects(ctx, streams)
	s.destinations(streams)
	s.topics(streams)
	s.rights(ctx)
	s.syncInterval(ctx)
	return s.clock(ctx)
}

func (s *natsSeen) payload() {
	most, body := s.nc.MaxPayload(), s.cfg.HTTP.BodyLimit
	s.apply(accountRules, facts{"max_payload": strconv.FormatInt(most, 10), "payload": size(most),
		"http.body_limit": strconv.FormatInt(body, 10), "body": size(body)})
}

// listens reports whether the user may receive answers. If not, nothing else can be checked.
func (s *natsSeen) listens(ctx context.Context) bool {
	err := s.maySubscribe(ctx, s.nc.NewInbox())
	if err != nil {
		s.broken("inbox", err, "let the user subscribe to _INBOX.>: tarry receives no answers, so it delivers nothing")
		return false
	}
	return true
}

const (
	apiInfo       = "$JS.API.INFO"
	apiStreamList = "$JS.API.STREAM.LIST"
	apiStreamInfo = "$JS.API.STREAM.INFO."

	apiConsumerInfo = "$JS.API.CONSUMER.INFO."
)

// asked calls ask within a call's time-out. The server does not answer a request that the user may not send. It reports
// the violation asynchronously instead; asked adds that report to the error.
func (s *natsSeen) asked(ctx context.Context, ask func(ctx context.Context) error) error {
	call, cancel := s.within(ctx)
	defer cancel()
	before := s.nc.LastError()
	err := ask(call)
	if now := s.nc.LastError(); err != nil && now != before && errors.Is(now, nats.ErrPermissionViolation) {
		return fmt.Errorf("%w: %w", err, now)
	}
	return err
}

// ask sends one request of the JetStream API.
func (s *natsSeen) ask(ctx context.Context, subject string, out any) error {
	return s.asked(ctx, func(ctx context.Context) error { return link.Ask(ctx, s.nc, subject, nil, out) })
}

// jetStream reports whether the account has JetStream.
func (s *natsSeen) jetStream(ctx context.Context) bool {
	var info struct {
		Storage int64 `json:"storage"`
		Streams int   `json:"streams"`
	}
	err := s.ask(ctx, apiInfo, &info)
	switch {
	case errors.Is(err, link.ErrNoJetStream):
		s.add(Fail, "jetstream",
			"off: no stream keeps pushes by tag, and due messages reach only subscribers that listen at that moment",
			"jetstream { store_dir: … } in nats-server.conf, and jetstream: enabled for the account", err)
		return false
	case err != nil:
		s.unchecked("jetstream", err, "let the user publish to "+apiInfo)
		return true // the streams will show it
	}
	s.ok("jetstream", "on, %s, %s stored", plural(info.Streams, "stream"), size(info.Storage))
	return true
}

// syncInterval checks the setting that decides whether an acknowledged message survives a power failure. Servers show
// it to the system account, and to the accounts to which it was exported.
func (s *natsSeen) syncInterval(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, min(s.timeout, 2*time.Second))
	defer cancel()
	var info struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Data struct {
			JetStream struct {
				Config struct {
					Interval time.Duration `json:"sync_interval"`
					Always   bool          `json:"sync_always"`
				} `json:"config"`
			} `json:"jetstream"`
		} `json:"data"`
	}
	msg, err := s.nc.RequestWithContext(call, "$SYS.REQ.SERVER.PING.VARZ", nil)
	if err == nil {
		err = json.Unmarshal(msg.Data, &info)
	}
	f, c := facts{"sync_interval": "unknown"}, info.Data.JetStream.Config
	if err == nil && (c.Always || c.Interval > 0) {
		f = facts{"sync_always": strconv.FormatBool(c.Always), "sync_interval": c.Interval.String(),
			"server": info.Server.Name}
	}
	s.apply(accountRules, f)
}

// clock reads the time of the server that leads the intake stream. Servers before 2.10 do not report it.
func (s *natsSeen) clock(ctx context.Context) (readings []reading) {
	for range 3 {
		var info link.StreamInfo
		sent := time.Now()
		err := s.ask(ctx, apiStreamInfo+link.StreamName(s.cfg.Namespace), &info)
		got := time.Now()
		if err != nil || info.TS.IsZero() {
			return readings
		}
		readings = append(readings, read("nats", info.TS, sent, got))
	}
	return readings
}
