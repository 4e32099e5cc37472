package client

import (
	"context"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Pulled is a leased message.
type Pulled struct {
	ID         string              `json:"id"`
	Headers    map[string][]string `json:"headers"`
	Due        string              `json:"due"`
	Attempt    uint32              `json:"attempt"`
	Receipt    string              `json:"receipt"`
	LeaseUntil string              `json:"lease_until"`
	Body       *string             `json:"body"`
	BodyBase64 []byte              `json:"body_base64"`
}

// Pull leases ready messages of a topic, or waits for some.
func (c *Client) Pull(ctx context.Context, topic string, order any) (found []Pulled, raw []byte, err error) {
	patient := *c
	patient.cfg.Timeout += wire.MaxWait + time.Second
	answer, raw, err := Ask[struct {
		Messages []Pulled `json:"messages"`
	}](ctx, &patient, http.MethodPost, "/v1/topics/"+Step(topic)+"/pull", order)
	return answer.Messages, raw, err
}

// SettleResult is the outcome for one receipt: a message as it is now, or a problem.
type SettleResult struct {
	wire.Settled
	Word   string `json:"error"`
	Detail string `json:"detail"`
}
