package intake

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// lookShown bounds what Look returns.
const lookShown = 100

// Look finds pushes that no instance has accepted. Of the intake it reads those of the topic alone, where one is named.
// It takes nothing from the streams.
func (c *Contents) Look(ctx context.Context, q ops.WhyQuery) (found []ops.WhyPush, looked []ops.WhyPlace) {
	read := func(place, stream, filter string, see func(*jetstream.RawStreamMsg)) {
		p := ops.WhyPlace{Place: place, Whole: true}
		if err := c.each(ctx, stream, filter, func(raw *jetstream.RawStreamMsg) bool {
			if q.Most == 0 || len(found) >= lookShown {
				p.Whole = false
				return false
			}
			q.Most--
			p.Read++
			see(raw)
			return true
		}); err != nil {
			if p.Whole = false; p.Read == 0 || ctx.Err() == nil { // else the time is over, which Read says
				p.Error = err.Error()
			}
		}
		looked = append(looked, p)
	}
	take := func(subject string, header map[string][]string, place link.Place, why message.Why) {
		push := ops.WhyPush{Topic: strings.TrimPrefix(subject, q.Prefix+"."), At: message.Milli(place.At.UnixMilli()),
			Why: why}
		for name, values := range header {
			switch http.CanonicalHeaderKey(name) {
			case wire.HeaderID:
				push.ID = values[0]
			case wire.HeaderKey:
				push.Key = values[0]
			}
		}
		uid, err := place.UID(push.ID, push.Key)
		if push.UID = string(uid); err == nil && (q.See == nil || q.See(push.Topic)) &&
			(q.Topic == "" || q.Topic == push.Topic) && (q.Key == "" || q.Key == push.Key) &&
			(q.ID == "" || slices.Contains([]string{push.ID, push.UID}, q.ID)) {
			found = append(found, push)
		}
	}
	filter := ">"
	if q.Topic != "" {
		filter = wire.IntakeSubject(q.Prefix, q.Topic)
	}
	read("intake", c.stream, filter, func(raw *jetstream.RawStreamMsg) {
		take(raw.Subject, raw.Header, link.Place{Sequence: raw.Sequence, At: raw.Time}, message.Why{
			Word: message.WhyInIntake, Detail: "no instance has accepted the push"})
	})
	read("aside", AsideName(c.namespace), ">", func(raw *jetstream.RawStreamMsg) {
		if m, place, err := decodeAside(raw.Data); err == nil {
			take(m.Subject, m.Header, place, message.Why{Word: message.WhySetAside,
				Detail: "its part of the store does not answer, so the push was set aside"})
		}
	})
	return found, looked
}

// each shows what a stream of the intake holds that is not accepted, until see returns false.
func (c *Contents) each(ctx context.Context, stream, filter string, see func(*jetstream.RawStreamMsg) bool) error {
	held, err := c.held(ctx, stream)
	if c.absent(err) || err == nil && held.count == 0 {
		return nil
	}
	var s jetstream.Stream
	js, failed := jetstream.New(c.nc)
	if err = errors.Join(err, failed); err == nil {
		s, err = js.Stream(ctx, stream)
	}
	for next := held.first; err == nil && next <= held.last; {
		var raw *jetstream.RawStreamMsg
		raw, err = s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && !see(raw) {
			return nil
		}
		if err == nil {
			next = raw.Sequence + 1
		}
	}
	return err
}
