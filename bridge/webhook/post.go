package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	// answerBytes is how much of an answer is read, so that the connection can be used again.
	answerBytes = 4 << 10
	// retryAfterMost bounds how long a target may ask not to be tried.
	retryAfterMost = 24 * time.Hour
)

// verdict is what a target's answer means for the messages of a request.
type verdict struct {
	verb   scheduler.Verb // Ack, Nack, Bury or, while this instance stops or if it may not post there, Release
	reason string         // for the history: the status, never the answer's body
	after  time.Duration  // how long the target asks not to be tried
	all    bool           // it is about the target, and says nothing of one message or another
}

// post posts messages and judges the answer.
func (s *Service) post(ctx context.Context, t *target, g group) verdict {
	v := s.ask(ctx, t, g)
	if v.verb == scheduler.Release { // it shows nothing of the target
		if v.reason != "" {
			t.closed.Store(time.Now().Add(closedFor).UnixNano())
			s.note(ctx, t, v)
		}
		return v
	}
	outcome := map[scheduler.Verb]string{scheduler.Ack: "delivered", scheduler.Nack: "failed", scheduler.Bury: "gone"}
	s.posts.WithLabelValues(t.Pattern, outcome[v.verb]).Inc()
	s.note(ctx, t, v)
	return v
}

func (s *Service) ask(ctx context.Context, t *target, g group) verdict {
	ctx, stop := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("no answer within %s", t.timeout))
	defer stop()
	began := time.Now()
	r, err := s.request(ctx, t, g)
	if err == nil {
		var a *http.Response
		if a, err = s.client.Load().Do(r); err == nil {
			s.seconds.Observe(time.Since(began).Seconds())
			unread := context.AfterFunc(ctx, func() { _ = a.Body.Close() }) // after 101 nothing else ends it
			_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, answerBytes)) // the status has said everything
			if unread() {
				_ = a.Body.Close()
			}
			return judge(a, time.Now())
		}
	}
	if errors.Is(context.Cause(ctx), errStopping) { // no fault of the message's: it counts as no try
		return verdict{verb: scheduler.Release, all: true}
	}
	if refused := (*refusal)(nil); errors.As(err, &refused) && refused.setting { // others may have another
		return verdict{verb: scheduler.Release, reason: refused.Error(), all: true}
	}
	return verdict{verb: scheduler.Nack, reason: "the target could not be asked: " + trouble(ctx, err), all: true}
}

// trouble says why a request failed, in words of its own: an error may hold the URL, or what the target sent.
func trouble(ctx context.Context, err error) string {
	var refused *refusal
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &name):
		return "its name cannot be resolved"
	case errors.As(err, &certificate):
		return "its certificate is not accepted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, os.ErrDeadlineExceeded):
		return "it cannot be reached"
	}
	return "it does not speak HTTP as expected"
}

// judge reads the status of an answer.
func judge(a *http.Response, now time.Time) verdict {
	v := verdict{verb: scheduler.Nack, reason: fmt.Sprintf("the target answered %d", a.StatusCode)}
	switch {
	case a.StatusCode >= 200 && a.StatusCode < 300:
		v.verb = scheduler.Ack
	case a.StatusCode == http.StatusGone:
		v.verb = scheduler.Bury
	default:
		if a.Header.Get("Location") != "" {
			v.reason += " (redirects are not followed)"
		}
		v.after = min(retryAfter(a.Header.Get("Retry-After"), now), retryAfterMost)
		switch a.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout:
			v.all = true
		default:
			v.all = v.after > 0
		}
	}
	return v
}

// retryAfter reads a Retry-After header: seconds or a date. It returns 0 if there is none.
func retryAfter(text string, now time.Time) time.Duration {
	// What has too many digits is a long time, and not none.
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(retryAfterMost/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// request builds the request for messages. A target with Batch always gets an array, one of one message too.
func (s *Service) request(ctx context.Context, t *target, g group) (*http.Request, error) {
	id, body, kind := string(g[0].UID), g[0].Body, "application/octet-stream"
	if t.Batch > 0 {
		list := make([]ops.Pulled, len(g))
		uids := sha256.New()
		for i, m := range g {
			list[i] = ops.PulledOf(m, 0)
			_, _ = io.WriteString(uids, string(m.UID)) // never fails
		}
		body, kind = ops.AppendPosted(nil, list), "application/json"
		if len(g) > 1 {
			id = "batch_" + hex.EncodeToString(uids.Sum(nil)[:16])
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("User-Agent", "tarry/"+s.cfg.Version)
	if t.Batch == 0 {
		t.describe(r.Header, g[0])
	}
	now := time.Now()
	signatures := make([]string, len(t.signers))
	for i, signer := range t.signers {
		if signatures[i], err = signer.Sign(id, now, body); err != nil {
			return nil, err
		}
	}
	r.Header.Set(standardwebhooks.HeaderWebhookID, id)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return r, nil
}

// describe adds the headers of a message, and those that say what it is, as on NATS.
func (t *target) describe(h http.Header, m *scheduler.PulledMessage) {
	given := http.Header{}
	for _, one := range m.Headers {
		given.Add(one.Name, one.Value)
	}
	for name, values := range given {
		allowed := func(s string) bool { return plain(s) == plain(name) }
		if ours := plain(name); name == scheduler.ReasonHeader || !reserved(ours) &&
			(!speaks(ours) || slices.ContainsFunc(t.Headers, allowed)) {
			h[name] = values
		}
	}
	id := cmp.Or(m.ID, string(m.UID))
	for name, value := range map[string]string{wire.HeaderSubject: m.Topic, wire.HeaderID: id, wire.HeaderKey: m.Key,
		wire.HeaderDue:     strconv.FormatInt(int64(m.Due), 10),
		wire.HeaderAttempt: strconv.FormatUint(uint64(m.Attempt+m.Mark.Refusals), 10)} {
		if value != "" {
			h.Set(name, value)
		}
	}
}

// plain returns a header's name as receivers compare it, some of which take an underscore for a hyphen.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// reserved reports whether a header belongs to the connection, to the request as a whole, or to tarry.
func reserved(name string) bool {
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "tarry-") || slices.Contains([]string{
		"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
		"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}, name)
}

// speaks reports whether receivers take a header for rights, or for the word of a proxy before them on the caller or
// the request. Such words of a producer go to the target only where its topic allows them.
func speaks(name string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.ContainsFunc([]string{"ssl-client-", "x-amzn-", "x-appengine-", "x-auth-", "x-authenticated-",
		"x-envoy-", "x-forwarded", "x-goog-", "x-ms-client-", "x-original-", "x-ssl-"}, begins) || slices.Contains([]string{
		"authorization", "cf-connecting-ip", "client-ip", "cookie", "cookie2", "fastly-client-ip", "forwarded", "proxy",
		"remote-user", "true-client-ip", "user-agent", "via", "x-api-key", "x-client-ip", "x-cluster-client-ip", "x-host",
		"x-http-method", "x-http-method-override", "x-method-override", "x-real-ip", "x-remote-user",
		"x-rewrite-url", "x-user", "x-webauth-user"}, name)
}
