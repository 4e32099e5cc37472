package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Left is how many messages a namespace's streams hold in a NATS that is to be given up.
type Left struct {
	// Intake are pushes that were acknowledged and that no instance has ended yet, Rejects what could not be accepted.
	Intake, Rejects uint64
}

// Leftover asks what a NATS holds. A stream that is not there holds nothing.
func Leftover(ctx context.Context, nc *nats.Conn, namespace string) (left Left, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return Left{}, err
	}
	var standing uint64
	for name, n := range map[string]*uint64{
		StreamName(namespace): &left.Intake, AsideName(namespace): &standing, RejectsName(namespace): &left.Rejects,
	} {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return Left{}, fmt.Errorf("look up stream %s: %w", name, err)
		}
		*n = s.CachedInfo().State.Msgs
	}
	left.Intake += standing
	return left, nil
}

// CarryConfig says what is carried from where to where.
type CarryConfig struct {
	From, To          *nats.Conn
	Namespace, Prefix string
	// Replicas and MaxBytes are those of the intake stream that is made where To has none; 0 bytes is no limit.
	Replicas int
	MaxBytes int64
	// RejectBytes and RejectsPerSubject are those of the stream of rejects.
	RejectBytes, RejectsPerSubject int64
	// Known reports whether a push was accepted already: only its acknowledgement was lost.
	Known func(ctx context.Context, uid scheduler.UID) (bool, error)
	Log   zerolog.Logger
}

// Carried is what was carried, and what needed not to be.
type Carried struct{ Pushes, Known, Rejects int }

// Carry moves what one NATS holds of a namespace into another: pushes that no instance accepted, and rejects. Nobody
// may use the source meanwhile. A message leaves the source once the target has acknowledged it, so a carry that broke
// off goes on where it was; what the target had acknowledged unheard is recognized there for two minutes. A push keeps
// its time: a delay counts from when the source stored it, so it goes over as the time that it ends at.
func Carry(ctx context.Context, cfg CarryConfig) (done Carried, err error) {
	source, err := jetstream.New(cfg.From)
	if err != nil {
		return done, err
	}
	target := &Intake{
		cfg: IntakeConfig{Namespace: cfg.Namespace, Prefix: cfg.Prefix, Replicas: max(cfg.Replicas, 1),
			MaxBytes:    cfg.MaxBytes,
			RejectBytes: cfg.RejectBytes, RejectsPerSubject: cfg.RejectsPerSubject},
		nc: cfg.To, log: cfg.Log, stream: StreamName(cfg.Namespace), rejects: RejectsName(cfg.Namespace),
	}
	if target.js, err = jetstream.New(cfg.To); err != nil {
		return done, err
	}
	if err := target.open(ctx); err != nil {
		return done, err
	}
	push := func(raw *jetstream.RawStreamMsg) error {
		msg, uid := carried(raw, cfg.Prefix)
		if uid != "" {
			known, err := cfg.Known(ctx, uid)
			if known {
				done.Known++
			}
			if known || err != nil {
				return err
			}
		}
		done.Pushes++
		return target.put(ctx, msg, raw)
	}
	err = drain(ctx, source, AsideName(cfg.Namespace), func(raw *jetstream.RawStreamMsg) error {
		msg, place, err := decodeAside(raw.Data)
		if err != nil {
			cfg.Log.Warn().Err(err).Uint64("sequence", raw.Sequence).Msg("dropped a message that no instance put aside")
			return nil
		}
		return push(&jetstream.RawStreamMsg{
			Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Sequence: place.sequence, Time: place.at,
		})
	})
	if err != nil {
		return done, fmt.Errorf("carry pushes that stand aside: %w", err)
	}
	if err = drain(ctx, source, target.stream, push); err != nil {
		return done, fmt.Errorf("carry the intake: %w", err)
	}
	err = drain(ctx, source, target.rejects, func(raw *jetstream.RawStreamMsg) error {
		done.Rejects++
		return target.put(ctx, &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}, raw)
	})
	if err != nil {
		return done, fmt.Errorf("carry the rejects: %w", err)
	}
	return done, nil
}

// carried is a push as the other intake gets it, and the uid that it had here; none where it is none that could be
// accepted, which goes over as it is.
func carried(raw *jetstream.RawStreamMsg, prefix string) (*nats.Msg, scheduler.UID) {
	msg := &nats.Msg{Subject: raw.Subject, Header: nats.Header{}, Data: raw.Data}
	for name, values := range raw.Header {
		msg.Header[name] = values
	}
	tagged, err := wire.Decode(raw.Subject, prefix, raw.Header, len(raw.Data))
	if err != nil {
		return msg, ""
	}
	uid, err := scheduler.IntakeUID(raw.Sequence, raw.Time, tagged.ID, tagged.Key)
	if err != nil {
		return msg, ""
	}
	if tagged.DelayText != "" {
		for name := range msg.Header {
			if strings.EqualFold(name, wire.HeaderDelay) {
				delete(msg.Header, name)
			}
		}
		due := scheduler.CeilMilli(raw.Time.Add(tagged.Delay))
		msg.Header[wire.HeaderAt] = []string{strconv.FormatInt(int64(due), 10)}
	}
	return msg, uid
}

// put publishes a message once, however often it is repeated within the duplicate window.
func (in *Intake) put(ctx context.Context, msg *nats.Msg, raw *jetstream.RawStreamMsg) error {
	ctx, stop := context.WithTimeout(ctx, rejectTimeout)
	defer stop()
	_, err := in.js.PublishMsg(ctx, msg,
		jetstream.WithMsgID(fmt.Sprintf("carried-%d-%d", raw.Time.UnixNano(), raw.Sequence)))
	return err
}

// drain hands every message of a stream to do, in order, and removes it from the stream once that has returned no
// error.
func drain(ctx context.Context, js jetstream.JetStream, name string, do func(*jetstream.RawStreamMsg) error) error {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	for next := uint64(1); ; {
		call, stop := context.WithTimeout(ctx, 2*apiTimeout)
		raw, err := s.GetMsg(call, next, jetstream.WithGetMsgSubject(">"))
		stop()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(raw); err != nil {
			return err
		}
		if err := s.DeleteMsg(ctx, raw.Sequence); err != nil {
			return err
		}
		next = raw.Sequence + 1
	}
}
