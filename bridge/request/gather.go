package request

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
)

// PeersConfig configures a Peers.
type PeersConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Instance is this instance's name.
	Instance string
	// Tell returns what this instance knows of a subject, as JSON, or nil if it does not know the subject.
	Tell func(what string) any
	Log  zerolog.Logger
}

// Peers gathers what each instance alone knows. It uses core NATS, on tarry.<namespace>.peers. What it gathers is
// shown to operators and decides nothing.
type Peers struct {
	cfg     PeersConfig
	subject string
}

// peersWithin is how long answers are waited for. A person waits as well.
const peersWithin = 500 * time.Millisecond

type peerAsk struct {
	By   string `json:"by"` // the instance that asks: it does not answer
	What string `json:"what"`
}

type peerTold struct {
	Instance string          `json:"instance"`
	Told     json.RawMessage `json:"told"`
}

// NewPeers returns a Peers. Every field of cfg must be set.
func NewPeers(cfg PeersConfig) *Peers {
	return &Peers{cfg: cfg, subject: "tarry." + cfg.Namespace + ".peers"}
}

// Run answers other instances until ctx ends.
func (p *Peers) Run(ctx context.Context) error {
	return hear(ctx, p.cfg.Conn, p.subject, p.cfg.Log, func(_ context.Context, request []byte) *reaction {
		var ask peerAsk
		if json.Unmarshal(request, &ask) != nil || ask.By == p.cfg.Instance {
			return nil
		}
		what := p.cfg.Tell(ask.What)
		if what == nil {
			return nil
		}
		told, err := json.Marshal(what)
		if err != nil {
			return nil
		}
		body, err := json.Marshal(peerTold{p.cfg.Instance, told})
		if err != nil {
			return nil
		}
		return &reaction{body: body}
	})
}

// Ask asks the named instances, and calls heard with each answer. It returns who gave none that could be heard.
func (p *Peers) Ask(ctx context.Context, what string, instances []string,
	heard func(instance string, told json.RawMessage) error) (missing []string, err error) {
	if missing = slices.Clone(instances); len(missing) == 0 {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, peersWithin)
	defer stop()
	text, err := json.Marshal(peerAsk{p.cfg.Instance, what})
	if err != nil {
		return missing, fmt.Errorf("ask the other instances: %w", err)
	}
	inbox := p.cfg.Conn.NewInbox()
	answers, err := p.cfg.Conn.SubscribeSync(inbox)
	if err != nil {
		return missing, fmt.Errorf("listen to the other instances: %w", err)
	}
	defer link.Unsubscribe(answers)
	if err := p.cfg.Conn.PublishRequest(p.subject, inbox, text); err != nil {
		return missing, fmt.Errorf("ask the other instances: %w", err)
	}
	for len(missing) > 0 {
		msg, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return missing, nil // those who are silent are missing
		}
		var from peerTold
		if json.Unmarshal(msg.Data, &from) != nil {
			continue
		}
		if at := slices.Index(missing, from.Instance); at >= 0 && heard(from.Instance, from.Told) == nil {
			missing = slices.Delete(missing, at, at+1)
		}
	}
	return missing, nil
}
