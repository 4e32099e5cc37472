package app

import (
	"fmt"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/webhook"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Reload reads the settings and applies those that may change while the instance runs. What refuses them, the checks
// show until a later reload succeeds.
func (a *App) Reload(load func() (config.Serve, error)) error {
	next, err := load()
	if err == nil {
		err = a.apply(next)
	}
	a.roster.reloaded(next, err)
	return err
}

// apply applies settings that were checked as a whole.
func (a *App) apply(next config.Serve) error {
	if err := a.useWebhooks(next); err != nil { // first: only this can still be refused
		return fmt.Errorf("reload: %w", err)
	}
	if err := useTopics(a.topics, next); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	a.api.SetTokens(tokensOf(next.HTTP.Tokens))
	log := a.log.Info().Int("topics", len(next.Topics)).Int("tokens", len(next.HTTP.Tokens))
	if names := a.cfg.NeedRestart(next); len(names) > 0 {
		log = log.Strs("need_a_restart", names)
	}
	log.Msg("settings loaded again")
	return nil
}

// tokensOf returns the settings' tokens in the HTTP API's form.
func tokensOf(list []config.Token) []api.Token {
	all := make([]api.Token, len(list))
	for i, t := range list {
		all[i] = api.Token{Name: t.Name, Hash: t.Hash(), Push: t.Push, Pull: t.Pull, Read: t.Read, Operate: t.Operate,
			Blind: !t.Bodies}
	}
	return all
}

// useTopics applies the settings of topics from now on, all or none of them.
func useTopics(t *scheduler.Topics, cfg config.Serve) error {
	fallback, err := scheduleOf(cfg.Retry)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	list := make([]*scheduler.Topic, len(cfg.Topics))
	for i, c := range cfg.Topics {
		schedule, err := scheduleOf(c.Retry)
		if err != nil {
			return fmt.Errorf("topics[%d].retry: %w", i, err)
		}
		deliver := ops.Delivers(c.Deliver)
		if c.Deliver == config.DeliverWebhook {
			deliver = scheduler.DeliverPull
		}
		list[i] = &scheduler.Topic{
			Pattern: c.Pattern, Retry: schedule, TTL: c.TTL, Rate: c.Rate, CatchUp: c.CatchUpRate,
			Deliver: deliver, Lease: c.Lease, Serial: c.Serial, Webhook: c.Deliver == config.DeliverWebhook,
			Dead: c.Dead, Expired: c.Expired, Drop: c.Core == "drop", Partitions: c.Partitions,
		}
	}
	t.Set(list, fallback)
	return nil
}

// useWebhooks applies the targets of webhooks, and where they may be.
func (a *App) useWebhooks(cfg config.Serve) error {
	allow, err := networks("webhook.allow", cfg.Webhook.Allow)
	if err != nil {
		return err
	}
	return a.webhooks.Use(targetsOf(cfg.Topics), allow)
}

// Check returns what else an instance would refuse in settings that were loaded.
func Check(cfg config.Serve) error { return webhook.Check(targetsOf(cfg.Topics)) }

// TopicOf returns the settings that apply to a topic; the zero Topic if no pattern matches it.
func TopicOf(cfg config.Serve, topic string) config.Topic {
	for _, one := range cfg.Topics {
		if scheduler.Matches(one.Pattern, topic) {
			return one
		}
	}
	return config.Topic{}
}

// targetsOf returns the targets of webhooks.
func targetsOf(topics []config.Topic) (all []webhook.Target) {
	for _, c := range topics {
		if c.Deliver != config.DeliverWebhook {
			continue
		}
		t := webhook.Target{Pattern: c.Pattern, URL: c.Webhook.URL, Timeout: c.Webhook.Timeout,
			Concurrency: c.Webhook.Concurrency, Batch: c.Webhook.Batch, Headers: c.Webhook.Headers}
		for _, secret := range c.Webhook.Secrets {
			t.Secrets = append(t.Secrets, secret.Reveal())
		}
		all = append(all, t)
	}
	return all
}

// scheduleOf reads a schedule; an empty text means no schedule.
func scheduleOf(text string) (message.Retry, error) {
	if text == "" {
		return message.Retry{}, nil
	}
	r, err := wire.ParseRetry(text)
	return message.Retry(r), err
}
