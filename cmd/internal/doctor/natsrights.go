package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// permissions are a user's rights as a server (2.9 or later) reports them to the user; nil means all.
type permissions struct {
	Publish *struct {
		Allow []string `json:"allow"`
		Deny  []string `json:"deny"`
	} `json:"publish"`
	Responses *struct{} `json:"responses"`
}

// may reports whether everything that a filter matches may be published.
func (p *permissions) may(filter string) bool {
	if p == nil || p.Publish == nil {
		return true
	}
	within := func(allowed string) bool { return wire.Covers(allowed, filter) }
	meets := func(denied string) bool { return wire.Overlap(denied, filter) }
	return (len(p.Publish.Allow) == 0 || slices.ContainsFunc(p.Publish.Allow, within)) &&
		!slices.ContainsFunc(p.Publish.Deny, meets)
}

// rights checks whether the user may publish and subscribe to what tarry needs.
func (s *natsSeen) rights(ctx context.Context, streams []link.StreamInfo) {
	ns := s.cfg.Namespace
	var heard []string
	for _, subject := range []string{"tarry." + ns + ".nudge", "tarry." + ns + ".resign", "tarry." + ns + ".api.push",
		"tarry." + ns + ".read.list", "$SRV.PING", "$JS.EVENT.ADVISORY.STREAM.*.*"} {
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
	reported, known := s.permissions(ctx)
	if known {
		s.publish(reported, streams)
		return
	}
	s.publishTried(ctx)
}

// permissions asks the server what this user may do. It returns false if the server does not answer.
func (s *natsSeen) permissions(ctx context.Context) (*permissions, bool) {
	call, cancel := context.WithTimeout(ctx, min(s.timeout, 2*time.Second))
	defer cancel()
	msg, err := s.nc.RequestWithContext(call, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return nil, false
	}
	var answer struct {
		Data *struct {
			Permissions *permissions `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil || answer.Data == nil {
		return nil, false
	}
	return answer.Data.Permissions, true
}

// publishChange lists what the user of an instance may publish to, as in the template of docs/access.md.
func publishChange(ns string) string {
	return fmt.Sprintf(
		"let the user publish to tarry.%s.>, _INBOX.>, $JS.ACK.%s.>, the subjects below $JS.API that docs/access.md "+
			"lists for the user of an instance, and the subjects that messages are due on", ns, link.StreamName(ns))
}

// publish checks the permissions that the server reported.
func (s *natsSeen) publish(may *permissions, streams []link.StreamInfo) {
	ns := s.cfg.Namespace
	pushes, refused, aside := link.StreamName(ns), link.RejectsName(ns), intake.AsideName(ns)
	subjects := []string{"tarry." + ns + ".nudge", "tarry." + ns + ".resign", link.RejectsSubject(ns) + ".any",
		intake.AsideSubject(ns) + ".0", apiStreamList}
	for _, name := range []string{pushes, refused, aside} {
		subjects = append(subjects, apiStreamInfo+name, "$JS.API.STREAM.CREATE."+name, "$JS.API.STREAM.UPDATE."+name)
	}
	subjects = append(subjects, "$JS.API.STREAM.PURGE."+refused, "$JS.API.STREAM.MSG.GET."+refused,
		"$JS.API.STREAM.MSG.DELETE."+refused)
	subjects = append(subjects, "$JS.API.STREAM.PURGE."+aside, "$JS.API.CONSUMER.CREATE."+aside+".>",
		"$JS.API.CONSUMER.MSG.NEXT."+aside+".>", "$JS.API.CONSUMER.DELETE."+aside+".>")
	subjects = append(subjects, "$JS.API.CONSUMER.CREATE."+pushes+".tarry", apiConsumerInfo+pushes+".tarry",
		"$JS.API.CONSUMER.DELETE."+pushes+".tarry", "$JS.API.CONSUMER.MSG.NEXT."+pushes+".tarry",
		"$JS.ACK."+pushes+".tarry.>")
	if may == nil || may.Responses == nil {
		subjects = append(subjects, "_INBOX.>")
	}
	missing := slices.DeleteFunc(subjects, may.may)
	if len(missing) > 0 {
		s.fail("publish", "the user may not publish to "+shorten(missing), publishChange(ns))
		return
	}
	var closed []string
	n := 0
	for i := range streams {
		if !isDestination(&streams[i]) {
			continue
		}
		n++
		if !slices.ContainsFunc(streams[i].Config.Subjects, may.may) {
			closed = append(closed, streams[i].Config.Name)
		}
	}
	switch {
	case n > 0 && len(closed) == n:
		s.warn("publish", "the user may not publish to the subjects of any stream: "+shorten(closed), publishChange(ns))
	case len(closed) > 0:
		s.ok("publish", "the user may publish to everything that tarry needs, except to the subjects of %s: no "+
			"message can be due on those", shorten(closed))
	default:
		s.ok("publish", "the user may publish to everything that tarry needs")
	}
}

// publishTried tries to publish if the server does not report permissions. It sends messages that nobody reads: one to
// the doctor's own subject, an acknowledgement of nothing, and a request that is not JSON.
func (s *natsSeen) publishTried(ctx context.Context) {
	ns := s.cfg.Namespace
	var missing []string
	for _, subject := range []string{"tarry." + ns + ".doctor", "$JS.ACK." + link.StreamName(ns) + ".tarry.doctor",
		"$JS.API.STREAM.CREATE." + link.StreamName(ns)} {
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
	s.ok("publish", "the user may publish under tarry.%s and to JetStream; this server does not show whether the "+
		"user may publish to the subjects that messages are due on", ns)
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
