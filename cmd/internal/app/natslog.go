package app

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"
)

// natsLog takes what the embedded nats-server has to say: its troubles as
// ours, its chatter at debug.
type natsLog struct {
	log zerolog.Logger

	mu      sync.Mutex
	trouble error
}

func (l *natsLog) note(format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.trouble = errors.New(text)
	l.mu.Unlock()
	return text
}

// last is the last error or fatal message.
func (l *natsLog) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Noticef and the rest are nats-server's Logger.
func (l *natsLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Warnf(format string, v ...any)   { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Errorf(format string, v ...any)  { l.log.Warn().Msg(l.note(format, v)) }
func (l *natsLog) Fatalf(format string, v ...any)  { l.log.Error().Msg(l.note(format, v)) }
func (l *natsLog) Debugf(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *natsLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
