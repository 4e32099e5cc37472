package tarry

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Option changes how a client finds tarry. The defaults fit a tarry with default settings.
type Option func(*config) error

type config struct {
	prefix    string
	namespace string
	timeout   time.Duration
	ackWait   time.Duration
	fixed     Route
	js        jetstream.JetStream
}

func newConfig(opts []Option) (config, error) {
	c := config{prefix: wire.DefaultPrefix, namespace: "default", timeout: 5 * time.Second, ackWait: 2 * time.Second}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&c); err != nil {
			return c, fmt.Errorf("tarry: option: %w", err)
		}
	}
	return c, nil
}

// WithPrefix sets the first part of the intake subjects, the daemon's setting nats.prefix. The default is "delayed".
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		c.prefix = prefix
		return wire.CheckPrefix(prefix)
	}
}

// WithNamespace selects the tarry to use, by the daemon's setting namespace. The default is "default".
func WithNamespace(name string) Option {
	return func(c *config) error {
		c.namespace = name
		if strings.Contains(name, ".") || wire.CheckSubject(name) != nil {
			return fmt.Errorf("namespace %q is not one token of a subject", name)
		}
		return nil
	}
}

// WithTimeout bounds a call whose context has no deadline. The default is 5 seconds.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		c.timeout = d
		if d <= 0 {
			return fmt.Errorf("timeout %v is not positive", d)
		}
		return nil
	}
}

// WithAckWait sets how long one attempt waits for its answer before the same message, under the same Nats-Msg-Id, is
// sent again within the time that is left. The default is 2 seconds.
func WithAckWait(d time.Duration) Option {
	return func(c *config) error {
		c.ackWait = d
		if d <= 0 {
			return fmt.Errorf("ack wait %v is not positive", d)
		}
		return nil
	}
}

// WithRoute fixes how a push reaches tarry. Without it a push takes the direct door, and the intake stream where that
// does not take it and certainly nothing was written. A PublishMsg that returns a PubAck takes the stream.
func WithRoute(r Route) Option {
	return func(c *config) error {
		c.fixed = r
		if r != ByStream && r != ByRequest {
			return fmt.Errorf("route %d is neither tarry.ByStream nor tarry.ByRequest", r)
		}
		return nil
	}
}

// WithJetStream sets the JetStream context through which a client finds and reaches the intake stream, for example one
// with a domain or an API prefix. A [JetStream] uses the context that it wraps.
func WithJetStream(js jetstream.JetStream) Option {
	return func(c *config) error {
		c.js = js
		if js == nil {
			return errors.New("the JetStream context is nil")
		}
		return nil
	}
}
