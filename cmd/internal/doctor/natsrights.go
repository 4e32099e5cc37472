package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
)

// rights checks whether the user may publish and subscribe to what tarry needs.
func (s *natsSeen) rights(ctx context.Context) {
	ns := s.cfg.Namespace
	var heard []string
	for _, subject := range []string{"tarry." + ns + ".nudge", "tarry." + ns + ".resign", "tarry." + ns + ".peers",
		"tarry." + ns + ".api.push", "tarry." + ns + ".read.list", "$SRV.PING", "$JS.EVENT.ADVISORY.STREAM.*.*"} {
		if err := s.maySubscribe(ctx, subject); errors.Is(err, nats.ErrPermissionViolation) {
			heard = append(heard, subject)
		} else if err != nil {
			s.unchecked("subscribe", err, "")
			return
		}
	}
	if len(heard) > 0 {
		s.fail("subscribe", "the user may not subscribe to "+shorten(heard),
			"let it subscribe to _INBOX.>, tarry."+ns+".>, $SRV.> and $JS.EVENT.ADVISORY.STREAM.>")
	} else {
		s.ok("subscribe", "the user may subscribe to everything that tarry needs")
	}
	s.publish(ctx)
}

// publishChange lists what the user of an instance may publish to, as in the template of docs/access.md.
func publishChange(ns string) string {
	return fmt.Sprintf(
		"let the user publish to tarry.%s.>, _INBOX.>, $JS.ACK.%s.>, the subjects below $JS.API that docs/access.md "+
			"lists for the user of an instance, and the subjects that messages are due on", ns, link.StreamName(ns))
}

// publish tries to publish. It sends messages that nobody reads: one to the doctor's own subject, one to an inbox, an
// acknowledgement of nothing, and requests that are not JSON.
func (s *natsSeen) publish(ctx context.Context) {
	ns := s.cfg.Namespace
	var missing []string
	pushes := link.StreamName(ns)
	for _, subject := range []string{"tarry." + ns + ".doctor", "_INBOX.doctor", "$JS.ACK." + pushes + ".tarry.doctor",
		"$JS.API.STREAM.CREATE." + pushes, "$JS.API.CONSUMER.CREATE." + pushes + ".tarry",
		"$JS.API.STREAM.CREATE." + link.RejectsName(ns), "$JS.API.STREAM.MSG.GET." + link.RejectsName(ns)} {
		err := s.observed(ctx, func() error { return s.nc.Publish(subject, []byte("doctor")) })
		if errors.Is(err, nats.ErrPermissionViolation) {
			missing = append(missing, subject)
		} else if err != nil {
			s.unchecked("publish", err, publishChange(ns))
			return
		}
	}
	if len(missing) > 0 {
		s.fail("publish", "the user may not publish to subjects like "+shorten(missing), publishChange(ns))
		return
	}
	s.ok("publish", "the user may publish under tarry.%s and to JetStream; only deliveries show whether it may "+
		"publish to the subjects that messages are due on", ns)
}

// maySubscribe subscribes for a moment. It joins no queue group, so it takes no message from others.
func (s *natsSeen) maySubscribe(ctx context.Context, subject string) error {
	var sub *nats.Subscription
	err := s.observed(ctx, func() (err error) {
		sub, err = s.nc.SubscribeSync(subject)
		return err
	})
	if sub != nil {
		_ = sub.Unsubscribe() // fails if the server refused it
	}
	return err
}

// observed calls do and returns the violation that the server reports for it. The report arrives before the answer to
// the flush.
func (s *natsSeen) observed(ctx context.Context, do func() error) error {
	call, cancel := s.within(ctx)
	defer cancel()
	before := s.nc.LastError()
	if err := do(); err != nil {
		return err
	}
	if err := s.nc.FlushWithContext(call); err != nil {
		return err
	}
	now := s.nc.LastError()
	if now == nil || now == before {
		return nil
	}
	if strings.Contains(strings.ToLower(now.Error()), "permissions violation") {
		return now
	}
	return nil
}
