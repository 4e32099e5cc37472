package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// ClockSource is what NATS's clock is called in scheduler.Clock.
const ClockSource = "nats"

const (
	sampleEvery = time.Second
	// resampleEvery is for servers that do not tell the time: one may be replaced by a newer one.
	resampleEvery = time.Minute
)

// ClockConfig is what a ClockSampler is made of.
type ClockConfig struct {
	Conn      *nats.Conn
	Namespace string
	Clock     *scheduler.Clock
	Log       zerolog.Logger
}

// ClockSampler tells a scheduler.Clock what time it is on the NATS server that
// leads the intake stream: the clock that stamps pushes.
type ClockSampler struct {
	cfg ClockConfig
	log zerolog.Logger
}

// NewClockSampler checks the configuration.
func NewClockSampler(cfg ClockConfig) (*ClockSampler, error) {
	if cfg.Conn == nil || cfg.Clock == nil || cfg.Namespace == "" {
		return nil, errors.New("clock of nats: a connection, a clock and a namespace are needed")
	}
	return &ClockSampler{cfg: cfg, log: cfg.Log.With().Str("component", "clock").Logger()}, nil
}

// Run samples every second until ctx ends. Where there is no intake stream, or
// the server is too old to tell the time (2.9), there are no samples and the
// other clocks decide.
func (c *ClockSampler) Run(ctx context.Context) error {
	told := false
	for {
		pause := sampleEvery
		ok, err := c.sample(ctx)
		if err == nil && !ok {
			pause = resampleEvery
			c.cfg.Clock.Forget(ClockSource)
			if !told {
				c.log.Info().Str("version", c.cfg.Conn.ConnectedServerVersion()).Msg("this nats server does not tell its time")
			}
			told = true
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// sample asks once; false when the answer holds no time.
func (c *ClockSampler) sample(ctx context.Context) (bool, error) {
	if !c.cfg.Conn.IsConnected() {
		return false, nats.ErrDisconnected
	}
	var info streamInfo
	sent := c.cfg.Clock.Mono()
	err := apiAsk(ctx, c.cfg.Conn, apiStreamInfo+StreamName(c.cfg.Namespace), nil, &info)
	got := c.cfg.Clock.Mono()
	if err != nil || info.TS.IsZero() {
		return false, err
	}
	c.cfg.Clock.Sample(ClockSource, info.TS, sent, got)
	return true, nil
}
