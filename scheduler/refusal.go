package scheduler

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// refusalLook is how often the leader looks for transitions that were refused.
const refusalLook = 10 * time.Second

// watchRefusals returns a look that counts and logs each message of which a transition was refused, once a term.
func (l *leadership) watchRefusals() func(context.Context) error {
	known := map[message.UID]message.Transition{}
	return func(ctx context.Context) error {
		for bucket := range message.Bucket(len(l.scanners)) {
			var refused []Refusal
			err := l.call(ctx, func(ctx context.Context) (err error) {
				refused, err = l.timeline.Refused(ctx, bucket)
				return err
			})
			if err != nil { // the next look, or the next leader, finds them
				if ctx.Err() == nil {
					l.s.log.Warn().Err(err).Int("bucket", int(bucket)).Msg("refused transitions cannot be read")
				}
				continue
			}
			for _, r := range refused {
				if step, is := known[r.UID]; is && step == r.Transition {
					continue
				}
				if len(known) >= MaxRefusals*int(message.Bucket(len(l.scanners))) {
					clear(known) // long ago; some are logged again
				}
				known[r.UID] = r.Transition
				l.s.metrics.barred.Inc()
				if r.Unreadable {
					l.s.log.Error().Str("uid", string(r.UID)).Int("bucket", int(bucket)).
						Msg("the record of a message cannot be read; it stays as it is")
					continue
				}
				l.s.log.Error().Str("uid", string(r.UID)).Int("bucket", int(bucket)).Str("from", r.From.String()).Str(
					"to", r.To.String()).
					Str("kind", r.Kind.String()).Msg("a transition was refused; the message stays as it was")
			}
		}
		return nil
	}
}

// Refusal is a transition that a store was asked for and did not make.
type Refusal struct {
	UID    message.UID
	Bucket message.Bucket
	message.Transition
	At message.Milli
	// Unreadable: the record of the message is damaged, so that nobody knows its state. From is then StateNone, and To
	// is the state that the refused call would have given it.
	Unreadable bool
}

// MaxRefusals bounds how many refusals a bucket keeps.
const MaxRefusals = 1000
