package lead

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// refusalLook is how often the leader looks for transitions that were refused.
const refusalLook = 10 * time.Second

// watchRefusals returns a look that counts and logs each message of which a transition was refused, once a term.
func (l *leadership) watchRefusals() func(context.Context) error {
	known := map[message.UID]message.Transition{}
	return func(ctx context.Context) error {
		for bucket := range message.Bucket(len(l.scanners)) {
			var refused []scheduler.Refusal
			err := l.call(ctx, func(ctx context.Context) (err error) {
				refused, err = l.cfg.Timeline.Refused(ctx, bucket)
				return err
			})
			if err != nil { // the next look, or the next leader, finds them
				if ctx.Err() == nil {
					l.log.Warn().Err(err).Int("bucket", int(bucket)).Msg("refused transitions cannot be read")
				}
				continue
			}
			for _, r := range refused {
				if step, is := known[r.UID]; is && step == r.Transition {
					continue
				}
				if len(known) >= scheduler.MaxRefusals*int(message.Bucket(len(l.scanners))) {
					clear(known) // long ago; some are logged again
				}
				known[r.UID] = r.Transition
				l.metrics.barred.Inc()
				if r.Unreadable {
					l.log.Error().Str("uid", string(r.UID)).Int("bucket", int(bucket)).
						Msg("the record of a message cannot be read; it stays as it is")
					continue
				}
				l.log.Error().Str("uid", string(r.UID)).Int("bucket", int(bucket)).Str("from", r.From.String()).Str(
					"to", r.To.String()).
					Str("kind", r.Kind.String()).Msg("a transition was refused; the message stays as it was")
			}
		}
		return nil
	}
}
